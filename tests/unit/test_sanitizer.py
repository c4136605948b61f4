"""What compute-sanitizer prints, what is concluded from it, and tools that must never count as clean."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from launchbench.pointers import sanitizer
from launchbench.pointers.lines import read_lines
from launchbench.pointers.memcheck import ERROR_STATUS, conclude, read_report
from launchbench.pointers.sanitizer import Tool, find_tool, run_under
from launchbench.results.pointers_words import Verdict

# The layout of versions from 2024 on, of a program built with -lineinfo.
NEW = """========= COMPUTE-SANITIZER
step prepare
call cudaGraphLaunch 0 cudaSuccess
========= Invalid __global__ read of size 4 bytes
=========     at tiny(float *)+0x60 in graphs.cu:18
=========     by thread (0,0,0) in block (0,0,0)
=========     Access at 0x7f2000000000 is out of bounds
=========     and is 1,536 bytes before the nearest allocation at 0x7f2000000600 of size 4 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame:  [0x331d50] in libcuda.so.1
=========         Host Frame: cudaGraphLaunch [0x1943a1] in graphs
=========         Host Frame: (anonymous namespace)::Scenario::replay() in graphs.cu:411 [0xcb8b] in graphs
=========         Host Frame: main [0x5cb8b] in graphs
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to {SYNC}.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: main [0x5cb8b] in graphs
=========
call cudaStreamSynchronize 719 cudaErrorLaunchFailure
complete unowned 0
========= ERROR SUMMARY: 2 errors
"""

NEW = NEW.replace("{SYNC}", "cudaStreamSynchronize")

# The layout of 2021, without line information: other words, the object of a frame on a line of its own.
OLD = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4
=========     at 0x110 in /home/somebody/graphs.cu:18:tiny(float*)
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7fe71d800a00 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2dcdbf]
=========                in /usr/lib/x86_64-linux-gnu/libcuda.so.1
=========     Host Frame:libcudart_static_4d8b33a106dceb3c07a56e26de61f2d53bb62a68 [0xa06b2]
=========                in /home/somebody/./graphs
=========     Host Frame:cudaGraphLaunch [0x10431d]
=========                in /home/somebody/./graphs
=========     Host Frame:/home/somebody/graphs.cu:127:main [0xe9b65]
=========                in /home/somebody/./graphs
=========
complete unowned 0
========= ERROR SUMMARY: 1 error
"""


def test_every_field_of_a_report() -> None:
    report = read_report(NEW)
    access, api = report.errors
    assert access.model_dump() == {
        "kind": "Invalid __global__ read of size 4 bytes",
        "access": "read",
        "space": "__global__",
        "size_bytes": 4,
        "kernel": "tiny(float *)",
        "source_line": "graphs.cu:18",
        "address": "0x7f2000000000",
        "distance_bytes": 1536,
        "side": "before",
        "nearest_address": "0x7f2000000600",
        "nearest_size_bytes": 4,
        "api_call": None,
        "api_code": None,
        "api_name": None,
        "host_frames": ["cudaGraphLaunch", "(anonymous namespace)::Scenario::replay()", "main"],
    }
    assert (api.api_call, api.api_code, api.api_name) == ("cudaStreamSynchronize", 719, "cudaErrorLaunchFailure")
    assert api.access is None and api.host_frames == ["main"]
    assert (report.error_count, report.words) == (2, ())


def test_a_field_that_is_not_printed_is_empty() -> None:
    [error] = read_report(OLD).errors
    assert (error.access, error.size_bytes, error.kernel, error.source_line) == (
        "write",
        4,
        "tiny(float*)",
        "graphs.cu:18",
    )
    assert (error.distance_bytes, error.side, error.nearest_address) == (None, None, None)
    assert error.host_frames == ["cudaGraphLaunch", "main"]
    [bare] = read_report("========= Invalid __global__ read of size 4 bytes\n").errors
    assert bare.access == "read" and bare.kernel is None and bare.host_frames == []


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("at tiny(float *)+0x60", "kernel", "tiny(float *)"),
        ("at tiny(float *)+0x60", "source_line", None),
        ("at tiny():0x160 in graphs.cu:6", "source_line", "graphs.cu:6"),
        ("at 0x160 in tiny(float*)", "kernel", "tiny(float*)"),
        ("at void a::b<(int)3, float>(T1 *)+0x1f0 in /x/y z/k.cuh:7", "source_line", "k.cuh:7"),
        ("Access to 0x10 is out of bounds", "address", "0x10"),
        ("and is inside the nearest allocation at 0x10 of size 1,024 bytes", "distance_bytes", 0),
        ("and is inside the nearest allocation at 0x10 of size 1,024 bytes", "nearest_size_bytes", 1024),
        ("and is 1 bytes after the nearest allocation at 0x10", "side", "after"),
        ("and is potentially made before memory is allocated", "side", None),
        ("Host Frame: capture in context.py:8000", "host_frames", ["capture"]),
    ],
)
def test_lines_of_other_versions(line: str, field: str, value: object) -> None:
    [error] = read_report(f"========= Invalid __global__ read of size 4 bytes\n=========     {line}\n").errors
    assert getattr(error, field) == value


