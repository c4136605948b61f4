"""Whether a cell of one set of results is the same, faster or slower than that of another.

Decides on figures it is given; which cells may be compared at all is the caller's question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from launchbench.aggregate.stats import Estimate
from launchbench.aggregate.trials import ratio_between

SAME_WITHIN = 0.02
"""Two figures are called the same when the interval of their ratio lies within 1 +- this."""

Word = Literal["same", "faster", "slower", "cannot tell"]


@dataclass(frozen=True)
class Verdict:
    """``ratio`` is the time of the second set divided by that of the first; ``reason`` says why one cannot tell."""

    word: Word
    ratio: Estimate
    reason: str = ""


def verdict(before: Sequence[float], after: Sequence[float], same_within: float = SAME_WITHIN) -> Verdict:
    """Compare the times of one cell, a figure a trial.

    An interval that lies within 1 +- ``same_within`` is "same", also when it leaves out 1: so small a difference
    is none that anybody asked for. Any other that leaves out 1 is "faster" or "slower", the rest "cannot tell".

    Args:
        before: a time per trial of the first set, all in one unit.
        after: the same of the second set.
        same_within: half width of the band that counts as the same.
    """
    ratio = ratio_between(after, before)
    if ratio.low is None or ratio.high is None:
        return Verdict("cannot tell", ratio, ratio.reason)
    if 1 - same_within <= ratio.low and ratio.high <= 1 + same_within:
        return Verdict("same", ratio)
    if ratio.low > 1:
        return Verdict("slower", ratio)
    if ratio.high < 1:
        return Verdict("faster", ratio)
    width = 100 * (ratio.high - ratio.low) / 2
    return Verdict("cannot tell", ratio, f"the interval of the ratio is +- {width:.1f} % wide: more trials narrow it")
