"""The tables about the two clocks and about kernel length. They compute no statistic and write no HTML."""

from __future__ import annotations

import math

import pandas as pd

from launchbench.aggregate import stats
from launchbench.aggregate.lengths_model import AHEAD, IN_FLIGHT
from launchbench.report.cells import RAW_DATA, Cell, Row, Table, any_simulated, count, cut, heads, of_run, quantity
from launchbench.report.extra import MAX_ROWS, Files
from launchbench.wording import UNKNOWN, number, shortened, with_interval

PACE_WORDS = {"host": "host", "device": "device", "cannot-tell": "cannot tell"}
VERDICT_WORDS = {
    "reached": "reached",
    "not-reached": "not reached",
    "never-helps": "never helps",
    "cannot-tell": "cannot tell",
}


def clock_table(cells: pd.DataFrame) -> Table:
    """The loop by both clocks, a row for each cell."""
    head = heads(
        "card",
        "N",
        ("kernel, µs", "what each kernel should take, by calibration"),
        ("work, µs", "N times that: what the device has to do meanwhile"),
        ("issue, µs", "host clock without synchronize: until the last launch call returned, median [95 % interval]"),
        ("GPU, µs", "between two CUDA events around the loop, median [95 % interval]"),
        ("total, µs", "host clock with synchronize, median [95 % interval]"),
        ("host ahead, launches", "issued and not executed when the last call returned"),
        ("pace set by", "who the other one waits for"),
        ("graph: call, µs", "host clock: the graph launch call, without synchronize"),
        ("graph: total, µs", "host clock with synchronize"),
    )
    body = []
    for row in cells.head(MAX_ROWS).to_dict("records"):
        figures = [estimate(row, name) for name in ("loop_issue", "loop", "loop_total")]
        graph = [estimate(row, name) for name in ("replay_issue", "replay_total")]
        pace = Cell(PACE_WORDS[row["pace"]], row["pace_reason"])
        body.append([*_place(row), _chosen(row["work_us"]), *figures, quantity(row["ahead"]), pace, *graph])
    caption = (
        "Exercise 5: one loop by two clocks, with and without a synchronize. The host is said to set the pace where "
        f"issuing fills at least {100 * AHEAD:.0f} % of the GPU time or the device is at most {IN_FLIGHT:g} launches "
        "behind, so beside the border of the model this can differ from it."
    )
    return Table("clocks", caption, head, body, any_simulated(cells), cut(len(cells), MAX_ROWS, "lengths.csv"))


def model_table(models: pd.DataFrame, files: Files) -> Table:
    """The events themselves and the model, a row for each card."""
    head = heads(
        "card",
        ("event step, µs", "smallest step between two GPU times below 1 ms"),
        ("nothing, µs", "GPU time between two events around nothing, median [95 % interval]"),
        ("nothing, host, µs", "host clock: recording the second event and the synchronize"),
        ("issue, µs", "model: host, per launch"),
        ("pace, µs", "model: device, per queued launch, without the kernel"),
        ("node, µs", "model: device, per node of a graph, without the kernel"),
        ("fixed, loop / replay, µs", "model: parts that depend on nothing"),
        ("kernels", "their length / the length asked for"),
        ("misses, loop / replay, %", "largest deviation of a cell from the model"),
        "verdict",
        RAW_DATA,
    )
    body = []
    for row in models.head(MAX_ROWS).to_dict("records"):
        stem = f"{row['site']}/{row['label']}/{row['card']}/{row['run_id']}"
        links = [(word, address) for word in ("CSV", "record") for _, address in files(f"{stem}.{_suffix(word)}")]
        fixed, missed = (
            " / ".join(number(row[name]) for name in names)
            for names in (
                ("loop_fixed_us", "replay_fixed_us"),
                ("largest_loop_residual_percent", "largest_replay_residual_percent"),
            )
        )
        body.append(
            [
                of_run(row, leads=False),
                quantity(row["event_resolution_us"]),
                estimate(row, "nothing", row["nothing_used"]),
                estimate(row, "nothing_total", row["nothing_used"]),
                *(quantity(row[name]) for name in ("issue_us", "pace_us", "node_us")),
                quantity(row["loop_fixed_us"], fixed),
                quantity(row["kernel_scale"]),
                quantity(row["largest_loop_residual_percent"], missed),
                Cell(row["verdict"]),
                Cell("", links=links),
            ]
        )
    caption = "The clocks themselves, and what loop and replay are made of."
    return Table(
        "length-models", caption, head, body, any_simulated(models), cut(len(models), MAX_ROWS, "length_models.csv")
    )


