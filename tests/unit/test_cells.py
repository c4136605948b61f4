"""Figures of trials and cells, from repetitions made by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from launchbench.aggregate import trials
from launchbench.aggregate.cells import SAME_CELL, cell_figures, current, speedups, trial_figures
from launchbench.report.cells import replays

KEYS = ["job", "mode"]


def repetitions(*rows: tuple[Any, ...]) -> pd.DataFrame:
    """job, mode, placement, GPU time, used; issue is a tenth and total twice the GPU time."""
    frame = pd.DataFrame(rows, columns=["job", "mode", "placement", "gpu_us", "used"])
    return frame.assign(issue_us=frame["gpu_us"] / 10, total_us=frame["gpu_us"] * 2)


def figures(**columns: list[Any]) -> pd.DataFrame:
    frame = pd.DataFrame(columns)
    for name in ("issue_us", "total_us", "placement_low_us", "placement_high_us"):
        frame[name] = frame.get(name, frame["gpu_us"])
    return frame.assign(placements=5)


def test_a_trial_is_the_mean_of_its_placements_medians() -> None:
    rows = repetitions(
        ("a", "replay", 0, 1.0, True),
        ("a", "replay", 0, 2.0, True),
        ("a", "replay", 0, 90.0, True),
        ("a", "replay", 1, 4.0, True),
        ("a", "replay", 2, 1000.0, False),
        ("a", "loop", 0, 7.0, True),
        ("b", "loop", 0, 5.0, False),
    )
    found = trial_figures(rows, KEYS).set_index(KEYS)
    replay = found.loc[("a", "replay")]
    assert (replay["gpu_us"], replay["issue_us"], replay["total_us"]) == pytest.approx((3.0, 0.3, 6.0))
    assert (replay["placement_low_us"], replay["placement_high_us"], replay["placements"]) == (2.0, 4.0, 2)
    assert (replay["repetitions_used"], replay["repetitions_flagged"]) == (4, 1)
    nothing = found.loc[("b", "loop")]
    assert math.isnan(nothing["gpu_us"])
    assert (nothing["placements"], nothing["repetitions_used"], nothing["repetitions_flagged"]) == (0, 0, 1)
    assert len(found) == 3


def test_one_job_counts_for_each_trial_the_newest_that_has_both_modes() -> None:
    def jobs(*given: tuple[str, int, str, float, bool]) -> pd.DataFrame:
        frame = pd.DataFrame(given, columns=["run_id", "trial", "mode", "gpu_us", "superseded"])
        return frame.assign(**dict.fromkeys(SAME_CELL, "same"))

    rows = jobs(
        ("old", 1, "loop", 1.0, True),
        ("old", 1, "replay", 1.0, True),
        ("good", 1, "loop", 2.0, False),
        ("good", 1, "replay", 3.0, False),
        ("good", 1, "queued", math.nan, False),
        ("half", 1, "loop", math.nan, False),
        ("half", 1, "replay", 4.0, False),
        ("other", 2, "replay", 5.0, False),
        ("other", 2, "queued", 6.0, False),
    )
    assert current(rows)["gpu_us"].tolist() == [2.0, 3.0, 5.0, 6.0]
    assert current(rows.assign(launch_count=range(len(rows))))["gpu_us"].tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_cell_has_the_interval_of_its_trials() -> None:
    rows = figures(
        cell=["x", "x", "x", "y", "z", "z", "z"],
        trial=[0, 1, 2, 0, 0, 1, 2],
        gpu_us=[10.0, 11.0, 12.0, 5.0, 3.0, 3.0, 3.0],
        placement_low_us=[9.0, 8.0, 10.0, 5.0, 3.0, 3.0, 3.0],
        placement_high_us=[12.0, 13.0, 14.0, 5.0, 3.0, 3.0, 3.0],
    )
    found = cell_figures(rows, ["cell"]).set_index("cell")
    x = found.loc["x"]
    batch = trials.mean([[10.0, 11.0, 12.0]])
    assert (x["gpu_us"], x["gpu_low_us"], x["gpu_high_us"]) == pytest.approx((11.0, batch.low[0], batch.high[0]))
    assert (x["trials"], x["placements"], x["reason"]) == (3, 15, "")
    assert (x["placement_low_us"], x["placement_high_us"]) == (8.0, 14.0)
    assert found.loc["y", "reason"] == trials.TOO_FEW_TRIALS and np.isnan(found.loc["y", "gpu_low_us"])
    assert found.loc["z", "reason"] == trials.ALL_EQUAL and np.isnan(found.loc["z", "gpu_high_us"])
    assert cell_figures(rows.iloc[:0], ["cell"]).empty


def test_speedup_and_break_even_pair_the_modes_of_a_trial() -> None:
    rows = figures(
        cell=["x"] * 6 + ["lonely"],
        mode=["loop", "loop", "loop", "replay", "replay", "replay", "loop"],
        trial=[0, 1, 2, 2, 1, 0, 0],
        gpu_us=[40.0, 80.0, 60.0, 15.0, 20.0, 10.0, 1.0],
        total_us=[50.0, 90.0, 70.0, 20.0, 30.0, 10.0, 1.0],
        once_us=[math.nan] * 3 + [500.0, 660.0, 390.0] + [math.nan],
    )
    (row,) = speedups(rows, ["cell"]).to_dict("records")
    assert (row["cell"], row["speedup"]) == ("x", pytest.approx(4.0))
    assert row["speedup_reason"] == trials.ALL_EQUAL, "40/10, 80/20 and 60/15 do not differ"
    expected = trials.break_even([390.0, 660.0, 500.0], [40.0, 60.0, 50.0])
    assert row["break_even_replays"] == pytest.approx(expected.value)
    assert (row["break_even_replays_low"], row["break_even_replays_high"]) == (expected.low, expected.high)


def test_a_graph_that_saves_nothing_never_pays() -> None:
    rows = figures(cell=["x", "x"], mode=["loop", "replay"], trial=[0, 0], gpu_us=[4.0, 5.0], once_us=[math.nan, 100.0])
    (row,) = speedups(rows, ["cell"]).to_dict("records")
    assert row["break_even_replays"] == math.inf and row["speedup"] == pytest.approx(0.8)
    assert row["speedup_reason"] == trials.TOO_FEW_TRIALS


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((3.0, 3.0, 3.0), "3 [3\N{EN DASH}3]"),
        ((3.0, 3.0, 4.0), "3 [3\N{EN DASH}4]"),
        ((3.0, math.nan, math.nan), "3"),
        ((3.0, 2.0, math.inf), "3 [2\N{EN DASH}never]"),
        ((math.inf, math.inf, math.inf), "never"),
        ((math.inf, 9.0, math.inf), "never [9\N{EN DASH}never]"),
    ],
)
def test_break_even_is_told_with_its_interval(ends: tuple[float, float, float], text: str) -> None:
    row = dict(zip(("break_even_replays", "break_even_replays_low", "break_even_replays_high"), ends, strict=True))
    assert replays(row) == text
