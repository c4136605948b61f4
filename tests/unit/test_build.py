from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from launchbench import __version__
from launchbench.build.compile import PRODUCTS, build, code_flags
from launchbench.build.toolkit import Toolkit, find_toolkit
from launchbench.errors import LaunchbenchError

SOURCE = """
extern "C" __global__ void tiny(float* d) { d[0] += 1.0f; }
#ifdef LAUNCHBENCH_LIBRARY
extern "C" int answer(int count) { return count + 42; }
#else
#include <cstdio>
int main() { std::puts("stand-alone"); return 7; }
#endif
"""
FATBIN_MAGIC = bytes.fromhex("50ed55ba")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a folder/small.cu"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


@pytest.fixture
def real(tmp_path: Path) -> Toolkit:
    found = find_toolkit(tmp_path / "no-wheels")
    if found is None or not shutil.which("g++"):
        pytest.skip("needs nvcc and g++")
    return found


@pytest.fixture
def fake(tmp_path: Path) -> Toolkit:
    """An nvcc that makes every product; `failing` turns it into one that fails."""
    return fake_nvcc(tmp_path, "13.0.88", 'for last; do [ "$flag" = -o ] && echo made > "$last"; flag=$last; done')


def fake_nvcc(folder: Path, version: str, body: str) -> Toolkit:
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return Toolkit(path, version, "PATH")


def failing(folder: Path, text: str, version: str = "13.0.88", listing: str = "") -> Toolkit:
    body = (
        f'[ "$1" = --list-gpu-arch ] && {{ printf "{listing}"; exit; }}\n'
        f'[ "$1" = -E ] && exit\ncat >&2 <<"END"\n{text}\nEND\nexit 1'
    )
    return fake_nvcc(folder, version, body)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_real_nvcc_makes_three_products_and_says_how(source: Path, tmp_path: Path, real: Toolkit) -> None:
    out = tmp_path / "out folder/cuda"
    build(source, out, ["sm_90"], real)

    assert sorted(path.name for path in out.iterdir()) == sorted([*PRODUCTS, "build.json"])
    program = subprocess.run([str(out / "graphs")], capture_output=True, text=True)
    assert (program.returncode, program.stdout) == (7, "stand-alone\n")
    assert ctypes.CDLL(str(out / "liblaunchloops.so")).answer(8) == 50
    fatbin = (out / "graphs.fatbin").read_bytes()
    assert fatbin.startswith(FATBIN_MAGIC)
    assert b"sm_90" in fatbin

    manifest = json.loads((out / "build.json").read_text())
    assert manifest["launchbench"] == __version__
    assert manifest["nvcc"] == {"version": real.version, "source": real.source, "path": str(real.nvcc)}
    assert manifest["architectures"] == ["sm_90"]
    assert manifest["source"] == {"name": "small.cu", "sha256": sha256(source)}
    assert {name: entry["sha256"] for name, entry in manifest["products"].items()} == {
        name: sha256(out / name) for name in PRODUCTS
    }
    assert "-DLAUNCHBENCH_LIBRARY" in manifest["products"]["liblaunchloops.so"]["flags"]
    assert manifest["flags"][:3] == ["-O2", "-std=c++17", "-lineinfo"]
    if not os.environ.get("NVCC_PREPEND_FLAGS") and not os.environ.get("NVCC_CCBIN"):
        dumped = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
        assert manifest["host_compiler"]["name"] == "gcc"
        assert manifest["host_compiler"]["version"].startswith(dumped)


def test_real_nvcc_is_asked_what_it_knows(source: Path, tmp_path: Path, real: Toolkit) -> None:
    with pytest.raises(LaunchbenchError) as raised:
        build(source, tmp_path / "out", ["sm_90", "sm_999"], real)
    message = str(raised.value)
    assert message.startswith(f"architectures: nvcc {real.version} ({real.source}) does not know sm_999; ")
    assert "sm_80" in message and "sm_90" in message
    assert "12.9" not in message


