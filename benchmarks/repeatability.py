"""Do fresh processes agree on what a node costs?

Starts fresh processes on the same card, launchbench and the stand-alone program by turns, and prints each method's
figure with the distance from the smallest process to the largest:

  placements   launchbench: mean over many random placements of each placement's median, `tiny`, behind the gate
  control      launchbench: the same for the empty kernel
  one buffer   the exercise sheet's method: the stand-alone program, one buffer, median of 50 replays of `tiny`

Beside it how far the same processes' plain replays are apart, which also hold the host's launch of the graph.

    python benchmarks/repeatability.py --binaries build/cuda --program --processes 10 --out repeatability.csv

Without --program it also runs where only the driver API does.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from block import output_of

KERNELS = {"placements": "tiny", "control": "empty"}
MODES = ("replay-queued", "replay")


def measure_here(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure both kernels at each N in this process: microseconds per node, and their spread over the placements."""
    from block import time_block

    from launchbench.aggregate.trials import placement_medians
    from launchbench.measure.placements import draw
    from launchbench.results.protocol import Protocol

    protocol = Protocol(repetitions=given.repetitions, warmup_rounds=5, warmup_ms=200)
    size = given.pool_mib << 20
    path = "native-driver"
    answers = []
    for method, kernel in KERNELS.items():
        number = given.placements if kernel == "tiny" else given.control_placements
        places = draw(np.random.default_rng(), size, number, 1)
        timings = time_block(given.binaries, path, kernel, given.n, MODES, places, size, protocol)
        for count, timing in timings.items():
            rows = timing.frame(count, path, kernel)
            medians = {}
            for mode in MODES:
                own = rows[rows["mode"] == mode]
                medians[mode] = placement_medians(own["gpu_us"].to_numpy(), own["placement"].to_numpy()) / count
            nodes = medians["replay-queued"]
            answers.append(
                {
                    "method": method,
                    "launch_count": count,
                    "us_per_node": nodes.mean(),
                    "smallest": nodes.min(),
                    "largest": nodes.max(),
                    "replay_us_per_node": medians["replay"].mean(),
                }
            )
    return answers


def one_buffer(program: Path, counts: list[int]) -> list[dict[str, Any]]:
    """The sheet's method in a fresh process of the stand-alone program."""
    command = [str(program), "--csv", "--n", ",".join(map(str, counts)), "--kernel", "tiny"]
    rows = pd.read_csv(io.StringIO(output_of(command)))
    answers = []
    for count in counts:
        own = rows[(rows["mode"] == "replay") & (rows["launch_count"] == count)]
        median = float(own["gpu_us"].median()) / count
        same = dict.fromkeys(("us_per_node", "smallest", "largest", "replay_us_per_node"), median)
        answers.append({"method": "one buffer", "launch_count": count, **same})
    return answers


def table_of(rows: pd.DataFrame) -> str:
    """One line for each N and method."""
    rows = rows.sort_values("launch_count", kind="stable")
    head = f"{'N':>6} {'method':12}{'mean':>9}{'smallest':>10}{'largest':>9}{'apart':>8}{'plain replay apart':>20}"
    lines = [f"{head}{'placements from':>17}{'to':>8}"]
    for (count, method), group in rows.groupby(["launch_count", "method"], sort=False):
        value, plain = group["us_per_node"], group["replay_us_per_node"]
        apart, plain_apart = (each.max() / each.min() - 1 for each in (value, plain))
        lines.append(
            f"{count:6} {method:12}{value.mean():9.4f}{value.min():10.4f}{value.max():9.4f}{apart:8.2%}"
            f"{plain_apart:20.2%}{group['smallest'].min():17.4f}{group['largest'].max():8.4f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Alternate the methods and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, required=True, help="folder that `launchbench build` filled")
    parser.add_argument("--program", action="store_true", help="also run the stand-alone program, by turns")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--n", type=lambda text: [int(word) for word in text.split(",")], default=[8, 64, 512])
    parser.add_argument("--placements", type=int, default=700)
    parser.add_argument("--control-placements", type=int, default=25)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--pool-mib", type=int, default=512)
    parser.add_argument("--out", type=Path, help="CSV with a row a process and N")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure_here(given)))
        return
    rows = []
    for process in range(given.processes):
        for side in ("launchbench", "program") if given.program else ("launchbench",):
            begun = time.monotonic()
            if side == "program":
                answers = one_buffer(given.binaries / "graphs", given.n)
            else:
                command = [sys.executable, __file__, *sys.argv[1:], "--child"]
                answers = json.loads(output_of(command).splitlines()[-1])
            rows += [{"process": process, **answer} for answer in answers]
            told = ", ".join(f"{answer['us_per_node']:.4f}" for answer in answers)
            took = time.monotonic() - begun
            print(f"process {process}, {side}: {told} us per node, {took:.1f} s", file=sys.stderr, flush=True)
    table = pd.DataFrame(rows)
    if given.out:
        table.to_csv(given.out, index=False)
    print(f"{given.processes} fresh processes a method, us per node")
    print(table_of(table))


if __name__ == "__main__":
    main()
