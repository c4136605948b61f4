"""What a check has found, as one line; and programs that are asked with a time limit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from launchbench.config.messages import escaped
from launchbench.config.model import Config
from launchbench.programs import PATIENCE_S, run

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
    try:
        done = run(
            command,
            limit_s,
            patience_s,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return Answer("", f"{name} cannot be started ({error.strerror})")
    if done.exit_status is None:
        return Answer("", f"{name} did not answer within {limit_s:g} s", late=True)
    if done.exit_status == 0:
        return Answer(done.out)
    lines = [line.strip() for line in done.err.splitlines() if line.strip()]
    return Answer(done.out, f"{name} ended with {done.how}" + (f" ({lines[-1]})" if lines else ""))


def found(program: str) -> bool:
    """Whether the program is on PATH."""
    return shutil.which(program) is not None


def in_slurm_job() -> bool:
    """Whether this process runs inside a SLURM job."""
    return bool(os.environ.get("SLURM_JOB_ID"))
