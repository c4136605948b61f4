"""Programs that are run for a while and leave nothing behind, also where this process is ended meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

PATIENCE_S = 2.0
"""For a program that is ended in good order."""


@dataclass(frozen=True)
class Ended:
    """What a program wrote to its pipes, as text or bytes; ``exit_status`` is None where it had to be ended."""

    out: Any
    err: Any
    exit_status: int | None

    @property
    def how(self) -> str:
        """``exit status 1``, or ``signal 9`` where one ended it."""
        if self.exit_status is not None and self.exit_status < 0:
            return f"signal {-self.exit_status}"
        return f"exit status {self.exit_status}"


class _InterruptedError(BaseException):
    pass


class _HeldSignals:
    """What would end this process ends what it waits for, and comes again once the block has ended.

    Not longer than that: Python's handlers do not run while a call of the driver hangs.
    """

    def __init__(self) -> None:
        self._came: list[int] = []
        self._before: dict[int, Any] = {}
        self._waiting = False

    def __enter__(self) -> _HeldSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                handler = signal.getsignal(number)
                if handler not in (signal.SIG_IGN, None):
                    self._before[number] = handler
                    signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for late in self._came:
            signal.raise_signal(late)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._came.append(number)
        if self._waiting:
            self._waiting = False
            raise _InterruptedError

    def wait(self, process: subprocess.Popen[Any], limit_s: float | None) -> tuple[Any, Any]:
        """What the process writes until it ends, a signal comes (``_InterruptedError``) or the time is over."""
        self._waiting = True
        try:
            if self._came:
                raise _InterruptedError
            return process.communicate(timeout=limit_s)
        finally:
            self._waiting = False


def run(
    command: Sequence[str],
    limit_s: float | None = None,
    patience_s: float = PATIENCE_S,
    first: signal.Signals = signal.SIGTERM,
    **options: Any,
) -> Ended:
    """Run a program for ``limit_s`` seconds at most; it has ended on return, and also where a signal ends this process.

    Args:
        command: program and arguments.
        limit_s: seconds after which it is ended; None: it has all the time.
        patience_s: seconds that it has to end in good order, then it is killed; with 0 it is killed at once.
        first: the signal that asks it to end in good order.
        options: of ``subprocess.Popen``; output goes to pipes unless they say otherwise. With ``start_new_session``
            all that the program has started ends with it.

    Raises:
        OSError: it cannot be started.
    """
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    group = bool(options.get("start_new_session"))
    with _HeldSignals() as held:
        with _heeded(first) if group else contextlib.nullcontext():
            process: subprocess.Popen[Any] = subprocess.Popen(command, **options)
        try:
            out, err = held.wait(process, limit_s)
        except BaseException as error:
            out, err = _end(process, patience_s, first, group)
            if isinstance(error, subprocess.TimeoutExpired | _InterruptedError):
                return Ended(out, err, None)
            raise
        if group:  # what it has started and not waited for
            _signal(process, signal.SIGKILL, group)
        return Ended(out, err, process.returncode)


@contextlib.contextmanager
def _heeded(number: int) -> Iterator[None]:
    """A program that is started meanwhile heeds this signal, also where this process was told to ignore it, and does.

    As a shell's background jobs are told of SIGINT: a program hands down what it ignores, not its handlers.
    """
    ignored = threading.current_thread() is threading.main_thread() and signal.getsignal(number) is signal.SIG_IGN
    if ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        if ignored:
            signal.signal(number, signal.SIG_IGN)


def end_by_interrupt() -> None:
    """End this process as an interrupt does, in one line; its status tells a shell script to end as well."""
    print("launchbench: interrupted", file=sys.stderr, flush=True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)


def _end(process: subprocess.Popen[Any], patience_s: float, first: signal.Signals, group: bool) -> tuple[Any, Any]:
    """End a program: in good order, so that it ends what it asks itself, then by force; what it has written."""
    out, err = None, None
    steps = ((first, patience_s), (signal.SIGKILL, 1))
    for number, limit_s in steps if patience_s else steps[1:]:
        _signal(process, number, group)
        # One that hangs in the kernel cannot be killed: it is left alone.
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            out, err = process.communicate(timeout=limit_s)
    return out, err


def _signal(process: subprocess.Popen[Any], number: int, group: bool) -> None:
    with contextlib.suppress(OSError):
        if group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
