"""Exercise 4 of the stand-alone program: its host code, compiled on the virtual GPU's driver API.

nvcc's runtime cannot run there, so the class ``Scenario`` is taken out of ``src/graphs.cu`` and compiled by the C++
compiler against ``tests/virtual_gpu/runtime``; the one launch is replaced by a call.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from launchbench.pointers.lines import read_lines
from launchbench.pointers.outcome import judge
from launchbench.results.pointers import Seen
from launchbench.results.pointers_words import SCENARIOS
from tests.conftest import ROOT
from tests.unit.test_pointers import CARD, UUID, play
from tests.virtual_gpu import Fault, VirtualGpu


@pytest.fixture(scope="module")
def program(virtual_gpu: VirtualGpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled class with a ``main`` of one line."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    if not shutil.which(compiler[0]):
        pytest.skip(f"no C++ compiler {compiler[0]!r}")
    source = (ROOT / "src" / "graphs.cu").read_text()
    [scenario] = re.findall(r"^class Scenario \{.*?^\};\n", source, re.MULTILINE | re.DOTALL)
    code, launches = re.subn(r"tiny<<<1, 1, 0, stream_>>>\(d_\)", "launch_tiny(stream_, d_)", scenario)
    assert launches == 1
    main = "int main(int, char** argv) { return Scenario(argv[1]).run(); }\n"
    folder = tmp_path_factory.mktemp("program")
    (folder / "scenario.cpp").write_text(f"#include <cuda_runtime.h>\n{code}{main}")
    command = [*compiler, "-std=c++17", "-Wall", f"-I{ROOT / 'tests' / 'virtual_gpu' / 'runtime'}"]
    command += ["-o", str(folder / "scenario"), str(folder / "scenario.cpp"), f"-L{virtual_gpu.folder}"]
    done = subprocess.run([*command, "-l:libcuda.so.1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "scenario"


def run(
    program: Path, virtual_gpu: VirtualGpu, binaries: Path, name: str, faults: Sequence[Fault] = ()
) -> tuple[Seen, str]:
    environment = virtual_gpu.environment([CARD], faults, modelled_clock=True)
    environment["LAUNCHBENCH_FATBIN"] = str(binaries / "graphs.fatbin")
    done = subprocess.run([str(program), name], env=environment, capture_output=True, text=True, timeout=60)
    return judge(name, read_lines(done.stdout), done.returncode, UUID), done.stdout


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_program_does_what_cuda_python_does(
    program: Path, virtual_gpu: VirtualGpu, binaries: Path, name: str
) -> None:
    seen, text = run(program, virtual_gpu, binaries, name)
    python = play(virtual_gpu, binaries, name)
    assert (seen.outcome, seen.values, seen.addresses) == (python.outcome, python.values, python.addresses)
    assert seen.reason is None and seen.device_uuid == UUID
    assert text.splitlines()[-1] == f"complete {name} 0"
    assert read_lines(text).words == [], "every line is one that is understood"
    for step in ("first-replay", "free", "replay", "after"):
        codes = [[call.code for call in one.calls if call.step == step] for one in (seen, python)]
        assert codes[0] == codes[1], step


def test_a_program_that_fails_before_the_replay_never_says_that_it_is_complete(
    program: Path, virtual_gpu: VirtualGpu, binaries: Path
) -> None:
    seen, text = run(program, virtual_gpu, binaries, "victim", [Fault("cuMemAlloc", 2, start=2)])
    assert (seen.exit_status, seen.completed, seen.outcome) == (1, False, "cannot-tell")
    assert "complete" not in text and "cudaMalloc: CUDA_ERROR_OUT_OF_MEMORY (2)" in str(seen.reason)
