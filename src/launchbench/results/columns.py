"""Columns of every table launchbench writes: name, type, unit, meaning. The documentation and the
validation are both made from these lists, so they cannot disagree. Light to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from launchbench.results.protocol import KERNELS, LAUNCH_PATHS, MAX_LAUNCH_COUNT, MODES

Kind = Literal["int", "float", "str", "bool"]


@dataclass(frozen=True)
class Column:
    """One column; ``nullable`` means that an empty cell is allowed and says "not known"."""

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


def _us(name: str, meaning: str, nullable: bool = False) -> Column:
    return Column(name, "float", meaning, unit="us", nullable=nullable)


def _one_off(name: str, meaning: str) -> tuple[Column, ...]:
    return (
        _us(f"{name}_us", f"{meaning}: median of the samples", True),
        _us(f"{name}_min_us", "smallest sample", True),
        _us(f"{name}_max_us", "largest sample", True),
    )


RAW: tuple[Column, ...] = (
    Column(
        "launch_count",
        "int",
        "N: launches in the loop, nodes in the graph",
        minimum=1,
        maximum=MAX_LAUNCH_COUNT,
    ),
    Column("launch_path", "str", "who issued the launches of the loop", choices=LAUNCH_PATHS),
    Column("kernel", "str", "kernel that was launched", choices=KERNELS),
    Column("attempt", "int", "0, and more where an earlier attempt at the block failed a guard", minimum=0),
    Column("mode", "str", "how the N kernels were executed", choices=MODES),
    Column("placement", "int", "number of the placement of the buffer, from 0", minimum=0),
    Column("offset_bytes", "int", "where in the allocation the buffer lay", unit="bytes", minimum=0),
    Column("repetition", "int", "number of the repetition at this placement, from 0", minimum=0),
    Column("order", "int", "position of this mode in its repetition, from 0", minimum=0, maximum=len(MODES) - 1),
    Column("replays", "int", "graph launches in the interval, 0 in a loop; the times are of all together", minimum=0),
    _us("start_us", "host clock since the block began, at the start of this interval"),
    _us("gpu_us", "between the two events around the work, on its stream", nullable=True),
    _us("issue_us", "host clock from before the first launch call until the last has returned"),
    _us("total_us", "host clock from before the first launch call until the stream was synchronized"),
)
"""One row a timed repetition; the files under ``results/``, from record format 3 on."""

NEW_IN_3 = ("attempt", "placement", "offset_bytes", "replays")
RAW_BEFORE_3 = tuple(column for column in RAW if column.name not in NEW_IN_3)
"""Earlier formats: one attempt, one buffer, one graph launch in an interval of mode ``replay``."""

IDENTITY: tuple[Column, ...] = (
    Column("site", "str", "folder the result is filed in"),
    Column("label", "str", "GPU type as named in config.yaml, else made from the card's name"),
    Column("card", "str", "first eight hex digits of the GPU's UUID"),
    Column("gpu_name", "str", "name the driver gives the GPU"),
    Column("gpu_uuid", "str", "UUID of the GPU or MIG slice"),
    Column("hostname", "str", "host that issued the launches"),
    Column("cpu_model", "str", "its CPU", nullable=True),
    Column("driver_version", "str", "NVIDIA driver", nullable=True),
    Column("nvcc", "str", "version of the compiler"),
    Column("protocol_hash", "str", "identity of how this block was timed"),
    Column("virtual", "bool", "a simulated GPU"),
    Column("run_id", "str", "the job; also the stem of its two files"),
    Column("started_utc", "str", "when the job started"),
)

TIDY: tuple[Column, ...] = (
    *IDENTITY,
    *RAW,
    Column("flag", "str", "why this repetition is left out of the summary; empty when it is used"),
)
"""Every repetition of every job, flagged."""

SUMMARY: tuple[Column, ...] = (
    *IDENTITY,
    Column("launch_path", "str", "who issued the launches of the loop", choices=LAUNCH_PATHS),
    Column("kernel", "str", "kernel that was launched", choices=KERNELS),
    Column("launch_count", "int", "N", minimum=1, maximum=MAX_LAUNCH_COUNT),
    Column("repetitions_used", "int", "repetitions (pairs of loop and replay) behind the figures", minimum=0),
    Column("repetitions_flagged", "int", "repetitions left out", minimum=0),
    Column("flags", "str", "their reasons, separated by '; '"),
    _us("loop_us", "median GPU time of the loop by events", True),
    _us("loop_low_us", "lower end of its 95 % bootstrap interval", True),
    _us("loop_high_us", "upper end", True),
    _us("loop_issue_us", "median host time of issuing the loop", True),
    _us("loop_total_us", "median host time of the loop including the synchronize", True),
    _us("loop_us_per_launch", "loop_us / N", True),
    _us("replay_us", "median GPU time of one replay by events", True),
    _us("replay_low_us", "lower end of its 95 % bootstrap interval", True),
    _us("replay_high_us", "upper end", True),
    _us("replay_issue_us", "median host time of the graph launch call", True),
    _us("replay_total_us", "median host time of one replay including the synchronize", True),
    _us("replay_us_per_node", "replay_us / N", True),
    Column("speedup", "float", "loop_us / replay_us", nullable=True),
    Column("speedup_low", "float", "lower end of its 95 % bootstrap interval (pairs resampled)", nullable=True),
    Column("speedup_high", "float", "upper end", nullable=True),
    Column("one_off_samples", "int", "graphs that were made for the one-off costs", minimum=0),
    *_one_off("capture", "host time of capturing the N launches"),
    *_one_off("instantiate", "host time of instantiating the graph"),
    *_one_off("upload", "host time of uploading it, with synchronize"),
    *_one_off("first_replay", "host time of the first replay, with synchronize"),
    Column(
        "break_even_replays",
        "float",
        "replays after which the medians of capture, instantiate and upload are paid for; inf = never",
        nullable=True,
    ),
    Column("regime", "str", "below-queue-depth or past-queue-depth, by N"),
    Column("superseded", "bool", "a newer job measured the same on the same card, host, driver and protocol"),
)
"""One row per job, launch path and kernel."""

FITS: tuple[Column, ...] = (
    *(column for column in IDENTITY if column.name not in ("run_id", "started_utc")),
    Column("launch_path", "str", "who issued the launches of the loop", choices=LAUNCH_PATHS),
    Column("kernel", "str", "kernel that was launched", choices=KERNELS),
    Column("mode", "str", "loop or replay", choices=MODES),
    Column("points", "int", "values of N in the fit", minimum=0),
    _us("fixed_us", "part that does not depend on N", True),
    _us("fixed_low_us", "lower end of its 95 % interval", True),
    _us("fixed_high_us", "upper end", True),
    _us("per_launch_us", "part that grows with every launch or node", True),
    _us("per_launch_low_us", "lower end of its 95 % interval", True),
    _us("per_launch_high_us", "upper end", True),
    Column(
        "largest_residual_percent",
        "float",
        "largest deviation of a point from the line",
        unit="%",
        nullable=True,
    ),
    Column("verdict", "str", "whether a straight line describes the points"),
)
"""Straight line of GPU time over N, one row per card, launch path, kernel and mode."""

SPREAD: tuple[Column, ...] = (
    *(column for column in IDENTITY if column.name in ("label", "gpu_name", "cpu_model", "driver_version", "nvcc")),
    *(column for column in IDENTITY if column.name in ("protocol_hash", "virtual")),
    Column("launch_path", "str", "who issued the launches of the loop", choices=LAUNCH_PATHS),
    Column("kernel", "str", "kernel that was launched", choices=KERNELS),
    Column("launch_count", "int", "N", minimum=1, maximum=MAX_LAUNCH_COUNT),
    Column("mode", "str", "loop or replay", choices=MODES),
    Column("cards", "int", "cards that are alike in all of the above", minimum=2),
    Column("hosts", "int", "hosts they are in", minimum=1),
    Column("processes", "int", "measurements of all of them together", minimum=2),
    _us("median_us", "per launch or node: median over the cards of each card's mean over its processes"),
    _us("smallest_us", "the smallest of these means"),
    Column("smallest_card", "str", "its card"),
    _us("largest_us", "the largest of these means"),
    Column("largest_card", "str", "its card"),
    Column("spread_percent", "float", "(largest_us - smallest_us) / median_us", unit="%", minimum=0),
    Column("verdict", "str", "whether cards differ by more than processes on one card do"),
)
"""Cards of one type against each other, one row per launch path, kernel, N and mode."""

GAPS: tuple[Column, ...] = (
    Column("site", "str", "folder, empty where nothing was measured anywhere"),
    Column("label", "str", "GPU type"),
    Column("card", "str", "first eight hex digits of the UUID, empty where unknown"),
    Column("launch_count", "int", "N, empty where the whole label is missing", nullable=True, minimum=1),
    Column("file", "str", "file the gap is about, empty where there is none"),
    Column("reason", "str", "why there is no number"),
)
"""What is missing from the comparison, and why."""
