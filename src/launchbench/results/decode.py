"""The record of one decode job: a transformer's step, eager and as a graph, and what was predicted of it before."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from launchbench.results.extra import ExtraRecord, TableFile
from launchbench.results.protocol import Kernel, LaunchPath
from launchbench.results.record import DeviceState, SafeName, Utc, _Part

DECODE_FORMAT = "launchbench-decode/1"

Size = Annotated[int, Field(ge=1, le=2**31 - 1)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Us = Annotated[float, Field(ge=0, le=1e12)]


class Torch(_Part):
    """The PyTorch that ran the step."""

    version: str
    cuda: str | None = Field(None, description="CUDA that it was built for")
    cudnn: int | None = None
    architectures: list[str] = Field(description="that it has machine code for")
    matmul_precision: str | None = Field(None, description="torch.get_float32_matmul_precision()")


class DecodeProtocol(_Part):
    """What was run and how it was timed."""

    layers: Size
    head_width: Size
    context: Size = Field(description="tokens that the KV cache holds; all are read in every step")
    vocabulary: Size
    dtype: Literal["float32"] = "float32"
    points: list[tuple[Size, Size]] = Field(min_length=1, description="(batch, width); the first one is predicted")
    tokens: Size = Field(description="steps in a timed interval")
    checked_tokens: Size = Field(description="steps whose logits were compared")
    tolerance: float = Field(gt=0, description="largest difference of a logit, in units of the largest logit")
    warmup_rounds: Size = Field(description="untimed rounds of both modes at each point")
    repetitions: Size = Field(description="at most, of each mode at each point, in a random order")
    least_repetitions: Size
    limit_s: float = Field(gt=0, description="no further repetition of a point begins after this")


class DecodePoint(_Part):
    """One batch and width."""

    batch: Size
    width: Size
    launches: Count | None = Field(None, description="kernel nodes of the captured step")
    nodes: dict[str, Count] = Field(default_factory=dict, description="kind of node -> how many")
    launches_reason: str | None = Field(None, description="why they were not counted")
    largest_difference: float = Field(ge=0, description="of a logit, eager against graph, over the checked tokens")
    largest_logit: float = Field(ge=0)
    before: DeviceState
    after: DeviceState


class LeftOutPoint(_Part):
    """A point that was not timed."""

    batch: Size
    width: Size
    reason: str


class StepPart(_Part):
    """One kind of operation of the step, timed on its own before the step was."""

    name: SafeName
    launches: Count = Field(description="kernel nodes of all operations of this kind in a step")
    host_us: Us = Field(
        description="issuing all of them eagerly among the other kinds, layer by layer, host clock; median"
    )
    alone_us: Us = Field(description="the same in a row of their kind")
    device_us: Us = Field(description="replaying all of them as a graph, by events; median")


class StoredCosts(_Part):
    """Costs of a launch that a launch job on the same card has measured; medians."""

    run_id: SafeName
    launch_path: LaunchPath = Field(description="that issued the launches of issue_us")
    kernel: Kernel = Field(description="of the nodes and queued launches")
    launch_count: Size
    issue_us: Us = Field(description="host time of issuing one launch")
    node_us: Us = Field(description="replay time / N")
    queued_us: Us | None = Field(None, description="pace of launches that were queued before they ran")


class Prediction(_Part):
    """What was predicted of the first point before it was timed; ``decode.predict`` has the formulas."""

    made_utc: Utc
    launches: Count
    parts: list[StepPart] = Field(min_length=1)
    host_us: Us = Field(description="issuing the step eagerly")
    device_us: Us = Field(description="executing it once queued")
    eager_us: Us
    graph_us: Us = Field(gt=0)
    stored: StoredCosts | None = None
    bare_eager_us: Us | None = Field(None, description="from the stored costs alone")
    bare_graph_us: Us | None = None


class DecodeRecord(ExtraRecord):
    """One job: one GPU."""

    format: Literal["launchbench-decode/1"]
    not_run: str | None = Field(None, min_length=1, description="why no step could be run here")
    seed: Count = Field(description="decided the weights and the order of eager and graph")
    torch: Torch | None = None
    points: list[DecodePoint] = Field(default_factory=list)
    left_out: list[LeftOutPoint] = Field(default_factory=list)
    prediction: Prediction | None = None
    prediction_reason: str | None = Field(None, description="why there is none, or none from stored costs")
    protocol: DecodeProtocol
    repetitions_file: TableFile = Field(description="repetitions: decode_columns.DECODE_REPETITIONS")

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        told = [(one.batch, one.width) for one in self.points]
        told += [(one.batch, one.width) for one in self.left_out]
        if self.not_run is not None:
            if told or self.prediction or self.repetitions_file.rows:
                raise ValueError("not_run: got a reason and results; expected one of them")
            return self
        if sorted(told) != sorted(self.protocol.points) or len(set(told)) < len(told):
            raise ValueError(f"points: got {told}; expected {self.protocol.points}, each once")
        if not self.points or self.torch is None:
            raise ValueError("points: got none and no reason why it was not run")
        return self

    def table(self) -> TableFile:
        """The CSV of the repetitions."""
        return self.repetitions_file


def decode_schema() -> str:
    """JSON Schema of the record, as committed under ``workflow/schemas``."""
    return json.dumps(DecodeRecord.model_json_schema(), indent=2, sort_keys=True) + "\n"
