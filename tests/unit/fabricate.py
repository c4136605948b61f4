"""Synthetic results in the real file format, made from a known cost model.

Every device made here is called "Synthetic test card", so that nothing written by it can be taken for a
measurement. The same arguments always give the same files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from launchbench.results.columns import RAW, RAW_BEFORE_3
from launchbench.results.files import write_result
from launchbench.results.layout import run_prefix
from launchbench.results.protocol import QUEUE_DEPTH, Protocol
from launchbench.results.record import card_id, utc_text

DEVICE_NAME = "Synthetic test card"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LAUNCH_COUNTS = (8, 64, 512, 4096)


@dataclass(frozen=True)
class CostModel:
    """What the fabricated card costs, in microseconds.

    GPU time of the loop is ``loop_fixed + N * issue``, of a replay ``replay_fixed + N * node``; ``noise`` is
    the relative standard deviation of a repetition, ``process`` that of a process. ``past_depth_issue`` replaces
    ``issue`` for launches beyond the queue's depth, ``python_factor`` multiplies it on the path cuda-python.
    ``levels`` multiply the time of a node of tiny, one placement after the other; their mean is 1. ``pace`` is the
    device's for launches that are queued already.
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
    process: float = 0.002
    levels: tuple[float, ...] = (0.98, 1.02)
    pace: float = 1.5
    python_factor: float = 1.4
    empty_node: float = 0.5
    past_depth_issue: float | None = None

    def loop_us(self, n: int, launch_path: str = "native-driver") -> float:
        """GPU time of the loop without noise."""
        factor = self.python_factor if launch_path == "cuda-python" else 1.0
        late = self.issue if self.past_depth_issue is None else self.past_depth_issue
        return self.loop_fixed + factor * (self.issue * min(n, QUEUE_DEPTH) + late * max(0, n - QUEUE_DEPTH))

    def replay_us(self, n: int, kernel: str = "tiny", placement: int | None = None) -> float:
        """GPU time of one replay without noise, at a placement or as the mean over all."""
        level = 1.0 if placement is None or kernel != "tiny" else self.levels[placement % len(self.levels)]
        return self.replay_fixed + n * level * (self.node if kernel == "tiny" else self.empty_node)

    def mode_us(self, mode: str, n: int, launch_path: str, kernel: str, placement: int) -> float:
        """GPU time of one execution in any mode."""
        if mode in ("loop", "loop-dependent"):
            return self.loop_us(n, launch_path)
        if mode == "queued":
            return self.loop_fixed + n * self.pace
        return self.replay_us(n, kernel, placement) * (0.1 if mode.startswith("fused") else 1.0)

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
    trial: int = 1,
    placements: int = 4,
    full_placements: int = 2,
    other_placements: int | None = None,
    repetitions: int | None = None,
    modes: Iterable[str] = (),
    launch_paths: Iterable[str] = ("native-driver", "cuda-python"),
    kernels: Iterable[str] = ("tiny", "empty"),
    run: int = 0,
    hostname: str = "bench-host",
    cpu_model: str | None = "Synthetic CPU",
    driver_version: str | None = "580.00",
    device_name: str = DEVICE_NAME,
    virtual: bool = False,
    format: int = 3,
    edit: Edit | None = None,
) -> Path:
    """File one job; return the path of its record.

    ``run`` counts repeats of the job, each an hour later with other noise; ``trial`` is minutes later. The first
    ``full_placements`` get every mode, ``modes`` are those beside loop and replay, on the path native-driver. All but
    tiny on that path have ``other_placements`` where that is given. In
    ``format`` 2 a job has one placement and no trial. ``edit`` may change record and raw table in place, or return
    another raw table, before they are written.
    """
    if repetitions is None:
        repetitions = 50 if format < 3 else 4
    if format < 3:
        placements = full_placements = 1
    model = model or CostModel()
    gpu_uuid = uuid(card)
    digits = gpu_uuid[4:12]
    begun = START + timedelta(hours=run, minutes=7 * (trial - 1), seconds=launch_count)
    prefix = run_prefix(launch_count, trial) if format >= 3 else f"n{launch_count:07d}-"
    run_id = f"{prefix}{digits}-{begun:%Y%m%dT%H%M%SZ}-{card % 0xFFFFFF:06x}"
    protocol = protocol_of(repetitions, placements, full_placements, format)
    rng = np.random.default_rng([launch_count, card, run, trial, *label.encode()])
    process = 1 + model.process * rng.standard_normal(2)
    paths, names = tuple(launch_paths), tuple(kernels)
    blocks, frames = [], []
    for launch_path in paths:
        for kernel in names:
            extra = tuple(modes) if launch_path == "native-driver" else ()
            main = (launch_path, kernel) == ("native-driver", "tiny")
            layout = (placements if main else other_placements or placements, full_placements, repetitions)
            frames.append(_rows(model, launch_count, launch_path, kernel, layout, extra, process, rng))
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
                    **({} if format < 3 else _graph_costs(capture, launch_count)),
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
        **({} if format < 3 else {"trial": trial, "seed": 1000 * run + trial}),
        "started_utc": utc_text(begun),
        "finished_utc": utc_text(begun + timedelta(seconds=5)),
        "protocol": protocol.model_dump(exclude_none=True),
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
    if format < 3:
        return _write_old(results_dir, {"format": f"launchbench-record/{format}", **record}, raw)
    return write_result(results_dir, record, raw[[column.name for column in RAW]])


