"""The sections about what a launch consists of: rows of the compared cells, and sentences made from them.

They may not state an effect, a number or a cause that the rows do not carry. Few cards are told one by one, many
per label.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from launchbench.aggregate.anatomy import PATH
from launchbench.aggregate.cells import SAME_CELL
from launchbench.aggregate.trial_table import NOT_TIMED
from launchbench.aggregate.verdict import SAME_WITHIN
from launchbench.report.cells import Row, any_simulated, label_name
from launchbench.report.comparison import Comparison, read_table
from launchbench.report.explain import by_label, pays
from launchbench.results.anatomy_columns import CANNOT_TELL, DEVICE_PACE, HOST_ISSUE, PAST_DEPTH
from launchbench.results.protocol import COMPARED_MODES, QUEUE_DEPTH
from launchbench.wording import plural, several, span, whole, with_interval

LADDER = ("loop", "loop-dependent", "replay", "replay-dependent", "fused-memory", "fused-register")
"""Modes from the dearest to the cheapest, as a rule."""

EDGES = {"replay": "a node", "loop": "a launch"}
"""Modes that programmatic edges may help, and what they have N of."""

MAX_REASONS = 3
NO_JOB = "no job of this card has that mode"

Sentences = list[tuple[str, list[str]]]
"""Card or label -> its sentences."""


@dataclass(frozen=True)
class Section:
    """What template, tables and figures show.

    Attributes:
        parts: rows of ``anatomy.csv`` of the compared cells, with ``name`` (the card, or the label where there are
            many cards), ``card_name`` and ``flags``.
        modes: rows of ``modes.csv`` of the same cells, with the same and ``each_us``, ``each_low_us`` and
            ``each_high_us``: per launch, node or increment.
        names: every ``name``, in the order of the page.
        unmeasured: names that have loop and replay only.
        listed: whether the page has a row of the summary for each cell.
        at: N of the sentences that are about one.
    """

    parts: pd.DataFrame
    modes: pd.DataFrame
    names: list[str]
    unmeasured: list[str]
    many: bool
    at: int | None
    listed: bool = False

    @property
    def simulated(self) -> bool:
        """Whether any row comes from a simulated GPU."""
        return any_simulated(self.parts)

    @property
    def told(self) -> list[str]:
        """Names that have more modes than loop and replay."""
        return [name for name in self.names if name not in self.unmeasured]

    @functools.cached_property
    def _parts(self) -> Mapping[Hashable, pd.DataFrame]:
        return _groups(self.parts, ["name", "kernel"])

    @functools.cached_property
    def _modes(self) -> Mapping[Hashable, pd.DataFrame]:
        return _groups(self.modes, ["name", "kernel", "mode"])

    def rows(self, name: str, kernel: str = "tiny") -> pd.DataFrame:
        """Rows of ``parts`` of one card or label, by N."""
        return self._parts.get((name, kernel), self.parts.iloc[:0])

    def mode(self, name: str, mode: str, kernel: str = "tiny") -> pd.DataFrame:
        """Rows of ``modes`` of one card or label and mode, by N."""
        return self._modes.get((name, kernel, mode), self.modes.iloc[:0])


def _groups(rows: pd.DataFrame, keys: list[str]) -> Mapping[Hashable, pd.DataFrame]:
    return dict(iter(rows.sort_values(["launch_count", "card_name"], kind="stable").groupby(keys, sort=False)))


def section(tables_dir: Path, comparison: Comparison) -> Section:
    """The section, from ``anatomy.csv`` and ``modes.csv``.

    Raises:
        LaunchbenchError: a table is missing or is not what its columns say.
    """
    return make_section(read_table(tables_dir, "anatomy"), read_table(tables_dir, "modes"), comparison)


def make_section(anatomy: pd.DataFrame, modes: pd.DataFrame, comparison: Comparison) -> Section:
    """The same from the tables themselves."""
    compared = comparison.compared[comparison.compared["launch_path"] == PATH]
    cells = compared[[*SAME_CELL, "card_name", "flags"]]
    labels = [label_name(label, bool(virtual)) for label, virtual in zip(cells["label"], cells["virtual"], strict=True)]
    cells = cells.assign(name=labels if comparison.many else cells["card_name"])
    parts, rows = (frame.merge(cells, on=SAME_CELL, how="inner") for frame in (anatomy, modes))
    for end in ("", "_low", "_high"):
        rows[f"each{end}_us"] = rows[f"gpu{end}_us"] / rows["launch_count"]
    order = [label_name(*key) for key in comparison.labels] if comparison.many else comparison.cards
    present = set(parts["name"])
    more = set(rows.loc[~rows["mode"].isin(COMPARED_MODES), "name"])
    names = [name for name in order if name in present]
    unmeasured = [name for name in names if name not in more]
    at = comparison.headline_count(PATH)
    return Section(parts, rows, names, unmeasured, comparison.many, at, comparison.listed)


def figure_of(rows: pd.DataFrame, name: str, end: str = "_us", digits: int = 3) -> str:
    """A value with its interval, or the span of several cards."""
    if len(rows) != 1:
        return span(rows[f"{name}{end}"], digits)
    value, low, high = (float(rows[f"{name}{part}{end}"].iloc[0]) for part in ("", "_low", "_high"))
    return with_interval(value, low, high, digits)


# ---------------------------------------------------------------- anatomy


def anatomy_sentences(section: Section) -> Sentences:
    """What the loop waits for at each N, from each card's own numbers."""
    return [
        (name, [_bottlenecks(rows), *_kernel(rows, section.at), _call(rows)])
        for name in section.told
        if len(rows := section.rows(name))
    ]


