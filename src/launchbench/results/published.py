"""Reads what others have published, from ``<results_dir>/published/*.csv``, for the report alone.

Nothing here is a result: no summary, fit, spread or average may take a row of it.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.config.messages import escaped, shown
from launchbench.errors import LaunchbenchError
from launchbench.results.files import read_content
from launchbench.results.layout import published_files
from launchbench.results.published_columns import PUBLISHED, QUANTITIES
from launchbench.results.tables import parse_csv

REQUIRED = ("gpu", "measured", "caveat", "source_title", "source_url")
_DATE = re.compile(r"[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?")


NO_FIGURES = pd.DataFrame(columns=[column.name for column in PUBLISHED])


def read_published(results_dir: Path) -> pd.DataFrame:
    """The rows of all files, sorted by file name, columns as in ``PUBLISHED``; none where the folder is missing.

    Raises:
        LaunchbenchError: one line that names file, column, row, value and what was expected.
    """
    frames = [_read(path) for path in published_files(results_dir)]
    return pd.concat(frames, ignore_index=True) if frames else NO_FIGURES


def _read(path: Path) -> pd.DataFrame:
    frame = parse_csv(io.BytesIO(read_content(path)), PUBLISHED, str(path))
    for number, row in enumerate(frame.to_dict("records"), 1):
        for column, expected in _wrong(row):
            got = f"{column}, row {number}: got {shown(row[column])}; expected {expected}"
            raise LaunchbenchError(escaped(f"{path}: {got}"))
    return frame


def _wrong(row: dict[Hashable, Any]) -> list[tuple[str, str]]:
    """Columns whose values are wrong for more than their type, with what was expected."""
    found = [(name, "text, not nothing") for name in REQUIRED if not str(row[name]).strip()]
    unit = QUANTITIES[str(row["quantity"])].unit
    if row["unit"] != unit:
        found.append(("unit", f"{unit}, the unit of {row['quantity']}"))
    value = float(str(row["value"]))
    if not 0 < value < math.inf:
        found.append(("value", "a number above 0"))
    if row["source_date"] and not _DATE.fullmatch(str(row["source_date"])):
        found.append(("source_date", "YYYY, YYYY-MM, YYYY-MM-DD or nothing"))
    return found
