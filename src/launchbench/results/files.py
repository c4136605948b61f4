"""Raw results on disk: one CSV of repetitions and one JSON record a job.

Layout: ``<results_dir>/<site>/<label>/<card>/<run_id>.csv`` and ``.json``. Both are written to a temporary
name and renamed, the record last: a CSV counts only once its record vouches for it. Nothing here ever
replaces or removes a complete result. This module knows neither statistics nor Snakemake.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pandas as pd
import pydantic

from launchbench.config.messages import escaped, shown
from launchbench.errors import LaunchbenchError
from launchbench.results.columns import RAW, RAW_BEFORE_3
from launchbench.results.layout import LAUNCH, LAYOUT, find_files, is_linked_folder, job_kind, run_prefix
from launchbench.results.record import RECORD_FORMAT, RawFile, Record, card_id
from launchbench.results.tables import parse_csv

TEMPORARY_PREFIX = ".tmp-"

M = TypeVar("M", bound=pydantic.BaseModel)


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


def new_run_id(launch_count: int, card: str, moment: datetime, trial: int = 1) -> str:
    """A name that no other job has: N, trial, card, time and 24 random bits."""
    stamp = moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{run_prefix(launch_count, trial)}{card}-{stamp}-{secrets.token_hex(3)}"


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses while ``path`` is written ends as one line that names it.

    Raises:
        LaunchbenchError: the folder cannot be written, or the disk is full.
    """
    try:
        yield
    except FileExistsError as error:
        raise file_error(path, f"cannot be written: {error.filename} is not a folder") from error
    except OSError as error:
        raise file_error(path, f"cannot be written: {error.strerror or error}") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file or none: temporary name in the same folder, flushed, renamed.

    Raises:
        LaunchbenchError: the folder cannot be written or the disk is full; no partial file is left.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{secrets.token_hex(4)}")
    with writing(path):
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


