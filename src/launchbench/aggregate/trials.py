"""Intervals whose unit is the trial: a fresh process on the card.

Repetitions within a process agree far better than two processes do, so an interval made from repetitions
claims too much. Here every trial becomes one figure and the interval comes from how the trials differ, by
Student's t, which stays honest for three of them. Plain arrays only: no file, no column, no pandas.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from launchbench.aggregate.stats import CONFIDENCE, Batch, Estimate, fit_line

MIN_TRIALS = 3
"""Fewest trials that carry an interval: with two, Student's t spans 12.7 standard errors to either side."""

TOO_FEW_TRIALS = f"fewer than {MIN_TRIALS} trials cannot carry an interval between processes"
ALL_EQUAL = "the trials do not differ: their spread is below the resolution of the clock"
NOT_POSITIVE = "a trial's figure is not above zero"
NO_SAVING = "the trials do not agree that a replay saves anything"

Floats = NDArray[np.float64]


def trial_figure(values: ArrayLike, placements: ArrayLike) -> float:
    """Mean over the placements of each placement's median, in the unit of ``values``.

    The median drops what disturbs single repetitions. Over placements the mean is taken: their times are a few
    discrete levels, and a median would jump from one to the next.

    Args:
        values: shape (n,), n >= 1; repetitions of one process.
        placements: shape (n,); number of the placement of each.

    Raises:
        ValueError: shapes differ, or nothing is given.
    """
    one, where = np.asarray(values, np.float64), np.asarray(placements)
    if one.shape != where.shape or one.ndim != 1 or not len(one):
        raise ValueError(f"repetitions of shape {one.shape}, placements of shape {where.shape}")
    return float(placement_medians(one, where).mean())


def placement_medians(values: Floats, placements: NDArray[np.integer]) -> Floats:
    """Median of each placement, shape (placements,), in the order of their numbers; arguments as above."""
    order = np.lexsort([values, placements])
    ordered, where = values[order], placements[order]
    starts = np.flatnonzero(np.concatenate([[True], where[1:] != where[:-1]]))
    size = np.diff(np.concatenate([starts, [len(where)]]))
    result: Floats = 0.5 * (ordered[starts + (size - 1) // 2] + ordered[starts + size // 2])
    return result


def mean(trials: ArrayLike) -> Batch:
    """Mean over trials with its t interval, for many cells at once.

    Mean +- t(n - 1) * s / sqrt(n) (Student, "The probable error of a mean", Biometrika 6, 1908).

    Args:
        trials: shape (cells, n), n >= 1, finite; a trial's figure each.

    Returns:
        Batches of shape (cells,); NaN ends where n < ``MIN_TRIALS`` or the trials do not differ.
    """
    array = _cells(trials)
    value, half = _t_interval(array)
    return Batch(value, value - half, value + half)


def mean_time(trials: ArrayLike) -> Batch:
    """As :func:`mean`, of figures that are never below zero: neither is the lower end."""
    batch = mean(trials)
    return Batch(batch.value, np.maximum(batch.low, 0.0), batch.high)


def ratio(first: ArrayLike, second: ArrayLike) -> Batch:
    """First divided by second, trial by trial: geometric mean and t interval of the logarithms.

    Both figures of a trial come from the same process, so what slows that process down as a whole cancels.

    Args:
        first: shape (cells, n), above 0.
        second: same shape, above 0.
    """
    one, two = _cells(first), _cells(second)
    if one.shape != two.shape or (one <= 0).any() or (two <= 0).any():
        raise ValueError(f"paired figures above zero, got shapes {one.shape} and {two.shape}")
    value, half = _t_interval(np.log(one) - np.log(two))
    return Batch(np.exp(value), np.exp(value - half), np.exp(value + half))


def ratio_between(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """First set of trials divided by the second, which were other processes: Welch's t interval of the logarithms.

    Degrees of freedom by Welch and Satterthwaite (Welch, "The generalization of Student's problem when several
    different population variances are involved", Biometrika 34, 1947).
    """
    if min(first, default=0.0) <= 0 or min(second, default=0.0) <= 0:
        return Estimate(math.nan, reason=NOT_POSITIVE)
    logs = [np.log(np.asarray(side, np.float64)) for side in (first, second)]
    value = float(logs[0].mean() - logs[1].mean())
    if min(map(len, logs)) < MIN_TRIALS:
        return Estimate(math.exp(value), reason=TOO_FEW_TRIALS)
    parts = [float(side.var(ddof=1)) / len(side) for side in logs]
    if sum(parts) <= 0 or _no_spread(math.sqrt(sum(parts)), 1.0):
        return Estimate(math.exp(value), reason=ALL_EQUAL)
    degrees = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, logs, strict=True))
    half = float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2)) * math.sqrt(sum(parts))
    return Estimate(math.exp(value), math.exp(value - half), math.exp(value + half))