def test_real_nvcc_without_a_host_compiler(
    source: Path, tmp_path: Path, real: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", f"-ccbin {tmp_path}/no-compiler")
    with pytest.raises(LaunchbenchError, match=r"found no C\+\+ compiler"):
        build(source, tmp_path / "out", ["sm_90"], real)
    assert list((tmp_path / "out").iterdir()) == []


def test_real_nvcc_names_the_line_that_does_not_compile(source: Path, tmp_path: Path, real: Toolkit) -> None:
    source.write_text("int main() { return undeclared; }\n")
    with pytest.raises(LaunchbenchError, match=r"small\.cu\(1\): error: .*undeclared"):
        build(source, tmp_path / "out", ["sm_90"], real)


@pytest.mark.parametrize(
    ("architectures", "pairs"),
    [
        (["sm_75"], ["arch=compute_75,code=sm_75", "arch=compute_75,code=compute_75"]),
        (
            ["sm_100", "sm_80", "sm_90"],
            [
                "arch=compute_100,code=sm_100",
                "arch=compute_80,code=sm_80",
                "arch=compute_90,code=sm_90",
                "arch=compute_100,code=compute_100",
            ],
        ),
        (["sm_90a"], ["arch=compute_90a,code=sm_90a", "arch=compute_90,code=compute_90"]),
        (["sm_100f"], ["arch=compute_100f,code=sm_100f", "arch=compute_100,code=compute_100"]),
    ],
)
def test_machine_code_for_each_and_ptx_of_the_newest(architectures: list[str], pairs: list[str]) -> None:
    flags = code_flags(architectures)
    assert flags[::2] == ["-gencode"] * len(pairs)
    assert flags[1::2] == pairs


@pytest.mark.parametrize(
    "name", ["native", "all", "90", "sm_", "sm_9x", "compute_90", "sm_90 ", "sm_90\n", "-arch=native"]
)
def test_anything_but_an_explicit_architecture_is_refused(
    name: str, tmp_path: Path, source: Path, fake: Toolkit
) -> None:
    with pytest.raises(LaunchbenchError) as raised:
        build(source, tmp_path / "out", ["sm_80", name], fake)
    assert str(raised.value).startswith(f"architectures: {name!r} is not one of the form sm_90")
    assert not (tmp_path / "out").exists()


def test_an_empty_list_is_refused(tmp_path: Path, source: Path, fake: Toolkit) -> None:
    with pytest.raises(LaunchbenchError, match="architectures: the list is empty"):
        build(source, tmp_path / "out", [], fake)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nvcc fatal   : Failed to preprocess host compiler properties.", "found no C++ compiler; install g++"),
        (
            "host_config.h:139:2: error: #error -- unsupported GNU version! gcc versions later than 15 are not ok!",
            "does not accept the C++ compiler of this machine: unsupported GNU version! gcc versions later than 15",
        ),
        ("/tmp/x.ii: fatal error: error writing: No space left on device", "no space left, in the build folder"),
        (
            "note: something\nx.cu(3): error: expected a ;\nx.cu(9): error: other",
            "failed: x.cu(3): error: expected a ;",
        ),
        ("", "failed: exit status 1"),
    ],
)
def test_what_nvcc_says_becomes_one_line(
    text: str, expected: str, tmp_path: Path, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LaunchbenchError) as raised:
        build(source, tmp_path / "out", ["sm_90"], failing(tmp_path, text))
    message = str(raised.value)
    assert message.startswith("nvcc 13.0.88 (PATH)")
    assert expected in message
    assert "\n" not in message
    assert text in capfd.readouterr().err


@pytest.mark.parametrize(("version", "old_series_named"), [("13.0.88", True), ("12.9.41", False)])
def test_v100_needs_cuda_12(version: str, old_series_named: bool, tmp_path: Path, source: Path) -> None:
    toolkit = failing(
        tmp_path,
        "nvcc fatal   : Unsupported gpu architecture 'compute_70'",
        version,
        listing="compute_80\\ncompute_75\\ncompute_90\\n",
    )
    with pytest.raises(LaunchbenchError) as raised:
        build(source, tmp_path / "out", ["sm_70"], toolkit)
    message = str(raised.value)
    assert f"nvcc {version} (PATH) does not know sm_70; it knows sm_75, sm_80, sm_90" in message
    assert ("CUDA 12.9 is the last series" in message) is old_series_named


def test_a_failed_build_leaves_the_older_products(tmp_path: Path, source: Path, fake: Toolkit) -> None:
    out = tmp_path / "out"
    build(source, out, ["sm_90"], fake)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(before) == sorted([*PRODUCTS, "build.json"])
    source.write_text("changed")
    last_fails = (
        'case "$*" in *LIBRARY*) exit 1;; esac\nfor last; do [ "$flag" = -o ] && echo new > "$last"; flag=$last; done'
    )
    with pytest.raises(LaunchbenchError):
        build(source, out, ["sm_90"], fake_nvcc(tmp_path, "13.0.88", last_fails))
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("exit 0", "nvcc 13.0.88 (PATH) ended well and did not write graphs; are NVCC_PREPEND_FLAGS, "),
        ("kill -9 $$", "nvcc 13.0.88 (PATH) failed: signal 9"),
        ("exit 9", "nvcc 13.0.88 (PATH) failed: exit status 9"),
    ],
)
def test_an_nvcc_that_ends_without_a_word(tmp_path: Path, source: Path, what: str, said: str) -> None:
    with pytest.raises(LaunchbenchError) as raised:
        build(source, tmp_path / "out", ["sm_90"], fake_nvcc(tmp_path, "13.0.88", what))
    assert str(raised.value).startswith(said)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_folders_of_wheels_are_handed_to_nvcc(tmp_path: Path, source: Path, fake: Toolkit) -> None:
    log = tmp_path / "log"
    fake.nvcc.write_text(fake.nvcc.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "$@" >> "{log}"\n'))
    wheels = Toolkit(fake.nvcc, "13.0.88", "wheels", (tmp_path / "include",), (tmp_path / "lib",))
    build(source, tmp_path / "out", ["sm_90"], wheels)
    calls = log.read_text().splitlines()
    assert len(calls) == 4
    assert all(call.startswith(f"-I{tmp_path}/include -L{tmp_path}/lib ") for call in calls)


def test_a_missing_source_is_named(tmp_path: Path, fake: Toolkit) -> None:
    with pytest.raises(LaunchbenchError, match=r"gone\.cu: no such file"):
        build(tmp_path / "gone.cu", tmp_path / "out", ["sm_90"], fake)


def test_an_output_folder_that_cannot_be_made_is_named(tmp_path: Path, source: Path, fake: Toolkit) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LaunchbenchError, match=r"file/out: the build cannot be written \(Not a directory\)"):
        build(source, tmp_path / "file/out", ["sm_90"], fake)


def test_flags_from_the_environment_are_recorded(
    tmp_path: Path, source: Path, fake: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    monkeypatch.delenv("NVCC_PREPEND_FLAGS", raising=False)
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    build(source, tmp_path / "out", ["sm_90"], fake)
    manifest = json.loads((tmp_path / "out/build.json").read_text())
    assert manifest["environment"] == {"NVCC_APPEND_FLAGS": "-G"}
