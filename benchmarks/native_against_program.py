"""Does launchbench time what a plain C++ program times?

Alternates fresh processes of launchbench's native ``<<<>>>`` path and of the stand-alone ``graphs`` program and
prints the ratio of their medians, with a 95 % t interval over the pairs of processes (of log ratios). With ``--pin``
both processes of a pair run on the same core, each pair on another one: what a launch costs the host differs between
cores, but the threads of the driver then share that core with the loop.

Loops are compared on ``tiny`` (host-bound, so the buffer's address does not matter). Nodes are compared on the
``empty`` kernel, and for ``tiny`` on the minimum over the same offsets of one 64 MiB buffer, because two
processes do not share a physical placement.

    python benchmarks/native_against_program.py --binaries build/cuda --pairs 10 --out pairs.json
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from block import output_of
from scipy import stats

from launchbench.results.files import write_atomically

BUFFER_BYTES = 64 << 20
OFFSETS = 64


@dataclass(frozen=True)
class Part:
    """What one process measures, on both sides under the same protocol."""

    kernel: str
    counts: tuple[int, ...]
    offsets: int
    repetitions: int
    warmup_rounds: int
    warmup_ms: int


COUNTS = (8, 64, 512, 4096)
LOOPS = Part("tiny", COUNTS, 1, 30, 5, 100)
CONTROL = Part("empty", COUNTS, 1, 30, 5, 100)
PLACEMENTS = Part("tiny", COUNTS, OFFSETS, 3, 1, 0)
SWITCHES = "involuntary context switches"
"""Of all threads of a process, by the kernel: how often something else had the core."""

Pair = tuple[dict[str, float], dict[str, float]]
"""Figures of launchbench and of the program."""
PARTS = {"loops": LOOPS, "control": CONTROL, "placements": PLACEMENTS}


def launchbench_rows(part: Part, binaries: Path) -> pd.DataFrame:
    """The part in this process, by launchbench; columns as the program's CSV."""
    from block import time_block

    from launchbench.measure.placements import Placement
    from launchbench.results.protocol import COMPARED_MODES, Protocol

    protocol = Protocol(repetitions=part.repetitions, warmup_rounds=part.warmup_rounds, warmup_ms=part.warmup_ms)
    placements = [Placement(i, i * (BUFFER_BYTES // part.offsets), full=True) for i in range(part.offsets)]
    size = BUFFER_BYTES if part.offsets > 1 else 4
    path = "native-runtime"
    timings = time_block(binaries, path, part.kernel, part.counts, COMPARED_MODES, placements, size, protocol)
    return pd.concat([timing.frame(count, path, part.kernel) for count, timing in timings.items()])


def program_rows(part: Part, binaries: Path) -> pd.DataFrame:
    """The same part by the stand-alone program."""
    options = {
        "--kernel": part.kernel,
        "--n": ",".join(map(str, part.counts)),
        "--offsets": part.offsets,
        "--repetitions": part.repetitions,
        "--warmup": part.warmup_rounds,
        "--warmup-ms": part.warmup_ms,
    }
    command = [str(binaries / "graphs"), "--csv", *(str(word) for pair in options.items() for word in pair)]
    return pd.read_csv(io.StringIO(output_of(command)))


def summarise(name: str, rows: pd.DataFrame) -> dict[str, float]:
    """Microseconds per launch or node of one process, by quantity and N."""
    medians = rows.groupby(["mode", "launch_count", "offset_bytes"])["gpu_us"].median()
    figures = {}
    for (mode, count), values in medians.groupby(level=[0, 1]):
        if name == "loops" and mode == "loop":
            figures[f"us per launch, tiny loop, N={count}"] = values.iloc[0] / count
        elif name == "control" and mode == "replay":
            figures[f"us per node, empty graph, N={count}"] = values.iloc[0] / count
        elif name == "placements" and mode == "replay":
            figures[f"us per node, tiny graph, minimum over {OFFSETS} offsets, N={count}"] = values.min() / count
    return figures


def compare(pairs: list[Pair]) -> pd.DataFrame:
    """Ratio launchbench / program per quantity: of the medians, and the geometric mean with its 95 % t interval."""
    rows = []
    for name in (name for name in pairs[0][0] if name != SWITCHES):
        ours = np.array([pair[0][name] for pair in pairs])
        theirs = np.array([pair[1][name] for pair in pairs])
        logs = np.log(ours / theirs)
        half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        low, high = np.exp(logs.mean() - half), np.exp(logs.mean() + half)
        median_ratio = np.median(ours) / np.median(theirs)
        rows.append((name, len(logs), np.median(ours), np.median(theirs), median_ratio, np.exp(logs.mean()), low, high))
    columns = ["quantity", "pairs", "launchbench", "program", "ratio of medians", "mean ratio", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def alternate(given: argparse.Namespace, parts: dict[str, Part]) -> list[Pair]:
    """Fresh processes of both sides in turn; which side goes first alternates. Figures are written after each pair."""
    worker = [sys.executable, __file__, *sys.argv[1:], "--worker"]
    cores = sorted(os.sched_getaffinity(0))

    def ours() -> dict[str, float]:
        found: dict[str, float] = json.loads(output_of(worker))
        return found

    def theirs() -> dict[str, float]:
        return merged((summarise(name, program_rows(part, given.binaries)) for name, part in parts.items()))

    def alone(side: Callable[[], dict[str, float]]) -> dict[str, float]:
        time.sleep(given.pause_s)  # what ends the process before is done by the kernel for some time after
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nivcsw
        figures = side()
        return figures | {SWITCHES: resource.getrusage(resource.RUSAGE_CHILDREN).ru_nivcsw - before}

    found = []
    begun = time.monotonic()
    for number in range(given.pairs):
        if given.pin:
            os.sched_setaffinity(0, {cores[number % len(cores)]})  # the processes that are started inherit it
        if (number + number // len(cores)) % 2:  # so that a core sees both orders
            second, first = alone(theirs), alone(ours)
        else:
            first, second = alone(ours), alone(theirs)
        found.append((first, second))
        if given.out:
            write_atomically(given.out, json.dumps(found, indent=1).encode())
        print(f"pair {number + 1} of {given.pairs}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return found


def merged(figures: Iterable[dict[str, float]]) -> dict[str, float]:
    """All in one."""
    return {name: value for part in figures for name, value in part.items()}


def main() -> None:
    """Run the pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    counts = {"type": lambda text: tuple(int(word) for word in text.split(","))}
    parser.add_argument("--binaries", type=Path, default=Path("build/cuda"))
    parser.add_argument("--pairs", type=int, default=10, help="of processes")
    parser.add_argument("--pin", action="store_true", help="both processes of a pair to one core")
    parser.add_argument("--pause-s", type=float, default=0.5, help="seconds before each process")
    parser.add_argument("--n", **counts, default=COUNTS, help="N of the loops and of the control")
    parser.add_argument("--placement-n", **counts, default=COUNTS, help="N at which offsets are compared; 4096 is slow")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path, help="figures of every process, as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    parts = {
        name: replace(part, counts=given.placement_n if name == "placements" else given.n)
        for name, part in PARTS.items()
        if name in given.parts
    }
    if given.worker:
        rows = ((name, launchbench_rows(part, given.binaries)) for name, part in parts.items())
        json.dump(merged(summarise(name, frame) for name, frame in rows), sys.stdout)
        return
    pairs = alternate(given, parts)
    print(compare(pairs).to_string(index=False, float_format=lambda value: f"{value:.4f}"))


if __name__ == "__main__":
    main()
