"""Statistics on plain arrays: medians, ratios of medians and straight lines, each with what it can claim.

Reads no file and knows no column: it must not import pandas. A statistic that its sample cannot carry
is not given; the reason is given instead.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats as scipy_stats

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
TWO_POINTS = "two points determine a line and leave nothing to judge it by"
ON_THE_LINE = "the points lie exactly on the line"

_SEED = 20_011
_CHUNK_BYTES = 4 * 2**20

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
class PairedMedians:
    """Median of the first and of the second quantity, and the first divided by the second."""

    first: Batch
    second: Batch
    ratio: Batch


@dataclass(frozen=True)
class Line:
    """A straight line ``y = intercept + slope * x``; ``residuals_percent`` in the order of the points.

    With a single point ``intercept`` and ``slope`` are None.
    """

    points: int
    intercept: Estimate | None
    slope: Estimate | None
    residuals_percent: tuple[float, ...]

    @property
    def largest_residual_percent(self) -> float | None:
        """Largest deviation of a point from the line, as a share of the point, without sign."""
        return max(map(abs, self.residuals_percent), default=None)


def median(sample: ArrayLike) -> Estimate:
    """Median of a sample of shape (n,), n >= 1, in the unit of the sample.

    The interval is the percentile bootstrap of ``scipy.stats.bootstrap`` (Efron and Tibshirani, "An
    Introduction to the Bootstrap", 1993, chapter 13) with a fixed seed.

    Raises:
        ValueError: the sample is empty, not one-dimensional or not finite.
    """
    values = _sample(sample, 1)
    return _single(paired_medians(values[None], np.ones_like(values)[None]).first, len(values))


def ratio_of_medians(first: ArrayLike, second: ArrayLike) -> Estimate:
    """Median of ``first`` divided by median of ``second``, both of shape (n,), n >= 1.

    The i-th entries were taken together, so pairs are resampled: what disturbs both at once cancels.

    Raises:
        ValueError: shapes differ, or a sample is empty, not one-dimensional or not finite.
    """
    one, two = _sample(first, 1), _sample(second, 1)
    return _single(paired_medians(one[None], two[None]).ratio, len(one))


def paired_medians(first: ArrayLike, second: ArrayLike) -> PairedMedians:
    """Medians and their ratio for many paired samples of one size, as :func:`ratio_of_medians` a row.

    Args:
        first: shape (samples, n), n >= 1; row k belongs with row k of ``second``.
        second: same shape; its medians must not be 0.

    A row's result does not depend on which other rows are given: all use the same resampled indices.

    Raises:
        ValueError: shapes differ, or an array is empty, not two-dimensional or not finite.
    """
    one, two = _sample(first, 2), _sample(second, 2)
    if one.shape != two.shape:
        raise ValueError(f"paired samples of shapes {one.shape} and {two.shape}")
    rows, n = one.shape
    value = _three(one, two, axis=-1)
    low, high = np.full((3, rows), np.nan), np.full((3, rows), np.nan)
    if n >= MIN_SAMPLE:
        for part, batch in _chunks(rows, n):
            interval = scipy_stats.bootstrap(
                (one[part], two[part]),
                _three,
                paired=True,
                vectorized=True,
                axis=-1,
                n_resamples=RESAMPLES,
                batch=batch,
                confidence_level=CONFIDENCE,
                method="percentile",
                rng=np.random.default_rng(_SEED),
            ).confidence_interval
            low[:, part], high[:, part] = interval.low, interval.high
        # An interval of no width would claim a certainty that quantised clocks do not give.
        collapsed = high - low <= 1e-9 * np.abs(value)
        low[collapsed] = high[collapsed] = np.nan
    return PairedMedians(*(Batch(value[k], low[k], high[k]) for k in range(3)))


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Straight line through the points, every point weighted by 1/y.

    Minimises the squares of the relative deviations ``(y - intercept - slope * x) / y``, so that a small x
    counts as much as a large one. Standard errors come from the usual covariance of weighted least squares
    with the residual variance on n - 2 degrees of freedom, intervals from Student's t (Draper and Smith,
    "Applied Regression Analysis", 1998, sections 1.4 and 9.2).

    Args:
        x: shape (n,), distinct, n >= 1.
        y: shape (n,), positive.

    Returns:
        Intercept in the unit of y, slope in units of y per x. One point: no line. Two: no interval.

    Raises:
        ValueError: no point, a repeated x, or a y that is not positive and finite.
    """
    xs, ys = _sample(x, 1), _sample(y, 1)
    if xs.shape != ys.shape or (ys <= 0).any() or len(np.unique(xs)) != len(xs):
        raise ValueError("a line needs distinct x, each with a positive y")
    n = len(xs)
    if n == 1:
        return Line(1, None, None, ())
    # x is scaled to the order of 1, else the two columns differ by N and the solution loses digits.
    scale = float(np.abs(xs).max()) or 1.0
    design = np.column_stack([np.ones(n), xs / scale]) / ys[:, None]
    parameters, *_ = np.linalg.lstsq(design, np.ones(n), rcond=None)
    fitted = parameters[0] + parameters[1] * xs / scale
    relative = 1 - fitted / ys
    percent = tuple(float(value) for value in 100 * relative)
    values = (float(parameters[0]), float(parameters[1]) / scale)
    reason = TWO_POINTS if n == 2 else ON_THE_LINE if np.abs(relative).max() < 1e-9 else ""
    if reason:
        return Line(n, Estimate(values[0], reason=reason), Estimate(values[1], reason=reason), percent)
    variance = float(relative @ relative) / (n - 2)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design))) / (1.0, scale)
    widths = _t_quantile(n - 2) * errors
    intercept, slope = (
        Estimate(value, value - float(width), value + float(width)) for value, width in zip(values, widths, strict=True)
    )
    return Line(n, intercept, slope, percent)


@functools.cache
def _t_quantile(degrees: int) -> float:
    return float(scipy_stats.t.ppf((1 + CONFIDENCE) / 2, degrees))


def _sample(values: ArrayLike, dimensions: int) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != dimensions or not array.size or not np.isfinite(array).all():
        raise ValueError(f"expected finite numbers in {dimensions} dimension(s), got shape {array.shape}")
    return array


def _three(first: Floats, second: Floats, axis: int) -> Floats:
    one, two = _fast_median(first), _fast_median(second)
    return np.stack([one, two, one / two])


def _fast_median(values: Floats) -> Floats:
    # Several times faster than numpy.median on thousands of short rows, with the same result.
    ordered = np.sort(values, axis=-1)
    n = ordered.shape[-1]
    result: Floats = 0.5 * (ordered[..., (n - 1) // 2] + ordered[..., n // 2])
    return result


def _chunks(rows: int, n: int) -> Iterator[tuple[slice, int]]:
    """Slices of the rows, and resamples at a time, that keep one array near ``_CHUNK_BYTES``."""
    step = max(1, _CHUNK_BYTES // (8 * RESAMPLES * n))
    batch = min(RESAMPLES, max(1, _CHUNK_BYTES // (8 * n)))
    for start in range(0, rows, step):
        yield slice(start, start + step), batch


def _single(batch: Batch, n: int) -> Estimate:
    value, low, high = float(batch.value[0]), float(batch.low[0]), float(batch.high[0])
    if np.isnan(low):
        return Estimate(value, reason=TOO_FEW if n < MIN_SAMPLE else NO_SPREAD)
    return Estimate(value, low, high)
