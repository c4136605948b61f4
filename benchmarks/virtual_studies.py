"""Do the intervals of whole studies hold the truth, from the measuring job to the tables?

Whole studies on a virtual GPU with a known cost model: every trial is a job of its own whose host and device are a
little slower or faster than the model, as processes on real cards are (host by a tenth, device by a third of a
percent, 0.3 % of noise within a process). The results go through aggregation, and each interval of its tables is
held against the model.

    PYTHONPATH=. python benchmarks/virtual_studies.py --binaries build/cuda [--studies 3] [--trials 3] [--seed 1]

Needs no card. interval_coverage.py beside it draws many more studies, into the analysis alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from tests.virtual_gpu import H100, Card, VirtualGpu, compile_library
from tests.virtual_gpu.jobs import Jobs

from launchbench.aggregate.join import aggregate

COUNTS = (8, 64, 512)
HOST_SPREAD, DEVICE_SPREAD, NOISE = 0.10, 0.0033, 0.003
MODEL = dataclasses.replace(H100, levels_us=(0.20, 0.22, 0.25, 0.28, 0.30))
HOST_COSTS = ("issue_us", "issue_ex_us", "capture_us", "instantiate_us", "instantiate_node_us", "upload_us")
DEVICE_COSTS = ("pace_us", "graph_fixed_us", "node_us")


def process(rng: np.random.Generator) -> Card:
    """The card as one process finds it."""
    host = max(0.5, 1 + HOST_SPREAD * rng.standard_normal())
    device = math.exp(DEVICE_SPREAD * rng.standard_normal())
    costs = {name: getattr(MODEL, name) * host for name in HOST_COSTS}
    costs |= {name: getattr(MODEL, name) * device for name in DEVICE_COSTS}
    levels = tuple(level * device for level in MODEL.levels_us)
    return dataclasses.replace(MODEL, **costs, levels_us=levels, noise=NOISE)


def measure(folder: Path, gpu: VirtualGpu, jobs: Jobs, binaries: Path, trials: int, rng: np.random.Generator) -> None:
    """All jobs of one study."""
    settings = {"site": "virtual", "virtual_results": "allow", "results_dir": "simulated", "warmup_ms": 0}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings | {"launch_counts": list(COUNTS), "pool_mib": 64}))
    for count in COUNTS:
        for trial in range(1, trials + 1):
            seed = int(rng.integers(1 << 30))
            environment = gpu.environment([process(rng)], modelled_clock=True, seed=seed)
            arguments = ["--label", "h100", "--launch-count", str(count), "--trial", str(trial)]
            arguments += ["--binaries", str(binaries), "--receipt", "receipt.json"]
            done = jobs.run(environment, folder, "measure", *arguments, timeout_s=900)
            if done.status:
                sys.exit(done.err)


def truths(kernel: str, count: int) -> dict[str, float]:
    """What the summary and the anatomy of a cell should say, in microseconds or replays."""
    levels = MODEL.levels_us if kernel == "tiny" else (0.0,)
    cards = [dataclasses.replace(MODEL, levels_us=(level,)) for level in levels]

    def mean(name: str, *more: object) -> float:
        return float(np.mean([getattr(card, name)(*more) for card in cards]))

    loop, replay = mean("loop_us", count, kernel, 0), mean("replay_us", count, kernel, 0)
    saved = mean("loop_total_us", count, kernel, 0) - mean("replay_total_us", count, kernel, 0)
    return {
        "loop": loop,
        "replay": replay,
        "speedup": loop / replay,
        "break_even_replays": math.ceil(sum(MODEL.once_us(count)) / saved),
        "node": mean("mode_us", "replay-queued", count, kernel, 0) / count,
        "pace": mean("mode_us", "queued", count, kernel, 0) / count,
    }


def intervals(results: Path) -> Iterator[tuple[str, float, float, float]]:
    """Kind, truth and ends of every interval of the native path."""
    made = aggregate(results, ["h100"], COUNTS)
    for table, ends in (
        (made.summary, ("loop", "replay", "speedup", "break_even_replays")),
        (made.anatomy, ("node", "pace")),
    ):
        own = table[table["launch_path"] == "native-driver"]
        for row in own.to_dict("records"):
            known = truths(row["kernel"], row["launch_count"])
            for name in ends:
                unit = "" if name in ("speedup", "break_even_replays") else "_us"
                yield name, known[name], row[f"{name}_low{unit}"], row[f"{name}_high{unit}"]


def main() -> None:
    """Measure the studies and print how many intervals of each kind hold the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, default=Path("build/cuda"))
    parser.add_argument("--studies", type=int, default=3)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        gpu = VirtualGpu(compile_library(Path(name)), Path(name) / "locks")
        gpu.locks.mkdir()
        with Jobs({**os.environ, **gpu.environment([MODEL])}) as jobs:
            for study in range(given.studies):
                folder = Path(name) / str(study)
                folder.mkdir()
                measure(folder, gpu, jobs, given.binaries.resolve(), given.trials, rng)
                for kind, truth, low, high in intervals(folder / "simulated"):
                    rows.append({"kind": kind, "none": pd.isna(low), "holds": bool(low <= truth <= high)})
                print(f"study {study + 1} of {given.studies} measured", file=sys.stderr, flush=True)
    table = pd.DataFrame(rows)
    print(f"{given.studies} studies of {given.trials} trials on a virtual GPU, seed {given.seed}; intervals of 95 %")
    print(f"{'interval':22}{'cells':>7}{'without':>9}{'hold the truth':>16}")
    for kind, group in table.groupby("kind", sort=False):
        told = group[~group["none"]]
        print(f"{kind:22}{len(group):7}{group['none'].sum():9}{told['holds'].mean():16.1%}")
    told = table[~table["none"]]
    print(f"{'all':22}{len(table):7}{table['none'].sum():9}{told['holds'].mean():16.1%}")


if __name__ == "__main__":
    main()
