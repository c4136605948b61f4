"""Whether the configured folders can be folders, and the products in them files. Light to import; writes nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from launchbench.config.messages import refusal, shown
from launchbench.config.model import Config
from launchbench.errors import LaunchbenchError

_INSIDE = {"reports_dir": ("figures", "incomplete"), "build_dir": ("cells", "cuda", "incomplete", "logs", "tables")}
_FILES = {
    "reports_dir": ("*.html", "*.csv", "figures/*.svg", "figures/*.png"),
    "build_dir": ("cuda/*", "tables/*.csv", "logs/*.log"),
}


def check_folders(config: Config, origin: Callable[[tuple[str, ...]], str]) -> None:
    """Refuse what Snakemake would take for an up-to-date product, or end in a traceback over.

    Args:
        config: the configuration.
        origin: where the value of a key comes from.

    Raises:
        LaunchbenchError: one line per problem.
    """
    problems = []
    for key in ("results_dir", "reports_dir", "build_dir"):
        folder = Path(getattr(config, key))
        for path, expected in _in_the_way(key, folder):
            what = "a folder" if path.is_dir() else "a file" if path.exists() else "a link that leads nowhere"
            which = "which" if path == folder else f"where {shown(str(path))}"
            clause = f"got {shown(str(folder))}, {which} is {what}"
            problems.append(str(refusal(f"{origin((key,))}: {key}", clause, f"a {expected} there, or none yet")))
    if problems:
        raise LaunchbenchError("\n".join(problems))


def check_apart(config: Config, name: str, folder: Path) -> None:
    """Refuse a folder for products that is, holds or lies in that of the results, where nothing is ever replaced.

    Raises:
        LaunchbenchError: names the option and the folder.
    """
    real, results = (Path(os.path.realpath(path)) for path in (folder, config.results_dir))
    if real.is_relative_to(results) or results.is_relative_to(real):
        expected = f"a folder apart from results_dir {shown(config.results_dir)}, not inside or around it"
        raise refusal(name, f"got {shown(str(folder))}", expected)


def check_writable(folder: Path) -> None:
    """Refuse a folder that no file can be put in, or that cannot be made.

    Raises:
        LaunchbenchError: which one it is.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return
    except OSError as error:
        raise refusal(str(nearest), f"cannot be written: {error.strerror or error}", "a folder to write to") from None


def check_receipt(receipt: Path | None) -> None:
    """Refuse a receipt that could not be written in the end.

    Raises:
        LaunchbenchError: it is a folder, or its own cannot be written.
    """
    if receipt is None:
        return
    if receipt.is_dir():
        raise refusal("--receipt", f"got {shown(str(receipt))}, which is a folder", "a file to write")
    check_writable(receipt.parent)


def _in_the_way(key: str, folder: Path) -> Iterator[tuple[Path, str]]:
    """What is something else than it has to be, and what that is."""
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path) or path in (Path(), Path("/")))
    inside = [folder / name for name in _INSIDE.get(key, ())]
    for path in (nearest, *(path for path in inside if os.path.lexists(path))):
        if not path.is_dir():  # a link that leads nowhere is none either
            yield path, "folder"
    for pattern in _FILES.get(key, ()):
        for path in sorted(folder.glob(pattern)):
            if path.is_dir() and not path.name.startswith(".tmp-"):  # of a build that goes on, or was killed
                yield path, "file"
