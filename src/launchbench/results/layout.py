"""Which files under the results folder are results by their place: ``<site>/<label>/<card>/<run>.csv`` or ``.json``.

Light to import, since the Snakefile looks here too. It opens no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

LAYOUT = ("site", "label", "card")


def find_files(results_dir: Path, unread: list[tuple[Path, str]] | None = None) -> Iterator[Path]:
    """Every CSV and JSON file of the layout, sorted; temporary and hidden files are not results.

    Links to files are files. Links to folders are not followed: the same results would be found at two places.

    Args:
        results_dir: root of the results; may be missing, or a link.
        unread: folders that are not looked into are added to it, each with the reason.
    """
    folders = [results_dir] if results_dir.is_dir() else []
    for _ in range(len(LAYOUT) + 1):
        inside: list[Path] = []
        for folder in folders:
            reason = "a link to a folder, which is not followed; put the folder itself here"
            if folder == results_dir or not is_linked_folder(folder):
                try:
                    inside += (path for path in folder.iterdir() if not path.name.startswith("."))
                    continue
                except NotADirectoryError:
                    continue
                except OSError as error:
                    reason = f"cannot be listed: {error.strerror or error}"
            if unread is not None:
                unread.append((folder, reason))
        folders = sorted(inside)
    yield from (path for path in folders if path.suffix in (".csv", ".json"))


def is_linked_folder(path: Path) -> bool:
    """Whether the path is a link that leads to a folder."""
    return path.is_symlink() and path.is_dir()
