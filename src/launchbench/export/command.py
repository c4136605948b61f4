"""The command ``export``: every table as CSV and Parquet, and the summary as JSON and Markdown, in one folder.

Files are made in full before the first is moved into place. ``export.json`` says which files an export wrote and
what was in them: these, and nothing else, does the next one replace or, where a card is gone, remove.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from launchbench.aggregate.cards import WHOLE, csv_text
from launchbench.aggregate.spread import spread
from launchbench.aggregate.write import card_file
from launchbench.build.temporary import remove_abandoned, temporary_folder
from launchbench.config.messages import escaped, refusal, shown
from launchbench.errors import LaunchbenchError
from launchbench.export.readme import summary_markdown
from launchbench.export.summary import summary_json
from launchbench.report.comparison import compare, read_repetitions, read_table
from launchbench.results import columns, tables
from launchbench.results.files import TEMPORARY_PREFIX, content_digest, write_atomically, writing
from launchbench.results.parquet import parquet_bytes

FORMAT = "launchbench-export/1"
MANIFEST = "export.json"

_PREFIX = f"{TEMPORARY_PREFIX}export-"


def export(tables_dir: Path, out: Path, config_labels: list[str], force: bool = False) -> int:
    """Write the files into a folder, which is made where there is none.

    Args:
        tables_dir: where ``aggregate`` wrote its tables.
        out: the folder; whatever else is in it stays.
        config_labels: GPU labels, which come first in this order.
        force: replace files that no earlier export wrote, too.

    Returns:
        How many files were written.

    Raises:
        LaunchbenchError: a table is missing or not what ``columns`` says, a file is in the way, or nothing can be
            written. No file of the folder has changed then, unless moving a finished file into place failed.
    """
    real, source = os.path.realpath(out), os.path.realpath(tables_dir)
    if Path(real).is_relative_to(source):
        raise refusal("--out", f"got {shown(str(out))}", f"a folder apart from --tables {shown(str(tables_dir))}")
    earlier = _earlier(out)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        remove_abandoned(out, _PREFIX)
        with temporary_folder(out, _PREFIX) as folder:
            made: dict[str, str] = {}
            for name, data in _files(tables_dir, config_labels):
                write_atomically(folder / name, data)
                made[name] = hashlib.sha256(data).hexdigest()
            _check_replaced(out, made, earlier, force)
            # First with both, so that an export that is cut off in the middle can be repeated.
            _write_manifest(out, {name: {*earlier.get(name, ()), *_one(made, name)} for name in {**earlier, **made}})
            for name in made:
                (out / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).replace(out / name)
            for name in earlier.keys() - made.keys():
                if content_digest(out / name) in earlier[name]:
                    (out / name).unlink()
                    with contextlib.suppress(OSError):  # not empty
                        for parent in Path(name).parents[:-1]:
                            (out / parent).rmdir()
            _write_manifest(out, {name: {digest} for name, digest in made.items()})
    return len(made) + 1


def _files(tables_dir: Path, config_labels: list[str]) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file but the manifest, with the repetitions of one card at a time in memory."""
    needed = (*WHOLE, "gaps")
    others = (
        name for name in tables.TABLES if name not in (*needed, "spread") and (tables_dir / f"{name}.csv").is_file()
    )
    read = {name: read_table(tables_dir, name) for name in (*needed, *others)}
    summary, gaps = read["summary"], read["gaps"]
    comparison = compare(summary, read["trials"], read["fits"], gaps, config_labels, ())
    read["spread"] = tables.validate(spread(comparison.compared_trials), columns.SPREAD, "spread")  # the report's
    for name, frame in read.items():
        yield f"{name}.csv", csv_text(frame).encode()
        yield f"{name}.parquet", parquet_bytes(frame, tables.TABLES[name][1])
    yield "schema.json", tables.tables_schema().encode()
    yield "summary.json", summary_json(summary, gaps).encode()
    yield "summary.md", summary_markdown(comparison).encode()
    cards = summary[["site", "label", "card"]].drop_duplicates()
    for number, key in enumerate(cards.itertuples(index=False, name=None)):
        if any(part == ".." or Path(part).name != part for part in key):  # it would lead elsewhere
            raise refusal(f"{tables_dir}/summary.csv", f"got {shown('/'.join(key))}", "names of a site, label, card")
        repetitions = read_repetitions(tables_dir, cards.iloc[[number]])
        path = card_file(Path("tidy"), *key)
        yield path.as_posix(), parquet_bytes(repetitions, columns.TIDY)
        yield path.with_suffix(".csv").as_posix(), csv_text(repetitions).encode()


def _check_replaced(out: Path, made: Mapping[str, str], earlier: Mapping[str, set[str]], force: bool) -> None:
    for name, digest in made.items():
        path = out / name
        if path.is_dir() and not path.is_symlink():
            raise LaunchbenchError(escaped(f"{path}: is a folder; expected a file or nothing there"))
        for folder in (out / parent for parent in Path(name).parents[:-1]):
            if os.path.lexists(folder) and not folder.is_dir():
                raise LaunchbenchError(escaped(f"{folder}: is no folder; expected one or nothing there"))
        if not force and os.path.lexists(path) and content_digest(path) not in {digest, *earlier.get(name, ())}:
            what = "was changed since it was exported" if name in earlier else "is not of an earlier export"
            raise LaunchbenchError(escaped(f"{path}: {what}, and stays; --force replaces it"))


def _one(made: Mapping[str, str], name: str) -> set[str]:
    return {made[name]} if name in made else set()


def _write_manifest(out: Path, files: Mapping[str, set[str]]) -> None:
    listed = {name: sorted(digests) for name, digests in sorted(files.items())}
    write_atomically(out / MANIFEST, (json.dumps({"format": FORMAT, "files": listed}, indent=1) + "\n").encode())


def _earlier(out: Path) -> dict[str, set[str]]:
    """Files of an earlier export and the SHA-256 sums of what it wrote; empty where there was none.

    Raises:
        LaunchbenchError: a file of the manifest's name is something else.
    """
    path = out / MANIFEST
    if not os.path.lexists(path):
        return {}
    try:
        kept = json.loads(path.read_bytes())
        if kept["format"] != FORMAT:
            raise ValueError
        files = {str(name): set(map(str, digests)) for name, digests in kept["files"].items()}
        if any(Path(name).is_absolute() or ".." in Path(name).parts for name in files):
            raise ValueError
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise LaunchbenchError(escaped(f"{path}: not the list of an earlier export ({FORMAT}), and stays")) from error
    return files
