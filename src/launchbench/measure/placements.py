"""Timing of one block over many placements of its buffer, every mode in an order drawn anew each time.

``tiny`` takes a time that depends on where its float lies, so one placement is one sample, however often it is
repeated. It knows the device and the clock, but no file, no NVML and no Snakemake; what the intervals are is said
in ``timing``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from launchbench.measure.driver import DriverError, naming
from launchbench.measure.graphs import Costs
from launchbench.measure.modes import Block, Mode
from launchbench.measure.timing import ONE_OFF_SAMPLES, Counter, Timer, timing_events, without_garbage_collection
from launchbench.results.protocol import COMPARED_MODES, Protocol

if TYPE_CHECKING:
    from cuda.core import Device, Stream

ALIGNMENT_BYTES = 256
"""Buffers that ``cuMemAlloc`` gives out begin at multiples of this at least; so do the placements."""

EVERYWHERE = ("replay", "replay-queued")
"""Modes that every placement gets. The others are decided by the host, or cost too much: some placements do."""

ALWAYS = (*COMPARED_MODES, "replay-batch")
"""Modes without which a block is none, and what consists of them."""

REFUSALS = (1, 500, 801, 900)
"""CUresult codes (cuda.h) of a driver that does not know what it is asked for: invalid value, not found, not supported,
not supported in a capture. With any other one something is broken."""


@dataclass(frozen=True)
class Placement:
    """Where in the pool the buffer lies, and whether every mode is timed there."""

    number: int
    offset_bytes: int
    full: bool


@dataclass
class PlacedTiming:
    """What timing one block yields.

    ``rows`` are those of ``columns.RAW`` without the block's own columns, ``not_timed`` the modes that the driver has
    refused, with the reason.
    """

    costs: Costs
    expected_count: int = 0
    observed_count: int = 0
    warmup_rounds_run: int = 0
    not_timed: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def frame(self, launch_count: int, launch_path: str, kernel: str) -> pd.DataFrame:
        """Rows of ``columns.RAW``."""
        frame = pd.DataFrame(self.rows)
        for name, value in (("kernel", kernel), ("launch_path", launch_path), ("launch_count", launch_count)):
            frame.insert(0, name, value)
        return frame


def draw(rng: np.random.Generator, pool_bytes: int, placements: int, full: int) -> list[Placement]:
    """Placements at random places of the pool, without repeats where it is large enough.

    Args:
        rng: decides where.
        pool_bytes: size of the allocation.
        placements: how many.
        full: how many of them, spread evenly, get every mode.
    """
    slots = max(1, pool_bytes // ALIGNMENT_BYTES)
    chosen = rng.choice(slots, size=placements, replace=slots < placements)
    marked = {round(i * placements / full) for i in range(full)}
    return [Placement(i, int(slot) * ALIGNMENT_BYTES, i in marked) for i, slot in enumerate(chosen)]


def time_placements(
    device: Device,
    stream: Stream,
    block: Block,
    pool_address: int,
    placements: Sequence[Placement],
    rng: np.random.Generator,
    protocol: Protocol,
    progress: Callable[[str, int, int | None], None],
) -> PlacedTiming:
    """Make the graphs, warm up, and time every mode at every placement that gets it.

    A mode other than loop and replay that the driver refuses at the first placement is left out.

    Args:
        device: current device, of ``stream``.
        stream: the stream that everything runs on.
        block: what is timed.
        pool_address: device address of the allocation that the placements lie in.
        placements: at least one, the first of them full.
        rng: decides the order of the modes, anew in every repetition.
        protocol: repetitions a placement and mode, and warm-up.
        progress: is told between two intervals what is being done and how many are done, of how many if known.

    Raises:
        LaunchbenchError: a CUDA call failed, or a buffer does not hold a count.
    """
    timing = PlacedTiming(block.costs)
    per_launch = 0 if block.kernel == "empty" else 1
    begun_ns = time.perf_counter_ns()
    with block.opened():
        first = pool_address + placements[0].offset_bytes
        events = timing_events(device)
        try:
            timer = Timer(stream, events, begun_ns)
            with without_garbage_collection():
                _sample_costs(stream, block, first, per_launch, timing, progress)
                _drop_refused(stream, timer, block, first, per_launch, timing)
                for placement in placements:
                    address = pool_address + placement.offset_bytes
                    counter = Counter(address, int(stream.handle), per_launch)
                    names = block.names if placement.full else [n for n in block.names if n in EVERYWHERE]
                    modes = block.at(address, names)
                    _warm_up(timer, modes, counter, protocol, timing, progress, long=placement.number == 0)
                    _time(timer, modes, counter, rng, protocol, placement, timing)
                    counter.settle()
                    timing.expected_count += counter.expected
                    timing.observed_count += counter.observed
                    progress("placements", placement.number + 1, len(placements))
        finally:
            for event in events:
                event.close()
    return timing


def _sample_costs(
    stream: Stream,
    block: Block,
    address: int,
    per_launch: int,
    timing: PlacedTiming,
    progress: Callable[[str, int, int | None], None],
) -> None:
    counter = Counter(address, int(stream.handle), per_launch)
    # One loop outside a capture: kernels are loaded lazily, at their first launch. Then one graph that is thrown
    # away, which pays what only a process's first graph pays.
    counter.before(block.launch_count)
    block.loop_at(address).run()
    with naming("cuStreamSynchronize"):
        stream.sync()
    for number in range(1 + ONE_OFF_SAMPLES):
        counter.before(block.launch_count)
        block.sample_costs(address)
        progress("one-off costs", number, ONE_OFF_SAMPLES)
    for samples in vars(block.costs).values():
        if isinstance(samples, list):
            del samples[:1]
    counter.settle()
    timing.expected_count += counter.expected
    timing.observed_count += counter.observed


def _drop_refused(
    stream: Stream, timer: Timer, block: Block, address: int, per_launch: int, timing: PlacedTiming
) -> None:
    """Try what need not be there, and take out what the driver does not know."""
    for name in (name for name in block.names if name not in ALWAYS):
        counter = Counter(address, int(stream.handle), per_launch)
        try:
            for _ in range(2):  # the second time a graph is not made but updated
                (mode,) = block.at(address, [name])
                counter.before(mode.launches)
                timer.time(mode.work, mode.gate)
        except DriverError as error:
            if error.code not in REFUSALS:
                raise
            timing.not_timed[name] = f"refused by the driver: {error}"
            continue
        counter.settle()
        timing.expected_count += counter.expected
        timing.observed_count += counter.observed
    block.drop(timing.not_timed)


def _warm_up(
    timer: Timer,
    modes: list[Mode],
    counter: Counter,
    protocol: Protocol,
    timing: PlacedTiming,
    progress: Callable[[str, int, int | None], None],
    long: bool,
) -> None:
    """One untimed round in each mode, at the first placement as many as the protocol wants."""
    begun = time.perf_counter_ns()
    rounds = 0
    while rounds < (protocol.warmup_rounds if long else 1) or (
        long and time.perf_counter_ns() - begun < protocol.warmup_ms * 1e6
    ):
        for mode in modes:
            counter.before(mode.launches)
            timer.time(mode.work, mode.gate)
        rounds += 1
        if long:
            progress("warm-up rounds", rounds, None)
    timing.warmup_rounds_run += rounds if long else 0


def _time(
    timer: Timer,
    modes: list[Mode],
    counter: Counter,
    rng: np.random.Generator,
    protocol: Protocol,
    placement: Placement,
    timing: PlacedTiming,
) -> None:
    for repetition in range(protocol.repetitions):
        for order, index in enumerate(rng.permutation(len(modes))):
            mode = modes[index]
            counter.before(mode.launches)
            timing.rows.append(
                {
                    "mode": mode.name,
                    "placement": placement.number,
                    "offset_bytes": placement.offset_bytes,
                    "repetition": repetition,
                    "order": order,
                    "replays": mode.replays,
                    **timer.time(mode.work, mode.gate),
                }
            )
