"""The answer that the page opens with: whether graphs help, until which kernel length, and in a real step.

A few sentences over all cards, each with the place on the page that has the rest. They may not state an effect, a
number or a cause that the rows do not carry. Real cards are told of; simulated ones only where there is no other.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import pandas as pd

from launchbench.report.comparison import SIMULATED, Comparison
from launchbench.report.decode import restless
from launchbench.report.explain import LOOP_OF
from launchbench.wording import plural, several, span, whole

Row = dict[Hashable, Any]
Told = list[tuple[str, str]]
"""Sentence and the place that it leads to."""


def answer(comparison: Comparison, launch_path: str, crossovers: pd.DataFrame, points: pd.DataFrame) -> Told:
    """The sentences; none where nothing was measured.

    Args:
        comparison: what is compared.
        launch_path: whose loop the answer is about.
        crossovers: rows of ``crossovers.csv`` that count.
        points: rows of ``decode.csv`` that count.
    """
    told = [
        (_gain(comparison, launch_path), "devices"),
        (_paid(comparison, launch_path), "break-even"),
        (_length(crossovers), "lengths"),
        (_decode(points), "decode"),
    ]
    return [(text, where) for text, where in told if text]


def _told_of(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows of real cards, or all where there is none; and how many cards that are, in words."""
    real = rows[~rows["virtual"]]
    shown = real if len(real) else rows
    cards = plural(shown["card_name"].nunique(), "card" if len(real) else f"{SIMULATED} card")
    return shown, cards


def _gain(comparison: Comparison, launch_path: str) -> str:
    rows, cards = _told_of(comparison.rows(launch_path))
    if rows.empty:
        return ""
    low, high = (rows[f"speedup_{end}"].fillna(rows["speedup"]) for end in ("low", "high"))
    faster, slower = int((low > 1).sum()), int((high < 1).sum())
    counts = sorted(set(map(int, rows["launch_count"])))
    over = f"N = {counts[0]:,}" if len(counts) == 1 else f"N = {counts[0]:,} to {counts[-1]:,}"
    protocols = rows["protocol_hash"].nunique()
    mixed = f" under {plural(protocols, 'protocol')}, so not like for like" if protocols > 1 else ""
    where = f"({over}, {cards}{mixed})"
    issued = LOOP_OF[launch_path].rstrip(",")
    what = f"For kernels that do next to nothing, one graph replay is {_range(rows)} times as fast as {issued} {where}"
    if faster == len(rows):
        return f"Graphs help. {what}."
    if slower == len(rows):
        return f"Graphs do not help. {what}."
    shares = [f"faster in {faster} of {plural(len(rows), 'cell')}", f"slower in {slower}"]
    return f"Whether graphs help depends on card and N. {what}: {several(shares)}."


def _range(rows: pd.DataFrame) -> str:
    return span(rows["speedup"]).replace("\N{EN DASH}", " to ")


def _paid(comparison: Comparison, launch_path: str) -> str:
    rows, _ = _told_of(comparison.rows(launch_path))
    known = rows["break_even_replays"].dropna()
    if known.empty:
        return ""
    if known.map(math.isinf).all():
        return "A graph never pays for being made: by the host's clock no replay saves time."
    ends = _ends(known)
    if "never" in ends:
        return f"A graph has paid for being made after {ends[0]} replays at best, in some cells never."
    text = f"A graph has paid for being made after {' to '.join(ends)} replay{'' if ends[-1] == '1' else 's'}"
    low, high = (rows[f"break_even_replays_{end}"].dropna() for end in ("low", "high"))
    if low.empty:
        return f"{text}."
    reach = _ends(pd.concat([low, high]))
    return f"{text}; the intervals {'hold no other number' if reach == ends else 'reach from ' + ' to '.join(reach)}."


def _ends(replays: pd.Series[float]) -> list[str]:
    """Smallest and largest, once where they are equal."""
    told = ("never" if math.isinf(end) else whole(end) for end in (replays.min(), replays.max()))
    return list(dict.fromkeys(told))


def _length(crossovers: pd.DataFrame) -> str:
    rows, cards = _told_of(crossovers)
    reached = rows[rows["verdict"] == "reached"]
    if reached.empty:
        return ""
    only = "" if len(reached) == len(rows) else f", in {len(reached)} of {plural(len(rows), 'case')}"
    ends = []
    for name in ("helps_until_us", "no_help_from_us"):
        values = (reached[name].min(), reached[name].max())
        ends.append(" to ".join(dict.fromkeys(f"{value:,g}" for value in values)))
    return f"A graph still helps with kernels of {ends[0]} µs, and no longer with {ends[1]} µs ({cards}{only})."


def _decode(points: pd.DataFrame) -> str:
    rows, cards = _told_of(points[points["repetitions_used"] > 0])
    if rows.empty:
        return ""
    smallest = rows[rows["batch"] == rows["batch"].min()]
    largest = rows[rows["batch"] == rows["batch"].max()]
    text = (
        f"Captured as a graph, the decode step of a small transformer by PyTorch runs {_range(smallest)} times as fast "
        f"at batch {smallest['batch'].iloc[0]:,}"
    )
    if smallest["batch"].iloc[0] != largest["batch"].iloc[0]:
        text += f", and {_range(largest)} times at batch {largest['batch'].iloc[0]:,}"
    if any(restless(own.to_dict("records")) for _, own in rows.groupby("card_name")):
        return f"{text} ({cards}); the host itself was faster or slower meanwhile, and the speed-ups vary with it."
    return f"{text} ({cards})."
