"""Where nvcc comes from: the machine, the Python environment, or wheels that are fetched for the purpose.

It is imported while the Snakefile is parsed: nothing but the standard library is imported at the top, and it
compiles nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import site
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from launchbench.build.temporary import remove_abandoned, temporary_folder
from launchbench.errors import LaunchbenchError
from launchbench.programs import run
from launchbench.series import installed_series

Source = Literal["PATH", "CUDA_HOME", "environment", "system", "wheels"]
"""``system``: the CUDA installation whose runtime the dynamic loader finds, or one of /usr/local/cuda-*."""

INSTALLATIONS = Path("/usr/local")
"""Where NVIDIA's installer puts its toolkits, each release in a folder of its own."""

_VERSION_SECONDS = 60
"""How long `nvcc --version` may take; generous, because a cold network file system may hold the toolkit."""

_FOREIGN_PIP_SETTINGS = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_CONSTRAINT")
"""Settings of pip that would send the wheels somewhere else or install nothing."""

_PARTS_OF_WHEELS = (
    "nvvm/bin/cicc",
    "include/cuda_runtime.h",
    "include/crt/host_config.h",
    "lib/libcudart_static.a",
)
"""One file of each wheel that nvcc cannot do without; other packages may have brought nvcc alone."""


@dataclass(frozen=True)
class Toolkit:
    """One nvcc that answers, and what has to be added to its command line."""

    nvcc: Path
    version: str
    """Full version, such as "13.0.88"."""
    source: Source
    include_dirs: tuple[Path, ...] = ()
    library_dirs: tuple[Path, ...] = ()

    @property
    def series(self) -> int:
        """Major version: drivers of an older one refuse what this nvcc makes."""
        return int(self.version.partition(".")[0])


def find_toolkit(wheels_dir: Path) -> Toolkit | None:
    """Looks for nvcc on PATH, in CUDA_HOME, CUDA_PATH, this Python environment, the system and ``wheels_dir``.

    The first that answers `nvcc --version` is taken, unless it is of a newer series than the cuda-python of this
    environment, which fits the driver: then the first that is not, if there is one. What is passed over gets a
    line on stderr.
    """
    toolkit, passed_over = _look(wheels_dir)
    for line in passed_over:
        print(f"launchbench: {line}", file=sys.stderr)
    return toolkit


def toolkit_identity(wheels_dir: Path, lock: Path) -> str:
    """What the binaries depend on, such as "nvcc 13.0.88".

    Where no nvcc is found it is the one that ``lock`` pins, which is the one that will be fetched: the string
    is the same before and after.

    Raises:
        LaunchbenchError: there is no nvcc, and none is pinned either.
    """
    toolkit, _ = _look(wheels_dir)
    return f"nvcc {toolkit.version if toolkit else pinned_version(lock)}"


def pinned_version(lock: Path) -> str:
    """The version of nvcc that a lock file pins.

    Raises:
        LaunchbenchError: the file cannot be read or has no such line.
    """
    try:
        text = lock.read_text(encoding="utf-8")
    except OSError as error:
        raise LaunchbenchError(f"{lock}: cannot be read ({error.strerror}); it pins nvcc") from error
    match = re.search(r"^nvidia-cuda-nvcc==([0-9.]+)", text, re.MULTILINE)
    if not match:
        raise LaunchbenchError(f"{lock}: no line nvidia-cuda-nvcc==VERSION; make lock writes the file anew")
    return match[1]


def fetch_wheels(wheels_dir: Path, lock: Path) -> Toolkit:
    """Installs the nvcc wheels of ``lock`` into ``wheels_dir``, which appears only when it is complete.

    pip's own lines go to stderr.

    Raises:
        LaunchbenchError: pip failed, or the nvcc that it brought does not run.
    """
    version = pinned_version(lock)
    print(f"launchbench: no nvcc on this machine, fetching nvcc {version} as wheels", file=sys.stderr)
    wheels_dir.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(wheels_dir.parent, _temporary_prefix(wheels_dir)) as temporary:
        _pip_install(lock, temporary)
        _wheels_in(temporary)
        temporary.chmod(0o755)
        if wheels_dir.exists():
            shutil.rmtree(wheels_dir)
        temporary.rename(wheels_dir)
    return _wheels_in(wheels_dir)


def remove_unfinished_wheels(wheels_dir: Path) -> None:
    """Removes what a :func:`fetch_wheels` that was killed has left beside ``wheels_dir``."""
    remove_abandoned(wheels_dir.parent, _temporary_prefix(wheels_dir))


def _temporary_prefix(wheels_dir: Path) -> str:
    return f".tmp-{wheels_dir.name}-"


