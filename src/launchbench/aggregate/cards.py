"""The tables of one card, from the cache where its files are as they were.

A card's rows follow from its own files and the code alone, so its tables are kept under an identity of both. What
is kept is checked before it is used, and made anew where it is missing, damaged or of other files: the folder of
the cache may be deleted at any time.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.aggregate.join import join
from launchbench.errors import LaunchbenchError
from launchbench.results import columns, tables
from launchbench.results.files import (
    TEMPORARY_PREFIX,
    Problem,
    content_digest,
    launch_files,
    read_files,
    write_atomically,
    writing,
)
from launchbench.results.parquet import parquet_bytes
from launchbench.sources import AGGREGATING_MODULES, digest
from launchbench.wording import one_line

WHOLE = {name: tables.TABLES[name][1] for name in ("trials", "modes", "anatomy", "summary", "fits", "unmeasured")}
"""Tables that have the rows of all cards in one file."""

LIBRARIES = ("numpy", "pandas", "pandera", "pyarrow", "scipy")
"""Their releases are part of the identity: they compute and write the numbers."""


@dataclass(frozen=True)
class Card:
    """The files of one card, sorted; ``site`` as the tables have it."""

    site: str
    label: str
    card: str
    files: tuple[Path, ...]

    @property
    def slot(self) -> str:
        """Name of the card in the cache; folders may have any name."""
        return hashlib.sha256("/".join((self.site, self.label, self.card)).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class CardTables:
    """Tables of one card.

    ``jobs`` are the records of the results that count, by run_id. ``rows`` has its rows of each of ``WHOLE``, as CSV
    without a header. ``tidy`` is the file with all its repetitions, as Parquet; None where no result counts.
    """

    jobs: Mapping[str, Path]
    problems: Sequence[Problem]
    rows: Mapping[str, str]
    tidy: Path | None
    cached: bool


def find_cards(results_dir: Path, problems: list[Problem]) -> Iterator[Card]:
    """Every card with files under ``results_dir``, in the order of the tables.

    Args:
        results_dir: root of the results; may be missing.
        problems: folders that are not looked into are added to it.
    """
    cards: dict[tuple[str, str, str], list[Path]] = {}
    for path in launch_files(results_dir, problems):
        site, label, card = path.parts[-4:-1]
        cards.setdefault((one_line(site), one_line(label), one_line(card)), []).append(path)
    for key in sorted(cards):
        yield Card(*key, tuple(cards[key]))


class Cache:
    """Tables of cards in a folder of their own, two files a card."""

    def __init__(self, folder: Path, results_dir: Path) -> None:
        self._folder = folder
        self._results_dir = results_dir
        self._used: set[str] = set()

    def tables(self, card: Card, seen: Mapping[str, Path]) -> CardTables:
        """The tables of a card.

        Args:
            card: its files.
            seen: records of the jobs of other cards that count already, by run_id: a copy of one does not.

        Raises:
            LaunchbenchError: the cache cannot be written.
        """
        doubles = {path.stem: seen[path.stem] for path in card.files if path.stem in seen}
        key = self._key(card, doubles)
        tables = self._load(card, key) or self._make(card, key, doubles)
        self._used |= {f"{card.slot}.json"} | ({tables.tidy.name} if tables.tidy else set())
        return tables

    def prune(self) -> None:
        """Remove what no card that was asked for uses."""
        with suppress(OSError, LaunchbenchError):
            for path in self._folder.iterdir():
                if path.name not in self._used and not path.name.startswith(TEMPORARY_PREFIX):
                    _remove_folder(path)
                    path.unlink(missing_ok=True)

    def _key(self, card: Card, doubles: Mapping[str, Path]) -> str:
        identity = hashlib.sha256(code_identity().encode())
        lines = [f"results {self._results_dir}"]
        lines += [f"file {path} {content_digest(path)}" for path in card.files]
        lines += [f"double {run} {path}" for run, path in sorted(doubles.items())]
        for line in lines:
            identity.update(os.fsencode(line) + b"\0")
        return identity.hexdigest()

    def _load(self, card: Card, key: str) -> CardTables | None:
        entry = self._folder / f"{card.slot}.json"
        try:
            if not entry.is_file():  # reading a pipe would never end
                return None
            head, _, body = entry.read_bytes().partition(b"\n")
            if head.decode("ascii") != hashlib.sha256(body).hexdigest():
                return None
            kept: dict[str, Any] = json.loads(body)
            if kept.pop("key") != key:
                return None
            tidy = kept["tidy"] and self._folder / kept["tidy"]
            if tidy and content_digest(tidy) != kept["tidy_sha256"]:
                return None
        except (OSError, ValueError, KeyError):
            return None
        return CardTables(
            jobs={run: Path(path) for run, path in kept["jobs"].items()},
            problems=[Problem(**{**problem, "path": Path(problem["path"])}) for problem in kept["problems"]],
            rows=kept["rows"],
            tidy=tidy,
            cached=True,
        )

    def _make(self, card: Card, key: str, doubles: Mapping[str, Path]) -> CardTables:
        jobs = dict(doubles)
        results, problems = read_files(self._results_dir, card.files, jobs)
        for run in doubles:
            del jobs[run]
        joined = join(results)
        tidy = None
        if results:
            data = parquet_bytes(joined.tidy, columns.TIDY)
            tidy = self._folder / f"{card.slot}-{key[:16]}.parquet"
            _remove_folder(tidy)
            write_atomically(tidy, data)
        rows = {name: csv_text(getattr(joined, name), header=False) for name in WHOLE}
        # Of files that change meanwhile, nobody knows which state the tables are of.
        if self._key(card, doubles) == key:
            kept = {
                "key": key,
                "jobs": {run: str(path) for run, path in jobs.items()},
                "problems": [{**asdict(problem), "path": str(problem.path)} for problem in problems],
                "rows": rows,
                "tidy": tidy and tidy.name,
                "tidy_sha256": tidy and hashlib.sha256(data).hexdigest(),
            }
            body = json.dumps(kept).encode("ascii")
            head = hashlib.sha256(body).hexdigest().encode("ascii")
            entry = self._folder / f"{card.slot}.json"
            _remove_folder(entry)
            write_atomically(entry, head + b"\n" + body)
        return CardTables(jobs, problems, rows, tidy, cached=False)


def _remove_folder(path: Path) -> None:
    """Make way where damage has put a folder in the place of a file, which no file can replace."""
    if path.is_dir() and not path.is_symlink():
        with writing(path):
            shutil.rmtree(path)


def csv_text(frame: pd.DataFrame, header: bool = True) -> str:
    """The frame as every table is written: line feeds, shortest exact floats."""
    return frame.to_csv(index=False, header=header, lineterminator="\n")


@functools.cache
def code_identity() -> str:
    """What turns the files of a card into its tables, as text."""
    releases = " ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return f"{digest(*AGGREGATING_MODULES)} {releases}"
