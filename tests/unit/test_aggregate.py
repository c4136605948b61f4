"""From files of known cost to tables: figures, flags and gaps."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from launchbench.aggregate import cards
from launchbench.aggregate.fits import OTHER_TRIALS
from launchbench.aggregate.join import Tables, aggregate
from launchbench.aggregate.trials import ALL_EQUAL, TOO_FEW_TRIALS
from launchbench.aggregate.write import write_tables
from launchbench.report.comparison import read_repetitions, read_table
from launchbench.results import flags, tables
from launchbench.results.failures import Failure
from launchbench.results.files import read_results
from launchbench.results.record import RECORD_FORMAT
from tests.unit.fabricate import LAUNCH_COUNTS, CostModel, protocol_of, uuid, write_four_cards, write_job, write_sweep

LABELS = ["t4", "a100", "h100", "h200"]
WHOLE = [*cards.WHOLE, "gaps"]


def tabulate(results: Path, labels: list[str] | None = None, counts: tuple[int, ...] = LAUNCH_COUNTS) -> Tables:
    return aggregate(results, labels or [], counts)


def write(results: Path, out: Path, labels: list[str] | None = None, counts: tuple[int, ...] = LAUNCH_COUNTS) -> None:
    write_tables(results, out, out.with_name(f"{out.name}-cache"), labels or [], counts)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def chosen(
    rows: pd.DataFrame, count: int, path: str = "native-driver", kernel: str = "tiny", **more: Any
) -> pd.DataFrame:
    for name, value in {"launch_count": count, "launch_path": path, "kernel": kernel, **more}.items():
        rows = rows[rows[name] == value]
    return rows


def row(made: Tables, count: int, *path_and_kernel: str, **more: Any) -> dict[Any, Any]:
    (only,) = chosen(made.summary, count, *path_and_kernel, **more).to_dict("records")
    return only


def trials_of(made: Tables, **more: Any) -> pd.DataFrame:
    """Rows of the loop from the native driver."""
    return chosen(made.trials, mode="loop", **more)


def test_known_costs_come_back(tmp_path: Path) -> None:
    model = CostModel()
    write_sweep(tmp_path, trials=3, model=model)
    made = tabulate(tmp_path)
    assert len(made.summary) == 4 * len(LAUNCH_COUNTS)
    for count in LAUNCH_COUNTS:
        got = row(made, count)
        loop, replay = model.loop_us(count), model.replay_us(count)
        assert got["loop_us"] == pytest.approx(loop, rel=0.005)
        assert got["replay_us"] == pytest.approx(replay, rel=0.005)
        assert got["speedup"] == pytest.approx(loop / replay, rel=0.005)
        assert got["speedup_low"] < loop / replay < got["speedup_high"] < got["speedup_low"] * 1.03
        assert got["loop_low_us"] < loop < got["loop_high_us"] < got["loop_low_us"] * 1.03
        assert got["replay_low_us"] < replay < got["replay_high_us"] < got["replay_low_us"] * 1.03
        assert got["loop_us_per_launch"] == got["loop_us"] / count
        assert got["replay_us_per_node"] == got["replay_us"] / count
        assert got["loop_issue_us"] == pytest.approx(loop - model.loop_fixed, rel=0.007)
        assert got["loop_total_us"] == pytest.approx(loop + model.synchronize, rel=0.005)
        assert got["replay_issue_us"] == model.replay_call
        assert (got["capture_us"], got["instantiate_us"], got["upload_us"]) == model.once_us(count)
        assert (got["one_off_samples"], got["capture_min_us"], got["capture_max_us"]) == (
            15,
            0.75 * got["capture_us"],
            1.5 * got["capture_us"],
        )
        assert (got["recapture_us"], got["update_us"]) == (got["capture_us"], got["capture_us"] / 4)
        assert got["graph_bytes"] == got["graph_max_bytes"] == 4096 * count
        assert got["break_even_replays"] == math.ceil(sum(model.once_us(count)) / (loop - replay))
        assert got["break_even_replays_low"] <= got["break_even_replays"] <= got["break_even_replays_high"]
        assert (got["trials"], got["placements"], got["repetitions_used"]) == (3, 12, 48)
        assert (got["repetitions_flagged"], got["flags"], got["interval_reason"]) == (0, "", "")
        assert (
            got["runs"].split() == sorted(set(made.summary["runs"][made.summary["launch_count"] == count]))[0].split()
        )
        assert got["runs"].split()[2] == got["run_id"] and len(set(got["runs"].split())) == 3
    assert row(made, 512, "cuda-python")["loop_us"] == pytest.approx(model.loop_us(512, "cuda-python"), rel=0.005)
    assert row(made, 512, kernel="empty")["replay_us"] == pytest.approx(model.replay_us(512, "empty"), rel=0.005)
    assert row(made, 512)["regime"] == "below-queue-depth"
    assert row(made, 4096)["regime"] == "past-queue-depth"
    assert made.gaps.empty


def test_figures_are_those_of_the_repetitions(tmp_path: Path) -> None:
    write_sweep(tmp_path, (64,), trials=3)
    made = tabulate(tmp_path)
    tidy = chosen(made.tidy, 64)
    medians = tidy.groupby(["run_id", "mode", "placement"])["gpu_us"].median()
    figures = medians.groupby(["run_id", "mode"]).mean().unstack()
    rows = chosen(made.trials, 64).pivot(index="run_id", columns="mode", values="gpu_us")
    np.testing.assert_allclose(rows, figures)
    got = row(made, 64)
    assert got["loop_us"] == pytest.approx(figures["loop"].mean())
    assert got["speedup"] == pytest.approx(math.exp(np.log(figures["loop"] / figures["replay"]).mean()))
    (replay,) = chosen(made.modes, 64, mode="replay").to_dict("records")
    assert (replay["gpu_us"], replay["gpu_low_us"]) == (got["replay_us"], got["replay_low_us"])
    ends = medians.xs("replay", level="mode")
    assert (replay["placement_low_us"], replay["placement_high_us"]) == (ends.min(), ends.max())
    assert replay["spread_percent"] == pytest.approx(100 * (ends.max() - ends.min()) / got["replay_us"])
    assert replay["spread_percent"] > 3.5, "the levels of placements are 4 % apart"


def test_every_mode_has_its_own_figures(tmp_path: Path) -> None:
    why = "N = 64 is past what is issued"

    def edit(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["blocks"][0]["not_timed"] = {"loop-dependent": why}
        raw.loc[(raw["mode"] == "queued") & (raw["repetition"] == 3), "gpu_us"] = np.nan
        raw.loc[raw["mode"] == "fused-memory", "gpu_us"] = np.nan

    model = CostModel(noise=0.0, process=0.0)
    write_sweep(tmp_path, (64,), trials=3, model=model, modes=("replay-batch", "queued", "fused-memory"), edit=edit)
    made = tabulate(tmp_path)
    modes = chosen(made.modes, 64).set_index("mode")
    names = ["loop", "replay", "replay-batch", "queued", "loop-dependent", "fused-memory"]
    assert list(modes.index) == names
    # Eight replays in an interval; the times are of one.
    batch = modes.loc["replay-batch"]
    assert batch["gpu_us"] == pytest.approx(modes.loc["replay", "gpu_us"])
    assert (batch["issue_us"], batch["reason"]) == (pytest.approx(model.replay_call), ALL_EQUAL)
    assert modes.loc["queued", "gpu_us"] == pytest.approx(model.loop_fixed + 64 * model.pace)
    assert modes.loc["loop-dependent", ["trials", "reason"]].tolist() == [0, f"not timed: {why}"]
    fused = modes.loc["fused-memory"]
    assert (fused["trials"], fused["reason"]) == (0, "fused-memory: no GPU time (8 repetitions)")
    assert (
        modes.loc[["loop-dependent", "fused-memory"], ["gpu_us", "issue_us", "placement_low_us"]].isna().all(axis=None)
    )
    # What another mode lacks leaves loop and replay alone.
    queued = chosen(made.trials, 64, mode="queued")
    assert queued[["repetitions_used", "repetitions_flagged"]].to_numpy().tolist() == [[6, 2]] * 3
    assert set(queued["flags"]) == {"queued: no GPU time (2 repetitions)"}
    got = row(made, 64)
    assert (got["repetitions_used"], got["repetitions_flagged"], got["flags"]) == (48, 0, "")


def test_lines_over_n_give_the_costs(tmp_path: Path) -> None:
    model = CostModel()
    write_sweep(tmp_path, trials=4, model=model)
    fits = tabulate(tmp_path).fits
    chosen = fits[(fits["launch_path"] == "native-driver") & (fits["kernel"] == "tiny")].set_index("mode")
    for mode, fixed, each in (("loop", model.loop_fixed, model.issue), ("replay", model.replay_fixed, model.node)):
        assert chosen.loc[mode, "points"] == 4
        assert chosen.loc[mode, "per_launch_us"] == pytest.approx(each, rel=0.005)
        assert chosen.loc[mode, "fixed_us"] == pytest.approx(fixed, rel=0.1)
        assert chosen.loc[mode, "per_launch_low_us"] < each < chosen.loc[mode, "per_launch_high_us"]
        assert chosen.loc[mode, "largest_residual_percent"] < 1
        assert chosen.loc[mode, "verdict"].startswith("straight line")
        assert chosen.loc[mode, "interval_reason"] == ""


def test_a_line_that_does_not_fit_says_so_and_names_the_regime(tmp_path: Path) -> None:
    write_sweep(tmp_path, model=CostModel(past_depth_issue=1.2))
    fits = tabulate(tmp_path).fits
    verdict = fits[(fits["launch_path"] == "native-driver") & (fits["mode"] == "loop")]["verdict"].iloc[0]
    assert "wrong model" in verdict
    assert "N = 4,096 lies past the queue's depth" in verdict


@pytest.mark.parametrize(
    ("counts", "points", "verdict", "has_line"),
    [((512,), 1, "no line: one N only", False), ((8, 512), 2, "line through two points", True)],
)
def test_few_values_of_n(tmp_path: Path, counts: tuple[int, ...], points: int, verdict: str, has_line: bool) -> None:
    write_sweep(tmp_path, counts)
    fits = tabulate(tmp_path, counts=counts).fits
    assert set(fits["points"]) == {points}
    assert fits["verdict"].str.startswith(verdict).all()
    assert fits["per_launch_us"].notna().all() == has_line
    assert fits["per_launch_low_us"].isna().all()
    assert fits["largest_residual_percent"].isna().all()


@pytest.mark.parametrize(("trials", "more", "reason"), [((3, 4), {}, OTHER_TRIALS), ((2, 3), {}, TOO_FEW_TRIALS)])
def test_a_line_has_an_interval_only_over_the_same_trials(
    tmp_path: Path, trials: tuple[int, int], more: dict[str, Any], reason: str
) -> None:
    write_sweep(tmp_path, (8, 64), trials=trials[0])
    write_sweep(tmp_path, (512,), trials=trials[1])
    fits = tabulate(tmp_path).fits
    assert set(fits["interval_reason"]) == {reason}
    assert fits[["fixed_low_us", "fixed_high_us", "per_launch_low_us", "per_launch_high_us"]].isna().all(axis=None)
    assert fits["per_launch_us"].notna().all() and fits["largest_residual_percent"].notna().all()


@pytest.mark.parametrize("options", [{"trials": 1}, {"trials": 2}, {"format": 2}, {"format": 1}], ids=str)
def test_fewer_than_three_trials_have_no_interval(tmp_path: Path, options: dict[str, Any]) -> None:
    write_sweep(tmp_path, (64, 512), **options)
    made = tabulate(tmp_path)
    assert set(made.summary["trials"]) == {options.get("trials", 1)}
    assert made.summary[["loop_us", "replay_us", "speedup", "break_even_replays"]].notna().all(axis=None)
    for name in ("loop_low_us", "loop_high_us", "replay_low_us", "speedup_low", "break_even_replays_high"):
        assert made.summary[name].isna().all()
    assert set(made.summary["interval_reason"]) == {TOO_FEW_TRIALS}
    if "format" in options:
        assert set(made.summary["repetitions_used"]) == {50} and made.modes["spread_percent"].isna().all()
        assert made.summary["recapture_us"].isna().all()


# --- flags of repetitions


def _set(raw: pd.DataFrame, mode: str, column: str, value: float) -> None:
    at = (raw["mode"] == mode) & (raw["repetition"] == 3) & (raw["launch_path"] == "native-driver")
    at &= raw["placement"] == 1
    raw.loc[at & (raw["kernel"] == "tiny"), column] = value


ROW_FLAGS = [
    ("replay", "gpu_us", np.nan, "replay: no GPU time"),
    ("loop", "gpu_us", 0.0, "loop: GPU time not positive"),
    ("loop", "gpu_us", -1.0, "loop: GPU time not positive"),
    ("loop", "gpu_us", np.inf, "loop: GPU time not positive"),
    ("replay", "issue_us", 0.0, "replay: host time not positive"),
    ("loop", "total_us", -3.0, "loop: host time not positive; loop: total time below issue time"),
    ("loop", "issue_us", 1e7, "loop: total time below issue time"),
    ("replay", "gpu_us", 1e6, "replay: GPU time longer than the host saw"),
]


@pytest.mark.parametrize(("mode", "column", "value", "reason"), ROW_FLAGS)
def test_an_impossible_time_leaves_its_round_out(
    tmp_path: Path, mode: str, column: str, value: float, reason: str
) -> None:
    write_job(tmp_path, 512, edit=lambda _, raw: _set(raw, mode, column, value))
    made = tabulate(tmp_path)
    flagged = made.tidy[made.tidy["flag"] != ""]
    assert sorted(flagged["mode"]) == ["loop", "replay"]
    assert set(flagged["repetition"]) == {3} and set(flagged["placement"]) == {1}
    assert flagged["flag"].str.startswith(reason).all()
    got = row(made, 512)
    assert (got["repetitions_used"], got["repetitions_flagged"]) == (15, 1)
    assert got["flags"].startswith(reason) and got["flags"].endswith("(1 repetition)")
    assert got["loop_us"] == pytest.approx(CostModel().loop_us(512), rel=0.01)
    assert row(made, 512, "cuda-python")["repetitions_flagged"] == 0
    assert len(made.tidy) == 4 * (2 * 2 * 4 + 2 * 4)


def test_events_may_begin_a_little_before_the_host_clock(tmp_path: Path) -> None:
    def edit(_: dict[str, Any], raw: pd.DataFrame) -> None:
        raw["gpu_us"] = raw["total_us"] + flags.HOST_SLACK_US

    write_job(tmp_path, 8, edit=edit)
    assert (tabulate(tmp_path).tidy["flag"] == "").all()


def test_a_repetition_without_its_partner_or_twice_is_left_out(tmp_path: Path) -> None:
    def edit(_: dict[str, Any], raw: pd.DataFrame) -> pd.DataFrame:
        mine = (raw["launch_path"] == "native-driver") & (raw["kernel"] == "tiny")
        lost = mine & (raw["placement"] == 0) & (raw["repetition"] == 1) & (raw["mode"] == "replay")
        lost |= mine & (raw["placement"] == 1) & (raw["repetition"] == 1) & (raw["mode"] == "loop")
        twice = raw[mine & (raw["placement"] == 3) & (raw["repetition"] == 2) | mine & (raw["mode"] == "queued")]
        return pd.concat([raw[~lost], twice], ignore_index=True)

    write_job(tmp_path, 8, modes=("queued",), edit=edit)
    made = tabulate(tmp_path)
    got = row(made, 8)
    assert (got["repetitions_used"], got["repetitions_flagged"]) == (13, 3)
    assert got["flags"] == "; ".join(
        f"{reason} (1 repetition)"
        for reason in ("no loop in this repetition", "no replay in this repetition", "recorded twice")
    )
    (queued,) = chosen(made.trials, 8, mode="queued").to_dict("records")
    assert (queued["repetitions_used"], queued["flags"]) == (0, "recorded twice (16 repetitions)")


def test_a_block_without_any_loop_has_no_valid_sample(tmp_path: Path) -> None:
    write_job(tmp_path, 8, edit=lambda _, raw: raw[raw["mode"] == "replay"])
    made = tabulate(tmp_path, counts=(8,))
    assert row(made, 8)["flags"] == "no loop in this repetition (16 repetitions)"
    assert len(made.gaps) == 4 and math.isnan(row(made, 8)["replay_us"])


def test_placements_whose_loops_cannot_be_used_leave_the_cell_without_a_sample(tmp_path: Path) -> None:
    """Replays at the other placements alone are nothing to compare."""

    def edit(_: dict[str, Any], raw: pd.DataFrame) -> None:
        raw.loc[raw["mode"] == "loop", "gpu_us"] = np.nan

    write_job(tmp_path, 8, edit=edit)
    made = tabulate(tmp_path, counts=(8,))
    got = row(made, 8)
    assert got["trials"] == 0 and math.isnan(got["speedup"]) and got["replay_us"] > 0
    assert made.gaps["reason"].str.contains("loop: no GPU time").all() and len(made.gaps) == 4


# --- flags of blocks


def _block(**changes: Any) -> Any:
    def edit(record: dict[str, Any], _: pd.DataFrame) -> None:
        block = record["blocks"][0]
        for name, value in changes.items():
            block[name] = {**block[name], **value} if isinstance(value, dict) else value

    return edit


BLOCK_FLAGS = [
    ({"observed_count": 7}, "wrong count: 7 seen, "),
    ({"before": {"throttle_reasons": ["hw_slowdown"]}}, "clock throttled: hw_slowdown (before)"),
    ({"after": {"throttle_reasons": ["gpu_idle", "sw_power_cap"]}}, "clock throttled: sw_power_cap (after)"),
    (
        {
            "before": {"throttle_reasons": ["sw_thermal_slowdown"]},
            "after": {"throttle_reasons": ["sw_thermal_slowdown"]},
        },
        "clock throttled: sw_thermal_slowdown (before and after)",
    ),
    ({"after": {"throttle_reasons": ["hw_thermal_slowdown"]}}, "clock throttled: hw_thermal_slowdown (after)"),
    ({"after": {"throttle_reasons": ["hw_power_brake_slowdown"]}}, "clock throttled: hw_power_brake_slowdown"),
    ({"after": {"other_processes": [{"pid": 1}]}}, "other process on the card (after)"),
    ({"protocol_hash": "0" * 12}, "protocol hash does not belong"),
]


@pytest.mark.parametrize(("changes", "reason"), BLOCK_FLAGS)
def test_nothing_of_a_bad_block_is_used(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    write_job(tmp_path, 512, edit=_block(**changes))
    made = tabulate(tmp_path, counts=(512,))
    got = row(made, 512)
    assert (got["trials"], got["repetitions_used"], got["repetitions_flagged"]) == (0, 0, 16)
    assert got["flags"].startswith(reason) and got["flags"].endswith("(16 repetitions)")
    for name in ("loop_us", "replay_us", "speedup", "capture_us", "break_even_replays"):
        assert math.isnan(got[name])
    assert (made.tidy["flag"] != "").sum() == 24
    assert len(made.gaps) == 1
    gap = made.gaps.iloc[0]
    assert gap["reason"].startswith(f"no valid samples (native-driver, tiny): {reason}")
    assert (tmp_path / gap["file"]).is_file()
    assert gap["launch_count"] == 512


@pytest.mark.parametrize("names", [["gpu_idle"], ["applications_clocks_setting"], ["sync_boost"], [], None])
def test_an_idle_or_configured_clock_is_no_throttling(tmp_path: Path, names: list[str] | None) -> None:
    write_job(tmp_path, 512, edit=_block(before={"throttle_reasons": names}, after={"throttle_reasons": names}))
    assert row(tabulate(tmp_path), 512)["flags"] == ""


def test_rows_without_a_block_in_the_record_are_not_used(tmp_path: Path) -> None:
    write_job(tmp_path, 8, edit=lambda record, _: record["blocks"].pop(0) and None)
    got = row(tabulate(tmp_path), 8)
    assert got["repetitions_used"] == 0
    assert got["flags"] == f"{flags.NOT_IN_RECORD} (16 repetitions)"


def test_a_block_that_was_repeated_counts_with_its_good_attempt(tmp_path: Path) -> None:
    def edit(record: dict[str, Any], raw: pd.DataFrame) -> pd.DataFrame:
        block = record["blocks"][0]
        hot = {**block["after"], "throttle_reasons": ["hw_slowdown"]}
        record["blocks"].append({**block, "attempt": 1, "capture_us": [7.0] * 5})
        record["blocks"][0] = {**block, "after": hot}
        again = raw[(raw["launch_path"] == "native-driver") & (raw["kernel"] == "tiny")].assign(attempt=1)
        slow = raw.assign(gpu_us=raw["gpu_us"] * 3, total_us=raw["total_us"] * 3)
        slow.loc[(raw["launch_path"] != "native-driver") | (raw["kernel"] != "tiny"), :] = raw
        return pd.concat([slow, again], ignore_index=True)

    write_job(tmp_path, 64, edit=edit)
    made = tabulate(tmp_path, counts=(64,))
    got = row(made, 64)
    assert (got["repetitions_used"], got["repetitions_flagged"], got["trials"]) == (16, 16, 1)
    assert got["flags"] == "clock throttled: hw_slowdown (after) (16 repetitions)"
    assert got["loop_us"] == pytest.approx(CostModel().loop_us(64), rel=0.01)
    assert (got["capture_us"], got["one_off_samples"]) == (7.0, 5)
    (loop,) = trials_of(made, count=64).to_dict("records")
    assert loop["once_us"] == pytest.approx(7.0 + sum(CostModel().once_us(64)[1:]))
    assert made.gaps.empty


def test_a_block_without_rows_is_told(tmp_path: Path) -> None:
    write_job(tmp_path, 8, edit=lambda _, raw: raw[raw["launch_path"] != "native-driver"])
    made = tabulate(tmp_path)
    assert row(made, 8)["flags"] == flags.NO_REPETITIONS
    assert made.gaps["reason"].str.contains(flags.NO_REPETITIONS).sum() == 2


# --- identity


def test_the_newest_run_stands_for_the_older_ones_of_its_trial(tmp_path: Path) -> None:
    write_sweep(tmp_path, (64,), trials=3)
    write_job(tmp_path, 64, run=1, trial=2, model=CostModel(issue=9))
    made = tabulate(tmp_path)
    rows = trials_of(made, count=64)
    assert rows[["trial", "superseded"]].to_numpy().tolist() == [[1, False], [2, True], [2, False], [3, False]]
    got = row(made, 64)
    assert got["trials"] == 3 and got["loop_us"] == pytest.approx(rows.loc[~rows["superseded"], "gpu_us"].mean())
    # Oldest first, the identity is that of the newest, whatever its trial.
    started = rows.sort_values("started_utc")
    assert got["runs"].split() == started.loc[~started["superseded"], "run_id"].tolist()
    assert (got["run_id"], got["started_utc"]) == tuple(started[["run_id", "started_utc"]].iloc[-1])


def test_moments_are_compared_as_moments(tmp_path: Path) -> None:
    def at(text: str) -> Any:
        return lambda record, _: record.update(started_utc=text)

    write_job(tmp_path, 64, run=1, edit=at("2026-01-02T03:04:05Z"))
    write_job(tmp_path, 64, run=0, edit=at("2026-01-02T03:04:05.5Z"))
    trials = tabulate(tmp_path).trials
    assert set(trials.loc[trials["superseded"], "started_utc"]) == {"2026-01-02T03:04:05Z"}


def test_a_run_without_a_valid_sample_does_not_hide_an_older_one(tmp_path: Path) -> None:
    write_job(tmp_path, 64, run=0)
    write_job(tmp_path, 64, run=1, edit=_block(observed_count=7))
    made = tabulate(tmp_path, counts=(64,))
    rows = trials_of(made, count=64)
    assert not rows["superseded"].any()
    assert rows["repetitions_used"].tolist() == [8, 0]
    got = row(made, 64)
    assert (got["trials"], got["repetitions_used"], len(got["runs"].split())) == (1, 16, 2)
    assert got["flags"].startswith("wrong count: 7 seen") and got["loop_us"] == rows["gpu_us"].iloc[0]
    assert made.gaps.empty
    write_job(tmp_path, 64, run=2)
    assert trials_of(tabulate(tmp_path), count=64)["superseded"].tolist() == [True, True, False]


def _host(name: str, value: str) -> Any:
    return lambda record, _: record["host" if name == "hostname" else "software"].update({name: value})


@pytest.mark.parametrize(
    "other",
    [
        {"card": 1},
        {"site": "elsewhere"},
        {"hostname": "other-host"},
        {"driver_version": "581.00"},
        {"driver_version": None},
        {"edit": _host("nvcc", "13.1")},
        {"repetitions": 5},
        {"placements": 6},
        {"virtual": True},
        {"label": "a100"},
    ],
)
def test_rows_that_differ_in_identity_are_never_pooled(tmp_path: Path, other: dict[str, Any]) -> None:
    write_sweep(tmp_path)
    write_sweep(tmp_path, run=1, model=CostModel(issue=9, node=2), **other)
    made = tabulate(tmp_path)
    assert not made.trials["superseded"].any() and set(made.summary["trials"]) == {1}
    fits = made.fits[(made.fits["launch_path"] == "native-driver") & (made.fits["kernel"] == "tiny")]
    slopes = sorted(fits.loc[fits["mode"] == "loop", "per_launch_us"])
    assert slopes == pytest.approx([4.5, 9], rel=0.01)


def test_virtual_rows_stay_marked(tmp_path: Path) -> None:
    write_job(tmp_path, 8, virtual=True)
    made = tabulate(tmp_path, ["t4"], (8,))
    for frame in (made.tidy, made.trials, made.modes, made.summary, made.fits):
        assert frame["virtual"].all()
    assert made.gaps["reason"].tolist() == ["not measured yet: only a simulated GPU has results under this label"]


# --- break-even


def test_a_graph_that_never_pays(tmp_path: Path) -> None:
    write_sweep(tmp_path, model=CostModel(issue=0.7, node=0.75, loop_fixed=1))
    made = tabulate(tmp_path)
    assert np.isinf(made.summary.loc[made.summary["launch_path"] == "native-driver", "break_even_replays"]).any()
    write(tmp_path, tmp_path.with_name("tables"))
    assert np.isinf(read_table(tmp_path.with_name("tables"), "summary")["break_even_replays"]).any()


# --- gaps


def _first_line(path: Path) -> bytes:
    return path.read_bytes().split(b"\n", 1)[0] + b"\n"


DAMAGES = [
    ("deleted", lambda csv, _: csv.unlink(), "missing; its record is there"),
    ("zero bytes", lambda csv, _: csv.write_bytes(b""), "empty (zero bytes)"),
    ("header", lambda csv, _: csv.write_bytes(_first_line(csv)), "only a header, no rows"),
    ("cut", lambda csv, _: csv.write_bytes(csv.read_bytes()[:-9]), "cut short"),
    ("changed", lambda csv, _: csv.write_bytes(csv.read_bytes().replace(b"loop", b"lo0p")), "changed since"),
    ("no record", lambda _, record: record.unlink(), "no record beside it"),
    ("empty record", lambda _, record: record.write_bytes(b""), f"empty; expected a {RECORD_FORMAT}"),
    ("broken record", lambda _, record: record.write_bytes(b"{"), "Invalid JSON"),
    ("wrong record", lambda _, record: record.write_text(json.dumps({"format": "x"})), "format"),
]


@pytest.mark.parametrize(("damage", "reason"), [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES])
def test_every_damage_is_a_gap_with_its_reason(tmp_path: Path, damage: Any, reason: str) -> None:
    results = tmp_path / "results"
    records = write_sweep(results)
    damage(records[2].with_suffix(".csv"), records[2])
    made = tabulate(results)
    assert len(made.gaps) == 1
    gap = made.gaps.iloc[0]
    assert reason in gap["reason"]
    assert (gap["site"], gap["label"], gap["card"], gap["launch_count"]) == ("lab", "t4", uuid(0)[4:12], 512)
    assert gap["file"].startswith("lab/t4/")
    assert str(tmp_path) not in made.gaps.to_csv()
    assert set(made.summary["launch_count"]) == {8, 64, 4096}
    assert set(made.fits["points"]) == {3}


def test_a_copied_job_counts_once(tmp_path: Path) -> None:
    write_job(tmp_path / "r", 8)
    shutil.copytree(tmp_path / "r" / "lab", tmp_path / "r" / "lab2")
    made = tabulate(tmp_path / "r", counts=(8,))
    assert set(made.summary["site"]) == {"lab"}
    (gap,) = made.gaps.to_dict("records")
    assert gap["site"] == "lab2"
    assert re.search("the same job as .?lab/t4/", gap["reason"])
    assert str(tmp_path) not in made.gaps.to_csv()


def test_labels_and_counts_that_nobody_measured(tmp_path: Path) -> None:
    write_sweep(tmp_path, (8, 64), label="h200")
    made = tabulate(tmp_path, LABELS)
    whole = made.gaps[made.gaps["launch_count"].isna()]
    assert sorted(whole["label"]) == ["a100", "h100", "t4"]
    assert set(whole["reason"]) == {"not measured yet"}
    single = made.gaps[made.gaps["launch_count"].notna()]
    assert single[["label", "launch_count", "reason"]].to_numpy().tolist() == [
        ["h200", 512, "not measured at this N"],
        ["h200", 4096, "not measured at this N"],
    ]


def test_a_label_with_broken_files_only(tmp_path: Path) -> None:
    write_job(tmp_path, 8).write_bytes(b"")
    gaps = tabulate(tmp_path, ["t4"], (8,)).gaps
    assert sorted(gaps["reason"]) == [
        f"empty; expected a {RECORD_FORMAT} record",
        "not measured yet: none of its files can be used",
    ]


@pytest.mark.parametrize("exists", [True, False])
def test_no_results_at_all(tmp_path: Path, exists: bool) -> None:
    results = tmp_path / "results"
    if exists:
        results.mkdir()
    made = tabulate(results, LABELS)
    for frame in (made.tidy, made.trials, made.modes, made.summary, made.fits):
        assert frame.empty
    assert sorted(made.gaps["label"]) == sorted(LABELS)
    write(results, tmp_path / "tables", LABELS)
    assert list((tmp_path / "tables" / "tidy").iterdir()) == []
    for name in WHOLE:
        again = read_table(tmp_path / "tables", name)
        assert list(again.columns) == [column.name for column in tables.TABLES[name][1]]


# --- files

HOSTILE = [
    "<script>alert(1)</script>",
    'a "quoted", name',
    "NA",
    "",
    "显卡 é µ",
    "x" * 200,
    "two\nlines",
    "tab\there\r",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_survives_the_tables(tmp_path: Path, name: str) -> None:
    write_sweep(tmp_path / "r", (8, 64), device_name=name, hostname=name, cpu_model=name, driver_version=name)
    write(tmp_path / "r", tmp_path / "t")
    summary = read_table(tmp_path / "t", "summary")
    others = [read_table(tmp_path / "t", name) for name in ("trials", "modes", "fits")]
    for again in (summary, *others, read_repetitions(tmp_path / "t", summary)):
        for column in ("gpu_name", "hostname", "cpu_model", "driver_version"):
            # A control character becomes a space; nothing else changes.
            told = name.translate({9: " ", 10: " ", 13: " "})
            assert set(again[column]) == {f"{told}, 8 CPUs, 4 usable" if told and column == "cpu_model" else told}


def test_written_tables_are_the_tables(tmp_path: Path) -> None:
    write_four_cards(tmp_path / "r")
    write_job(tmp_path / "r", 8, edit=lambda _, raw: _set(raw, "loop", "gpu_us", np.nan), run=4)
    made = tabulate(tmp_path / "r", ["b200"])
    write(tmp_path / "r", tmp_path / "t", ["b200"])
    assert {path.name for path in (tmp_path / "t").iterdir()} == {"tidy", *(f"{name}.csv" for name in WHOLE)}
    repetitions = read_repetitions(tmp_path / "t", made.summary)
    pd.testing.assert_frame_equal(repetitions, made.tidy)
    some = read_repetitions(
        tmp_path / "t",
        made.summary,
        ["flag", "gpu_us", "run_id"],
        {"launch_path": ["native-driver"], "kernel": ["tiny"]},
    )
    own = made.tidy[(made.tidy["launch_path"] == "native-driver") & (made.tidy["kernel"] == "tiny")]
    pd.testing.assert_frame_equal(some, own[["run_id", "gpu_us", "flag"]].reset_index(drop=True))
    for name in WHOLE:
        pd.testing.assert_frame_equal(read_table(tmp_path / "t", name), getattr(made, name))
        table = tables.TABLES[name][1]
        assert tables.write_csv(getattr(made, name), table, name) == (tmp_path / "t" / f"{name}.csv").read_bytes()


@pytest.mark.untraced
def test_the_same_results_give_the_same_bytes_wherever_they_lie(tmp_path: Path) -> None:
    for place in ("one", "another place"):
        write_four_cards(tmp_path / place / "r")
        write(tmp_path / place / "r", tmp_path / place / "t", LABELS)
    one, other = (contents(tmp_path / place / "t") for place in ("one", "another place"))
    assert one == other
    assert len(one) == len(WHOLE) + 4


def test_a_renamed_site_is_the_site(tmp_path: Path) -> None:
    write_job(tmp_path, 8)
    (tmp_path / "lab").rename(tmp_path / "my lab #1")
    assert set(tabulate(tmp_path).summary["site"]) == {"my lab #1"}


@pytest.mark.untraced
def test_many_cards(tmp_path: Path) -> None:
    for card in range(40):
        write_job(tmp_path, 64, card=card, repetitions=2, model=dataclasses.replace(CostModel(), issue=4 + card / 10))
    made = tabulate(tmp_path, counts=(64,))
    assert made.summary["card"].nunique() == 40
    fastest = row(made, 64, card=uuid(0)[4:12])
    assert fastest["loop_us"] == pytest.approx(CostModel(issue=4.0).loop_us(64), rel=0.02)
    assert made.gaps.empty


def test_protocol_hash_separates_paths_and_kernels(tmp_path: Path) -> None:
    write_job(tmp_path, 8)
    summary = tabulate(tmp_path).summary
    assert set(summary["protocol_hash"]) == {
        protocol_of().block_hash(path, kernel)
        for path in ("native-driver", "cuda-python")
        for kernel in ("tiny", "empty")
    }


def test_results_of_the_first_protocol_are_shown_with_their_one_sample() -> None:
    shipped = Path(__file__).parents[1] / "data" / "protocol-1"
    results, problems = read_results(shipped)
    first = [result for result in results if result.record.format == "launchbench-record/1"]
    assert problems == [] and len(first) == 4
    made = aggregate(shipped, ["h200"], [8]).summary.set_index(["run_id", "launch_path", "kernel"])
    for result in first:
        for block in result.record.blocks:
            row = made.loc[(result.record.run_id, block.launch_path, block.kernel)]
            assert row["one_off_samples"] == 1 and row["repetitions_used"] == result.record.protocol.repetitions
            assert (row["trials"], row["placements"], row["interval_reason"]) == (1, 1, TOO_FEW_TRIALS)
            assert [row["capture_us"], row["capture_min_us"], row["capture_max_us"]] == block.capture_us * 3


def a_failure(
    label: str, count: int, failed: str = "2026-12-31T00:00:00Z", card: str = "any", site: str = "lab"
) -> Failure:
    return Failure(
        site=site, label=label, card=card, launch_count=count, reason=f"no {label}", failed_utc=failed, slurm_job="7"
    )


def failed_gaps(results: Path, failures: list[Failure], counts: tuple[int, ...] = (8, 64)) -> set[tuple[Any, ...]]:
    gaps = aggregate(results, ["t4", "h100"], counts, failures).gaps
    names = ["label", "card", "launch_count", "reason"]
    return set(gaps[names].fillna(0).itertuples(index=False, name=None))


def test_a_failed_attempt_is_the_reason_of_a_gap(tmp_path: Path) -> None:
    failures = [a_failure("h100", 8), a_failure("h100", 64)]
    assert failed_gaps(tmp_path, failures) == {
        ("t4", "", 0, "not measured yet"),
        ("h100", "", 8, "the last attempt failed: no h100"),
        ("h100", "", 64, "the last attempt failed: no h100"),
    }
    # What nobody has tried yet is still said to be missing.
    assert failed_gaps(tmp_path, failures[:1]) == {
        ("t4", "", 0, "not measured yet"),
        ("h100", "", 0, "not measured yet"),
        ("h100", "", 8, "the last attempt failed: no h100"),
    }


def test_a_failed_attempt_explains_the_missing_n_of_a_measured_label(tmp_path: Path) -> None:
    write_job(tmp_path, 8, label="t4", card=1)
    card = uuid(1)[4:12]
    assert ("t4", card, 64, "not measured at this N") in failed_gaps(tmp_path, [])
    told = failed_gaps(tmp_path, [a_failure("t4", 64)])
    assert ("t4", "", 64, "the last attempt failed: no t4") in told
    assert ("t4", card, 64, "not measured at this N") not in told
    told = failed_gaps(tmp_path, [a_failure("t4", 64, card=card)])
    assert ("t4", card, 64, "the last attempt failed: no t4") in told
    assert ("t4", card, 64, "not measured at this N") not in told
    assert ("t4", card, 64, "not measured at this N") in failed_gaps(tmp_path, [a_failure("t4", 64, site="other")])


def test_a_failed_attempt_that_was_made_good_is_not_told(tmp_path: Path) -> None:
    write_sweep(tmp_path, (8, 64), label="t4", card=1)
    card = uuid(1)[4:12]
    earlier = "2000-01-01T00:00:00Z"
    assert not any(row[0] == "t4" for row in failed_gaps(tmp_path, [a_failure("t4", 8, earlier)]))
    assert not any(row[0] == "t4" for row in failed_gaps(tmp_path, [a_failure("t4", 8, earlier, card)]))
    # One after the result is.
    assert ("t4", card, 8, "the last attempt failed: no t4") in failed_gaps(tmp_path, [a_failure("t4", 8, card=card)])


def test_a_failed_attempt_on_a_simulated_gpu_is_marked_and_stands_for_no_real_one(tmp_path: Path) -> None:
    failures = [a_failure("h100", count).model_copy(update={"virtual": True}) for count in (8, 64)]
    told = failed_gaps(tmp_path, failures)
    assert {row[3] for row in told if row[2]} == {"the last attempt, on a simulated GPU, failed: no h100"}
    assert ("h100", "", 0, "not measured yet") in told
    # No result of a simulated GPU makes good what failed on a real one, nor the other way.
    write_sweep(tmp_path, (8, 64), label="h100", card=1)
    write_sweep(tmp_path, (8, 64), label="h100", card=2, virtual=True)
    write_sweep(tmp_path, (8, 64), label="t4", card=3)
    early = "2000-01-01T00:00:00Z"
    assert not any(row[2] for row in failed_gaps(tmp_path, [a_failure("h100", 8, early), a_failure("t4", 8, early)]))
    t4 = a_failure("t4", 8, early).model_copy(update={"virtual": True})
    assert ("t4", "", 8, "the last attempt, on a simulated GPU, failed: no t4") in failed_gaps(tmp_path, [t4])
