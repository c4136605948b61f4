"""Launch paths on a real card: every framework that is installed launches, is captured and counts; no timing asserted.

Each path is a job of its own, so that one that is broken fails its own test only. A framework that is not installed is
skipped with the reason; one that is installed and cannot be measured fails, with the reason that the record states.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from launchbench.measure.paths.prepare import missing_modules
from launchbench.results.files import Result, read_results
from launchbench.results.protocol import FRAMEWORK_PATHS
from tests.gpu.test_real_card import cards, launchbench, pytestmark

__all__ = ["pytestmark"]

COUNT, PLACEMENTS, REPETITIONS = 64, 5, 3
OTHERS = ("cuda-bindings", *FRAMEWORK_PATHS)


def measured(folder: Path, binaries: Path, launch_paths: list[str]) -> Result:
    """The result of one job with these paths."""
    settings = {"site": "lab", "launch_paths": launch_paths, "pool_mib": 16, "warmup_ms": 0, "warmup_rounds": 2}
    settings |= {"placements": PLACEMENTS, "full_placements": PLACEMENTS, "repetitions": REPETITIONS}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    label = cards(folder)[0]["label"]
    job = ["--label", label, "--launch-count", str(COUNT), "--binaries", str(binaries)]
    done = launchbench("measure", *job, cwd=folder)
    assert done.returncode == 0, done.stderr
    results, problems = read_results(folder / "results")
    assert problems == [] and len(results) == 1
    return results[0]


@pytest.mark.parametrize("path", OTHERS)
def test_a_path_launches_is_captured_and_counts(binaries: Path, tmp_path: Path, path: str) -> None:
    if missing := missing_modules(path):
        pytest.skip(f"not installed: {', '.join(missing)}")
    result = measured(tmp_path, binaries, ["native-driver", path])
    record, raw = result.record, result.raw
    assert record.paths_not_measured == {}
    assert record.kernels_not_measured.keys() == ({"torch"} if path == "torch" else set())
    kernels = ["tiny"] if path == "torch" else ["tiny", "empty"]
    blocks = {block.kernel: block for block in record.blocks if block.launch_path == path and block.attempt == 0}
    assert sorted(blocks) == sorted(kernels)
    for kernel, block in blocks.items():
        assert block.observed_count == block.expected_count and (block.observed_count > 0) == (kernel == "tiny")
        assert block.refused_updates == 0 and len(block.update_us) == PLACEMENTS - 1
        own = raw[(raw["launch_path"] == path) & (raw["kernel"] == kernel) & (raw["attempt"] == 0)]
        assert own.groupby("mode").size().to_dict() == dict.fromkeys(("loop", "replay"), PLACEMENTS * REPETITIONS)
        assert (own["gpu_us"] > 0).all() and own["placement"].nunique() == PLACEMENTS
    assert (path in record.frameworks) == (path in FRAMEWORK_PATHS)


def test_all_paths_share_one_process(binaries: Path, tmp_path: Path) -> None:
    """They share the primary context, and none leaves it in a state that another one cannot work in."""
    there = [path for path in FRAMEWORK_PATHS if not missing_modules(path)]
    if not there:
        pytest.skip(f"not installed: {', '.join(FRAMEWORK_PATHS)}")
    wanted = [*there, "cuda-bindings", "cuda-python", "native-driver", "native-runtime"]
    result = measured(tmp_path, binaries, wanted)
    assert result.record.paths_not_measured == {}
    assert {block.launch_path for block in result.record.blocks} == set(wanted)
    medians: pd.DataFrame = result.raw.groupby(["launch_path", "kernel", "mode"])["gpu_us"].median().unstack()
    print((medians[["loop", "replay"]] / COUNT).round(3).to_string())  # seen with pytest -rP
    assert all(block.observed_count == block.expected_count for block in result.record.blocks)


def test_what_is_not_installed_is_stated(binaries: Path, tmp_path: Path) -> None:
    lacking = [path for path in FRAMEWORK_PATHS if missing_modules(path)]
    if not lacking:
        pytest.skip("every framework is installed")
    record = measured(tmp_path, binaries, ["native-driver", *lacking]).record
    for path in lacking:
        name = missing_modules(path)[0]
        assert record.paths_not_measured[path].startswith("No module named") or name in record.paths_not_measured[path]
