"""The words in which lengths jobs are told. Light to import."""

from __future__ import annotations

from typing import Literal, get_args

LengthMode = Literal["nothing", "loop", "replay"]
"""What lay between the two events; ``nothing``: no work at all."""

Pace = Literal["host", "device", "cannot-tell"]
"""Whose pace a loop went at: the device waited for launches, or the host had run ahead of it."""

CrossoverVerdict = Literal["reached", "not-reached", "never-helps", "cannot-tell"]
"""Of the kernel length from which on a graph no longer helps."""

LENGTH_MODES: tuple[str, ...] = get_args(LengthMode)
PACES: tuple[str, ...] = get_args(Pace)
CROSSOVER_VERDICTS: tuple[str, ...] = get_args(CrossoverVerdict)

KIND = "lengths"
PREFIX = f"{KIND}-"
"""What the names of all files of lengths jobs begin with, and of no other job."""

MAX_LAUNCH_COUNT = 512
"""Of the configured N, those up to this one: well below the queue's depth, so that the host never waits for room."""
