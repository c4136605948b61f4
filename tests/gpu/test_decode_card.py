"""Exercise 6 on a real card with PyTorch: launches are counted, logits agree, the prediction is there before the times.

No time is asserted: how far the prediction misses is printed (``-s``) and told by the page.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from launchbench.aggregate.decode import tabulate
from launchbench.decode import unable
from launchbench.results.decode import DecodeRecord
from launchbench.results.decode_files import DECODE
from launchbench.results.extra_files import ExtraResult, read_extras
from tests.gpu.test_real_card import cards, launchbench, pytestmark

__all__ = ["pytestmark"]

SETTINGS = {
    "site": "lab",
    "launch_counts": [512],
    "placements": 4,
    "full_placements": 4,
    "pool_mib": 16,
    "warmup_ms": 0,
    "trials": 1,
}


@pytest.fixture(scope="module")
def folder(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a launch job and a decode job of one card were done."""
    if unable():
        pytest.skip(f"needs PyTorch with CUDA: {unable()}")
    folder = tmp_path_factory.mktemp("decode")
    (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    card = cards(folder)[0]
    named = ["--label", card["label"], "--card", card["card"], "--binaries", str(binaries)]
    done = launchbench("measure", *named, "--launch-count", "512", cwd=folder)
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "launchbench", "decode", *named]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    print(done.stderr)
    return folder


@pytest.fixture(scope="module")
def result(folder: Path) -> ExtraResult[DecodeRecord]:
    results, problems = read_extras(DECODE, folder / "results")
    assert problems == [] and len(results) == 1
    return results[0]


def test_it_was_run_and_its_launches_were_counted(result: ExtraResult[DecodeRecord]) -> None:
    record = result.record
    assert record.not_run is None and record.torch is not None
    first = record.points[0]
    assert (first.batch, first.width) == (1, 512)
    assert first.launches is not None and 300 <= first.launches <= 700, first.launches_reason
    assert first.nodes["kernel"] == first.launches <= sum(first.nodes.values())


def test_logits_of_eager_and_graph_agree_at_every_point(result: ExtraResult[DecodeRecord]) -> None:
    tolerance = result.record.protocol.tolerance
    for point in result.record.points:
        assert point.largest_logit > 0 and point.largest_difference <= tolerance * point.largest_logit, point
    assert not [one.reason for one in result.record.left_out if "differ" in one.reason]


def test_it_was_predicted_from_its_parts_and_from_what_is_stored(result: ExtraResult[DecodeRecord]) -> None:
    found = result.record.prediction
    assert found is not None, result.record.prediction_reason
    assert found.launches == result.record.points[0].launches
    assert found.made_utc <= result.record.points[0].before.taken_utc
    assert abs(sum(part.launches for part in found.parts) - found.launches) <= 0.1 * found.launches
    assert all(part.host_us > 0 for part in found.parts) and found.graph_us > 0 and found.eager_us > 0
    assert found.stored is not None and found.stored.launch_count == 512 and found.stored.queued_us


def test_the_tables_have_times_of_the_first_point(folder: Path) -> None:
    made = tabulate(folder / "results")
    row, job = made.decode.iloc[0], made.decode_jobs.iloc[0]
    assert row["repetitions_used"] > 0, row["flags"]
    assert row["eager_us"] > 0 and row["graph_us"] > 0 and row["graph_issue_us"] < row["eager_issue_us"]
    columns = ["predicted_eager_us", "eager_miss_percent", "predicted_graph_us", "graph_miss_percent"]
    assert job[columns].notna().all()
    print(made.decode.to_string(), job.to_string(), sep="\n")
