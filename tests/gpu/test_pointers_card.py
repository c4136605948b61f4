"""Exercise 4 on a real card: scenarios come about, cures cure, and what the sanitizer says can be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from launchbench.pointers.memcheck import read_report
from launchbench.pointers.sanitizer import Tool, find_tool
from launchbench.results.extra_files import read_extras
from launchbench.results.pointers import PointersRecord
from launchbench.results.pointers_files import POINTERS
from launchbench.results.pointers_words import SCENARIOS
from tests.gpu.test_real_card import cards, pytestmark

__all__ = ["pytestmark"]


@pytest.fixture(scope="module")
def record(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> PointersRecord:
    """One job with few repetitions."""
    folder = tmp_path_factory.mktemp("pointers")
    settings = {"site": "lab", "launch_counts": [8, 64], "cure_repetitions": 7, "warmup_rounds": 2, "warmup_ms": 0}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    card = cards(folder)[0]
    command = [sys.executable, "-m", "launchbench", "pointers", "--label", card["label"], "--card", card["card"]]
    command += ["--binaries", str(binaries)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr
    [result], problems = read_extras(POINTERS, folder / "results")
    assert problems == []
    return result.record


def test_every_scenario_comes_about(record: PointersRecord) -> None:
    assert record.scenarios["control"].outcome == "captured-buffer-updated"
    for name in SCENARIOS:
        seen = record.scenarios[name]
        assert seen.completed and seen.outcome != "cannot-tell", (name, seen.reason)
        assert seen.device_uuid and seen.device_uuid[4:] == record.device.uuid[4:]


def test_every_cure_turns_to_the_right_buffer(record: PointersRecord) -> None:
    assert {check.outcome for check in record.cures} == {"right-buffer"}, record.cures
    assert {check.checked for check in record.cures} == {1 + 2 + 7}


def test_the_control_is_clean_under_the_sanitizer(record: PointersRecord) -> None:
    runs = {run.scenario: run for run in record.sanitizer.runs}
    if runs["control"].verdict == "not-run":
        pytest.skip(f"compute-sanitizer: {runs['control'].reason}")
    assert runs["control"].verdict == "clean", runs["control"]
    for name, run in runs.items():
        assert run.verdict in ("clean", "errors"), (name, run.reason)
        assert run.program and run.program.completed, name
        for error in run.errors:
            if error.access:
                assert error.size_bytes == 4 and error.kernel and str(error.kernel).startswith("tiny")
                assert error.source_line and error.source_line.startswith("graphs.cu:"), "built with -lineinfo"


def test_the_plain_program_has_no_error_and_no_leak(record: PointersRecord, binaries: Path) -> None:
    tool = find_tool()
    if not isinstance(tool, Tool):
        pytest.skip(tool)
    program = [str(binaries / "graphs"), "--n", "8", "--repetitions", "3", "--warmup-ms", "0"]
    command = [str(tool.path), *tool.options, "--leak-check", "full", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert read_report(done.stdout).errors == () and "LEAK SUMMARY: 0 bytes leaked" in done.stdout
