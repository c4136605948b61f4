"""Decode jobs on disk: the record and the CSV of the repetitions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.results.decode import DECODE_FORMAT, DecodeRecord
from launchbench.results.decode_columns import DECODE_REPETITIONS
from launchbench.results.decode_words import KIND
from launchbench.results.extra_files import ExtraKind, described, write_extra
from launchbench.results.tables import write_csv

DECODE = ExtraKind(KIND, DECODE_FORMAT, DecodeRecord, DECODE_REPETITIONS)


def write_decode(results_dir: Path, fields: Mapping[str, Any], rows: pd.DataFrame) -> Path:
    """File one job and return the path of its record.

    Args:
        results_dir: root of the results.
        fields: those of a :class:`DecodeRecord` without ``format`` and ``repetitions_file``.
        rows: repetitions, columns as in ``DECODE_REPETITIONS``.

    Raises:
        LaunchbenchError: as ``write_extra``.
    """
    name = f"{fields['run_id']}.csv"
    data = write_csv(rows, DECODE_REPETITIONS, "decode")
    file = {**described(name, data), "rows": len(rows)}
    record = DecodeRecord.model_validate({"format": DECODE_FORMAT, **fields, "repetitions_file": file})
    return write_extra(results_dir, record, {name: data})
