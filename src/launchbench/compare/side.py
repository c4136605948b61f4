"""Reads one side of a comparison: a folder of results, or a site, label or card in one. It writes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from launchbench.aggregate.join import join_trials
from launchbench.compare.facets import Facets
from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.results import columns, tables
from launchbench.results.files import Problem, read_files
from launchbench.results.layout import LAUNCH, LAYOUT, MISPLACED, TOO_DEEP, cell_of_name, find_files, job_kind
from launchbench.wording import plural


@dataclass(frozen=True)
class Side:
    """Trials of one side (columns ``columns.TRIALS``), what the records say of each job, and what cannot be used."""

    name: str
    trials: pd.DataFrame
    facets: Mapping[str, Facets]
    broken: tuple[tuple[str, str], ...] = ()
    """File and reason."""


def read_sides(before: Path, after: Path) -> tuple[Side, Side]:
    """Both sides.

    Raises:
        LaunchbenchError: they are the same folder, or one has nothing to compare.
    """
    for word, path in (("A", before), ("B", after)):
        if not os.path.exists(path):  # noqa: PTH110 - Path.exists ends in an error where a parent may not be entered
            raise LaunchbenchError(escaped(f"{word}: got {path}, which does not exist; expected a folder of results"))
        if not os.path.isdir(path):  # noqa: PTH112
            raise LaunchbenchError(escaped(f"{word}: got {path}, which is a file; expected a folder of results"))
    if before.samefile(after):
        raise LaunchbenchError(escaped(f"B: got {after}, which is the same folder as A; expected other results"))
    return _read("A", before), _read("B", after)


def _read(word: str, given: Path) -> Side:
    # Of a card's folder the names of those above it are needed as well.
    folder = Path(os.path.realpath(given))
    files, unread = _files(folder)
    if not files:
        expected = f"expected a folder of <{'>/<'.join(LAYOUT)}>, or one in it"
        hint = "".join(f" ({path.relative_to(folder)}: {reason})" for path, reason in unread[:1])
        raise LaunchbenchError(escaped(f"{word}: got {given}, which holds no launch results{hint}; {expected}"))
    problems = [Problem(path, reason) for path, reason in unread]
    cards: dict[tuple[str, ...], list[Path]] = {}
    for path in files:
        cards.setdefault(path.parts[-4:-1], []).append(path)
    frames: list[pd.DataFrame] = []
    facets: dict[str, Facets] = {}
    seen: dict[str, Path] = {}
    for _, own in sorted(cards.items()):  # one card at a time in memory
        results, more = read_files(own[0].parents[3], own, seen)
        problems += more
        if results:
            frames.append(join_trials(results))
            facets |= {result.record.run_id: Facets.of(result.record, result.site) for result in results}
    broken = tuple(
        (
            escaped(str(given / problem.path.relative_to(folder))),
            escaped(problem.reason.replace(str(folder), str(given))),
        )
        for problem in problems
    )
    if not frames:
        file, reason = broken[0]
        count = plural(len(broken), "file")
        raise LaunchbenchError(f"{word}: none of the results can be used ({count}); the first is {file}: {reason}")
    return Side(escaped(str(given)), pd.concat(frames, ignore_index=True), facets, broken)


def _files(folder: Path) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Files of launch jobs, and what is not looked into, at the depth where most of the results lie."""
    best: tuple[list[Path], list[tuple[Path, str]]] = ([], [])
    most = 0
    obstacles: list[tuple[Path, str]] = []
    for levels in range(len(LAYOUT), -1, -1):
        unread: list[tuple[Path, str]] = []
        files = [path for path in find_files(folder, unread, levels) if job_kind(path) == LAUNCH]
        named = sum(cell_of_name(path.name) is not None for path in files)
        if named > most:
            best, most = (files, unread), named
        obstacles += [(path, reason) for path, reason in unread if reason not in (MISPLACED, TOO_DEEP)]
    return best if most else ([], obstacles)


def side_of(name: str, rows: Iterable[Mapping[str, object]]) -> Side:
    """A side made of trials that lie in no file, such as simulated ones; nothing is known of their records."""
    frame = pd.DataFrame(list(rows), columns=[column.name for column in columns.TRIALS])
    return Side(name, tables.validate(frame, columns.TRIALS, name), {})