def protocol_of(repetitions: int = 4, placements: int = 4, full_placements: int = 2, format: int = 3) -> Protocol:
    """What a fabricated job says of itself."""
    if format < 3:
        return Protocol(version=format, repetitions=repetitions, warmup_rounds=5, warmup_ms=200)
    return Protocol(
        repetitions=repetitions,
        warmup_rounds=5,
        warmup_ms=200,
        placements=placements,
        full_placements=full_placements,
        pool_mib=64,
    )


def _write_old(results_dir: Path, record: dict[str, Any], raw: pd.DataFrame) -> Path:
    """As the package did before there were placements."""
    data = raw.to_csv(index=False, lineterminator="\n", columns=[column.name for column in RAW_BEFORE_3]).encode()
    folder = results_dir / record["site"] / record["label"] / card_id(record["device"]["uuid"])
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{record['run_id']}.csv"
    digest = hashlib.sha256(data).hexdigest()
    record["raw"] = {"file": name, "sha256": digest, "size_bytes": len(data), "rows": len(raw)}
    (folder / name).write_bytes(data)
    path = folder / f"{record['run_id']}.json"
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return path


def _samples(median: float) -> list[float]:
    return [1.5 * median, 0.75 * median, median, 0.875 * median, 1.25 * median]


def _graph_costs(capture: float, n: int) -> dict[str, Any]:
    return {"recapture_us": _samples(capture), "update_us": _samples(0.25 * capture), "graph_bytes": [4096 * n] * 5}


def _rows(
    model: CostModel,
    n: int,
    launch_path: str,
    kernel: str,
    layout: tuple[int, int, int],
    extra: tuple[str, ...],
    process: NDArray[np.float64],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Rows of one block in the order in which they were timed; process: factors of the host and of the device."""
    placements, full, repetitions = layout
    modes = ("loop", "replay", *extra)
    everywhere = [mode for mode in modes if mode in ("replay", "replay-queued")]
    timed = [(mode, at) for at in range(placements) for mode in (modes if at < full else everywhere)]
    where = np.repeat([at for _, at in timed], repetitions)
    each = np.array([model.mode_us(mode, n, launch_path, kernel, at) for mode, at in timed])
    mode = np.repeat([mode for mode, _ in timed], repetitions)
    repetition = np.tile(np.arange(repetitions), len(timed))
    issued = np.isin(mode, ("loop", "loop-dependent", "queued"))
    batch = np.where(mode == "replay-batch", max(1, 512 // n), 1)
    gpu = np.repeat(each, repetitions) * batch * np.where(issued, process[0], process[1])
    gpu *= 1 + model.noise * rng.standard_normal(len(gpu))
    issue = np.where(issued, np.maximum(gpu - model.loop_fixed, 0.5), model.replay_call * batch)
    position = np.array([modes.index(one) for one in mode])
    turn = np.where(where < full, (position + repetition) % len(modes), 0)
    frame = pd.DataFrame(
        {
            "launch_count": n,
            "launch_path": launch_path,
            "kernel": kernel,
            "attempt": 0,
            "mode": mode,
            "placement": where,
            "offset_bytes": where * 256,
            "repetition": repetition,
            "order": turn,
            "replays": np.where(issued | pd.Series(mode).str.startswith("fused").to_numpy(bool), 0, batch),
            "gpu_us": gpu,
            "issue_us": issue,
            "total_us": np.maximum(gpu, issue) + model.synchronize,
        }
    ).sort_values(["placement", "repetition", "order"], kind="stable", ignore_index=True)
    frame["start_us"] = frame["total_us"].cumsum().shift(fill_value=0.0)
    return frame


def write_sweep(
    results_dir: Path, launch_counts: Iterable[int] = LAUNCH_COUNTS, trials: int = 1, **options: Any
) -> list[Path]:
    """As many jobs as trials for each N; options as in :func:`write_job`."""
    return [write_job(results_dir, n, trial=trial, **options) for n in launch_counts for trial in range(1, trials + 1)]


def write_four_cards(results_dir: Path, **options: Any) -> None:
    """One card under each of t4, a100, h100 and h200, each with costs of its own."""
    base = CostModel()
    for card, (label, issue, node) in enumerate(
        (("t4", 5.5, 1.9), ("a100", 4.9, 1.2), ("h100", 4.4, 0.9), ("h200", 4.2, 0.75))
    ):
        model = dataclasses.replace(base, issue=issue, node=node, empty_node=0.6 * node)
        write_sweep(results_dir, label=label, card=card, model=model, **options)
