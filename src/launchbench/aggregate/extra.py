"""What the tables of all kinds of extra jobs have in common: types, gaps, and which jobs are superseded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.aggregate.gaps import failed_rows, problem_row
from launchbench.aggregate.identity import moments
from launchbench.results import columns, tables
from launchbench.results.columns import Column
from launchbench.results.failures import Failure
from launchbench.results.files import Problem

SAME_JOB = ["site", "label", "card", "hostname", "driver_version", "nvcc"]
"""Jobs equal in all of these did the same thing; the newest of them counts."""


def gaps(
    problems: Sequence[Problem], results_dir: Path, failures: Sequence[Failure], done: pd.DataFrame, kind: str
) -> pd.DataFrame:
    """The columns of ``columns.GAPS``: files of a kind of job that cannot be used, and jobs that left no result.

    Args:
        problems: the files.
        results_dir: paths are given relative to it.
        failures: of that kind of job; one that was made good since is not told.
        done: rows of the jobs with a result: site, label, card, virtual, started_utc.
        kind: of job.
    """
    jobs = done.assign(launch_count=None)
    rows = [problem_row(problem, results_dir) for problem in problems] + failed_rows(failures, jobs, jobs)
    return table(rows, columns.GAPS, f"{kind}_gaps")


def table(rows: Sequence[dict[str, Any]], listed: tuple[Column, ...], name: str) -> pd.DataFrame:
    """The rows as a validated table; ``superseded`` is filled in where the table has it.

    Raises:
        LaunchbenchError: a value that its column does not allow.
    """
    frame = pd.DataFrame(rows, columns=[column.name for column in listed])
    if frame.empty:
        return tables.validate(frame, listed, name)
    if "superseded" in frame:
        moment = moments(frame["started_utc"])
        newest = moment.groupby([frame[key] for key in SAME_JOB]).transform("max")
        frame["superseded"] = (moment != newest).astype("bool")
    for column in listed:
        if column.kind == "int" and column.nullable:
            frame[column.name] = frame[column.name].astype("Int64")
        elif column.kind == "float":
            frame[column.name] = frame[column.name].astype("float64")
    return tables.validate(frame, listed, name)
