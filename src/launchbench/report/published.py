"""Published figures of the page: their table, and which of them a figure of ours may have as hollow marks.

It compares nothing: what others have measured stands beside our results, never in them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import pandas as pd

from launchbench.report.cells import Cell, Row, Table, count, heads
from launchbench.report.cells import quantity as number_of
from launchbench.results.published_columns import QUANTITIES
from launchbench.wording import number, plural, shortened

NOT_MEASURED_HERE = "published, not measured here"
NOT_STATED = "not stated"
SOFTWARE = (("driver", "driver"), ("CUDA", "cuda"))
ISSUED_BY = {"native-driver": "native", "native-runtime": "native", "cuda-python": "python"}
"""Launch path -> who issues its launches, as published figures tell it; nothing is drawn beside the other paths."""


@dataclass(frozen=True)
class Mark:
    """One hollow mark: ``number`` is that of its row in the table, ``height`` is in the unit of the figure's axis."""

    number: int
    launch_count: int
    height: float
    mode: str
    issued_by: str
    gpu: str


def marks(
    published: pd.DataFrame, figure: str, launch_paths: Sequence[str], measured_counts: Sequence[int]
) -> list[Mark]:
    """The marks of a figure, which has a panel for each launch path.

    A row is drawn only where its quantity is the plotted one, its N is given and lies in the range of what was
    measured, so that it does not stretch the figure, and a panel is of its kind of loop.

    Args:
        published: rows as ``read_published`` gives them.
        figure: ``speedup`` or ``times``.
        launch_paths: those that have a panel.
        measured_counts: every N that the figure has results of.
    """
    if not measured_counts:
        return []
    panels = {ISSUED_BY.get(path) for path in launch_paths}
    found = []
    for position, row in enumerate(published.to_dict("records"), 1):
        quantity = QUANTITIES[row["quantity"]]
        if quantity.figure != figure or pd.isna(row["launch_count"]) or row["issued_by"] not in panels:
            continue
        at = int(row["launch_count"])
        if not min(measured_counts) <= at <= max(measured_counts):
            continue
        height = row["value"] * at if quantity.per_item else row["value"]
        found.append(Mark(position, at, height, quantity.mode, row["issued_by"], row["gpu"]))
    return found


def told(drawn: Sequence[Mark], unit: str = "") -> str:
    """The marks of a figure for those who do not see it; empty where there are none.

    Args:
        drawn: as :func:`marks` gives them.
        unit: of the figure's axis, where there is one.
    """
    if not drawn:
        return ""
    each = [
        f"{shortened(mark.gpu)} {mark.mode + ' ' if unit else ''}{number(mark.height)}{unit and ' ' + unit}"
        f" at N = {mark.launch_count:,}"
        for mark in drawn
    ]
    return f" Hollow grey marks, {NOT_MEASURED_HERE}: {'; '.join(each)}."


def table(published: pd.DataFrame) -> Table:
    """Every row, with its number, by which the marks are named."""
    rows = [_row(position, row) for position, row in enumerate(published.to_dict("records"), 1)]
    head = heads(
        ("no.", "the number beside its hollow mark, where a figure has one"),
        "GPU",
        "N",
        ("value", "as published; its explanation says which column of summary.csv it may stand beside"),
        "host, driver, CUDA",
        "what was measured",
        "why it is not like for like",
        "source",
    )
    caption = f"{plural(len(rows), 'figure')} of others: {NOT_MEASURED_HERE}, in no summary, fit, spread or average."
    return Table("published", caption, head, rows)


def _row(position: int, row: Row) -> list[Cell]:
    quantity = QUANTITIES[row["quantity"]]
    unit = "" if quantity.unit == "ratio" else f" {quantity.unit.replace('us', 'µs')}"
    software = [f"{word} {row[name]}" if row[name] else f"{word} {NOT_STATED}" for word, name in SOFTWARE]
    clock = f"clock: {row['clock']}; issued by a {row['issued_by']} loop"
    source = f"{row['source_title']}, {row['source_date'] or 'no date'}"
    url = row["source_url"]
    linked = is_web_address(url)
    return [
        count(position),
        Cell(row["gpu"], heading="row"),
        number_of(math.nan) if pd.isna(row["launch_count"]) else count(int(row["launch_count"])),
        number_of(row["value"], f"{row['value']:,.10g}{unit}", f"may stand beside {quantity.beside(row['clock'])}"),
        Cell("; ".join([row["host"] or f"host {NOT_STATED}", *software])),
        Cell(f"{row['quantity'].replace('_', ' ')}: {row['measured']} ({clock})", kind="prose"),
        Cell(row["caveat"], kind="prose"),
        Cell("" if linked else f"{source}: {url}", links=[(source, url)] if linked else [], kind="prose"),
    ]


def is_web_address(url: str) -> bool:
    """Whether a link may be made of it: anything else, such as ``javascript:``, is shown as text."""
    if not re.fullmatch(r"https?://[^\s\\<>\"]+", url, re.IGNORECASE):
        return False
    try:
        return bool(urlsplit(url).hostname)
    except ValueError:
        return False
