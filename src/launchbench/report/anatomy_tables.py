"""Tables of what a launch consists of: its parts, the ladder, placements, and what was disturbed.

They compute no statistic. Of many cards they have the smallest and the largest figure of each label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from launchbench.aggregate.trial_table import NOT_TIMED
from launchbench.report.anatomy import LADDER, MAX_REASONS, NO_JOB, Section, figure_of, has_kernel
from launchbench.report.cells import (
    Cell,
    Table,
    any_simulated,
    count,
    cut,
    heads,
    kernel_name,
    quantity,
    row_anchor,
    row_link,
)
from launchbench.report.comparison import Comparison
from launchbench.report.placements import PLAIN, node_rows, off_by
from launchbench.results.anatomy_columns import CANNOT_TELL
from launchbench.results.protocol import KERNELS
from launchbench.wording import UNKNOWN, plural, several, shortened, span

MAX_ROWS = 400
MAX_NOTES = 8

Untimed = dict[str, dict[str, None]]
"""Why modes were not timed -> those modes, in order."""

Groups = Iterator[tuple[str, str, int, pd.DataFrame]]
"""Name, kernel, N and the rows of one card or label."""


def parts(section: Section) -> Table:
    """Host issue, device pace, node and graph call of each card and N, and what the loop waits for."""
    body = []
    untimed: Untimed = {}
    for name, kernel, at, rows in _groups(section.parts, section.told):
        figures = [_figure(rows, column) for column in ("loop", "issue", "pace", "node", "graph_call")]
        if rows["pace_us"].isna().all():
            figures[2] = _rung(_of(section, name, kernel, at, "queued"), "queued", kernel, untimed)
        body.append([*_who(name, kernel, at, rows, section), *figures, _kernel(rows, kernel), _waits(rows)])
    head = heads(
        *("card", "kernel", "N"),
        ("loop", "µs per launch, GPU time by events"),
        ("host: issue", "µs per launch, host clock"),
        ("device: queued", "µs per launch that is queued behind a gate, GPU time by events"),
        ("device: node", "µs per node of a graph that is launched behind a gate, GPU time by events"),
        ("host: graph call", "µs for one graph launch of N nodes; from Python before version 4 of the protocol"),
        ("kernel itself", "µs: a node of tiny less one of the control, same processes"),
        ("the loop waits for", "by the interval of issue / queued"),
    )
    caption = (
        "What a launch consists of, in µs per launch or node, the graph call in µs per replay [95 % interval]. These "
        "parts overlap in time and do not add up to the loop."
    )
    return _table("anatomy", caption, head, body, section, "anatomy.csv", untimed)


def ladder(section: Section) -> Table:
    """Each mode of the ladder per launch, node or increment."""
    body = []
    untimed: Untimed = {}
    for name, kernel, at, rows in _groups(section.parts, section.told):
        cells = [_rung(_of(section, name, kernel, at, mode), mode, kernel, untimed) for mode in LADDER]
        body.append([*_who(name, kernel, at, rows, section), *cells])
    head = heads(
        *("card", "kernel", "N", "loop"),
        ("loop-dependent", "the loop with programmatic dependent launch"),
        "replay",
        ("replay-dependent", "the graph captured from that"),
        ("fused-memory", "one kernel, N increments through memory"),
        ("fused-register", "one kernel, N increments in a register: other work"),
    )
    caption = "The ladder below the loop, µs of GPU time per launch, node or increment [95 % interval]."
    return _table("ladder", caption, head, body, section, "modes.csv", untimed)


def placements(section: Section) -> Table:
    """How far placements of the buffer lie apart, for a node."""
    body = []
    replays = node_rows(section)
    for name, kernel, at, rows in _groups(replays, section.names):
        low, high = (rows[f"placement_{end}_us"] / at for end in ("low", "high"))
        known = rows[rows["spread_percent"].notna()]
        spread, off = (
            quantity(float(values.min()), f"{span(values, 2)} %")
            if len(known)
            else Cell(UNKNOWN, "each trial had one placement", kind="missing")
            for values in (known["spread_percent"], off_by(known))
        )
        numbers = (quantity(end) for end in (low.min(), high.max()))
        who = _who(name, kernel, at, rows, section)
        timed = Cell("plain replays" if rows["mode"].iloc[0] == PLAIN else "behind a gate")
        body.append([*who, count(int(rows["placements"].sum())), timed, *numbers, spread, off])
    head = heads(
        *("card", "kernel", "N", "placements"),
        ("timed", "behind a gate: the interval holds nothing of the host"),
        ("smallest, µs per node", "smallest median of a placement, of all trials"),
        ("largest, µs per node", "largest median of a placement"),
        ("spread", "(largest - smallest) / mean; more placements show more of it"),
        ("one buffer is off by up to", "the placement that is farthest from the mean"),
    )
    caption = "A node over the placements of the buffer, all trials together: tiny, and the control."
    return _table("spread-of-placements", caption, head, body, section, "modes.csv")


def disturbed(comparison: Comparison) -> Table:
    """Cells of which repetitions or whole blocks were left out, with the reason."""
    every = comparison.summary
    rows = every[every["flags"] != ""].sort_values(["card_name", "launch_path", "kernel", "launch_count"])
    body = []
    for row in rows.head(MAX_ROWS).to_dict("records"):
        used = f"{plural(row['repetitions_used'], 'repetition')} of {plural(row['trials'], 'trial')}"
        counts = used if row["repetitions_used"] else "no valid samples"
        href = f"#{row_anchor(row)}" if comparison.listed else ""
        body.append(
            [
                Cell(row["card_name"], f"site {row['site']}", "row", href=href),
                *map(Cell, (row["launch_path"], kernel_name(row["kernel"]))),
                count(row["launch_count"]),
                Cell(counts, value=row["repetitions_used"]),
                count(row["repetitions_flagged"]),
                Cell(shortened(row["flags"], 300), row["flags"] if len(row["flags"]) > 300 else "", kind="prose"),
            ]
        )
    head = heads("card", "launch path", "kernel", "N", "counts", ("left out", "repetitions"), "why")
    caption = (
        "What was disturbed. A block that fails a guard is kept, left out and measured again at other placements, "
        "twice at most."
    )
    return Table("disturbed", caption, head, body, any_simulated(rows), cut(len(rows), MAX_ROWS, "summary.csv"))


def _groups(frame: pd.DataFrame, names: list[str]) -> Groups:
    by_key = dict(iter(frame.groupby(["name", "kernel", "launch_count"])))
    counts = sorted(set(frame["launch_count"]))
    for name in names:
        for kernel in KERNELS:
            for at in counts:
                if (name, kernel, at) in by_key:
                    yield name, kernel, int(at), by_key[name, kernel, at]


def _of(section: Section, name: str, kernel: str, at: int, mode: str) -> pd.DataFrame:
    own = section.mode(name, mode, kernel)
    return own[own["launch_count"] == at]


def _who(name: str, kernel: str, at: int, rows: pd.DataFrame, section: Section) -> list[Cell]:
    flags = "; ".join(dict.fromkeys(flag for flag in rows["flags"] if flag))
    title = plural(len(rows), "card") if len(rows) > 1 else ""
    href = row_link(rows, section.listed)
    text, title = (f"{name} *", f"left out: {shortened(flags, 300)}") if flags else (name, title)
    return [Cell(text, title, "row", href=href), Cell(kernel_name(kernel)), count(at)]


def _figure(rows: pd.DataFrame, column: str, end: str = "_us") -> Cell:
    """Sorted by the value, that of the cheapest card where there are several."""
    return quantity(float(rows[f"{column}{end}"].min()), figure_of(rows, column, end))


def _kernel(rows: pd.DataFrame, kernel: str) -> Cell:
    if kernel == "empty":
        return Cell(UNKNOWN, "the control", kind="missing")
    known = rows[has_kernel(rows)]
    why = several(_distinct(rows["kernel_reason"]))
    return replace(_figure(known, "kernel"), title=why) if len(known) else Cell("cannot tell", why, kind="missing")


def _waits(rows: pd.DataFrame) -> Cell:
    verdicts = rows["bottleneck"].value_counts()
    title = several(_distinct(rows["bottleneck_reason"]))
    words = {verdict: verdict.replace("-", " ") for verdict in verdicts.index}
    if len(rows) == 1:
        verdict = verdicts.index[0]
        return Cell(words[verdict], title, kind="missing" if verdict == CANNOT_TELL else "")
    return Cell(several(f"{words[verdict]} on {cards}" for verdict, cards in verdicts.items()), title)


def _rung(rows: pd.DataFrame, mode: str, kernel: str, untimed: Untimed) -> Cell:
    known = rows[rows["gpu_us"].notna()]
    if len(known):
        return _figure(known, "each")
    if kernel == "empty" and mode.startswith("fused"):
        return Cell(UNKNOWN, "the control does nothing that could be fused", kind="missing")
    reason = several(_distinct(rows["reason"])).removeprefix(NOT_TIMED) or NO_JOB
    untimed.setdefault(reason, {})[mode] = None
    return Cell("not timed", shortened(reason, 300), kind="missing")


def _distinct(texts: pd.Series[str]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))[:MAX_REASONS]


def _table(
    name: str,
    caption: str,
    head: list[Cell],
    body: list[list[Cell]],
    section: Section,
    file: str,
    untimed: Untimed | None = None,
) -> Table:
    notes: list[str | Cell] = [*cut(len(body), MAX_ROWS, file)]
    if section.many:
        notes.append(f"Smallest to largest card of each label; each card is in {file}.")
    reasons = list((untimed or {}).items())
    notes += [f"Not timed: {several(modes)} ({shortened(reason, 300)})." for reason, modes in reasons[:MAX_NOTES]]
    if len(reasons) > MAX_NOTES:
        notes.append(f"{plural(len(reasons) - MAX_NOTES, 'other reason')} why something was not timed: in modes.csv.")
    if any(row[0].text.endswith(" *") for row in body):
        notes.append(Cell("* repetitions were left out:", links=[("what was disturbed", "#disturbed")]))
    return Table(name, caption, head, body[:MAX_ROWS], section.simulated, notes)
