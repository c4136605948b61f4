"""Why a measurement was not made: one small file for each cell and trial, under the build folder.

A job writes it when it fails and removes it when it works. What killed a job it cannot write:
``workflow.reasons`` asks the scheduler.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from launchbench.errors import LaunchbenchError
from launchbench.results.files import write_atomically
from launchbench.results.protocol import MAX_LAUNCH_COUNT
from launchbench.results.record import SafeName, Utc, utc_text

MAX_REASON = 500
"""Characters that are kept of a reason."""

ON_SIMULATED = "on a simulated GPU"
"""Note that an error of a job on one carries."""


class Failure(BaseModel):
    """One failed attempt to measure a GPU type at one N; ``card`` is ``any`` where the scheduler picks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["launchbench-failure/1"] = "launchbench-failure/1"
    site: SafeName
    label: SafeName
    card: SafeName
    launch_count: int = Field(ge=1, le=MAX_LAUNCH_COUNT)
    trial: int = Field(1, ge=1)
    reason: str = Field(min_length=1, max_length=MAX_REASON)
    failed_utc: Utc
    slurm_job: str | None = None
    virtual: bool = False
    """Whether a simulated GPU is known to have been measured."""

    @property
    def when(self) -> datetime:
        """When it failed."""
        return datetime.fromisoformat(self.failed_utc)


def failure_path(build_dir: Path, site: str, label: str, card: str, launch_count: int, trial: int = 1) -> Path:
    """Where the failure of one trial of a cell is kept."""
    return build_dir / "failures" / site / label / card / f"n{launch_count}.t{trial}.json"


def write_failure(build_dir: Path, failure: Failure) -> None:
    """Keep why a cell failed, in the place of an earlier reason.

    Raises:
        LaunchbenchError: the folder cannot be written.
    """
    path = failure_path(build_dir, failure.site, failure.label, failure.card, failure.launch_count, failure.trial)
    write_atomically(path, f"{failure.model_dump_json(indent=1)}\n".encode())


def keep_failure(
    build_dir: Path, site: str, label: str, card: str, launch_count: int, trial: int, error: Exception
) -> None:
    """Keep what ended a job; where that cannot be written either, the job's log still says it."""
    known = isinstance(error, LaunchbenchError)
    text = " ".join((str(error) if known else f"a bug: {type(error).__name__}: {error}").split())
    with contextlib.suppress(LaunchbenchError, ValidationError):
        failure = Failure(
            site=site,
            label=label,
            card=card,
            launch_count=launch_count,
            trial=trial,
            reason=text[:MAX_REASON] or type(error).__name__,
            failed_utc=now_utc(),
            slurm_job=os.environ.get("SLURM_JOB_ID"),
            virtual=ON_SIMULATED in getattr(error, "__notes__", ()),
        )
        write_failure(build_dir, failure)


def forget_failure(build_dir: Path, site: str, label: str, card: str, launch_count: int, trial: int) -> None:
    """Drop what is known of an earlier attempt; nothing happens where there is nothing."""
    with contextlib.suppress(OSError):
        failure_path(build_dir, site, label, card, launch_count, trial).unlink()


def read_failure(path: Path) -> Failure | None:
    """The failure in a file; None where it is missing, no such file, or of another cell than its place says."""
    try:
        if not path.is_file():  # reading a pipe would never end
            return None
        failure = Failure.model_validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError):
        return None
    own = failure_path(Path(), failure.site, failure.label, failure.card, failure.launch_count, failure.trial)
    return failure if path.parts[-4:] == own.parts[-4:] else None


def read_failures(build_dir: Path) -> list[Failure]:
    """All failures that are kept, sorted by site, label, card, N and trial."""
    found: Iterator[Failure | None] = map(read_failure, (build_dir / "failures").glob("*/*/*/n*.json"))
    return sorted(
        (one for one in found if one), key=lambda one: (one.site, one.label, one.card, one.launch_count, one.trial)
    )


def now_utc() -> str:
    """This moment, as failures and records write it."""
    return utc_text(datetime.now(UTC))
