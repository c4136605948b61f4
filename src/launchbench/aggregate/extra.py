"""What the tables of all kinds of extra jobs have in common: who did a job, and which jobs are superseded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pandas as pd

from launchbench.results import tables
from launchbench.results.columns import Column
from launchbench.results.extra import ExtraRecord
from launchbench.results.extra_files import ExtraResult
from launchbench.results.record import card_id
from launchbench.wording import one_line

SAME_JOB = ["site", "label", "card", "hostname", "driver_version", "nvcc"]
"""Jobs equal in all of these did the same thing; the newest of them counts."""

R = TypeVar("R", bound=ExtraRecord)


def identity(result: ExtraResult[R]) -> dict[str, Any]:
    """The columns of ``columns.IDENTITY`` without the protocol hash."""
    record = result.record
    return {
        "site": one_line(result.site),
        "label": record.label,
        "card": card_id(record.device.uuid),
        "gpu_name": one_line(record.device.name),
        "gpu_uuid": one_line(record.device.uuid),
        "hostname": one_line(record.host.hostname),
        "cpu_model": one_line(record.host.cpu_model or ""),
        "driver_version": one_line(record.device.driver_version or ""),
        "nvcc": one_line(record.software.nvcc),
        "virtual": record.device.virtual,
        "run_id": record.run_id,
        "started_utc": record.started_utc,
    }


def table(rows: Sequence[dict[str, Any]], columns: tuple[Column, ...], name: str) -> pd.DataFrame:
    """The rows as a validated table; ``superseded`` is filled in where the table has it.

    Raises:
        LaunchbenchError: a value that its column does not allow.
    """
    frame = pd.DataFrame(rows, columns=[column.name for column in columns])
    if "superseded" in frame:
        moment = pd.to_datetime(frame["started_utc"], format="ISO8601", utc=True, errors="coerce")
        newest = moment.groupby([frame[key] for key in SAME_JOB]).transform("max")
        frame["superseded"] = (moment != newest).astype("bool")
    for column in columns:
        if column.kind == "int" and column.nullable:
            frame[column.name] = frame[column.name].astype("Int64")
        elif column.kind == "float":
            frame[column.name] = frame[column.name].astype("float64")
    return tables.validate(frame, columns, name)
