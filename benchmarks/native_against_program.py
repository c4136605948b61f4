"""Does launchbench time what a plain C++ program times?

Alternates fresh processes of launchbench's native ``<<<>>>`` path and of the stand-alone ``graphs`` program and
prints the ratio of their medians, with a 95 % t interval over the pairs of processes (of log ratios).

Loops are compared on ``tiny`` (host-bound, so the buffer's address does not matter). Nodes are compared on the
``empty`` kernel, and for ``tiny`` on the minimum over the same offsets of one 64 MiB buffer, because two
processes do not share a physical placement.

    python benchmarks/native_against_program.py --binaries build/cuda --pairs 12 --out native_against_program.json
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

COUNTS = [8, 64, 512, 4096]
OFFSET_COUNTS = [8, 64, 512]
BUFFER_BYTES = 64 << 20
OFFSETS = 64
# (kernel, counts, offsets, repetitions, warm-up rounds)
PARTS = [("tiny", COUNTS, 1, 50, 5), ("empty", COUNTS, 1, 50, 5), ("tiny", OFFSET_COUNTS, OFFSETS, 5, 2)]


def launchbench_rows(binaries: Path) -> pd.DataFrame:
    """All parts in this process, by launchbench; columns as the program's CSV."""
    import gc

    from cuda.core import Device, ObjectCode

    from launchbench.driver import DeviceMemory
    from launchbench.measure import make_loop, time_block
    from launchbench.native import NativeLoops
    from launchbench.protocol import Protocol

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    code = ObjectCode.from_fatbin((binaries / "graphs.fatbin").read_bytes())
    loops = NativeLoops(binaries / "liblaunchloops.so")
    frames = []
    gc.freeze()  # what is imported by now need not be searched again at each of hundreds of blocks
    for kernel, counts, offsets, repetitions, warmup in PARTS:
        protocol = Protocol(repetitions=repetitions, warmup_rounds=warmup, warmup_ms=0)
        with DeviceMemory(BUFFER_BYTES if offsets > 1 else 4) as buffer:
            for index in range(offsets):
                offset = BUFFER_BYTES // offsets * index
                for count in counts:
                    address = buffer.address + offset
                    loop = make_loop("native-runtime", kernel, code.get_kernel(kernel), loops, stream, address, count)
                    timing = time_block(device, stream, loop, int(kernel == "tiny"), count, address, protocol)
                    if timing.observed_count != timing.expected_count:
                        sys.exit(f"wrong count: {timing}")
                    frame = timing.frame(count, "native-runtime", kernel)
                    frames.append(frame.assign(offset_bytes=offset, part=f"{kernel}/{offsets}"))
    return pd.concat(frames)


def program_rows(binaries: Path) -> pd.DataFrame:
    """The same parts by the stand-alone program, a process each."""
    frames = []
    for kernel, counts, offsets, repetitions, warmup in PARTS:
        command = [binaries / "graphs", "--csv", "--kernel", kernel, "--n", ",".join(map(str, counts))]
        command += ["--offsets", offsets, "--repetitions", repetitions, "--warmup", warmup]
        text = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
        frames.append(pd.read_csv(io.StringIO(text)).assign(part=f"{kernel}/{offsets}"))
    return pd.concat(frames)


def summarise(rows: pd.DataFrame) -> dict[str, float]:
    """Microseconds per launch or node of one run, by quantity and N."""
    medians = rows.groupby(["part", "mode", "launch_count", "offset_bytes"])["gpu_us"].median()
    figures = {}
    for (part, mode, count), values in medians.groupby(level=[0, 1, 2]):
        if (part, mode) == ("tiny/1", "loop"):
            figures[f"us per launch, tiny loop, N={count}"] = values.iloc[0] / count
        elif part == "empty/1":
            word = "launch, empty loop" if mode == "loop" else "node, empty graph"
            figures[f"us per {word}, N={count}"] = values.iloc[0] / count
        elif mode == "replay" and part == f"tiny/{OFFSETS}":
            figures[f"us per node, tiny graph, minimum over {OFFSETS} offsets, N={count}"] = values.min() / count
    return figures


def compare(pairs: list[tuple[dict[str, float], dict[str, float]]]) -> pd.DataFrame:
    """Ratio launchbench / program per quantity, geometric mean over pairs, with its 95 % t interval."""
    rows = []
    for name in pairs[0][0]:
        ours = np.array([pair[0][name] for pair in pairs])
        theirs = np.array([pair[1][name] for pair in pairs])
        logs = np.log(ours / theirs)
        half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        low, high = np.exp(logs.mean() - half), np.exp(logs.mean() + half)
        median_ratio = np.median(ours) / np.median(theirs)
        rows.append((name, np.median(ours), np.median(theirs), median_ratio, np.exp(logs.mean()), low, high))
    columns = ["quantity", "launchbench", "program", "ratio of medians", "mean ratio", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def main() -> None:
    """Run the pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binaries", type=Path, default=Path("build/cuda"))
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--out", type=Path, help="raw figures of every process, as JSON")
    parser.add_argument("--cpus", help="run both sides on these logical CPUs, such as 2,3")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        json.dump(summarise(launchbench_rows(arguments.binaries)), sys.stdout)
        return
    if arguments.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in arguments.cpus.split(",")})
    pairs = []
    for number in range(arguments.pairs):
        begun = time.monotonic()
        worker = [sys.executable, __file__, "--worker", "--binaries", str(arguments.binaries)]

        def ours(command: list[str] = worker) -> dict[str, float]:
            return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

        def theirs() -> dict[str, float]:
            return summarise(program_rows(arguments.binaries))

        if number % 2:
            second, first = theirs(), ours()
        else:
            first, second = ours(), theirs()
        pairs.append((first, second))
        print(
            f"pair {number + 1} of {arguments.pairs}: {time.monotonic() - begun:.1f} s",
            file=sys.stderr,
            flush=True,
        )
    table = compare(pairs)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.4f}"))
    if arguments.out:
        arguments.out.write_text(json.dumps(pairs, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
