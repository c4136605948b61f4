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
    draws = np.random.default_rng(1).lognormal(0, 0.2, (600, 50))
    batch = stats.paired_medians(draws, np.ones_like(draws)).first
    covered = ((batch.low <= 1) & (batch.high >= 1)).mean()
    assert 0.92 <= covered <= 0.985


def test_pairs_are_resampled_together() -> None:
    rng = np.random.default_rng(2)
    shared = 1 + 0.2 * rng.standard_normal(50)
    first = 100 * shared * (1 + 0.001 * rng.standard_normal(50))
    together = stats.ratio_of_medians(first, 20 * shared)
    apart = stats.ratio_of_medians(first, rng.permutation(20 * shared))
    assert together.low is not None and together.high is not None
    assert apart.low is not None and apart.high is not None
    assert together.value == pytest.approx(5, rel=0.01)
    assert together.high - together.low < 0.2 * (apart.high - apart.low)


def test_a_constant_ratio_has_no_interval() -> None:
    second = np.random.default_rng(3).lognormal(0, 0.3, 40)
    assert stats.ratio_of_medians(2 * second, second) == stats.Estimate(2.0, reason=stats.NO_SPREAD)


def test_a_row_does_not_depend_on_the_other_rows() -> None:
    rng = np.random.default_rng(4)
    first, second = rng.lognormal(3, 0.1, (130, 21)), rng.lognormal(1, 0.1, (130, 21))
    whole = stats.paired_medians(first, second)
    alone = stats.paired_medians(first[117:118], second[117:118])
    for name in ("first", "second", "ratio"):
        for end in ("value", "low", "high"):
            assert getattr(getattr(whole, name), end)[117] == getattr(getattr(alone, name), end)[0]


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


def test_line_recovers_its_parameters() -> None:
    n = [8, 64, 512, 4096]
    line = stats.fit_line(n, [3 + 4.5 * count for count in n])
    assert line.intercept is not None and line.slope is not None
    assert line.intercept.value == pytest.approx(3, rel=1e-9)
    assert line.slope.value == pytest.approx(4.5, rel=1e-12)
    assert line.slope.reason == line.intercept.reason == stats.ON_THE_LINE
    assert line.slope.low is None
    assert line.largest_residual_percent == pytest.approx(0, abs=1e-9)


def test_line_agrees_with_curve_fit_under_relative_weights() -> None:
    x = np.array([8.0, 64, 512, 1024, 4096])
    y = (6 + 0.75 * x) * np.array([1.02, 0.99, 1.01, 0.985, 1.0])
    parameters, covariance = optimize.curve_fit(lambda n, a, b: a + b * n, x, y, p0=(1, 1), sigma=y)
    line = stats.fit_line(x.tolist(), y.tolist())
    for estimate, value, variance in zip((line.intercept, line.slope), parameters, np.diag(covariance), strict=True):
        assert estimate is not None and estimate.low is not None and estimate.high is not None
        assert estimate.value == pytest.approx(value, rel=1e-4)
        # Student's t for 95 % and 3 degrees of freedom, from a printed table.
        assert estimate.high - estimate.value == pytest.approx(3.182 * np.sqrt(variance), rel=1e-3)
        assert estimate.value - estimate.low == pytest.approx(estimate.high - estimate.value)


def test_small_x_counts_as_much_as_large_x() -> None:
    n = [8, 64, 512, 4096]
    y = [3 + 4.5 * count for count in n]
    y[3] *= 1.05
    line = stats.fit_line(n, y)
    assert line.intercept is not None
    # Unweighted, 5 % of the largest point would move the fixed part by tens of its own size.
    assert abs(line.intercept.value - 3) < 3


def test_two_points_give_a_line_without_interval() -> None:
    line = stats.fit_line([8, 64], [43.0, 295.0])
    assert line.slope == stats.Estimate(pytest.approx(4.5), reason=stats.TWO_POINTS)
    assert line.intercept == stats.Estimate(pytest.approx(7.0), reason=stats.TWO_POINTS)


def test_one_point_gives_no_line() -> None:
    line = stats.fit_line([8], [43.0])
    assert (line.points, line.intercept, line.slope, line.largest_residual_percent) == (1, None, None, None)


def test_residuals_are_in_percent_of_the_point() -> None:
    line = stats.fit_line([1, 2, 3], [10.0, 30.0, 30.0])
    assert line.intercept is not None and line.slope is not None
    fitted = [line.intercept.value + line.slope.value * x for x in (1, 2, 3)]
    expected = [100 * (1 - f / y) for f, y in zip(fitted, (10, 30, 30), strict=True)]
    assert line.residuals_percent == pytest.approx(expected)
    assert line.largest_residual_percent == pytest.approx(max(map(abs, expected)))


@pytest.mark.parametrize(("x", "y"), [([1, 1], [2, 3]), ([1, 2], [0, 3]), ([1, 2], [2, -1]), ([], []), ([1, 2], [1])])
def test_a_line_needs_distinct_x_and_positive_y(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError):
        stats.fit_line(x, y)
