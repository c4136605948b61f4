"""Synthetic lengths jobs in the real file format, of cards called "Synthetic test card", from a known cost model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from launchbench.results.extra_files import write_repetitions
from launchbench.results.lengths import LENGTHS_VERSION
from launchbench.results.lengths_columns import LENGTH_REPETITIONS
from launchbench.results.lengths_files import LENGTHS
from launchbench.results.record import utc_text
from tests.unit.fabricate import DEVICE_NAME, START, state, uuid

KERNELS_US = (0.0, 1.0, 5.0, 20.0, 50.0, 200.0)
LONGEST_MS = 70.0
CYCLES_PER_US = 1980.0


@dataclass(frozen=True)
class Costs:
    """What the fabricated card costs, in microseconds; ``noise`` is the relative standard deviation."""

    issue: float = 4.0
    pace: float = 2.0
    node: float = 0.75
    loop_fixed: float = 3.0
    replay_fixed: float = 6.0
    synchronize: float = 5.0
    replay_call: float = 3.0
    nothing: float = 1.6
    tick: float = 0.032
    noise: float = 0.001

    def loop_us(self, count: int, kernel_us: float) -> float:
        """GPU time of the loop: the first launch is issued, the last is executed, the slower stage in between."""
        device = self.pace + kernel_us
        return self.loop_fixed + self.issue + device + (count - 1) * max(self.issue, device)

    def replay_us(self, count: int, kernel_us: float) -> float:
        """GPU time of one replay."""
        return self.replay_fixed + count * (self.node + kernel_us)


Edit = Callable[[dict[str, Any], pd.DataFrame], pd.DataFrame | None]


def write_lengths_job(
    results_dir: Path,
    *,
    card: int = 0,
    label: str = "t4",
    site: str = "lab",
    costs: Costs | None = None,
    launch_counts: Sequence[int] = (8, 64, 512),
    kernels_us: Sequence[float] = KERNELS_US,
    repetitions: int = 10,
    run: int = 0,
    virtual: bool = False,
    hostname: str = "bench-host",
    device_name: str = DEVICE_NAME,
    edit: Edit | None = None,
) -> Path:
    """File one job and return the path of its record.

    ``run`` counts repeats of the job, each an hour later. ``edit`` may change the record and the repetitions in place,
    or return other repetitions, before they are written.
    """
    costs = costs or Costs()
    begun = START + timedelta(hours=run)
    cells = [(count, kernel) for count in launch_counts for kernel in kernels_us]
    left_out = [cell for cell in cells if cell[0] * cell[1] > LONGEST_MS * 1e3]
    rows = _rows(costs, [cell for cell in cells if cell not in left_out], repetitions, [card, run, *label.encode()])
    launches = int((rows["launch_count"]).sum()) + 24
    hashes = ("graphs_cu_sha256", "fatbin_sha256", "library_sha256", "package_sha256")
    record: dict[str, Any] = {
        "run_id": f"lengths-{uuid(card)[4:12]}-{run:06d}",
        "site": site,
        "label": label,
        "started_utc": utc_text(begun),
        "finished_utc": utc_text(begun + timedelta(seconds=30)),
        "before": state(begun),
        "after": state(begun),
        "device": {
            "name": device_name,
            "uuid": uuid(card),
            "compute_capability": "7.5",
            "driver_version": "580.00",
            "virtual": virtual,
        },
        "host": {"hostname": hostname, "cpu_model": "Synthetic CPU"},
        "software": {
            **{"launchbench": "0.1.0", "python": "3.11.7", "cuda_bindings": "13.0", "cuda_core": "1.1"},
            **{"numpy": "2.4", "nvcc": "13.0"},
        },
        "code": dict.fromkeys(hashes, "0" * 64),
        "seed": 7,
        "cycles_per_us": CYCLES_PER_US,
        "expected_count": launches,
        "observed_count": launches,
        "sets": [{"launch_count": n, "before": state(begun), "after": state(begun)} for n in launch_counts],
        "left_out": [{"launch_count": count, "kernel_us": kernel} for count, kernel in left_out],
        "protocol": {
            "version": LENGTHS_VERSION,
            "launch_counts": list(launch_counts),
            "kernels_us": list(kernels_us),
            "repetitions": repetitions,
            "nothing_repetitions": 20,
            "warmup_rounds": 2,
            "warmup_ms": 200,
            "longest_ms": LONGEST_MS,
        },
    }
    if edit is not None:
        changed = edit(record, rows)
        rows = rows if changed is None else changed
    return write_repetitions(LENGTHS, results_dir, record, rows)


def _rows(costs: Costs, cells: Sequence[tuple[int, float]], repetitions: int, seed: list[int]) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [_row(0, 0.0, "nothing", number, 0, costs.nothing, 0.1, costs, rng) for number in range(20)]
    for count, kernel in cells:
        for number in range(repetitions):
            loop, replay = costs.loop_us(count, kernel), costs.replay_us(count, kernel)
            rows.append(_row(count, kernel, "loop", number, 0, loop, count * costs.issue, costs, rng))
            rows.append(_row(count, kernel, "replay", number, 1, replay, costs.replay_call, costs, rng))
    return pd.DataFrame(rows, columns=[column.name for column in LENGTH_REPETITIONS])


def _row(
    count: int,
    kernel: float,
    mode: str,
    repetition: int,
    order: int,
    gpu_us: float,
    issue_us: float,
    costs: Costs,
    rng: np.random.Generator,
) -> tuple[Any, ...]:
    factor = 1 + costs.noise * float(rng.standard_normal())
    # The second of two events, as the device's clock ticks.
    gpu = max(1, round(gpu_us * factor / costs.tick)) * costs.tick
    issue = issue_us * factor
    start = 1e3 * repetition + order
    cycles = round(kernel * CYCLES_PER_US)
    return (count, kernel, cycles, mode, repetition, order, start, gpu, issue, max(gpu, issue) + costs.synchronize)
