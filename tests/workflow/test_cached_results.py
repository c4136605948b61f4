"""The report from a fresh clone: rendered from the results that are there, which nothing changes."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.unit.fabricate import write_sweep
from tests.workflow.conftest import TABLES, Clone, clone_into

NOW = time.time()


def with_results(made: Clone) -> Clone:
    """A clone with two fabricated cards: a complete one and one that lacks N = 512 and 4096."""
    write_sweep(made.path / "results", label="h100", card=1)
    write_sweep(made.path / "results", (8, 64), label="t4", card=2)
    return made


@pytest.fixture
def clone(make_clone: Callable[[], Clone]) -> Clone:
    """Nothing has run in it."""
    return with_results(make_clone())


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """Its report is rendered. No test may change it."""
    made = with_results(clone_into(tmp_path_factory.mktemp("rendered") / "a clone"))
    before = made.results()
    assert made.snakemake().status == 0
    assert made.results() == before
    return made


@pytest.fixture
def rendered(first_run: Clone, tmp_path: Path) -> Clone:
    """A copy of it for one test."""
    return first_run.copy(tmp_path / "a copy")


def set_times(root: Path, order: str) -> None:
    """Give every file of the clone a time as git might: all the same, results first or last, or random."""
    generator = random.Random(7)
    for path in root.rglob("*"):
        if not path.is_file():
            continue
        is_result = "results" in path.parts
        age = {
            "same": 0.0,
            "results-old": 9000.0 if is_result else 0.0,
            "results-new": 0.0 if is_result else 9000.0,
            "random": generator.uniform(0, 9000),
        }[order]
        os.utime(path, (NOW - age, NOW - age))


@pytest.mark.parametrize("order", ["same", "results-old", "results-new", "random"])
def test_plans_neither_compile_nor_measurement_whatever_the_file_times(clone: Clone, order: str) -> None:
    set_times(clone.path, order)
    assert clone.planned() == {"aggregate", "report"}
    assert clone.planned("--forceall", "--keep-going") == {"aggregate", "report"}


def test_renders_and_changes_no_result(rendered: Clone) -> None:
    before = rendered.results()
    assert "not measured yet" in rendered.page
    assert "Nothing to be done" in rendered.snakemake(PYTHONHASHSEED="123").text
    run = rendered.snakemake("--forceall", "--keep-going", *TABLES)
    assert (run.status, run.started("aggregate")) == (0, 1)
    assert rendered.results() == before


def test_results_dated_in_the_future_do_not_render_for_ever(clone: Clone) -> None:
    for path in (clone.path / "results").rglob("*.*"):
        os.utime(path, (NOW + 90_000, NOW + 90_000))
    assert clone.snakemake(*TABLES).status == 0
    again = clone.snakemake(*TABLES)
    assert (again.status, again.started("aggregate")) == (0, 0)


def test_a_missing_or_damaged_result_shows_as_a_gap_with_its_reason(rendered: Clone) -> None:
    csvs = sorted((rendered.path / "results").rglob("*.csv"))
    csvs[0].unlink()
    csvs[1].write_bytes(b"")
    csvs[2].write_bytes(csvs[2].read_bytes()[:-5])
    run = rendered.snakemake()
    assert run.status == 0, run.text
    for reason in ("missing; its record is there", "empty (zero bytes)", "cut short"):
        assert reason in rendered.page


def test_a_new_result_from_elsewhere_is_taken_up(rendered: Clone) -> None:
    write_sweep(rendered.path / "results", (8,), label="a100", card=3)
    assert rendered.planned() == {"aggregate", "report"}
    assert rendered.snakemake(*TABLES).status == 0
    summary = pd.read_csv(rendered.path / "build" / "tables" / "summary.csv")
    assert set(summary[summary["label"] == "a100"]["launch_count"]) == {8}


def test_a_setting_that_decides_no_table_makes_none_anew(rendered: Clone) -> None:
    assert rendered.planned("--config", "repetitions=77") == set()
    assert rendered.planned("--config", "launch_counts=[8,16]") == {"aggregate", "report"}


def test_no_results_at_all_is_a_page_that_says_so(make_clone: Callable[[], Clone]) -> None:
    empty = make_clone()
    assert empty.snakemake().status == 0
    assert all(label in empty.page for label in ("t4", "a100", "h100"))
    assert "not measured yet" in empty.page


def test_snakemake_report_holds_figures_and_tables(rendered: Clone) -> None:
    run = rendered.snakemake("--report", "report.zip")
    assert run.status == 0, run.text
    figures = ("speedup.svg", "times.svg", "placements.svg")
    for name in ("comparison.html", *figures, "trials.csv", "modes.csv", "summary.csv", "gaps.csv"):
        assert f"Adding {name}" in run.text
