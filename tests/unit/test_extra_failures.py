"""Extra jobs that fail: the reason is kept, told in the section of their kind, and gone once it has been made good."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launchbench.__main__ import main
from launchbench.aggregate.decode import write_decode_tables
from launchbench.aggregate.gaps import FAILED, FAILED_SIMULATED
from launchbench.aggregate.lengths import tabulate, write_lengths_tables
from launchbench.aggregate.pointers import write_pointers_tables
from launchbench.errors import LaunchbenchError
from launchbench.measure import lengths_job
from launchbench.measure.cards import VIRTUAL_NAME, Card, told_if_simulated
from launchbench.report import decode, lengths, pointers
from launchbench.results.failures import Failure, read_failures
from tests.unit.fabricate import START, uuid
from tests.unit.fabricate_lengths import write_lengths_job

CARD = uuid(0)[4:12]
KINDS: dict[str, tuple[Callable[..., None], Any]] = {
    "pointers": (write_pointers_tables, pointers),
    "lengths": (write_lengths_tables, lengths),
    "decode": (write_decode_tables, decode),
}


def failure(kind: str = "lengths", when: str = "2026-11-30T05:00:00Z", card: str = CARD) -> Failure:
    return Failure(site="lab", label="t4", card=card, kind=kind, reason="cuMemAlloc failed", failed_utc=when)


@pytest.mark.parametrize("kind", KINDS)
def test_the_section_states_the_reason(tmp_path: Path, kind: str) -> None:
    write, report = KINDS[kind]
    write(tmp_path / "none", tmp_path, [failure(kind)])
    found = report.section(tmp_path, ["t4"], lambda _: [])
    [[label, card, why, _]] = found.broken.rows
    assert (label.text, card.text, why.text) == ("t4", CARD, f"{FAILED}: cuMemAlloc failed")
    assert found.missing == ["t4"]


@pytest.mark.parametrize("card", [CARD, "any"])
def test_a_newer_result_makes_it_good(tmp_path: Path, card: str) -> None:
    write_lengths_job(tmp_path, launch_counts=(8,), kernels_us=(0.0,))
    before, after = f"{START.year - 1}-01-01T00:00:00Z", f"{START.year + 1}-01-01T00:00:00Z"
    assert tabulate(tmp_path, [failure(when=before, card=card)]).lengths_gaps.empty
    [reason] = tabulate(tmp_path, [failure(when=after, card=card)]).lengths_gaps["reason"]
    assert reason == f"{FAILED}: cuMemAlloc failed"


@pytest.mark.parametrize("virtual", [True, False])
def test_a_job_keeps_its_reason_until_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, virtual: bool) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("site: lab\n")
    name = f"{VIRTUAL_NAME if virtual else 'NVIDIA'} T4"
    card = Card(0, name, uuid(0), (7, 5), "0000:00:04.0", 40)

    def fails(*_: object) -> Path:
        with told_if_simulated(card):
            raise LaunchbenchError("cuMemAlloc failed")

    arguments = ["lengths", "--label", "t4", "--card", CARD, "--receipt", "receipt.json"]
    monkeypatch.setattr(lengths_job, "run", fails)
    assert main([*arguments[:-2]]) == 1
    assert read_failures(tmp_path / "build", "lengths") == [], "no job of a workflow"
    assert main(arguments) == 1
    assert read_failures(tmp_path / "build") == []
    assert main(["aggregate"]) == 0
    gaps = pd.read_csv(tmp_path / "build/tables/lengths_gaps.csv")
    assert gaps["reason"].tolist() == [f"{FAILED_SIMULATED if virtual else FAILED}: cuMemAlloc failed"]
    monkeypatch.setattr(lengths_job, "run", lambda *_: write_lengths_job(Path("results"), launch_counts=(8,)))
    assert main(arguments) == 0
    assert read_failures(tmp_path / "build", "lengths") == []


def test_a_path_that_the_terminal_cannot_show_costs_no_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("site: lab\nresults_dir: m\u00e9sur\u00e9\n", encoding="utf-8")
    results = Path("m\u00e9sur\u00e9")
    monkeypatch.setattr(lengths_job, "run", lambda *_: write_lengths_job(results, launch_counts=(8,)))
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert main(["lengths", "--label", "t4", "--receipt", "receipt.json"]) == 0
    assert Path("receipt.json").exists() and shown.getvalue().startswith(rb"m\xe9sur\xe9/lab/t4/")
