"""Why a measurement was not made: one small file for each cell and trial, and each extra job, under the build folder.

A job writes it when it fails and removes it when it works. What killed a job it cannot write:
``workflow.reasons`` asks the scheduler.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.results.files import write_atomically
from launchbench.results.layout import LAUNCH
from launchbench.results.protocol import MAX_LAUNCH_COUNT
from launchbench.results.record import MAX_TRIAL, SafeName, Utc, utc_text

MAX_REASON = 500
"""Characters that are kept of a reason."""

ON_SIMULATED = "on a simulated GPU"
"""Note that an error of a job on one carries."""


@dataclass(frozen=True)
class Attempt:
    """A job that was tried; the attributes are those of ``Failure``."""

    site: str
    label: str
    card: str
    launch_count: int | None = None
    trial: int = 1
    kind: str = LAUNCH

    def path(self, build_dir: Path) -> Path:
        """Where its failure is kept."""
        name = f"n{self.launch_count}.t{self.trial}" if self.kind == LAUNCH else self.kind
        return build_dir / "failures" / self.site / self.label / self.card / f"{name}.json"


class Failure(BaseModel):
    """One failed attempt at a job; ``card`` is ``any`` where the scheduler picks. Only launch jobs have an N."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["launchbench-failure/1"] = "launchbench-failure/1"
    site: SafeName
    label: SafeName
    card: SafeName
    kind: Literal["launch", "pointers", "lengths", "decode"] = "launch"
    launch_count: int | None = Field(None, ge=1, le=MAX_LAUNCH_COUNT)
    trial: int = Field(1, ge=1, le=MAX_TRIAL)
    reason: str = Field(min_length=1, max_length=MAX_REASON)
    failed_utc: Utc
    slurm_job: str | None = None
    virtual: bool = False
    """Whether a simulated GPU is known to have been measured."""

    @model_validator(mode="after")
    def _has_what_its_kind_has(self) -> Self:
        if (self.kind == LAUNCH) != (self.launch_count is not None):
            raise ValueError("launch jobs alone have an N")
        return self

    @property
    def attempt(self) -> Attempt:
        """Which job it was."""
        return Attempt(self.site, self.label, self.card, self.launch_count, self.trial, self.kind)

    @property
    def when(self) -> datetime:
        """When it failed."""
        return datetime.fromisoformat(self.failed_utc)


def write_failure(build_dir: Path, failure: Failure) -> None:
    """Keep why a job failed, in the place of an earlier reason.

    Raises:
        LaunchbenchError: the folder cannot be written.
    """
    write_atomically(failure.attempt.path(build_dir), f"{failure.model_dump_json(indent=1)}\n".encode())


def keep_failure(build_dir: Path, attempt: Attempt, error: Exception) -> None:
    """Keep what ended a job; where that cannot be written either, the job's log still says it."""
    known = isinstance(error, LaunchbenchError)
    text = escaped(" ".join((str(error) if known else f"a bug: {type(error).__name__}: {error}").split()))
    with contextlib.suppress(LaunchbenchError, ValidationError):
        failure = Failure(
            **asdict(attempt),
            reason=text[:MAX_REASON] or type(error).__name__,
            failed_utc=now_utc(),
            slurm_job=os.environ.get("SLURM_JOB_ID"),
            virtual=ON_SIMULATED in getattr(error, "__notes__", ()),
        )
        write_failure(build_dir, failure)


def forget_failure(build_dir: Path, attempt: Attempt) -> None:
    """Drop what is known of an earlier attempt; nothing happens where there is nothing."""
    with contextlib.suppress(OSError):
        attempt.path(build_dir).unlink()


def read_failure(path: Path) -> Failure | None:
    """The failure in a file; None where it is missing, no such file, or of another job than its place says."""
    try:
        if not path.is_file():  # reading a pipe would never end
            return None
        failure = Failure.model_validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError):
        return None
    return failure if path.parts[-4:] == failure.attempt.path(Path()).parts[-4:] else None


def read_failures(build_dir: Path, kind: str = LAUNCH) -> list[Failure]:
    """All failures of a kind of job that are kept, sorted by site, label, card, N and trial."""
    found: Iterator[Failure | None] = map(read_failure, (build_dir / "failures").glob("*/*/*/*.json"))
    return sorted(
        (one for one in found if one and one.kind == kind),
        key=lambda one: (one.site, one.label, one.card, one.launch_count or 0, one.trial),
    )


def now_utc() -> str:
    """This moment, as failures and records write it."""
    return utc_text(datetime.now(UTC))
