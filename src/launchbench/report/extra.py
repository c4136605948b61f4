"""What the sections about extra jobs have in common. It computes no statistic and writes no HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from launchbench.errors import LaunchbenchError
from launchbench.report.cells import Cell, Link, Table, cut, heads
from launchbench.report.comparison import CARD_KEY, card_names, read_table
from launchbench.wording import UNKNOWN, shortened

MAX_ROWS = 400

Files = Callable[[str], Sequence[Link]]
"""From a file relative to the results to its links."""


def read_named(tables_dir: Path, beside: pd.DataFrame | None, first: str, *others: str) -> list[pd.DataFrame]:
    """Tables of one kind of job with the column ``card_name``, all rows.

    Args:
        tables_dir: where ``aggregate`` wrote its tables.
        beside: rows with ``CARD_KEY`` of cards in other sections, from which the names tell these cards apart too.
        first: names the cards; the others are of some of them.
        others: names of the other tables.

    Raises:
        LaunchbenchError: a table is missing, is not what its columns say, or has a card that the first has not.
    """
    frames = [read_table(tables_dir, name) for name in (first, *others)]
    named = frames[0] if beside is None else pd.concat([frames[0][CARD_KEY], beside[CARD_KEY]])
    names = card_names(named)
    known = set(frames[0][CARD_KEY].itertuples(index=False, name=None))
    for name, frame in zip(others, frames[1:], strict=True):
        for key in frame[CARD_KEY].itertuples(index=False, name=None):
            if key not in known:
                card = f"label {key[1]!r}, card {key[2]!r}"
                what = f"{first}.csv has no such card; aggregate both"
                raise LaunchbenchError(f"{tables_dir / f'{name}.csv'}: {card}: {what}")
    return [frame.merge(names, on=CARD_KEY, how="left") for frame in frames]


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are not superseded, card by card."""
    return frame[~frame["superseded"]].sort_values("card_name", kind="stable")


def unmeasured(frame: pd.DataFrame, config_labels: Sequence[str]) -> list[str]:
    """Configured labels of which no real card has done the job."""
    measured = set(frame.loc[~frame["virtual"], "label"])
    return [label for label in dict.fromkeys(config_labels) if label not in measured]


def broken(tables_dir: Path, kind: str, files: Files) -> Table:
    """Jobs of a kind that failed, and files of them that cannot be used."""
    gaps = read_table(tables_dir, f"{kind}_gaps")
    body = []
    for row in gaps.head(MAX_ROWS).to_dict("records"):
        label = Cell(shortened(row["label"]) or UNKNOWN, heading="row")
        body.append([label, Cell(row["card"]), Cell(row["reason"]), Cell("", links=files(row["file"]))])
    caption = f"What is missing: {kind} jobs that failed, and files of them that cannot be used."
    notes = cut(len(gaps), MAX_ROWS, f"{kind}_gaps.csv")
    return Table(f"{kind}-gaps", caption, heads("label", "card", "why", "file"), body, False, notes)