NONE = "========= ERROR SUMMARY: 0 errors\n"
CLEAN = f"========= COMPUTE-SANITIZER\nstep prepare\ncomplete recycled 0\n{NONE}"


@pytest.mark.parametrize(
    ("text", "status", "verdict", "reason"),
    [
        (CLEAN, 0, "clean", None),
        (CLEAN.replace("complete recycled 0\n", ""), 0, "not-run", "never said that it had come to its end"),
        (CLEAN.replace("recycled", "victim"), 0, "not-run", ""),
        (CLEAN.replace("recycled 0", "recycled 1"), 0, "not-run", ""),
        (CLEAN.replace("recycled 0", "recycled 0\nand on"), 0, "cannot-tell", "that it was at its end; and on"),
        (CLEAN.replace("recycled 0", "recycled 0\nstep after"), 0, "cannot-tell", "after it had said"),
        (CLEAN + "========= ERROR SUMMARY: 3 errors\n", 0, "cannot-tell", "contradict each other: 3 errors, and none"),
        (CLEAN.replace("0 errors", "3 errors") + NONE, 0, "cannot-tell", "contradict each other"),
        (CLEAN + NONE, 0, "clean", None),
        (CLEAN.replace("0 errors", "0 errors (5 not printed)"), 0, "cannot-tell", "0 errors (5 not printed)"),
        (CLEAN.replace("0 errors", "9" * 20 + " errors"), 0, "cannot-tell", "9" * 20),
        (CLEAN.replace("0 errors", "100 errors were not printed"), 0, "errors", None),
        ("========= No checks done\n" + CLEAN, 0, "cannot-tell", "No checks done"),
        (CLEAN.replace("========= ERROR SUMMARY: 0 errors\n", ""), 0, "cannot-tell", "the tool printed no summary"),
        (CLEAN, 1, "cannot-tell", "the tool ended with status 1"),
        (CLEAN, -11, "cannot-tell", "the tool ended with status -11"),
        (CLEAN, None, "cannot-tell", ""),
        (CLEAN.replace("0 errors", "3 errors"), 0, "errors", None),
        (CLEAN.replace("0 errors", "1 error"), ERROR_STATUS, "errors", None),
        ("========= Internal Sanitizer Error: the Sanitizer lost it\n" + CLEAN, 0, "cannot-tell", "Internal Sanitizer"),
        ("========= Error: Device not supported. Please refer to\n" + CLEAN, 0, "not-run", "Device not supported"),
        ("========= Warning: some kernel was loaded late\n" + CLEAN, 0, "cannot-tell", "some kernel was loaded late"),
        (NEW.replace("unowned", "recycled"), 0, "errors", None),
        (NEW.replace("complete unowned 0\n", "").replace("2 errors", "0 errors"), 0, "errors", None),
        ("\x00\xff garbage =========\n", 0, "not-run", "garbage"),
        ("", 0, "not-run", ""),
    ],
)
def test_what_may_be_concluded(text: str, status: int | None, verdict: Verdict, reason: str | None) -> None:
    seen, why = conclude(read_report(text), read_lines(text), "recycled", status)
    assert seen == verdict
    assert (why is None) == (reason is None) and (reason or "") in (why or "")


def test_errors_of_calls_alone_in_a_run_that_never_ended_are_the_tools_words() -> None:
    text = """========= COMPUTE-SANITIZER
========= Program hit cudaErrorInsufficientDriver (error 35) due to "too old" on CUDA API call to cudaMalloc.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 1 error
"""
    verdict, why = conclude(read_report(text), read_lines(text), "recycled", ERROR_STATUS)
    assert verdict == "not-run" and "cudaErrorInsufficientDriver (error 35)" in str(why)


# ---------------------------------------------------------------- finding and running


ANSWERS = """case "$1" in
--version) echo "Version 2025.3.1.0 (build 1)"; exit 0;;
--help) echo "  --backtrace-short arg (=yes)"; exit 0;;
esac
"""


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No compute-sanitizer on this machine."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(sanitizer, "INSTALLATIONS", tmp_path / "local")
    for name in ("getsitepackages", "getusersitepackages"):
        value = [] if name == "getsitepackages" else str(tmp_path / "user")
        monkeypatch.setattr(sanitizer.site, name, lambda value=value: value)
    monkeypatch.setattr(sanitizer.sys, "path", [str(tmp_path / "site")])


