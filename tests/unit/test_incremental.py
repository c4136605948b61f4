"""Tables card by card: the same as all at once, whatever the cache holds, and only what changed is read again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launchbench.aggregate import cards, write
from launchbench.aggregate.cards import csv_text
from launchbench.aggregate.join import aggregate
from launchbench.aggregate.write import Written, write_tables
from launchbench.errors import LaunchbenchError
from launchbench.results import columns, files
from launchbench.results.parquet import parquet_bytes, parse_parquet
from tests.unit.fabricate import uuid, write_job, write_sweep

COUNTS = (8, 64)
TABLES = sorted([*(f"{name}.csv" for name in (*cards.WHOLE, "gaps")), "tidy"])
LABELS = ["t4", "b200"]


SMALL: dict[str, Any] = {
    "repetitions": 2,
    "placements": 2,
    "full_placements": 1,
    "launch_paths": ("native-driver",),
    "kernels": ("tiny",),
}


class Study:
    """Results of a few cards, their cache and their tables, in the working directory."""

    def __init__(self, cache: str = "cache", out: str = "tables") -> None:
        self.results, self.cache, self.out = map(Path, ("results", cache, out))

    def write(self) -> Written:
        return write_tables(self.results, self.out, self.cache, LABELS, COUNTS)

    def tables(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.out)): path.read_bytes() for path in self.out.rglob("*") if path.is_file()}

    def cold(self) -> dict[str, bytes]:
        """The tables without any cache."""
        other = Study("no cache", "cold tables")
        other.write()
        made = other.tables()
        shutil.rmtree(other.cache)
        shutil.rmtree(other.out)
        return made

    def folder(self, card: int, label: str = "t4", site: str = "lab") -> Path:
        return self.results / site / label / uuid(card)[4:12]

    def kept(self, suffix: str) -> list[Path]:
        return sorted(self.cache.glob(f"*{suffix}"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cards, one of them measured twice, aggregated once."""
    base = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        study = Study()
        write_sweep(study.results, COUNTS, card=0, **SMALL)
        write_sweep(study.results, COUNTS, card=1, label="h100", **SMALL)
        write_sweep(study.results, COUNTS, card=2, **SMALL)
        write_sweep(study.results, COUNTS[:1], card=2, run=1, **SMALL)
        assert study.write() == Written(cards=3, anew=3)
    return base


