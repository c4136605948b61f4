"""Files on disk: written whole or not at all, and read back exactly or refused in one line."""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from launchbench.aggregate.join import aggregate
from launchbench.errors import LaunchbenchError
from launchbench.results import files as results
from launchbench.results.columns import RAW
from launchbench.results.files import (
    Problem,
    new_run_id,
    read_raw,
    read_record,
    read_results,
    write_atomically,
    write_result,
)
from launchbench.results.layout import find_files
from launchbench.results.record import Record
from tests.unit.fabricate import uuid, write_job, write_sweep

CARD = uuid(0)[4:12]
NOBODY = 65534


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Not root for a while: root may write and read everything."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A folder that an ordinary user can reach, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="launchbench-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def parts(record_path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """What ``write_result`` was given."""
    fields = json.loads(record_path.read_bytes())
    del fields["raw"]
    return fields, pd.read_csv(record_path.with_suffix(".csv"))


def the_problem(folder: Path) -> Problem:
    """The only problem there is, checked to be one printable line."""
    found, problems = read_results(folder)
    assert (len(found), len(problems)) == (0, 1)
    assert problems[0].reason.isprintable() and problems[0].reason
    return problems[0]


# --- writing


def test_a_file_is_written_whole_and_nothing_else(tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000
    write_atomically(tmp_path / "new" / "folder" / "a.bin", data)
    assert files(tmp_path) == ["new/folder/a.bin"]
    assert (tmp_path / "new/folder/a.bin").read_bytes() == data


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failing_flush_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    (tmp_path / "a.json").write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(LaunchbenchError) as caught:
        write_atomically(tmp_path / "a.json", b"after")
    assert str(caught.value) == f"{tmp_path}/a.json: cannot be written: {os.strerror(code)}"
    assert files(tmp_path) == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"before"


def test_a_write_that_the_kernel_cuts_short(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(LaunchbenchError, match=r"a\.csv: cannot be written: File too large$"):
            write_atomically(tmp_path / "a.csv", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(tmp_path) == []


FULL_DISK = """
import sys
from pathlib import Path
import pandas as pd, json
from launchbench.errors import LaunchbenchError
from launchbench.results.files import write_result
source, disk = map(Path, sys.argv[1:])
fields = json.loads(source.read_bytes())
del fields["raw"]
raw = pd.read_csv(source.with_suffix(".csv"))
(disk / "filler").write_bytes(bytes(int(sys.stdin.read())))
try:
    write_result(disk, fields, raw)
except LaunchbenchError as error:
    print(error)
print(*(path.relative_to(disk) for path in disk.rglob("*") if not path.is_dir()))
"""


@pytest.mark.parametrize(("free_bytes", "suffix"), [(0, ".csv"), (4096, ".json")])
def test_a_full_disk_leaves_no_file_of_the_job(tmp_path: Path, free_bytes: int, suffix: str) -> None:
    """On a real file system of 128 KiB, full before the CSV and between CSV and record."""
    disk = tmp_path / "disk"
    disk.mkdir()
    # Long host name, so that the record takes more than what the CSV leaves.
    record = write_job(tmp_path / "source", 8, placements=1, full_placements=1, repetitions=2, hostname="h" * 20_000)
    inner = 'mount -t tmpfs -o size=128k none "$2" && exec "$0" -c "$3" "$1" "$2"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inner]
    try:
        done = subprocess.run(
            [*command, sys.executable, str(record), str(disk), FULL_DISK],
            input=str(131_072 - free_bytes), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("no unshare on this machine")
    if done.returncode != 0 and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    message, left = done.stdout.splitlines()
    path = disk / record.relative_to(tmp_path / "source").with_suffix(suffix)
    assert message == f"{path}: cannot be written: No space left on device"
    assert left == "filler"


def test_a_folder_that_is_read_only(public: Path) -> None:
    folder = public / "results"
    folder.mkdir(mode=0o555)
    with ordinary_user():
        with pytest.raises(LaunchbenchError) as deep:
            write_atomically(folder / "lab" / "a.json", b"x")
        with pytest.raises(LaunchbenchError) as flat:
            write_atomically(folder / "a.json", b"x")
    assert str(deep.value) == f"{folder}/lab/a.json: cannot be written: Permission denied"
    assert str(flat.value) == f"{folder}/a.json: cannot be written: Permission denied"
    assert files(public) == []


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "results").write_bytes(b"")
    with pytest.raises(LaunchbenchError, match=r"cannot be written: .*/results is not a folder$"):
        write_atomically(tmp_path / "results" / "a.json", b"x")


def test_the_refusal_is_one_line_whatever_the_name(tmp_path: Path) -> None:
    (tmp_path / "odd\nname\x1b").write_bytes(b"")
    with pytest.raises(LaunchbenchError) as caught:
        write_atomically(tmp_path / "odd\nname\x1b" / "a.json", b"x")
    odd = f"{tmp_path}/odd\\nname\\x1b"
    assert str(caught.value) == f"{odd}/a.json: cannot be written: {odd} is not a folder"


def test_a_keyboard_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.json", b"x")
    assert files(tmp_path) == []


@pytest.mark.parametrize("suffix", [".json", ".csv"])
@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_a_result_is_never_replaced(tmp_path: Path, suffix: str, kind: str) -> None:
    written = write_job(tmp_path / "first", 8, repetitions=2)
    fields, raw = parts(written)
    there = tmp_path / "second" / written.relative_to(tmp_path / "first").with_suffix(suffix)
    there.parent.mkdir(parents=True)
    if kind == "file":
        there.write_bytes(b"mine")
    else:
        there.symlink_to("nowhere")
    with pytest.raises(LaunchbenchError) as caught:
        write_result(tmp_path / "second", fields, raw)
    assert str(caught.value) == f"{there}: exists already; results are never replaced"
    assert [path.name for path in there.parent.iterdir()] == [there.name]
    assert (there.read_bytes() == b"mine") if kind == "file" else there.is_symlink()


def test_a_killed_writer_leaves_a_csv_that_does_not_count(tmp_path: Path) -> None:
    """Killed by SIGKILL while the record is being flushed: the CSV is there, the record is a temporary file."""
    complete = write_job(tmp_path, 64, repetitions=2)
    child = os.fork()
    if child == 0:
        flush, seen = os.fsync, []

        def kill_at_the_second(handle: int) -> None:
            seen.append(handle)
            if len(seen) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            flush(handle)

        os.fsync = kill_at_the_second
        try:
            write_job(tmp_path, 8, repetitions=2)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    names = sorted(path.name for path in complete.parent.iterdir())
    assert [name[:9] for name in names] == [".tmp-n000", "n0000008-", "n0000064-", "n0000064-"]
    found, problems = read_results(tmp_path)
    assert [result.record.launch_count for result in found] == [64]
    assert [(problem.path.name, problem.launch_count, problem.reason) for problem in problems] == [
        (names[1], 8, "no record beside it; the job was interrupted or the record removed")
    ]


def test_run_ids_differ_and_say_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 1, 31, 1, 2, 3, tzinfo=timezone(timedelta(hours=3)))
    made = {new_run_id(8, "01234567", moment, trial=2) for _ in range(50)}
    assert len(made) == 50
    assert {name[:-6] for name in made} == {"n0000008-t2-01234567-20260130T220203Z-"}
    assert new_run_id(1_048_576, "mig-01234567", moment).startswith("n1048576-t1-mig-01234567-20260130")


# --- reading what was written


def test_what_is_written_is_read_back_exactly(tmp_path: Path) -> None:
    def odd_values(record: dict[str, Any], raw: pd.DataFrame) -> None:
        raw.loc[0, ["gpu_us", "issue_us", "total_us"]] = [0.1 + 0.2, 5e-324, 1.7976931348623157e308]
        raw.loc[1, ["gpu_us", "issue_us"]] = [float("nan"), 123456.789012345]
        kept.update(raw=raw.copy(), record=record)

    kept: dict[str, Any] = {}
    path = write_job(tmp_path, 512, repetitions=3, edit=odd_values)
    assert path.relative_to(tmp_path).parts[:3] == ("lab", "t4", CARD)
    [result], problems = read_results(tmp_path)
    assert problems == []
    assert (result.path, result.site) == (path, "lab")
    pd.testing.assert_frame_equal(result.raw, kept["raw"][result.raw.columns], check_exact=True, check_dtype=False)
    assert result.raw["gpu_us"][0] == 0.30000000000000004
    assert result.record.to_json().encode() == path.read_bytes()
    assert result.record.raw.rows == len(kept["raw"]) == 72
    assert result.record.host.cpu_model == "Synthetic CPU"


def test_the_site_is_the_folder_also_after_it_was_renamed(tmp_path: Path) -> None:
    write_job(tmp_path, 8, repetitions=2)
    (tmp_path / "lab").rename(tmp_path / "other")
    [result], problems = read_results(tmp_path)
    assert (result.site, result.record.site, problems) == ("other", "lab", [])


@pytest.mark.parametrize("kind", ["missing", "empty", "a file"])
def test_no_results_folder(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "results"
    if kind == "empty":
        folder.mkdir()
    elif kind == "a file":
        folder.write_bytes(b"")
    assert read_results(folder) == ([], [])


def test_other_files_are_not_results(tmp_path: Path) -> None:
    record = write_job(tmp_path, 8, repetitions=2)
    data = record.with_suffix(".csv").read_bytes()
    folder = record.parent
    hidden = tmp_path / ".cache" / "t4" / CARD / record.name
    hidden.parent.mkdir(parents=True)
    for path in (
        folder / f".tmp-{record.stem}.csv-0a1b2c3d",
        folder / ".hidden.csv",
        folder / ".tmp-x.json",
        folder / "notes.txt",
        folder / f"{record.stem}.csv~",
        folder / f"{record.stem}.CSV",
        hidden,
    ):
        path.write_bytes(data)
    found, problems = read_results(tmp_path)
    assert (len(found), problems) == (1, [])
    assert list(find_files(tmp_path)) == [record.with_suffix(".csv"), record]


def test_files_are_in_the_same_order_everywhere(tmp_path: Path) -> None:
    for card, site in enumerate(("z", "a-b", "a")):
        write_sweep(tmp_path, (64, 8), site=site, card=card, repetitions=1)
    found, _ = read_results(tmp_path)
    order = [(result.site, result.record.launch_count) for result in found]
    assert order == [("a", 8), ("a", 64), ("a-b", 8), ("a-b", 64), ("z", 8), ("z", 64)]


# --- damage to the CSV


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


CSV_DAMAGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("zero bytes", lambda _: b"", "empty (zero bytes)"),
    ("header only", lambda data: _lines(data)[0], "only a header, no rows"),
    ("header cut", lambda data: data[:20], "cut short: 20 of {size} bytes"),
    ("last line cut", lambda data: data[:-9], "cut short: {less9} of {size} bytes"),
    ("last line feed gone", lambda data: data[:-1], "cut short: {less1} of {size} bytes"),
    ("a row removed", lambda data: b"".join(_lines(data)[:-1]), "cut short: "),
    ("a digit changed", lambda data: data[:-2] + bytes([data[-2] ^ 1]) + b"\n", "changed since it was measured"),
    ("a row twice", lambda data: data + _lines(data)[-1], "changed since it was measured"),
    ("CRLF", lambda data: data.replace(b"\n", b"\r\n"), "changed since it was measured"),
    ("byte order mark", lambda data: b"\xef\xbb\xbf" + data, "changed since it was measured"),
    ("binary", lambda data: bytes(len(data)), "changed since it was measured"),
]


@pytest.mark.parametrize(("damage", "reason"), [c[1:] for c in CSV_DAMAGES], ids=[c[0] for c in CSV_DAMAGES])
def test_a_damaged_csv(tmp_path: Path, damage: Callable[[bytes], bytes], reason: str) -> None:
    record = write_job(tmp_path, 512, repetitions=2)
    table = record.with_suffix(".csv")
    data = table.read_bytes()
    table.write_bytes(damage(data))
    assert table.read_bytes() != data
    problem = the_problem(tmp_path)
    size = len(data)
    expected = reason.format(size=size, less9=size - 9, less1=size - 1)
    if reason.startswith("changed"):
        expected += ": checksum differs from its record"
    assert problem.reason.startswith(expected)
    assert problem == Problem(table, problem.reason, "lab", "t4", CARD, 512)


def test_a_deleted_csv(tmp_path: Path) -> None:
    record = write_job(tmp_path, 8, repetitions=2)
    record.with_suffix(".csv").unlink()
    expected = Problem(record.with_suffix(".csv"), "missing; its record is there", "lab", "t4", CARD, 8)
    assert the_problem(tmp_path) == expected


def _vouch(record_path: Path, data: bytes, rows: int | None = None, size: int | None = None) -> None:
    """Replace the CSV and make the record agree with it, as somebody would who edits both."""
    record_path.with_suffix(".csv").write_bytes(data)
    record = json.loads(record_path.read_bytes())
    record["raw"] |= {
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_bytes": max(1, len(data)) if size is None else size,
        "rows": data.count(b"\n") - 1 if rows is None else rows,
    }
    record_path.write_text(json.dumps(record))


VOUCHED: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("mode", lambda d: d.replace(b",loop,", b",lo0p,", 1), "mode, row 1: got 'lo0p'; expected one of loop, replay"),
    ("other N", lambda d: d.replace(b"\n512,", b"\n8,"), "launch_count differs from the record's 512"),
    ("columns", lambda d: d.replace(b"gpu_us", b"gpu_ms"), "columns are launch_count, launch_path, kernel, attempt, "),
    ("short row", lambda d: d.rsplit(b",", 1)[0] + b"\n", "row 48: got 13 columns; expected 14"),
    ("long rows", lambda d: d.replace(b"\n512,", b"\n1,512,"), "row 1: got 15 columns; expected 14"),
    ("text", lambda d: d.replace(b"\n512,native", b"\n 512,native", 1), "launch_count, row 1: got ' 512'; expected"),
    ("binary", lambda d: b"\xff" * 40 + b"\n", "not a CSV table: 'utf-8' codec can't decode byte 0xff in position 0"),
]


@pytest.mark.parametrize(("change", "reason"), [case[1:] for case in VOUCHED], ids=[case[0] for case in VOUCHED])
def test_a_csv_that_its_record_vouches_for_is_still_checked(
    tmp_path: Path, change: Callable[[bytes], bytes], reason: str
) -> None:
    record = write_job(tmp_path, 512, repetitions=2)
    _vouch(record, change(record.with_suffix(".csv").read_bytes()), rows=48)
    problem = the_problem(tmp_path)
    assert problem.reason.startswith(reason)
    assert problem.path == record.with_suffix(".csv")


@pytest.mark.parametrize(("rows", "size"), [(49, None), (48, 77)])
def test_the_records_counts_are_compared(tmp_path: Path, rows: int, size: int | None) -> None:
    record = write_job(tmp_path, 512, repetitions=2)
    data = record.with_suffix(".csv").read_bytes()
    _vouch(record, data, rows=rows, size=size)
    expected = f"{len(data)} bytes, 48 rows; its record says {len(data) if size is None else size} and {rows}"
    assert the_problem(tmp_path).reason == expected


# --- damage to the record


def _changed(*path: str | int, to: Any) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        record = json.loads(data)
        inner = record
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to
        return json.dumps(record).encode()

    return change


def _without(data: bytes, *path: str) -> bytes:
    record = json.loads(data)
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return json.dumps(record).encode()


def _number(field: str, text: str) -> Callable[[bytes], bytes]:
    """The field's present value replaced by other text, also by what is not JSON."""
    return lambda data: _changed(field, to="@")(data).replace(b'"@"', text.encode())


PATTERN = "String should match pattern"
RECORD_DAMAGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("zero bytes", lambda _: b"", "empty; expected a launchbench-record/3 record"),
    ("blank", lambda _: b" \n\n", "empty; expected a launchbench-record/3 record"),
    ("cut", lambda data: data[: len(data) // 2], "file: Invalid JSON: EOF while parsing"),
    ("last brace gone", lambda data: data[:-2], "file: Invalid JSON: EOF while parsing"),
    ("more after it", lambda data: data + b"{}", "file: Invalid JSON: trailing characters"),
    ("not JSON", lambda _: b"launch_count: 8", "file: Invalid JSON: expected value"),
    ("binary", lambda _: bytes(range(256)), "file: Invalid JSON: expected value"),
    ("zeros", lambda data: bytes(len(data)), "file: Invalid JSON: expected value"),
    ("UTF-16", lambda data: data.decode().encode("utf-16"), "file: Invalid JSON: "),
    ("not UTF-8", lambda data: data.replace(b"bench-host", b"bench\xffhost"), "file: Invalid JSON: "),
    ("deep", lambda _: b"[" * 100_000, "file: Invalid JSON: recursion limit exceeded"),
    ("null", lambda _: b"null", "file: Input should be an object, got None"),
    ("list", lambda _: b"[1]", "file: Input should be an object, got [1]"),
    ("number", lambda _: b"5", "file: Input should be an object, got 5"),
    ("text", lambda _: b'"x"', "file: Input should be an object, got 'x'"),
    ("NaN", lambda _: b"NaN", "file: Input should be an object, got nan"),
    ("no fields", lambda _: b"{}", "format: Field required"),
    ("no format", lambda data: _without(data, "format"), "format: Field required"),
    ("not said whether simulated", lambda data: _without(data, "device", "virtual"), "device.virtual: Field required"),
    ("no such day", _changed("started_utc", to="2026-13-45T03:04:05Z"), "started_utc: Value error, month must be in"),
    (
        "no such hour",
        _changed("blocks", 0, "after", "taken_utc", to="2026-01-01T24:00:01Z"),
        "blocks.0.after.taken_utc",
    ),
    (
        "a key twice",
        lambda data: data.replace(b'"launch_count": 8', b'"launch_count": 64,"launch_count": 8'),
        "got the key 'launch_count' twice; expected each key once",
    ),
    (
        "an inner key twice",
        lambda data: data.replace(b'"virtual": false', b'"virtual": true, "virtual": false'),
        "got the key 'virtual' twice; expected each key once",
    ),
    ("no such trial", _changed("trial", to=2**63), "trial: Input should be less than or equal to 1000000, got 9223"),
    ("unknown field", _changed("extra", to=1), "extra: Extra inputs are not permitted, got 1"),
    ("unknown inner", _changed("host", "cpu", to=[]), "host.cpu: Extra inputs are not permitted, got []"),
    ("odd field", _changed("a\nb\x1b[31m\u2028", to=1), "a\\nb\\x1b[31m\\u2028: Extra inputs are not permitted, got 1"),
    ("long field", _changed("k" * 5000, to="v" * 5000), f"{'k' * 60}: Extra inputs are not permitted, got 'vvv"),
    (
        "newer format",
        _changed("format", to="launchbench-record/4"),
        "format: Input should be 'launchbench-record/1', 'launchbench-record/2' or 'launchbench-record/3', ",
    ),
    ("N as text", _changed("launch_count", to="8"), "launch_count: Input should be a valid integer, got '8'"),
    ("N as float", _changed("launch_count", to=8.0), "launch_count: Input should be a valid integer, got 8.0"),
    ("N true", _changed("launch_count", to=True), "launch_count: Input should be a valid integer, got True"),
    ("N null", _changed("launch_count", to=None), "launch_count: Input should be a valid integer, got None"),
    ("N zero", _changed("launch_count", to=0), "launch_count: Input should be greater than or equal to 1, got 0"),
    ("N huge", _number("launch_count", "9" * 4000), "launch_count: Input should be less than or equal to 1048576, got"),
    ("N beyond", _number("launch_count", "9" * 6000), "file: Invalid JSON: number out of range"),
    ("N NaN", _number("launch_count", "NaN"), "launch_count: Input should be a"),
    ("N infinite", _number("launch_count", "-Infinity"), "launch_count: Input should be a"),
    ("time NaN", _changed("blocks", 0, "capture_us", to=float("nan")), "blocks.0.capture_us.0: Input should be"),
    ("time inf", _changed("blocks", 1, "upload_us", to=float("inf")), "blocks.1.upload_us.0: Input should be"),
    ("power NaN", _changed("blocks", 0, "before", "power_w", to=float("nan")), "blocks.0.before.power_w: Input should"),
    ("load inf", _changed("host", "load_average_1min", to=float("inf")), "host.load_average_1min: Input should be a f"),
    (
        "negative",
        _changed("blocks", 0, "capture_us", to=-1.0),
        "blocks.0.capture_us.0: Input should be greater than or",
    ),
    ("no blocks", _changed("blocks", to=[]), "blocks: List should have at least 1 item"),
    (
        "unknown kernel",
        _changed("blocks", 0, "kernel", to="huge"),
        "blocks.0.kernel: Input should be 'tiny' or 'empty'",
    ),
    ("flag as number", _changed("device", "virtual", to=1), "device.virtual: Input should be a valid boolean, got 1"),
    ("escape", _changed("run_id", to="../x"), f"run_id: {PATTERN}"),
    ("line feed", _changed("site", to="lab\n"), f"site: {PATTERN}"),
    ("file elsewhere", _changed("raw", "file", to="../a.csv"), f"raw.file: {PATTERN}"),
    ("other digits", _changed("started_utc", to="\u0662\u0660\u0662\u0666-01-02T03:04:05Z"), f"started_utc: {PATTERN}"),
    (
        "capability",
        _changed("device", "compute_capability", to="\u0667.\u0665"),
        f"device.compute_capability: {PATTERN}",
    ),
    ("checksum", _changed("raw", "sha256", to="A" * 64), f"raw.sha256: {PATTERN}"),
    ("another CSV", _changed("raw", "file", to="b.csv"), "raw.file: got b.csv; expected n0000008-"),
]


@pytest.mark.parametrize(("damage", "reason"), [c[1:] for c in RECORD_DAMAGES], ids=[c[0] for c in RECORD_DAMAGES])
def test_a_damaged_record(tmp_path: Path, damage: Callable[[bytes], bytes], reason: str) -> None:
    record = write_job(tmp_path, 8, repetitions=2)
    record.write_bytes(damage(record.read_bytes()))
    problem = the_problem(tmp_path)
    assert problem.reason.startswith(reason)
    assert problem == Problem(record, problem.reason, "lab", "t4", CARD, 8)
    assert len(problem.reason) < 400


MAY_BE_MISSING = {"slurm", "trial", "seed", "paths_not_measured", "kernels_not_measured", "frameworks"}


@pytest.mark.parametrize("field", [field for field in Record.model_fields if field not in MAY_BE_MISSING])
def test_every_field_of_a_record_is_needed(tmp_path: Path, field: str) -> None:
    """But what earlier formats have not."""
    record = write_job(tmp_path, 8, repetitions=1)
    fields = json.loads(record.read_bytes())
    del fields[field]
    record.write_text(json.dumps(fields))
    assert the_problem(tmp_path).reason == f"{field}: Field required"


def test_a_record_without_its_csv_and_a_csv_without_its_record(tmp_path: Path) -> None:
    first, second = write_sweep(tmp_path, (8, 64), repetitions=2)
    first.unlink()
    second.with_suffix(".csv").unlink()
    found, problems = read_results(tmp_path)
    assert found == []
    assert sorted((problem.path.name, problem.launch_count) for problem in problems) == [
        (first.with_suffix(".csv").name, 8),
        (second.with_suffix(".csv").name, 64),
    ]


# --- files at another place


def _renamed(path: Path, name: str) -> None:
    for suffix in (".json", ".csv"):
        path.with_suffix(suffix).rename(path.with_name(name).with_suffix(suffix))


def test_renamed_files(tmp_path: Path) -> None:
    record = write_job(tmp_path, 8, repetitions=2)
    _renamed(record, "n0000064-other.json")
    problem = the_problem(tmp_path)
    assert problem.reason == f"its run_id is {record.stem}; the file was renamed"
    assert (problem.path, problem.launch_count) == (record.with_name("n0000064-other.json"), 64)


@pytest.mark.parametrize(("level", "place"), [(0, "t4/moved"), (1, "moved/" + CARD)])
def test_renamed_folders(tmp_path: Path, level: int, place: str) -> None:
    record = write_job(tmp_path, 8, repetitions=2)
    folder = record.parents[level]
    folder.rename(folder.with_name("moved"))
    problem = the_problem(tmp_path)
    assert problem.reason == f"belongs under t4/{CARD}"
    assert f"{problem.label}/{problem.card}" == place


def test_the_same_job_copied_to_another_site(tmp_path: Path) -> None:
    record = write_job(tmp_path, 8, repetitions=2)
    shutil.copytree(tmp_path / "lab", tmp_path / "mirror")
    [result], [problem] = read_results(tmp_path)
    assert result.path == record
    assert (problem.site, problem.reason) == ("mirror", f"the same job as {record}")


def test_an_intact_copy_counts_where_the_first_is_damaged(tmp_path: Path) -> None:
    record = write_job(tmp_path, 8, repetitions=2)
    shutil.copytree(tmp_path / "lab", tmp_path / "mirror")
    record.with_suffix(".csv").write_bytes(b"")
    [result], [problem] = read_results(tmp_path)
    assert (result.site, problem.site, problem.reason) == ("mirror", "lab", "empty (zero bytes)")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("n0000008-a.csv", 8),
        ("n0000008-t2-a.csv", 8),
        ("n8.csv", 8),
        ("n1048576-x-y.csv", 1_048_576),
        ("n00000000000000000000000000008-a.csv", 8),
        ("n-a.csv", None),
        ("8-a.csv", None),
        ("x8-a.csv", None),
        ("n\uff18-a.csv", None),
        ("n²-a.csv", None),
        ("n8x-a.csv", None),
        ("n+8-a.csv", None),
        ("n8_0-a.csv", None),
        ("n.csv", None),
        ("-.csv", None),
    ],
)
def test_n_comes_from_the_name_where_it_says_so(tmp_path: Path, name: str, count: int | None) -> None:
    path = tmp_path / "lab" / "t4" / "0123" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    reason = "no record beside it; the job was interrupted or the record removed"
    assert the_problem(tmp_path) == Problem(path, reason, "lab", "t4", "0123", count)


# --- odd files


def test_a_folder_of_the_name_of_a_record_or_csv(tmp_path: Path) -> None:
    folder = tmp_path / "lab" / "t4" / CARD
    (folder / "x.json").mkdir(parents=True)
    (folder / "y.csv").mkdir()
    _, problems = read_results(tmp_path)
    assert [(problem.path.name, problem.reason) for problem in problems] == [
        ("x.json", "cannot be read: not a regular file"),
        ("y.csv", "no record beside it; the job was interrupted or the record removed"),
    ]


@pytest.mark.parametrize("suffix", [".json", ".csv"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "dangling"])
def test_something_else_in_place_of_a_file(tmp_path: Path, suffix: str, kind: str) -> None:
    """A pipe too: reading one would wait for ever."""
    path = write_job(tmp_path, 8, repetitions=2).with_suffix(suffix)
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path.name if kind == "loop" else "nowhere")
    expected = {
        "loop": "Too many levels of symbolic links",
        "dangling": "No such file or directory",
    }.get(kind, "not a regular file")
    assert the_problem(tmp_path) == Problem(path, f"cannot be read: {expected}", "lab", "t4", CARD, 8)