def write_result(results_dir: Path, record_without_raw: dict[str, object], raw: pd.DataFrame) -> Path:
    """File one job under ``results_dir`` and return the path of its record.

    Args:
        results_dir: root of the results.
        record_without_raw: fields of a :class:`Record` except ``format``, and ``raw``, which is computed here.
        raw: repetitions, columns as in ``columns.RAW``.

    Raises:
        LaunchbenchError: the folder cannot be written or is a link, or a result of this name exists; neither file
            is left.
    """
    text = raw.to_csv(index=False, lineterminator="\n", columns=[column.name for column in RAW])
    data = text.encode("ascii")
    run_id = str(record_without_raw["run_id"])
    record = Record.model_validate(
        {
            "format": RECORD_FORMAT,
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
    check_new(folder, record_path, folder / record.raw.file)
    write_atomically(folder / record.raw.file, data)
    try:
        write_atomically(record_path, record.to_json().encode())
    except LaunchbenchError:
        (folder / record.raw.file).unlink()
        raise
    return record_path


def check_new(folder: Path, *files: Path) -> None:
    """Whether these files of a new job can be filed in the folder of its card.

    Raises:
        LaunchbenchError: one of them exists, or the card's, label's or site's folder is a link.
    """
    for path in files:
        if os.path.lexists(path):
            raise file_error(path, "exists already; results are never replaced")
    for parent in (folder, *folder.parents[:2]):
        if is_linked_folder(parent):
            expected = "a link to a folder, in which results are not looked for; put the folder itself there"
            raise file_error(parent, expected)


def write_size_receipt(receipt: Path, files: Iterable[Path], results_dir: Path) -> None:
    """Write the receipt of a job: names of its files, relative to ``results_dir``, with their sizes.

    Raises:
        LaunchbenchError: the receipt cannot be written.
    """
    sizes = {str(file.relative_to(results_dir)): file.stat().st_size for file in files}
    write_atomically(receipt, f"{json.dumps({'size_bytes': sizes})}\n".encode())


def parse_record(data: bytes, model: type[M], wanted: str, path: Path) -> M:
    """The record that a file holds.

    Args:
        data: its content.
        model: what it has to be.
        wanted: name of the format, for the words.
        path: of the file, for the words.

    Raises:
        LaunchbenchError: one line that names the file, the key and what is wrong.
    """
    if not data.strip():
        raise file_error(path, f"empty; expected a {wanted} record")
    try:
        record = model.model_validate_json(data, strict=True)
        # Numbers stay text: of the longest Python would make none.
        json.loads(data, object_pairs_hook=_each_once, parse_int=str, parse_float=str)
        return record
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"]) or "file"
        value = "" if first["type"] in ("missing", "json_invalid") else f", got {shown(first['input'])}"
        raise file_error(path, f"{where}: {first['msg']}{value}") from error
    except _RepeatedKeyError as error:
        raise file_error(path, f"got the key {shown(error.args[0])} twice; expected each key once") from error


def read_record(path: Path) -> Record:
    """Read and validate one record.

    Raises:
        LaunchbenchError: one line that names the file, the key and what is wrong.
    """
    return parse_record(read_content(path), Record, RECORD_FORMAT, path)


class _RepeatedKeyError(Exception):
    pass


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object; of equal keys JSON readers silently keep the last."""
    kept = dict(pairs)
    if len(kept) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return kept


def read_content(path: Path) -> bytes:
    """The bytes of a regular file.

    Raises:
        LaunchbenchError: one line that names the file and why it cannot be read.
    """
    try:
        if not path.is_file() and path.exists():
            raise file_error(path, "cannot be read: not a regular file")  # reading a pipe would never end
        return path.read_bytes()
    except OSError as error:
        raise file_error(path, f"cannot be read: {error.strerror or error}") from error


def file_error(path: Path, reason: str) -> LaunchbenchError:
    """One line that names the file."""
    return LaunchbenchError(escaped(f"{path}: {reason}"))


def read_raw(record: Record, folder: Path) -> pd.DataFrame:
    """Read the CSV that a record vouches for, bytes checked against the record.

    Raises:
        LaunchbenchError: missing, empty, cut, changed, or not of the documented columns.
    """
    path = folder / record.raw.file
    if not os.path.lexists(path):
        raise file_error(path, "missing; its record is there")
    data = read_content(path)
    if hashlib.sha256(data).hexdigest() != record.raw.sha256:
        raise file_error(path, _damage(data, record.raw))
    frame = _with_all_columns(record, data, path)
    if (len(data), len(frame)) != (record.raw.size_bytes, record.raw.rows):
        found, said = f"{len(data)} bytes, {len(frame)} rows", f"{record.raw.size_bytes} and {record.raw.rows}"
        raise file_error(path, f"{found}; its record says {said}")
    if (frame["launch_count"] != record.launch_count).any():
        raise file_error(path, f"launch_count differs from the record's {record.launch_count}")
    return frame


def _with_all_columns(record: Record, data: bytes, path: Path) -> pd.DataFrame:
    if record.format == RECORD_FORMAT:
        return parse_csv(io.BytesIO(data), RAW, str(path))
    frame = parse_csv(io.BytesIO(data), RAW_BEFORE_3, str(path))
    frame = frame.assign(attempt=0, placement=0, offset_bytes=0, replays=(frame["mode"] == "replay").astype("int64"))
    return frame[[column.name for column in RAW]]


def _damage(data: bytes, raw: RawFile) -> str:
    lines = data.count(b"\n")
    if not data:
        return "empty (zero bytes)"
    if lines <= 1 and data.endswith(b"\n"):
        return "only a header, no rows"
    if len(data) < raw.size_bytes:
        return f"cut short: {len(data)} of {raw.size_bytes} bytes"
    return "changed since it was measured: checksum differs from its record"


def read_results(results_dir: Path) -> tuple[list[Result], list[Problem]]:
    """All complete launch jobs under ``results_dir``, and every file that is not one with its reason.

    Files of other kinds of jobs are for their own readers. A folder of sites that is missing or empty gives two
    empty lists.
    """
    problems: list[Problem] = []
    results, more = read_files(results_dir, launch_files(results_dir, problems), {})
    return results, problems + more


def launch_files(results_dir: Path, problems: list[Problem]) -> list[Path]:
    """The files of launch jobs under ``results_dir``, sorted; folders that are not looked into go to ``problems``."""
    unread: list[tuple[Path, str]] = []
    found = [path for path in find_files(results_dir, unread) if job_kind(path) == LAUNCH]
    problems += [_problem(results_dir, folder, reason) for folder, reason in unread]
    return found


def read_files(results_dir: Path, files: Sequence[Path], seen: dict[str, Path]) -> tuple[list[Result], list[Problem]]:
    """The same of some of the files.

    Args:
        results_dir: root of the results.
        files: as :func:`launch_files` gives them.
        seen: records of the jobs that count already, by run_id; those that are read are added.
    """
    results: list[Result] = []
    problems: list[Problem] = []
    vouched: set[Path] = set()
    for path in (file for file in files if file.suffix == ".json"):
        csv = path.with_suffix(".csv")
        vouched.add(csv)
        subject = path
        try:
            record = read_record(path)
            _check_place(record, path)
            if record.run_id in seen:
                raise file_error(path, f"the same job as {seen[record.run_id]}")
            subject = csv
            results.append(Result(record, path, read_raw(record, path.parent)))
            seen[record.run_id] = path
        except LaunchbenchError as error:
            problems.append(_problem(results_dir, subject, str(error)))
    for path in (file for file in files if file.suffix == ".csv" and file not in vouched):
        reason = "no record beside it; the job was interrupted or the record removed"
        problems.append(_problem(results_dir, path, reason))
    return results, problems


def content_digest(path: Path) -> str:
    """Identity of what a reader finds at ``path``: of its bytes, or of the reason why it cannot be read."""
    try:
        return hashlib.sha256(read_content(path)).hexdigest()
    except LaunchbenchError as error:
        return f"unreadable: {error}"


def _check_place(record: Record, path: Path) -> None:
    card = card_id(record.device.uuid)
    if path.stem != record.run_id:
        raise file_error(path, f"its run_id is {record.run_id}; the file was renamed")
    if (path.parents[1].name, path.parent.name) != (record.label, card):
        raise file_error(path, f"belongs under {record.label}/{card}")
    if record.raw.file != f"{record.run_id}.csv":
        raise file_error(path, f"raw.file: got {record.raw.file}; expected {record.run_id}.csv")


def _problem(results_dir: Path, path: Path, message: str) -> Problem:
    head = path.stem.split("-", 1)[0]
    count = int(head[1:]) if head[:1] == "n" and head[1:].isascii() and head[1:].isdigit() else None
    folder = path.parent if path.is_file() else path
    place = folder.relative_to(results_dir).parts[: len(LAYOUT)] if folder != results_dir else ()
    return Problem(
        path=path,
        reason=message.removeprefix(escaped(f"{path}: ")),
        launch_count=count,
        **dict(zip(LAYOUT, place, strict=False)),
    )
