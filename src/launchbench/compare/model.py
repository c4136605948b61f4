"""What a comparison is, and how it is kept as JSON. Models only: nothing here reads results or decides a verdict."""

from __future__ import annotations

import json
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

FORMAT: Literal["launchbench-comparison/1"] = "launchbench-comparison/1"

Word = Literal["same", "faster", "slower", "cannot tell", "not comparable", "missing"]
WORDS: tuple[Word, ...] = get_args(Word)


class _Part(BaseModel):
    # JSON has no NaN: what is not known is null.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Figure(_Part):
    """One side of a cell: mean over its trials, of one launch or node."""

    value_us: float
    low_us: float | None = Field(description="lower end of the 95 % t interval over trials")
    high_us: float | None = Field(description="upper end")
    trials: int = Field(ge=1, description="fresh processes behind it")
    issue_share: float | None = Field(description="host time of issuing divided by GPU time, mean over trials")


class Row(_Part):
    """One cell and mode of A and B."""

    label: str
    simulated: bool
    card_before: str = Field(description="first eight hex digits of the UUID of A's card, empty where there is none")
    card_after: str = Field(description="the same of B")
    launch_path: str
    kernel: str
    launch_count: int = Field(ge=1, description="N")
    mode: str
    unit: str = Field(description="of the figures: us per launch, per node or per increment")
    verdict: Word = Field(description="of B against A")
    reason: str = Field(description="why there is no verdict; empty where there is one")
    ratio: float | None = Field(description="B divided by A")
    ratio_low: float | None = Field(description="lower end of its 95 % interval")
    ratio_high: float | None = Field(description="upper end")
    before: Figure | None = Field(description="A")
    after: Figure | None = Field(description="B")
    host_bound: bool = Field(description="issuing takes as long as the device is busy: a difference is the host's")


class Difference(_Part):
    """What the records of A and B say differently."""

    field: str
    labels: list[str] = Field(description="whose records; empty for all that are on both sides")
    before: list[str] = Field(description="every value of A, empty where it is not known")
    after: list[str] = Field(description="every value of B")


class BrokenFile(_Part):
    """A file or folder that cannot be used."""

    file: str
    reason: str


class SideSummary(_Part):
    """What was read."""

    path: str
    cards: int
    jobs: int
    broken: list[BrokenFile]


class Comparison(_Part):
    """B against A."""

    format: Literal["launchbench-comparison/1"] = FORMAT
    launchbench: str = Field(description="version of the package that compared")
    clock: str = Field(description="what the times are by")
    same_within: float = Field(description="same: the interval of the ratio lies within 1 +- this")
    simulated: bool = Field(description="some cards are simulated: nothing here is about a card")
    before: SideSummary = Field(description="A")
    after: SideSummary = Field(description="B")
    summary: list[str] = Field(description="sentences")
    counts: dict[Word, int] = Field(description="rows of each verdict")
    differences: list[Difference]
    rows: list[Row]

    def to_json(self) -> str:
        """Indented JSON with a final newline."""
        return self.model_dump_json(indent=1) + "\n"


def comparison_schema() -> str:
    """JSON Schema of a comparison, as committed under ``workflow/schemas``."""
    return json.dumps(Comparison.model_json_schema(), indent=2, sort_keys=True) + "\n"
