"""Columns of the tables about kernel length and the two clocks; as ``columns``, light to import."""

from __future__ import annotations

from launchbench.results.columns import IDENTITY, Column
from launchbench.results.lengths_words import CROSSOVER_VERDICTS, LENGTH_MODES, MAX_LAUNCH_COUNT, PACES


def _us(name: str, meaning: str, nullable: bool = True) -> Column:
    return Column(name, "float", meaning, unit="us", nullable=nullable)


def _number(name: str, meaning: str, unit: str = "") -> Column:
    return Column(name, "float", meaning, unit=unit, nullable=True)


def _estimate(name: str, meaning: str, unit: str = "us") -> tuple[Column, ...]:
    suffix = f"_{unit}" if unit else ""
    return (
        Column(f"{name}{suffix}", "float", meaning, unit=unit, nullable=True),
        Column(f"{name}_low{suffix}", "float", "lower end of its 95 % bootstrap interval", unit=unit, nullable=True),
        Column(f"{name}_high{suffix}", "float", "upper end", unit=unit, nullable=True),
    )


_IDENTITY = tuple(column for column in IDENTITY if column.name != "protocol_hash")
_SUPERSEDED = Column("superseded", "bool", "a newer job on the same card, host, driver and compiler")
_COUNT = Column(
    "launch_count", "int", "N: launches in the loop, nodes in the graph", minimum=1, maximum=MAX_LAUNCH_COUNT
)
_KERNEL = Column("kernel_us", "float", "what each kernel should take, by calibration", unit="us", minimum=0)

LENGTH_REPETITIONS: tuple[Column, ...] = (
    Column(
        "launch_count",
        "int",
        "N: launches in the loop, nodes in the graph; 0 between events around nothing",
        minimum=0,
        maximum=MAX_LAUNCH_COUNT,
    ),
    _KERNEL,
    Column("cycles", "int", "cycles that each kernel counts", minimum=0),
    Column("mode", "str", "what lay between the events", choices=LENGTH_MODES),
    Column("repetition", "int", "number of the repetition, from 0", minimum=0),
    Column("order", "int", "place of this mode in its repetition, from 0", minimum=0, maximum=1),
    _us("start_us", "host clock since the first warm-up round began, at the start of this interval", False),
    _us("gpu_us", "between the two events, on their stream"),
    _us("issue_us", "host clock from before the first launch call until the last has returned, no synchronize", False),
    _us("total_us", "host clock from before the first launch call until the stream was synchronized", False),
)
"""One row a timed repetition of loop, replay or nothing; the CSVs of lengths jobs under ``results/``."""

LENGTHS: tuple[Column, ...] = (
    *_IDENTITY,
    _COUNT,
    _KERNEL,
    _us("work_us", "N x kernel_us: what the device has to do meanwhile", False),
    Column("repetitions_used", "int", "repetitions (pairs of loop and replay) behind the figures", minimum=0),
    Column("repetitions_flagged", "int", "repetitions left out", minimum=0),
    Column("flags", "str", "their reasons, or why the cell was not timed; separated by '; '"),
    *_estimate("loop", "median GPU time of the loop by events"),
    *_estimate("loop_issue", "median host time of issuing the loop, without synchronize"),
    *_estimate("loop_total", "median host time of the loop with the synchronize"),
    *_estimate("replay", "median GPU time of one replay by events"),
    *_estimate("replay_issue", "median host time of the graph launch call"),
    *_estimate("replay_total", "median host time of one replay with the synchronize"),
    *_estimate("speedup", "loop_us / replay_us, pairs resampled", ""),
    _number("ahead", "launches that the host was ahead when the last call returned: N x (1 - loop_issue / loop)"),
    Column("pace", "str", "whose pace the loop went at", choices=PACES),
    Column("pace_reason", "str", "why it cannot be told; empty where it can"),
    _us("loop_model_us", "GPU time of the loop by the card's model"),
    _number("loop_residual_percent", "1 - loop_model / loop", "%"),
    _us("replay_model_us", "GPU time of one replay by the card's model"),
    _number("replay_residual_percent", "1 - replay_model / replay", "%"),
    _SUPERSEDED,
)
"""One row per lengths job, N and kernel length."""

LENGTH_MODELS: tuple[Column, ...] = (
    *_IDENTITY,
    Column("version", "int", "of the job's protocol: up to 1 graphs were made through cuda.core", minimum=1),
    Column("repetitions", "int", "of loop and of replay, at each N and length", minimum=1),
    Column("cycles_per_us", "float", "calibrated clock of the multiprocessors", unit="1/us"),
    _us("event_resolution_us", "smallest step between two GPU times below 1 ms; the events resolve at least this"),
    Column("nothing_used", "int", "event pairs around nothing behind the figures", minimum=0),
    *_estimate("nothing", "median GPU time between two events around nothing"),
    *_estimate("nothing_total", "median host time of recording the second event and the synchronize"),
    Column("points", "int", "cells in the fit", minimum=0),
    _us("issue_us", "host: issuing one launch"),
    _us("pace_us", "device: one launch that is queued already, less its kernel"),
    _us("loop_fixed_us", "part of the loop that depends on nothing"),
    _us("node_us", "device: one node of a replay, less its kernel"),
    _us("replay_fixed_us", "part of a replay that depends on nothing"),
    _number("kernel_scale", "length of the kernels in the replays / length asked for"),
    _number("largest_loop_residual_percent", "largest deviation of a loop from the model", "%"),
    _number("largest_replay_residual_percent", "largest deviation of a replay from the model", "%"),
    Column("verdict", "str", "what the model can be trusted for"),
    _SUPERSEDED,
)
"""One row per lengths job: the clocks, and the model of loop and replay."""

CROSSOVERS: tuple[Column, ...] = (
    *_IDENTITY,
    _COUNT,
    Column(
        "verdict", "str", "whether a length was found from which on a graph no longer helps", choices=CROSSOVER_VERDICTS
    ),
    Column("reason", "str", "why it cannot be told; empty where it can"),
    _us("helps_until_us", "longest measured kernel with which the graph helps"),
    _us("no_help_from_us", "measured kernel length from which on it no longer does"),
    _us("longest_us", "longest kernel that was timed at this N"),
    _us("model_us", "length at which the model's speed-up is 1.02"),
    _SUPERSEDED,
)
"""One row per lengths job and N. A graph helps while the interval of its speed-up lies above 1.02."""
