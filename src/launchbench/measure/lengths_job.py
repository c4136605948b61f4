"""One lengths job: kernels of chosen lengths on one GPU, by both clocks; one record with its CSV."""

from __future__ import annotations

import itertools
import secrets
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from launchbench.config.model import Config
from launchbench.errors import LaunchbenchError
from launchbench.measure import lengths, nvml, provenance
from launchbench.measure.cards import Card, choose, told_if_simulated, visible_cards
from launchbench.measure.driver import DeviceMemory, call, naming
from launchbench.measure.extra import Request, shared_fields
from launchbench.measure.host import cpu_cores
from launchbench.measure.job import strangers_on
from launchbench.measure.kernels import become_current, load_kernels
from launchbench.measure.lock import card_lock, core_lock
from launchbench.measure.native import NativeLoops, check_driver
from launchbench.measure.progress import Progress
from launchbench.measure.timing import FLOAT_BYTES, timing_events
from launchbench.results import flags
from launchbench.results.extra_files import write_repetitions
from launchbench.results.lengths import LENGTHS_VERSION, LengthSet, LengthsProtocol
from launchbench.results.lengths_columns import LENGTH_REPETITIONS
from launchbench.results.lengths_files import LENGTHS
from launchbench.results.lengths_words import KIND, MAX_LAUNCH_COUNT
from launchbench.results.record import DeviceState
from launchbench.sources import LENGTHS_MODULES

if TYPE_CHECKING:
    from cuda.core import Stream

WARMUP_CYCLES = 1_000_000


def protocol_of(config: Config) -> LengthsProtocol:
    """What is timed: the configured N up to ``MAX_LAUNCH_COUNT``, all lengths.

    Raises:
        LaunchbenchError: no configured N is that small.
    """
    counts = [count for count in config.launch_counts if count <= MAX_LAUNCH_COUNT]
    if not counts:
        given = f"got {list(config.launch_counts)}"
        raise LaunchbenchError(f"launch_counts: {given}; expected also one of at most {MAX_LAUNCH_COUNT}")
    return LengthsProtocol(
        version=LENGTHS_VERSION,
        launch_counts=counts,
        kernels_us=list(lengths.LENGTHS_US),
        repetitions=config.length_repetitions,
        nothing_repetitions=lengths.NOTHING_REPETITIONS,
        warmup_rounds=lengths.WARMUP_ROUNDS,
        warmup_ms=config.warmup_ms,
        longest_ms=lengths.LONGEST_MS,
    )


def run(request: Request, config: Config) -> Path:
    """Do it and file the result; nothing is written unless everything worked.

    Returns:
        Path of the new record.

    Raises:
        LaunchbenchError: no driver, not the card that was asked for, a CUDA call failed, the count is wrong, no
            repetition can be used, or the results cannot be written.
    """
    cards = visible_cards()  # first: without a driver there is no use in building
    provenance.read_manifest(request.binaries)
    card = choose(cards, config, request.label, request.card)
    with (
        told_if_simulated(card),
        card_lock(card.uuid),
        core_lock(cpu_cores()),
        nvml.session(card.uuid) as session,
    ):
        return _measure(request, config, card, session)


def _measure(request: Request, config: Config, card: Card, session: nvml.Nvml) -> Path:
    started = datetime.now(UTC)
    strangers = strangers_on(card, session, request.label, config)
    protocol, seed = protocol_of(config), secrets.randbits(53)
    timing, states = _time(request, card, session, strangers, protocol, seed)
    _check_count(timing)
    rows = pd.DataFrame(timing.rows)[[column.name for column in LENGTH_REPETITIONS]]
    ends = itertools.pairwise(states)
    sets = [
        LengthSet(launch_count=count, before=before, after=after)
        for count, (before, after) in zip(protocol.launch_counts, ends, strict=True)
    ]
    _judge(rows, sets)
    fields: dict[str, Any] = {
        **shared_fields(KIND, request, card, session, started, LENGTHS_MODULES),
        "before": states[0],
        "after": states[-1],
        "seed": seed,
        "cycles_per_us": timing.cycles_per_us,
        "expected_count": timing.expected_count,
        "observed_count": timing.observed_count,
        "sets": sets,
        "left_out": [{"launch_count": count, "kernel_us": length} for count, length in timing.left_out],
        "protocol": protocol,
    }
    return write_repetitions(LENGTHS, Path(config.results_dir), fields, rows)


