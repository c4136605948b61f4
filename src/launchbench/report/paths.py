"""The section on launch paths: what a launch costs by who issues it, and what could not be measured.

It computes no statistic; a difference of two figures of one row group is told beside them. Paths whose kernel is not
the same code stand apart in every sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from launchbench.aggregate.path_gaps import open_gaps
from launchbench.report.cells import (
    Cell,
    Row,
    Table,
    any_simulated,
    count,
    cut,
    heads,
    interval,
    path_name,
    quantity,
    row_anchor,
    spanned,
)
from launchbench.report.comparison import CARD_KEY, Comparison
from launchbench.report.explain import by_label
from launchbench.results.protocol import LAUNCH_PATHS, OTHER_CODE
from launchbench.wording import UNKNOWN, number, plural, several, shortened, span

MAX_ROWS = 400
SAME_CODE, OWN_CODE = "the same", "own kernel: not the same code"
NATIVE = ("native-driver", "native-runtime")


@dataclass(frozen=True)
class Section:
    """What the page shows of launch paths.

    Attributes:
        at: the N of sentences and figure; None where nothing is compared.
        sentences: one a card, or a label where there are many cards.
        table: a row for each card, N and path.
        other_code: whether any path is of other code.
    """

    at: int | None
    sentences: Sequence[str]
    table: Table
    other_code: bool


def section(comparison: Comparison, stated: pd.DataFrame) -> Section:
    """Sentences and table.

    Args:
        comparison: what is compared.
        stated: the columns of ``path_columns.UNMEASURED``.
    """
    at = headline(comparison)
    gaps = _named(comparison, open_gaps(stated, comparison.summary))
    table = _table_of_labels(comparison, gaps) if comparison.many else _table(comparison, gaps)
    other = set(comparison.launch_paths) | set(gaps["launch_path"])
    return Section(at, _sentences(comparison, at), table, bool(other & set(OTHER_CODE)))


def headline(comparison: Comparison) -> int | None:
    """The N of the path that most is known of: the one with the most rows, in the order of the paths."""
    counts = [(len(comparison.rows(path)), path) for path in comparison.launch_paths]
    return comparison.headline_count(max(counts, key=lambda pair: pair[0])[1]) if counts else None


def _named(comparison: Comparison, gaps: pd.DataFrame) -> pd.DataFrame:
    names = comparison.summary[[*CARD_KEY, "card_name"]].drop_duplicates(CARD_KEY)
    return gaps.merge(names, on=CARD_KEY, how="left").fillna({"card_name": UNKNOWN})


# --- sentences


def _sentences(comparison: Comparison, at: int | None) -> list[str]:
    if at is None:
        return []
    rows = comparison.compared
    here = rows[(rows["kernel"] == "tiny") & (rows["launch_count"] == at)]
    if comparison.many:
        return [f"{name}: {_label_sentence(group, at)}" for name, group in by_label(here, comparison)]
    own = ((card, here[here["card_name"] == card].to_dict("records")) for card in comparison.cards)
    return [f"{card}: {_sentence(group, at)}" for card, group in own if group]


def _sentence(rows: list[Row], at: int) -> str:
    """The cheapest path of the same code, and what each Python path costs beside the cheapest native one."""
    by_path = {row["launch_path"]: row for row in _in_order(rows)}
    same = [row for path, row in by_path.items() if path not in OTHER_CODE]
    parts = []
    if same:
        best = min(same, key=lambda row: row["loop_us_per_launch"])
        text = f"at N = {at:,} the cheapest launch of the loop is by {best['launch_path']}, {_each(best)} µs"
        level = [row for row in same if row is not best and row["launch_path"] in NATIVE and _alike(row, best)]
        if level:
            told = several(f"{row['launch_path']} at {_each(row)} µs" for row in level)
            text += f"; the intervals cannot tell {told} from it"
        parts.append(f"{text}.")
    native = [row for row in same if row["launch_path"] in NATIVE]
    python = [row for row in same if row["launch_path"] not in NATIVE]
    if native and python:
        base = min(native, key=lambda row: row["loop_us_per_launch"])
        apart = [f"{row['launch_path']} {_beside(row, base)}" for row in python if not _alike(row, base)]
        alike = [f"{row['launch_path']} at {_each(row)} µs" for row in python if _alike(row, base)]
        lines = [several(apart)] if apart else []
        lines += [f"the intervals cannot tell {several(alike)} from it"] if alike else []
        parts.append(f"Python beside {base['launch_path']}, per launch: {'; '.join(lines)}.")
    others = [row for path, row in by_path.items() if path in OTHER_CODE]
    if others:
        told = several(f"{row['launch_path']} {_each(row)} µs" for row in others)
        parts.append(f"With kernels of their own, not the same code: {told}.")
    return " ".join(parts)


def _each(row: Row) -> str:
    return number(row["loop_us_per_launch"])


def _beside(row: Row, base: Row) -> str:
    """The difference per launch."""
    difference = row["loop_us_per_launch"] - base["loop_us_per_launch"]
    return f"{number(abs(difference))} µs {'more' if difference >= 0 else 'less'}"


def _alike(row: Row, base: Row) -> bool:
    """Whether both have intervals, and these overlap."""
    ends = [one[f"loop_{end}_us"] for one in (row, base) for end in ("low", "high")]
    return all(map(math.isfinite, ends)) and ends[0] <= ends[3] and ends[2] <= ends[1]


def _label_sentence(group: pd.DataFrame, at: int) -> str:
    told = []
    for path in LAUNCH_PATHS:
        own = group[group["launch_path"] == path]
        if len(own):
            told.append(f"{path_name(path)} {span(own['loop_us_per_launch'])} µs")
    cards = plural(group["card_name"].nunique(), "card")
    return f"over {cards} at N = {at:,}, a launch of the loop costs by {several(told)} (smallest to largest card)."


def _in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: LAUNCH_PATHS.index(row["launch_path"]))


# --- table

_HEAD = (
    "N",
    "launch path",
    ("machine code of the kernel", "the fatbin's, or one that the framework makes itself"),
    ("loop, µs per launch", "GPU time by events, mean over trials [95 % interval]"),
    ("issue, µs per launch", "host clock until the last launch call has returned"),
    ("replay, µs per node", "GPU time by events, mean over trials [95 % interval]"),
    ("control: loop, µs per launch", "the empty kernel, where the path can launch one"),
)


def _table(comparison: Comparison, gaps: pd.DataFrame) -> Table:
    rows = comparison.compared
    body = []
    for card, at, path in _keys(comparison, gaps):
        cell = rows[(rows["card_name"] == card) & (rows["launch_count"] == at) & (rows["launch_path"] == path)]
        kernels = {row["kernel"]: row for row in cell.to_dict("records")}
        own = gaps[(gaps["card_name"] == card) & (gaps["launch_count"] == at) & (gaps["launch_path"] == path)]
        whys = dict(zip(own["kernel"], own["reason"], strict=True))
        body.append(
            [
                Cell(shortened(card), heading="row", href=_files(kernels, comparison)),
                *_about(at, path),
                *_costs(kernels, at, whys),
            ]
        )
    notes = cut(len(body), MAX_ROWS, "summary.csv")
    simulated = any_simulated(rows) or any_simulated(gaps)
    return Table("launch-paths", _CAPTION, heads("card", *_HEAD), body[:MAX_ROWS], simulated, notes)


_CAPTION = (
    "What a launch and a node cost by launch path (kernel tiny). Each path is compared with its own replay only; "
    "figures of another machine code are not to be compared with the rest."
)


def _keys(comparison: Comparison, gaps: pd.DataFrame) -> Iterator[tuple[str, int, str]]:
    """Card, N and path of every row, cards and paths in their order."""
    names = ["card_name", "launch_count", "launch_path"]
    both = pd.concat([comparison.compared[names], gaps[names]], ignore_index=True).drop_duplicates()
    cards = {name: position for position, name in enumerate([*comparison.cards, *sorted(set(gaps["card_name"]))][::-1])}
    keys = both.itertuples(index=False, name=None)
    yield from sorted(keys, key=lambda key: (-cards[key[0]], key[1], LAUNCH_PATHS.index(key[2])))


def _files(kernels: dict[str, Row], comparison: Comparison) -> str:
    row = kernels.get("tiny") or kernels.get("empty")
    return f"#{row_anchor(row)}" if row and comparison.listed else ""


def _about(at: int, path: str) -> list[Cell]:
    code = OWN_CODE if path in OTHER_CODE else SAME_CODE
    return [count(at), Cell(path), Cell(code)]


def _costs(kernels: dict[str, Row], at: int, whys: dict[str, str]) -> list[Cell]:
    """Four columns; one cell over all of them where the path could not be measured at all."""
    if not kernels:
        return [_missing("", whys, 4)]
    tiny, empty = kernels.get("tiny"), kernels.get("empty")
    control = interval(empty, "loop_us", at) if empty else _missing("empty", whys, 1)
    if tiny is None:
        return [_missing("tiny", whys, 3), control]
    issue = quantity(tiny["loop_issue_us"] / at)
    return [interval(tiny, "loop_us", at), issue, interval(tiny, "replay_us", at), control]


def _missing(kernel: str, whys: dict[str, str], columns: int) -> Cell:
    why = whys.get(kernel) or whys.get("") or "; ".join(whys.values() if not kernel else ())
    return Cell(f"not measured: {why}" if why else UNKNOWN, colspan=columns, kind="missing prose" if why else "missing")


def _table_of_labels(comparison: Comparison, gaps: pd.DataFrame) -> Table:
    """With many cards: a row for each label, N and path, smallest to largest card; of gaps their number."""
    body: list[list[Cell]] = []
    rows = comparison.compared
    stated = by_label(gaps, comparison)
    for name, group in by_label(rows, comparison):
        missing = next((own for label, own in stated if label == name), gaps.iloc[:0])
        for at in sorted(set(map(int, group["launch_count"]))):
            for path in LAUNCH_PATHS:
                own = group[(group["launch_count"] == at) & (group["launch_path"] == path)]
                lost = missing[(missing["launch_count"] == at) & (missing["launch_path"] == path)]
                if own.empty and lost.empty:
                    continue
                tiny, control = (own[own["kernel"] == kernel] for kernel in ("tiny", "empty"))
                cells = [
                    spanned(tiny["loop_us_per_launch"]),
                    spanned(tiny["loop_issue_us"] / at),
                    spanned(tiny["replay_us_per_node"]),
                    spanned(control["loop_us_per_launch"]),
                ]
                if tiny.empty:
                    cards, why = plural(lost["card_name"].nunique(), "card"), "; ".join(sorted(set(lost["reason"])))
                    cells = [Cell(f"not measured on {cards}: {shortened(why, 160)}", colspan=4, kind="missing")]
                body.append([Cell(name, heading="row"), *_about(at, path), *cells])
    notes = cut(len(body), MAX_ROWS, "summary.csv")
    simulated = any_simulated(rows) or any_simulated(gaps)
    caption = f"{_CAPTION} Smallest to largest card of a label."
    return Table("launch-paths", caption, heads("label", *_HEAD), body[:MAX_ROWS], simulated, notes)


def alternative(comparison: Comparison, shown: Section) -> str:
    """The figure for those who do not see it."""
    if shown.at is None:
        return "No results yet."
    rows = comparison.compared
    here = rows[(rows["kernel"] == "tiny") & (rows["launch_count"] == shown.at)]
    told: list[Any] = []
    for path in comparison.launch_paths:
        own = here[here["launch_path"] == path]
        if len(own):
            loop, replay = span(own["loop_us_per_launch"]), span(own["replay_us_per_node"])
            told.append(f"{path_name(path)} {loop} µs per launch, {replay} µs per node")
    over = "smallest to largest over the cards" if here["card_name"].nunique() > 1 else "of one card"
    return f"Launch paths at N = {shown.at:,}, {over}: {'; '.join(told)}."