@pytest.fixture
def study(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Study()


def test_card_by_card_is_all_at_once(study: Study) -> None:
    shutil.copytree(study.folder(0), study.folder(0, site="zoo"))
    next(study.folder(1, "h100").glob("n0000064*.csv")).write_bytes(b"")
    (study.folder(2) / "n8-stray.csv").write_bytes(b"a,b\n")
    study.write()
    made, joint = study.tables(), aggregate(study.results, LABELS, COUNTS)
    for name in (*cards.WHOLE, "gaps"):
        assert made[f"{name}.csv"].decode() == csv_text(getattr(joint, name))
    parts = sorted(name for name in made if name.startswith("tidy/"))
    assert parts == sorted(
        f"tidy/lab/{label}/{uuid(card)[4:12]}.parquet" for card, label in enumerate(("t4", "h100", "t4"))
    )
    bodies = [parse_parquet(made[name], columns.TIDY, name) for name in parts]
    assert csv_text(pd.concat(bodies)) == csv_text(joint.tidy)


def test_nothing_new_reads_no_result(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    before = study.tables()
    monkeypatch.setattr(cards, "read_files", lambda *_: pytest.fail("a result was read"))
    assert study.write() == Written(cards=3, anew=0)
    assert study.tables() == before


ACTS: dict[str, Callable[[Study], object]] = {
    "another job": lambda study: write_job(study.results, 64, card=0, **SMALL, run=2),
    "another card": lambda study: write_sweep(study.results, COUNTS, card=7, **SMALL),
    "a job less": lambda study: [path.unlink() for path in list(study.folder(2).glob("n0000064*"))],
    "a record less": lambda study: next(study.folder(2).glob("n0000064*.json")).unlink(),
    "a byte": lambda study: _flip(next(study.folder(2).glob("n0000064*.csv"))),
    "a cut": lambda study: os.truncate(next(study.folder(2).glob("n0000064*.csv")), 100),
    "a folder for a record": lambda study: _folder(next(study.folder(2).glob("n0000064*.json"))),
    "another name": lambda study: study.folder(2).rename(study.folder(2).with_name("00000000")),
}


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _flip(path: Path) -> None:
    """Another byte; size and times stay."""
    status, data = path.stat(), bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _digit(path: Path) -> None:
    """Another number in what still is a table, or JSON."""
    data = path.read_bytes()
    if path.suffix == ".parquet":
        frame = parse_parquet(data, columns.TIDY, str(path))
        path.write_bytes(parquet_bytes(frame.assign(gpu_us=frame["gpu_us"] + 1), columns.TIDY))
        return
    at = data.index(b".", max(0, data.find(b'"rows"'))) + 1
    assert data[at : at + 1].isdigit()
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@pytest.mark.parametrize("act", ACTS)
def test_what_changes_one_card_reads_that_card_only(study: Study, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = study.tables()
    ACTS[act](study)
    read: list[str] = []
    of_file = files.read_record
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_record", lambda path: read.append(path.parent.name) or of_file(path))
        assert study.write().anew == 1
    assert len(set(read)) == 1
    after = study.tables()
    assert after == study.cold()
    assert after["gaps.csv"] + after["trials.csv"] != before["gaps.csv"] + before["trials.csv"]


def test_a_card_less(study: Study) -> None:
    card = uuid(1)[4:12]
    shutil.rmtree(study.folder(1, "h100"))
    assert study.write() == Written(cards=2, anew=0)
    made = study.tables()
    assert not any(card in name or card.encode() in data for name, data in made.items())
    assert made == study.cold()
    assert (len(study.kept(".json")), len(study.kept(".parquet"))) == (2, 2)


def test_of_a_copied_job_one_counts_whichever_is_left(study: Study) -> None:
    shutil.copytree(study.folder(0), study.folder(0, site="zoo"))
    assert study.write().anew == 1
    assert study.tables() == study.cold()
    assert b"zoo" not in study.tables()["summary.csv"]
    shutil.rmtree(study.folder(0))
    assert study.write().anew == 1
    assert study.tables() == study.cold()
    assert b"zoo" in study.tables()["summary.csv"]


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "removed": lambda path, _: path.unlink(),
    "empty": lambda path, _: path.write_bytes(b""),
    "cut": lambda path, _: os.truncate(path, path.stat().st_size // 2),
    "a byte": lambda path, _: _flip(path),
    "a digit": lambda path, _: _digit(path),
    "of another card": lambda path, other: path.write_bytes(other.read_bytes()),
    "a folder": lambda path, _: _folder(path),
    "a folder that is not empty": lambda path, _: (_folder(path), (path / "x").write_bytes(b"x")),
    "a pipe": lambda path, _: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_gives_the_same_tables(study: Study, suffix: str, damage: str) -> None:
    before = study.tables()
    path, other, _ = study.kept(suffix)
    DAMAGES[damage](path, other)
    assert study.write().anew == 1
    assert study.tables() == before
    assert study.write().anew == 0


def test_a_stray_folder_in_the_cache_goes_with_the_rest(study: Study) -> None:
    for name in ("0", "zz"):
        (study.cache / name).mkdir()
        (study.cache / name / "x").write_bytes(b"x")
    (study.cache / "stray.csv").write_bytes(b"x")
    kept = len(list(study.cache.iterdir())) - 3
    study.write()
    assert len(list(study.cache.iterdir())) == kept


def test_a_cache_that_is_gone(study: Study) -> None:
    before = study.tables()
    shutil.rmtree(study.cache)
    assert study.write().anew == 3
    assert study.tables() == before


def test_an_entry_of_another_content_that_vouches_for_itself(study: Study) -> None:
    """Of the right card and unharmed, yet of other files: what a backup would bring back."""
    old = {path.name: path.read_bytes() for path in study.kept(".json")}
    write_job(study.results, 64, card=0, **SMALL, run=2)
    study.write()
    new = study.tables()
    for name, data in old.items():
        (study.cache / name).write_bytes(data)
    assert study.write().anew == 1
    assert study.tables() == new


def test_editing_a_table_of_repetitions_does_not_last(study: Study) -> None:
    study.write()
    before = study.tables()
    path = next((study.out / "tidy").rglob("*.parquet"))
    assert path.stat().st_nlink == 2
    path.write_bytes(path.read_bytes() + b"mine\n")
    study.write()
    assert study.tables() == before


@pytest.mark.parametrize("part", ["digest", "version"])
def test_other_code_or_libraries_read_everything_anew(study: Study, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.setattr(cards, part, lambda *_: "other")
    cards.code_identity.cache_clear()
    assert study.write().anew == 3
    cards.code_identity.cache_clear()


def test_what_was_otherwise_while_it_was_read_is_not_kept(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    csv = next(study.folder(0).glob("*.csv"))
    write_job(study.results, 64, card=0, **SMALL, run=2)
    of_files = cards.read_files

    def read(*arguments: Any) -> Any:
        _flip(csv)
        return of_files(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(cards, "read_files", read)
        study.write()
    _flip(csv)
    assert study.write().anew == 1
    assert study.tables() == study.cold()


def test_where_files_cannot_be_linked_they_are_copied(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    study.write()
    before = study.tables()
    assert {path.stat().st_nlink for path in (study.out / "tidy").rglob("*.parquet")} == {2}
    monkeypatch.setattr(os, "link", refuse)
    study.write()
    assert study.tables() == before
    assert {path.stat().st_nlink for path in (study.out / "tidy").rglob("*.parquet")} == {1}


def test_what_fails_leaves_the_tables_as_they_were(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _: bytes) -> None:
        raise LaunchbenchError(f"{path}: cannot be written: No space left on device")

    before = study.tables()
    write_job(study.results, 64, card=0, **SMALL, run=2)
    for module in (cards, write):
        with monkeypatch.context() as patch, pytest.raises(LaunchbenchError, match="No space left"):
            patch.setattr(module, "write_atomically", full)
            study.write()
        assert study.tables() == before
        assert sorted(path.name for path in study.out.iterdir()) == TABLES


def test_what_a_killed_run_left_goes_with_the_next(study: Study) -> None:
    half = study.out / ".tmp-tidy-1234" / "tidy" / "lab"
    half.mkdir(parents=True)
    (half / "half.csv").write_text("site,label\n")
    before = study.cold()
    study.write()
    assert study.tables() == before
    assert sorted(path.name for path in study.out.iterdir()) == TABLES
