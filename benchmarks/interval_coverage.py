"""How often the intervals hold the truth: studies drawn from a known cost model go through the analysis.

    python benchmarks/interval_coverage.py [--studies 500] [--trials 3] [--seed 1]

verdict.py beside it draws from the same model and counts verdicts.

The model has what real cards have shown: the time of a node takes one of a few discrete levels by the placement of
the buffer, processes differ (by a third of a percent where the device decides, by a tenth where the host does),
single repetitions are disturbed upwards. Needs no card.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from launchbench.aggregate import trials
from launchbench.aggregate.stats import Estimate

COUNTS = (8, 64, 512, 4096)
LEVELS_US = np.array([0.719, 0.723, 0.755, 0.766, 0.797, 0.827, 0.836, 0.837])
"""Microseconds per node of `tiny` at eight placements, as one H200 has shown (driver 580.159.04)."""

ISSUE_US, REPLAY_FIXED_US, LOOP_FIXED_US = 4.5, 6.0, 5.0
ONCE_US = {8: 400.0, 64: 700.0, 512: 4300.0, 4096: 36000.0}
DEVICE_SPREAD, HOST_SPREAD, ONCE_SPREAD = 0.0033, 0.10, 0.15
REPETITION_SPREAD, DISTURBED, DISTURBANCE = 0.003, 0.03, 0.5
PLACEMENTS, FULL_PLACEMENTS, REPETITIONS = 700, 25, 3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """Figures of one N, a trial each, in microseconds."""

    loop: list[float]
    replay: list[float]
    once: list[float]


def truth(count: int, node_factor: float = 1.0) -> tuple[float, float]:
    """Loop and replay in microseconds: means over all placements and processes, undisturbed."""
    return LOOP_FIXED_US + count * ISSUE_US, REPLAY_FIXED_US + count * float(LEVELS_US.mean()) * node_factor


def draw_trial(rng: np.random.Generator, time_us: Floats) -> float:
    """The figure of one trial whose placements take these times."""
    noise = 1 + REPETITION_SPREAD * rng.standard_normal((len(time_us), REPETITIONS))
    noise += (rng.random(noise.shape) < DISTURBED) * rng.exponential(DISTURBANCE, noise.shape)
    placement = np.repeat(np.arange(len(time_us)), REPETITIONS)
    return trials.trial_figure((time_us[:, None] * noise).ravel(), placement)


def draw_cell(
    rng: np.random.Generator, count: int, trial_count: int, node_factor: float = 1.0, placements: int = PLACEMENTS
) -> Cell:
    """One cell of a study: every trial with its own process and its own placements."""
    cell = Cell([], [], [])
    loop_us, _ = truth(count)
    for _ in range(trial_count):
        process = math.exp(DEVICE_SPREAD * rng.standard_normal())
        nodes = rng.choice(LEVELS_US, placements) * count * node_factor
        cell.replay.append(draw_trial(rng, (REPLAY_FIXED_US + nodes) * process))
        host = 1 + HOST_SPREAD * rng.standard_normal()
        cell.loop.append(draw_trial(rng, np.full(FULL_PLACEMENTS, loop_us * max(host, 0.5))))
        cell.once.append(ONCE_US[count] * max(0.3, 1 + ONCE_SPREAD * rng.standard_normal()))
    return cell


def main() -> None:
    """Print the coverage of each kind of interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    held: dict[str, list[bool]] = {}

    def count_in(name: str, estimate: Estimate, true: float) -> None:
        inside = estimate.low is not None and estimate.high is not None and estimate.low <= true <= estimate.high
        held.setdefault(name, []).append(inside)

    for _ in range(given.studies):
        study = {count: draw_cell(rng, count, given.trials) for count in COUNTS}
        again = {count: draw_cell(rng, count, given.trials) for count in COUNTS}
        for count, cell in study.items():
            loop_us, replay_us = truth(count)
            saved = [loop - replay for loop, replay in zip(cell.loop, cell.replay, strict=True)]
            for name, batch, true in (
                ("loop", trials.mean([cell.loop]), loop_us),
                ("replay", trials.mean([cell.replay]), replay_us),
                ("speed-up", trials.ratio([cell.loop], [cell.replay]), loop_us / replay_us),
            ):
                count_in(name, trials.single(batch, given.trials), true)
            count_in("break-even", trials.break_even(cell.once, saved), ONCE_US[count] / (loop_us - replay_us))
            between = trials.ratio_between(again[count].replay, cell.replay)
            count_in("ratio of two sets", between, 1.0)
        for mode, pick, fixed_us, slope_us in _lines():
            points = np.array([pick(study[count]) for count in COUNTS]).T
            fixed, slope = trials.line(COUNTS, points)
            count_in(f"fixed part, {mode}", fixed, fixed_us)
            count_in(f"part per launch, {mode}", slope, slope_us)

    print(f"{given.studies} simulated studies of {given.trials} trials, seed {given.seed}; intervals of 95 %")
    print(f"{'interval':28}{'cells':>8}{'hold the truth':>16}")
    for name, inside in held.items():
        print(f"{name:28}{len(inside):8}{np.mean(inside):16.1%}")


def _lines() -> list[tuple[str, Callable[[Cell], list[float]], float, float]]:
    return [
        ("loop", lambda cell: cell.loop, LOOP_FIXED_US, ISSUE_US),
        ("replay", lambda cell: cell.replay, REPLAY_FIXED_US, float(LEVELS_US.mean())),
    ]


if __name__ == "__main__":
    main()
