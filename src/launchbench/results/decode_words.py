"""The words in which decode jobs are told. Light to import."""

from __future__ import annotations

from typing import Literal, get_args

DecodeMode = Literal["eager", "graph"]
"""How the launches of a step reach the card: one by one by PyTorch, or as one replay."""

DecodeVerdict = Literal["helps", "no-help", "cannot-tell"]
"""Whether replaying the step is faster than running it eagerly."""

DECODE_MODES: tuple[str, ...] = get_args(DecodeMode)
DECODE_VERDICTS: tuple[str, ...] = get_args(DecodeVerdict)

KIND = "decode"
PREFIX = f"{KIND}-"
"""What the names of all files of decode jobs begin with, and of no other job."""
