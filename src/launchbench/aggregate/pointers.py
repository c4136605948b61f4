"""Joins all pointers jobs into three tables: scenarios, cures, and files that cannot be used.

It pools nothing: a row is one scenario, or one cure and N, of one job. It draws and renders nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from launchbench.aggregate import stats
from launchbench.aggregate.extra import gaps, table
from launchbench.aggregate.identity import identity
from launchbench.pointers.outcome import first_failure
from launchbench.results import pointers_columns
from launchbench.results.extra_files import ExtraResult, read_extras
from launchbench.results.failures import Failure
from launchbench.results.files import write_atomically
from launchbench.results.pointers import AccessError, PointersRecord, SanitizerRun, Seen
from launchbench.results.pointers_files import POINTERS
from launchbench.results.pointers_words import CURES, KIND, SCENARIOS
from launchbench.wording import one_line

PARTS = ("prepare", "apply", "first_replay", "total")


@dataclass(frozen=True)
class PointersTables:
    """The three tables, each validated against its list of columns."""

    pointers: pd.DataFrame
    cures: pd.DataFrame
    gaps: pd.DataFrame


def tabulate(results_dir: Path, failures: Sequence[Failure] = ()) -> PointersTables:
    """Read every pointers job under ``results_dir``; a broken file, and a failure, becomes a row of ``gaps``."""
    results, problems = read_extras(POINTERS, results_dir)
    results.sort(key=lambda one: (one.site, one.record.label, one.record.device.uuid, one.record.started_utc))
    rows = [row for result in results for row in _scenario_rows(result, results_dir)]
    cures = [row for result in results for row in _cure_rows(result)]
    scenarios = table(rows, pointers_columns.POINTERS, "pointers")
    return PointersTables(
        scenarios,
        table(cures, pointers_columns.CURE_TIMES, "cures"),
        gaps(problems, results_dir, failures, scenarios, KIND),
    )


def write_pointers_tables(results_dir: Path, out_dir: Path, failures: Sequence[Failure] = ()) -> None:
    """Write ``pointers.csv``, ``cures.csv`` and ``pointers_gaps.csv``, each whole or not at all.

    Raises:
        LaunchbenchError: the folder cannot be written.
    """
    made = tabulate(results_dir, failures)
    for name, frame in (("pointers", made.pointers), ("cures", made.cures), ("pointers_gaps", made.gaps)):
        write_atomically(out_dir / f"{name}.csv", frame.to_csv(index=False, lineterminator="\n").encode())


def _scenario_rows(result: ExtraResult[PointersRecord], results_dir: Path) -> list[dict[str, Any]]:
    record = result.record
    runs = {run.scenario: run for run in record.sanitizer.runs}
    folder = result.path.parent.relative_to(results_dir).as_posix()
    return [
        {
            **identity(result),
            "scenario": name,
            **_seen(record.scenarios[name]),
            **_sanitizer(record, runs.get(name), folder),
        }
        for name in SCENARIOS
        if name in record.scenarios
    ]


def _seen(seen: Seen) -> dict[str, Any]:
    failed = first_failure(seen.calls, "replay", "after")
    return {
        "outcome": seen.outcome,
        "reason": one_line(seen.reason or ""),
        **{f"{name}_address": seen.addresses.get(name, "") for name in ("d", "d2", "victim")},
        **{f"{name}_value": seen.values.get(name) for name in ("d2", "victim")},
        "failed_call": failed.call if failed else "",
        "failed_code": failed.code if failed else None,
        "failed_name": failed.name if failed else "",
    }


def _sanitizer(record: PointersRecord, run: SanitizerRun | None, folder: str) -> dict[str, Any]:
    if run is None:
        return {**_error(None), "sanitizer": "not-run", "sanitizer_reason": "", "sanitizer_version": ""}
    access = next((error for error in run.errors if error.access), None)
    api = [f"{error.api_call}: {error.api_name or '?'} ({error.api_code})" for error in run.errors if error.api_call]
    return {
        **_error(access or next(iter(run.errors), None)),
        "sanitizer": run.verdict,
        "sanitizer_reason": one_line(run.reason or ""),
        "sanitizer_version": record.sanitizer.version or "",
        "sanitizer_errors": run.error_count,
        "api_errors": one_line("; ".join(dict.fromkeys(api))),
        "sanitizer_file": f"{folder}/{run.report.file}" if run.report else "",
    }


def _error(error: AccessError | None) -> dict[str, Any]:
    """Of the error that is told; empty where there is none."""
    if error is None:
        texts = ("sanitizer_kind", "access", "kernel", "source_line", "side", "host_frame")
        numbers = ("access_bytes", "distance_bytes", "sanitizer_errors")
        return dict.fromkeys((*texts, "api_errors", "sanitizer_file"), "") | dict.fromkeys(numbers)
    return {
        "sanitizer_kind": one_line(error.kind),
        "access": error.access or "",
        "access_bytes": error.size_bytes,
        "kernel": one_line(error.kernel or ""),
        "source_line": one_line(error.source_line or ""),
        "distance_bytes": error.distance_bytes,
        "side": error.side or "",
        "host_frame": one_line(_launching(error.host_frames)),
    }


def _launching(frames: list[str]) -> str:
    """The first frame that is a call of CUDA, else the first one."""
    calls = (frame for frame in frames if frame.startswith(("cuda", "cuGraph", "cuLaunch")))
    return next(calls, next(iter(frames), ""))


def _cure_rows(result: ExtraResult[PointersRecord]) -> list[dict[str, Any]]:
    rows = []
    for check in sorted(result.record.cures, key=lambda one: (CURES.index(one.cure), one.launch_count)):
        mine = (result.table["cure"] == check.cure) & (result.table["launch_count"] == check.launch_count)
        own = result.table[mine]
        # A cure that once wrote to the wrong buffer has no time worth telling.
        used = own if check.outcome == "right-buffer" else own.iloc[:0]
        rows.append(
            {
                **identity(result),
                "cure": check.cure,
                "launch_count": check.launch_count,
                "outcome": check.outcome,
                "reason": one_line(check.reason or ""),
                "checked": check.checked,
                "repetitions": len(used),
                **_medians(used),
            }
        )
    return rows


def _medians(own: pd.DataFrame) -> dict[str, float]:
    figures: dict[str, float] = {}
    for part in PARTS:
        sample = own[f"{part}_us"].dropna().to_numpy()
        names = (f"{part}_us", f"{part}_low_us", f"{part}_high_us")
        ends: tuple[float | None, ...] = (None, None, None)
        if len(sample):
            estimate = stats.median(sample)
            ends = (estimate.value, estimate.low, estimate.high)
        figures |= {name: np.nan if end is None else end for name, end in zip(names, ends, strict=True)}
    return figures
