"""A line every few seconds from inside a block that takes long. It is asked between two intervals, never in one."""

from __future__ import annotations

import sys
import time

INTERVAL_S = 5.0


class Progress:
    """Tells on standard error how far a block is.

    Args:
        subject: what the lines begin with.
        interval_s: no two lines come closer together, and none sooner than this after the start.
    """

    def __init__(self, subject: str, interval_s: float = INTERVAL_S) -> None:
        self._subject = subject
        self._interval_ns = round(interval_s * 1e9)
        self._begun_ns = self._told_ns = time.perf_counter_ns()

    def __call__(self, what: str, done: int, of: int | None = None) -> None:
        """Say that so many are done, of so many where that is known."""
        now_ns = time.perf_counter_ns()
        if now_ns - self._told_ns < self._interval_ns:
            return
        self._told_ns = now_ns
        count = f"{done}" if of is None else f"{done} of {of}"
        seconds = (now_ns - self._begun_ns) / 1e9
        print(f"{self._subject}: {what} {count}, {seconds:.0f} s", file=sys.stderr, flush=True)
