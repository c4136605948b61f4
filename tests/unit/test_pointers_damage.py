"""Records of pointers jobs that nobody's job would write: each is a gap, and the other cards keep their tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launchbench.aggregate.pointers import tabulate
from launchbench.pointers.lines import read_lines
from launchbench.pointers.memcheck import conclude, read_report
from launchbench.results.pointers_words import STEPS
from tests.unit.fabricate_pointers import write_pointers_job

CALL = {"step": STEPS[0], "call": "cuGraphLaunch", "code": 10**22, "name": "CUDA_ERROR_UNKNOWN"}


def first_run(record: dict[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = record["sanitizer"]["runs"][0]
    return run


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda r: r["scenarios"]["control"]["calls"].insert(0, CALL), "scenarios.control.calls.0.code"),
        (lambda r: first_run(r).update(error_count=2**70), "sanitizer.runs.0.error_count"),
        (lambda r: first_run(r).update(error_count=-5), "sanitizer.runs.0.error_count"),
        (lambda r: r["cures"][0].update(launch_count=10**23), "cures.0.launch_count"),
        (lambda r: r.update(scenarios={}), "scenarios: control, recycled, unmapped, unowned, victim missing"),
        (lambda r: r["cures"].append(r["cures"][0]), "cures: one of them is there twice"),
    ],
)
def test_a_record_out_of_bounds_is_a_gap(tmp_path: Path, damage: Callable[[dict[str, Any]], None], said: str) -> None:
    path = write_pointers_job(tmp_path, card=1)
    write_pointers_job(tmp_path, card=2)
    record = json.loads(path.read_text())
    damage(record)
    path.write_text(json.dumps(record))
    made = tabulate(tmp_path)
    assert made.pointers["card"].nunique() == 1, "the other card's scenarios stay"
    (reason,) = made.gaps["reason"]
    assert said in reason


def test_a_key_that_is_there_twice_is_refused_as_in_launch_records(tmp_path: Path) -> None:
    path = write_pointers_job(tmp_path)
    text = path.read_text()
    assert text.count('"virtual": false') == 1
    path.write_text(text.replace('"virtual": false', '"virtual": true, "virtual": false'))
    made = tabulate(tmp_path)
    assert made.pointers.empty
    assert made.gaps["reason"].tolist() == ["got the key 'virtual' twice; expected each key once"]


@pytest.mark.parametrize("value", ["inf", "-1.0", "nan"])
def test_a_time_that_is_none_is_a_gap_though_the_checksum_fits(tmp_path: Path, value: str) -> None:
    path = write_pointers_job(tmp_path)
    csv = path.with_suffix(".csv")
    head, first, *rows = csv.read_text().splitlines()
    cells = [*first.split(",")[:-1], value]
    data = "\n".join([head, ",".join(cells), *rows, ""]).encode()
    csv.write_bytes(data)
    record = json.loads(path.read_text())
    record["cures_file"] |= {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    path.write_text(json.dumps(record))
    made = tabulate(tmp_path)
    assert made.cures.empty
    (reason,) = made.gaps["reason"]
    assert reason.startswith("total_us, row 1: got ") and "expected a number from 0 to" in reason


@pytest.mark.parametrize("digits", [23, 5000])
def test_a_tool_that_counts_beyond_reason_is_never_clean(digits: int) -> None:
    number = "9" * digits
    text = (
        f"========= Invalid __global__ write of size {number} bytes\n"
        "=========     Saved host backtrace up to driver entry point at error\n"
        f"complete control 0\n========= ERROR SUMMARY: {number} errors\n"
    )
    report = read_report(text)
    assert [error.size_bytes for error in report.errors] == [None] and report.error_count is None
    verdict, _ = conclude(report, read_lines(text), "control", 0)
    assert verdict != "clean"
