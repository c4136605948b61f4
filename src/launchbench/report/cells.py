"""Cells and tables of the page: plain values between the rows they come from and the template."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from launchbench.aggregate.trials import TOO_FEW_TRIALS
from launchbench.report.comparison import SIMULATED
from launchbench.results.protocol import OTHER_CODE
from launchbench.wording import UNKNOWN, number, span, whole, with_interval

Row = dict[Hashable, Any]
Link = tuple[str, str]
Links = Callable[[Row], Sequence[Link]]
"""From a row of the summary to the links of its files, as text and address."""


@dataclass(frozen=True)
class Cell:
    """One cell; ``title`` explains it, ``heading`` is "" or "row", ``code`` is a command to run.

    ``value`` is the number that the text shows rounded: tables sort by it. ``href`` makes the text a link, ``anchor``
    lets others lead to the cell.
    """

    text: str
    title: str = ""
    heading: str = ""
    rowspan: int = 1
    colspan: int = 1
    links: Sequence[Link] = ()
    kind: str = ""
    code: str = ""
    value: float | None = None
    href: str = ""
    anchor: str = ""

    @property
    def exact(self) -> str:
        """The value in full, as a script reads it."""
        number = math.nan if self.value is None else float(self.value)
        return ("Infinity" if number > 0 else "-Infinity") if math.isinf(number) else repr(number)


@dataclass(frozen=True)
class Table:
    """A table of the page; ``simulated`` when any of its rows comes from a simulated GPU."""

    name: str
    caption: str
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    simulated: bool = False
    notes: Sequence[str | Cell] = ()

    @property
    def sortable(self) -> bool:
        """Whether its rows may change places: not where one holds what the rows below it belong to."""
        return len(self.rows) > 1 and all(cell.rowspan == 1 for row in self.rows for cell in row)

    @property
    def long(self) -> bool:
        """Whether it is shown in a window of its own."""
        return len(self.rows) > LONG


LONG = 24
"""Rows beyond which a table scrolls by itself, under its headings; on paper it is printed whole."""

FIXED = "fixed"
"""Kind of a heading whose column holds links: nothing to sort by."""

RAW_DATA = Cell("raw data", kind=FIXED)


def heads(*texts: str | tuple[str, str] | Cell) -> list[Cell]:
    """Column headings, each a text, a text with its explanation, or a cell."""
    return [text if isinstance(text, Cell) else Cell(text) if isinstance(text, str) else Cell(*text) for text in texts]


def quantity(value: float, text: str = "", title: str = "", digits: int = 3) -> Cell:
    """A number: shown as ``text``, or with so many digits; a dash where it is NaN."""
    if math.isnan(value):
        return Cell(text or UNKNOWN, title, kind="missing")
    return Cell(text or number(value, digits), title, kind="number", value=value)


def count(value: int) -> Cell:
    """A whole number, such as N."""
    return Cell(f"{value:,}", kind="number", value=value)


def spanned(values: Iterable[float], digits: int = 3) -> Cell:
    """Smallest to largest; sorted by the smallest."""
    known = [float(value) for value in values if not math.isnan(value)]
    return quantity(min(known, default=math.nan), span(known, digits))


_ANCHORED = ["card_name", "launch_path", "kernel", "launch_count", "protocol_hash"]


def row_link(rows: pd.DataFrame, listed: bool) -> str:
    """The link to a row of the summary; to the table, where the rows are several or the table has none by itself."""
    return f"#{row_anchor(rows[_ANCHORED].to_dict('records')[0])}" if len(rows) == 1 and listed else "#summary"


def row_anchor(row: Mapping[Any, Any]) -> str:
    """Where a row of the summary is on the page: the same for every table that has its cell's figures."""
    text = "\0".join(str(row[name]) for name in _ANCHORED)
    return f"cell-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:10]}"


def of_run(row: Row, leads: bool = True) -> Cell:
    """The card of a row of an extra job, as heading: a link to the row with that job's files, or that row itself."""
    anchor = f"run-{row['run_id']}"
    title = f"{row['gpu_name']}, host {row['hostname']}"
    return Cell(row["card_name"], title, "row", href=f"#{anchor}" if leads else "", anchor="" if leads else anchor)


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
        return quantity(value / divisor, digits=digits)
    low, high = row[f"{stem}_low{unit}"], row[f"{stem}_high{unit}"]
    text = with_interval(value / divisor, low / divisor, high / divisor, digits)
    # That trials are too few is said once, at the top of the page.
    untold = math.isnan(low) and row["interval_reason"] != TOO_FEW_TRIALS
    return quantity(value / divisor, text, f"no interval: {row['interval_reason']}" if untold else "")


def replays(row: Row) -> str:
    """Replays until a graph has paid for itself, with their interval; "never" where it does not."""
    value, low, high = (row[f"break_even_replays{end}"] for end in ("", "_low", "_high"))
    text = "never" if math.isinf(value) else whole(value)
    if math.isnan(low) or math.isinf(low):
        return text
    return f"{text} [{whole(low)}\N{EN DASH}{'never' if math.isinf(high) else whole(high)}]"
