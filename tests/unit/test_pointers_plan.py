"""Which pointers jobs a run does, and what it does again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launchbench.config.model import Config
from launchbench.results.extra_files import write_receipt
from launchbench.results.pointers_files import POINTERS
from launchbench.workflow.extra import ExtraPlan
from launchbench.workflow.plan import CARDS_VARIABLE, Plan
from tests.unit.fabricate import uuid, write_job
from tests.unit.fabricate_pointers import write_pointers_job

CARD = uuid(0)[4:12]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CARDS_VARIABLE, json.dumps([["t4", CARD], ["h100", "cccccccc"]]))


def a_plan(**settings: Any) -> ExtraPlan:
    plan = Plan(Config.model_validate({"site": "lab", "extras": ["pointers"]} | settings))
    return ExtraPlan(plan, "pointers")


def test_one_job_a_card_whatever_the_counts() -> None:
    names = ("h100/cccccccc", f"t4/{CARD}")
    assert a_plan().receipts() == [f"build/cells/lab/{name}/pointers.0.json" for name in names]
    assert a_plan(extras=[]).receipts() == [] and a_plan(cards="none").receipts() == []
    listed = a_plan(cards="listed", slurm={"t4": {}}).receipts()
    assert listed == ["build/cells/lab/t4/any/pointers.0.json"]


def test_a_receipt_counts_while_all_its_files_are_there() -> None:
    path = write_pointers_job(Path("results"), reports={"control": "text"})
    receipt = Path(a_plan().receipt("t4", CARD))
    write_receipt(POINTERS, receipt, path, Path("results"))
    assert set(json.loads(receipt.read_text())["size_bytes"]) == {
        str(file.relative_to("results")) for file in path.parent.iterdir()
    }
    assert a_plan().receipt("t4", CARD) == str(receipt)
    path.with_name(f"{path.stem}.sanitizer-control.txt").unlink()
    assert a_plan().receipt("t4", CARD).endswith("/pointers.1.json")


def test_results_of_this_runs_jobs_do_not_change_what_is_cached() -> None:
    nothing, launch = a_plan().cached(), Plan(Config(site="lab")).cached()
    write_pointers_job(Path("results"))
    assert a_plan().cached() == nothing and Plan(Config(site="lab")).cached() == launch
    write_pointers_job(Path("results"), card=5)
    assert a_plan().cached() != nothing and Plan(Config(site="lab")).cached() == launch
    now = a_plan().cached()
    write_job(Path("results"), 8, card=6)
    assert a_plan().cached() == now and Plan(Config(site="lab")).cached() != launch


def test_what_is_stored_is_not_queued_again() -> None:
    assert a_plan(cards="listed", slurm={"t4": {}}).receipts()
    write_pointers_job(Path("results"))
    assert a_plan(cards="listed", slurm={"t4": {}}).receipts() == []


def test_what_decides_a_job() -> None:
    names = ("launch_counts", "warmup_ms")
    base = a_plan().protocol(*names)
    assert a_plan(launch_counts=[8]).protocol(*names) != base != a_plan(warmup_ms=1).protocol(*names)
    assert a_plan(site="other", repetitions=51).protocol(*names) == base
