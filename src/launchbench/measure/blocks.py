"""One block of a job: timed, checked, guarded, and measured again within a bound where a guard fails.

It asks NVML before and after; it decides nothing about which blocks there are, and files nothing.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from launchbench.errors import LaunchbenchError
from launchbench.measure import modes, nvml
from launchbench.measure.driver import DeviceMemory
from launchbench.measure.native import NativeLoops
from launchbench.measure.paths.adapter import MakeLoop
from launchbench.measure.placements import draw, time_placements
from launchbench.measure.progress import Progress
from launchbench.results import flags
from launchbench.results.protocol import Kernel as KernelName
from launchbench.results.protocol import LaunchPath, Protocol
from launchbench.results.record import Block, utc_text

if TYPE_CHECKING:
    from cuda.core import Device as CudaDevice
    from cuda.core import Kernel, Stream

ATTEMPTS = 3
"""How often a block is measured at most, where each time a guard fails."""


@dataclass(frozen=True)
class Bench:
    """What all blocks of one job share.

    Attributes:
        subject: what lines about the job begin with.
        launch_count: N.
        capability: compute capability of the card.
        device: current device, of ``stream``.
        stream: everything runs on it.
        kernels: those of ``modes.kernels_of``, by name.
        loops: the native library.
        protocol: how a block is timed.
        session: NVML, for the states before and after.
        pool: the allocation that the placements lie in.
        rng: decides placements and orders.
        make_loops: loops of the frameworks, by launch path.
        strangers: processes that were on the card before the job was.
    """

    subject: str
    launch_count: int
    capability: tuple[int, int]
    device: CudaDevice
    stream: Stream
    kernels: dict[str, Kernel]
    loops: NativeLoops
    protocol: Protocol
    session: nvml.Nvml
    pool: DeviceMemory
    rng: np.random.Generator
    make_loops: dict[str, MakeLoop] = field(default_factory=dict)
    strangers: frozenset[int] = frozenset()


def measure_block(
    bench: Bench, launch_path: LaunchPath, kernel: KernelName, placements: int, full: int
) -> list[tuple[Block, pd.DataFrame]]:
    """All attempts at one block, the last of which is usable unless none was.

    With a process that was there before the job and stays, another attempt would fare no better, and none is made.

    Args:
        bench: what it shares with the others.
        launch_path: who issues the launches.
        kernel: what is launched.
        placements: places of the buffer.
        full: how many of them get every mode.

    Returns:
        For each attempt what the record says of it, and its repetitions (columns ``columns.RAW``).

    Raises:
        LaunchbenchError: a CUDA call failed, or the launches did not count as they should.
    """
    subject = f"{bench.subject} {launch_path} {kernel}"
    attempts: list[tuple[Block, pd.DataFrame]] = []
    while len(attempts) < ATTEMPTS:
        block, frame = _attempt(bench, launch_path, kernel, placements, full, len(attempts), subject)
        attempts.append((block, frame))
        used, reasons = flags.judge_block(frame, flags.block_flag(block, bench.protocol))
        staying = _staying(block, bench.strangers)
        if reasons:
            total = len(frame.drop_duplicates(["placement", "repetition"]))
            more = "" if used else _what_follows(len(attempts), staying)
            _say(f"{subject}: warning: {total - used} of {total} repetitions will not be used: {reasons}{more}")
        if used or staying:
            break
    return attempts


def _staying(block: Block, strangers: frozenset[int]) -> list[int]:
    """Those of the processes that were on the card both before and after the block."""
    before, after = ({one.pid for one in state.other_processes or []} for state in (block.before, block.after))
    return sorted(before & after & strangers)


def _what_follows(attempts: int, staying: list[int]) -> str:
    if staying:
        more = f" and {len(staying) - 5} more" if len(staying) > 5 else ""
        processes = ", ".join(map(str, staying[:5])) + more
        who = f"processes {processes} were" if staying[1:] else f"process {processes} was"
        return f"; not measured again: {who} on the card before this job and {'stay' if staying[1:] else 'stays'}"
    if attempts < ATTEMPTS:
        return f"; measured again, attempt {attempts + 1} of {ATTEMPTS}"
    return f"; given up after {ATTEMPTS} attempts"


def _attempt(
    bench: Bench,
    launch_path: LaunchPath,
    kernel: KernelName,
    placements: int,
    full: int,
    attempt: int,
    subject: str,
) -> tuple[Block, pd.DataFrame]:
    count = bench.launch_count
    known = modes.modes_of(launch_path, kernel, count, bench.capability)
    names = [name for name, reason in known.items() if not reason]
    started = datetime.now(UTC)
    before, switches = bench.session.state(), _involuntary_switches()
    timing = time_placements(
        bench.device,
        bench.stream,
        modes.Block(
            *(launch_path, kernel, count, names, bench.kernels, bench.loops, bench.stream),
            make_loop=bench.make_loops.get(launch_path),
        ),
        bench.pool.address,
        draw(bench.rng, bench.pool.size_bytes, placements, full),
        bench.rng,
        bench.protocol,
        Progress(subject),
    )
    switches, after = _involuntary_switches() - switches, bench.session.state()
    frame = timing.frame(count, launch_path, kernel).assign(attempt=attempt)
    medians = frame.groupby("mode")["gpu_us"].median()
    _say(
        f"{subject}: loop {medians['loop']:.2f} us, replay {medians['replay']:.2f} us, "
        f"counted {timing.observed_count} of {timing.expected_count}"
    )
    if timing.costs.refused_updates:
        number = timing.costs.refused_updates
        _say(f"{subject}: warning: updates of a graph that the driver refused (910): {number}; it was made anew")
    if timing.observed_count != timing.expected_count:
        raise LaunchbenchError(
            f"{launch_path} {kernel} N={count}: the buffer counted {timing.observed_count} launches, "
            f"expected {timing.expected_count}: nothing was written"
        )
    block = Block(
        launch_path=launch_path,
        kernel=kernel,
        protocol_hash=bench.protocol.block_hash(launch_path, kernel),
        expected_count=timing.expected_count,
        observed_count=timing.observed_count,
        warmup_rounds_run=timing.warmup_rounds_run,
        **vars(timing.costs),
        not_timed={name: reason for name, reason in known.items() if reason} | timing.not_timed,
        attempt=attempt,
        buffer_address=f"{bench.pool.address:#x}",
        started_utc=utc_text(started),
        before=before,
        after=after,
        involuntary_switches=switches,
    )
    return block, frame


def _involuntary_switches() -> int:
    """How often another thread has had the core of this one so far, by the kernel."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
