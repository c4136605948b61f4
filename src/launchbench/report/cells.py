"""Cells and tables of the page: plain values between the rows they come from and the template."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from launchbench.aggregate.trials import TOO_FEW_TRIALS
from launchbench.report.comparison import SIMULATED
from launchbench.results.protocol import OTHER_CODE
from launchbench.wording import UNKNOWN, number, whole, with_interval

Row = dict[Hashable, Any]
Link = tuple[str, str]
Links = Callable[[Row], Sequence[Link]]
"""From a row of the summary to the links of its files, as text and address."""


@dataclass(frozen=True)
class Cell:
    """One cell; ``title`` explains it, ``heading`` is "" or "row", ``code`` is a command to run."""

    text: str
    title: str = ""
    heading: str = ""
    rowspan: int = 1
    colspan: int = 1
    links: Sequence[Link] = ()
    kind: str = ""
    code: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the page; ``simulated`` when any of its rows comes from a simulated GPU."""

    name: str
    caption: str
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    simulated: bool = False
    notes: Sequence[str] = ()


def heads(*texts: str | tuple[str, str]) -> list[Cell]:
    """Column headings, each a text or a text with its explanation."""
    return [Cell(text) if isinstance(text, str) else Cell(*text) for text in texts]


def label_name(label: str, virtual: bool) -> str:
    """The label, marked where its GPU is simulated."""
    return f"{label} ({SIMULATED})" if virtual else label


def kernel_name(kernel: str) -> str:
    """The kernel, marked where it is the control."""
    return f"{kernel} (control)" if kernel == "empty" else kernel


def path_name(launch_path: str) -> str:
    """The launch path, marked where its kernel is not the same code."""
    return f"{launch_path} (own kernel)" if launch_path in OTHER_CODE else launch_path


def any_simulated(rows: pd.DataFrame) -> bool:
    """Whether any of the rows comes from a simulated GPU."""
    return bool(rows["virtual"].any())


def cut(rows: int, most: int, file: str) -> list[str]:
    """What to say of a table that was cut."""
    return [f"Only the first {most:,} of {rows:,} rows are shown; all are in {file}."] if rows > most else []


def interval(row: Row, column: str, divisor: int = 1, digits: int = 3) -> Cell:
    """Value and interval of a summary row; the title says why there is none."""
    value, unit = row[column], "_us" if column.endswith("_us") else ""
    stem = column.removesuffix("_us")
    if math.isnan(value):
        return Cell(UNKNOWN, row["flags"] or "not known", kind="missing")
    if f"{stem}_low{unit}" not in row:
        return Cell(number(value / divisor, digits), kind="number")
    low, high = row[f"{stem}_low{unit}"], row[f"{stem}_high{unit}"]
    text = with_interval(value / divisor, low / divisor, high / divisor, digits)
    # That trials are too few is said once, at the top of the page.
    untold = math.isnan(low) and row["interval_reason"] != TOO_FEW_TRIALS
    return Cell(text, f"no interval: {row['interval_reason']}" if untold else "", kind="number")


def replays(row: Row) -> str:
    """Replays until a graph has paid for itself, with their interval; "never" where it does not."""
    value, low, high = (row[f"break_even_replays{end}"] for end in ("", "_low", "_high"))
    text = "never" if math.isinf(value) else whole(value)
    if math.isnan(low) or low == value == high:  # whole numbers: an interval may hold one alone
        return text
    return f"{text} [{whole(low)}\N{EN DASH}{'never' if math.isinf(high) else whole(high)}]"
