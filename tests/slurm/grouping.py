"""What submitting each N by itself costs, and all N of a GPU type in one job: ``python -m tests.slurm.grouping``.

On a SLURM without a queue, and a card that takes no time: what is left is start-up. Needs what `make test-slurm` needs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from tests.slurm.cluster import Cluster, start, why_not
from tests.slurm.conftest import ASKED, CARDS, GROUPED, NODES, RESULTS, HeadNode
from tests.virtual_gpu import VirtualGpu, compile_library
from tests.workflow.conftest import SHORT, clone_into

COUNTS = [8, 64, 512, 4096]
WAYS = {"one job for each N": (), "one job for all N": GROUPED}


def once(cluster: Cluster, head: HeadNode, options: tuple[str, ...]) -> tuple[int, float, float]:
    """Jobs of SLURM, seconds that they held the GPU together, seconds from the first start to the last end."""
    before = {job for (job,) in cluster.jobs("%i")}
    for folder in ("build/cells", "build/tables", RESULTS):
        shutil.rmtree(head.clone.path / folder, ignore_errors=True)
    run = head.submit("build/tables/summary.csv", *options)
    assert run.status == 0, run.text
    new = sorted({job for (job,) in cluster.jobs("%i")} - before)
    spans = []
    for job in new:
        told = dict(re.findall(r"(\w+)=(\S+)", cluster.command("scontrol", "show", "job", "--oneliner", job)))
        spans.append([datetime.fromisoformat(told[name]).timestamp() for name in ("StartTime", "EndTime")])
    held = sum(end - begin for begin, end in spans)
    return len(new), held, max(end for _, end in spans) - min(begin for begin, _ in spans)


def main() -> None:
    """Print the medians of both ways, which alternate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    reason = why_not()
    if reason:
        raise SystemExit(reason)
    folder = Path(tempfile.mkdtemp(prefix="launchbench-slurm-", dir="/tmp"))
    try:
        clone = clone_into(folder / "clone")
        (folder / "slurm").mkdir()
        clone.configure(**{**SHORT, "virtual_results": "allow", "results_dir": RESULTS, "launch_counts": COUNTS})
        head = HeadNode(clone)
        head.ask({"a100": ASKED["a100"]})
        build = [sys.executable, "-m", "launchbench", "build"]
        subprocess.run(build, cwd=clone.path, env=clone.variables(), check=True, capture_output=True)
        gpu = VirtualGpu(compile_library(folder / "gpu"))
        with start(folder / "slurm", NODES, gpu) as cluster:
            cluster.hand_out("a100-node", [CARDS["a100-node"]])
            told = {way: [] for way in WAYS}  # type: dict[str, list[tuple[int, float, float]]]
            for _ in range(repeats):
                for way, options in WAYS.items():
                    told[way].append(once(cluster, head, options))
        for way, rows in told.items():
            jobs, held, span = (statistics.median(column) for column in zip(*rows, strict=True))
            print(
                f"{way}: {jobs} jobs, {held:.0f} s of GPU allocation, {span:.0f} s from first start to last end: {rows}"
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
