"""Runs every check in a process of its own with a time limit: one that crashes or hangs is a line like another."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator

from launchbench.config.model import SETTINGS_VARIABLE, Config
from launchbench.doctor.checks import CHECKS
from launchbench.doctor.finding import Finding, ask
from launchbench.errors import LaunchbenchError
from launchbench.programs import PATIENCE_S
from launchbench.workflow.plan import PROBE_TIMEOUT_VARIABLE, probe_timeout_s

LIMIT_S = 90.0
"""For one check with all that it asks."""

DRIVER_CHECKS = ("driver", "cards", "nvml", "kernels")
"""Each asks the driver, so where one hangs the others would too."""

MAX_LIMIT_S = 86400
"""A day: more than any check takes, and short enough for the timers of every system."""


def examine(config: Config, limit_s: float = LIMIT_S) -> Iterator[str]:
    """Lines of all checks, in order, as they come; ``limit_s`` seconds for each.

    Checks that ask the driver have no more than ``PROBE_TIMEOUT_VARIABLE`` allows, and after one that hangs the others
    are left out.
    """
    driver_limit_s = limit_s
    if PROBE_TIMEOUT_VARIABLE in os.environ:
        try:
            driver_limit_s = min(limit_s, probe_timeout_s())
        except LaunchbenchError as error:
            yield Finding("fail", "driver", str(error)).line()
    hung = ""
    environment = {**os.environ, SETTINGS_VARIABLE: config.model_dump_json(), "PYTHONUNBUFFERED": "1"}
    for name in CHECKS:
        command = [sys.executable, "-m", "launchbench", "doctor", "--check", name]
        if hung and name in DRIVER_CHECKS:
            yield Finding("fail", name, f"not checked, since the driver did not answer the check of {hung}").line()
            continue
        limit = driver_limit_s if name in DRIVER_CHECKS else limit_s
        answer = ask(command, limit, environment, patience_s=3 * PATIENCE_S)  # it may be ending what it asks itself
        hung = name if answer.late and name in DRIVER_CHECKS else hung
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
