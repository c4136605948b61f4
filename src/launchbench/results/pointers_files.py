"""Pointers jobs on disk: a record, the CSV of the cures and the sanitizer's reports, beside the launch results.

Layout: ``<results_dir>/<site>/<label>/<card>/pointers-<card>-<time>-<digits>`` with ``.json``, ``.csv`` and
``.sanitizer-<scenario>.txt``. Written to temporary names and renamed, the record last. Nothing here replaces or
removes a complete result.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pydantic

from launchbench.config.messages import escaped, shown
from launchbench.errors import LaunchbenchError
from launchbench.results.files import Problem, write_atomically
from launchbench.results.layout import find_files, job_kind
from launchbench.results.pointers import POINTERS_FORMAT, PointersRecord, TextFile
from launchbench.results.pointers_columns import CURE_REPETITIONS
from launchbench.results.pointers_words import KIND, PREFIX
from launchbench.results.record import card_id
from launchbench.results.tables import parse_csv, write_csv


@dataclass(frozen=True)
class PointersResult:
    """A complete job: its record, where it lies, and the repetitions of the cures (``CURE_REPETITIONS``)."""

    record: PointersRecord
    path: Path
    cures: pd.DataFrame

    @property
    def site(self) -> str:
        """The folder the result is filed in, which may have been renamed since it was measured."""
        return self.path.parents[2].name


def new_pointers_id(card: str, moment: datetime) -> str:
    """A name that no other job has: card, time and 24 random bits."""
    return f"{PREFIX}{card}-{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


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
        LaunchbenchError: the folder cannot be written, or a result of this name exists; no file is left.
    """
    run_id = str(fields["run_id"])
    table = write_csv(cures, CURE_REPETITIONS, "cures")
    contents = {f"{run_id}.csv": table}
    runs = [dict(run) for run in fields["sanitizer"]["runs"]]
    for run in runs:
        if run["scenario"] in reports:
            name = f"{run_id}.sanitizer-{run['scenario']}.txt"
            contents[name] = reports[run["scenario"]]
            run["report"] = _described(name, contents[name])
    record = PointersRecord.model_validate(
        {
            "format": POINTERS_FORMAT,
            **fields,
            "sanitizer": {**fields["sanitizer"], "runs": runs},
            "cures_file": {**_described(f"{run_id}.csv", table), "rows": len(cures)},
        }
    )
    folder = results_dir / record.site / record.label / card_id(record.device.uuid)
    path = folder / f"{run_id}.json"
    for one in (path, *(folder / name for name in contents)):
        if os.path.lexists(one):
            raise _error(one, "exists already; results are never replaced")
    written: list[Path] = []
    try:
        for name, data in contents.items():
            write_atomically(folder / name, data)
            written.append(folder / name)
        write_atomically(path, record.to_json().encode())
    except LaunchbenchError:
        for one in written:
            with contextlib.suppress(OSError):
                one.unlink()
        raise
    return path


def files_of(path: Path) -> list[Path]:
    """A record and the files that it vouches for."""
    return [path, *(path.parent / file.file for file in read_pointers_record(path).files())]


def read_pointers_record(path: Path) -> PointersRecord:
    """Read and validate one record.

    Raises:
        LaunchbenchError: one line that names the file, the key and what is wrong.
    """
    data = _content(path)
    if not data.strip():
        raise _error(path, f"empty; expected a {POINTERS_FORMAT} record")
    try:
        return PointersRecord.model_validate_json(data, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"]) or "file"
        value = "" if first["type"] in ("missing", "json_invalid") else f", got {shown(first['input'])}"
        raise _error(path, f"{where}: {first['msg']}{value}") from error


def read_pointers(results_dir: Path) -> tuple[list[PointersResult], list[Problem]]:
    """All complete pointers jobs under ``results_dir``, and every file of one that cannot be used, with its reason."""
    results: list[PointersResult] = []
    problems: list[Problem] = []
    seen: dict[str, Path] = {}
    files = [path for path in find_files(results_dir) if job_kind(path) == KIND]
    for path in (file for file in files if file.suffix == ".json"):
        try:
            record = read_pointers_record(path)
            _check_place(record, path)
            if record.run_id in seen:
                raise _error(path, f"the same job as {seen[record.run_id]}")
            results.append(PointersResult(record, path, _read_files(record, path.parent)))
            seen[record.run_id] = path
        except LaunchbenchError as error:
            problems.append(_problem(results_dir, path, str(error)))
    for path in (file for file in files if file.suffix == ".csv" and not file.with_suffix(".json").exists()):
        reason = "no record beside it; the job was interrupted or the record removed"
        problems.append(_problem(results_dir, path, reason))
    return results, problems


def _read_files(record: PointersRecord, folder: Path) -> pd.DataFrame:
    for file in record.files():
        _vouched(folder / file.file, file)
    path = folder / record.cures_file.file
    frame = parse_csv(io.BytesIO(_content(path)), CURE_REPETITIONS, str(path))
    if len(frame) != record.cures_file.rows:
        raise _error(path, f"{len(frame)} rows; its record says {record.cures_file.rows}")
    return frame


def _vouched(path: Path, file: TextFile) -> None:
    if not os.path.lexists(path):
        raise _error(path, "missing; its record is there")
    data = _content(path)
    if hashlib.sha256(data).hexdigest() != file.sha256 or len(data) != file.size_bytes:
        cut = f"cut short: {len(data)} of {file.size_bytes} bytes"
        raise _error(path, cut if len(data) < file.size_bytes else "changed since it was measured: checksum differs")


def _check_place(record: PointersRecord, path: Path) -> None:
    card = card_id(record.device.uuid)
    if path.stem != record.run_id:
        raise _error(path, f"its run_id is {record.run_id}; the file was renamed")
    if (path.parents[1].name, path.parent.name) != (record.label, card):
        raise _error(path, f"belongs under {record.label}/{card}")
    for file in record.files():
        if not file.file.startswith(f"{record.run_id}."):
            raise _error(path, f"got the file {file.file}; expected one of {record.run_id}")


def _described(name: str, data: bytes) -> dict[str, Any]:
    return {"file": name, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}


def _content(path: Path) -> bytes:
    try:
        if not path.is_file() and path.exists():
            raise _error(path, "cannot be read: not a regular file")  # reading a pipe would never end
        return path.read_bytes()
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror or error}") from error


def _problem(results_dir: Path, path: Path, message: str) -> Problem:
    """About the file that the message begins with, which may be one beside the record."""
    site, label, card = path.relative_to(results_dir).parts[:3]
    folder = escaped(f"{path.parent}/")
    if message.startswith(folder):
        name, _, message = message.removeprefix(folder).partition(": ")
        path = path.parent / name
    return Problem(path, message, site=site, label=label, card=card)


def _error(path: Path, reason: str) -> LaunchbenchError:
    return LaunchbenchError(escaped(f"{path}: {reason}"))


def write_receipt(receipt: Path, record: Path, results_dir: Path) -> None:
    """Say that the job of a card has been done: names and sizes of its files, relative to ``results_dir``.

    Raises:
        LaunchbenchError: the receipt cannot be written.
    """
    sizes = {str(file.relative_to(results_dir)): file.stat().st_size for file in files_of(record)}
    write_atomically(receipt, f"{json.dumps({'size_bytes': sizes})}\n".encode())
