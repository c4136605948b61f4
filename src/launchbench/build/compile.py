"""Compiles ``graphs.cu`` into the three products that one run uses on every card, and says what it did.

It looks for no toolkit and measures nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from launchbench import __version__
from launchbench.build.temporary import remove_abandoned, temporary_folder
from launchbench.build.toolkit import Toolkit
from launchbench.errors import LaunchbenchError
from launchbench.programs import Ended, run

PRODUCTS: dict[str, tuple[str, ...]] = {
    "graphs": (),
    "graphs.fatbin": ("-fatbin",),
    "liblaunchloops.so": ("-shared", "-Xcompiler", "-fPIC", "-DLAUNCHBENCH_LIBRARY"),
}
"""Each file that is built, with the flags of nvcc that only it has."""

MANIFEST = "build.json"
"""Written last: where it is, the products beside it are complete and those that it describes."""

TEMPORARY_PREFIX = ".tmp-launchbench-"

COMMON_FLAGS = ("-O2", "-std=c++17", "-lineinfo")

_ARCHITECTURE = re.compile(r"sm_(\d+)([af]?)")
_NVCC_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


def build(source: Path, out_dir: Path, architectures: Sequence[str], toolkit: Toolkit) -> None:
    """Compiles ``source`` into ``out_dir``: the `PRODUCTS`, and last the manifest `build.json`.

    The products replace older ones only when all of them were compiled. nvcc's own lines go to stderr.

    Args:
        source: the CUDA source.
        out_dir: made if it is missing.
        architectures: machine code to build, such as ["sm_80", "sm_90"]; PTX of the newest is added.
        toolkit: the nvcc to use.

    Raises:
        LaunchbenchError: an architecture is not one or is unknown to nvcc, the host compiler is missing or
            not accepted, a disk is full, or the source does not compile.
    """
    flags = [*COMMON_FLAGS, *code_flags(architectures)]
    if not source.is_file():
        raise LaunchbenchError(f"{source}: no such file; it is the source of the kernels")
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        remove_abandoned(out_dir, TEMPORARY_PREFIX)
        with temporary_folder(out_dir, TEMPORARY_PREFIX) as temporary:
            compiler = _host_compiler(toolkit, temporary)
            for name, own_flags in PRODUCTS.items():
                print(f"launchbench: nvcc {toolkit.version} compiles {name}", file=sys.stderr)
                _nvcc(toolkit, [*flags, *own_flags, "-o", str(temporary / name), str(source)], architectures)
                if not (temporary / name).is_file():  # as with --dryrun in one of the variables
                    told = f"nvcc {toolkit.version} ({toolkit.source}) ended well and did not write {name}"
                    raise LaunchbenchError(f"{told}; are {', '.join(_NVCC_VARIABLES[:2])} what they should be?")
            manifest = _manifest(source, temporary, flags, architectures, toolkit, compiler)
            (temporary / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            (out_dir / MANIFEST).unlink(missing_ok=True)
            for name in (*PRODUCTS, MANIFEST):
                (temporary / name).replace(out_dir / name)
    except OSError as error:
        raise LaunchbenchError(f"{out_dir}: the build cannot be written ({error.strerror})") from error


def build_flags() -> str:
    """Everything but source, architectures and compiler that decides the products, as text."""
    environment = {name: os.environ[name] for name in _NVCC_VARIABLES if os.environ.get(name)}
    return json.dumps({"common": COMMON_FLAGS, "products": PRODUCTS, "environment": environment}, sort_keys=True)


def code_flags(architectures: Sequence[str]) -> list[str]:
    """The -gencode flags of nvcc: machine code of each architecture, and PTX of the newest for later cards.

    The PTX is that of the plain architecture: the PTX of sm_90a or sm_100f runs on no later card.

    Raises:
        LaunchbenchError: the list is empty, or an entry is not sm_NN, sm_NNa or sm_NNf.
    """
    flags = []
    newest = 0
    for name in architectures:
        match = _ARCHITECTURE.fullmatch(name)
        if not match:
            hint = " (the binary may be built on a machine without the card)" if name == "native" else ""
            raise LaunchbenchError(f"architectures: {name!r} is not one of the form sm_90{hint}")
        flags += ["-gencode", f"arch=compute_{match[1]}{match[2]},code={name}"]
        newest = max(newest, int(match[1]))
    if not flags:
        raise LaunchbenchError("architectures: the list is empty; give at least one, such as sm_90")
    return [*flags, "-gencode", f"arch=compute_{newest},code=compute_{newest}"]


def accepts(toolkit: Toolkit, architectures: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """What nvcc would make of a build, without one.

    Returns:
        A line for each architecture that it does not know; name and version of the C++ compiler that it takes.

    Raises:
        LaunchbenchError: there is no C++ compiler that it takes.
    """
    nvcc = f"nvcc {toolkit.version} ({toolkit.source})"
    known = _known_architectures(toolkit)
    with tempfile.TemporaryDirectory() as folder:
        compiler = _host_compiler(toolkit, Path(folder))
    unknown = [name for name in architectures if known and int(re.sub(r"\D", "", name)) not in known]
    return [_unknown_architecture(name, nvcc, toolkit) for name in unknown], compiler


def _nvcc(toolkit: Toolkit, arguments: Sequence[str], architectures: Sequence[str] = ()) -> str:
    """Runs nvcc, passes what it prints to stderr on, and returns its standard output."""
    done = _run(toolkit, arguments)
    sys.stderr.write(done.err)
    if done.exit_status != 0:
        raise LaunchbenchError(_reason(done, toolkit, architectures))
    return str(done.out)


def _run(toolkit: Toolkit, arguments: Sequence[str]) -> Ended:
    command = [str(toolkit.nvcc)]
    command += [f"-I{folder}" for folder in toolkit.include_dirs]
    command += [f"-L{folder}" for folder in toolkit.library_dirs]
    try:
        return run(
            [*command, *arguments],
            text=True,
            errors="replace",
            start_new_session=True,  # nvcc starts compilers
            first=signal.SIGINT,  # after which nvcc removes its temporary files, unlike after SIGTERM
        )
    except OSError as error:
        raise LaunchbenchError(f"{toolkit.nvcc} cannot be started ({error.strerror})") from error


def _reason(done: Ended, toolkit: Toolkit, architectures: Sequence[str]) -> str:
    """One line for what nvcc said."""
    # The message of an #error stands in standard output when only the preprocessor ran.
    output = done.err + done.out
    nvcc = f"nvcc {toolkit.version} ({toolkit.source})"
    if match := re.search(r"Unsupported gpu architecture '(?:compute|sm)_(\w+)'", output):
        return _unknown_architecture(f"sm_{match[1]}", nvcc, toolkit)
    if "No space left on device" in output:
        folder = tempfile.gettempdir()
        return f"{nvcc}: no space left, in the build folder or in {folder} (TMPDIR names another)"
    if match := re.search(r"#error\s+(?:-- )?(unsupported .*)", output):
        return (
            f"{nvcc} does not accept the C++ compiler of this machine: {match[1].strip()}; "
            "choose another with NVCC_PREPEND_FLAGS='-ccbin COMPILER'"
        )
    if "Failed to preprocess host compiler properties" in output or "Cannot find compiler" in output:
        return f"{nvcc} found no C++ compiler; install g++, or set NVCC_PREPEND_FLAGS='-ccbin COMPILER'"
    told = re.search(r"^.*\b(?:error|fatal)\b.*$", output, re.MULTILINE | re.IGNORECASE)
    return f"{nvcc} failed: {told[0].strip() if told else done.how}"


def _unknown_architecture(name: str, nvcc: str, toolkit: Toolkit) -> str:
    known = _known_architectures(toolkit)
    message = f"architectures: {nvcc} does not know {name}"
    if known:
        message += f"; it knows {', '.join(f'sm_{number}' for number in known)}"
        if int(re.sub(r"\D", "", name)) < known[0] and int(toolkit.version.partition(".")[0]) >= 13:
            message += "; CUDA 12.9 is the last series that builds for cards older than sm_75, such as V100"
    return message


def _known_architectures(toolkit: Toolkit) -> list[int]:
    listing = _run(toolkit, ["--list-gpu-arch"]).out
    return sorted({int(number) for number in re.findall(r"compute_(\d+)", listing)})


def _host_compiler(toolkit: Toolkit, folder: Path) -> dict[str, str]:
    """Name and version of the C++ compiler that nvcc takes, asked of its own preprocessor.

    No guess from PATH would do: a variable or a profile of nvcc may name another one.
    """
    probe = folder / "probe.cu"
    probe.write_text("#ifdef __clang__\nhost_is clang __VERSION__\n#else\nhost_is gcc __VERSION__\n#endif\n")
    match = re.search(r'^host_is (\w+) "(.*)"', _nvcc(toolkit, ["-E", str(probe)]), re.MULTILINE)
    return {"name": match[1], "version": match[2]} if match else {"name": "unknown", "version": ""}


def _manifest(
    source: Path,
    folder: Path,
    flags: Sequence[str],
    architectures: Sequence[str],
    toolkit: Toolkit,
    compiler: dict[str, str],
) -> dict[str, object]:
    return {
        "launchbench": __version__,
        "nvcc": {"version": toolkit.version, "source": toolkit.source, "path": str(toolkit.nvcc)},
        "host_compiler": compiler,
        "flags": list(flags),
        "environment": {name: os.environ[name] for name in _NVCC_VARIABLES if os.environ.get(name)},
        "architectures": list(architectures),
        "source": {"name": source.name, "sha256": _sha256(source)},
        "products": {
            name: {"flags": list(own_flags), "sha256": _sha256(folder / name)} for name, own_flags in PRODUCTS.items()
        },
    }


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
