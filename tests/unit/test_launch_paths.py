"""Launch paths beside the first three: their counts, captures, updates and costs, and what cannot be measured."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pandas as pd
import pytest

from launchbench.measure.paths.gaps import PathGaps
from launchbench.measure.paths.prepare import TRIED, missing_modules
from launchbench.measure.placements import ONE_OFF_SAMPLES
from launchbench.results.protocol import FRAMEWORK_PATHS, OTHER_CODE
from tests.conftest import ROOT
from tests.unit.test_error_sweep import Bench, N, bench, jobs, refusal
from tests.unit.test_launch_job import FULL, PLACEMENTS, REPETITIONS, configure
from tests.unit.test_placements import placed
from tests.virtual_gpu import H100, T4, Fault, VirtualGpu
from tests.virtual_gpu.jobs import Done

__all__ = ["bench", "jobs"]  # fixtures

STAND_INS = ROOT / "tests" / "frameworks"
NO_EMPTY = "PyTorch has no operation that launches an empty kernel"


def measure(bench: Bench, fault: str = "", hide: str = "", faults: list[Fault] | None = None) -> Done:
    """A job with the stand-ins on its path, but for one that is hidden."""
    folders = [bench.folder / "hidden", STAND_INS]
    folders[0].mkdir(exist_ok=True)
    if hide:
        # As a missing module is told, whatever this environment has.
        (folders[0] / f"{hide}.py").write_text(
            f'raise ModuleNotFoundError("No module named {hide!r}", name={hide!r})\n'
        )
    variables = {
        "LAUNCHBENCH_TEST_FATBIN": str((bench.binaries / "graphs.fatbin").resolve()),
        "LAUNCHBENCH_TEST_FRAMEWORK": fault,
        "PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT / "tests/virtual_gpu/clock")]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = bench.measure(faults, variables=variables)
    shutil.rmtree(folders[0])
    return done


# --- cuda.bindings


@pytest.mark.parametrize("kernel", ["tiny", "empty"])
def test_cuda_bindings_launches_what_the_native_loop_does(virtual_gpu: VirtualGpu, binaries: Path, kernel: str) -> None:
    seen = placed(virtual_gpu, binaries, H100, "cuda-bindings", kernel, 64, 4, 2, 2, 7)
    rows = pd.DataFrame(seen["rows"])
    assert set(rows["mode"]) == {"loop", "replay"} and set(rows["launch_path"]) == {"cuda-bindings"}
    for row in rows.itertuples():
        # By cuLaunchKernel, unlike cuda.core.launch.
        truth = H100.mode_us(row.mode, 64, kernel, seen["pool"] + row.offset_bytes)
        assert row.gpu_us == pytest.approx(truth, rel=1e-5), row
    assert seen["expected"] == seen["observed"] and (seen["observed"] > 0) == (kernel == "tiny")
    costs = seen["costs"]
    assert len(costs["capture_us"]) == 1 + ONE_OFF_SAMPLES and len(costs["update_us"]) == 3
    assert costs["refused_updates"] == 0


def test_a_launch_by_cuda_bindings_that_fails_ends_the_loop(bench: Bench) -> None:
    configure(bench, launch_paths=["cuda-bindings"], kernels=["tiny"])
    done = bench.measure([Fault("cuLaunchKernel", 719, start=2, count=1)])
    assert refusal(bench, done) == "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED (719)"
    assert bench.calls["cuLaunchKernel"] == 2


def test_a_launch_from_python_that_loses_the_card_is_the_one_that_is_told(bench: Bench) -> None:
    configure(bench, launch_paths=["cuda-bindings"], kernels=["tiny"])
    assert bench.measure().status == 0
    last = bench.calls["cuGraphLaunch"]  # in a timed interval: its status is looked at after the second event
    done = bench.measure([Fault("cuGraphLaunch", 719, start=last, sticky=True)])
    assert refusal(bench, done) == "cuGraphLaunch failed: CUDA_ERROR_LAUNCH_FAILED (719)"


# --- frameworks


def test_every_framework_counts_exactly(bench: Bench) -> None:
    configure(bench, launch_paths=["native-driver", *FRAMEWORK_PATHS])
    done = measure(bench)
    assert done.status == 0, done.err
    result = bench.result()
    record, raw = result.record, result.raw
    assert record.paths_not_measured == {} and record.kernels_not_measured == {"torch": {"empty": NO_EMPTY}}
    blocks = {(block.launch_path, block.kernel): block for block in record.blocks}
    assert set(blocks) == {
        (path, kernel)
        for path in ("native-driver", *FRAMEWORK_PATHS)
        for kernel in ("tiny", "empty")
        if (path, kernel) != ("torch", "empty")
    }
    for path in FRAMEWORK_PATHS:
        block = blocks[path, "tiny"]
        rounds = 2 * (block.warmup_rounds_run + FULL - 1) + 2 * FULL * REPETITIONS
        counted = N * (1 + 1 + ONE_OFF_SAMPLES + rounds)
        assert block.observed_count == block.expected_count == counted
        assert len(block.update_us) == FULL - 1 and block.refused_updates == 0
        own = raw[(raw["launch_path"] == path) & (raw["kernel"] == "tiny")]
        assert set(own["mode"]) == {"loop", "replay"} and own["placement"].nunique() == FULL
        for row in own.itertuples():
            address = int(block.buffer_address, 16) + row.offset_bytes
            assert row.gpu_us == pytest.approx(T4.mode_us(row.mode, N, "tiny", address), rel=1e-5), row
    assert {block.observed_count for (_, kernel), block in blocks.items() if kernel == "empty"} == {0}
    versions = {"cupy": "14.2.0", "numba": "0.68.1", "triton": "3.8.0", "torch": "2.14.1"}
    assert record.frameworks == versions
    assert f"launch path torch, kernel empty: not measured: {NO_EMPTY}" in done.err


@pytest.mark.parametrize(
    ("path", "fault", "reason"),
    [
        ("numba", "raises", "OwnError: no kernel image is available"),
        ("cupy", "elsewhere", f"after the capture the buffer has counted {2 * TRIED}, not {TRIED}: not on our stream"),
        (
            *("triton", "synchronizes"),
            "cannot be captured on the stream of the measurement: a launch by triton failed: "
            "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)",
        ),
        ("torch", "copies", "the tensor lies at "),
    ],
)
def test_a_framework_that_cannot_be_measured_is_a_gap(bench: Bench, path: str, fault: str, reason: str) -> None:
    configure(bench, launch_paths=[path, "cuda-python"], kernels=["tiny"])
    done = measure(bench, fault)
    assert done.status == 0, done.err
    record = bench.result().record
    told = record.paths_not_measured
    assert set(told) == {path} and reason in told[path] and told[path].isprintable()
    assert {block.launch_path for block in record.blocks} == {"cuda-python"}
    # What comes first and runs has all placements.
    assert bench.result().raw["placement"].nunique() == PLACEMENTS
    assert f"launch path {path}: not measured: {told[path]}" in done.err
    # Which releases do not fit together.
    assert path == "torch" or told[path].endswith(f", numpy {numpy.__version__})")
    assert record.frameworks == {}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raises:{loop}", "a launch by numba failed: OwnError: no kernel image is available"),
        ("raises:{capture}", "a launch by numba failed: OwnError: no kernel image is available"),
        ("omits:{loop}", f"numba tiny N={N}: the buffer counted "),
    ],
)
def test_a_framework_that_fails_while_it_is_timed_is_a_gap(bench: Bench, fault: str, reason: str) -> None:
    # Both kernels are tried in a loop and in a capture; then a loop that loads tiny, and then the first capture.
    loop = 2 * 2 * TRIED + 1
    configure(bench, launch_paths=["numba", "cuda-bindings"], kernels=["tiny", "empty"])
    done = measure(bench, fault.format(loop=loop, capture=loop + N))
    assert done.status == 0, done.err
    result = bench.result()
    record = result.record
    blocks = {(block.launch_path, block.kernel) for block in record.blocks}
    stated = record.paths_not_measured | record.kernels_not_measured
    assert set(stated) == {"numba"}
    told = record.kernels_not_measured["numba"]["tiny"] if fault.startswith("omits") else stated["numba"]
    assert str(told).startswith(f"failed while it was timed: {reason}") and "written" not in str(told)
    assert blocks >= {("cuda-bindings", "tiny"), ("cuda-bindings", "empty")} and ("numba", "tiny") not in blocks
    assert f"not measured: {told}" in done.err
    # The first path that did run has all placements.
    own = result.raw[(result.raw["launch_path"] == "cuda-bindings") & (result.raw["kernel"] == "tiny")]
    assert own["placement"].nunique() == PLACEMENTS


def test_a_framework_that_takes_the_context_with_it_fails_the_job(bench: Bench) -> None:
    configure(bench, launch_paths=["numba", "native-driver"], kernels=["tiny"])
    done = measure(bench, faults=[Fault("cuLaunchKernel", 719, start=2 * TRIED + 1, sticky=True)])
    assert refusal(bench, done) == "a launch by numba failed: CUDA_ERROR_LAUNCH_FAILED (719)"


def test_a_framework_that_is_missing_is_a_gap(bench: Bench) -> None:
    configure(bench, launch_paths=["native-driver", "numba"], kernels=["tiny"])
    assert measure(bench, hide="numba").status == 0
    assert bench.result().record.paths_not_measured == {"numba": "No module named 'numba'"}


def test_without_any_path_the_job_fails_in_one_line(bench: Bench) -> None:
    configure(bench, launch_paths=["torch", "numba"], kernels=["empty"])
    line = refusal(bench, measure(bench, hide="numba"))
    assert line == f"none of the launch paths can be measured here: torch: {NO_EMPTY}; numba: No module named 'numba'"


def test_what_a_context_does_not_survive_is_no_gap(bench: Bench) -> None:
    configure(bench, launch_paths=["cupy", "native-driver"], kernels=["tiny"])
    line = refusal(bench, measure(bench, faults=[Fault("cuCtxSynchronize", 700, count=1)]))
    assert line == "cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)"


# --- words


def test_gaps_are_told_path_by_path() -> None:
    gaps = PathGaps()
    gaps.add("cupy", {}, ["tiny", "empty"], "t4")
    gaps.add("numba", {"tiny": "broken", "empty": "broken"}, ["tiny", "empty"], "t4")
    gaps.add("torch", {"empty": "none"}, ["tiny", "empty"], "t4")
    assert (gaps.paths, gaps.kernels) == ({"numba": "broken"}, {"torch": {"empty": "none"}})
    assert gaps.told() == "numba: broken"


def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else object())
    assert {path: missing_modules(path) for path in (*FRAMEWORK_PATHS, "cuda-python")} == {
        **{"cupy": [], "numba": [], "triton": ["torch"], "torch": ["torch"], "cuda-python": []}
    }
    assert set(OTHER_CODE) < set(FRAMEWORK_PATHS)


def test_no_framework_is_imported_with_the_package() -> None:
    """They take seconds, and threads of their own."""
    code = "import json, sys, launchbench.measure.job; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded: list[Any] = json.loads(done.stdout)
    assert not {"cupy", "numba", "torch", "triton"} & set(loaded)