def test_files_may_be_links(tmp_path: Path) -> None:
    record = write_job(tmp_path / "store", 8, repetitions=2)
    for suffix in (".json", ".csv"):
        link = tmp_path / "results" / "lab" / "t4" / CARD / f"{record.stem}{suffix}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(record.with_suffix(suffix))
    found, problems = read_results(tmp_path / "results")
    assert (len(found), problems) == (1, [])


def test_unreadable_files_and_folders_are_told(public: Path) -> None:
    """Nothing is silently left out, at whichever level it is locked."""
    first, second = write_sweep(public, (8, 64), repetitions=1)
    other = write_job(public, 8, site="closed-site", repetitions=1, card=1)
    third = write_job(public, 8, label="a100", repetitions=1, card=2)
    first.chmod(0)
    second.with_suffix(".csv").chmod(0)
    other.parents[2].chmod(0)
    third.parent.chmod(0)
    with ordinary_user():
        found, problems = read_results(public)
    for path in (other.parents[2], third.parent):
        path.chmod(0o755)
    assert found == []
    denied = "Permission denied"
    assert {(str(p.path.relative_to(public)), p.site, p.label, p.card, p.reason) for p in problems} == {
        ("closed-site", "closed-site", "", "", f"cannot be listed: {denied}"),
        (f"lab/a100/{uuid(2)[4:12]}", "lab", "a100", uuid(2)[4:12], f"cannot be listed: {denied}"),
        (str(first.relative_to(public)), "lab", "t4", CARD, f"cannot be read: {denied}"),
        (str(second.with_suffix(".csv").relative_to(public)), "lab", "t4", CARD, f"cannot be read: {denied}"),
    }


