"""One row per job, launch path and kernel; and a straight line over N per card.

It may not pool rows that differ in site, card, host, driver, compiler, protocol, launch path or kernel.
It reads no file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from launchbench.aggregate import stats
from launchbench.results import columns, flags
from launchbench.results.protocol import MODES, QUEUE_DEPTH
from launchbench.results.record import Block

_ENDS: dict[str, Callable[[list[float]], Any]] = {"_us": np.median, "_min_us": np.min, "_max_us": np.max}

SAME_MEASUREMENT = [
    "site",
    "label",
    "card",
    "hostname",
    "driver_version",
    "nvcc",
    "launch_path",
    "kernel",
    "launch_count",
    "protocol_hash",
]
"""Jobs equal in all of these measured the same thing; the newest of them counts."""

ONE_OFF = [f"{step}{end}" for step in ("capture", "instantiate", "upload", "first_replay") for end in _ENDS]

WRONG_MODEL_PERCENT = 10.0
"""A straight line that misses a point by more than this is called the wrong model."""

BELOW_DEPTH, PAST_DEPTH = "below-queue-depth", "past-queue-depth"

_IDENTITY = [column.name for column in columns.IDENTITY]
_FIT_KEY = [*(name for name in _IDENTITY if name not in ("run_id", "started_utc")), "launch_path", "kernel"]

Floats = NDArray[np.float64]


def summarise(raw: pd.DataFrame, blocks: pd.DataFrame, pairs: flags.Pairs) -> pd.DataFrame:
    """The columns of ``columns.SUMMARY``, one row for each row of ``blocks`` and in its order.

    Args:
        raw: repetitions as :func:`launchbench.results.flags.find_pairs` takes them.
        blocks: identity, launch path, kernel, N and one-off costs of each block.
        pairs: which repetitions are used.
    """
    count = len(blocks)
    present, used = (np.bincount(at, minlength=count) for at in (pairs.block, pairs.block[pairs.used]))
    figures = _medians(raw, pairs, used)
    frame = pd.concat([blocks.reset_index(drop=True), pd.DataFrame(figures)], axis=1)
    n = frame["launch_count"].astype("int64")
    frame["repetitions_used"] = used
    frame["repetitions_flagged"] = present - used
    reasons = flags.count_reasons(pairs, count)
    frame["flags"] = [
        reason or ("" if here else "; ".join(filter(None, (flag, flags.NO_REPETITIONS))))
        for reason, here, flag in zip(reasons, present, blocks["flag"], strict=True)
    ]
    frame["loop_us_per_launch"] = frame["loop_us"] / n
    frame["replay_us_per_node"] = frame["replay_us"] / n
    # What a block cost once is worth as much as the block: nothing after a wrong count.
    frame[ONE_OFF] = frame[ONE_OFF].astype("float64").where(frame["repetitions_used"] > 0)
    frame["break_even_replays"] = break_even(
        frame["capture_us"] + frame["instantiate_us"] + frame["upload_us"],
        frame["loop_total_us"] - frame["replay_total_us"],
    )
    frame["regime"] = np.where(n > QUEUE_DEPTH, PAST_DEPTH, BELOW_DEPTH)
    frame["superseded"] = _superseded(frame)
    return frame[[column.name for column in columns.SUMMARY]]


def one_off(block: Block) -> dict[str, float]:
    """Median, smallest and largest sample of each one-off cost of a block, by column, and their number."""
    steps = {"capture": block.capture_us, "instantiate": block.instantiate_us}
    steps |= {"upload": block.upload_us, "first_replay": block.first_replay_us}
    figures = {f"{step}{end}": float(of(samples)) for step, samples in steps.items() for end, of in _ENDS.items()}
    return {"one_off_samples": len(block.capture_us), **figures}


def break_even(once_us: pd.Series[float], saved_us: pd.Series[float]) -> pd.Series[float]:
    """Replays after which a graph has paid for itself: cost once / saving per replay, rounded up.

    Infinite where a replay saves nothing, NaN where either is unknown. Both are host times, since capture,
    instantiation and upload are.
    """
    replays = pd.Series(np.ceil((once_us / saved_us.where(saved_us > 0)).to_numpy()), once_us.index)
    return replays.mask((saved_us <= 0) & once_us.notna(), np.inf)


def _medians(raw: pd.DataFrame, pairs: flags.Pairs, used: NDArray[np.int64]) -> dict[str, Floats]:
    """Medians of every block, shape (blocks,); blocks with equally many used pairs go through together."""
    loop = raw["mode_code"].to_numpy() == MODES.index("loop")
    keep = pairs.used[pairs.of_row]
    # A used pair has exactly one row of each mode, so both sides come in the same order.
    value = {
        (mode, clock): raw[f"{clock}_us"].to_numpy(np.float64)[keep & side]
        for mode, side in (("loop", loop), ("replay", ~loop))
        for clock in ("gpu", "issue", "total")
    }
    ends = [f"{name}{end}" for name in ("loop", "replay") for end in ("_us", "_low_us", "_high_us")]
    names = [*ends, *(f"{mode}_{clock}_us" for mode in ("loop", "replay") for clock in ("issue", "total"))]
    names += ["speedup", "speedup_low", "speedup_high"]
    result = {name: np.full(len(used), np.nan) for name in names}
    start = np.concatenate([[0], np.cumsum(used)[:-1]]) if len(used) else used
    for n in np.unique(used[used > 0]):
        at = np.flatnonzero(used == n)
        rows = start[at][:, None] + np.arange(n)
        medians = stats.paired_medians(value["loop", "gpu"][rows], value["replay", "gpu"][rows])
        for name, unit, batch in (
            ("loop", "_us", medians.first),
            ("replay", "_us", medians.second),
            ("speedup", "", medians.ratio),
        ):
            result[f"{name}{unit}"][at] = batch.value
            result[f"{name}_low{unit}"][at] = batch.low
            result[f"{name}_high{unit}"][at] = batch.high
        for mode in ("loop", "replay"):
            for clock in ("issue", "total"):
                result[f"{mode}_{clock}_us"][at] = np.median(value[mode, clock][rows], axis=1)
    return result


def _superseded(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether a newer job stands for the row; a job without a valid sample never stands for one that has any.

    Rows come sorted by measurement and time.
    """
    groups = frame.groupby(SAME_MEASUREMENT, dropna=False, sort=False)
    newer = groups.cumcount(ascending=False)
    usable = (frame["repetitions_used"] > 0).astype("int64")
    newer_usable = usable.groupby(groups.ngroup()).transform("sum") - usable.groupby(groups.ngroup()).cumsum()
    return ((newer_usable > 0) | ((usable == 0) & (newer > 0))).to_numpy(bool)


