"""Intervals with the trial as their unit, and the verdict on two sets of results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from launchbench.aggregate import trials
from launchbench.aggregate.verdict import verdict


def test_a_trial_is_the_mean_over_placements_of_their_medians() -> None:
    values = [9.0, 1.0, 2.0, 10.0, 10.0, 40.0, 1.5]
    places = [0, 0, 0, 7, 7, 7, 0]
    assert trials.trial_figure(values, places) == ((1.5 + 2.0) / 2 + 10.0) / 2
    # Over two levels a median would be one of them, whichever has one placement more.
    assert trials.trial_figure([1.0, 1.0, 3.0, 3.0, 3.0], [0, 1, 2, 3, 4]) == pytest.approx(11 / 5)


def test_placement_medians_equal_numpys() -> None:
    rng = np.random.default_rng(1)
    places = rng.integers(0, 20, 301)
    values = rng.normal(size=301)
    expected = [np.median(values[places == place]) for place in np.unique(places)]
    assert trials.placement_medians(values, places) == pytest.approx(expected)


def test_the_interval_is_that_of_students_t() -> None:
    sample = [4.0, 4.2, 4.9]
    low, high = scipy_stats.ttest_1samp(sample, 0).confidence_interval(0.95)
    batch = trials.mean([sample, [1.0, 1.0, 1.0]])
    assert batch.value == pytest.approx([np.mean(sample), 1.0])
    assert (batch.low[0], batch.high[0]) == pytest.approx((low, high))
    assert np.isnan([batch.low[1], batch.high[1]]).all()
    assert trials.single(batch, 3).reason == ""
    assert trials.single(trials.mean([[1.0, 1.0, 1.0]]), 3).reason == trials.ALL_EQUAL


@pytest.mark.parametrize("sample", [[4.0], [4.0, 5.0]])
def test_one_or_two_trials_have_no_interval(sample: list[float]) -> None:
    estimate = trials.single(trials.mean([sample]), len(sample))
    assert (estimate.value, estimate.low, estimate.high) == (np.mean(sample), None, None)
    assert estimate.reason == trials.TOO_FEW_TRIALS
    assert trials.ratio_between(sample, [1.0, 2.0, 3.0]).reason == trials.TOO_FEW_TRIALS


def test_no_interval_of_a_time_reaches_below_zero() -> None:
    sample = [[4.1, 6.2, 11.6], [1.0, 1.1, 1.2]]
    plain, time = trials.mean(sample), trials.mean_time(sample)
    assert plain.low[0] < 0 == time.low[0] and time.low[1] == plain.low[1] > 0
    assert (time.value == plain.value).all() and (time.high == plain.high).all()
    assert math.isnan(trials.mean_time([[3.0]]).low[0])


def test_a_ratio_is_taken_within_each_trial() -> None:
    """A process that is slow as a whole slows loop and replay alike."""
    loop, replay = np.array([[40.0, 80.0, 60.0]]), np.array([[10.0, 20.1, 14.9]])
    batch = trials.ratio(loop, replay)
    assert batch.value[0] == pytest.approx(math.exp(np.log(loop / replay).mean()))
    assert 3.9 < batch.low[0] < 4 < batch.high[0] < 4.1


def test_two_sets_are_compared_as_welch_does() -> None:
    before, after = [10.0, 10.1, 10.3, 10.2], [11.0, 11.4, 11.1]
    interval = scipy_stats.ttest_ind(np.log(after), np.log(before), equal_var=False).confidence_interval(0.95)
    estimate = trials.ratio_between(after, before)
    assert (estimate.low, estimate.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert trials.ratio_between([0.0, 1.0, 2.0], before).reason == trials.NOT_POSITIVE
    assert trials.ratio_between([2.0] * 3, [1.0] * 3).reason == trials.ALL_EQUAL


def test_break_even() -> None:
    sure = trials.break_even([100.0, 110.0, 105.0], [10.0, 10.2, 10.1])
    assert sure.low is not None and sure.high is not None and sure.low < 10.4 < sure.high < 12
    never = trials.break_even([100.0, 110.0, 105.0], [-1.0, 0.0, -2.0])
    assert (never.value, never.low, never.high) == (math.inf, None, None)
    unsure = trials.break_even([100.0, 110.0, 105.0], [-1.0, 2.0, 5.0])
    assert unsure.value == pytest.approx(105 / 2) and unsure.high == math.inf and unsure.reason == trials.NO_SAVING
    assert unsure.low is not None and 0 < unsure.low <= 100 / 5
    assert trials.break_even([100.0], [10.0]).reason == trials.TOO_FEW_TRIALS


def test_a_line_over_trials() -> None:
    x = [8.0, 64.0, 512.0]
    through = [[2.0 + slope * n for n in x] for slope in (0.70, 0.72, 0.77)]
    fixed, slope = trials.line(x, through)
    assert fixed.value == pytest.approx(2.0)
    expected = trials.single(trials.mean([[0.70, 0.72, 0.77]]), 3)
    assert (slope.value, slope.low, slope.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_the_intervals_cover_the_truth() -> None:
    """Drawn from a known model with three trials; nominal is 95 %, and a bootstrap of three would reach 75 %."""
    rng = np.random.default_rng(7)
    drawn = rng.normal(1.0, 0.01, (3000, 3))
    batch = trials.mean(drawn)
    assert 0.94 < np.mean((batch.low < 1) & (batch.high > 1)) < 0.96
    batch = trials.ratio(4 * drawn, rng.normal(1.0, 0.02, (3000, 3)))
    assert 0.94 < np.mean((batch.low < 4) & (batch.high > 4)) < 0.96
    held = 0
    for once, saved in zip(rng.normal(500, 40, (800, 3)), rng.normal(50, 3, (800, 3)), strict=True):
        estimate = trials.break_even(once, saved)
        held += estimate.low is not None and estimate.high is not None and estimate.low < 10 < estimate.high
    assert 0.93 < held / 800 < 0.97


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ([1.0, 1.001, 0.999], [1.0005, 1.001, 0.9995], "same"),
        # Apart for certain, but by less than anybody asks for.
        ([1.0, 1.0001, 0.9999], [1.01, 1.0101, 1.0099], "same"),
        ([1.0, 1.002, 0.998], [1.03, 1.032, 1.028], "slower"),
        ([1.03, 1.032, 1.028], [1.0, 1.002, 0.998], "faster"),
        ([1.0, 1.3, 0.9], [1.03, 1.3, 0.9], "cannot tell"),
        ([1.0], [2.0], "cannot tell"),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "cannot tell"),
    ],
)
def test_verdicts(before: list[float], after: list[float], word: str) -> None:
    decided = verdict(before, after)
    assert decided.word == word
    assert bool(decided.reason) == (word == "cannot tell")


def test_how_often_the_verdict_errs() -> None:
    """Trials of a graph replay spread by 0.3 %: nothing changed, and a node pace that is 3 % higher."""
    rng = np.random.default_rng(11)
    same = [verdict(*rng.normal(1.0, 0.003, (2, 3))).word for _ in range(1500)]
    assert np.mean([word in ("faster", "slower") for word in same]) < 0.02
    assert np.mean([word == "cannot tell" for word in same]) < 0.10
    slower = [verdict(rng.normal(1.0, 0.003, 3), rng.normal(1.03, 0.003, 3)).word for _ in range(1500)]
    assert np.mean([word == "slower" for word in slower]) > 0.98
