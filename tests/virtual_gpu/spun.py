"""Times kernels of chosen lengths and prints the rows, as JSON: for tests on the virtual GPU.

python -m tests.virtual_gpu.spun FOLDER_OF_BINARIES REPETITIONS N [N ...] -- LENGTH_US [LENGTH_US ...]
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

from launchbench.measure.driver import DeviceMemory, call
from launchbench.measure.lengths import time_lengths
from launchbench.measure.native import NativeLoops


def main() -> None:
    """Measure on the first device and print what was seen."""
    from cuda.core import Device, EventOptions, ObjectCode

    folder, repetitions, *rest = sys.argv[1:]
    counts, lengths = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    code = ObjectCode.from_fatbin((Path(folder) / "graphs.fatbin").read_bytes())
    function = int(call("cuKernelGetFunction", code.get_kernel("spin").handle))
    options = EventOptions(timing_enabled=True)
    events = (device.create_event(options), device.create_event(options))
    with DeviceMemory(4) as buffer:
        timing = time_lengths(
            stream,
            function,
            NativeLoops(Path(folder) / "liblaunchloops.so"),
            events,
            buffer.address,
            [int(count) for count in counts],
            [float(length) for length in lengths],
            int(repetitions),
            np.random.default_rng(1),
            lambda *_: None,
        )
    print(json.dumps(dataclasses.asdict(timing)))


if __name__ == "__main__":
    main()
