"""One pointers job: all scenarios, the sanitizer's view of them and the cures on one GPU; one record with its files."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench import programs
from launchbench.config.model import Config
from launchbench.errors import LaunchbenchError
from launchbench.measure import nvml, provenance
from launchbench.measure.cards import Card, choose, told_if_simulated, visible_cards
from launchbench.measure.driver import DriverError
from launchbench.measure.extra import Request, shared_fields
from launchbench.measure.host import cpu_cores
from launchbench.measure.lock import card_lock, core_lock
from launchbench.pointers.lines import read_lines
from launchbench.pointers.memcheck import conclude, read_report
from launchbench.pointers.outcome import SETTING_UP, first_failure, judge
from launchbench.pointers.sanitizer import Tool, find_tool, run_under
from launchbench.results.pointers import CureCheck, CuresProtocol, Seen
from launchbench.results.pointers_columns import CURE_REPETITIONS
from launchbench.results.pointers_files import write_pointers
from launchbench.results.pointers_words import CURES, KIND, SCENARIOS
from launchbench.sources import POINTERS_MODULES

SCENARIO_SECONDS = 300
"""How long one scenario may take; it launches two kernels, yet a context takes seconds on large machines."""

CURES_SECONDS = 3600


def run(request: Request, config: Config) -> Path:
    """Do it and file the result.

    Returns:
        Path of the new record.

    Raises:
        LaunchbenchError: no driver, not the card that was asked for, the control did not come about, or the results
            cannot be written.
    """
    cards = visible_cards()  # first: without a driver there is no use in building
    provenance.read_manifest(request.binaries)
    card = choose(cards, config, request.label, request.card)
    with (
        told_if_simulated(card),
        card_lock(card.uuid),
        core_lock(cpu_cores()),
        nvml.session(card.uuid) as session,
    ):
        started = datetime.now(UTC)
        before = session.state()
        scenarios = {}
        for name in SCENARIOS:
            scenarios[name] = _scenario(name, card, request.binaries)
            _check_control(scenarios["control"])
        sanitizer, reports = _sanitized(card, request.binaries)
        protocol = CuresProtocol(
            launch_counts=list(config.launch_counts),
            repetitions=config.cure_repetitions,
            warmup_rounds=config.warmup_rounds,
            warmup_ms=config.warmup_ms,
        )
        checks, rows = _cures(card, request.binaries, protocol)
        fields: dict[str, Any] = {
            **shared_fields(KIND, request, card, session, started, POINTERS_MODULES),
            "scenarios": scenarios,
            "sanitizer": sanitizer,
            "cures": checks,
            "protocol": protocol,
            "before": before,
            "after": session.state(),
        }
        return write_pointers(Path(config.results_dir), fields, rows, reports)


def _scenario(name: str, card: Card, binaries: Path) -> Seen:
    fatbin = ("--fatbin", str(binaries / "graphs.fatbin"))
    out, err, status = _child("scenarios", SCENARIO_SECONDS, name, *fatbin, "--device", str(card.index))
    lines = read_lines(out)
    lines.words += [line.strip() for line in err.splitlines() if line.strip()]
    seen = judge(name, lines, status, card.uuid)
    _tell(f"scenario {name}: {seen.outcome}{_because(seen.reason)}")
    return seen


def _check_control(seen: Seen) -> None:
    """Where not even the control comes about, the card or the binary is the matter, and nothing is to be filed."""
    if seen.completed:
        return
    failed = first_failure(seen.calls, *SETTING_UP)
    if failed:
        raise DriverError(failed.call, failed.code, failed.name)
    raise LaunchbenchError(f"the control did not come about: {seen.reason}: nothing was written")


def _child(module: str, timeout_s: float, *arguments: str) -> tuple[str, str, int | None]:
    """Standard output and error of a module of this package in a process of its own, and its exit status.

    The status is None where it did not end in time; what it had said by then is kept.
    """
    command = [sys.executable, "-m", f"launchbench.pointers.{module}", *arguments]
    done = programs.run(command, timeout_s, patience_s=0)
    out, err = (said.decode(errors="replace") if said else "" for said in (done.out, done.err))
    if done.exit_status is None:
        err += f"\ndid not end within {timeout_s:g} s"
    return out, err, done.exit_status


def _sanitized(card: Card, binaries: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Fields of ``Sanitizer``, and the whole report of each scenario that was run."""
    tool = find_tool()
    if not isinstance(tool, Tool):
        _tell(f"compute-sanitizer: not run: {tool}")
        return {"runs": [{"scenario": name, "verdict": "not-run", "reason": tool} for name in SCENARIOS]}, {}
    runs, reports = [], {}
    for name in SCENARIOS:
        # The program takes the first device that it is shown.
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": card.uuid}
        done = run_under(tool, [str((binaries / "graphs").resolve()), "--pointers", name], environment)
        reports[name] = done.output
        text = done.output.decode(errors="replace")
        report, lines = read_report(text), read_lines(text)
        verdict, reason = conclude(report, lines, name, done.exit_status)
        status = lines.complete[1] if lines.complete else None
        runs.append(
            {
                "scenario": name,
                "verdict": verdict,
                "reason": reason,
                "tool_exit_status": done.exit_status,
                "target_exit_status": status,
                "error_count": report.error_count,
                "errors": report.errors,
                "program": judge(name, lines, status, card.uuid),
            }
        )
        _tell(f"compute-sanitizer, {name}: {verdict}{_because(reason)}")
    return {"version": tool.version, "source": tool.source, "runs": runs}, reports


def _cures(card: Card, binaries: Path, protocol: CuresProtocol) -> tuple[list[CureCheck], pd.DataFrame]:
    counts = ",".join(map(str, protocol.launch_counts))
    arguments = ["--binaries", str(binaries), "--device", str(card.index), "--launch-counts", counts]
    for name in ("repetitions", "warmup_rounds", "warmup_ms"):
        arguments += [f"--{name.replace('_', '-')}", str(getattr(protocol, name))]
    out, err, status = _child("cures", CURES_SECONDS, *arguments)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    checks = [CureCheck.model_validate(line["check"]) for line in lines if "check" in line]
    told = {(check.cure, check.launch_count) for check in checks}
    said = (err.strip().splitlines() or [f"the process ended with status {status}"])[-1]
    checks += [
        CureCheck.model_validate(
            {"cure": cure, "launch_count": count, "outcome": "failed", "checked": 0, "reason": said}
        )
        for count in protocol.launch_counts
        for cure in CURES
        if (cure, count) not in told
    ]
    for check in checks:
        _tell(f"cure {check.cure}, N = {check.launch_count}: {check.outcome}{_because(check.reason)}")
    names = [column.name for column in CURE_REPETITIONS]
    rows = pd.DataFrame([line["row"] for line in lines if "row" in line], columns=names)
    return checks, rows[[tuple(key) in told for key in zip(rows["cure"], rows["launch_count"], strict=True)]]


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _tell(line: str) -> None:
    print(f"pointers: {line}", file=sys.stderr, flush=True)
