"""Tables of lengths jobs: a known model is found again, and what cannot be told is not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from launchbench.aggregate import stats
from launchbench.aggregate.lengths import crossover, event_resolution, tabulate
from launchbench.aggregate.lengths_model import LengthModel, fit, pace
from launchbench.aggregate.paired import paired_medians
from launchbench.results.files import read_results
from tests.unit.fabricate_lengths import KERNELS_US, Costs, write_lengths_job

COSTS = Costs()


def test_a_known_model_is_found_again(tmp_path: Path) -> None:
    write_lengths_job(tmp_path)
    made = tabulate(tmp_path)
    model = made.length_models.iloc[0]
    found = [model[name] for name in ("issue_us", "pace_us", "node_us", "loop_fixed_us", "replay_fixed_us")]
    assert found == pytest.approx(
        [COSTS.issue, COSTS.pace, COSTS.node, COSTS.loop_fixed, COSTS.replay_fixed], rel=0.02, abs=0.05
    )
    assert model["kernel_scale"] == pytest.approx(1, abs=1e-3)
    assert 0 < model["largest_loop_residual_percent"] < 0.5 and 0 < model["largest_replay_residual_percent"] < 0.5
    assert model["points"] == 3 * len(KERNELS_US) - 1 and model["verdict"] == "within 10 % of every cell"
    assert model["event_resolution_us"] == pytest.approx(COSTS.tick)
    assert (model["nothing_us"], model["nothing_used"]) == (pytest.approx(COSTS.nothing), 20)
    assert model["nothing_total_us"] == pytest.approx(COSTS.nothing + COSTS.synchronize)
    crossed = made.crossovers.set_index("launch_count")
    truth = LengthModel(4, 2, 3, 0.75, 6, 1)
    for count in (8, 64, 512):
        assert truth.speedup(count, crossed.loc[count, "model_us"]) == pytest.approx(1.02, abs=2e-3)
    assert crossed["verdict"].to_dict() == {8: "reached", 64: "reached", 512: "not-reached"}
    assert crossed.loc[64, ["helps_until_us", "no_help_from_us", "longest_us"]].tolist() == [50, 200, 200]
    assert math.isnan(crossed.loc[512, "no_help_from_us"]) and crossed.loc[512, "longest_us"] == 50


def test_a_row_has_both_clocks_with_intervals(tmp_path: Path) -> None:
    write_lengths_job(tmp_path)
    rows = tabulate(tmp_path).lengths.set_index(["launch_count", "kernel_us"])
    row = rows.loc[(64, 20.0)]
    loop, replay = COSTS.loop_us(64, 20), COSTS.replay_us(64, 20)
    assert row["loop_us"] == pytest.approx(loop, rel=2e-3) and row["replay_us"] == pytest.approx(replay, rel=2e-3)
    assert row["speedup"] == pytest.approx(loop / replay, rel=4e-3)
    for name in ("loop", "loop_issue", "loop_total", "replay", "replay_issue", "replay_total"):
        assert row[f"{name}_low_us"] < row[f"{name}_us"] < row[f"{name}_high_us"]
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
    assert row["loop_issue_us"] == pytest.approx(64 * 4, rel=2e-3)
    assert row["loop_total_us"] == pytest.approx(loop + COSTS.synchronize, rel=2e-3)
    assert (row["work_us"], row["repetitions_used"], row["flags"]) == (1280, 10, "")
    assert row["ahead"] == pytest.approx(64 * (1 - 256 / loop), rel=0.01) and row["pace"] == "device"
    assert rows.loc[(64, 0.0), "pace"] == "host" and rows.loc[(64, 0.0), "ahead"] < 2
    left_out = rows.loc[(512, 200.0)]
    assert left_out["flags"] == "not timed: 512 kernels of 200 us alone take longer than 70 ms"
    assert left_out["repetitions_used"] == 0 and math.isnan(left_out["loop_us"]) and left_out["pace"] == "cannot-tell"
    assert left_out["loop_model_us"] == pytest.approx(COSTS.loop_us(512, 200), rel=0.01)


def test_the_newest_job_of_a_card_counts(tmp_path: Path) -> None:
    for run in (0, 1):
        write_lengths_job(tmp_path, run=run, launch_counts=(8,), kernels_us=(0.0, 50.0))
    write_lengths_job(tmp_path, card=1, launch_counts=(8,), kernels_us=(0.0, 50.0))
    for frame in (tabulate(tmp_path).lengths, tabulate(tmp_path).length_models, tabulate(tmp_path).crossovers):
        superseded = frame.groupby("run_id")["superseded"].first()
        assert superseded.sum() == 1 and superseded[superseded].index[0].endswith("000000")
    assert read_results(tmp_path) == ([], []), "launch results are of another format"


# ---------------------------------------------------------------- what is left out

FEW: dict[str, Any] = {"launch_counts": (8,), "kernels_us": (0.0, 50.0)}


def of_one(rows: pd.DataFrame, mode: str, repetition: int = 3, kernel_us: float = 0.0) -> pd.Series:
    mine = (rows["mode"] == mode) & (rows["repetition"] == repetition) & (rows["kernel_us"] == kernel_us)
    return mine & (rows["launch_count"] == 8)


def changed(name: str, value: float, mode: str = "loop", kernel_us: float = 0.0) -> Callable[..., None]:
    def edit(record: dict[str, Any], rows: pd.DataFrame) -> None:
        rows.loc[of_one(rows, mode, kernel_us=kernel_us), name] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "kernel_us", "flags"),
    [
        (changed("gpu_us", math.nan), 0, "loop: no GPU time"),
        (changed("gpu_us", 0.0, "replay"), 0, "replay: GPU time not positive"),
        (changed("gpu_us", 9e5), 0, "loop: GPU time longer than the host saw"),
        (changed("gpu_us", 5.0), 0, "loop: GPU time shorter than issuing"),
        (changed("gpu_us", 150.0, "replay", 50), 50, "replay: GPU time below half of what its kernels take"),
        (changed("total_us", 1.0), 0, "loop: total time below issue time"),
        (lambda _, rows: rows[~of_one(rows, "loop")], 0, "replay: no loop in this repetition"),
        (lambda _, rows: pd.concat([rows, rows[of_one(rows, "loop")]]), 0, "loop recorded twice"),
    ],
)
def test_a_repetition_is_left_out_as_a_pair(tmp_path: Path, edit: Any, kernel_us: float, flags: str) -> None:
    costs = Costs(issue=20.0)
    write_lengths_job(tmp_path, **FEW, costs=costs, edit=edit)
    rows = tabulate(tmp_path).lengths.set_index("kernel_us")
    assert flags in rows.loc[kernel_us, "flags"] and rows.loc[kernel_us, "flags"].endswith("(1 repetition)")
    assert (rows.loc[kernel_us, "repetitions_used"], rows.loc[kernel_us, "repetitions_flagged"]) == (9, 1)
    assert rows.loc[50 - kernel_us, "flags"] == ""
    assert rows.loc[kernel_us, "loop_us"] == pytest.approx(costs.loop_us(8, kernel_us), rel=5e-3)


def test_a_throttled_n_is_left_out_and_the_other_one_stays(tmp_path: Path) -> None:
    def hot(record: dict[str, Any], _: pd.DataFrame) -> None:
        record["sets"][1]["after"]["throttle_reasons"] = ["hw_slowdown"]

    write_lengths_job(tmp_path, launch_counts=(8, 64), edit=hot)
    made = tabulate(tmp_path)
    by_count = made.lengths.groupby("launch_count")
    assert by_count["repetitions_used"].max().to_dict() == {8: 10, 64: 0}
    assert "clock throttled: hw_slowdown (after)" in by_count["flags"].first()[64]
    assert made.crossovers["verdict"].tolist() == ["reached", "cannot-tell"]
    assert made.crossovers["reason"].tolist() == ["", "no valid samples"]
    assert "too few N to tell a fixed part" in made.length_models.loc[0, "verdict"]


def test_company_before_the_first_n_spoils_the_pairs_around_nothing_too(tmp_path: Path) -> None:
    def company(record: dict[str, Any], _: pd.DataFrame) -> None:
        record["before"]["other_processes"] = [{"pid": 4242}]

    write_lengths_job(tmp_path, **FEW, edit=company)
    made = tabulate(tmp_path)
    assert made.length_models.loc[0, "nothing_used"] == 0 and math.isnan(made.length_models.loc[0, "nothing_us"])
    assert set(made.lengths["repetitions_used"]) == {10}


# ---------------------------------------------------------------- what samples cannot carry


def test_one_repetition_has_no_interval_and_no_crossover(tmp_path: Path) -> None:
    write_lengths_job(tmp_path, repetitions=1)
    made = tabulate(tmp_path)
    used = made.lengths[made.lengths["repetitions_used"] > 0]
    assert set(used["repetitions_used"]) == {1} and used["speedup_low"].isna().all()
    assert set(made.crossovers["verdict"]) == {"cannot-tell"} and set(made.crossovers["reason"]) == {stats.TOO_FEW}
    assert made.length_models.loc[0, "issue_us"] == pytest.approx(4, rel=0.02)


def test_one_n_leaves_no_fixed_part(tmp_path: Path) -> None:
    write_lengths_job(tmp_path, launch_counts=(512,))
    made = tabulate(tmp_path)
    model = made.length_models.iloc[0]
    assert math.isnan(model["loop_fixed_us"]) and math.isnan(model["replay_fixed_us"])
    assert "too few N to tell a fixed part: it is in the other costs" in model["verdict"]
    assert (model["issue_us"], model["pace_us"]) == pytest.approx((4, 2), abs=0.02)
    assert model["node_us"] == pytest.approx(0.75 + 6 / 512, abs=0.02)
    assert made.crossovers["verdict"].tolist() == ["not-reached"]


def test_a_single_launch_and_a_single_length(tmp_path: Path) -> None:
    write_lengths_job(tmp_path, launch_counts=(1,), kernels_us=(5.0,))
    made = tabulate(tmp_path)
    assert made.lengths[["pace", "pace_reason"]].iloc[0].tolist() == ["cannot-tell", "a single launch has no pace"]
    model = made.length_models.iloc[0]
    assert math.isnan(model["issue_us"]) and math.isnan(model["pace_us"]) and model["kernel_scale"] == 1
    assert "the host never set the pace" in model["verdict"] and "the device never set the pace" in model["verdict"]


def test_a_device_that_is_slower_than_the_host_throughout(tmp_path: Path) -> None:
    write_lengths_job(tmp_path, costs=Costs(issue=1.5, pace=2.5, node=2.4))
    made = tabulate(tmp_path)
    used = made.lengths[made.lengths["repetitions_used"] > 0]
    assert set(used["pace"]) == {"device"}
    model = made.length_models.iloc[0]
    assert math.isnan(model["issue_us"]) and model["pace_us"] == pytest.approx(2.5, abs=0.02)
    assert model["verdict"] == "the host never set the pace, so that cost is not known"
    crossed = made.crossovers.set_index("launch_count")
    assert crossed.loc[512, "verdict"] == "reached" and crossed.loc[512, "helps_until_us"] == 1
    assert 1 < crossed.loc[512, "model_us"] < 5


def test_kernels_that_ran_at_another_clock_are_told(tmp_path: Path) -> None:
    def slower(record: dict[str, Any], rows: pd.DataFrame) -> None:
        rows[["gpu_us", "total_us"]] += np.outer(0.5 * rows["launch_count"] * rows["kernel_us"], [1, 1])

    write_lengths_job(tmp_path, edit=slower)
    model = tabulate(tmp_path).length_models.iloc[0]
    assert model["kernel_scale"] == pytest.approx(1.5, rel=2e-3)
    assert "kernels took 1.50 times what was asked for: the clock changed" in model["verdict"]


def test_a_model_that_is_wrong_says_so(tmp_path: Path) -> None:
    def odd(record: dict[str, Any], rows: pd.DataFrame) -> None:
        mine = (rows["launch_count"] == 64) & (rows["mode"] == "replay") & (rows["kernel_us"] == 1)
        rows.loc[mine, ["gpu_us", "total_us"]] *= 2

    write_lengths_job(tmp_path, edit=odd)
    model = tabulate(tmp_path).length_models.iloc[0]
    assert model["largest_replay_residual_percent"] > 10 and "wrong model: it misses a cell by" in model["verdict"]


# ---------------------------------------------------------------- the parts


def cells(*lows: float, used: int = 10) -> list[dict[str, Any]]:
    return [
        {"kernel_us": 10.0**at, "speedup": low + 0.005, "speedup_low": low, "repetitions_used": used}
        for at, low in enumerate(lows)
    ]


@pytest.mark.parametrize(
    ("lows", "verdict", "until", "since"),
    [
        ((3, 1.5, 1.01, 1), "reached", 10, 100),
        ((3, 1.5, 1.1), "not-reached", 100, None),
        ((1.01, 1.02, 0.9), "never-helps", None, 1),
        ((3, 1.0, 1.1, 1.0), "reached", 100, 1000),
        ((3,), "not-reached", 1, None),
    ],
)
def test_the_crossover(lows: tuple[float, ...], verdict: str, until: float | None, since: float | None) -> None:
    row = crossover(cells(*lows))
    assert (row["verdict"], row.get("helps_until_us"), row.get("no_help_from_us")) == (verdict, until, since)


def test_a_crossover_needs_samples() -> None:
    assert crossover([]) == {"verdict": "cannot-tell", "reason": "no valid samples"}
    assert crossover(cells(3, 1, used=5))["reason"] == stats.TOO_FEW
    # No spread: the value stands for its interval.
    equal = [cell | {"speedup_low": math.nan} for cell in cells(3, 1)]
    assert crossover(equal)["verdict"] == "reached"


@pytest.mark.parametrize(
    ("count", "kernel_us", "issue_us", "gpu_us", "expected"),
    [
        (512, 0, 2048, 2054, "host"),
        (512, 50, 2048, 26600, "device"),
        (8, 0, 32, 37, "host"),  # 14 % less, yet one launch: the last one
        (8, 50, 32, 423, "device"),
        (64, 3.9, 256, 258, "cannot-tell"),  # issuing and kernels take as long
        (1, 50, 4, 60, "cannot-tell"),
        (8, 0, 32, math.nan, "cannot-tell"),
    ],
)
def test_whose_pace_it_is(count: int, kernel_us: float, issue_us: float, gpu_us: float, expected: str) -> None:
    word, reason = pace(count, kernel_us, issue_us, gpu_us)
    assert word == expected and bool(reason) == (expected == "cannot-tell")


def test_the_model_is_two_stages() -> None:
    model = LengthModel(4, 2, 3, 0.75, 6, 1)
    assert model.loop_us(10, 0) == 3 + 4 + 2 + 9 * 4 and model.loop_us(10, 8) == 3 + 4 + 10 + 9 * 10
    assert model.replay_us(10, 8) == 6 + 10 * 8.75
    assert LengthModel(4, 2, 3, 0.75, 6, 2).loop_us(10, 4) == model.loop_us(10, 8)
    assert LengthModel(1, 2, 0, 2, 0, 1).crossover_us(512) == 0, "a node as slow as a launch"
    assert math.isnan(LengthModel(4, math.nan, 3, 0.75, 6, 1).crossover_us(8))


def test_the_fit_does_not_use_loops_of_unknown_pace() -> None:
    counts, kernels = (a.ravel() for a in np.meshgrid([8.0, 64.0], [0.0, 3.0, 50.0]))
    loops = np.array([COSTS.loop_us(int(n), k) for n, k in zip(counts, kernels, strict=True)])
    replays = np.array([COSTS.replay_us(int(n), k) for n, k in zip(counts, kernels, strict=True)])
    paces = [{0: "host", 3: "cannot-tell", 50: "device"}[int(k)] for k in kernels]
    spoilt = np.where(kernels == 3, 5 * loops, loops)
    model = fit(counts, kernels, spoilt, replays, paces)
    assert vars(model) == pytest.approx(
        {"issue_us": 4, "pace_us": 2, "loop_fixed_us": 3, "node_us": 0.75, "replay_fixed_us": 6, "kernel_scale": 1}
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.6, 1.6, 1.632, 9.6, 5000.0, 5000.004], 0.032),
        ([1.6, 1.6], math.nan),
        ([], math.nan),
        ([math.nan, 1.5, 2.0, 0.0], 0.5),
    ],
)
def test_the_resolution_of_the_events(values: list[float], expected: float) -> None:
    found = event_resolution(pd.Series(values, dtype=float))
    assert found == pytest.approx(expected, nan_ok=True)


def test_pairs_are_resampled_together() -> None:
    rng = np.random.default_rng(3)
    common = 1 + 0.3 * rng.random((2, 40))
    first, second = 6 * common, 2 * common
    found = paired_medians(first, second)
    assert found.ratio.value == pytest.approx([3, 3]) and np.isnan(found.ratio.low).all(), "what is common cancels"
    assert (found.first.low < found.first.value).all() and (found.first.value < found.first.high).all()
    one = paired_medians(first[1:], second[1:])
    assert one.first.low[0] == found.first.low[1], "a sample's interval does not depend on the others"


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda r: r.update(observed_count=r["expected_count"] - 1), "observed_count: got"),
        (lambda r: r["sets"].pop(), "sets: got the N [8]; expected [8, 64], each once"),
        (lambda r: r.update(format="launchbench-lengths/2"), "format: Input should be 'launchbench-lengths/1'"),
        (lambda r: r["protocol"].update(kernels_us=[0.0, 0.0]), "protocol.kernels_us: one of them is there twice"),
        (lambda r: r["protocol"].update(launch_counts=[8, 513]), "protocol.launch_counts.1"),
        (lambda r: r.update(cycles_per_us=0), "cycles_per_us"),
        (lambda r: r["repetitions_file"].update(rows=3), "rows; its record says 3"),
        (lambda r: r.update(seed=None), "seed"),
    ],
)
def test_a_record_out_of_bounds_is_a_gap(tmp_path: Path, damage: Callable[[dict[str, Any]], Any], said: str) -> None:
    path = write_lengths_job(tmp_path, card=1, launch_counts=(8, 64), kernels_us=(0.0, 50.0))
    write_lengths_job(tmp_path, card=2, **FEW)
    record = json.loads(path.read_text())
    damage(record)
    path.write_text(json.dumps(record))
    made = tabulate(tmp_path)
    assert made.lengths["card"].nunique() == 1, "the other card stays"
    (reason,) = made.lengths_gaps["reason"]
    assert said in reason


def test_a_damaged_csv_is_a_gap_of_its_name(tmp_path: Path) -> None:
    path = write_lengths_job(tmp_path, **FEW)
    csv = path.with_suffix(".csv")
    csv.write_bytes(csv.read_bytes()[:-40])
    made = tabulate(tmp_path)
    assert made.lengths.empty and made.length_models.empty and made.crossovers.empty
    assert made.lengths_gaps["file"].tolist() == [csv.relative_to(tmp_path).as_posix()]
    assert made.lengths_gaps["reason"].iloc[0].startswith("cut short: ")
    path.unlink()
    assert tabulate(tmp_path).lengths_gaps["reason"].iloc[0].startswith("no record beside it")


def test_cells_that_the_csv_lacks_are_rows_without_figures(tmp_path: Path) -> None:
    write_lengths_job(tmp_path, **FEW, edit=lambda _, rows: rows[rows["kernel_us"] != 50])
    rows = tabulate(tmp_path).lengths.set_index("kernel_us")
    assert rows["repetitions_used"].to_dict() == {0: 10, 50: 0}
    assert rows.loc[50, "flags"] == "no repetitions in the CSV"


@pytest.mark.parametrize("name", ["NA", "x" * 200, 'Tësla\r\nT4,"quoted"', "null"])
def test_odd_names_stay_what_they_are(tmp_path: Path, name: str) -> None:
    from launchbench.aggregate.lengths import write_lengths_tables
    from launchbench.report.comparison import read_table

    write_lengths_job(tmp_path / "results", **FEW, device_name=name, hostname=name)
    write_lengths_tables(tmp_path / "results", tmp_path / "tables")
    for table in ("lengths", "length_models", "crossovers"):
        frame = read_table(tmp_path / "tables", table)
        assert set(frame["gpu_name"]) == set(frame["hostname"]) == {name.replace("\r\n", "  ")}
