"""Writes the tables of all results, with one card at a time in memory.

All tables but the repetitions hold all cards. The repetitions, which are most of the bytes, have one
file a card, a link to that of the cache: another card leaves those of the others as they are.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from launchbench.aggregate.cards import WHOLE, Cache, csv_text, find_cards
from launchbench.aggregate.gaps import find_gaps
from launchbench.build.temporary import remove_abandoned, temporary_folder
from launchbench.results import columns, path_columns, tables
from launchbench.results.columns import Column
from launchbench.results.failures import Failure
from launchbench.results.files import TEMPORARY_PREFIX, Problem, write_atomically, writing


@dataclass(frozen=True)
class Written:
    """How many cards have files, and how many of them were read anew."""

    cards: int
    anew: int


def card_file(folder: Path, site: str, label: str, card: str) -> Path:
    """Where the repetitions of one card are, under the folder ``tidy`` of the tables."""
    return folder / site / label / f"{card}.parquet"


def write_tables(
    results_dir: Path,
    out_dir: Path,
    cache_dir: Path,
    config_labels: Sequence[str],
    launch_counts: Sequence[int],
    failures: Sequence[Failure] = (),
) -> Written:
    """Write the tables of ``WHOLE``, ``gaps.csv`` and the folder ``tidy``, each whole or not at all.

    Args:
        results_dir: root of the raw results; may be missing or empty.
        out_dir: folder of the tables.
        cache_dir: tables of the cards as they were; may be deleted at any time.
        config_labels: GPU labels that should have results.
        launch_counts: values of N that every measured card should have.
        failures: attempts that left no result, for the reasons of gaps.

    Raises:
        LaunchbenchError: a folder cannot be written. Never for a broken result, which becomes a row of ``gaps``.
    """
    problems: list[Problem] = []
    seen: dict[str, Path] = {}
    parts = {name: [_header(table)] for name, table in WHOLE.items()}
    cache = Cache(cache_dir, results_dir)
    cards = anew = 0
    with _replaced(out_dir / "tidy") as folder:
        for card in find_cards(results_dir, problems):
            own = cache.tables(card, seen)
            seen.update(own.jobs)
            problems += own.problems
            for name, rows in own.rows.items():
                parts[name].append(rows)
            if own.tidy:
                _link(own.tidy, card_file(folder, card.site, card.label, card.card))
            cards += 1
            anew += not own.cached
        whole = {name: "".join(rows).encode() for name, rows in parts.items()}
        summary = tables.parse_csv(io.BytesIO(whole["summary"]), columns.SUMMARY, "summary")
        stated = tables.parse_csv(io.BytesIO(whole["unmeasured"]), path_columns.UNMEASURED, "unmeasured")
        gaps = find_gaps(summary, problems, results_dir, config_labels, launch_counts, failures, stated)
        whole["gaps"] = csv_text(tables.validate(gaps, columns.GAPS, "gaps")).encode()
        for name, data in whole.items():
            write_atomically(out_dir / f"{name}.csv", data)
    cache.prune()
    return Written(cards, anew)


def _header(table: tuple[Column, ...]) -> str:
    return csv_text(pd.DataFrame(columns=[column.name for column in table]))


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of ``folder`` once everything is in it."""
    prefix = f"{TEMPORARY_PREFIX}{folder.name}-"
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder.parent, prefix)
        with temporary_folder(folder.parent, prefix) as temporary:
            made = temporary / folder.name
            made.mkdir()
            yield made
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # not on every file system, nor from one to another
        shutil.copyfile(source, target)
