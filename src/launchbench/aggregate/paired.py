"""Medians of two quantities that were taken together, and of their ratio, for many samples at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from launchbench.aggregate.stats import CONFIDENCE, MIN_SAMPLE, RESAMPLES, Batch, Floats

_SEED = 20_011
_BATCH_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Paired:
    """Median of the first and of the second quantity, and the first divided by the second; ends as in ``Batch``."""

    first: Batch
    second: Batch
    ratio: Batch


def paired_medians(first: Floats, second: Floats) -> Paired:
    """Medians with percentile bootstrap intervals (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993).

    Pairs are resampled, so that what disturbs both at once cancels in the ratio.

    Args:
        first: shape (samples, n), n >= 1, finite.
        second: same shape, medians above 0.

    Returns:
        NaN ends where n is below ``stats.MIN_SAMPLE``, or where the resamples do not differ.
    """
    samples, n = first.shape
    value = _medians(first, second)
    low, high = np.full(value.shape, np.nan), np.full(value.shape, np.nan)
    if n >= MIN_SAMPLE:
        from scipy.stats import bootstrap  # takes a second to load, and most tables need none of it

        interval = bootstrap(
            (first, second),
            _medians,
            paired=True,
            vectorized=True,
            axis=-1,
            n_resamples=RESAMPLES,
            batch=min(RESAMPLES, max(1, _BATCH_BYTES // (8 * n * samples))),
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(_SEED),
        ).confidence_interval
        low, high = np.array(interval.low), np.array(interval.high)
        # An interval of no width would claim a certainty that quantised clocks do not give.
        collapsed = high - low <= 1e-9 * np.abs(value)
        low[collapsed] = high[collapsed] = np.nan
    return Paired(*(Batch(value[k], low[k], high[k]) for k in range(3)))


def _medians(first: Floats, second: Floats, axis: int = -1) -> Floats:
    one, two = np.median(np.stack([first, second]), axis=axis)
    return np.stack([one, two, one / two])
