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
    Column(
        "cpu_model",
        "str",
        "its CPU, how many it has, and where known what of it the job could use",
        nullable=True,
    ),
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

_CELL: tuple[Column, ...] = (
    Column("launch_path", "str", "who issued the launches of the loop", choices=LAUNCH_PATHS),
    Column("kernel", "str", "kernel that was launched", choices=KERNELS),
    Column("launch_count", "int", "N", minimum=1, maximum=MAX_LAUNCH_COUNT),
)
_WITHOUT_RUN = tuple(column for column in IDENTITY if column.name not in ("run_id", "started_utc"))
_TRIAL = Column("trial", "int", "number of this fresh process among those of its cell, from 1", minimum=1)

TRIALS: tuple[Column, ...] = (
    *IDENTITY,
    _TRIAL,
    *_CELL,
    Column("mode", "str", "how the N kernels were executed", choices=MODES),
    Column("placements", "int", "placements of the buffer behind the figures", minimum=0),
    Column("repetitions_used", "int", "repetitions behind the figures", minimum=0),
    Column("repetitions_flagged", "int", "repetitions left out", minimum=0),
    Column("flags", "str", "their reasons, separated by '; ', or why the mode was not timed"),
    _us("gpu_us", "GPU time by events: mean over placements of each one's median", True),
    _us("placement_low_us", "smallest of these medians", True),
    _us("placement_high_us", "largest of these medians", True),
    _us("issue_us", "host time of issuing, mean over placements of each one's median", True),
    _us("total_us", "host time including the synchronize, the same", True),
    _us("once_us", "capture, instantiate and upload of the graph: sum of the medians of the samples", True),
    Column("superseded", "bool", "a newer job of the same cell and trial stands for it"),
)
"""One row per job, launch path, kernel and mode. Times are of one execution of the N kernels."""

CELL_MODES: tuple[Column, ...] = (
    *_WITHOUT_RUN,
    *_CELL,
    Column("mode", "str", "how the N kernels were executed", choices=MODES),
    Column("trials", "int", "fresh processes behind the figures", minimum=0),
    _us("gpu_us", "GPU time by events, mean over trials", True),
    _us("gpu_low_us", "lower end of its 95 % t interval over trials", True),
    _us("gpu_high_us", "upper end", True),
    _us("issue_us", "host time of issuing, mean over trials", True),
    _us("total_us", "host time including the synchronize, mean over trials", True),
    Column("placements", "int", "placements of the buffer in all trials", minimum=0),
    _us("placement_low_us", "smallest median of a placement", True),
    _us("placement_high_us", "largest median of a placement", True),
    Column(
        "spread_percent",
        "float",
        "(placement_high_us - placement_low_us) / gpu_us; empty where no trial has several placements",
        unit="%",
        nullable=True,
    ),
    Column("reason", "str", "why there is no interval, or no figure"),
)
"""One row per cell and mode. Times are of one execution of the N kernels."""

