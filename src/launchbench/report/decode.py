"""The section about the decode step: sentences made from each card's own rows, its two tables, its figure's text.

They may not state an effect, a number or a cause that the rows do not carry: a card with other outcomes gets other
sentences. It computes no statistic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from launchbench.report.cells import (
    RAW_DATA,
    Cell,
    Row,
    Table,
    any_simulated,
    count,
    cut,
    heads,
    label_name,
    of_run,
    quantity,
)
from launchbench.report.comparison import MANY_CARDS
from launchbench.report.extra import MAX_ROWS, Files, broken, newest, read_named, unmeasured
from launchbench.report.lengths_tables import estimate
from launchbench.wording import UNKNOWN, number, plural, several, shortened, span, with_interval

CLOSE_PERCENT = 15.0
"""A prediction that misses by more is said to have missed."""

UNLIKE = 1.25
"""Times of the same launches that differ by more than this factor are told of."""

HOST_PERCENT = 90.0
"""As ``lengths_model``: where issuing fills this share of the GPU time, the host sets the pace."""

CLOSE_TO_ONE = 1.1
"""A speed-up below has a digit more, since the graph helps above 1.02."""

MISSED = {"eager": "eager step", "graph": "replay", "speedup": "speed-up"}
VERDICT_WORDS = {"helps": "helps", "no-help": "no longer helps", "cannot-tell": "cannot tell"}

Story = list[tuple[str, list[str]]]
"""Card or label -> its sentences."""


@dataclass(frozen=True)
class Section:
    """What the template and the figure show."""

    stories: Story
    missing: list[str]
    """Labels of which no card has done the job."""
    prediction_table: Table
    point_table: Table
    broken: Table
    simulated: bool
    points: pd.DataFrame
    """Rows of ``decode.csv`` that count, with ``card_name``."""


def section(
    tables_dir: Path, config_labels: Sequence[str], files: Files, beside: pd.DataFrame | None = None
) -> Section:
    """The section, from ``decode_jobs.csv``, ``decode.csv`` and ``decode_gaps.csv``.

    ``beside`` is that of ``read_named``.

    Raises:
        LaunchbenchError: a table is missing or is not what its columns say.
    """
    every = read_named(tables_dir, beside, "decode_jobs", "decode")
    jobs, points = map(newest, every)
    few = jobs["card_name"].nunique() <= MANY_CARDS
    return Section(
        stories=_stories(jobs, points) if few else _of_labels(jobs, points),
        missing=unmeasured(every[0], config_labels),
        prediction_table=prediction_table(jobs, points, files),
        point_table=point_table(points),
        broken=broken(tables_dir, "decode", files),
        simulated=any_simulated(every[0]),
        points=points,
    )


def _stories(jobs: pd.DataFrame, points: pd.DataFrame) -> Story:
    own = {str(run): rows.to_dict("records") for run, rows in points.groupby("run_id")}
    return [(str(job["card_name"]), story(job, own.get(str(job["run_id"]), []))) for job in jobs.to_dict("records")]


def _of_labels(jobs: pd.DataFrame, points: pd.DataFrame) -> Story:
    stories = []
    for label, virtual in sorted(set(jobs[["label", "virtual"]].itertuples(index=False, name=None))):
        own, rows = (one[(one["label"] == label) & (one["virtual"] == virtual)] for one in (jobs, points))
        idle = int((own["not_run"] != "").sum())
        told = [f"{plural(len(own), 'card')}, not run on {idle}."]
        for width, group in rows.groupby("width"):
            smallest = group[group["batch"] == group["batch"].min()]
            gains = span(smallest["speedup"])
            told.append(f"Width {width:,}, batch {smallest['batch'].iloc[0]:,}: the graph's speed-up is {gains}.")
        stories.append((label_name(label, virtual), told))
    return stories


def story(job: Row, points: list[Row]) -> list[str]:
    """What one card did: the step, its prediction, and where the graph stops helping."""
    if job["not_run"]:
        return [f"Not run: {job['not_run']}."]
    if not points:
        return ["decode.csv has no row of this run."]
    first = points[0]
    told = [_step(first), *_pace(first), *_predicted(job, first), *_bare(job, first)]
    told += restless(points)
    for width in sorted({int(point["width"]) for point in points}):
        own = sorted((point for point in points if point["width"] == width), key=lambda point: int(point["batch"]))
        told.append(f"Width {width:,}: {_until(own)}.")
    return told


def restless(points: list[Row]) -> list[str]:
    """Steps of as many launches that cost the host unlike times: what it needs does not depend on the width."""
    smallest = min(int(point["batch"]) for point in points)
    points = [point for point in points if point["batch"] == smallest]
    for launches in sorted({int(point["launches"]) for point in points if not pd.isna(point["launches"])}):
        times = [float(point["eager_issue_us"]) for point in points if point["launches"] == launches and _waits(point)]
        if len(times) > 1 and max(times) > UNLIKE * min(times):
            return [
                f"Issuing {launches:,} launches took the host {number(min(times), 3)} to {number(max(times), 3)} µs, "
                "depending on when it was timed: the host itself was faster or slower, and the speed-ups vary with it."
            ]
    return []


def slowed(points: list[Row]) -> list[bool]:
    """Of each point of a card, whether issuing as many launches took the host far less elsewhere."""
    fastest: dict[object, float] = {}
    for point in filter(_waits, points):
        fastest[point["launches"]] = min(point["eager_issue_us"], fastest.get(point["launches"], math.inf))
    # Unknown launches are as many as no others: their entry is never found.
    return [
        _waits(point)
        and point["eager_us"] > UNLIKE * point["graph_us"]  # else issuing may have waited for a busy device
        and point["eager_issue_us"] > UNLIKE * fastest.get(point["launches"], math.inf)
        for point in points
    ]


def _waits(point: Row) -> bool:
    return _percent(point["eager_issue_us"], point["eager_us"]) >= HOST_PERCENT


def _place(point: Row) -> str:
    return f"batch {point['batch']:,}, width {point['width']:,}"


def _step(point: Row) -> str:
    counted = f"{_launches(point)} launches a token, counted in the captured graph"
    if point["launches_reason"]:
        counted = f"launches {point['launches_reason']}"
    if math.isnan(point["speedup"]):
        return f"At {_place(point)}: {counted}; no repetition can be used: {point['flags']}."
    times = [
        with_interval(point[f"{mode}_us"], point[f"{mode}_low_us"], point[f"{mode}_high_us"], 4)
        for mode in ("eager", "graph")
    ]
    return (
        f"At {_place(point)}: {counted}; a token takes {times[0]} µs eagerly and {times[1]} µs by replay, a speed-up "
        f"of {speedup(point)}. {_logits(float(point['largest_difference']))}"
    )


def _logits(difference: float) -> str:
    return f"The logits of both {f'differ by {number(difference, 2)} at most' if difference else 'are equal'}."


def _launches(row: Row) -> str:
    return UNKNOWN if bool(pd.isna(row["launches"])) else f"{row['launches']:,}"


def speedup(point: Row) -> str:
    """Value and interval."""
    digits = 4 if 1 <= point["speedup"] < CLOSE_TO_ONE else 3
    return with_interval(point["speedup"], point["speedup_low"], point["speedup_high"], digits)


def _pace(point: Row) -> list[str]:
    if math.isnan(point["speedup"]):
        return []
    share = _percent(point["eager_issue_us"], point["eager_us"])
    what = f"Issuing takes {number(share, 2)} % of the eager step's GPU time, so the "
    if share >= HOST_PERCENT:
        return [what + "host sets its pace: the card waits for launches."]
    return [what + "device sets its pace."]


def _predicted(job: Row, point: Row) -> list[str]:
    if math.isnan(job["predicted_eager_us"]):
        return [f"No prediction: {job['stored_reason'] or 'the record has none'}."]
    known = (
        f"Predicted before it was timed, from the step's parts: eager {number(job['predicted_eager_us'], 4)} µs "
        f"(issuing {number(job['predicted_host_us'], 4)}, executing {number(job['predicted_device_us'], 4)}), graph "
        f"{number(job['predicted_graph_us'], 4)} µs, speed-up {number(job['predicted_speedup'])}. "
    )
    alone = float(job["alone_host_us"])
    if alone > 0:
        dearer = _percent(float(job["predicted_host_us"]), alone) - 100
        known += (
            f"Issued in rows of their kind the same operations take {number(alone, 4)} µs, so among each other they "
            f"cost the host {_signed(dearer)} %. "
        )
    misses = {name: float(job[f"{name}_miss_percent"]) for name in ("eager", "graph", "speedup")}
    if any(map(math.isnan, misses.values())):
        return [f"{known}There is no measurement to set it against."]
    words = several(f"{_off(miss)} for the {MISSED[name]}" for name, miss in misses.items())
    wrong = [name for name in ("eager", "graph") if abs(misses[name]) > CLOSE_PERCENT]
    if not wrong:
        return [f"{known}That is {words}: both times within {CLOSE_PERCENT:.0f} %."]
    reasons = [_missed(name, misses[name], job, point) for name in wrong]
    return [f"{known}That is {words}.", *reasons]


def _missed(name: str, miss: float, job: Row, point: Row) -> str:
    """What the prediction leaves out that goes in the direction of its miss."""
    text = f"Why {_off(miss)} for the {MISSED[name]}: "
    if name == "graph":
        if miss < 0:
            return text + "in the step kernels take longer than in a row of their own kind, or lie further apart."
        return text + "in the step kernels take less than in a row of their own kind, or overlap."
    host = float(job["predicted_host_us"]) >= float(job["predicted_device_us"])
    waited = _percent(point["eager_issue_us"], point["eager_us"]) >= HOST_PERCENT
    if host != waited:
        told, seen = ("host", "device") if host else ("device", "host")
        return text + f"the {told} was predicted to set the pace, and the {seen} does."
    side = "the host needs" if host else "the device needs"
    return text + f"in the step {side} {'more' if miss < 0 else 'less'} for the same operations than was timed of them."


def _bare(job: Row, point: Row) -> list[str]:
    if not job["stored_run"]:
        if math.isnan(job["predicted_eager_us"]):
            return []
        return [f"No prediction from launch costs alone: {job['stored_reason'] or 'the record has none'}."]
    told = (
        f"From the launch costs of run {job['stored_run']} alone, kernels taking no time: eager "
        f"{number(job['bare_eager_us'], 4)} µs, graph {number(job['bare_graph_us'], 4)} µs"
    )
    if math.isnan(point["speedup"]):
        return [f"{told}."]
    shares = [number(_percent(job[f"bare_{mode}_us"], point[f"{mode}_us"]), 2) for mode in ("eager", "graph")]
    return [f"{told}, {shares[0]} % and {shares[1]} % of what was measured: the rest is PyTorch's and the kernels'."]


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole > 0 else math.nan


def _off(miss: float) -> str:
    """By how much a prediction is wrong, in which direction."""
    return f"{number(abs(miss), 2)} % too {'low' if miss < 0 else 'high'}"


def _signed(percent: float) -> str:
    return ("+" if percent > 0 else "") + number(percent, 2)


def _until(points: list[Row]) -> str:
    """Up to which batch the graph helps at one width; points by batch."""
    told = [point for point in points if point["verdict"] != "cannot-tell"]
    unknown = [f"{point['batch']:,}" for point in points if point["verdict"] == "cannot-tell"]
    note = f" (batch {several(unknown)} cannot be told)" if unknown else ""
    if not told:
        return f"whether the graph helps cannot be told: {points[0]['flags'] or 'no interval'}"
    verdicts = [point["verdict"] for point in told]
    if "no-help" not in verdicts:
        last = told[-1]
        return f"the graph still helps at the largest batch told, {last['batch']:,} (speed-up {speedup(last)}){note}"
    at = verdicts.index("no-help")
    first = told[at]
    if "helps" in verdicts[at:]:
        each = several(f"{VERDICT_WORDS[one['verdict']]} at batch {one['batch']:,}" for one in told)
        return f"no single batch divides where it helps from where it does not: it {each}{note}"
    if at == 0:
        return f"the graph does not help, not even at batch {first['batch']:,} (speed-up {speedup(first)}){note}"
    last = told[at - 1]
    return (
        f"the graph helps up to batch {last['batch']:,} (speed-up {speedup(last)}) and from batch "
        f"{first['batch']:,} on no longer ({speedup(first)}){note}"
    )


# ---------------------------------------------------------------- tables


def prediction_table(jobs: pd.DataFrame, points: pd.DataFrame, files: Files) -> Table:
    """Predicted and measured side by side, a row for each card."""
    head = heads(
        "card",
        ("launches", "kernel nodes of the captured step"),
        ("eager, predicted, µs", "made before the step was timed, from its parts"),
        ("measured, µs", "GPU time of a token by events, median [95 % interval]"),
        ("miss, %", "predicted / measured - 1"),
        ("graph, predicted, µs", "the same, all nodes replayed"),
        "measured, µs",
        "miss, %",
        "speed-up, predicted",
        ("measured", "eager / graph [95 % interval, repetitions resampled in pairs]"),
        "miss, %",
        ("launches alone: eager / graph, µs", "launches x cost of a launch of the stored run: kernels that do nothing"),
        "PyTorch",
        "notes",
        RAW_DATA,
    )
    first = {str(row["run_id"]): row for row in points.drop_duplicates("run_id").to_dict("records")}
    body = []
    for job in jobs.head(MAX_ROWS).to_dict("records"):
        point = first.get(str(job["run_id"]))
        stem = f"{job['site']}/{job['label']}/{job['card']}/{job['run_id']}"
        ends = (("CSV", "csv"), ("record", "json"))
        links = [(word, address) for word, end in ends for _, address in files(f"{stem}.{end}")]
        figures: list[Cell] = []
        for name, unit in (("eager", "_us"), ("graph", "_us"), ("speedup", "")):
            seen = estimate(point, name, unit=unit) if point else Cell(UNKNOWN, kind="missing")
            told = quantity(job[f"predicted_{name}{unit}"], digits=4 if unit else 3)
            figures += [told, seen, _miss(job[f"{name}_miss_percent"])]
        bare = " / ".join(number(job[f"bare_{mode}_us"], 4) for mode in ("eager", "graph"))
        note = f"not run: {job['not_run']}" if job["not_run"] else job["stored_reason"]
        launches = _counted(job)
        body.append(
            [
                of_run(job, leads=False),
                *(
                    launches,
                    *figures,
                    quantity(job["bare_eager_us"], bare),
                    Cell(job["torch"] or UNKNOWN),
                ),
                *(Cell(shortened(note, 120), note if len(note) > 120 else ""), Cell("", links=links)),
            ]
        )
    caption = "Exercise 6: the decode step at batch 1, predicted before it was timed, and measured."
    notes = cut(len(jobs), MAX_ROWS, "decode_jobs.csv")
    return Table("decode-prediction", caption, head, body, any_simulated(jobs), notes)


def point_table(points: pd.DataFrame) -> Table:
    """Eager and graph, a row for each batch and width."""
    head = heads(
        "card",
        "width",
        "batch",
        ("launches", "kernel nodes of the captured step"),
        ("eager, µs", "GPU time of a token by events, median [95 % interval]"),
        ("graph, µs", "the same by replay"),
        ("speed-up", "eager / graph [95 % interval, repetitions resampled in pairs]"),
        ("eager issue, µs", "host clock, without synchronize"),
        ("graph", "it helps while the interval of its speed-up lies above 1.02"),
        ("used", "repetitions behind the figures, and how many were left out"),
        "notes",
    )
    body = []
    for row in points.head(MAX_ROWS).to_dict("records"):
        left_out = row["repetitions_flagged"]
        used = f"{row['repetitions_used']}" + (f", {left_out} left out" if left_out else "")
        body.append(
            [
                of_run(row),
                *(count(row["width"]), count(row["batch"]), _counted(row, row["launches_reason"])),
                *(estimate(row, "eager"), estimate(row, "graph"), estimate(row, "speedup", unit="")),
                quantity(row["eager_issue_us"], digits=4),
                *(Cell(VERDICT_WORDS[row["verdict"]]), Cell(used, value=row["repetitions_used"])),
                Cell(shortened(row["flags"], 160), row["flags"] if len(row["flags"]) > 160 else ""),
            ]
        )
    caption = "Exercise 6: the decode step over batch and width."
    return Table("decode", caption, head, body, any_simulated(points), cut(len(points), MAX_ROWS, "decode.csv"))


def _counted(row: Row, why: str = "") -> Cell:
    return quantity(math.nan if pd.isna(row["launches"]) else float(row["launches"]), _launches(row), why)


def _miss(percent: float) -> Cell:
    return quantity(percent, "" if math.isnan(percent) else _signed(percent))


def alternative(made: Section) -> str:
    """What the figure shows, for those who do not see it."""
    title = "Speed-up of the decode step by graph replay over eager PyTorch against batch, a line for each width."
    used = made.points[made.points["repetitions_used"] > 0]
    if used.empty:
        return f"{title} No results yet."
    told = []
    for (card, width), rows in used.groupby(["card_name", "width"], sort=False):
        ordered = rows.sort_values("batch")
        ends = [f"{number(end['speedup'])} at batch {end['batch']:,}" for end in (ordered.iloc[0], ordered.iloc[-1])]
        told.append(f"{card}, width {width:,}: {' to '.join(dict.fromkeys(ends))}")
    slow = sum(sum(slowed(rows.to_dict("records"))) for _, rows in used.groupby("card_name"))
    marked = f" Hollow, since the host was slower than elsewhere: {plural(slow, 'mark')}." if slow else ""
    return f"{title} {'; '.join(told[: 3 * MANY_CARDS])}.{marked}"
