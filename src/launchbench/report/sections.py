"""The other tables of the page: summary, one-off costs, fits, gaps, older runs.

It computes no statistic and writes no HTML. Long tables are cut or told per label, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pandas as pd

from launchbench.aggregate.gaps import NOT_MEASURED_YET
from launchbench.aggregate.trials import TOO_FEW_TRIALS
from launchbench.report.cells import (
    FIXED,
    RAW_DATA,
    Cell,
    Link,
    Links,
    Row,
    Table,
    any_simulated,
    count,
    cut,
    heads,
    interval,
    kernel_name,
    label_name,
    path_name,
    quantity,
    replays,
    row_anchor,
    spanned,
)
from launchbench.report.comparison import MANY_CARDS, Comparison
from launchbench.report.protocols import protocol_anchor
from launchbench.report.sidebyside import COMMAND
from launchbench.results.protocol import LAUNCH_PATHS
from launchbench.wording import UNKNOWN, number, plural, several, shortened, whole, with_interval

MAX_ROWS = 400
MAX_GAPS = 200
MAX_OUTLIERS = 5
OUTLIER = 0.25
"""A card whose median differs from its label's by more than this share is named."""

_SUMMARY_HEAD = (
    "card",
    "launch path",
    "kernel",
    "N",
    ("loop, µs", "GPU time by events, mean over trials [95 % interval]"),
    ("µs per launch", "loop / N"),
    ("loop issue, µs", "host clock until the last launch call has returned"),
    ("loop total, µs", "host clock until the stream was synchronized"),
    ("replay, µs", "GPU time by events, mean over trials [95 % interval]"),
    ("µs per node", "replay / N"),
    ("replay call, µs", "host clock until the graph launch call has returned"),
    ("replay total, µs", "host clock until the stream was synchronized"),
    ("speed-up", "loop / replay, trial by trial [95 % interval]"),
    ("trials", "fresh processes, placements of the buffer and repetitions behind the figures, and what was left out"),
    "notes",
    ("protocol", "how it was timed"),
    RAW_DATA,
)


def summary(comparison: Comparison, links: Links) -> Table:
    """Every cell; told per label where that would be too long."""
    rows = _ordered(comparison.summary, comparison)
    if not comparison.listed:
        return _summary_of_labels(comparison)
    compared = set(comparison.compared.index)
    body = [
        [
            replace(_who(row)[0], anchor=row_anchor(row)),
            *_who(row)[1:],
            *_figures(row),
            _used(row),
            _notes(row, index in compared),
            Cell(row["protocol_hash"], href=f"#{protocol_anchor(row['protocol_hash'])}"),
            Cell("", links=links(row), kind="prose"),
        ]
        for index, row in zip(rows.index, rows.to_dict("records"), strict=True)
    ]
    return Table("summary", "Every card, launch path, kernel and N.", heads(*_SUMMARY_HEAD), body, any_simulated(rows))


def _who(row: Row) -> list[Cell]:
    title = f"{row['gpu_name']}, card {row['card']}, host {row['hostname']}, site {row['site']}"
    what = (path_name(row["launch_path"]), kernel_name(row["kernel"]))
    return [Cell(row["card_name"], title, "row"), *map(Cell, what), count(row["launch_count"])]


def _figures(row: Row) -> list[Cell]:
    names = (
        "loop_us",
        "loop_us_per_launch",
        "loop_issue_us",
        "loop_total_us",
        "replay_us",
        "replay_us_per_node",
        "replay_issue_us",
        "replay_total_us",
        "speedup",
    )
    return [interval(row, name, digits=3 if "per" in name or name == "speedup" else 4) for name in names]


def _used(row: Row) -> Cell:
    left_out = row["repetitions_flagged"]
    behind = [plural(row[f"{name}s"], name) for name in ("trial", "placement")]
    behind.append(plural(row["repetitions_used"], "repetition"))
    text = ", ".join(behind) + (f", {left_out:,} left out" if left_out else "")
    return Cell(text, kind="prose", value=row["repetitions_used"])


def _notes(row: Row, compared: bool) -> Cell:
    notes = [row["flags"]] if row["flags"] else []
    if not compared and not math.isnan(row["speedup"]):
        notes.append(f"older protocol {row['protocol_hash']}: not compared")
    text = "; ".join(notes)
    return Cell(shortened(text, 160), text if len(text) > 160 else "", kind="prose" if text else "")


