"""Loop and replay of kernels of chosen lengths, each by both clocks.

With short kernels the host is the bottleneck, with long ones the device is, and a graph has nothing left to save.
It knows the device and the clock, but no file; what the intervals are is said in ``timing``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from launchbench.errors import LaunchbenchError
from launchbench.measure.graphs import Costs, MovableGraph
from launchbench.measure.native import NativeLoops, check_driver
from launchbench.measure.timing import Counter, Loop, Timer, without_garbage_collection

if TYPE_CHECKING:
    from cuda.core import Event, Stream

LENGTHS_US = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Kernel lengths, from shorter than any launch to longer than all of them."""

LONGEST_MS = 70.0
"""A loop whose kernels alone take longer than this is left out: the answer is known long before."""

CALIBRATION_CYCLES = (200_000, 1_200_000)
WARMUP_ROUNDS = 2
NOTHING_REPETITIONS = 200


@dataclass
class LengthTiming:
    """``rows`` are repetitions; ``left_out`` are pairs of N and length in microseconds."""

    cycles_per_us: float
    expected_count: int = 0
    observed_count: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[tuple[int, float]] = field(default_factory=list)


def time_lengths(
    stream: Stream,
    function: int,
    loops: NativeLoops,
    events: tuple[Event, Event],
    address: int,
    launch_counts: Sequence[int],
    lengths_us: Sequence[float],
    repetitions: int,
    rng: np.random.Generator,
    progress: Callable[[int, int], None],
) -> LengthTiming:
    """Time every N and length, and an event pair around nothing.

    Args:
        stream: everything runs on it.
        function: handle of the kernel ``spin``.
        loops: the native library.
        events: two with timing.
        address: device address of the float that counts.
        launch_counts: values of N.
        lengths_us: what the kernels should take, in microseconds.
        repetitions: of loop and of replay, in an order drawn anew each time.
        rng: draws it.
        progress: is told how many of how many cells are done.

    Raises:
        LaunchbenchError: a CUDA call failed, or the buffer does not hold the count.
    """
    handle = int(stream.handle)
    timer = Timer(stream, events, time.perf_counter_ns())
    counter = Counter(address, handle, 1)

    def spinning(count: int, cycles: int) -> Loop:
        return Loop("cuLaunchKernel", loops.spin_loop(function, handle, address, count, cycles), check_driver)

    timing = LengthTiming(_calibrate(timer, counter, spinning))
    cells = [(count, length) for count in launch_counts for length in lengths_us]
    timing.left_out = [(count, length) for count, length in cells if count * length > LONGEST_MS * 1e3]
    with without_garbage_collection():
        _time_nothing(timer, timing)
        for number, (count, length) in enumerate(cells):
            if (count, length) not in timing.left_out:
                cycles = round(length * timing.cycles_per_us)
                loop = spinning(count, cycles)
                counter.before(count)
                loop.run()
                with MovableGraph(stream, loop, Costs(), loops) as graph:
                    works = {"loop": loop, "replay": graph.replay()}
                    _time_cell(timer, counter, works, count, length, cycles, repetitions, rng, timing)
            progress(number + 1, len(cells))
    counter.settle()
    timing.expected_count, timing.observed_count = counter.expected, counter.observed
    return timing


def _calibrate(timer: Timer, counter: Counter, spinning: Callable[[int, int], Loop]) -> float:
    """Cycles that ``spin`` counts in a microsecond, from two lengths: what a launch costs cancels."""
    times = []
    for cycles in CALIBRATION_CYCLES:
        samples = []
        for _ in range(1 + 5):
            counter.before(1)
            samples.append(timer.time(spinning(1, cycles))["gpu_us"])
        times.append(float(np.median(samples[1:])))
    short, long = times
    rate = (CALIBRATION_CYCLES[1] - CALIBRATION_CYCLES[0]) / (long - short) if long > short else 0.0
    if not (10 < rate < 1e5):
        raise LaunchbenchError(
            f"spin of {CALIBRATION_CYCLES[1]} cycles took {long:.1f} us, of {CALIBRATION_CYCLES[0]} cycles "
            f"{short:.1f} us: the events or the clock of the card cannot be trusted"
        )
    return rate


def _time_nothing(timer: Timer, timing: LengthTiming) -> None:
    nothing = Loop("cuEventRecord", lambda: 0, check_driver)
    for repetition in range(NOTHING_REPETITIONS):
        interval = timer.time(nothing)
        timing.rows.append(_row(0, 0.0, 0, "nothing", repetition, 0, interval))


def _time_cell(
    timer: Timer,
    counter: Counter,
    works: dict[str, Loop],
    count: int,
    length: float,
    cycles: int,
    repetitions: int,
    rng: np.random.Generator,
    timing: LengthTiming,
) -> None:
    modes = list(works)
    for repetition in range(-WARMUP_ROUNDS, repetitions):
        for order, index in enumerate(rng.permutation(len(modes))):
            mode = modes[index]
            counter.before(count)
            interval = timer.time(works[mode])
            if repetition >= 0:
                timing.rows.append(_row(count, length, cycles, mode, repetition, order, interval))


def _row(
    count: int, length: float, cycles: int, mode: str, repetition: int, order: int, interval: dict[str, float]
) -> dict[str, Any]:
    return {
        "launch_count": count,
        "kernel_us": length,
        "cycles": cycles,
        "mode": mode,
        "repetition": repetition,
        "order": order,
        **interval,
    }