@pytest.mark.parametrize("level", ["site", "label", "card"])
def test_links_to_folders_are_not_followed_so_that_nothing_counts_twice(tmp_path: Path, level: str) -> None:
    real = tmp_path / "results"
    record = write_job(real, 8, repetitions=1)
    (link, target) = {
        "site": (real / "mirror", real / "lab"),
        "label": (real / "other" / "t4", real / "lab" / "t4"),
        "card": (real / "other" / "t4" / CARD, record.parent),
    }[level]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    # Also where the real one comes after it, and where the root is itself a link.
    (tmp_path / "root").symlink_to("results")
    for root in (real, tmp_path / "root"):
        found, [problem] = read_results(root)
        assert [result.path for result in found] == [root / record.relative_to(real)]
        assert problem.path == root / link.relative_to(real)
        assert problem.reason == "a link to a folder, which is not followed; put the folder itself here"
        assert problem.site == link.relative_to(real).parts[0]
    tables = aggregate(real, ["t4"], [8])
    assert len(tables.tidy) == len(found[0].raw)
    assert link.relative_to(real).as_posix() in set(tables.gaps["file"])


@pytest.mark.parametrize("level", ["lab", "lab/t4", f"lab/t4/{CARD}"])
def test_nothing_is_filed_where_it_would_not_be_found(tmp_path: Path, level: str) -> None:
    written = write_job(tmp_path / "first", 8, repetitions=1)
    fields, raw = parts(written)
    link = tmp_path / "results" / level
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path)
    with pytest.raises(LaunchbenchError) as caught:
        write_result(tmp_path / "results", fields, raw)
    said = "a link to a folder, in which results are not looked for; put the folder itself there"
    assert str(caught.value) == f"{link}: {said}"
    assert sorted(path.name for path in tmp_path.rglob("n*.*")) == [written.with_suffix(".csv").name, written.name]