def _time(
    request: Request,
    card: Card,
    session: nvml.Nvml,
    strangers: set[int],
    protocol: LengthsProtocol,
    seed: int,
) -> tuple[lengths.LengthTiming, list[DeviceState]]:
    """The timing, and the states of the card before it and after each N."""
    device = become_current(card)
    with naming("cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority"):
        stream = device.create_stream()
    session.learn_own_pid(strangers)
    function = int(call("cuKernelGetFunction", load_kernels(request.binaries, card, ["spin"])["spin"].handle))
    loops = NativeLoops(request.binaries / "liblaunchloops.so")
    events = timing_events(device)
    states: list[DeviceState] = []
    try:
        with DeviceMemory(FLOAT_BYTES) as buffer:
            _warm_up(stream, loops.spin_loop(function, int(stream.handle), buffer.address, 1, WARMUP_CYCLES), protocol)
            states.append(session.state())
            timing = lengths.time_lengths(
                stream,
                function,
                loops,
                events,
                buffer.address,
                protocol.launch_counts,
                protocol.kernels_us,
                protocol.repetitions,
                np.random.default_rng(seed),
                _watch(Progress(f"{request.label} lengths"), session, states, len(protocol.kernels_us)),
            )
        call("cuCtxSynchronize")  # whatever went wrong on the device and was not noticed yet
    finally:
        for event in events:
            event.close()
    return timing, states


def _warm_up(stream: Stream, issue: Callable[[], int], protocol: LengthsProtocol) -> None:
    """Keep the card busy, so that its clock is up before cycles are told from microseconds."""
    begun_ns = time.perf_counter_ns()
    while True:
        check_driver(issue())
        with naming("cuStreamSynchronize"):
            stream.sync()
        if time.perf_counter_ns() - begun_ns >= protocol.warmup_ms * 1e6:
            return


def _watch(
    progress: Progress, session: nvml.Nvml, states: list[DeviceState], lengths_a_count: int
) -> Callable[[int, int], None]:
    """Tells how far it is, and keeps the state of the card whenever all lengths of an N are done."""

    def done(cells: int, of: int) -> None:
        progress("cells", cells, of)
        if cells % lengths_a_count == 0:
            states.append(session.state())

    return done


def _check_count(timing: lengths.LengthTiming) -> None:
    if timing.observed_count != timing.expected_count:
        raise LaunchbenchError(
            f"spin: the buffer counted {timing.observed_count} launches, expected {timing.expected_count}: "
            "nothing was written"
        )


def _judge(rows: pd.DataFrame, sets: list[LengthSet]) -> None:
    """Say what will not be used, and refuse to file where that is everything."""
    timed = rows[rows["mode"] != "nothing"]
    own = pd.Series(flags.row_reasons(timed), index=timed.index)
    if (own != "").all():
        raise LaunchbenchError(f"no repetition can be used: {own.iloc[0]}: nothing was written")
    for reason, count in own[own != ""].value_counts().items():
        _tell(f"warning: {count} of {len(timed)} timings will not be used: {reason}")
    for one in sets:
        for reason in flags.state_reasons(one.before, one.after):
            _tell(f"warning: nothing at N = {one.launch_count} will be used: {reason}")
    for count, group in timed[timed["kernel_us"] == timed["kernel_us"].min()].groupby("launch_count"):
        medians = group.groupby("mode")["gpu_us"].median()
        _tell(f"N = {count}, shortest kernel: loop {medians['loop']:.2f} us, replay {medians['replay']:.2f} us")


def _tell(line: str) -> None:
    print(f"lengths: {line}", file=sys.stderr, flush=True)
