"""The record of one lengths job: kernels of chosen lengths, in a loop and as a graph, by both clocks."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from launchbench.results.extra import ExtraRecord, TableFile
from launchbench.results.lengths_words import MAX_LAUNCH_COUNT
from launchbench.results.record import DeviceState, _Part

LENGTHS_FORMAT = "launchbench-lengths/1"

LENGTHS_VERSION = 2
"""Raised whenever the meaning of a timed interval changes. 2: graphs are made through the driver API, as from version 5
on of the protocol of launch jobs."""

LaunchCount = Annotated[int, Field(ge=1, le=MAX_LAUNCH_COUNT)]
KernelUs = Annotated[float, Field(ge=0, le=1e6)]
Count = Annotated[int, Field(ge=0, le=2**53)]


class LengthsProtocol(_Part):
    """How it was timed."""

    version: int = Field(1, ge=1, description="meaning of the timed intervals; 1 where the record does not tell")
    launch_counts: list[LaunchCount] = Field(min_length=1)
    kernels_us: list[KernelUs] = Field(min_length=1, description="what the kernels should take, in microseconds")
    repetitions: int = Field(ge=1, description="of loop and of replay, at each N and length, in a random order")
    nothing_repetitions: int = Field(ge=1, description="event pairs around nothing")
    warmup_rounds: int = Field(ge=1, description="untimed rounds before them, at each N and length")
    warmup_ms: int = Field(ge=0, description="kernels run for at least this long before the clock is calibrated")
    longest_ms: float = Field(gt=0, description="a loop whose kernels alone take longer is left out")


class LeftOut(_Part):
    """A cell that was not timed, because its kernels alone would take too long."""

    launch_count: LaunchCount
    kernel_us: KernelUs


class LengthSet(_Part):
    """All lengths at one N, and the state of the card around them."""

    launch_count: LaunchCount
    before: DeviceState
    after: DeviceState


class LengthsRecord(ExtraRecord):
    """One job: one GPU."""

    format: Literal["launchbench-lengths/1"]
    seed: Count = Field(description="decided the order of loop and replay")
    cycles_per_us: float = Field(gt=0, description="cycles of the multiprocessor's clock in a microsecond, calibrated")
    expected_count: Count = Field(description="increments the buffer should have seen")
    observed_count: Count = Field(description="increments it has seen")
    sets: list[LengthSet] = Field(min_length=1)
    left_out: list[LeftOut] = Field(default_factory=list)
    protocol: LengthsProtocol
    repetitions_file: TableFile = Field(description="repetitions: lengths_columns.LENGTH_REPETITIONS")

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if self.observed_count != self.expected_count:
            raise ValueError(f"observed_count: got {self.observed_count}; expected {self.expected_count}")
        counts = [one.launch_count for one in self.sets]
        if counts != self.protocol.launch_counts or len(set(counts)) < len(counts):
            raise ValueError(f"sets: got the N {counts}; expected {self.protocol.launch_counts}, each once")
        if len(set(self.protocol.kernels_us)) < len(self.protocol.kernels_us):
            raise ValueError("protocol.kernels_us: one of them is there twice")
        return self

    def table(self) -> TableFile:
        """The CSV of the repetitions."""
        return self.repetitions_file


def lengths_schema() -> str:
    """JSON Schema of the record, as committed under ``workflow/schemas``."""
    return json.dumps(LengthsRecord.model_json_schema(), indent=2, sort_keys=True) + "\n"