def test_a_folder_that_links_to_itself(tmp_path: Path) -> None:
    write_job(tmp_path, 8, repetitions=1)
    (tmp_path / "loop").symlink_to("loop")
    found, [problem] = read_results(tmp_path)
    assert len(found) == 1
    assert (problem.path, problem.site) == (tmp_path / "loop", "loop")
    assert problem.reason == "cannot be listed: Too many levels of symbolic links"


def test_names_with_control_characters(tmp_path: Path) -> None:
    folder = tmp_path / "lab\n\x1b[31m" / "t4  x" / "c\u2028"
    folder.mkdir(parents=True)
    for name in ("n8-\r.json", os.fsdecode(b"n9-\xff.json"), "n7-{x}.csv"):
        (folder / name).write_bytes(b"{")
    (folder / "n6-\t.json").mkdir()
    found, problems = read_results(tmp_path)
    assert found == []
    assert [(problem.launch_count, problem.reason) for problem in problems] == [
        (6, "cannot be read: not a regular file"),
        (8, "file: Invalid JSON: EOF while parsing an object at line 1 column 1"),
        (9, "file: Invalid JSON: EOF while parsing an object at line 1 column 1"),
        (7, "no record beside it; the job was interrupted or the record removed"),
    ]
    for path in find_files(tmp_path):
        if path.suffix == ".json":
            with pytest.raises(LaunchbenchError) as caught:
                read_record(path)
            assert str(caught.value).isprintable()


