"""Columns of the tables about the decode step; as ``columns``, light to import."""

from __future__ import annotations

from launchbench.results.columns import IDENTITY, Column
from launchbench.results.decode_words import DECODE_MODES, DECODE_VERDICTS


def _us(name: str, meaning: str, nullable: bool = True) -> Column:
    return Column(name, "float", meaning, unit="us", nullable=nullable)


def _estimate(name: str, meaning: str, unit: str = "us") -> tuple[Column, ...]:
    suffix = f"_{unit}" if unit else ""
    return (
        Column(f"{name}{suffix}", "float", meaning, unit=unit, nullable=True),
        Column(f"{name}_low{suffix}", "float", "lower end of its 95 % bootstrap interval", unit=unit, nullable=True),
        Column(f"{name}_high{suffix}", "float", "upper end", unit=unit, nullable=True),
    )


_IDENTITY = tuple(column for column in IDENTITY if column.name != "protocol_hash")
_SUPERSEDED = Column(
    "superseded", "bool", "a newer job on the same card, host, driver and compiler, or one that was run where not"
)
_BATCH = Column("batch", "int", "sequences that are decoded together", minimum=1)
_WIDTH = Column("width", "int", "of the residual stream", minimum=1)

DECODE_REPETITIONS: tuple[Column, ...] = (
    _BATCH,
    _WIDTH,
    Column("mode", "str", "how the launches reached the card", choices=DECODE_MODES),
    Column("repetition", "int", "number of the repetition, from 0", minimum=0),
    Column("order", "int", "place of this mode in its repetition, from 0", minimum=0, maximum=1),
    Column("tokens", "int", "steps between the events, one after another", minimum=1),
    _us("start_us", "host clock since the first point began, at the start of this interval", False),
    _us("gpu_us", "between the two events, on their stream; of all these tokens"),
    _us("issue_us", "host clock from before the first step until the last call returned, no synchronize", False),
    _us("total_us", "host clock from before the first step until the stream was synchronized", False),
)
"""One row a timed repetition, eager or graph; the CSVs of decode jobs under ``results/``."""

DECODE: tuple[Column, ...] = (
    *_IDENTITY,
    _BATCH,
    _WIDTH,
    Column("launches", "int", "kernel nodes of the captured step; empty where they were not counted", nullable=True),
    Column("nodes", "int", "all nodes of it", nullable=True),
    Column("launches_reason", "str", "why they were not counted"),
    Column("largest_difference", "float", "largest difference of a logit, eager against graph", nullable=True),
    Column("repetitions_used", "int", "repetitions (pairs of eager and graph) behind the figures", minimum=0),
    Column("repetitions_flagged", "int", "repetitions left out", minimum=0),
    Column("flags", "str", "their reasons, or why the point was not timed; separated by '; '"),
    *_estimate("eager", "GPU time of a token, eager: median"),
    *_estimate("graph", "GPU time of a token by replay: median"),
    *_estimate("speedup", "eager / graph", ""),
    _us("eager_issue_us", "host time of issuing a token eagerly, median"),
    _us("graph_issue_us", "host time of the replay call, median"),
    _us("eager_total_us", "host time of a token with synchronize, eager, median"),
    _us("graph_total_us", "host time of a token with synchronize, by replay, median"),
    Column("verdict", "str", "whether the interval of the speed-up lies above 1.02", choices=DECODE_VERDICTS),
    _SUPERSEDED,
)
"""One row per decode job, batch and width. Times are of one token of each sequence: a step."""

DECODE_JOBS: tuple[Column, ...] = (
    *_IDENTITY,
    Column("not_run", "str", "why no step was run; empty where one was"),
    Column("torch", "str", "version of PyTorch; empty without"),
    Column("batch", "int", "of the predicted step", nullable=True),
    Column("width", "int", "of the predicted step", nullable=True),
    Column("launches", "int", "kernel nodes of that step", nullable=True),
    _us("predicted_eager_us", "prediction from the step's parts: max of host and device"),
    _us("predicted_host_us", "prediction: issuing all launches by PyTorch"),
    _us("alone_host_us", "issuing the same launches, each kind in a row of its own"),
    _us("predicted_device_us", "prediction: executing queued launches"),
    _us("predicted_graph_us", "prediction: replaying all nodes"),
    Column("predicted_speedup", "float", "predicted eager / predicted graph", nullable=True),
    Column("eager_miss_percent", "float", "predicted / measured - 1", unit="percent", nullable=True),
    Column("graph_miss_percent", "float", "the same of the replay", unit="percent", nullable=True),
    Column("speedup_miss_percent", "float", "the same of the speed-up", unit="percent", nullable=True),
    _us("bare_eager_us", "launches x issue cost of the stored launch job: a step of kernels that do nothing"),
    _us("bare_graph_us", "launches x node pace of that job"),
    Column("stored_run", "str", "the launch job whose costs were used; empty where there was none"),
    Column("stored_reason", "str", "why there was none, or no prediction"),
    _SUPERSEDED,
)
"""One row per decode job: what was predicted before the step was timed."""