_WAITS = {
    HOST_ISSUE: "The loop waits for the host, which takes longer to issue a launch than the device for a queued one:",
    DEVICE_PACE: "The loop waits for the device, which takes longer for a queued launch than the host to issue one:",
    CANNOT_TELL: "What the loop waits for cannot be told:",
}


def _bottlenecks(rows: pd.DataFrame) -> str:
    told = []
    for bottleneck, words in _WAITS.items():
        own = rows[rows["bottleneck"] == bottleneck]
        reasons = [reason for reason in dict.fromkeys(own["bottleneck_reason"]) if reason]
        at = [_at(group, rows, len(reasons) > 1) for _, group in own.groupby("launch_count")]
        if at:
            told.append(f"{words} {several(at)}{f'; {reasons[0]}' if len(reasons) == 1 else ''}.")
    past = rows[rows["bottleneck"] == PAST_DEPTH]
    if len(past):
        at = [f"N = {count:,} ({span(own['loop_us'])} µs per launch)" for count, own in past.groupby("launch_count")]
        told.append(
            f"{several(at)} {'is' if len(at) == 1 else 'are'} past the queue's depth of about {QUEUE_DEPTH:,} "
            "launches, where issuing can have to wait for the device."
        )
    return " ".join(told)


def _at(own: pd.DataFrame, rows: pd.DataFrame, with_reasons: bool) -> str:
    count = own["launch_count"].iloc[0]
    parts = [f"{span(own['issue_us'])} µs to issue"]
    parts.append("queued not timed" if own["pace_us"].isna().all() else f"{span(own['pace_us'])} µs queued")
    cards = len(rows[rows["launch_count"] == count])
    if cards > 1:
        parts.append(f"{len(own):,} of {plural(cards, 'card')}")
    if with_reasons:
        parts.append(several(list(dict.fromkeys(own["bottleneck_reason"]))[:MAX_REASONS]))
    return f"at N = {count:,} ({', '.join(parts)})"


def headline(rows: pd.DataFrame, at: int | None) -> pd.DataFrame:
    """The rows at that N, else those at the largest."""
    here = rows[rows["launch_count"] == at]
    return here if len(here) else rows[rows["launch_count"] == rows["launch_count"].max()]


