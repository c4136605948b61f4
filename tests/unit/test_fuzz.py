"""Whole folders of results through `aggregate` and `report`: whatever lies there, each file is used exactly as it is,
or told as a gap with its reason, and no traceback reaches a user.

Single configurations, records and CSV files are fuzzed where their readers are tested.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from launchbench.__main__ import main
from launchbench.results.files import read_results
from launchbench.results.layout import find_files
from tests.unit.fabricate import write_job, write_sweep
from tests.unit.undrawn import draw_nothing

COUNTS = (8, 64)
TEXTS = [
    "",
    " ",
    "NA",
    "a,b",
    'a"b',
    "a\nb",
    "\r",
    "\u2028",
    "<b>&amp;",
    "{{ 7 }}",
    "$x$",
    "\x00",
    "µ" * 300,
    "../..",
    "=1+1",
]
NUMBERS = [0, -0.0, -1.5, 1e-300, 5e-324, 1e300, 2**53 + 1, 10**18, 0.1 + 0.2]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two cards at two N, one with several trials, the other of an older format and measured twice."""
    folder = tmp_path_factory.mktemp("intact") / "results"
    small = {"repetitions": 2, "placements": 2, "full_placements": 1, "kernels": ("tiny",)}
    write_sweep(folder, COUNTS, label="t4", card=1, trials=2, modes=("queued",), **small)
    write_job(folder, COUNTS[0], label="t4", card=1, trial=3, **small)
    write_sweep(folder, COUNTS, label="h100", card=2, repetitions=7, format=2, kernels=("tiny",))
    write_sweep(folder, COUNTS[:1], label="h100", card=2, repetitions=7, format=2, run=1, kernels=("tiny",))
    return folder


# ---------------------------------------------------------------- what may happen to a folder


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key of a JSON value that holds a plain value."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(inner, dict | list):
            yield from leaves(inner)
        else:
            yield value, key


class Vandal:
    """Changes a folder of results as people, tools and bad disks do."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)

    def act(self, kind: str) -> None:
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        if files:
            # Another thing that cannot be done here leaves the folder as it is.
            with contextlib.suppress(OSError, ValueError, LookupError):
                getattr(self, kind)(self.random.choice(files))

    def remove(self, path: Path) -> None:
        path.unlink()

    def cut(self, path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: self.random.randrange(len(data) + 1)])

    def flip(self, path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        path.write_bytes(data)

    def swap(self, path: Path) -> None:
        other = self.random.choice(sorted(one for one in self.root.rglob(f"*{path.suffix}") if one.is_file()))
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)

    def rename(self, path: Path) -> None:
        part = self.random.choice([path, *path.parents[:3]])
        if part != self.root and self.root in part.parents:
            name = self.random.choice(
                ["x", "n8-y.csv", "n0000008-z.json", "ü ö", "a'b", "%41", "-", "n" + "9" * 30, "\udcff"]
            )
            part.rename(part.with_name(name))

    def copy(self, path: Path) -> None:
        target = (
            self.root
            / self.random.choice(["elsewhere", "lab"])
            / path.relative_to(self.root).parts[1]
            / path.parent.name
        )
        target.mkdir(parents=True, exist_ok=True)
        for file in path.parent.glob(f"{path.stem}.*"):
            shutil.copy(file, target / file.name)

    def add(self, path: Path) -> None:
        name = self.random.choice(["junk.csv", "junk.json", "n8.json", ".tmp-x.csv", "README.md", "n64-.csv"])
        (path.parent / name).write_bytes(
            self.random.choice([b"", b"{}", b"[]", b"null", b"a,b\n", b"\xff\xfe", b"{" * 9999])
        )

    def block(self, path: Path) -> None:
        path.unlink()
        kind = self.random.choice(["folder", "pipe", "loop"])
        path.mkdir() if kind == "folder" else os.mkfifo(path) if kind == "pipe" else path.symlink_to(path.name)

    def value(self, path: Path) -> None:
        """Another value in a record, which stays JSON."""
        path = regular(path.with_suffix(".json"))
        record = json.loads(path.read_bytes())
        container, key = self.random.choice(list(leaves(record)))
        old = container[key]
        container[key] = self.random.choice(TEXTS if isinstance(old, str) else [*NUMBERS, None, True])
        path.write_text(json.dumps(record), encoding="utf-8")

    def cell(self, path: Path) -> None:
        """Another value in a CSV, for which the record then vouches."""
        path = regular(path.with_suffix(".csv"))
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
        row = self.random.randrange(1, len(rows))
        act = self.random.choice(["edit", "edit", "edit", "drop", "repeat", "shuffle"])
        if act == "edit":
            column = self.random.randrange(len(rows[row]))
            rows[row][column] = self.random.choice(["", "nan", "inf", *TEXTS, *map(str, NUMBERS)])
        elif act == "drop":
            del rows[row]
        elif act == "repeat":
            rows.insert(row, rows[row])
        else:
            body = rows[1:]
            self.random.shuffle(body)
            rows[1:] = body
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        data = text.getvalue().encode()
        path.write_bytes(data)
        record = json.loads(regular(path.with_suffix(".json")).read_bytes())
        digest = hashlib.sha256(data).hexdigest()
        record["raw"] |= {"sha256": digest, "size_bytes": len(data), "rows": len(rows) - 1}
        path.with_suffix(".json").write_text(json.dumps(record), encoding="utf-8")


ACTS = [name for name in vars(Vandal) if not name.startswith("_") and name != "act"]
DAMAGE = st.tuples(
    st.integers(0, 2**32),
    st.lists(st.sampled_from([*ACTS, "value", "value", "cell", "cell"]), min_size=1, max_size=5),
)


# ---------------------------------------------------------------- what must hold


def run(*arguments: str) -> str:
    """What a command of the package says; it works, and without a traceback."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = main(arguments)
    assert status == 0, said.getvalue()
    return said.getvalue()


