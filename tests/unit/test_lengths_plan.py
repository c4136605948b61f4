"""Which lengths jobs a run does, beside those of other kinds; and what config.yaml may ask of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launchbench.config.model import Config, load
from launchbench.errors import LaunchbenchError
from launchbench.results.extra_files import write_receipt
from launchbench.results.lengths_files import LENGTHS
from launchbench.workflow.extra import ExtraPlan
from launchbench.workflow.plan import CARDS_VARIABLE, Plan
from tests.unit.fabricate import uuid
from tests.unit.fabricate_lengths import write_lengths_job

CARD = uuid(0)[4:12]
PLACE = f"build/cells/lab/t4/{CARD}"


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CARDS_VARIABLE, json.dumps([["t4", CARD]]))


def a_plan(kind: str = "lengths", **settings: Any) -> ExtraPlan:
    return ExtraPlan(Plan(Config.model_validate({"site": "lab", "extras": ["lengths"]} | settings)), kind)


def test_each_kind_has_receipts_of_its_own() -> None:
    assert a_plan().receipts() == [f"{PLACE}/lengths.0.json"] and a_plan("pointers").receipts() == []
    path = write_lengths_job(Path("results"))
    write_receipt(LENGTHS, Path(PLACE, "lengths.0.json"), path, Path("results"))
    both = {"extras": ["pointers", "lengths"]}
    assert a_plan(**both).receipts() == [f"{PLACE}/lengths.0.json"]
    assert a_plan("pointers", **both).receipts() == [f"{PLACE}/pointers.0.json"]
    path.with_suffix(".csv").write_text("cut")
    assert a_plan(**both).receipts() == [f"{PLACE}/lengths.1.json"]
    assert a_plan("pointers", **both).receipts() == [f"{PLACE}/pointers.0.json"]


def test_results_of_one_kind_do_not_make_another_ones_tables_anew() -> None:
    pointers, launch = a_plan("pointers").cached(), Plan(Config(site="lab")).cached()
    before = a_plan().cached()
    write_lengths_job(Path("results"), card=5)
    assert a_plan().cached() != before
    assert (a_plan("pointers").cached(), Plan(Config(site="lab")).cached()) == (pointers, launch)


def test_what_a_queue_did_is_done_once() -> None:
    listed = {"cards": "listed", "slurm": {"t4": {}}}
    assert a_plan(**listed).receipts() == ["build/cells/lab/t4/any/lengths.0.json"]
    write_lengths_job(Path("results"))
    assert a_plan(**listed).receipts() == []


def test_only_large_counts_are_refused_before_anything_is_measured() -> None:
    assert load({"extras": ["lengths"], "launch_counts": [4096, 512]}).launch_counts == (4096, 512)
    assert load({"launch_counts": [4096]}).launch_counts == (4096,)
    with pytest.raises(LaunchbenchError) as refused:
        load({"extras": ["lengths"], "launch_counts": [513, 4096]})
    expected = "expected also one of at most 512, which extras: [lengths] needs"
    assert str(refused.value) == f"config.yaml: launch_counts: got [513, 4096]; {expected}"
