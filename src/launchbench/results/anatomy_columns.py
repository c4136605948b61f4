"""Columns of the table of what a launch consists of; as ``columns``, light to import."""

from __future__ import annotations

from launchbench.results.columns import IDENTITY, Column
from launchbench.results.protocol import KERNELS, LAUNCH_PATHS, MAX_LAUNCH_COUNT

HOST_ISSUE, DEVICE_PACE, PAST_DEPTH, CANNOT_TELL = "host-issue", "device-pace", "past-queue-depth", "cannot-tell"
BOTTLENECKS = (HOST_ISSUE, DEVICE_PACE, PAST_DEPTH, CANNOT_TELL)
"""What a loop of N launches waits for."""


def _interval(name: str, meaning: str, unit: str = "us") -> tuple[Column, ...]:
    end = "_us" if unit == "us" else ""
    return (
        Column(f"{name}{end}", "float", f"{meaning}, mean over trials", unit, True),
        Column(f"{name}_low{end}", "float", "lower end of its 95 % t interval over trials", unit, True),
        Column(f"{name}_high{end}", "float", "upper end", unit, True),
    )


def _ratio(name: str, meaning: str) -> tuple[Column, ...]:
    return _interval(name, f"{meaning}, trial by trial", "")


ANATOMY: tuple[Column, ...] = (
    *(column for column in IDENTITY if column.name not in ("run_id", "started_utc")),
    Column("launch_path", "str", "native-driver: the one path with all modes", choices=LAUNCH_PATHS),
    Column("kernel", "str", "kernel that was launched", choices=KERNELS),
    Column("launch_count", "int", "N", minimum=1, maximum=MAX_LAUNCH_COUNT),
    Column("trials", "int", "fresh processes behind the figures", minimum=1),
    *_interval("loop", "GPU time of the loop per launch"),
    *_interval("issue", "host time of issuing one launch of the loop"),
    *_interval("pace", "GPU time per launch of mode queued: the device's pace of launches that are queued"),
    *_interval("node", "GPU time per node of a graph, by the mode in node_mode"),
    Column(
        "node_mode",
        "str",
        "the first that was timed of replay-queued, replay-batch, replay; the last two also hold the host's launch",
    ),
    *_interval("graph_call", "host time of one graph launch"),
    *_interval("kernel", "a node of tiny less one of the control, in the same mode and process"),
    Column("kernel_reason", "str", "why the kernel itself cannot be told; empty where it can"),
    *_ratio("issue_over_pace", "issue / pace"),
    Column("bottleneck", "str", "what the loop waits for", choices=BOTTLENECKS),
    Column("bottleneck_reason", "str", "why it cannot be told; empty where it can"),
    *_ratio("loop_dependent_ratio", "GPU time of loop-dependent / loop"),
    *_ratio("replay_dependent_ratio", "GPU time of replay-dependent / replay"),
    Column("interval_reason", "str", "why the loop has no interval; empty where it has"),
)
"""One row per cell of the path native-driver; times are per launch or node but for ``graph_call``."""