def fit(summary: pd.DataFrame) -> pd.DataFrame:
    """The columns of ``columns.FITS``: GPU time over N, from the rows that are not superseded."""
    current = summary[~summary["superseded"]]
    rows: list[dict[str, Any]] = []
    for key, group in current.groupby(_FIT_KEY, dropna=False, sort=True):
        identity = dict(zip(_FIT_KEY, key, strict=True))
        points = group[group["repetitions_used"] > 0].sort_values("launch_count")
        n = points["launch_count"].tolist()
        for mode in MODES:
            rows.append({**identity, "mode": mode, **_line(n, points[f"{mode}_us"].tolist(), mode)})
    return pd.DataFrame(rows, columns=[column.name for column in columns.FITS])


def _line(n: list[int], time_us: list[float], mode: str) -> dict[str, Any]:
    line = stats.fit_line(n, time_us) if n else stats.Line(0, None, None, ())
    row: dict[str, Any] = {
        "points": line.points,
        "largest_residual_percent": line.largest_residual_percent if line.points > 2 else None,
        "verdict": _verdict(line, n, mode),
    }
    for name, estimate in (("fixed", line.intercept), ("per_launch", line.slope)):
        row[f"{name}_us"] = estimate and estimate.value
        row[f"{name}_low_us"] = estimate and estimate.low
        row[f"{name}_high_us"] = estimate and estimate.high
    return row


def _verdict(line: stats.Line, n: list[int], mode: str) -> str:
    if line.points < 2:
        return "no line: no usable N" if not line.points else "no line: one N only"
    if line.points == 2:
        return "line through two points: nothing left to judge it by"
    percent = [abs(value) for value in line.residuals_percent]
    largest = max(percent)
    if largest <= WRONG_MODEL_PERCENT:
        return f"straight line: every N within {largest:.1f} %"
    worst = n[percent.index(largest)]
    verdict = f"a straight line is the wrong model: {largest:.0f} % off at N = {worst}"
    past = [count for count in n if count > QUEUE_DEPTH]
    if past and len(past) < len(n) and mode == "loop":
        verdict += (
            f"; N = {', '.join(map(str, past))} lies past the queue's depth of about {QUEUE_DEPTH} launches, "
            "where issuing can have to wait for the device"
        )
    return verdict
