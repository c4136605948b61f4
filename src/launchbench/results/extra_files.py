"""Extra jobs on disk: a record, its CSV and whatever else it vouches for, beside the launch results.

Layout: ``<results_dir>/<site>/<label>/<card>/<kind>-<card>-<time>-<digits>`` with ``.json``, ``.csv`` and other
suffixes. Written to temporary names and renamed, the record last. Nothing here replaces or removes a complete result.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.results.columns import Column
from launchbench.results.extra import ExtraRecord, TextFile
from launchbench.results.files import (
    Problem,
    check_new,
    file_error,
    parse_record,
    read_content,
    write_atomically,
    write_size_receipt,
)
from launchbench.results.layout import find_files, job_kind
from launchbench.results.record import card_id
from launchbench.results.tables import parse_csv, write_csv

R = TypeVar("R", bound=ExtraRecord)


@dataclass(frozen=True)
class ExtraKind(Generic[R]):
    """What tells one kind of extra job from the others.

    Attributes:
        name: as in ``layout.PREFIXES``; file names begin with it and a hyphen.
        format: of its records.
        model: of its records.
        columns: of its CSV.
    """

    name: str
    format: str
    model: type[R]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ExtraResult(Generic[R]):
    """A complete job: its record, where it lies, and its CSV."""

    record: R
    path: Path
    table: pd.DataFrame

    @property
    def site(self) -> str:
        """The folder the result is filed in, which may have been renamed since it was measured."""
        return self.path.parents[2].name


def new_extra_id(kind: str, card: str, moment: datetime) -> str:
    """A name that no other job has: kind, card, time and 24 random bits."""
    return f"{kind}-{card}-{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def described(name: str, data: bytes) -> dict[str, Any]:
    """Fields of a ``TextFile`` of this name and content."""
    return {"file": name, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}


def write_extra(results_dir: Path, record: ExtraRecord, contents: Mapping[str, bytes]) -> Path:
    """File one job and return the path of its record.

    Args:
        results_dir: root of the results.
        record: vouches for the files.
        contents: name -> content of each of them.

    Raises:
        LaunchbenchError: the folder cannot be written or is a link, or a result of this name exists; no file is left.
    """
    folder = results_dir / record.site / record.label / card_id(record.device.uuid)
    path = folder / f"{record.run_id}.json"
    check_new(folder, path, *(folder / name for name in contents))
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


def write_repetitions(kind: ExtraKind[R], results_dir: Path, fields: Mapping[str, Any], rows: pd.DataFrame) -> Path:
    """File one job whose only other file is the CSV of its repetitions, and return the path of its record.

    Args:
        kind: its record has ``repetitions_file``.
        results_dir: root of the results.
        fields: those of its record without ``format`` and ``repetitions_file``.
        rows: repetitions, columns as in ``kind.columns``.

    Raises:
        LaunchbenchError: as ``write_extra``.
    """
    name = f"{fields['run_id']}.csv"
    data = write_csv(rows, kind.columns, kind.name)
    file = {**described(name, data), "rows": len(rows)}
    record = kind.model.model_validate({"format": kind.format, **fields, "repetitions_file": file})
    return write_extra(results_dir, record, {name: data})


def files_of(kind: ExtraKind[R], path: Path) -> list[Path]:
    """A record and the files that it vouches for."""
    return [path, *(path.parent / file.file for file in read_extra_record(kind, path).files())]


def read_extra_record(kind: ExtraKind[R], path: Path) -> R:
    """Read and validate one record.

    Raises:
        LaunchbenchError: one line that names the file, the key and what is wrong.
    """
    return parse_record(read_content(path), kind.model, kind.format, path)


def read_extras(kind: ExtraKind[R], results_dir: Path) -> tuple[list[ExtraResult[R]], list[Problem]]:
    """All complete jobs of a kind, and every file of one that cannot be used, with its reason."""
    results: list[ExtraResult[R]] = []
    problems: list[Problem] = []
    seen: dict[str, Path] = {}
    files = [path for path in find_files(results_dir) if job_kind(path) == kind.name]
    for path in (file for file in files if file.suffix == ".json"):
        try:
            record = read_extra_record(kind, path)
            _check_place(record, path)
            if record.run_id in seen:
                raise file_error(path, f"the same job as {seen[record.run_id]}")
            results.append(ExtraResult(record, path, _read_files(kind, record, path.parent)))
            seen[record.run_id] = path
        except LaunchbenchError as error:
            problems.append(_problem(results_dir, path, str(error)))
    for path in (file for file in files if file.suffix == ".csv" and not file.with_suffix(".json").exists()):
        reason = "no record beside it; the job was interrupted or the record removed"
        problems.append(_problem(results_dir, path, reason))
    return results, problems


def write_receipt(kind: ExtraKind[R], receipt: Path, record: Path, results_dir: Path) -> None:
    """Say that the job of a card has been done: names and sizes of its files, relative to ``results_dir``.

    Raises:
        LaunchbenchError: the receipt cannot be written.
    """
    write_size_receipt(receipt, files_of(kind, record), results_dir)


def _read_files(kind: ExtraKind[R], record: R, folder: Path) -> pd.DataFrame:
    contents = {file.file: _vouched(folder / file.file, file) for file in record.files()}
    table = record.table()
    path = folder / table.file
    frame = parse_csv(io.BytesIO(contents[table.file]), kind.columns, str(path))
    if len(frame) != table.rows:
        raise file_error(path, f"{len(frame)} rows; its record says {table.rows}")
    return frame


def _vouched(path: Path, file: TextFile) -> bytes:
    """The content that the record vouches for."""
    if not os.path.lexists(path):
        raise file_error(path, "missing; its record is there")
    data = read_content(path)
    if hashlib.sha256(data).hexdigest() != file.sha256 or len(data) != file.size_bytes:
        cut = f"cut short: {len(data)} of {file.size_bytes} bytes"
        raise file_error(
            path, cut if len(data) < file.size_bytes else "changed since it was measured: checksum differs"
        )
    return data


def _check_place(record: ExtraRecord, path: Path) -> None:
    card = card_id(record.device.uuid)
    if path.stem != record.run_id:
        raise file_error(path, f"its run_id is {record.run_id}; the file was renamed")
    if (path.parents[1].name, path.parent.name) != (record.label, card):
        raise file_error(path, f"belongs under {record.label}/{card}")
    for file in record.files():
        if not file.file.startswith(f"{record.run_id}."):
            raise file_error(path, f"got the file {file.file}; expected one of {record.run_id}")


def _problem(results_dir: Path, path: Path, message: str) -> Problem:
    """About the file that the message begins with, which may be one beside the record."""
    site, label, card = path.relative_to(results_dir).parts[:3]
    folder = escaped(f"{path.parent}/")
    if message.startswith(folder):
        name, _, message = message.removeprefix(folder).partition(": ")
        path = path.parent / name
    return Problem(path, message, site=site, label=label, card=card)