def check(base: Path) -> None:
    """Every file is in the tables exactly as it is, or among the gaps."""
    results, problems = read_results(base / "results")
    gaps = pd.read_csv(base / "tables" / "gaps.csv", keep_default_na=False, dtype=str)
    assert (gaps["reason"] != "").all()
    read = [pd.read_parquet(path) for path in files_named("*.parquet", base / "tables" / "tidy")]
    tidy = pd.concat(read) if read else pd.DataFrame({"run_id": []})
    assert set(tidy["run_id"]) == {result.record.run_id for result in results}
    for result in results:
        rows = tidy[tidy["run_id"] == result.record.run_id]
        for name in ("gpu_us", "issue_us", "total_us"):
            assert sorted(map(str, rows[name].astype(float))) == sorted(map(str, result.raw[name])), name
    accounted = {path for result in results for path in (result.path, result.path.with_suffix(".csv"))}
    accounted |= {path for problem in problems for path in (problem.path, problem.path.with_suffix(".json"))}
    accounted |= {problem.path.with_suffix(".csv") for problem in problems}
    assert set(find_files(base / "results")) <= accounted
    assert len(gaps[gaps["file"] != ""]) >= len(problems)
    summary = pd.read_csv(base / "tables" / "summary.csv", keep_default_na=False)
    numbers = summary.loc[summary["repetitions_used"] == 0, ["loop_us", "replay_us", "speedup"]]
    assert (numbers == "").all(axis=None), "a number out of nothing"


def regular(path: Path) -> Path:
    """The path; what an earlier act made a pipe of would be waited for without end."""
    if not path.is_file():
        raise LookupError(path)
    return path


def prepare(intact: Path, base: Path) -> None:
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(intact, base / "results")
    folders = {f"{name}_dir": str(base / name) for name in ("results", "reports", "build")}
    (base / "config.yaml").write_text(json.dumps({**folders, "launch_counts": list(COUNTS)}))


def damaged(base: Path, damage: tuple[int, list[str]]) -> None:
    vandal = Vandal(base / "results", damage[0])
    for kind in damage[1]:
        vandal.act(kind)


def tabulate(base: Path, out: str = "tables") -> dict[str, bytes]:
    """Every file of the tables that the command writes."""
    run("aggregate", "--config", str(base / "config.yaml"), "--out", str(base / out))
    return {str(path.relative_to(base / out)): path.read_bytes() for path in files_named("*.*", base / out)}


