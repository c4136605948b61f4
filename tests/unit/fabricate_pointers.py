"""Synthetic pointers jobs in the real file format, of cards called "Synthetic test card"."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.pointers.lines import read_lines
from launchbench.pointers.memcheck import conclude, read_report
from launchbench.pointers.outcome import judge
from launchbench.results.files import read_record
from launchbench.results.pointers_columns import CURE_REPETITIONS
from launchbench.results.pointers_files import write_pointers
from launchbench.results.pointers_words import CURES, SCENARIOS
from tests.unit.fabricate import uuid, write_job

D, D2 = "0x7f2000000000", "0x7f2000000200"
LOST = "call cuStreamSynchronize 700 CUDA_ERROR_ILLEGAL_ADDRESS"
REPLAYS = {
    "control": (D2, "", "value d 2\nvalue d2 0"),
    "recycled": (D, "", "value d2 1"),
    "victim": (D2, "", f"value d2 0\nvalue victim 1\naddress victim {D}"),
    "unowned": (D2, "", "value d2 0"),
    "unmapped": (D2, LOST, "call cuMemAlloc 700 CUDA_ERROR_ILLEGAL_ADDRESS"),
}
"""Scenario -> address of d2, lines of the replay, lines after it: what one H200 did."""

APPLY_US = {"exec-update": 40.0, "node-params": 25.0, "recapture": 700.0, "fixed-buffer": 2.0}
CAPTURE_US = 300.0


def lines(scenario: str, d2: str, replay: str, after: str) -> str:
    """What the process of a scenario says."""
    probe = "" if LOST in replay else "address probe 0x7f2000000400"
    said = f"address d {D}\nstep first-replay\nvalue captured 1\nstep free\naddress d2 {d2}\nstep replay\n{replay}\n"
    return f"{said}step after\n{after}\n{probe}\ncomplete {scenario} 0\n"


def write_pointers_job(
    results_dir: Path,
    *,
    card: int = 0,
    label: str = "t4",
    replays: Mapping[str, tuple[str, str, str]] | None = None,
    reports: Mapping[str, str] | None = None,
    missing_tool: str = "no compute-sanitizer here",
    cures: Mapping[str, tuple[str, str]] | None = None,
    run: int = 0,
    virtual: bool = False,
    hostname: str = "bench-host",
) -> Path:
    """File one job.

    Args:
        results_dir: root of the results.
        card: number of the card.
        label: GPU type.
        replays: scenarios that went otherwise than in ``REPLAYS``.
        reports: scenario -> what the sanitizer and its program printed; without any there was no tool.
        missing_tool: why there was none.
        cures: cure -> outcome and reason, where it is not the right buffer.
        run: counts repeats of the job, each an hour later.
        virtual: a simulated GPU.
        hostname: of the host.
    """
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"card": card, "label": label, "run": run, "virtual": virtual}
        launch = read_record(write_job(Path(folder), 8, hostname=hostname, **options))
    shared = json.loads(launch.model_dump_json())
    gpu = uuid(card)
    runs: list[dict[str, Any]] = []
    for name in SCENARIOS:
        if reports is None:
            runs.append({"scenario": name, "verdict": "not-run", "reason": missing_tool})
            continue
        text = reports.get(name, "")
        report, said = read_report(text), read_lines(text)
        status = 86 if report.errors else 0
        verdict, reason = conclude(report, said, name, status)
        runs.append(
            {
                "scenario": name,
                "verdict": verdict,
                "reason": reason,
                "tool_exit_status": status,
                "error_count": report.error_count,
                "errors": [error.model_dump() for error in report.errors],
            }
        )
    told = {**REPLAYS, **(replays or {})}
    rows = []
    for count in (8, 512):
        for repetition in range(10):
            for order, cure in enumerate(CURES):
                if cure in (cures or {}):
                    continue
                prepare = CAPTURE_US if cure in ("exec-update", "recapture") else None
                apply = APPLY_US[cure] * (1 + 0.001 * repetition)
                total = (prepare or 0) + apply + 50
                rows.append((count, cure, repetition, order, repetition * 1e3 + order, prepare, apply, 50.0, total))
    fields = {
        **{name: shared[name] for name in ("site", "label", "started_utc", "finished_utc", "device", "host")},
        **{name: shared[name] for name in ("software", "code")},
        "run_id": f"pointers-{gpu[4:12]}-{run:06d}",
        "scenarios": {
            name: judge(name, read_lines(lines(name, *said)), 0, gpu).model_dump() for name, said in told.items()
        },
        "sanitizer": {"version": "2025.3", "source": "PATH", "runs": runs} if reports else {"runs": runs},
        "cures": [
            {"cure": cure, "launch_count": count, "outcome": "right-buffer", "checked": 16}
            if cure not in (cures or {})
            else {
                **{"cure": cure, "launch_count": count, "checked": 0},
                **dict(zip(("outcome", "reason"), (cures or {})[cure], strict=True)),
            }
            for count in (8, 512)
            for cure in CURES
        ],
        "protocol": {"launch_counts": [8, 512], "repetitions": 10, "warmup_rounds": 5, "warmup_ms": 200},
        **{name: shared["blocks"][0][name] for name in ("before", "after")},
    }
    frame = pd.DataFrame(rows, columns=[column.name for column in CURE_REPETITIONS])
    return write_pointers(results_dir, fields, frame, {name: text.encode() for name, text in (reports or {}).items()})
