"""Pointers jobs on disk: record, CSV of the cures, and the sanitizer's reports (``.sanitizer-<scenario>.txt``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.results.extra_files import ExtraKind, described, write_extra
from launchbench.results.pointers import POINTERS_FORMAT, PointersRecord
from launchbench.results.pointers_columns import CURE_REPETITIONS
from launchbench.results.pointers_words import KIND
from launchbench.results.tables import write_csv

POINTERS = ExtraKind(KIND, POINTERS_FORMAT, PointersRecord, CURE_REPETITIONS)


def write_pointers(
    results_dir: Path, fields: Mapping[str, Any], cures: pd.DataFrame, reports: Mapping[str, bytes]
) -> Path:
    """File one job and return the path of its record.

    Args:
        results_dir: root of the results.
        fields: those of a :class:`PointersRecord` without ``format``, ``cures_file`` and the ``report`` of the runs.
        cures: repetitions, columns as in ``CURE_REPETITIONS``; may be empty.
        reports: scenario -> everything that the sanitizer and its program printed, as bytes.

    Raises:
        LaunchbenchError: as ``write_extra``.
    """
    run_id = str(fields["run_id"])
    table = write_csv(cures, CURE_REPETITIONS, "cures")
    contents = {f"{run_id}.csv": table}
    runs = [dict(run) for run in fields["sanitizer"]["runs"]]
    for run in runs:
        if run["scenario"] in reports:
            name = f"{run_id}.sanitizer-{run['scenario']}.txt"
            contents[name] = reports[run["scenario"]]
            run["report"] = described(name, contents[name])
    record = PointersRecord.model_validate(
        {
            "format": POINTERS_FORMAT,
            **fields,
            "sanitizer": {**fields["sanitizer"], "runs": runs},
            "cures_file": {**described(f"{run_id}.csv", table), "rows": len(cures)},
        }
    )
    return write_extra(results_dir, record, contents)