def break_even(once_us: Sequence[float], saved_us: Sequence[float]) -> Estimate:
    """Replays after which a graph has paid for what making it cost; ``inf`` means never.

    Args:
        once_us: capture, instantiation and upload of each trial, above 0.
        saved_us: what one replay saves against the loop, same trials; 0 or less where it saves nothing.

    Returns:
        Once divided by saved: geometric mean over the trials, with the t interval of their logarithms. Where the
        trials leave open whether anything is saved the upper end is ``inf``; where none saves anything the value is.
    """
    once, saved = np.asarray(once_us, np.float64), np.asarray(saved_us, np.float64)
    if once.shape != saved.shape or once.ndim != 1 or not len(once) or (once <= 0).any():
        raise ValueError("a cost above zero and a saving for each trial")
    if (saved <= 0).all():
        return Estimate(math.inf)
    value = float(once.mean() / saved.mean()) if saved.mean() > 0 else math.inf
    if len(once) < MIN_TRIALS:
        return Estimate(value, reason=TOO_FEW_TRIALS)
    cost, saving = mean(once[None]), mean(saved[None])
    if (saved <= 0).any() or saving.low[0] <= 0:
        ends = [batch for batch in (cost.low[0] / saving.high[0], once.min() / saved.max()) if batch > 0]
        return Estimate(value, float(min(ends)), math.inf, NO_SAVING)
    return single(ratio(once[None], saved[None]), len(once))


def line(x: Sequence[float], trials: ArrayLike) -> tuple[Estimate, Estimate]:
    """Intercept and slope of the straight line through each trial's points: mean over trials, t interval.

    Args:
        x: shape (points,), distinct.
        trials: shape (n, points), above 0; a trial's figures at these x.
    """
    lines = [fit_line(x, row) for row in np.asarray(trials, np.float64)]
    results = []
    for name in ("intercept", "slope"):
        values = [getattr(one, name) for one in lines]
        batch = mean([values])
        results.append(single(batch, len(values)))
    return results[0], results[1]


def single(batch: Batch, trials: int) -> Estimate:
    """The only cell of a batch, with the reason where it has no interval."""
    value, low, high = float(batch.value[0]), float(batch.low[0]), float(batch.high[0])
    if math.isnan(low):
        return Estimate(value, reason=TOO_FEW_TRIALS if trials < MIN_TRIALS else ALL_EQUAL)
    return Estimate(value, low, high)


@functools.cache
def _quantile(degrees: int) -> float:
    return float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2))


def _t_interval(array: Floats) -> tuple[Floats, Floats]:
    n = array.shape[1]
    value = array.mean(axis=1)
    if n < MIN_TRIALS:
        return value, np.full(len(array), np.nan)
    half = _quantile(n - 1) * array.std(axis=1, ddof=1) / math.sqrt(n)
    return value, np.where(_no_spread(half, np.abs(value)), np.nan, half)


def _no_spread(half: float | Floats, value: float | Floats) -> NDArray[np.bool_]:
    # An interval of no width would claim a certainty that quantised clocks do not give.
    result: NDArray[np.bool_] = np.asarray(half) <= 1e-9 * np.maximum(np.asarray(value), 1e-3)
    return result


def _cells(trials: ArrayLike) -> Floats:
    array = np.asarray(trials, np.float64)
    if array.ndim != 2 or not array.shape[1] or not np.isfinite(array).all():
        raise ValueError(f"expected finite figures of shape (cells, trials), got shape {array.shape}")
    return array