# --- fuzzing


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record of a small intact job, used by the fuzzers."""
    folder = tmp_path_factory.mktemp("fuzz")
    return write_job(folder, 8, repetitions=1, launch_paths=("cuda-python",), kernels=("tiny",))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def byte_edits(draw: st.DrawFn, data: bytes) -> bytes:
    """The data with one to three bytes or pieces flipped, cut out, inserted or repeated."""
    made = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at, length = draw(st.integers(0, len(made))), draw(st.integers(0, 12))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "end"]))
        if kind == "flip" and at < len(made):
            made[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del made[at : at + length]
        elif kind == "insert":
            made[at:at] = draw(st.binary(max_size=4) | st.sampled_from([b"9" * 30, b"e9", b"\r\n", b",", b'"', b"NaN"]))
        elif kind == "repeat":
            made[at:at] = made[at : at + length]
        else:
            del made[at:]
    return bytes(made)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield from _paths(below, (*path, key))


def _reads_or_refuses(path: Path) -> Record | None:
    """The record; None where it was refused in one printable line of reasonable length."""
    try:
        record = read_record(path)
    except LaunchbenchError as error:
        assert (
            str(error).isprintable() and str(error).startswith(f"{path}: ") and len(str(error)) < len(str(path)) + 500
        )
        return None
    again = path.with_name("again.txt")
    again.write_text(record.to_json(), encoding="utf-8")
    assert read_record(again) == record
    return record


def _is_kept(given_value: Any, kept: Any) -> bool:
    """Whether everything in the given JSON is in the kept one, with equal types; whole floats may lack their point.

    A single number may stand for a list of one, as in the first format.
    """
    if isinstance(given_value, dict):
        return isinstance(kept, dict) and all(_is_kept(value, kept[key]) for key, value in given_value.items())
    if isinstance(given_value, list):
        return len(given_value) == len(kept) and all(map(_is_kept, given_value, kept))
    if isinstance(kept, list):
        kept = kept[0] if len(kept) == 1 else None
    same_type = type(given_value) is type(kept) or (type(given_value) is int and type(kept) is float)
    return same_type and bool(given_value == kept)


@pytest.mark.untraced
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_any_bytes_for_a_record_are_read_or_refused(whole: Path, data: st.DataObject) -> None:
    path = whole.with_name("fuzzed-bytes.txt")
    path.write_bytes(data.draw(byte_edits(whole.read_bytes()) | st.binary(max_size=50)))
    record = _reads_or_refuses(path)
    if record is not None:
        assert _is_kept(json.loads(path.read_bytes()), json.loads(record.to_json()))


@pytest.mark.untraced
@settings(max_examples=350, deadline=None)
@given(data=st.data())
def test_any_value_in_a_record_is_kept_or_refused(whole: Path, data: st.DataObject) -> None:
    fields = json.loads(whole.read_bytes())
    place = data.draw(st.sampled_from(list(_paths(fields))))
    inner = fields
    for key in place[:-1]:
        inner = inner[key]
    kind = data.draw(st.sampled_from(["value", "remove", "add", "swap"]))
    if kind == "remove":
        del inner[place[-1]]
    elif kind == "add" and isinstance(inner, dict):
        inner[data.draw(st.text(max_size=10))] = data.draw(JSON_VALUES)
    elif kind == "swap":
        other = fields
        for key in data.draw(st.sampled_from(list(_paths(fields)))):
            other = other[key]
        inner[place[-1]] = json.loads(json.dumps(other))
    else:
        inner[place[-1]] = data.draw(JSON_VALUES)
    path = whole.with_name("fuzzed-fields.txt")
    path.write_text(json.dumps(fields), encoding="utf-8")
    record = _reads_or_refuses(path)
    if record is not None:
        assert _is_kept(fields, json.loads(record.to_json()))


def _independently(data: bytes) -> list[tuple[Any, ...]]:
    """The rows of a CSV by the standard library alone."""
    rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    next(rows)
    convert = {"int": int, "float": float, "str": str}
    return [tuple(convert[c.kind](t) if t else None for c, t in zip(RAW, row, strict=True)) for row in rows]


@settings(max_examples=400, deadline=None)
@given(data=st.data())
@example(data=None)
def test_any_bytes_for_a_csv_are_read_exactly_or_refused(whole: Path, data: st.DataObject | None) -> None:
    original = whole.with_suffix(".csv").read_bytes()
    fuzzed = original if data is None else data.draw(byte_edits(original))
    folder = whole.parent / "fuzz"
    folder.mkdir(exist_ok=True)
    (folder / whole.with_suffix(".csv").name).write_bytes(fuzzed)
    record = read_record(whole)
    try:
        frame = read_raw(record, folder)
        assert fuzzed == original
    except LaunchbenchError as error:
        assert str(error).isprintable() and fuzzed != original
    # The same bytes with a record that vouches for them.
    raw = record.raw.model_copy(
        update={"sha256": hashlib.sha256(fuzzed).hexdigest(), "size_bytes": len(fuzzed), "rows": 2}
    )
    try:
        frame = read_raw(record.model_copy(update={"raw": raw}), folder)
    except LaunchbenchError as error:
        assert str(error).isprintable() and str(folder) in str(error)
        return
    kept = [tuple(None if pd.isna(v) else v for v in row) for row in frame.itertuples(index=False, name=None)]
    assert kept == _independently(fuzzed)


def test_the_module_never_removes_a_file_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that cannot be written takes its own CSV with it and nothing else."""
    other = write_job(tmp_path, 8, repetitions=1)
    before = files(tmp_path)
    write = results.write_atomically

    def fail_for_records(path: Path, data: bytes) -> None:
        if path.suffix == ".json":
            raise LaunchbenchError("full")
        write(path, data)

    monkeypatch.setattr(results, "write_atomically", fail_for_records)
    with pytest.raises(LaunchbenchError, match=r"^full$"):
        write_job(tmp_path, 64, repetitions=1)
    assert files(tmp_path) == before
    assert other.exists()


def test_files_at_another_depth_are_told(tmp_path: Path) -> None:
    """Copied without the folder of the site, say: neither read nor passed over in silence."""
    record = write_job(tmp_path, 8)
    card = record.parent
    shutil.copytree(card, tmp_path / card.name)
    shutil.copytree(card, card / "again")
    shutil.copy(record, tmp_path / record.name)
    (card / "elsewhere").symlink_to(tmp_path.parent)
    (tmp_path / "README.md").touch()
    results, problems = read_results(tmp_path)
    assert [result.path for result in results] == [record]
    told = {problem.path.relative_to(tmp_path): problem for problem in problems}
    place = card.relative_to(tmp_path)
    copied = Path(card.name)
    assert set(told) == {
        Path(record.name),
        copied / record.name,
        copied / f"{record.stem}.csv",
        place / "again",
        place / "elsewhere",
    }
    assert told[Path(record.name)].reason.startswith("not at the place of a result")
    assert told[copied / record.name].site == card.name and told[Path(record.name)].site == ""
    assert told[place / "again"].reason.endswith("<site>/<label>/<card>/")
    assert "a link to a folder" in told[place / "elsewhere"].reason
