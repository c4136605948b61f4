"""The table of devices side by side: every configured label has a column, measured ones first.

It computes no statistic: several cards of a label give the range of their medians, never a pooled figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from launchbench.aggregate.gaps import FAILED, NOT_MEASURED, NOT_MEASURED_YET
from launchbench.report.cells import Cell, Table, heads, interval, label_name, quantity, replays, row_link, spanned
from launchbench.report.comparison import Comparison
from launchbench.report.protocols import protocol_anchor
from launchbench.wording import UNKNOWN, plural, several, shortened, whole

COMMAND = "make report"
POINTERS_COMMAND = "make report SNAKEMAKE_FLAGS='--config extras=[pointers]'"
LENGTHS_COMMAND = "make report SNAKEMAKE_FLAGS='--config extras=[lengths]'"
DECODE_COMMAND = "make report SNAKEMAKE_FLAGS='--config extras=[decode]'"
"""Fills a column that nobody has measured, on a machine with that card."""

LEFT_OUT = "unmeasured"
"""Kind of what a narrow screen does not show, beside columns with figures."""

MAX_NAMED = 5

_MEASURES = (
    ("loop, µs per launch", "loop_us", "GPU time by events / N", "tiny", True),
    ("replay, µs per node", "replay_us", "GPU time by events / N", "tiny", True),
    ("speed-up", "speedup", "loop time / replay time", "tiny", False),
    ("replays until it pays", "break_even_replays", "for capture, instantiation and upload", "tiny", False),
    ("control: empty kernel, replay, µs per node", "replay_us", "no memory access", "empty", True),
)


def side_by_side(comparison: Comparison, launch_path: str) -> Table:
    """Devices side by side: rows are measures per N, columns are labels, measured ones first."""
    rows_of = {kernel: comparison.rows(launch_path, kernel) for kernel in ("tiny", "empty")}
    measured = {key for rows in rows_of.values() for key in _keys(rows)}
    # A phone shows one column beside the headings: it should hold figures.
    labels = sorted(comparison.labels, key=lambda key: key not in measured)
    anywhere = _keys(comparison.compared)
    known = {int(at) for rows in rows_of.values() for at in rows["launch_count"]}
    context = _CONTEXT if measured else ()
    total = sum(len(_MEASURES) if at in known else 1 for at in comparison.launch_counts) + len(context)
    unmeasured = {key: _not_measured(comparison, key, key in anywhere, total) for key in labels if key not in measured}
    if measured:
        # A narrow screen leaves these columns out: the note has their text.
        unmeasured = {key: replace(cell, kind=f"{cell.kind} {LEFT_OUT}") for key, cell in unmeasured.items()}
    body: list[list[Cell]] = []
    for at in comparison.launch_counts:
        for position, (name, column, title, kernel, per_n) in enumerate(_MEASURES if at in known else ()):
            row = [Cell(f"N = {at:,}", heading="row", rowspan=len(_MEASURES))] if not position else []
            row.append(Cell(name, title, heading="row"))
            for key in (key for key in labels if key in measured):
                own = _of(rows_of[kernel], key, at)
                cell = _value(own, column, at if per_n else 1)
                row.append(cell if cell.kind == "missing" else replace(cell, href=row_link(own, comparison.listed)))
            body.append(row)
        if at not in known:
            nothing = Cell(NOT_MEASURED if measured else UNKNOWN, kind="missing", colspan=1 + len(measured))
            body.append([Cell(f"N = {at:,}", heading="row"), nothing])
    for name, column in context:
        own_labels = (key for key in labels if key in measured)
        cells = (_context(_of(rows_of["tiny"], key), column) for key in own_labels)
        body.append([Cell(name, heading="row", colspan=2), *cells])
    if body:
        body[0] += unmeasured.values()
    return Table(
        name=f"devices-{launch_path}",
        caption=f"Devices side by side, launches issued by {launch_path}: mean over trials with 95 % interval in "
        "brackets; where a label has several cards, smallest to largest.",
        head=heads(
            *("N", "measure"),
            *(Cell(label_name(*key), kind=LEFT_OUT if measured and key in unmeasured else "") for key in labels),
        ),
        rows=body,
        simulated=any(virtual for _, virtual in measured),
    )


def left_out(table: Table) -> list[tuple[str, Cell]]:
    """What :func:`side_by_side` has no figures of: names of columns and what their cells say, equal ones together."""
    cells = [cell for row in table.rows[:1] for cell in row if LEFT_OUT in cell.kind]
    named: dict[tuple[str, str], list[str]] = {}
    for head, cell in zip((head for head in table.head if head.kind == LEFT_OUT), cells, strict=True):
        named.setdefault((cell.text, cell.code), []).append(head.text)
    return [(several(names), Cell(text, code=code)) for (text, code), names in named.items()]


_CONTEXT = (
    ("cards", "card"),
    ("host CPU (it decides the loop's cost)", "cpu_model"),
    ("driver", "driver_version"),
    ("protocol", "protocol_hash"),
)


def _keys(rows: pd.DataFrame) -> set[tuple[str, bool]]:
    return set(rows[["label", "virtual"]].itertuples(index=False, name=None))


def _of(rows: pd.DataFrame, key: tuple[str, bool], count: int | None = None) -> pd.DataFrame:
    keep = (rows["label"] == key[0]) & (rows["virtual"] == key[1])
    return rows[keep] if count is None else rows[keep & (rows["launch_count"] == count)]


def _not_measured(comparison: Comparison, key: tuple[str, bool], on_other_path: bool, rows: int) -> Cell:
    if on_other_path:
        return Cell("not measured on this launch path", rowspan=rows, kind="missing")
    flagged = _of(comparison.summary, key)
    if not flagged.empty:
        reasons = dict.fromkeys(reason for flags in flagged["flags"] for reason in flags.split("; ") if reason)
        text = f"measured, but no repetition can be used: {several(list(reasons)[:MAX_NAMED])}"
        return Cell(text, "the rows are in the summary table", rowspan=rows, kind="missing")
    gaps = comparison.gaps
    failed = gaps[(gaps["label"] == key[0]) & gaps["reason"].str.startswith(f"{FAILED}: ")]
    if not failed.empty:
        text = f"{NOT_MEASURED_YET}; {FAILED}: {_reasons(failed, comparison.launch_counts)}"
        return Cell(text, "each N is in the table of gaps", rowspan=rows, kind="missing")
    text = f"{NOT_MEASURED_YET}; on a machine with that card:"
    return Cell(text, rowspan=rows, kind="missing", code=COMMAND)


def _reasons(failed: pd.DataFrame, launch_counts: Sequence[int]) -> str:
    """Each reason, with its N unless it is that of every row."""
    counts_of: dict[str, set[int]] = {}
    for reason, count in failed[["reason", "launch_count"]].itertuples(index=False, name=None):
        counts_of.setdefault(reason.removeprefix(f"{FAILED}: "), set()).add(int(count))
    told = []
    for reason, counts in list(counts_of.items())[:MAX_NAMED]:
        where = several([f"{count:,}" for count in sorted(counts)[:MAX_NAMED]])
        told.append(reason if counts >= set(launch_counts) else f"at N = {where}: {reason}")
    return several(told)


def _value(rows: pd.DataFrame, column: str, divisor: int) -> Cell:
    if rows.empty:
        return Cell(UNKNOWN, NOT_MEASURED, kind="missing")
    if len(rows) > 1:
        title = f"smallest to largest of {plural(len(rows), 'card')}"
        protocols = rows["protocol_hash"].nunique()
        unlike = f" ({protocols} protocols)" if protocols > 1 else ""
        if column == "break_even_replays":
            ends = (rows[column].min(), rows[column].max())
            return quantity(float(ends[0]), " to ".join(dict.fromkeys(map(_replays, ends))) + unlike, title)
        cell = spanned(rows[column] / divisor)
        return replace(cell, text=cell.text + unlike, title=title)
    stem = column.removesuffix("_us")
    # Of all columns this takes longer than all else on the page.
    row = rows[[name for name in rows if str(name).startswith(stem) or name in _ALWAYS]].to_dict("records")[0]
    if column == "break_even_replays":
        return quantity(row[column], replays(row))
    return interval(row, column, divisor)


_ALWAYS = ("flags", "interval_reason")


def _replays(value: float) -> str:
    return "never" if math.isinf(value) else whole(value)


def _context(rows: pd.DataFrame, column: str) -> Cell:
    values = sorted({value or "unknown" for value in rows[column]})
    if column == "card":
        return Cell(str(rows["card_name"].nunique()), several(values[:MAX_NAMED]))
    if column == "protocol_hash":
        more = f"and {len(values) - 2} more" if len(values) > 2 else ""
        return Cell(more, links=[(value, f"#{protocol_anchor(value)}") for value in values[:2]])
    shown = several(shortened(value) for value in values[:2])
    return Cell(shown + (f" and {len(values) - 2} more" if len(values) > 2 else ""), several(values[2:20]))
