"""What is missing from the comparison, and why. Nothing is interpolated and nothing silently left out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.aggregate.path_gaps import gap_rows
from launchbench.results import columns
from launchbench.results.failures import Failure
from launchbench.results.files import Problem
from launchbench.wording import one_line

NOT_MEASURED_YET = "not measured yet"
ONLY_SIMULATED = "not measured yet: only a simulated GPU has results under this label"
ONLY_BROKEN = "not measured yet: none of its files can be used"
NOT_MEASURED = "not measured at this N"
NO_VALID_SAMPLES = "no valid samples"
FAILED = "the last attempt failed"
FAILED_SIMULATED = "the last attempt, on a simulated GPU, failed"


def find_gaps(
    summary: pd.DataFrame,
    problems: Sequence[Problem],
    results_dir: Path,
    config_labels: Sequence[str],
    launch_counts: Sequence[int],
    failures: Sequence[Failure] = (),
    unmeasured: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The columns of ``columns.GAPS``.

    Args:
        summary: the columns of ``columns.SUMMARY``.
        problems: files that cannot be used.
        results_dir: paths are given relative to it, so that a table is the same on every machine.
        config_labels: labels that should have results.
        launch_counts: values of N that every card with results should have.
        failures: attempts that left no result; one that was made good since is not told.
        unmeasured: the columns of ``path_columns.UNMEASURED``; None where nothing is stated.
    """
    rows = [problem_row(problem, results_dir) for problem in problems]
    rows += _without_samples(summary)
    failed = failed_rows(failures, summary[summary["speedup"].notna()], summary)
    rows += failed
    failing = {label for label in config_labels if _all_failed(failed, label, launch_counts)}
    rows += [row for row in _labels(summary, problems, config_labels) if row["label"] not in failing]
    explained = {_key(row) for row in rows}
    rows += [
        row
        for row in _counts(summary, launch_counts)
        if _key(row) not in explained and _key({**row, "card": ""}) not in explained
    ]
    rows += gap_rows(unmeasured, summary) if unmeasured is not None else []
    names = [column.name for column in columns.GAPS]
    frame = pd.DataFrame(rows, columns=names)
    frame["launch_count"] = frame["launch_count"].astype("Int64")
    return frame.sort_values(names, kind="stable", na_position="first").reset_index(drop=True)


def _row(reason: str, label: str, **known: Any) -> dict[str, Any]:
    unknown = {"site": "", "card": "", "launch_count": None, "file": ""}
    return {**unknown, "label": label, "reason": reason, **known}


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["site"], row["label"], row["card"], row["launch_count"]


def problem_row(problem: Problem, results_dir: Path) -> dict[str, Any]:
    """Row of ``columns.GAPS`` for a file that cannot be used, named relative to the results."""
    count = problem.launch_count
    return _row(
        one_line(problem.reason.replace(f"{results_dir}/", "")),
        one_line(problem.label),
        site=one_line(problem.site),
        card=one_line(problem.card),
        launch_count=count if count is None or 1 <= count < 2**63 else None,
        file=one_line(problem.path.relative_to(results_dir).as_posix()),
    )


def _without_samples(summary: pd.DataFrame) -> list[dict[str, Any]]:
    empty = summary[summary["speedup"].isna()]
    return [
        _row(
            f"{NO_VALID_SAMPLES} ({row['launch_path']}, {row['kernel']}): {row['flags']}",
            row["label"],
            site=row["site"],
            card=row["card"],
            launch_count=row["launch_count"],
            file=f"{row['site']}/{row['label']}/{row['card']}/{row['run_id']}.csv",
        )
        for row in empty.to_dict("records")
    ]


def failed_rows(failures: Sequence[Failure], done: pd.DataFrame, known: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``columns.GAPS`` for attempts that left no result and were not made good since.

    Args:
        failures: of one kind of job.
        done: results that make good an older failure: site, label, card, launch_count, virtual, started_utc.
        known: rows of all cards that have results: site, label, card, virtual.
    """
    if not failures:
        return []
    made: dict[tuple[Any, ...], datetime] = {}
    names = ["site", "label", "card", "launch_count", "virtual", "started_utc"]
    for site, label, card, count, virtual, started in done[names].itertuples(index=False, name=None):
        for key in ((site, label, card, count, virtual), (site, label, "", count, virtual)):
            moment = datetime.fromisoformat(started)
            made[key] = max(made.get(key, moment), moment)
    kinds: dict[tuple[str, str, str], set[bool]] = {}
    for site, label, card, virtual in known[["site", "label", "card", "virtual"]].itertuples(index=False, name=None):
        for name in (card, ""):
            kinds.setdefault((site, label, name), set()).add(bool(virtual))
    rows = []
    for failure in failures:
        card = "" if failure.card == "any" else failure.card
        # What was killed could not say on what it ran: its card's results do.
        virtual = failure.virtual or kinds.get((failure.site, failure.label, card)) == {True}
        row = _row(
            f"{FAILED_SIMULATED if virtual else FAILED}: {one_line(failure.reason)}",
            failure.label,
            site=failure.site,
            card=card,
            launch_count=failure.launch_count,
        )
        good = made.get((*_key(row), virtual))
        if good is None or good < failure.when:
            rows.append(row)
    return rows


def _all_failed(failed: Sequence[dict[str, Any]], label: str, launch_counts: Sequence[int]) -> bool:
    """Whether the label's reasons stand for it; those of simulated GPUs are none of its own."""
    own = (row for row in failed if row["label"] == label and row["reason"].startswith(f"{FAILED}: "))
    return set(launch_counts) <= {row["launch_count"] for row in own}


def _labels(summary: pd.DataFrame, problems: Sequence[Problem], config_labels: Sequence[str]) -> list[dict[str, Any]]:
    real = set(summary.loc[~summary["virtual"], "label"])
    simulated = set(summary.loc[summary["virtual"], "label"])
    broken = {problem.label for problem in problems}

    def reason(label: str) -> str:
        if label in simulated:
            return ONLY_SIMULATED
        return ONLY_BROKEN if label in broken else NOT_MEASURED_YET

    return [_row(reason(label), label) for label in dict.fromkeys(config_labels) if label not in real]


def _counts(summary: pd.DataFrame, launch_counts: Sequence[int]) -> list[dict[str, Any]]:
    card = ["site", "label", "card"]
    usable = summary[summary["speedup"].notna()]
    have = set(usable[[*card, "launch_count"]].itertuples(index=False, name=None))
    return [
        _row(NOT_MEASURED, label, site=site, card=number, launch_count=count)
        for site, label, number in summary[card].drop_duplicates().itertuples(index=False, name=None)
        for count in launch_counts
        if (site, label, number, count) not in have
    ]
