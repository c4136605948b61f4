"""Runs every check in a process of its own with a time limit: one that crashes or hangs is a line like another."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator

from launchbench.config.model import SETTINGS_VARIABLE, Config
from launchbench.doctor.checks import CHECKS
from launchbench.doctor.finding import Finding, ask

LIMIT_S = 90.0
"""For one check with all that it asks."""

MAX_LIMIT_S = 86400
"""A day: more than any check takes, and short enough for the timers of every system."""


def examine(config: Config, limit_s: float = LIMIT_S) -> Iterator[str]:
    """Lines of all checks, in order, as they come; ``limit_s`` seconds for each."""
    environment = {**os.environ, SETTINGS_VARIABLE: config.model_dump_json(), "PYTHONUNBUFFERED": "1"}
    for name in CHECKS:
        command = [sys.executable, "-m", "launchbench", "doctor", "--check", name]
        answer = ask(command, limit_s, environment)
        lines = [line for line in answer.out.splitlines() if line.startswith(("ok ", "warn ", "fail "))]
        yield from lines
        if answer.failed and not any(line.startswith("fail ") for line in lines):
            how = answer.failed.partition(" ")[2]
            yield Finding("fail", name, f"this check {how}").line()


def check(name: str, config: Config) -> Iterator[Finding]:
    """The findings of one check of `CHECKS`; a mistake in the check itself is one of them."""
    try:
        yield from CHECKS[name](config)
    except Exception as error:
        traceback.print_exc()
        yield Finding("fail", name, f"the check itself failed: {type(error).__name__}: {error}")
