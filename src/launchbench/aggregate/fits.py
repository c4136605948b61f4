"""A straight line of GPU time over N per card, launch path, kernel and mode. It reads no file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from launchbench.aggregate import stats, trials
from launchbench.aggregate.cells import current
from launchbench.aggregate.stats import Estimate
from launchbench.results import columns
from launchbench.results.protocol import COMPARED_MODES, QUEUE_DEPTH

WRONG_MODEL_PERCENT = 10.0
"""A straight line that misses a point by more than this is called the wrong model."""

OTHER_TRIALS = f"not every N has the same {trials.MIN_TRIALS} trials or more"

_KEY = [column.name for column in columns.FITS if column.name in {one.name for one in columns.IDENTITY}]
_KEY += ["launch_path", "kernel"]


def fit(summary: pd.DataFrame, trial_rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of ``columns.FITS``: GPU time over N.

    Where every N has the same three trials or more, a line is drawn through each trial and their mean is given, with
    its t interval; else one through the means, without.

    Args:
        summary: rows of ``columns.SUMMARY``, and ``cell``.
        trial_rows: rows of ``columns.TRIALS``, and ``cell``.
    """
    times: dict[tuple[int, str], dict[int, float]] = {}
    counted = current(trial_rows, ["cell"])
    for cell, mode, trial, time in counted[["cell", "mode", "trial", "gpu_us"]].itertuples(index=False, name=None):
        times.setdefault((cell, mode), {})[trial] = time
    rows: list[dict[str, Any]] = []
    for key, group in summary.groupby(_KEY, dropna=False, sort=True):
        identity = dict(zip(_KEY, key, strict=True))
        points = group[group["speedup"].notna()].sort_values("launch_count")
        for mode in COMPARED_MODES:
            own = [times[cell, mode] for cell in points["cell"]]
            rows.append({**identity, "mode": mode, **_line(points["launch_count"].tolist(), own, mode)})
    return pd.DataFrame(rows, columns=[column.name for column in columns.FITS])


def _line(n: list[int], times: list[dict[int, float]], mode: str) -> dict[str, Any]:
    fixed, slope, reason = _estimates(n, times)
    percent: list[float] = []
    if len(n) > 2:
        means = [_mean(own) for own in times]
        percent = [100 * abs(1 - (fixed.value + slope.value * at) / mean) for at, mean in zip(n, means, strict=True)]
    row: dict[str, Any] = {
        "points": len(n),
        "largest_residual_percent": max(percent, default=None),
        "verdict": _verdict(n, percent, mode),
        "interval_reason": reason,
    }
    if len(n) > 1:
        for name, estimate in (("fixed", fixed), ("per_launch", slope)):
            row |= {f"{name}_us": estimate.value, f"{name}_low_us": estimate.low, f"{name}_high_us": estimate.high}
    return row


def _estimates(n: list[int], times: list[dict[int, float]]) -> tuple[Estimate, Estimate, str]:
    none = Estimate(np.nan)
    if len(n) < 2:
        return none, none, ""
    shared = sorted(set.intersection(*(set(own) for own in times)))
    if len(shared) >= trials.MIN_TRIALS and all(len(own) == len(shared) for own in times):
        fixed, slope = trials.line(n, np.array([[own[trial] for own in times] for trial in shared]))
        return fixed, slope, fixed.reason or slope.reason
    line = stats.fit_line(n, [_mean(own) for own in times])
    fewest = min(len(own) for own in times)
    reason = trials.TOO_FEW_TRIALS if fewest < trials.MIN_TRIALS else OTHER_TRIALS
    return Estimate(line.intercept), Estimate(line.slope), reason


def _mean(times: dict[int, float]) -> float:
    return float(np.mean(list(times.values())))


def _verdict(n: list[int], percent: list[float], mode: str) -> str:
    if len(n) < 2:
        return "no line: no usable N" if not n else "no line: one N only"
    if len(n) == 2:
        return "line through two points: nothing left to judge it by"
    largest = max(percent)
    if largest <= WRONG_MODEL_PERCENT:
        return f"straight line: every N within {largest:.1f} %"
    worst = n[percent.index(largest)]
    verdict = f"a straight line is the wrong model: {largest:.0f} % off at N = {worst:,}"
    past = [count for count in n if count > QUEUE_DEPTH]
    if past and len(past) < len(n) and mode == "loop":
        verdict += (
            f"; N = {', '.join(f'{count:,}' for count in past)} lies past the queue's depth of about "
            f"{QUEUE_DEPTH:,} launches, "
            "where issuing can have to wait for the device"
        )
    return verdict
