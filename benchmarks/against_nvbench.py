"""What launchbench and nvbench say of the same loop and the same graph.

Fresh processes of both by turns, on the same card, with the kernels of the same fatbin and the same native loop
(``cuLaunchKernel`` from C). The kernel is ``empty``, so that no buffer's place decides. nvbench has three ways to
time what runs on a stream:

  isolated   its default: a kernel of its own holds the stream until everything is issued, and gives up after a while
  sync       the same without that kernel (exec_tag::sync)
  batched    many calls in a row between two events

    python benchmarks/against_nvbench.py --binaries build/cuda --processes 3 --out nvbench.csv

Needs a card and the package cuda-bench (``pip install cuda-bench``), which this project does not depend on.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from block import output_of

QUEUE_DEPTH = 1024
OURS = ("loop", "queued", "replay", "replay-queued", "replay-batch")
SUMMARIES = {"nv/cold/time/gpu/mean": "gpu_us", "nv/cold/time/cpu/mean": "cpu_us", "nv/batch/time/gpu/mean": "batch_us"}
"""Tags of nvbench's JSON -> what they are, in microseconds once converted."""


def launchbench_rows(binaries: Path, counts: list[int]) -> list[dict[str, Any]]:
    """Median of 50 repetitions of each mode in this process."""
    from block import time_block

    from launchbench.measure.placements import Placement
    from launchbench.results.protocol import Protocol

    protocol = Protocol(repetitions=50, warmup_rounds=5, warmup_ms=200)
    path = "native-driver"
    rows = []
    for count, timing in time_block(
        binaries, path, "empty", counts, OURS, [Placement(0, 0, True)], 4, protocol
    ).items():
        for mode, own in timing.frame(count, path, "empty").groupby("mode"):
            gpu = (own["gpu_us"] / own["replays"].clip(lower=1)).median()
            rows.append({"launch_count": count, "what": mode, "us": gpu})
            if mode in ("loop", "replay"):
                rows.append({"launch_count": count, "what": f"{mode}: issue", "us": own["issue_us"].median()})
    return rows


def nvbench_rows(binaries: Path, counts: list[int], out: Path) -> list[dict[str, Any]]:
    """Means of nvbench in this process, which writes its own JSON to ``out``."""
    from cuda import bench
    from cuda.core import Device, ObjectCode, Stream

    from launchbench.measure.driver import call
    from launchbench.measure.graphs import DriverGraphs
    from launchbench.measure.native import NativeLoops, check_driver
    from launchbench.measure.timing import Loop

    Device(0).set_current()
    loops = NativeLoops(binaries / "liblaunchloops.so")
    code = ObjectCode.from_fatbin((binaries / "graphs.fatbin").read_bytes(), name="graphs")

    def timed(state: Any) -> None:
        count, what = state.get_int64("N"), state.get_string("what")
        if what == "loop, isolated" and count > QUEUE_DEPTH:
            state.skip("the queue is full before everything is issued: nvbench's kernel would wait for ever")
            return
        device = Device(state.get_device())
        device.set_current()
        function = int(call("cuKernelGetFunction", code.get_kernel("empty").handle))
        stream = state.get_stream().addressof()
        batched, sync = "batched" in what, "sync" in what
        issue = loops.driver_loop(function, stream, 0, count)
        if what.startswith("loop"):
            state.exec(lambda launch: issue() and sys.exit("a launch failed"), batched=batched, sync=sync)
            return
        own, graphs = Stream.from_handle(stream), DriverGraphs()
        graph = graphs.capture(own, Loop("cuLaunchKernel", issue, check_driver))
        executable = graphs.instantiate(graph)
        graphs.upload(executable, own)
        replay = loops.replays(graphs.handle(executable), stream, 1)
        state.exec(lambda launch: replay() and sys.exit("a replay failed"), batched=batched, sync=sync)
        call("cuStreamSynchronize", stream)
        graphs.destroy(executable)
        graphs.release(graph)

    ways = ["loop, isolated", "loop, sync", "graph, isolated", "graph, sync", "graph, batched"]
    bench.register(timed).add_int64_axis("N", counts).add_string_axis("what", ways)
    bench.run_all_benchmarks(["nvbench", "--quiet", "--timeout", "1", "--min-samples", "50", "--json", str(out)])
    return _read(json.loads(out.read_text(encoding="utf-8")))


def _read(answer: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for state in answer["benchmarks"][0]["states"]:
        axes = {axis["name"]: axis["value"] for axis in state["axis_values"]}
        place = {"launch_count": int(axes["N"])}
        if state["is_skipped"]:
            rows.append({**place, "what": axes["what"], "reason": state["skip_reason"]})
        for summary in state["summaries"] or ():
            kind = SUMMARIES.get(summary["tag"])
            if kind is None or (kind == "batch_us") != ("batched" in axes["what"]):
                continue
            value = next(float(datum["value"]) for datum in summary["data"] if datum["name"] == "value")
            what = f"{axes['what']}: cpu" if kind == "cpu_us" else axes["what"]
            rows.append({**place, "what": what, "us": 1e6 * value})
    return rows


def table_of(rows: pd.DataFrame) -> str:
    """µs per launch or node: median over the processes, and how far they are apart."""
    lines = [f"{'N':>6} {'tool':12} {'what':22}{'us per launch or node':>22}{'processes apart':>17}"]
    for (count, tool, what), group in rows.groupby(["launch_count", "tool", "what"], sort=False):
        value = (group["us"] / count).dropna() if "us" in group else []
        if len(value):
            lines.append(f"{count:6} {tool:12} {what:22}{value.median():22.4f}{value.max() / value.min() - 1:17.1%}")
        else:
            lines.append(f"{count:6} {tool:12} {what:22}{group['reason'].iloc[0]:>22}")
    return "\n".join(lines)


def main() -> None:
    """Alternate the tools and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, default=Path("build/cuda"))
    parser.add_argument("--processes", type=int, default=3, help="of each tool")
    parser.add_argument("--n", type=lambda text: [int(word) for word in text.split(",")], default=[8, 64, 512, 4096])
    parser.add_argument("--out", type=Path, help="CSV with every process's figures; beside it nvbench's last JSON")
    parser.add_argument("--child", choices=("launchbench", "nvbench"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        if given.child == "launchbench":
            rows = launchbench_rows(given.binaries, given.n)
        else:
            with tempfile.TemporaryDirectory() as folder:
                kept = given.out.with_suffix(".json") if given.out else Path(folder) / "nvbench.json"
                rows = nvbench_rows(given.binaries, given.n, kept)
        print(json.dumps(rows))
        return
    rows, begun = [], time.monotonic()
    for process in range(given.processes):
        for tool in ("launchbench", "nvbench"):
            command = [sys.executable, __file__, *sys.argv[1:], "--child", tool]
            found = json.loads(output_of(command).splitlines()[-1])
            rows += [{"process": process, "tool": tool, **row} for row in found]
            print(f"process {process}, {tool}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    table = pd.DataFrame(rows).sort_values("launch_count", kind="stable")
    if given.out:
        table.to_csv(given.out, index=False)
    print(table_of(table))


if __name__ == "__main__":
    main()
