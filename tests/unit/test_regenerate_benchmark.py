"""The benchmark of one new result: what it calls done again is what was done again."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from launchbench.aggregate.write import write_tables
from tests.unit.fabricate import uuid, write_job, write_sweep

STATS = """Building DAG of jobs...
Job stats:
job          count
---------  -------
aggregate        1
all              1
report           1
total            3

Select jobs to execute...
other 7
"""


@pytest.fixture
def regenerate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("regenerate")


def test_jobs_are_those_that_snakemake_counts(regenerate: ModuleType) -> None:
    assert regenerate.jobs_of(STATS) == regenerate.EXPECTED
    assert regenerate.jobs_of("Building DAG of jobs...\nNothing to be done.\n") == {}


def test_only_the_card_with_a_new_job_is_called_made_anew(regenerate: ModuleType, tmp_path: Path) -> None:
    def aggregate() -> None:
        build = tmp_path / "build"
        write_tables(tmp_path / "results", build / "tables", build / "cache" / "cards", ["t4"], (8,))

    for card in range(2):
        write_sweep(tmp_path / "results", (8,), card=card)
    aggregate()
    before = regenerate.files_of_cards(tmp_path)
    assert set(before) == {uuid(0)[4:12], uuid(1)[4:12]}
    aggregate()
    assert regenerate.files_of_cards(tmp_path) == before
    write_job(tmp_path / "results", 8, card=1, run=1)
    aggregate()
    after = regenerate.files_of_cards(tmp_path)
    assert [card for card in after if after[card] != before[card]] == [uuid(1)[4:12]]
