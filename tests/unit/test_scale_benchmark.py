"""The benchmark of many cards: what it makes is no measurement, and what it prints is what it took."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from launchbench.results.files import read_results
from tests.unit.fabricate import DEVICE_NAME, LAUNCH_COUNTS, uuid


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("scale")


def test_every_result_says_that_it_is_simulated(scale: ModuleType, tmp_path: Path) -> None:
    scale.Study(tmp_path, 1).add_card(0)
    results, problems = read_results(tmp_path / "simulated-results")
    assert (len(results), problems) == (len(LAUNCH_COUNTS) * scale.TRIALS, [])
    assert {result.record.trial for result in results} == {1, 2, 3}
    assert all(result.record.device.virtual for result in results)
    assert {(result.site, result.record.device.name) for result in results} == {("simulated", DEVICE_NAME)}
    assert len({result.record.run_id for result in results}) == len(results)
    assert {len(result.raw) for result in results} == {4500}


def test_the_table_has_a_row_for_each_step_and_the_growth(scale: ModuleType) -> None:
    steps = [scale.Step(cards, "plan", 2.0 * cards, cards**2, 100 + cards, "") for cards in (10, 100)]
    assert scale.table(steps, [10, 100]).splitlines()[2:] == [
        "| plan | 20.0 s, 100.0 s, 110 MB | 200.0 s, 10000.0 s, 200 MB | 2.00 |"
    ]


def test_cards_beyond_the_templates_have_results_of_their_own(
    scale: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "TEMPLATES", len(scale.LABELS))
    study = scale.Study(tmp_path, 1)
    for card in (0, len(scale.LABELS)):
        study.add_card(card)
    results, problems = read_results(study.results)
    assert problems == []
    assert {result.record.device.uuid for result in results} == {uuid(0), uuid(len(scale.LABELS))}
    assert len({result.record.run_id for result in results}) == len(results) == 2 * 4 * scale.TRIALS
