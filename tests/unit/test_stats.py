"""Statistics against values worked out by hand, other implementations, and their own promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from launchbench.aggregate import stats


@pytest.mark.parametrize(("sample", "expected"), [([3.0], 3.0), ([1, 9, 2], 2.0), ([4, 1, 2, 9], 3.0)])
def test_median_is_the_middle(sample: list[float], expected: float) -> None:
    assert stats.median(sample).value == expected


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_small_sample_has_a_median_but_no_interval(n: int) -> None:
    estimate = stats.median(np.arange(1.0, n + 1))
    assert estimate.value == (n + 1) / 2
    assert (estimate.low, estimate.high, estimate.reason) == (None, None, stats.TOO_FEW)


def test_six_are_enough_for_an_interval() -> None:
    estimate = stats.median([1, 2, 3, 4, 5, 6])
    assert estimate.low is not None and estimate.high is not None
    assert 1 <= estimate.low < 3.5 < estimate.high <= 6
    assert estimate.reason == ""


@pytest.mark.parametrize("sample", [[7.25] * 50, [7.25] * 49 + [9.0]])
def test_an_interval_without_width_is_not_claimed(sample: list[float]) -> None:
    assert stats.median(sample) == stats.Estimate(7.25, reason=stats.NO_SPREAD)


def test_intervals_cover_the_true_median_about_as_often_as_they_say() -> None:
    draws = np.random.default_rng(1).lognormal(0, 0.2, (200, 50))
    estimates = [stats.median(draw) for draw in draws]
    covered = np.mean([one.low is not None and one.high is not None and one.low <= 1 <= one.high for one in estimates])
    assert 0.91 <= covered <= 0.99


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.1, 1e6), min_size=6, max_size=40))
def test_an_interval_stays_within_the_sample_and_is_repeatable(sample: list[float]) -> None:
    estimate = stats.median(sample)
    assert estimate == stats.median(sample)
    assert estimate.value == np.median(sample)
    if estimate.low is not None and estimate.high is not None:
        assert min(sample) <= estimate.low < estimate.high <= max(sample)


@pytest.mark.parametrize("bad", [[], [1.0, float("nan")], [[1.0]], [float("inf")]])
def test_no_median_of_what_is_no_sample(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        stats.median(bad)


def test_line_agrees_with_curve_fit_under_relative_weights() -> None:
    x = np.array([8.0, 64, 512, 1024, 4096])
    y = (6 + 0.75 * x) * np.array([1.02, 0.99, 1.01, 0.985, 1.0])
    parameters, _ = optimize.curve_fit(lambda n, a, b: a + b * n, x, y, p0=(1, 1), sigma=y)
    line = stats.fit_line(x.tolist(), y.tolist())
    assert (line.intercept, line.slope) == pytest.approx(tuple(parameters), rel=1e-4)
    exact = stats.fit_line([8, 4096], [3 + 4.5 * 8, 3 + 4.5 * 4096])
    assert (exact.intercept, exact.slope) == pytest.approx((3, 4.5), rel=1e-9)


def test_small_x_counts_as_much_as_large_x() -> None:
    n = [8, 64, 512, 4096]
    y = [3 + 4.5 * count for count in n]
    y[3] *= 1.05
    line = stats.fit_line(n, y)
    # Unweighted, 5 % of the largest point would move the fixed part by tens of its own size.
    assert abs(line.intercept - 3) < 3


@pytest.mark.parametrize(
    ("x", "y"), [([1, 1], [2, 3]), ([1, 2], [0, 3]), ([1, 2], [2, -1]), ([], []), ([1], [2]), ([1, 2], [1])]
)
def test_a_line_needs_points_of_distinct_x_and_positive_y(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError):
        stats.fit_line(x, y)
