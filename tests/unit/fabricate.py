"""Synthetic results in the real file format, made from a known cost model.

Every device made here is called "Synthetic test card", so that nothing written by it can be taken for a
measurement. The same arguments always give the same files.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from launchbench.results.columns import RAW
from launchbench.results.files import write_result
from launchbench.results.protocol import QUEUE_DEPTH, Protocol
from launchbench.results.record import utc_text

DEVICE_NAME = "Synthetic test card"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LAUNCH_COUNTS = (8, 64, 512, 4096)


@dataclass(frozen=True)
class CostModel:
    """What the fabricated card costs, in microseconds.

    GPU time of the loop is ``loop_fixed + N * issue``, of a replay ``replay_fixed + N * node``; ``noise`` is
    the relative standard deviation. ``past_depth_issue`` replaces ``issue`` for launches beyond the queue's
    depth, ``python_factor`` multiplies it on the path cuda-python.
    """

    issue: float = 4.5
    node: float = 0.75
    loop_fixed: float = 3.0
    replay_fixed: float = 6.0
    synchronize: float = 4.0
    replay_call: float = 3.0
    capture: float = 100.0
    capture_each: float = 2.0
    instantiate: float = 200.0
    instantiate_each: float = 6.0
    upload: float = 30.0
    upload_each: float = 1.2
    noise: float = 0.004
    python_factor: float = 1.4
    empty_node: float = 0.5
    past_depth_issue: float | None = None

    def loop_us(self, n: int, launch_path: str = "native-driver") -> float:
        """GPU time of the loop without noise."""
        factor = self.python_factor if launch_path == "cuda-python" else 1.0
        late = self.issue if self.past_depth_issue is None else self.past_depth_issue
        return self.loop_fixed + factor * (self.issue * min(n, QUEUE_DEPTH) + late * max(0, n - QUEUE_DEPTH))

    def replay_us(self, n: int, kernel: str = "tiny") -> float:
        """GPU time of one replay without noise."""
        return self.replay_fixed + n * (self.node if kernel == "tiny" else self.empty_node)

    def once_us(self, n: int) -> tuple[float, float, float]:
        """Capture, instantiate, upload."""
        return (
            self.capture + n * self.capture_each,
            self.instantiate + n * self.instantiate_each,
            self.upload + n * self.upload_each,
        )


def uuid(number: int) -> str:
    """UUID of the fabricated card of this number."""
    digits = hashlib.sha256(f"card {number}".encode()).hexdigest()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def state(moment: datetime, **fields: Any) -> dict[str, Any]:
    """An idle card."""
    return {
        "taken_utc": utc_text(moment),
        "sm_clock_mhz": 1500,
        "throttle_reasons": ["gpu_idle"],
        "throttle_reasons_mask": 1,
        "temperature_c": 40,
        "other_processes": [],
        "unavailable": {"power_w": "not supported"},
        **fields,
    }


Edit = Callable[[dict[str, Any], pd.DataFrame], pd.DataFrame | None]


def write_job(
    results_dir: Path,
    launch_count: int,
    *,
    label: str = "t4",
    site: str = "lab",
    card: int = 0,
    model: CostModel | None = None,
    repetitions: int = 50,
    launch_paths: Iterable[str] = ("native-driver", "cuda-python"),
    kernels: Iterable[str] = ("tiny", "empty"),
    run: int = 0,
    hostname: str = "bench-host",
    cpu_model: str | None = "Synthetic CPU",
    driver_version: str | None = "580.00",
    device_name: str = DEVICE_NAME,
    virtual: bool = False,
    edit: Edit | None = None,
) -> Path:
    """File one job; return the path of its record.

    ``run`` counts repeats of the job, each an hour later with other noise. ``edit`` may change record and
    raw table in place, or return another raw table, before they are written.
    """
    model = model or CostModel()
    gpu_uuid = uuid(card)
    digits = gpu_uuid[4:12]
    begun = START + timedelta(hours=run, seconds=launch_count)
    run_id = f"n{launch_count:07d}-{digits}-{begun:%Y%m%dT%H%M%SZ}-{card % 0xFFFFFF:06x}"
    protocol = Protocol(version=2, repetitions=repetitions, warmup_rounds=5, warmup_ms=200)
    seed = [launch_count, card, run, *label.encode()]
    rng = np.random.default_rng(seed)
    paths, names = tuple(launch_paths), tuple(kernels)
    blocks, frames = [], []
    for launch_path in paths:
        for kernel in names:
            frames.append(_rows(model, launch_count, launch_path, kernel, repetitions, rng))
            expected = launch_count * (2 * repetitions + 12) if kernel == "tiny" else 0
            capture, instantiate, upload = model.once_us(launch_count)
            blocks.append(
                {
                    "launch_path": launch_path,
                    "kernel": kernel,
                    "protocol_hash": protocol.block_hash(launch_path, kernel),
                    "expected_count": expected,
                    "observed_count": expected,
                    "warmup_rounds_run": 5,
                    "capture_us": _samples(capture),
                    "instantiate_us": _samples(instantiate),
                    "upload_us": _samples(upload),
                    "first_replay_us": _samples(50.0),
                    "buffer_address": "0x7f0000000000",
                    "started_utc": utc_text(begun),
                    "before": state(begun),
                    "after": state(begun + timedelta(seconds=1)),
                }
            )
    record: dict[str, Any] = {
        "run_id": run_id,
        "site": site,
        "label": label,
        "launch_count": launch_count,
        "started_utc": utc_text(begun),
        "finished_utc": utc_text(begun + timedelta(seconds=5)),
        "protocol": protocol.model_dump(),
        "blocks": blocks,
        "device": {
            "name": device_name,
            "uuid": gpu_uuid,
            "compute_capability": "7.5",
            "multiprocessors": 40,
            "memory_total_bytes": 16 * 2**30,
            "driver_version": driver_version,
            "cuda_driver_version": "13.0",
            "virtual": virtual,
            "unavailable": {"vbios_version": "not supported by this card"},
        },
        "host": {
            "hostname": hostname,
            "cpu_model": cpu_model,
            "cpu_count": 8,
            "affinity": [0, 1, 2, 3],
            "kernel": "6.1",
            "unavailable": {"governor": "not shown to virtual machines"},
        },
        "software": {
            "launchbench": "0.1.0",
            "python": "3.11.7",
            "cuda_bindings": "13.0",
            "cuda_core": "1.1",
            "numpy": "2.4",
            "nvcc": "13.0",
        },
        "code": {
            name: hashlib.sha256(name.encode()).hexdigest()
            for name in ("graphs_cu_sha256", "fatbin_sha256", "library_sha256", "package_sha256")
        },
    }
    raw = pd.concat(frames, ignore_index=True)
    if edit is not None:
        changed = edit(record, raw)
        raw = raw if changed is None else changed
    return write_result(results_dir, record, raw[[column.name for column in RAW]])


def _samples(median: float) -> list[float]:
    return [1.5 * median, 0.75 * median, median, 0.875 * median, 1.25 * median]


def _rows(
    model: CostModel, n: int, launch_path: str, kernel: str, repetitions: int, rng: np.random.Generator
) -> pd.DataFrame:
    jitter = 1 + model.noise * rng.standard_normal((2, repetitions))
    loop, replay = model.loop_us(n, launch_path) * jitter[0], model.replay_us(n, kernel) * jitter[1]
    repetition = np.arange(repetitions)
    sides = []
    for mode, gpu, issue in (
        ("loop", loop, np.minimum(loop, loop - model.loop_fixed)),
        ("replay", replay, np.full(repetitions, model.replay_call)),
    ):
        first = (repetition % 2 == 0) == (mode == "loop")
        sides.append(
            pd.DataFrame(
                {
                    "launch_count": n,
                    "launch_path": launch_path,
                    "kernel": kernel,
                    "mode": mode,
                    "repetition": repetition,
                    "order": np.where(first, 0, 1),
                    "start_us": repetition * 1000.0 + np.where(first, 0, 500),
                    "gpu_us": gpu,
                    "issue_us": issue,
                    "total_us": np.maximum(gpu, issue) + model.synchronize,
                }
            )
        )
    return pd.concat(sides).sort_values(["repetition", "order"], ignore_index=True)


def write_sweep(results_dir: Path, launch_counts: Iterable[int] = LAUNCH_COUNTS, **options: Any) -> list[Path]:
    """One job for each N; options as in :func:`write_job`."""
    return [write_job(results_dir, n, **options) for n in launch_counts]


def write_four_cards(results_dir: Path, **options: Any) -> None:
    """One card under each of t4, a100, h100 and h200, each with costs of its own."""
    base = CostModel()
    for card, (label, issue, node) in enumerate(
        (("t4", 5.5, 1.9), ("a100", 4.9, 1.2), ("h100", 4.4, 0.9), ("h200", 4.2, 0.75))
    ):
        model = dataclasses.replace(base, issue=issue, node=node, empty_node=0.6 * node)
        write_sweep(results_dir, label=label, card=card, model=model, **options)
