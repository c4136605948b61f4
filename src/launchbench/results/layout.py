"""Which files under the results folder are results by their place: ``<site>/<label>/<card>/<run>.csv`` or ``.json``.

Light to import, since the Snakefile looks here too. It opens no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from launchbench.results import decode_words, lengths_words, pointers_words

LAYOUT = ("site", "label", "card")

RESULT_SUFFIXES = (".csv", ".json")

_PLACE = "results lie in <site>/<label>/<card>/"
LINKED = "a link to a folder, which is not followed; put the folder itself here"
MISPLACED = f"not at the place of a result, so it is not read: {_PLACE}"
TOO_DEEP = f"a folder inside a card's, which is not looked into: {_PLACE}"

PUBLISHED = "published"
"""Folder beside those of the sites: what others have published. No site may have its name."""
NO_SITE = "a folder among published figures, which is no site's: " + _PLACE

LAUNCH = "launch"
PREFIXES = {module.PREFIX: module.KIND for module in (pointers_words, lengths_words, decode_words)}
"""What names of files of other jobs than launch jobs begin with -> the job's kind. No launch job has such a name."""


def find_files(
    results_dir: Path, unread: list[tuple[Path, str]] | None = None, levels: int = len(LAYOUT)
) -> Iterator[Path]:
    """Every CSV and JSON file of the layout, sorted; temporary and hidden files are not results.

    Links to files are files. Links to folders are not followed: the same results would be found at two places.

    Args:
        results_dir: root of the results; may be missing, or a link. Its folder of published figures is passed over.
        unread: folders that are not looked into, and files at another depth, are added to it with the reason.
        levels: folders between ``results_dir`` and the files; fewer where it is the folder of a site, label or card.
    """
    whole = levels == len(LAYOUT)
    folders = [results_dir] if results_dir.is_dir() else []
    for _ in range(levels + 1):
        inside: list[Path] = []
        for folder in folders:
            reason = LINKED
            if folder == results_dir or not is_linked_folder(folder):
                try:
                    inside += (path for path in folder.iterdir() if not path.name.startswith("."))
                    if folder == results_dir and whole:
                        inside = [path for path in inside if path.name != PUBLISHED]
                    continue
                except NotADirectoryError:
                    if folder.suffix not in RESULT_SUFFIXES:
                        continue
                    reason = MISPLACED
                except OSError as error:
                    reason = f"cannot be listed: {error.strerror or error}"
            if unread is not None:
                unread.append((folder, reason))
        folders = sorted(inside)
    if unread is not None and whole:
        unread += [(path, NO_SITE) for path in _listed(published_dir(results_dir)) if path.is_dir()]
    for path in folders:
        if path.suffix in RESULT_SUFFIXES:
            yield path
        elif unread is not None and path.is_dir():
            unread.append((path, LINKED if is_linked_folder(path) else TOO_DEEP))


def published_dir(results_dir: Path) -> Path:
    """Where published figures lie."""
    return results_dir / PUBLISHED


def published_files(results_dir: Path) -> list[Path]:
    """Their CSV files, sorted; temporary and hidden ones are none. Empty where no such folder can be listed."""
    return [path for path in _listed(published_dir(results_dir)) if path.suffix == ".csv"]


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def job_kind(path: Path) -> str:
    """Kind of the job that a file belongs to, by its name: each kind has a reader, which then checks the format."""
    return next((kind for prefix, kind in PREFIXES.items() if path.name.startswith(prefix)), LAUNCH)


_RUN = re.compile(r"n([0-9]+)-(?:t([0-9]+)-)?")


def run_prefix(launch_count: int, trial: int) -> str:
    """What the name of a launch job begins with, in which :func:`cell_of_name` finds both again."""
    return f"n{launch_count:07d}-t{trial}-"


def cell_of_name(name: str) -> tuple[int, int] | None:
    """N and trial of the launch job that a file belongs to, by its name; one that tells no trial is of the first."""
    found = _RUN.match(name)
    return (int(found[1]), int(found[2] or 1)) if found else None


def is_linked_folder(path: Path) -> bool:
    """Whether the path is a link that leads to a folder."""
    return path.is_symlink() and path.is_dir()