def _ordered(rows: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    rank = {key: position for position, key in enumerate(comparison.labels)}
    keys = zip(rows["label"], rows["virtual"], strict=True)
    order = rows.assign(
        label_rank=[rank[label, bool(virtual)] for label, virtual in keys],
        path_rank=rows["launch_path"].map({path: position for position, path in enumerate(LAUNCH_PATHS)}),
        control=rows["kernel"] == "empty",
    )
    names = ["label_rank", "card_name", "path_rank", "control"]
    more = [name for name in ("launch_count", "started_utc", "protocol_hash", "mode") if name in rows]
    return rows.loc[order.sort_values([*names, *more], kind="stable").index]


def _summary_of_labels(comparison: Comparison) -> Table:
    rows = _ordered(comparison.compared, comparison)
    body = []
    keys = ["label", "virtual", "launch_path", "kernel", "launch_count"]
    for key, group in rows.groupby(keys, sort=False):
        label, virtual, path, kernel, at = key
        cells = [Cell(label_name(str(label), bool(virtual)), heading="row"), Cell(str(path))]
        cells += [Cell(kernel_name(str(kernel))), count(int(str(at))), count(group["card_name"].nunique())]
        for column in ("loop_us_per_launch", "replay_us_per_node", "speedup"):
            cells += [quantity(float(group[column].median())), spanned(group[column])]
        body.append([*cells, _outliers(group)])
    head: list[str] = ["label", "launch path", "kernel", "N", "cards"]
    for name in ("µs per launch", "µs per node", "speed-up"):
        head.extend((f"{name}, median of cards", f"{name}, smallest to largest"))
    note = (
        f"{plural(len(comparison.summary), 'row')} are too many to list one by one: told per label here, "
        "each row is in summary.csv."
    )
    outliers = (f"cards that stand out (by more than {OUTLIER:.0%})", "from the median of the label's cards")
    caption = "Every label, launch path, kernel and N."
    return Table("summary", caption, heads(*head, outliers), body[:MAX_ROWS], any_simulated(rows), [note])


def _outliers(group: pd.DataFrame) -> Cell:
    named: list[str] = []
    away_in_all = 0
    for column, word in (("loop_us_per_launch", "loop"), ("replay_us_per_node", "replay")):
        ratio = group[column] / group[column].median()
        away = group[(ratio - 1).abs() > OUTLIER].assign(ratio=ratio)
        away_in_all += len(away)
        for row in away.sort_values("ratio", ascending=False).head(MAX_OUTLIERS).to_dict("records"):
            named.append(f"{row['card_name']} ({word} {number(row[column])} µs)")
    more = away_in_all - MAX_OUTLIERS
    return Cell("; ".join(named[:MAX_OUTLIERS]) + (f"; {more} more" if more > 0 else ""))


def one_off(comparison: Comparison) -> Table:
    """Costs paid once per graph, and the number of replays that pays for them."""
    rows = _ordered(comparison.compared, comparison)
    rows = rows[rows["kernel"] == "tiny"]
    of_labels = len(rows) > MAX_ROWS
    body = _one_off_of_labels(rows)[:MAX_ROWS] if of_labels else []
    names = ("capture", "instantiate", "upload", "first_replay", "recapture", "update")
    for row in [] if of_labels else rows.to_dict("records"):
        saved = row["loop_total_us"] - row["replay_total_us"]
        never = math.isinf(row["break_even_replays"])
        why = "a replay takes the host no less time than the loop" if never else ""
        pays = quantity(row["break_even_replays"], replays(row), why)
        costs = [*(_one_off_cost(row, name) for name in names), _memory(row)]
        who = replace(_who(row)[0], href=f"#{row_anchor(row)}" if comparison.listed else "")
        body.append([who, _who(row)[1], count(row["launch_count"]), *costs, quantity(saved), pays])
    head = heads(
        "card",
        "launch path",
        "N",
        ("capture, µs", "host clock"),
        ("instantiate, µs", "host clock"),
        ("upload, µs", "host clock, with synchronize"),
        ("first replay, µs", "host clock, with synchronize; not part of the cost once"),
        ("recapture, µs", "host clock: capturing the launches anew on another buffer"),
        ("update, µs", "host clock: cuGraphExecUpdate with that capture"),
        ("memory, KiB", "of the device, that instantiating and uploading took"),
        ("saved per replay, µs", "loop total - replay total, host clock"),
        ("replays until it pays", "(capture + instantiate + upload) / saved per replay, rounded up [95 % interval]"),
    )
    caption = (
        "One-off costs of a graph (kernel tiny) and the replays that pay for them: median, in brackets the smallest "
        "and the largest sample. A figure without brackets is one sample, which in the first block of a job holds "
        "what a process pays only once. Memory is by how much the free memory of the device fell: 0 where the graph "
        "fitted into what the driver held already, not that it needs none."
    )
    told = [f"{plural(len(rows), 'row')} are too many to list: smallest to largest card of each label."] * of_labels
    if refused := int(rows["refused_updates"].sum()):
        told.append(f"The driver refused {_refusals({'refused_updates': refused})}, and none of them is a sample.")
    return Table("one-off", caption, head, body, any_simulated(rows), told)


def _one_off_of_labels(rows: pd.DataFrame) -> list[list[Cell]]:
    """The medians of the cards of each label, launch path and N, smallest to largest."""
    body = []
    for key, own in rows.groupby(["label", "virtual", "launch_path", "launch_count"], sort=False):
        label, virtual, path, at = key
        names = ("capture", "instantiate", "upload", "first_replay", "recapture", "update")
        spans = [spanned(own[f"{name}_us"]) for name in names]
        spans += [spanned(own["graph_bytes"] / 1024), spanned(own["loop_total_us"] - own["replay_total_us"])]
        paid = own["break_even_replays"].dropna()
        ends = dict.fromkeys("never" if math.isinf(end) else whole(end) for end in (paid.min(), paid.max()))
        who = [Cell(label_name(str(label), bool(virtual)), plural(len(own), "card"), "row"), Cell(str(path))]
        body.append([*who, count(int(str(at))), *spans, quantity(float(paid.min()), " to ".join(ends))])
    return body


def _one_off_cost(row: dict[Hashable, Any], name: str) -> Cell:
    if math.isnan(row[f"{name}_us"]):
        why = f"the driver refused {_refusals(row)}" if name == "update" and row["refused_updates"] else ""
        return Cell(UNKNOWN, why or "not measured by this protocol", kind="missing")
    if row["one_off_samples"] < 2:
        return quantity(row[f"{name}_us"])
    value, low, high = (row[f"{name}{end}_us"] for end in ("", "_min", "_max"))
    return quantity(value, with_interval(value, low, high))


def _refusals(row: dict[Hashable, Any]) -> str:
    return f"{plural(row['refused_updates'], 'update')} (910): a graph was made anew instead"


def _memory(row: dict[Hashable, Any]) -> Cell:
    if math.isnan(row["graph_bytes"]):
        return Cell(UNKNOWN, "not measured by this protocol", kind="missing")
    value, low, high = (row[f"graph{end}_bytes"] / 1024 for end in ("", "_min", "_max"))
    text = whole(value) if low == high else f"{whole(value)} [{whole(low)}\N{EN DASH}{whole(high)}]"
    return quantity(value, text)


def fit_lines(comparison: Comparison) -> Table:
    """Parameters of the straight lines; what was measured at one N alone has none, which is said once."""
    every = _ordered(comparison.fits, comparison)
    rows = every[every["points"] > 1]
    body = []
    for row in rows.head(MAX_ROWS).to_dict("records"):
        fixed, slope = (
            with_interval(row[f"{name}_us"], row[f"{name}_low_us"], row[f"{name}_high_us"])
            for name in ("fixed", "per_launch")
        )
        why = f"no interval: {row['interval_reason']}" if row["interval_reason"] not in ("", TOO_FEW_TRIALS) else ""
        body.append(
            [
                Cell(row["card_name"], heading="row", href="#summary"),
                *map(Cell, (path_name(row["launch_path"]), kernel_name(row["kernel"]), row["mode"])),
                count(row["points"]),
                quantity(row["fixed_us"], fixed, why),
                quantity(row["per_launch_us"], slope, why),
                quantity(row["largest_residual_percent"], digits=2),
                Cell(row["verdict"], kind="prose"),
            ]
        )
    head = heads(
        "card",
        "launch path",
        "kernel",
        "mode",
        ("values of N", "points in the fit"),
        ("fixed, µs", "does not depend on N [95 % interval over trials]"),
        ("per launch or node, µs", "grows with N [95 % interval over trials]"),
        ("largest residual, %", "of the point"),
        "verdict",
    )
    caption = "Straight lines of GPU time over N: time = fixed + N \N{MULTIPLICATION SIGN} per launch or node."
    notes = [*cut(len(rows), MAX_ROWS, "fits.csv"), *_without_line(every)]
    return Table("fits", caption, head, body, any_simulated(rows), notes)


def _without_line(every: pd.DataFrame) -> list[str]:
    """A sentence on what has one N, and one on what has none; with the cards, unless these are all."""
    notes = []
    for points, words in ((1, "At one N only"), (0, "Nothing usable at any N")):
        cards: dict[tuple[str, ...], list[str]] = {}
        for card, own in every[every["points"] == points].groupby("card_name", sort=False):
            swept = set(every.loc[(every["card_name"] == card) & (every["points"] > 1), "launch_path"])
            paths = [
                path_name(str(path)) + (f" ({several(mine['kernel'].unique())})" if path in swept else "")
                for path, mine in own.groupby("launch_path", sort=False)
            ]
            cards.setdefault(tuple(paths), []).append(str(card))
        told = []
        for kept, names in cards.items():
            named = several(names) if len(names) <= MANY_CARDS else plural(len(names), "card")
            told.append(several(kept) + ("" if len(names) == every["card_name"].nunique() else f" on {named}"))
        notes += [f"{words}, so without a line: {'; '.join(told)}."] if told else []
    return notes


def gaps(comparison: Comparison, link: Callable[[str], Sequence[Link]]) -> Table:
    """What is missing, and why; ``link`` turns a file relative to the results into links."""
    rows = comparison.gaps
    body = []
    for row in rows.head(MAX_GAPS).to_dict("records"):
        where = [Cell(shortened(row[name]) or UNKNOWN) for name in ("site", "card")]
        missing = row["reason"].startswith(NOT_MEASURED_YET)
        body.append(
            [
                Cell(shortened(row["label"]), heading="row"),
                *where,
                quantity(math.nan) if pd.isna(row["launch_count"]) else count(int(row["launch_count"])),
                Cell(
                    f"{row['reason']}; on a machine with that card:" if missing else row["reason"],
                    kind="prose",
                    code=COMMAND if missing else "",
                ),
                Cell("" if row["file"] else UNKNOWN, links=link(row["file"]) if row["file"] else ()),
            ]
        )
    head = heads("label", "site", "card", "N", "why there is no number", Cell("file", kind=FIXED))
    caption = "What is missing from this comparison, and why. Nothing is interpolated."
    return Table("gaps", caption, head, body, False, cut(len(rows), MAX_GAPS, "gaps.csv"))


def superseded(comparison: Comparison, links: Links) -> Table:
    """Older runs of the same trial: other processes, so their spread is worth a look."""
    keys = ["card_name", "launch_path", "kernel", "launch_count", "protocol_hash"]
    every = comparison.trials
    rows = every[every.groupby(keys)["superseded"].transform("any")] if len(every) else every
    groups = rows.groupby(keys, sort=True)
    body = []
    for _, group in islice(groups, MAX_ROWS):
        older = group[group["superseded"]].drop_duplicates("run_id").to_dict("records")
        loop, replay = (group[group["mode"] == mode].set_index("run_id")["gpu_us"] for mode in ("loop", "replay"))
        each = older[0]["launch_count"]
        body.append(
            [
                *_who(older[0]),
                count(len(older)),
                *(spanned(times) for times in (loop / each, replay / each, loop / replay)),
                Cell("", links=[link for row in older[:MAX_OUTLIERS] for link in links(row)], kind="prose"),
            ]
        )
    head = heads(
        "card",
        "launch path",
        "kernel",
        "N",
        "older runs",
        ("µs per launch", "smallest to largest over all runs, those that count included"),
        ("µs per node", "smallest to largest over all runs, those that count included"),
        "speed-up",
        Cell("raw data of older runs", kind=FIXED),
    )
    caption = "Older runs of the same trial: replaced by the newest, yet their spread is that of processes."
    return Table("superseded", caption, head, body, any_simulated(rows), cut(groups.ngroups, MAX_ROWS, "trials.csv"))


def superseded_runs(comparison: Comparison) -> str:
    """How many there are, empty where there is none."""
    count = comparison.trials.loc[comparison.trials["superseded"], "run_id"].nunique()
    return plural(count, "older run") if count else ""
