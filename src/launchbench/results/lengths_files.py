"""Lengths jobs on disk: the record and the CSV of the repetitions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.results.extra_files import ExtraKind, described, write_extra
from launchbench.results.lengths import LENGTHS_FORMAT, LengthsRecord
from launchbench.results.lengths_columns import LENGTH_REPETITIONS
from launchbench.results.lengths_words import KIND
from launchbench.results.tables import write_csv

LENGTHS = ExtraKind(KIND, LENGTHS_FORMAT, LengthsRecord, LENGTH_REPETITIONS)


def write_lengths(results_dir: Path, fields: Mapping[str, Any], rows: pd.DataFrame) -> Path:
    """File one job and return the path of its record.

    Args:
        results_dir: root of the results.
        fields: those of a :class:`LengthsRecord` without ``format`` and ``repetitions_file``.
        rows: repetitions, columns as in ``LENGTH_REPETITIONS``.

    Raises:
        LaunchbenchError: as ``write_extra``.
    """
    name = f"{fields['run_id']}.csv"
    data = write_csv(rows, LENGTH_REPETITIONS, "lengths")
    file = {**described(name, data), "rows": len(rows)}
    record = LengthsRecord.model_validate({"format": LENGTHS_FORMAT, **fields, "repetitions_file": file})
    return write_extra(results_dir, record, {name: data})
