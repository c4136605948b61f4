"""Costs of a launch on a card, as launch jobs on it have measured them: read from the results."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import pandas as pd

from launchbench.errors import LaunchbenchError
from launchbench.results import flags
from launchbench.results.decode import StoredCosts
from launchbench.results.files import read_raw, read_record
from launchbench.results.layout import LAUNCH, find_files, job_kind
from launchbench.results.record import Block, Record, card_id

MOST_LAUNCHES = 512
"""Of the N up to this one the largest counts: with more launches the queue can be full, which is another regime."""

PATHS = ("torch", "cuda-python", "cuda-bindings", "native-driver", "native-runtime")
"""The first that a job has: PyTorch, or else another Python program. No other framework stands for it."""

KERNELS = ("empty", "tiny")
"""The first that such a path has: the time of the step's kernels is counted elsewhere."""


def stored_costs(results_dir: Path, uuid: str, hostname: str) -> StoredCosts | str:
    """Costs of the newest usable job of the largest N on this card, issued by this host; or why there are none."""
    found: list[tuple[int, str, Path, Record]] = []
    for path in find_files(results_dir):
        if path.suffix != ".json" or job_kind(path) != LAUNCH or path.parent.name != card_id(uuid):
            continue
        try:
            record = read_record(path)
        except LaunchbenchError:
            continue  # aggregate says what is wrong with it
        if record.device.uuid == uuid and record.host.hostname == hostname and record.launch_count <= MOST_LAUNCHES:
            found.append((record.launch_count, record.started_utc, path, record))
    for _, _, path, record in sorted(found, key=lambda one: one[:2], reverse=True):
        costs = _costs(record, path)
        if costs is not None:
            return costs
    if found:
        return "no repetition of the launch jobs on this card and host can be used"
    return f"no launch job with N up to {MOST_LAUNCHES} on this card and host is among the results"


def _costs(record: Record, path: Path) -> StoredCosts | None:
    """The host's cost from the path that is most like PyTorch, the device's from the path that has all modes."""
    usable = [
        block for block in record.blocks if block.launch_path in PATHS and not flags.block_flag(block, record.protocol)
    ]
    issuing = min(usable, key=_preference, default=None)
    if issuing is None:
        return None
    native = [block for block in usable if block.launch_path == "native-driver"]
    pacing = min(native, key=_preference, default=issuing)
    try:
        raw = read_raw(record, path.parent)
    except LaunchbenchError:
        return None
    host, device = _medians(raw, issuing, "issue_us"), _medians(raw, pacing, "gpu_us")
    if "loop" not in host or "replay" not in device:
        return None
    return StoredCosts(
        run_id=record.run_id,
        launch_path=issuing.launch_path,
        kernel=pacing.kernel,
        launch_count=record.launch_count,
        issue_us=host["loop"],
        node_us=device.get("replay-queued", device["replay"]),
        queued_us=device.get("queued"),
    )


def _medians(raw: pd.DataFrame, block: Block, clock: str) -> dict[Hashable, float]:
    """Of a launch or node, for each mode of a block."""
    own = raw[(raw["launch_path"] == block.launch_path) & (raw["kernel"] == block.kernel)]
    own = own[own["attempt"] == block.attempt]
    good = own[[reason == "" for reason in flags.row_reasons(own)]]
    each = good[clock] / good["launch_count"] / good["replays"].clip(lower=1)
    return dict(each.groupby(good["mode"]).median().items())


def _preference(block: Block) -> tuple[int, int, int]:
    return PATHS.index(block.launch_path), KERNELS.index(block.kernel), -block.attempt
