"""The words in which pointers jobs are told. Light to import."""

from __future__ import annotations

from typing import Literal, get_args

Scenario = Literal["control", "recycled", "victim", "unowned", "unmapped"]
Outcome = Literal[
    "captured-buffer-updated",
    "d2-updated",
    "victim-corrupted",
    "nothing-visible",
    "error-reported",
    "context-lost",
    "cannot-tell",
]
"""What a replay did after its buffer was freed; computed from codes and values, never assumed."""

Verdict = Literal["clean", "errors", "not-run", "cannot-tell"]
"""Of compute-sanitizer: ``clean`` only with the target's completion, the tool's summary and both exit statuses."""

Cure = Literal["exec-update", "node-params", "recapture", "fixed-buffer"]
CureOutcome = Literal["right-buffer", "wrong-buffer", "failed"]
Step = Literal["prepare", "capture", "first-replay", "free", "replay", "after", "release"]

SCENARIOS: tuple[str, ...] = get_args(Scenario)
OUTCOMES: tuple[str, ...] = get_args(Outcome)
VERDICTS: tuple[str, ...] = get_args(Verdict)
CURES: tuple[str, ...] = get_args(Cure)
CURE_OUTCOMES: tuple[str, ...] = get_args(CureOutcome)
STEPS: tuple[str, ...] = get_args(Step)

KIND = "pointers"
PREFIX = f"{KIND}-"
"""What the names of all files of pointers jobs begin with, and of no other job."""
