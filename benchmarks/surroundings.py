"""What around a graph makes it dearer?

In fresh processes, a graph of ``empty`` on the first stream, alone on the device: before and after kernels or memsets
on a second stream, one at a time; with more or less memory written before each replay, in a process of one stream and
of two; while another graph is instantiated, uploaded, replayed, released. And the decode step of
``launchbench.decode`` after a warm-up on the current stream and after one on a side stream.

    python benchmarks/surroundings.py --binaries build/cuda --decode --processes 3 --out surroundings.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from block import output_of

from launchbench.results.files import write_atomically

if TYPE_CHECKING:
    from cuda.core import Stream

    from launchbench.measure.timing import Loop

NODES = 512
FEW_NODES = 8
LAUNCHES = 10
"""On the second stream, one by one; then as many as the graph has nodes."""
REPETITIONS = 21
WRITTEN_BYTES = (1 << 20, 8 << 20, 32 << 20, 64 << 20, 512 << 20)
CACHE = ("written before a replay",)
STREAMS = ("non-blocking", "blocking", "high priority", "memsets of 4 B", "memsets of 1 MiB")
GRAPHS = ("instantiated, released", "uploaded, released", "uploaded, replayed, released")
WARMUPS = ("current stream", "side stream")


@dataclass
class Bench:
    """One graph of ``empty`` on the first stream of this process, and what it takes to launch more."""

    binaries: Path
    nodes: int

    def __post_init__(self) -> None:
        """Device, stream and events are those of a job."""
        from block import process

        from launchbench.measure.driver import call
        from launchbench.measure.timing import Timer, timing_events

        self.device, self.stream, code, self.loops = process(self.binaries)
        self.function = int(call("cuKernelGetFunction", code.get_kernel("empty").handle))
        self.timer = Timer(self.stream, timing_events(self.device), time.perf_counter_ns())

    def launch(self, stream: Stream, count: int) -> Loop:
        """So many kernels on this stream."""
        from launchbench.measure.native import check_driver
        from launchbench.measure.timing import Loop

        return Loop("cuLaunchKernel", self.loops.driver_loop(self.function, int(stream.handle), 0, count), check_driver)

    @contextlib.contextmanager
    def graph(self) -> Iterator[Callable[..., float]]:
        """Replays a graph that is made anew, each time after a call of ``before``: median microseconds by events."""
        from launchbench.measure.graphs import Costs, MovableGraph

        loop = self.launch(self.stream, self.nodes)
        loop.run()
        self.stream.sync()
        with MovableGraph(self.stream, loop, Costs(), self.loops) as graph:

            def replay_us(before: Callable[[], None] = lambda: None) -> float:
                samples = []
                for _ in range(3 + REPETITIONS):
                    before()
                    samples.append(self.timer.time(graph.replay())["gpu_us"])
                return float(np.median(samples[3:]))

            yield replay_us


def cache(binaries: Path, _case: str) -> dict[str, float]:
    """Bytes written before each replay, and state -> microseconds per node, in this process."""
    from launchbench.measure.driver import DeviceMemory, call

    bench = Bench(binaries, NODES)
    with bench.graph() as replay_us, DeviceMemory(max(WRITTEN_BYTES)) as memory:

        def write(size_bytes: int) -> None:
            call("cuMemsetD32Async", memory.address, 0, size_bytes // 4, int(bench.stream.handle))
            bench.stream.sync()

        def told(state: str) -> dict[str, float]:
            written = {f"{size >> 20} MiB{state}": replay_us(partial(write, size)) / NODES for size in WRITTEN_BYTES}
            return {f"nothing{state}": replay_us() / NODES} | written

        found = told("")
        second = bench.device.create_stream()
        bench.launch(second, LAUNCHES).run()
        second.sync()
        return found | told(", second stream")


def streams(binaries: Path, kind: str) -> dict[str, float]:
    """Launches, or memsets, so far on a second stream -> microseconds per node, in this process."""
    from cuda.core import StreamOptions

    from launchbench.measure.driver import DeviceMemory, call

    bench = Bench(binaries, NODES)
    options: dict[str, Any] = {"blocking": {"nonblocking": False}, "high priority": {"priority": -5}}.get(kind, {})
    words = {"memsets of 4 B": 1, "memsets of 1 MiB": 1 << 18}.get(kind, 0)
    with bench.graph() as replay_us, DeviceMemory(1 << 20) as memory:
        second = bench.device.create_stream(options=StreamOptions(**options))
        found, launched = {"0 launches": replay_us() / NODES}, 0
        for more in (1,) * LAUNCHES + (NODES,):
            if words:
                for _ in range(more):
                    call("cuMemsetD32Async", memory.address, 0, words, int(second.handle))
            else:
                bench.launch(second, more).run()
            second.sync()
            launched += more
            found[f"{launched} launches"] = replay_us() / NODES
    return found


def graphs(binaries: Path, case: str) -> dict[str, float]:
    """What has been done with another graph -> microseconds per replay, in this process."""
    from launchbench.measure.graphs import DriverGraphs

    bench, maker = Bench(binaries, FEW_NODES), DriverGraphs()
    with bench.graph() as replay_us:
        found = {"alone": replay_us()}
        captured = maker.capture(bench.stream, bench.launch(bench.stream, FEW_NODES))
        other = maker.instantiate(captured)
        found["instantiated"] = replay_us()
        if "uploaded" in case:
            maker.upload(other, bench.stream)
            bench.stream.sync()
            found["uploaded"] = replay_us()
        if "replayed" in case:
            bench.loops.replays(maker.handle(other), int(bench.stream.handle), 1)()
            bench.stream.sync()
            found["replayed"] = replay_us()
        maker.destroy(other)
        maker.release(captured)
        found["released"] = replay_us()
    with bench.graph() as replay_us:
        return found | {"a graph made afterwards": replay_us()}


def decode(_binaries: Path, warmup: str) -> dict[str, float]:
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
    """Fresh processes of every case by turns; columns case, after and us. ``--out`` is written after each."""
    cases = [*CACHE, *STREAMS, *GRAPHS, *(WARMUPS if given.decode else ())]
    rows: list[dict[str, object]] = []
    for number in range(given.processes):
        for case in cases:
            worker = [sys.executable, __file__, "--binaries", str(given.binaries), "--worker", case]
            rows += [{"case": case, "after": key, "us": us} for key, us in json.loads(output_of(worker)).items()]
            if given.out:
                write_atomically(given.out, json.dumps(rows, indent=1).encode())
        print(f"process {number + 1} of {given.processes} of each case", file=sys.stderr, flush=True)
    return pd.DataFrame(rows, columns=["case", "after", "us"])


def main() -> None:
    """Run the processes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binaries", type=Path, default=Path("build/cuda"))
    parser.add_argument("--processes", type=int, default=3, help="of every case")
    parser.add_argument("--decode", action="store_true", help="also a decode step by PyTorch")
    parser.add_argument("--out", type=Path, help="figures of every process, as JSON")
    parser.add_argument("--worker", choices=[*CACHE, *STREAMS, *GRAPHS, *WARMUPS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        kinds = {cache: CACHE, streams: STREAMS, graphs: GRAPHS, decode: WARMUPS}
        measure = next(each for each, cases in kinds.items() if given.worker in cases)
        json.dump(measure(given.binaries, given.worker), sys.stdout)
        return
    table = alternate(given)
    figures = table.groupby(["case", "after"], sort=False)["us"].agg(["median", "min", "max"])
    print(f"us: per node of {NODES} (cache, streams), of a replay of {FEW_NODES} (graphs), of a step (warm-ups)")
    print(figures.to_string(float_format=lambda value: f"{value:.4f}"))


if __name__ == "__main__":
    main()