@pytest.mark.usefixtures("nowhere")
class TestFinding:
    def test_a_missing_tool_is_said_with_its_cure(self) -> None:
        assert find_tool() == (
            "no compute-sanitizer on PATH, in CUDA_HOME or in this Python environment: "
            "`pip install nvidia-cuda-sanitizer-api` brings it"
        )

    @pytest.mark.parametrize(
        ("place", "source"),
        [
            ("bin/compute-sanitizer", "PATH"),
            ("cuda/bin/compute-sanitizer", "CUDA_HOME"),
            ("cuda/compute-sanitizer/compute-sanitizer", "CUDA_HOME"),
            ("site/nvidia/cu13/compute-sanitizer/compute-sanitizer", "environment"),
            ("site/nvidia/cu13/bin/compute-sanitizer", "environment"),
            ("local/cuda-13.0/bin/compute-sanitizer", "system"),
        ],
    )
    def test_places(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, source: str) -> None:
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
        path = script(tmp_path / place, ANSWERS)
        tool = find_tool()
        assert isinstance(tool, Tool)
        assert (tool.path, tool.source, tool.version) == (path, source, "2025.3.1.0")
        assert tool.options == (
            *("--tool", "memcheck", "--error-exitcode", str(ERROR_STATUS)),
            *("--backtrace-short", "no"),
        )

    def test_one_that_does_not_answer_is_passed_over(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
        script(tmp_path / "bin" / "compute-sanitizer", "echo what?")
        assert re.match(
            r".*/bin/compute-sanitizer --version printed no version; no compute-sanitizer", str(find_tool())
        )
        script(tmp_path / "cuda" / "bin" / "compute-sanitizer", ANSWERS)
        assert isinstance(tool := find_tool(), Tool) and tool.source == "CUDA_HOME"


TARGET = "echo step prepare; echo complete recycled 0"


@pytest.mark.parametrize(
    ("body", "target", "verdict"),
    [
        ('echo "========= COMPUTE-SANITIZER"; "$@"; echo "========= ERROR SUMMARY: 0 errors"', TARGET, "clean"),
        ('echo "========= COMPUTE-SANITIZER"; echo "========= ERROR SUMMARY: 0 errors"', TARGET, "not-run"),
        ('"$@"; echo "========= ERROR SUMMARY: 2 errors"', TARGET, "errors"),
        ('"$@"; echo "========= Invalid __global__ read of size 4 bytes"', TARGET, "errors"),
        ('"$@"; echo "========= ERROR SUMMARY: 0 errors"; exit 7', TARGET, "cannot-tell"),
        ('echo "========= Error: Device not supported"; exit 1', TARGET, "not-run"),
        (
            'echo "========= Error: Device not supported"; "$@"; echo "========= ERROR SUMMARY: 0 errors"',
            TARGET,
            "not-run",
        ),
        ('"$@"; echo "========= ERROR SUMMARY: 0 errors"; sleep 60', TARGET, "cannot-tell"),
        ("sleep 60", TARGET, "cannot-tell"),
        ("head -c 3000 /dev/urandom", TARGET, "not-run"),
        ('"$@"; echo "========= ERROR SUMMARY: 0 errors"', "echo step prepare; exit 1", "not-run"),
        ('"$@"; s=$?; echo "========= ERROR SUMMARY: 0 errors"; exit $s', f"{TARGET}; exit 3", "cannot-tell"),
        ('"$@"', "echo; exit 127", "not-run"),
    ],
)
def test_fakes(tmp_path: Path, body: str, target: str, verdict: str) -> None:
    """The options that the tool is given come first, so a fake drops them."""
    drop = 'while [ "$1" != -- ]; do shift; done; shift'
    fake = script(tmp_path / "compute-sanitizer", f"{drop}\n{body}")
    tool = Tool(fake, "1", "PATH", ("--tool", "memcheck", "--"))
    start = time.monotonic()
    run = run_under(tool, [str(script(tmp_path / "graphs", target))], dict(os.environ), timeout_s=2)
    assert time.monotonic() - start < 30
    text = run.output.decode(errors="replace")
    seen, reason = conclude(read_report(text), read_lines(text), "recycled", run.exit_status)
    assert seen == verdict, text
    assert reason if verdict in ("not-run", "cannot-tell") else reason is None
    if "sleep" in body:
        assert run.exit_status is None and "did not end within 2 s" in str(reason)


def test_a_tool_that_vanishes(tmp_path: Path) -> None:
    run = run_under(Tool(tmp_path / "gone", "1", "PATH", ()), ["true"], {})
    text = run.output.decode()
    assert conclude(read_report(text), read_lines(text), "recycled", run.exit_status)[0] == "not-run"
    assert "cannot be started (No such file or directory)" in text


def test_nothing_of_a_tool_that_hangs_is_left(tmp_path: Path) -> None:
    fake = script(tmp_path / "tool", f"sleep 60 & echo $! > {tmp_path}/pid; wait")
    assert run_under(Tool(fake, "1", "PATH", ()), ["true"], dict(os.environ), timeout_s=1).exit_status is None
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{child}").exists()