SUMMARY: tuple[Column, ...] = (
    *IDENTITY,
    Column("runs", "str", "the jobs of the cell's trials, oldest first, separated by spaces"),
    *_CELL,
    Column("trials", "int", "fresh processes behind the figures", minimum=0),
    Column("placements", "int", "placements of the buffer in all of them", minimum=0),
    Column("repetitions_used", "int", "repetitions (rounds of loop and replay) behind the figures", minimum=0),
    Column("repetitions_flagged", "int", "repetitions left out", minimum=0),
    Column("flags", "str", "their reasons, separated by '; '"),
    _us("loop_us", "GPU time of the loop by events, mean over trials", True),
    _us("loop_low_us", "lower end of its 95 % t interval over trials", True),
    _us("loop_high_us", "upper end", True),
    _us("loop_issue_us", "host time of issuing the loop, mean over trials", True),
    _us("loop_total_us", "host time of the loop including the synchronize, mean over trials", True),
    _us("loop_us_per_launch", "loop_us / N", True),
    _us("replay_us", "GPU time of one replay by events, mean over trials", True),
    _us("replay_low_us", "lower end of its 95 % t interval over trials", True),
    _us("replay_high_us", "upper end", True),
    _us("replay_issue_us", "host time of the graph launch call, mean over trials", True),
    _us("replay_total_us", "host time of one replay including the synchronize, mean over trials", True),
    _us("replay_us_per_node", "replay_us / N", True),
    Column("speedup", "float", "loop / replay, geometric mean over trials", nullable=True),
    Column("speedup_low", "float", "lower end of its 95 % t interval over trials", nullable=True),
    Column("speedup_high", "float", "upper end", nullable=True),
    Column("interval_reason", "str", "why figures have no interval; empty when all have one"),
    Column("one_off_samples", "int", "graphs that were made for the one-off costs", minimum=0),
    *_one_off("capture", "host time of capturing the N launches"),
    *_one_off("instantiate", "host time of instantiating the graph"),
    *_one_off("upload", "host time of uploading it, with synchronize"),
    *_one_off("first_replay", "host time of the first replay, with synchronize"),
    *_one_off("recapture", "host time of capturing the launches anew on another buffer"),
    *_one_off("update", "host time of cuGraphExecUpdate with that capture"),
    Column("refused_updates", "int", "updates that the driver refused, so that a graph was made anew", minimum=0),
    Column("graph_bytes", "float", "device memory that the graph took: median of the samples", "bytes", True),
    Column("graph_min_bytes", "float", "smallest sample", "bytes", True),
    Column("graph_max_bytes", "float", "largest sample", "bytes", True),
    Column(
        "break_even_replays",
        "float",
        "replays after which capture, instantiate and upload are paid for, rounded up; inf = never",
        nullable=True,
    ),
    Column("break_even_replays_low", "float", "lower end of its 95 % interval over trials", nullable=True),
    Column("break_even_replays_high", "float", "upper end; inf = perhaps never", nullable=True),
    Column("regime", "str", "below-queue-depth or past-queue-depth, by N"),
)
"""One row per cell: card, host, driver, compiler, protocol, launch path, kernel and N; ``run_id`` is its newest."""

FITS: tuple[Column, ...] = (
    *_WITHOUT_RUN,
    *_CELL[:2],
    Column("mode", "str", "loop or replay", choices=MODES),
    Column("points", "int", "values of N in the fit", minimum=0),
    _us("fixed_us", "part that does not depend on N", True),
    _us("fixed_low_us", "lower end of its 95 % t interval over the lines of the trials", True),
    _us("fixed_high_us", "upper end", True),
    _us("per_launch_us", "part that grows with every launch or node", True),
    _us("per_launch_low_us", "lower end of its 95 % t interval over the lines of the trials", True),
    _us("per_launch_high_us", "upper end", True),
    Column(
        "largest_residual_percent",
        "float",
        "largest deviation of a point from the line",
        unit="%",
        nullable=True,
    ),
    Column("verdict", "str", "whether a straight line describes the points"),
    Column("interval_reason", "str", "why the line has no interval"),
)
"""Straight line of GPU time over N, one row per card, launch path, kernel and mode."""

SPREAD: tuple[Column, ...] = (
    *(column for column in IDENTITY if column.name in ("label", "gpu_name", "cpu_model", "driver_version", "nvcc")),
    *(column for column in IDENTITY if column.name in ("protocol_hash", "virtual")),
    *_CELL,
    Column("mode", "str", "loop or replay", choices=MODES),
    Column("cards", "int", "cards that are alike in all of the above", minimum=2),
    Column("hosts", "int", "names of the hosts they are in; two hosts of one name count once", minimum=1),
    Column("processes", "int", "trials of all of them together", minimum=2),
    _us("median_us", "per launch or node: median over the cards of each card's mean over its trials"),
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
