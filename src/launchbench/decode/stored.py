"""Costs of a launch on a card, as launch jobs on it have measured them: read from the results."""

from __future__ import annotations

from pathlib import Path

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
    usable = [
        block for block in record.blocks if block.launch_path in PATHS and not flags.block_flag(block, record.protocol)
    ]
    block = min(usable, key=_preference, default=None)
    if block is None:
        return None
    try:
        raw = read_raw(record, path.parent)
    except LaunchbenchError:
        return None
    own = raw[(raw["launch_path"] == block.launch_path) & (raw["kernel"] == block.kernel)]
    own = own[own["attempt"] == block.attempt]
    good = own[[reason == "" for reason in flags.row_reasons(own)]]
    per_launch = good.assign(gpu_us=good["gpu_us"] / good["launch_count"] / good["replays"].clip(lower=1))
    per_launch = per_launch.assign(issue_us=per_launch["issue_us"] / per_launch["launch_count"])
    by_mode = per_launch.groupby("mode")
    gpu, issue = (dict(by_mode[clock].median().items()) for clock in ("gpu_us", "issue_us"))
    if not {"loop", "replay"} <= set(gpu):
        return None
    return StoredCosts(
        run_id=record.run_id,
        launch_path=block.launch_path,
        kernel=block.kernel,
        launch_count=record.launch_count,
        issue_us=issue["loop"],
        node_us=gpu["replay"],
        queued_us=gpu.get("queued"),
    )


def _preference(block: Block) -> tuple[int, int, int]:
    return PATHS.index(block.launch_path), KERNELS.index(block.kernel), -block.attempt
