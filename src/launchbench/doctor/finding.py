"""What a check has found, as one line; and programs that are asked with a time limit."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from launchbench.config.messages import escaped
from launchbench.config.model import Config

PATIENCE_S = 2.0
"""For a program that is ended in good order."""

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line: ``ok``, ``warn`` (works, with a disadvantage) or ``fail`` (will not work), and what to do."""

    status: Status
    what: str
    says: str
    do: str = ""

    def line(self) -> str:
        """``fail  cards     ...: what to do``, printable whatever the parts hold."""
        return escaped(f"{self.status:<5} {self.what:<13} {self.says}{f': {self.do}' if self.do else ''}")


Check = Callable[[Config], Iterator[Finding]]


@dataclass(frozen=True)
class Answer:
    """Output of a program, or in ``failed`` why there is none; ``late`` where it took too long."""

    out: str
    failed: str = ""
    late: bool = False


@contextlib.contextmanager
def _held_signals() -> Iterator[None]:
    """What would end this process waits until the block has ended; the block starts or ends another program."""
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in list(before):
        if before[number] in (signal.SIG_IGN, None):
            del before[number]
        else:
            signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def _end(process: subprocess.Popen[str], patience_s: float) -> None:
    """End a program with its process group: in good order, so that it ends what it asks itself, then by force."""
    with _held_signals():
        for number, limit_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 1)):
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)
            # One that hangs in the kernel cannot be killed: it is left alone.
            with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
                process.communicate(timeout=limit_s)


def ask(
    command: Sequence[str],
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    patience_s: float = PATIENCE_S,
) -> Answer:
    """Run a program and what it starts for ``limit_s`` seconds at most; never raises and never waits much longer.

    Args:
        command: program and arguments.
        limit_s: seconds after which it is ended, with its process group.
        environment: of the program; that of this process where it is None.
        patience_s: seconds that it has to end in good order; more where it asks others itself.
    """
    name = command[0].rpartition("/")[2]
    process: subprocess.Popen[str] | None = None
    try:
        with _held_signals():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=environment,
                start_new_session=True,
            )
        out, said = process.communicate(timeout=limit_s)
    except BaseException as error:
        if process is None:
            if isinstance(error, OSError):
                return Answer("", f"{name} cannot be started ({error.strerror})")
            raise
        _end(process, patience_s)
        if isinstance(error, subprocess.TimeoutExpired):
            return Answer("", f"{name} did not answer within {limit_s:g} s", late=True)
        raise
    if process.returncode == 0:
        return Answer(out)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit status {process.returncode}"
    return Answer(out, f"{name} ended with {how}" + (f" ({lines[-1]})" if lines else ""))


def found(program: str) -> bool:
    """Whether the program is on PATH."""
    return shutil.which(program) is not None


def in_slurm_job() -> bool:
    """Whether this process runs inside a SLURM job."""
    return bool(os.environ.get("SLURM_JOB_ID"))
