"""What a launch consists of: numbers against the model they were made from, and what cannot be told."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launchbench.aggregate import anatomy
from launchbench.aggregate.join import aggregate
from launchbench.aggregate.stats import Estimate
from launchbench.aggregate.trials import ALL_EQUAL, TOO_FEW_TRIALS
from tests.unit.fabricate import write_sweep
from tests.unit.fabricate_modes import ModeModel, write_modes


def tabulate(results: Path) -> pd.DataFrame:
    return aggregate(results, [], ()).anatomy


def tiny(results: Path) -> pd.DataFrame:
    frame = tabulate(results)
    return frame[frame["kernel"] == "tiny"].set_index("launch_count")


@pytest.fixture(scope="module")
def host_bound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host-bound")
    write_modes(folder)
    return folder


def test_every_part_is_that_of_the_model(host_bound: Path) -> None:
    model, rows = ModeModel(), tiny(host_bound)
    assert list(rows.index) == [8, 64, 512, 4096]
    for n, row in rows.iterrows():
        assert row["trials"] == 3
        assert row["loop_us"] == pytest.approx(model.loop_us(n) / n, rel=0.02)
        assert row["issue_us"] == pytest.approx(model.issue, rel=0.02)
        assert row["node_us"] == pytest.approx(model.replay_us(n) / n, rel=0.02)
        assert row["graph_call_us"] == pytest.approx(model.replay_call)
        assert row["kernel_us"] == pytest.approx(model.node - model.empty_node, rel=0.1)
        assert row["kernel_low_us"] < row["kernel_us"] < row["kernel_high_us"] and row["kernel_reason"] == ""
        assert row["loop_low_us"] < row["loop_us"] < row["loop_high_us"]
        assert row["node_mode"] == "replay-queued"
        for mode in ("loop", "replay"):
            assert row[f"{mode}_dependent_ratio"] == pytest.approx(model.dependent, rel=0.02)
            assert row[f"{mode}_dependent_ratio_low"] < row[f"{mode}_dependent_ratio_high"]
    for n in (8, 64, 512):
        pace = (model.loop_fixed + n * model.pace) / n
        assert rows.loc[n, "pace_us"] == pytest.approx(pace, rel=0.02)
        assert rows.loc[n, "issue_over_pace"] == pytest.approx(model.issue / pace, rel=0.02)
        assert tuple(rows.loc[n, ["bottleneck", "bottleneck_reason"]]) == ("host-issue", "")
    assert math.isnan(rows.loc[4096, "pace_us"]) and rows.loc[4096, "bottleneck"] == "past-queue-depth"


def test_the_control_has_no_kernel_of_its_own(host_bound: Path) -> None:
    frame = tabulate(host_bound)
    control = frame[frame["kernel"] == "empty"]
    assert len(control) == 4 and control["kernel_us"].isna().all()
    assert set(control["kernel_reason"]) == {anatomy.IS_CONTROL}


def test_a_device_that_is_slower_than_the_host_is_the_bottleneck(tmp_path: Path) -> None:
    write_modes(tmp_path, (512,), model=ModeModel(pace=9.0))
    assert tiny(tmp_path).loc[512, "bottleneck"] == "device-pace"


def test_no_control_and_no_queue_are_named(tmp_path: Path) -> None:
    write_modes(tmp_path, (512, 600), kernels=("tiny",))
    rows = tiny(tmp_path)
    assert math.isnan(rows.loc[512, "kernel_us"]) and rows.loc[512, "kernel_reason"] == anatomy.NO_CONTROL
    assert rows.loc[600, "bottleneck"] == "cannot-tell"
    assert rows.loc[600, "bottleneck_reason"] == "not timed: N = 600 is past what is issued behind a gate, 512"


def test_a_kernel_that_is_lost_in_the_noise_cannot_be_told(tmp_path: Path) -> None:
    write_modes(tmp_path, (512,), model=ModeModel(empty_node=0.75, process=0.01))
    row = tiny(tmp_path).loc[512]
    assert row["kernel_low_us"] < 0 < row["kernel_high_us"] and row["kernel_reason"] == anatomy.WITHIN_NOISE


@pytest.mark.parametrize("old", [{"format": 2}, {"format": 3}])
def test_one_trial_of_two_modes_has_values_and_no_verdict(tmp_path: Path, old: dict[str, Any]) -> None:
    write_sweep(tmp_path, (8, 2048), **old)
    rows = tiny(tmp_path)
    assert rows.loc[8, "loop_us"] == pytest.approx(ModeModel().loop_us(8) / 8, rel=0.02)
    for name in ("loop_low_us", "pace_us", "loop_dependent_ratio", "kernel_low_us"):
        assert rows[name].isna().all()
    assert rows.loc[8, "interval_reason"] == rows.loc[8, "kernel_reason"] == TOO_FEW_TRIALS
    assert tuple(rows.loc[8, ["bottleneck", "bottleneck_reason"]]) == ("cannot-tell", anatomy.NOT_MEASURED)
    assert rows.loc[2048, "bottleneck"] == "past-queue-depth"


@pytest.mark.parametrize(
    ("n", "slower", "expected"),
    [
        (64, Estimate(3.0, 2.9, 3.1), ("host-issue", "")),
        (64, Estimate(0.5, 0.4, 0.6), ("device-pace", "")),
        (64, Estimate(1.1, 0.9, 1.3), ("cannot-tell", anatomy.OVERLAP)),
        (64, Estimate(3.0, reason=TOO_FEW_TRIALS), ("cannot-tell", TOO_FEW_TRIALS)),
        (64, Estimate(3.0, reason=ALL_EQUAL), ("host-issue", "")),
        (64, Estimate(0.9, reason=ALL_EQUAL), ("device-pace", "")),
        (64, Estimate(1.01, reason=ALL_EQUAL), ("cannot-tell", anatomy.OVERLAP)),
        (64, None, ("cannot-tell", "why")),
        (1, Estimate(3.0, 2.9, 3.1), ("cannot-tell", anatomy.ONE_LAUNCH)),
        (1024, Estimate(3.0, 2.9, 3.1), ("host-issue", "")),
        (1025, Estimate(3.0, 2.9, 3.1), ("past-queue-depth", "")),
    ],
)
def test_what_a_loop_waits_for(n: int, slower: Estimate | None, expected: tuple[str, str]) -> None:
    assert anatomy.decide(n, slower, "why") == expected


def test_modes_that_were_flagged_leave_a_cell_out(tmp_path: Path) -> None:
    def throttled(record: dict[str, Any], _: pd.DataFrame) -> None:
        for block in record["blocks"]:
            block["after"]["throttle_reasons"] = ["hw_thermal_slowdown"]

    write_modes(tmp_path, (64,), edit=throttled)
    assert tabulate(tmp_path).empty
