"""Times one block over several placements and prints the rows, as JSON: for tests on the virtual GPU.

python -m tests.virtual_gpu.placed FOLDER_OF_BINARIES PATH KERNEL N PLACEMENTS FULL REPETITIONS SEED
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

from launchbench.measure.driver import DeviceMemory
from launchbench.measure.modes import Block, modes_of
from launchbench.measure.native import NativeLoops
from launchbench.measure.placements import draw, time_placements
from launchbench.results.protocol import Protocol

POOL_MIB = 8


def main() -> None:
    """Measure on the first device and print what was seen."""
    from cuda.core import Device, ObjectCode

    binaries, path, kernel, *numbers = sys.argv[1:]
    count, placements, full, repetitions, seed = map(int, numbers)
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    code = ObjectCode.from_fatbin((Path(binaries) / "graphs.fatbin").read_bytes())
    names = ("tiny", "empty", "tiny_dependent", "empty_dependent", "fused_memory", "fused_register", "gate")
    kernels = {name: code.get_kernel(name) for name in names}
    protocol = Protocol(
        repetitions=repetitions,
        warmup_rounds=2,
        warmup_ms=0,
        placements=placements,
        full_placements=full,
        pool_mib=POOL_MIB,
    )
    rng = np.random.default_rng(seed)
    capability = device.compute_capability
    modes = modes_of(path, kernel, count, (capability.major, capability.minor))
    loops = NativeLoops(Path(binaries) / "liblaunchloops.so")
    block = Block(path, kernel, count, [name for name, reason in modes.items() if not reason], kernels, loops, stream)
    told: list[int] = []

    def tell(what: str, done: int, of: int | None) -> None:
        if what == "placements":
            assert of == placements
            told.append(done)

    with DeviceMemory(POOL_MIB << 20) as pool:
        places = draw(rng, pool.size_bytes, placements, full)
        timing = time_placements(device, stream, block, pool.address, places, rng, protocol, tell)
    print(
        json.dumps(
            {
                "pool": pool.address,
                "modes": modes,
                "not_timed": timing.not_timed,
                "told": told,
                "expected": timing.expected_count,
                "observed": timing.observed_count,
                "warmup_rounds_run": timing.warmup_rounds_run,
                "costs": dataclasses.asdict(timing.costs),
                "rows": timing.frame(count, path, kernel).to_dict("records"),
            }
        )
    )


if __name__ == "__main__":
    main()
