"""What the tables of all kinds of extra jobs have in common: their types, and which jobs are superseded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from launchbench.aggregate.identity import moments
from launchbench.results import tables
from launchbench.results.columns import Column

SAME_JOB = ["site", "label", "card", "hostname", "driver_version", "nvcc"]
"""Jobs equal in all of these did the same thing; the newest of them counts."""


def table(rows: Sequence[dict[str, Any]], columns: tuple[Column, ...], name: str) -> pd.DataFrame:
    """The rows as a validated table; ``superseded`` is filled in where the table has it.

    Raises:
        LaunchbenchError: a value that its column does not allow.
    """
    frame = pd.DataFrame(rows, columns=[column.name for column in columns])
    if "superseded" in frame:
        moment = moments(frame["started_utc"])
        newest = moment.groupby([frame[key] for key in SAME_JOB]).transform("max")
        frame["superseded"] = (moment != newest).astype("bool")
    for column in columns:
        if column.kind == "int" and column.nullable:
            frame[column.name] = frame[column.name].astype("Int64")
        elif column.kind == "float":
            frame[column.name] = frame[column.name].astype("float64")
    return tables.validate(frame, columns, name)
