"""Raw results on disk: one CSV of repetitions and one JSON record a job.

Layout: ``<results_dir>/<site>/<label>/<card>/<run_id>.csv`` and ``.json``. Both are written to a temporary
name and renamed, the record last: a CSV counts only once its record vouches for it. Nothing here ever
replaces or removes a result. This module knows neither statistics nor Snakemake.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pydantic

from launchbench.columns import RAW
from launchbench.errors import LaunchbenchError
from launchbench.record import RECORD_FORMAT, RawFile, Record, card_id
from launchbench.tables import parse_csv

TEMPORARY_PREFIX = ".tmp-"


@dataclass(frozen=True)
class Problem:
    """A file that cannot be used; ``card`` and ``launch_count`` as far as its path tells them."""

    path: Path
    reason: str
    site: str = ""
    label: str = ""
    card: str = ""
    launch_count: int | None = None


@dataclass(frozen=True)
class Result:
    """A complete job: its record, where it lies, and the repetitions (columns ``columns.RAW``)."""

    record: Record
    path: Path
    raw: pd.DataFrame

    @property
    def site(self) -> str:
        """The folder the result is filed in, which may have been renamed since it was measured."""
        return self.path.parents[2].name


def new_run_id(launch_count: int, card: str, moment: datetime) -> str:
    """A name that no other job has: N, card, time and 24 random bits."""
    stamp = moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"n{launch_count:07d}-{card}-{stamp}-{secrets.token_hex(3)}"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file or none: temporary name in the same folder, flushed, renamed.

    Raises:
        LaunchbenchError: the folder cannot be written or the disk is full; no partial file is left.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise LaunchbenchError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_result(results_dir: Path, record_without_raw: dict[str, object], raw: pd.DataFrame) -> Path:
    """File one job under ``results_dir`` and return the path of its record.

    Args:
        results_dir: root of the results.
        record_without_raw: fields of a :class:`Record` except ``raw``, which is computed here.
        raw: repetitions, columns as in ``columns.RAW``.

    Raises:
        LaunchbenchError: the folder cannot be written, or a result of this name exists.
    """
    text = raw.to_csv(index=False, lineterminator="\n", columns=[column.name for column in RAW])
    data = text.encode("ascii")
    run_id = str(record_without_raw["run_id"])
    record = Record.model_validate(
        {
            **record_without_raw,
            "raw": RawFile(
                file=f"{run_id}.csv",
                sha256=hashlib.sha256(data).hexdigest(),
                size_bytes=len(data),
                rows=len(raw),
            ),
        }
    )
    folder = results_dir / record.site / record.label / card_id(record.device.uuid)
    record_path = folder / f"{run_id}.json"
    for path in (record_path, folder / record.raw.file):
        if path.exists():
            raise LaunchbenchError(f"{path}: exists already; results are never replaced")
    write_atomically(folder / record.raw.file, data)
    write_atomically(record_path, record.to_json().encode())
    return record_path


def read_record(path: Path) -> Record:
    """Read and validate one record.

    Raises:
        LaunchbenchError: one line that names the file, the key and what is wrong.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LaunchbenchError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not data.strip():
        raise LaunchbenchError(f"{path}: empty; expected a {RECORD_FORMAT} record")
    try:
        return Record.model_validate_json(data)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        value = "" if first["type"] in ("missing", "json_invalid") else f", got {str(first['input'])[:60]!r}"
        message = f"{path}: {where}: {first['msg']}{value}"
        raise LaunchbenchError(" ".join(message.split())) from error


def read_raw(record: Record, folder: Path) -> pd.DataFrame:
    """Read the CSV that a record vouches for, bytes checked against the record.

    Raises:
        LaunchbenchError: missing, empty, cut, changed, or not of the documented columns.
    """
    path = folder / record.raw.file
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise LaunchbenchError(f"{path}: missing; its record is there") from None
    except OSError as error:
        raise LaunchbenchError(f"{path}: cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(data).hexdigest() != record.raw.sha256:
        raise LaunchbenchError(f"{path}: {_damage(data, record.raw)}")
    frame = parse_csv(io.BytesIO(data), RAW, str(path))
    if len(frame) != record.raw.rows:
        raise LaunchbenchError(f"{path}: {len(frame)} rows; its record says {record.raw.rows}")
    if (frame["launch_count"] != record.launch_count).any():
        raise LaunchbenchError(f"{path}: launch_count differs from the record's {record.launch_count}")
    return frame


def _damage(data: bytes, raw: RawFile) -> str:
    lines = data.count(b"\n")
    if not data:
        return "empty (zero bytes)"
    if lines <= 1 and data.endswith(b"\n"):
        return "only a header, no rows"
    if len(data) < raw.size_bytes:
        return f"cut short: {len(data)} of {raw.size_bytes} bytes"
    return "changed since it was measured: checksum differs from its record"


def find_files(results_dir: Path) -> Iterator[Path]:
    """Every CSV and JSON file of the layout, sorted; temporary and hidden files are not results."""
    if not results_dir.is_dir():
        return
    for path in sorted(results_dir.glob("*/*/*/*")):
        if path.suffix in (".csv", ".json") and not any(
            part.startswith(".") for part in path.relative_to(results_dir).parts
        ):
            yield path


def read_results(results_dir: Path) -> tuple[list[Result], list[Problem]]:
    """All complete jobs under ``results_dir``, and every file that is not one with its reason.

    A folder of sites that is missing or empty gives two empty lists.
    """
    results: list[Result] = []
    problems: list[Problem] = []
    vouched: set[Path] = set()
    seen: dict[str, Path] = {}
    files = list(find_files(results_dir))
    for path in (file for file in files if file.suffix == ".json"):
        vouched.add(path.with_suffix(".csv"))
        try:
            record = read_record(path)
            _check_place(record, path)
            if record.run_id in seen:
                raise LaunchbenchError(f"{path}: the same job as {seen[record.run_id]}")
            seen[record.run_id] = path
            results.append(Result(record, path, read_raw(record, path.parent)))
        except LaunchbenchError as error:
            problems.append(_problem(path, str(error)))
    for path in (file for file in files if file.suffix == ".csv" and file not in vouched):
        problems.append(
            _problem(path, f"{path}: no record beside it; the job was interrupted or the record removed")
        )
    return results, problems


def _check_place(record: Record, path: Path) -> None:
    card = card_id(record.device.uuid)
    if path.stem != record.run_id:
        raise LaunchbenchError(f"{path}: its run_id is {record.run_id}; the file was renamed")
    if (path.parents[1].name, path.parent.name) != (record.label, card):
        raise LaunchbenchError(f"{path}: belongs under {record.label}/{card}")


def _problem(path: Path, message: str) -> Problem:
    head = path.stem.split("-", 1)[0]
    count = int(head[1:]) if head[:1] == "n" and head[1:].isascii() and head[1:].isdigit() else None
    return Problem(
        path=path,
        reason=message.removeprefix(f"{path}: "),
        site=path.parents[2].name,
        label=path.parents[1].name,
        card=path.parent.name,
        launch_count=count,
    )