def length_table(cells: pd.DataFrame) -> Table:
    """Loop and replay, a row for each cell."""
    head = heads(
        "card",
        "N",
        ("kernel, µs", "what each kernel should take, by calibration"),
        ("loop, µs", "GPU time by events, median [95 % interval]"),
        ("replay, µs", "GPU time by events, median [95 % interval]"),
        ("speed-up", "loop / replay [95 % interval, repetitions resampled in pairs]"),
        ("model", "loop / replay by the card's model"),
        ("used", "repetitions behind the figures, and how many were left out"),
        "notes",
    )
    body = []
    for row in cells.head(MAX_ROWS).to_dict("records"):
        left_out = row["repetitions_flagged"]
        used = f"{row['repetitions_used']}" + (f", {left_out} left out" if left_out else "")
        notes = Cell(
            shortened(row["flags"], 160),
            row["flags"] if len(row["flags"]) > 160 else "",
            kind="prose" if row["flags"] else "",
        )
        by_model = row["loop_model_us"] / row["replay_model_us"]
        figures = [estimate(row, name) for name in ("loop", "replay")]
        gain = estimate(row, "speedup", unit="")
        body.append(
            [*_place(row), *figures, gain, quantity(by_model), Cell(used, value=row["repetitions_used"]), notes]
        )
    caption = "Exercise 6: what a graph saves, by the length of the kernels."
    return Table("lengths", caption, head, body, any_simulated(cells), cut(len(cells), MAX_ROWS, "lengths.csv"))


def crossover_table(crossovers: pd.DataFrame) -> Table:
    """A row for each card and N."""
    head = heads(
        "card",
        "N",
        ("crossover", "a graph helps while the interval of its speed-up lies above 1.02"),
        ("helps up to, µs", "longest measured kernel with which it helps"),
        ("no longer from, µs", "measured kernel length from which on it does not"),
        ("longest timed, µs", "at this N"),
        ("by the model, µs", "kernel length at which the model's speed-up is 1.02"),
    )
    body = [
        [
            of_run(row),
            count(row["launch_count"]),
            Cell(VERDICT_WORDS[row["verdict"]], row["reason"]),
            *(_chosen(row[name]) for name in ("helps_until_us", "no_help_from_us", "longest_us")),
            quantity(row["model_us"]),
        ]
        for row in crossovers.head(MAX_ROWS).to_dict("records")
    ]
    caption = "From which kernel length on a graph no longer helps."
    notes = cut(len(crossovers), MAX_ROWS, "crossovers.csv")
    return Table("crossovers", caption, head, body, any_simulated(crossovers), notes)


def estimate(row: Row, name: str, used: int | None = None, unit: str = "_us") -> Cell:
    """Value and interval; the title says why there is none."""
    value, low, high = (row[f"{name}{end}{unit}"] for end in ("", "_low", "_high"))
    if math.isnan(value):
        return Cell(UNKNOWN, row.get("flags", ""), kind="missing")
    text = with_interval(value, low, high, 3 if not unit else 4)
    if math.isnan(low):
        size = row["repetitions_used"] if used is None else used
        return quantity(value, text, f"no interval: {stats.TOO_FEW if size < stats.MIN_SAMPLE else stats.NO_SPREAD}")
    return quantity(value, text)


def _place(row: Row) -> list[Cell]:
    return [of_run(row), count(row["launch_count"]), _chosen(row["kernel_us"])]


def _chosen(us: float) -> Cell:
    """A length that was asked for, as it was."""
    return quantity(us, "" if math.isnan(us) else f"{us:,g}")


def _suffix(word: str) -> str:
    return "csv" if word == "CSV" else "json"
