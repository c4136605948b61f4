"""One block of launchbench in this process, without job, record or file: what the benchmarks of timings share."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from launchbench.measure.placements import PlacedTiming, Placement
from launchbench.results.protocol import Protocol


def time_block(
    binaries: Path,
    launch_path: str,
    kernel: str,
    launch_counts: Sequence[int],
    modes: Sequence[str],
    placements: Sequence[Placement],
    buffer_bytes: int,
    protocol: Protocol,
) -> dict[int, PlacedTiming]:
    """N -> what was timed, on CUDA's first device; modes that the driver refuses or N excludes are left out.

    Args:
        binaries: folder that ``launchbench build`` filled.
        launch_path: one of ``protocol.LAUNCH_PATHS`` that is no framework.
        kernel: ``tiny`` or ``empty``.
        launch_counts: every N.
        modes: of ``protocol.MODES``.
        placements: where in the buffer.
        buffer_bytes: size of the buffer.
        protocol: repetitions and warm-up.

    Raises:
        SystemExit: a buffer does not hold the count of its launches.
    """
    from launchbench.measure.driver import DeviceMemory
    from launchbench.measure.modes import Block, modes_of
    from launchbench.measure.placements import time_placements

    device, stream, code, loops = process(binaries)
    capability = (device.compute_capability.major, device.compute_capability.minor)
    kernels = {name: code.get_kernel(name) for name in (kernel, "gate")}
    rng = np.random.default_rng()
    timings = {}
    with DeviceMemory(buffer_bytes) as buffer:
        for count in launch_counts:
            known = modes_of(launch_path, kernel, count, capability)
            wanted = [mode for mode in modes if known.get(mode) == ""]
            block = Block(launch_path, kernel, count, wanted, kernels, loops, stream)
            timing = time_placements(device, stream, block, buffer.address, placements, rng, protocol, lambda *_: None)
            if timing.observed_count != timing.expected_count:
                raise SystemExit(f"counted {timing.observed_count} of {timing.expected_count} at N = {count}")
            timings[count] = timing
    return timings


def require(binaries: Path) -> None:
    """Whether there are products and a card; a simulated one is told on standard error.

    Raises:
        SystemExit: what is missing, in one line.
    """
    from launchbench.errors import LaunchbenchError
    from launchbench.measure.cards import visible_cards

    if not (binaries / "graphs.fatbin").is_file():
        raise SystemExit(f"{binaries}: no graphs.fatbin there; `launchbench build` makes build/cuda")
    try:
        card = visible_cards()[0]
    except LaunchbenchError as error:
        raise SystemExit(str(error)) from None
    if card.is_virtual:
        print(f"{card.name}: a simulated GPU, its figures are no measurement", file=sys.stderr)


@cache
def process(binaries: Path) -> tuple[Any, Any, Any, Any]:
    """Device, stream, kernels and loops: one of each in a process, as a job has them.

    With a second stream in the process the nodes of a graph take longer.
    """
    from cuda.core import Device, ObjectCode

    from launchbench.measure.native import NativeLoops

    require(binaries)
    device = Device(0)
    device.set_current()
    code = ObjectCode.from_fatbin((binaries / "graphs.fatbin").read_bytes(), name="graphs")
    return device, device.create_stream(), code, NativeLoops(binaries / "liblaunchloops.so")


def output_of(command: Sequence[str | Path]) -> str:
    """Standard output of a fresh process, which itself says on standard error why it fails.

    Raises:
        SystemExit: it failed; one line.
    """
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"stopped: exit status {done.returncode} of {shlex.join(map(str, command))}")
    return done.stdout
