"""Do fresh processes agree on what a node costs?

Starts fresh processes at one N, by turns of three methods on the same card, and prints each method's figure per
process with the distance from the smallest to the largest:

  placements   launchbench: mean over many random placements of each placement's median, `tiny`
  control      launchbench: the same for the empty kernel
  one buffer   the exercise sheet's method: the stand-alone program, one buffer, median of 50 replays of `tiny`

    python benchmarks/repeatability.py --binaries build/cuda --processes 10 --out repeatability.csv

Needs a card for `one buffer`; without --program the others also run where only the driver API does.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

METHODS = ("placements", "control", "one buffer")


def measure_here(binaries: Path, kernel: str, count: int, placements: int, repetitions: int, pool_mib: int) -> None:
    """Measure one block in this process and print its microseconds per node, its spread and the seconds it took."""
    from cuda.core import Device, ObjectCode

    from launchbench.aggregate.trials import placement_medians
    from launchbench.measure.driver import DeviceMemory
    from launchbench.measure.modes import Block
    from launchbench.measure.native import NativeLoops
    from launchbench.measure.placements import draw, time_placements
    from launchbench.results.protocol import Protocol

    begun = time.monotonic()
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    code = ObjectCode.from_fatbin((binaries / "graphs.fatbin").read_bytes(), name="graphs")
    kernels = {name: code.get_kernel(name) for name in ("tiny", "empty")}
    protocol = Protocol(
        repetitions=repetitions,
        warmup_rounds=5,
        warmup_ms=200,
        placements=placements,
        full_placements=1,
        pool_mib=pool_mib,
    )
    rng = np.random.default_rng()
    block = Block(
        "native-driver", kernel, count, ["replay"], kernels, NativeLoops(binaries / "liblaunchloops.so"), stream
    )
    with DeviceMemory(pool_mib << 20) as pool:
        places = draw(rng, pool.size_bytes, placements, 1)
        timing = time_placements(device, stream, block, pool.address, places, rng, protocol, lambda *_: None)
    if timing.observed_count != timing.expected_count:
        raise SystemExit(f"counted {timing.observed_count} of {timing.expected_count}")
    rows = timing.frame(count, "native-driver", kernel)
    medians = placement_medians(rows["gpu_us"].to_numpy(), rows["placement"].to_numpy()) / count
    answer = {
        "us_per_node": medians.mean(),
        "smallest": medians.min(),
        "largest": medians.max(),
        "update_us": float(np.median(timing.costs.update_us or [np.nan])),
        "seconds": time.monotonic() - begun,
    }
    print(json.dumps(answer))


def one_buffer(program: Path, count: int) -> dict[str, float]:
    """The sheet's method in a fresh process of the stand-alone program."""
    begun = time.monotonic()
    command = [str(program), "--csv", "--n", str(count), "--kernel", "tiny"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = pd.read_csv(io.StringIO(text))
    median = float(rows.loc[rows["mode"] == "replay", "gpu_us"].median()) / count
    return {"us_per_node": median, "smallest": median, "largest": median, "seconds": time.monotonic() - begun}


def main() -> None:
    """Alternate the methods and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, required=True, help="folder that `launchbench build` filled")
    parser.add_argument("--program", action="store_true", help="also run the stand-alone program, by turns")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--placements", type=int, default=400)
    parser.add_argument("--control-placements", type=int, default=25)
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--pool-mib", type=int, default=512)
    parser.add_argument("--out", type=Path, help="CSV with a row a process")
    parser.add_argument("--child", choices=("tiny", "empty"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        placements = given.placements if given.child == "tiny" else given.control_placements
        measure_here(given.binaries, given.child, given.n, placements, given.repetitions, given.pool_mib)
        return
    rows = []
    for process in range(given.processes):
        for method in METHODS if given.program else METHODS[:2]:
            if method == "one buffer":
                answer = one_buffer(given.binaries / "graphs", given.n)
            else:
                child = "tiny" if method == "placements" else "empty"
                command = [sys.executable, __file__, *sys.argv[1:], "--child", child]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                answer = json.loads(done.stdout.splitlines()[-1])
            rows.append({"process": process, "method": method, **answer})
            print(f"process {process}, {method}: {answer['us_per_node']:.4f} us per node", file=sys.stderr, flush=True)
    table = pd.DataFrame(rows)
    if given.out:
        table.to_csv(given.out, index=False)
    print(f"N = {given.n}, {given.processes} fresh processes a method, us per node")
    print(f"{'method':12}{'mean':>9}{'smallest':>10}{'largest':>9}{'apart':>8}{'placements from':>17}{'to':>8}{'s':>7}")
    for method, group in table.groupby("method", sort=False):
        value = group["us_per_node"]
        apart = value.max() / value.min() - 1
        print(
            f"{method:12}{value.mean():9.4f}{value.min():10.4f}{value.max():9.4f}{apart:8.2%}"
            f"{group['smallest'].min():17.4f}{group['largest'].max():8.4f}{group['seconds'].mean():7.1f}"
        )


if __name__ == "__main__":
    main()
