"""What a launch consists of: the host's issuing, the device's pace, a node, the kernel; and which of them decides.

These parts overlap in time: while the device executes one launch the host issues the next, so they are compared
and never added up. Only a node of ``tiny`` less one of the control is a difference, of two figures at the same pace.
It reads no file.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pandas as pd

from launchbench.aggregate import trials as over_trials
from launchbench.aggregate.cells import SAME_CELL, current
from launchbench.aggregate.stats import Estimate
from launchbench.results.anatomy_columns import ANATOMY, CANNOT_TELL, DEVICE_PACE, HOST_ISSUE, PAST_DEPTH
from launchbench.results.protocol import COMPARED_MODES, QUEUE_DEPTH

PATH = "native-driver"
"""The launch path that has all modes."""

SAME = 0.02
"""Ratios whose trials do not differ have no interval; within this of 1 their sides are told as equal."""

NOT_MEASURED = "not measured by these jobs"
ONE_LAUNCH = "one launch has no pace"
OVERLAP = "host and device take the same within the interval of their ratio"
NO_CONTROL = "the control was not timed in the same processes"
IS_CONTROL = "the control is what tiny is measured against"
WITHIN_NOISE = "the interval of tiny less the control reaches zero"

NODE_MODES = ("replay-queued", "replay-batch", "replay")
"""What a node takes is taken from the first that was timed: the last two also hold what the host takes to launch."""

Times = Mapping[str, Mapping[str, float]]
"""Mode -> job -> microseconds of one execution."""


def anatomy(trials: pd.DataFrame, modes: pd.DataFrame) -> pd.DataFrame:
    """The columns of ``anatomy_columns.ANATOMY``: one row for each cell of ``PATH`` that has loop and replay.

    Args:
        trials: rows as :func:`launchbench.aggregate.trial_table.trial_rows` gives them.
        modes: rows of :func:`launchbench.aggregate.summarise.modes_of_cells`, for the reasons of what is missing.
    """
    counted = current(trials, ["cell"])
    counted = counted[counted["launch_path"] == PATH]
    own = modes[modes["launch_path"] == PATH]
    why = dict(zip(zip(own["cell"], own["mode"], strict=True), own["reason"], strict=True))
    gpu, issue = _times(counted, ["cell"], "gpu_us"), _times(counted, ["cell"], "issue_us")
    controls = _times(counted[counted["kernel"] == "empty"], _WITHOUT_KERNEL, "gpu_us")
    names = [column.name for column in ANATOMY]
    shared = [name for name in names if name in own and name not in _COMPUTED]
    identities = own.drop_duplicates("cell").set_index("cell")[shared].to_dict("index")
    rows = []
    for key, times in gpu.items():
        if set(COMPARED_MODES) <= set(times):
            identity: dict[Any, Any] = identities[key[0]]
            control = controls.get(tuple(identity[name] for name in _WITHOUT_KERNEL), {})
            missing = why.get((key[0], "queued")) or NOT_MEASURED
            rows.append({**identity, **_row(identity, times, issue[key], control, missing)})
    return pd.DataFrame(rows, columns=names)


_COMPUTED = {column.name for column in ANATOMY if column.kind == "float"} | {"trials"}
_WITHOUT_KERNEL = [name for name in SAME_CELL if name not in ("kernel", "protocol_hash")]


def _times(rows: pd.DataFrame, keys: list[str], clock: str) -> dict[tuple[Any, ...], dict[str, dict[str, float]]]:
    found: dict[tuple[Any, ...], dict[str, dict[str, float]]] = {}
    for *key, mode, run, value in rows[[*keys, "mode", "run_id", clock]].itertuples(index=False, name=None):
        found.setdefault(tuple(key), defaultdict(dict))[mode][run] = value
    return found


def _row(identity: Mapping[Any, Any], gpu: Times, issue: Times, control: Times, missing: str) -> dict[str, Any]:
    n = int(identity["launch_count"])
    node_mode = next(mode for mode in NODE_MODES if mode in gpu)
    queued = gpu.get("queued", {})
    loop = _mean(gpu["loop"], n)
    kernel, kernel_reason = _kernel(identity["kernel"], gpu[node_mode], control.get(node_mode, {}), n)
    slower = _ratio(issue["loop"], queued)
    bottleneck, reason = decide(n, slower, missing)
    return {
        "trials": len(gpu["loop"]),
        **_ends("loop", loop),
        **_ends("issue", _mean(issue["loop"], n)),
        **_ends("pace", _mean(queued, n)),
        **_ends("node", _mean(gpu[node_mode], n)),
        "node_mode": node_mode,
        **_ends("graph_call", _mean(issue["replay"])),
        **_ends("kernel", kernel),
        "kernel_reason": kernel_reason,
        **_ends("issue_over_pace", slower, ""),
        "bottleneck": bottleneck,
        "bottleneck_reason": reason,
        **_ends("loop_dependent_ratio", _ratio(gpu.get("loop-dependent", {}), gpu["loop"]), ""),
        **_ends("replay_dependent_ratio", _ratio(gpu.get("replay-dependent", {}), gpu["replay"]), ""),
        "interval_reason": loop.reason,
    }


def decide(launch_count: int, slower: Estimate | None, missing: str = NOT_MEASURED) -> tuple[str, str]:
    """What a loop of N launches waits for, one of ``anatomy_columns.BOTTLENECKS``, and why it cannot be told.

    Args:
        launch_count: N.
        slower: host time of issuing divided by the device's pace of queued launches; None where there is none.
        missing: why there is none.
    """
    if launch_count == 1:
        return CANNOT_TELL, ONE_LAUNCH
    if launch_count > QUEUE_DEPTH:
        return PAST_DEPTH, ""
    if slower is None or math.isnan(slower.value):
        return CANNOT_TELL, missing
    low, high = slower.low, slower.high
    if low is None or high is None:
        if slower.reason != over_trials.ALL_EQUAL:
            return CANNOT_TELL, slower.reason
        low, high = slower.value * (1 - SAME), slower.value * (1 + SAME)
    if low > 1:
        return HOST_ISSUE, ""
    return (DEVICE_PACE, "") if high < 1 else (CANNOT_TELL, OVERLAP)


def _kernel(
    kernel: str, node: Mapping[str, float], control: Mapping[str, float], n: int
) -> tuple[Estimate | None, str]:
    if kernel == "empty":
        return None, IS_CONTROL
    more = {job: node[job] - control[job] for job in node if job in control}
    if not more:
        return None, NO_CONTROL
    estimate = over_trials.single(over_trials.mean([[time / n for time in more.values()]]), len(more))
    if estimate.low is None:
        return estimate, estimate.reason
    return estimate, "" if estimate.low > 0 else WITHIN_NOISE


def _ratio(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate | None:
    jobs = [job for job in first if job in second]
    if not jobs:
        return None
    sides = ([[times[job] for job in jobs]] for times in (first, second))
    return over_trials.single(over_trials.ratio(*sides), len(jobs))


def _mean(times: Mapping[str, float], divisor: int = 1) -> Estimate:
    if not times:
        return Estimate(math.nan)
    return over_trials.single(over_trials.mean_time([[time / divisor for time in times.values()]]), len(times))


def _ends(name: str, estimate: Estimate | None, end: str = "_us") -> dict[str, float | None]:
    shown = estimate or Estimate(math.nan)
    return {f"{name}{end}": shown.value, f"{name}_low{end}": shown.low, f"{name}_high{end}": shown.high}
