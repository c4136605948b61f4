"""Synthetic decode jobs in the real file format, of cards called "Synthetic test card", from chosen times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from launchbench.results.decode_columns import DECODE_REPETITIONS
from launchbench.results.decode_files import DECODE
from launchbench.results.extra_files import write_repetitions
from launchbench.results.record import utc_text
from tests.unit.fabricate import DEVICE_NAME, START, state, uuid

TOKENS = 4
TIMES: dict[tuple[int, int], tuple[float, float]] = {
    (1, 512): (4000.0, 1000.0),
    (8, 512): (4000.0, 1250.0),
    (64, 512): (4040.0, 4000.0),
    (256, 512): (16000.0, 16000.0),
}
"""(batch, width) -> time of a token in microseconds, eager and by replay."""

Edit = Callable[[dict[str, Any], pd.DataFrame], pd.DataFrame | None]


def write_decode_job(
    results_dir: Path,
    *,
    card: int = 0,
    label: str = "t4",
    site: str = "lab",
    times: Mapping[tuple[int, int], tuple[float, float]] = TIMES,
    repetitions: int = 10,
    run: int = 0,
    virtual: bool = False,
    not_run: str | None = None,
    stored: bool = True,
    edit: Edit | None = None,
) -> Path:
    """File one job and return the path of its record; ``run`` and ``edit`` as in ``write_lengths_job``."""
    begun = START + timedelta(hours=run)
    rows = _rows({} if not_run else times, repetitions)
    hashes = ("graphs_cu_sha256", "fatbin_sha256", "library_sha256", "package_sha256")
    costs = {"issue_us": 5.0, "node_us": 0.5, "queued_us": 1.5}
    point = {"launches": 480, "nodes": {"kernel": 480, "memset": 2}, "largest_difference": 1e-6, "largest_logit": 2.0}
    record: dict[str, Any] = {
        "run_id": f"decode-{uuid(card)[4:12]}-{run:06d}",
        "site": site,
        "label": label,
        "started_utc": utc_text(begun),
        "finished_utc": utc_text(begun + timedelta(seconds=30)),
        "before": state(begun),
        "after": state(begun),
        "device": {
            "name": DEVICE_NAME,
            "uuid": uuid(card),
            "compute_capability": "7.5",
            "driver_version": "580.00",
            "virtual": virtual,
        },
        "host": {"hostname": "bench-host", "cpu_model": "Synthetic CPU"},
        "software": {
            **{"launchbench": "0.1.0", "python": "3.11.7", "cuda_bindings": "13.0", "cuda_core": "1.1"},
            **{"numpy": "2.4", "nvcc": "13.0"},
        },
        "code": dict.fromkeys(hashes, "0" * 64),
        "seed": 7,
        "not_run": not_run,
        "torch": {"version": "2.99.0", "architectures": ["sm_75"]},
        "points": [
            {**point, "batch": batch, "width": width, "before": state(begun), "after": state(begun)}
            for batch, width in times
        ],
        "prediction": {
            "made_utc": utc_text(begun),
            "launches": 480,
            "parts": [
                {"name": "norms", "launches": 240, "host_us": 2000.0, "alone_us": 1600.0, "device_us": 500.0},
                {"name": "views", "launches": 0, "host_us": 1800.0, "alone_us": 1500.0, "device_us": 0.0},
                {"name": "rest", "launches": 240, "host_us": 600.0, "alone_us": 420.0, "device_us": 450.0},
            ],
            "host_us": 4400.0,
            "device_us": 1430.0,
            "eager_us": 4400.0,
            "graph_us": 950.0,
        },
        "protocol": {
            **{"layers": 28, "head_width": 64, "context": 256, "vocabulary": 1024},
            "points": list(times),
            **{"tokens": TOKENS, "checked_tokens": 8, "tolerance": 1e-4, "warmup_rounds": 3},
            **{"repetitions": repetitions, "least_repetitions": 7, "limit_s": 4.0},
        },
    }
    if stored:
        job = {"run_id": "n0000512-t1-x", "launch_path": "cuda-python", "kernel": "empty", "launch_count": 512}
        record["prediction"] |= {"stored": {**job, **costs}, "bare_eager_us": 2400.0, "bare_graph_us": 240.0}
    else:
        record["prediction_reason"] = "no launch job on this card and host is among the results"
    if not_run:
        record |= {"torch": None, "points": [], "prediction": None}
    if edit is not None:
        changed = edit(record, rows)
        rows = rows if changed is None else changed
    return write_repetitions(DECODE, results_dir, record, rows)


def _rows(times: Mapping[tuple[int, int], tuple[float, float]], repetitions: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = []
    for (batch, width), pair in times.items():
        for repetition in range(repetitions):
            for order, (mode, us) in enumerate(zip(("eager", "graph"), pair, strict=True)):
                gpu = TOKENS * us * (1 + 1e-3 * float(rng.standard_normal()))
                issue = 0.95 * gpu if mode == "eager" else 20.0
                start = 1e5 * repetition
                rows.append((batch, width, mode, repetition, order, TOKENS, start, gpu, issue, gpu + 8.0))
    return pd.DataFrame(rows, columns=[column.name for column in DECODE_REPETITIONS])