def _pip_install(lock: Path, target: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in _FOREIGN_PIP_SETTINGS}
    # "0" also overrules what a configuration file of pip says.
    environment |= {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "--require-hashes", "--no-deps"]
    command += ["--target", str(target), "-r", str(lock)]
    sys.stderr.flush()
    # What pip prints while it downloads goes to our standard error, as it comes.
    done = run(
        command,
        first=signal.SIGINT,  # as from a terminal: pip then removes its temporary files
        env=environment,
        stdout=2,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    sys.stderr.write(done.err)
    if done.exit_status != 0:
        raise LaunchbenchError(
            "nvcc is needed to build the kernels: none on PATH, in CUDA_HOME or CUDA_PATH, in this Python environment "
            f"or where the system keeps CUDA, and its wheels could not be fetched ({_last_error(done.err)}); "
            "install a CUDA toolkit, or run once with a network"
        )


def _last_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip said nothing"])[-1].rstrip(".")


def _wheels_in(directory: Path) -> Toolkit:
    for nvcc in _nvcc_of_wheels(directory):
        answer = _examine(nvcc, "wheels")
        if isinstance(answer, Toolkit):
            return answer
        raise LaunchbenchError(f"the nvcc that was fetched does not work: {answer}")
    raise LaunchbenchError(f"the wheels that were fetched into {directory} hold no nvcc")


def _nvcc_of_wheels(directory: Path) -> list[Path]:
    return sorted(directory.glob("nvidia/*/bin/nvcc"))


def _look(wheels_dir: Path) -> tuple[Toolkit | None, list[str]]:
    """The nvcc to use, and one line for each that is passed over."""
    passed_over: list[str] = []
    wanted = installed_series()
    newer: Toolkit | None = None
    for source, origin, nvcc in _candidates(wheels_dir):
        answer = _examine(nvcc, source)
        if not isinstance(answer, Toolkit):
            passed_over.append(f"{origin}: {answer}; looking further")
        elif wanted is None or answer.series <= wanted:
            return answer, passed_over
        elif newer is None:
            newer = answer
            passed_over.append(
                f"{origin}: nvcc {answer.version} is newer than series {wanted} of the CUDA packages here; "
                "looking further, and taking it if there is no other: the driver then decides"
            )
    return newer, passed_over


def _candidates(wheels_dir: Path) -> Iterator[tuple[Source, str, Path]]:
    """Where an nvcc may be, in the order of preference: kind, name for messages, path."""
    if on_path := shutil.which("nvcc"):
        yield "PATH", "PATH", Path(on_path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield "CUDA_HOME", f"{variable}={home}", Path(home) / "bin" / "nvcc"
    if found := _nvcc_of_pathfinder():
        if _is_in_environment(found):
            yield "environment", "Python environment", found
        else:
            yield "system", "CUDA of this system", found
    for folder in sorted(INSTALLATIONS.glob("cuda-*"), key=_release, reverse=True):
        if (folder / "bin" / "nvcc").is_file():
            yield "system", str(folder), folder / "bin" / "nvcc"
    for nvcc in _nvcc_of_wheels(wheels_dir):
        yield "wheels", "fetched wheels", nvcc


def _release(folder: Path) -> list[int]:
    return [int(number) for number in re.findall("[0-9]+", folder.name)]


def _nvcc_of_pathfinder() -> Path | None:
    # Not at the top: only a machine without nvcc pays for this import, and macOS has no such package.
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return None
    found = find_nvidia_binary_utility("nvcc")
    return Path(found) if found else None


def _is_in_environment(nvcc: Path) -> bool:
    places = [*site.getsitepackages(), site.getusersitepackages(), os.environ.get("CONDA_PREFIX", "")]
    return any(nvcc.resolve().is_relative_to(Path(place).resolve()) for place in places if place)


def _examine(nvcc: Path, source: Source) -> Toolkit | str:
    """The toolkit of an nvcc, or the reason that it cannot be used."""
    if not nvcc.is_file():
        return f"no {nvcc}"
    try:
        done = run(
            [str(nvcc), "--version"],
            _VERSION_SECONDS,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return f"{nvcc} cannot be started ({error.strerror})"
    if done.exit_status is None:
        return f"{nvcc} --version did not answer within {_VERSION_SECONDS} s"
    if done.exit_status != 0:
        return f"{nvcc} --version ended with exit status {done.exit_status}"
    match = re.search(r"\bV(\d+\.\d+\.\d+)\b", done.out)
    if not match:
        return f"{nvcc} --version printed no version"
    return _with_folders(nvcc, match[1], source)


def _with_folders(nvcc: Path, version: str, source: Source) -> Toolkit | str:
    """Adds the folders that an nvcc of wheels does not search: it looks in lib64, the wheels have lib."""
    root = nvcc.parent.parent
    if root.parent.name != "nvidia":
        return Toolkit(nvcc, version, source)
    for part in _PARTS_OF_WHEELS:
        if not (root / part).is_file():
            return f"{nvcc} has no {part} beside it"
    return Toolkit(nvcc, version, source, include_dirs=(root / "include",), library_dirs=(root / "lib",))
