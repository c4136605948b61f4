"""Statistics on plain arrays: the median of repetitions within one process, and a straight line.

Reads no file and knows no column: it must not import pandas. A statistic that its sample cannot carry
is not given; the reason is given instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
RESAMPLES = 2000
MIN_SAMPLE = 6
"""Smallest sample whose median can have a 95 % interval.

The widest interval a sample offers is its whole range, which holds the population's median with
probability 1 - 2 * 0.5**n (both tails of the binomial that all n lie on one side): 93.75 % for n = 5,
96.9 % for n = 6.
"""

TOO_FEW = f"fewer than {MIN_SAMPLE} repetitions cannot carry a {CONFIDENCE:.0%} interval of a median"
NO_SPREAD = "the resamples do not differ: the spread is below the resolution of the clock"

_SEED = 20_011

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; without one, ``low`` and ``high`` are None and ``reason`` says why."""

    value: float
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Batch:
    """Estimates of many samples: three arrays of shape (samples,); NaN ends where there is no interval."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Line:
    """A straight line ``y = intercept + slope * x``."""

    intercept: float
    slope: float


def median(sample: ArrayLike) -> Estimate:
    """Median of a sample of shape (n,), n >= 1, in the unit of the sample.

    The interval is the percentile bootstrap of ``scipy.stats.bootstrap`` (Efron and Tibshirani, "An
    Introduction to the Bootstrap", 1993, chapter 13) with a fixed seed.

    Raises:
        ValueError: the sample is empty, not one-dimensional or not finite.
    """
    values = _sample(sample)
    value = float(np.median(values))
    if len(values) < MIN_SAMPLE:
        return Estimate(value, reason=TOO_FEW)
    from scipy.stats import bootstrap  # takes a second to load, and most tables need none of it

    interval = bootstrap(
        (values,),
        np.median,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    low, high = float(interval.low), float(interval.high)
    # An interval of no width would claim a certainty that quantised clocks do not give.
    if high - low <= 1e-9 * abs(value):
        return Estimate(value, reason=NO_SPREAD)
    return Estimate(value, low, high)


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Straight line through the points, every point weighted by 1/y.

    Minimises the squares of the relative deviations ``(y - intercept - slope * x) / y``, so that a small x
    counts as much as a large one (Draper and Smith, "Applied Regression Analysis", 1998, section 9.2).

    Args:
        x: shape (n,), distinct, n >= 2.
        y: shape (n,), positive.

    Returns:
        Intercept in the unit of y, slope in units of y per x.

    Raises:
        ValueError: fewer than two points, a repeated x, or a y that is not positive and finite.
    """
    xs, ys = _sample(x), _sample(y)
    if xs.shape != ys.shape or (ys <= 0).any() or len(np.unique(xs)) != len(xs) or len(xs) < 2:
        raise ValueError("a line needs two points or more of distinct x, each with a positive y")
    # x is scaled to the order of 1, else the two columns differ by N and the solution loses digits.
    scale = float(np.abs(xs).max())
    design = np.column_stack([np.ones(len(xs)), xs / scale]) / ys[:, None]
    parameters, *_ = np.linalg.lstsq(design, np.ones(len(xs)), rcond=None)
    return Line(float(parameters[0]), float(parameters[1]) / scale)


def _sample(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"expected finite numbers in one dimension, got shape {array.shape}")
    return array