def files_named(pattern: str, folder: Path) -> list[Path]:
    """All below it; a damaged site may have such a name and is none."""
    return sorted(path for path in folder.rglob(pattern) if path.is_file())


def vandalise(intact: Path, base: Path, damage: tuple[int, list[str]]) -> None:
    prepare(intact, base)
    damaged(base, damage)
    tabulate(base)
    check(base)


RELAXED = settings(
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("kind", ACTS)
def test_the_vandal_does_what_it_says(intact: Path, tmp_path: Path, kind: str) -> None:
    """A fuzzer that changes nothing would pass for ever."""
    changed = 0
    for seed in range(12):
        shutil.copytree(intact, tmp_path / "results")
        Vandal(tmp_path / "results", seed).act(kind)
        before, after = (
            {str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"other" for path in root.rglob("*")}
            for root in (intact, tmp_path / "results")
        )
        changed += before != after
        shutil.rmtree(tmp_path / "results")
    assert changed >= 4


@pytest.mark.untraced
@settings(RELAXED, max_examples=8)
@given(damage=DAMAGE)
def test_any_folder_becomes_a_page(
    intact: Path, tmp_path_factory: pytest.TempPathFactory, damage: tuple[int, list[str]]
) -> None:
    base = tmp_path_factory.getbasetemp() / "fuzzed"
    vandalise(intact, base, damage)
    with pytest.MonkeyPatch.context() as patch:
        # Drawn is below, in fewer examples.
        draw_nothing(patch)
        run("report", "--config", str(base / "config.yaml"), "--tables", str(base / "tables"))
    page = (base / "reports" / "comparison.html").read_text(encoding="utf-8")
    assert "<b>&amp;" not in page.replace("&lt;b&gt;", "") and ">49<" not in page


@pytest.mark.untraced
@settings(RELAXED, max_examples=3)
@given(damage=DAMAGE)
def test_tables_of_cards_that_were_kept_are_those_read_anew(
    intact: Path, tmp_path_factory: pytest.TempPathFactory, damage: tuple[int, list[str]]
) -> None:
    base = tmp_path_factory.getbasetemp() / "kept"
    prepare(intact, base)
    tabulate(base)
    damaged(base, damage)
    kept = tabulate(base)
    shutil.rmtree(base / "build")
    assert kept == tabulate(base, "anew")


@pytest.mark.untraced
@settings(RELAXED, max_examples=1)
@given(damage=DAMAGE)
def test_any_folder_can_be_drawn(
    intact: Path, tmp_path_factory: pytest.TempPathFactory, damage: tuple[int, list[str]]
) -> None:
    base = tmp_path_factory.getbasetemp() / "drawn"
    vandalise(intact, base, damage)
    run("report", "--config", str(base / "config.yaml"), "--tables", str(base / "tables"))
    assert (base / "reports" / "figures" / "speedup.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.untraced
@settings(RELAXED, max_examples=5)
@given(damage=DAMAGE, data=st.data())
def test_any_tables_become_a_page_or_one_line(
    intact: Path, tmp_path_factory: pytest.TempPathFactory, damage: tuple[int, list[str]], data: st.DataObject
) -> None:
    """Tables that were changed by hand between the two commands."""
    base = tmp_path_factory.getbasetemp() / "tables-fuzzed"
    vandalise(intact, base, (damage[0], []))
    path = data.draw(st.sampled_from(files_named("*.csv", base / "tables")))
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, len(rows[row]) - 1))
    rows[row][column] = data.draw(st.sampled_from(["", "nan", "inf", "True", *TEXTS, *map(str, NUMBERS)]))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(said):
        draw_nothing(patch)
        status = main(["report", "--config", str(base / "config.yaml"), "--tables", str(base / "tables")])
    assert status in (0, 1), said.getvalue()
    if status == 1:
        lines = said.getvalue().splitlines()
        assert len(lines) == 1 and lines[0].isprintable(), said.getvalue()
        # Of two tables that disagree, neither is known to be the right one: the line names both.
        assert lines[0].startswith(f"launchbench: {base / 'tables'}/") and path.name in lines[0]