def has_kernel(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether what the kernel itself takes is known; of fewer than three trials it is a value without interval."""
    return (rows["kernel_reason"] == "") | (rows["kernel_us"].gt(0) & rows["kernel_low_us"].isna())


def _kernel(rows: pd.DataFrame, at: int | None) -> list[str]:
    own = headline(rows, at)
    count = own["launch_count"].iloc[0]
    known, unknown = own[has_kernel(own)], own[~has_kernel(own)]
    told = []
    if len(known):
        told.append(
            f"The kernel itself, a node of tiny less one of the control, takes {figure_of(known, 'kernel')} µs at "
            f"N = {count:,}, of {figure_of(known, 'node')} µs per node."
        )
    if len(unknown):
        on = f" on {plural(len(unknown), 'card')}" if len(known) else ""
        reasons = several(list(dict.fromkeys(unknown["kernel_reason"]))[:MAX_REASONS])
        told.append(f"What the kernel itself takes cannot be told at N = {count:,}{on}: {reasons}.")
    return told


def _call(rows: pd.DataFrame) -> str:
    counts = rows["launch_count"]
    first, last = (rows[counts == count] for count in (counts.min(), counts.max()))
    ends = [f"{figure_of(own, 'graph_call')} µs at N = {own['launch_count'].iloc[0]:,}" for own in (first, last)]
    return f"One call that launches a graph takes the host {' and '.join(dict.fromkeys(ends))}."


# ---------------------------------------------------------------- ladder


def ladder_sentences(section: Section) -> Sentences:
    """What programmatic edges bring, and how far a graph is from one fused kernel."""
    return [
        (name, [*_edges(section, name, rows), *_floor(section, name, rows)])
        for name in section.told
        if len(rows := headline(section.rows(name), section.at))
    ]


def _edges(section: Section, name: str, rows: pd.DataFrame) -> list[str]:
    told = {mode: _edge(section, name, rows, mode) for mode in EDGES}
    reasons = {missing(section, name, f"{mode}-dependent") for mode in EDGES}
    if len(reasons) == 1 and all(rows[f"{mode}_dependent_ratio"].isna().all() for mode in EDGES):
        return [f"Programmatic edges, in the graph or in the loop: {reasons.pop()}."]
    return list(told.values())


def _edge(section: Section, name: str, rows: pd.DataFrame, mode: str) -> str:
    count, thing = rows["launch_count"].iloc[0], EDGES[mode]
    where = f"Programmatic edges in the {'graph' if mode == 'replay' else 'loop'} at N = {count:,}"
    column = f"{mode}_dependent_ratio"
    known = rows[rows[column].notna()]
    if known.empty:
        return f"{where}: {missing(section, name, f'{mode}-dependent')}."
    own = [dict(row) for row in known.to_dict("records")]
    if len(own) == 1:
        dependent = section.mode(name, f"{mode}-dependent")
        dependent = dependent[dependent["launch_count"] == count]
        plain = section.mode(name, mode)
        plain = plain[plain["launch_count"] == count]
        takes = f"{thing} takes {figure_of(dependent, 'each')} µs instead of {figure_of(plain, 'each')}"
        return f"{where}: {takes}, {figure_of(known, column, '')} times as long: {gain(own[0], column)}."
    verdicts = pd.Series([gain(row, column) for row in own]).value_counts()
    told = several(f"{words} on {plural(int(cards), 'card')}" for words, cards in verdicts.items())
    return f"{where}: {thing} takes {figure_of(known, column, '')} times as long: {told}."


def gain(row: Row, column: str) -> str:
    """What a ratio of times says, by the rule of every comparison: within 2 % is the same."""
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    if math.isnan(low):
        return "one cannot tell whether they help, without an interval"
    if low >= 1 - SAME_WITHIN and high <= 1 + SAME_WITHIN:
        return "they bring nothing"
    if high < 1:
        return "they help"
    return "they cost time" if low > 1 else "one cannot tell whether they help"


def missing(section: Section, name: str, mode: str) -> str:
    """Why a mode has no time on a card or label."""
    own = section.mode(name, mode)
    reasons = dict.fromkeys(reason for reason in own.loc[own["gpu_us"].isna(), "reason"] if reason)
    return several(list(reasons)[:MAX_REASONS]) if reasons else f"{NOT_TIMED}{NO_JOB}"


def _floor(section: Section, name: str, rows: pd.DataFrame) -> list[str]:
    count = rows["launch_count"].iloc[0]
    floor, node = (section.mode(name, mode) for mode in ("fused-memory", "replay"))
    floor, node = (own[(own["launch_count"] == count) & own["gpu_us"].notna()] for own in (floor, node))
    if floor.empty:
        return []
    both = node.merge(floor, on=SAME_CELL, suffixes=("", "_floor"))
    times = span(both["each_us"] / both["each_us_floor"])
    return [
        f"One fused kernel that does the increments through memory takes {figure_of(floor, 'each')} µs for each at "
        f"N = {count:,}; a node of the graph takes {times} times that."
    ]


# ---------------------------------------------------------------- break-even


def break_even_sentences(comparison: Comparison, launch_path: str) -> list[str]:
    """After how many replays a graph has paid for itself; of many cards the table tells it per label."""
    rows = comparison.rows(launch_path)
    if comparison.many:
        return []
    groups = ((card, rows[rows["card_name"] == card].to_dict("records")) for card in comparison.cards)
    return [f"{card}:{text}" for card, own in groups if (text := pays(own))]


# ---------------------------------------------------------------- text alternatives


def alternatives(section: Section, comparison: Comparison, launch_path: str, told: Sequence[str]) -> dict[str, str]:
    """What the figures show, for those who do not see them; ``told``: the sentences of break-even."""
    title = "Host time of issuing a launch, the device's pace of queued launches, a node, and one graph launch over N."
    anatomy = [f"{name}: {' '.join(lines)}" for name, lines in anatomy_sentences(section)]
    rungs = "Time per launch, node or increment over N, both axes logarithmic, from the loop down to a fused kernel."
    ladder = [
        f"{name} at N = {headline(section.rows(name), section.at)['launch_count'].iloc[0]:,}: {_rungs(section, name)}"
        for name in section.told
    ]
    pays_title = "Replays until a graph has paid for itself over N, and what making one and updating one costs."
    paid = list(told) or _paid_of_labels(comparison, launch_path)
    return {
        "anatomy": " ".join([title, *(anatomy or ["Not measured yet."])]),
        "ladder": " ".join([rungs, "; ".join(ladder) + "." if ladder else "Not measured yet."]),
        "break_even": " ".join([pays_title, *(paid or ["No results yet."])]),
    }


def _rungs(section: Section, name: str) -> str:
    told = []
    for mode in LADDER:
        own = section.mode(name, mode)
        own = headline(own[own["gpu_us"].notna()], section.at)
        told.append(f"{mode} {span(own['each_us'])} µs" if len(own) else f"{mode} {missing(section, name, mode)}")
    return ", ".join(told)


def _paid_of_labels(comparison: Comparison, launch_path: str) -> list[str]:
    rows = comparison.rows(launch_path)
    told = []
    for name, group in by_label(rows[rows["break_even_replays"].notna()], comparison):
        at = []
        for count, own in group.groupby("launch_count"):
            ends = (own["break_even_replays"].min(), own["break_even_replays"].max())
            words = dict.fromkeys("never" if math.isinf(end) else whole(end) for end in ends)
            at.append(f"{' to '.join(words)} at N = {count:,}")
        told.append(f"{name}: {several(at)}.")
    return told
