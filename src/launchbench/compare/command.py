"""The command ``compare``: reads both sides, writes what was asked for, says how it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from launchbench.compare.model import WORDS, Comparison, Word
from launchbench.compare.page import page
from launchbench.compare.rows import compare
from launchbench.compare.side import read_sides
from launchbench.compare.text import markdown, text
from launchbench.config.folders import check_writable
from launchbench.config.messages import refusal, shown
from launchbench.results.files import write_atomically
from launchbench.wording import several

RENDERINGS: dict[str, Callable[[Comparison], str]] = {
    "markdown": markdown,
    "json": Comparison.to_json,
    "html": page,
}
"""Option of the command line -> what its file holds."""

FAIL_ON: dict[str, Word] = {word.replace(" ", "-"): word for word in WORDS if word != "same"}
FAILED = 2


def run(before: Path, after: Path, files: Mapping[str, Path | None], fail_on: Iterable[str]) -> tuple[str, int]:
    """Compare two folders.

    Args:
        before: A.
        after: B.
        files: by the names of ``RENDERINGS`` where each is to be written, if at all.
        fail_on: verdicts as in ``FAIL_ON``, several of them separated by commas.

    Returns:
        The text for the terminal, and the exit status: ``FAILED`` where a cell has one of these verdicts, else 0.

    Raises:
        LaunchbenchError: an option, a folder or a file of it is wrong; nothing is written then.
    """
    words = _words(fail_on)
    wanted = {name: path for name, path in files.items() if path is not None}
    _check_files(wanted, before, after)
    found = compare(*read_sides(before, after))
    rendered = {path: RENDERINGS[name](found) for name, path in wanted.items()}
    for path, content in rendered.items():
        write_atomically(path, content.encode())
    hit = [word for word in words if found.counts[word]]
    lines = text(found)
    if hit:
        lines += f"\nFails, as --fail-on asks: {several(f'{found.counts[word]} {word}' for word in hit)}.\n"
    return lines, FAILED if hit else 0


def _words(fail_on: Iterable[str]) -> list[Word]:
    given = [word.strip() for part in fail_on for word in part.split(",")]
    for word in given:
        if word not in FAIL_ON:
            raise refusal("--fail-on", f"got {shown(word)}", f"one or more of {', '.join(FAIL_ON)}")
    return [FAIL_ON[word] for word in dict.fromkeys(given)]


def _check_files(files: Mapping[str, Path], before: Path, after: Path) -> None:
    """Refuse what could not be written in the end, and files among the results."""
    taken: dict[str, str] = {}
    for name, path in files.items():
        option, real = f"--{name}", os.path.realpath(path)
        if os.path.isdir(path):  # noqa: PTH112 - a name that is too long is told when it is written
            raise refusal(option, f"got {shown(str(path))}, which is a folder", "a file to write")
        for word, folder in (("A", before), ("B", after)):
            if Path(real).is_relative_to(os.path.realpath(folder)):
                raise refusal(option, f"got {shown(str(path))}, which lies in {word}", "a file apart from the results")
        if real in taken:
            raise refusal(option, f"got {shown(str(path))}, as --{taken[real]} did", "another file for each")
        taken[real] = name
        check_writable(path.parent)
