"""Columns of the tables about baked-in pointers; as ``columns``, light to import."""

from __future__ import annotations

from launchbench.results.columns import IDENTITY, Column
from launchbench.results.pointers_words import CURE_OUTCOMES, CURES, OUTCOMES, SCENARIOS, VERDICTS
from launchbench.results.protocol import MAX_LAUNCH_COUNT


def _us(name: str, meaning: str, nullable: bool = False) -> Column:
    return Column(name, "float", meaning, unit="us", nullable=nullable)


def _text(name: str, meaning: str) -> Column:
    return Column(name, "str", f"{meaning}; empty where there is none")


def _number(name: str, meaning: str, unit: str = "") -> Column:
    return Column(name, "int", meaning, unit=unit, nullable=True, minimum=0)


def _timed(name: str, meaning: str, nullable: bool = False) -> Column:
    return Column(name, "float", meaning, "us", nullable, minimum=0, maximum=LONGEST_US)


LONGEST_US = 1e12
"""More than a job can last: a time is neither negative nor infinite."""

_CURE = Column("cure", "str", "how the replay was turned to another buffer", choices=CURES)
_COUNT = Column("launch_count", "int", "N: nodes of the graph", minimum=1, maximum=MAX_LAUNCH_COUNT)
_IDENTITY = tuple(column for column in IDENTITY if column.name != "protocol_hash")

CURE_REPETITIONS: tuple[Column, ...] = (
    _COUNT,
    _CURE,
    Column("repetition", "int", "number of the repetition, from 0", minimum=0),
    Column("order", "int", "place of this cure in its repetition, from 0", minimum=0, maximum=len(CURES) - 1),
    _us("start_us", "host clock since the first warm-up round began, at the start of this interval"),
    _timed("prepare_us", "host clock: capture of N launches on the new buffer; empty where the cure needs none", True),
    _timed("apply_us", "host clock: the calls that turn the next replay to the new buffer"),
    _timed("first_replay_us", "host clock: the replay after it, with synchronize"),
    _timed("total_us", "host clock: all three"),
)
"""One row a timed repetition of one cure; the CSVs of pointers jobs under ``results/``."""

POINTERS: tuple[Column, ...] = (
    *_IDENTITY,
    Column("scenario", "str", "what became of the captured buffer", choices=SCENARIOS),
    Column("outcome", "str", "what a replay then did, told from codes and values", choices=OUTCOMES),
    _text("reason", "why the outcome cannot be told"),
    _text("d_address", "address of the captured buffer"),
    _text("d2_address", "address of the new buffer"),
    _text("victim_address", "address of the innocent buffer"),
    Column("d2_value", "float", "what the new buffer held after the replay, 0 before it", nullable=True),
    Column("victim_value", "float", "what the innocent buffer held after the replay, 0 before it", nullable=True),
    _text("failed_call", "the first call that failed, by the replay or after it"),
    _number("failed_code", "its CUresult"),
    _text("failed_name", "name of that code"),
    Column("sanitizer", "str", "what compute-sanitizer said of the same scenario", choices=VERDICTS),
    _text("sanitizer_reason", "why it is not clean, in the tool's words"),
    _text("sanitizer_version", "of the tool"),
    _number("sanitizer_errors", "errors by its summary"),
    _text("sanitizer_kind", "first line of its first error"),
    _text("access", "read, write or atomic"),
    _number("access_bytes", "size of that access", "bytes"),
    _text("kernel", "kernel that made it"),
    _text("source_line", "file:line"),
    _number("distance_bytes", "to the nearest allocation", "bytes"),
    _text("side", "before, after or inside that allocation"),
    _text("host_frame", "the call of the host back trace that launched it"),
    _text("api_errors", "errors that calls returned under the tool"),
    _text("sanitizer_file", "its whole report, relative to the results"),
    Column("superseded", "bool", "a newer job on the same card, host, driver and compiler"),
)
"""One row per pointers job and scenario."""

CURE_TIMES: tuple[Column, ...] = (
    *_IDENTITY,
    _CURE,
    _COUNT,
    Column("outcome", "str", "which buffer the replay after the cure wrote to", choices=CURE_OUTCOMES),
    _text("reason", "what went wrong"),
    Column("checked", "int", "replays whose buffers were read", minimum=0),
    Column("repetitions", "int", "timed repetitions behind the figures", minimum=0),
    *(
        _us(f"{part}{end}_us", f"{word} {what}", True)
        for part, what in (
            ("prepare", "capture on the new buffer"),
            ("apply", "calls of the cure"),
            ("first_replay", "replay after it"),
            ("total", "all three"),
        )
        for end, word in (
            ("", "median host time:"),
            ("_low", "lower end of the 95 % bootstrap interval:"),
            ("_high", "upper end:"),
        )
    ),
    Column("superseded", "bool", "a newer job on the same card, host, driver and compiler"),
)
"""One row per pointers job, cure and N."""
