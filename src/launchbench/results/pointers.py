"""The record of one pointers job: what replays of a dangling graph did, what the sanitizer saw, what the cures did."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from launchbench.results.extra import ExtraRecord, TableFile, TextFile
from launchbench.results.pointers_words import SCENARIOS, Cure, CureOutcome, Outcome, Scenario, Step, Verdict
from launchbench.results.protocol import MAX_LAUNCH_COUNT
from launchbench.results.record import _Part

POINTERS_FORMAT = "launchbench-pointers/1"

MAX_CODE = 2**31 - 1
"""CUresult and cudaError_t are C enumerations."""

Number = Annotated[int, Field(ge=-(2**53), le=2**53)]
"""What every table can hold exactly, also as a float."""


class Call(_Part):
    """One CUDA call of a scenario, in order."""

    step: Step = Field(description="what the scenario was doing")
    call: str = Field(description="name of the API function")
    code: int = Field(ge=0, le=MAX_CODE, description="CUresult or cudaError_t")
    name: str = Field(description="name of the code")


class Seen(_Part):
    """What one run of a scenario said, as far as it came."""

    outcome: Outcome
    reason: str | None = Field(None, description="why the outcome cannot be told")
    calls: list[Call]
    addresses: dict[str, str] = Field(description="buffer -> device address, 0x...")
    values: dict[str, float] = Field(description="what was read -> float32; a buffer that could not be read is absent")
    device_uuid: str | None = Field(None, description="of the device that the process ran on, where it says so")
    completed: bool = Field(description="the process said that it had come to its end")
    exit_status: Number | None = Field(description="of the process; negative: ended by that signal")


class AccessError(_Part):
    """One error as compute-sanitizer printed it; what it did not print is None."""

    kind: str = Field(description="first line of the report, without the prefix")
    access: str | None = Field(None, description="read, write or atomic")
    space: str | None = Field(None, description="__global__, __shared__ or __local__")
    size_bytes: Number | None = None
    kernel: str | None = None
    source_line: str | None = Field(None, description="file:line")
    address: str | None = None
    distance_bytes: Number | None = Field(None, description="to the nearest allocation")
    side: str | None = Field(None, description="before, after or inside that allocation")
    nearest_address: str | None = None
    nearest_size_bytes: Number | None = None
    api_call: str | None = Field(None, description="of an error that a CUDA call returned: the call")
    api_code: Number | None = None
    api_name: str | None = None
    host_frames: list[str] = Field(default_factory=list, description="of the host back trace, innermost first")


class SanitizerRun(_Part):
    """One scenario of the stand-alone program under compute-sanitizer."""

    scenario: Scenario
    verdict: Verdict
    reason: str | None = Field(None, description="why it is not clean, in the tool's words where it gave any")
    tool_exit_status: Number | None = Field(None, description="negative: a signal; None: not started or killed")
    target_exit_status: Number | None = Field(None, description="as the target's last line says; None without one")
    error_count: Number | None = Field(None, ge=0, description="of the tool's summary; None without one")
    errors: list[AccessError] = Field(default_factory=list)
    program: Seen | None = Field(None, description="what the program said meanwhile")
    report: TextFile | None = Field(None, description="everything that tool and program printed")


class Sanitizer(_Part):
    """The tool, and its runs."""

    version: str | None = None
    source: str | None = Field(None, description="PATH, CUDA_HOME, environment or system")
    runs: list[SanitizerRun]


class CureCheck(_Part):
    """Whether a replay after a cure wrote to the buffer that was asked for, and only there."""

    cure: Cure
    launch_count: int = Field(ge=1, le=MAX_LAUNCH_COUNT)
    outcome: CureOutcome
    checked: int = Field(
        ge=0, le=2**53, description="replays whose buffers were read: one after a free, and every repetition"
    )
    reason: str | None = None


class CuresProtocol(_Part):
    """How the cures were timed."""

    launch_counts: list[int] = Field(min_length=1)
    repetitions: int = Field(ge=1)
    warmup_rounds: int = Field(ge=1)
    warmup_ms: int = Field(ge=0)


class PointersRecord(ExtraRecord):
    """One job: one GPU."""

    format: Literal["launchbench-pointers/1"]
    scenarios: dict[Scenario, Seen]
    sanitizer: Sanitizer
    cures: list[CureCheck]
    cures_file: TableFile = Field(description="repetitions of the cures: pointers_columns.CURE_REPETITIONS")
    protocol: CuresProtocol

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        missing = sorted(set(SCENARIOS) - set(self.scenarios))
        if missing:
            raise ValueError(f"scenarios: {', '.join(missing)} missing")
        done = [(one.cure, one.launch_count) for one in self.cures]
        if len(set(done)) < len(done):
            raise ValueError("cures: one of them is there twice")
        return self

    def table(self) -> TableFile:
        """The CSV of the cures' repetitions."""
        return self.cures_file

    def files(self) -> list[TextFile]:
        """All files that the record vouches for."""
        reports = [run.report for run in self.sanitizer.runs if run.report]
        return [self.cures_file, *reports]


def pointers_schema() -> str:
    """JSON Schema of the record, as committed under ``workflow/schemas``."""
    return json.dumps(PointersRecord.model_json_schema(), indent=2, sort_keys=True) + "\n"
