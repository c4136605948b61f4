"""What does a second stream in the process cost every graph in it?

In fresh processes: nodes of a graph of ``empty`` before and after kernels have been launched on a second stream, one
launch at a time; and the decode step of ``launchbench.decode_step`` after a warm-up on the current stream and after
one on a side stream. Graphs are replayed on the first stream throughout, alone on the device.

    python benchmarks/second_stream.py --binaries build/cuda --processes 3 --out second-stream.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

NODES = 512
LAUNCHES = 10
"""On the second stream, one by one; then as many as the graph has nodes."""
REPETITIONS = 21
STREAMS = ("non-blocking", "blocking", "high priority")
WARMUPS = ("current stream", "side stream")


def nodes(binaries: Path, kind: str) -> dict[str, float]:
    """Launches so far on a second stream of this kind -> microseconds per node by events, in this process."""
    from block import process
    from cuda.core import Stream, StreamOptions

    from launchbench.measure.driver import call
    from launchbench.measure.graphs import Costs, MovableGraph
    from launchbench.measure.native import check_driver
    from launchbench.measure.timing import Loop, Timer, timing_events

    device, first, code, loops = process(binaries)
    function = int(call("cuKernelGetFunction", code.get_kernel("empty").handle))
    timer = Timer(first, timing_events(device), time.perf_counter_ns())

    def launch(stream: Stream, count: int) -> Loop:
        return Loop("cuLaunchKernel", loops.driver_loop(function, int(stream.handle), 0, count), check_driver)

    loop = launch(first, NODES)
    loop.run()
    first.sync()
    with MovableGraph(first, loop, Costs(), loops) as graph:

        def node_us() -> float:
            samples = [timer.time(graph.replay())["gpu_us"] for _ in range(3 + REPETITIONS)]
            return float(np.median(samples[3:])) / NODES

        options = {"non-blocking": {}, "blocking": {"nonblocking": False}, "high priority": {"priority": -5}}[kind]
        second = device.create_stream(options=StreamOptions(**options))
        found = {"0": node_us()}
        for made in range(1, LAUNCHES + 1):
            launch(second, 1).run()
            second.sync()
            found[str(made)] = node_us()
        launch(second, NODES).run()
        second.sync()
        return found | {str(LAUNCHES + NODES): node_us()}


def decode(warmup: str) -> dict[str, float]:
    """Replay of a decode step of the default shape, microseconds by events, in this process."""
    import torch

    from launchbench.decode.bench import timed
    from launchbench.decode.model import Decoder, Shape

    with torch.device("cuda"):
        model = Decoder(Shape(), 0).eval()
        token = torch.zeros(1, 1, dtype=torch.long)
    with torch.no_grad():
        stream = torch.cuda.Stream() if warmup == "side stream" else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                model.step(token)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model.step(token)
        samples = [timed(graph.replay, 1, 0)["gpu_us"] for _ in range(3 + REPETITIONS)]
    return {"replay": float(np.median(samples[3:]))}


def alternate(given: argparse.Namespace) -> pd.DataFrame:
    """Fresh processes of every case by turns; columns case, launches and us. ``--out`` is written after each."""
    cases = [*STREAMS, *(WARMUPS if given.decode else ())]
    rows: list[dict[str, object]] = []
    for number in range(given.processes):
        for case in cases:
            worker = [sys.executable, __file__, "--binaries", str(given.binaries), "--worker", case]
            done = subprocess.run(worker, check=True, capture_output=True, text=True)
            rows += [{"case": case, "launches": key, "us": us} for key, us in json.loads(done.stdout).items()]
            if given.out:
                unfinished = given.out.with_name(f"{given.out.name}.tmp")
                unfinished.write_text(json.dumps(rows, indent=1), encoding="utf-8")
                unfinished.replace(given.out)
        print(f"process {number + 1} of {given.processes} of each case", file=sys.stderr, flush=True)
    return pd.DataFrame(rows, columns=["case", "launches", "us"])


def main() -> None:
    """Run the processes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binaries", type=Path, default=Path("build/cuda"))
    parser.add_argument("--processes", type=int, default=3, help="of every case")
    parser.add_argument("--decode", action="store_true", help="also a decode step by PyTorch")
    parser.add_argument("--out", type=Path, help="figures of every process, as JSON")
    parser.add_argument("--worker", choices=[*STREAMS, *WARMUPS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        json.dump(decode(given.worker) if given.worker in WARMUPS else nodes(given.binaries, given.worker), sys.stdout)
        return
    table = alternate(given)
    figures = table.groupby(["case", "launches"], sort=False)["us"].agg(["median", "min", "max"])
    print(f"us per node of {NODES}, or of a step, after so many launches on a second stream")
    print(figures.to_string(float_format=lambda value: f"{value:.4f}"))


if __name__ == "__main__":
    main()
