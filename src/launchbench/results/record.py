"""The JSON record that stands beside every raw CSV: what was measured, on what, by which code.

Models only: nothing here asks a device or reads a file. A value that could not be had is ``None``,
never 0, and its reason stands in ``unavailable``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from launchbench.results.protocol import MAX_LAUNCH_COUNT, Kernel, LaunchPath, Mode, Protocol

RECORD_FORMAT = "launchbench-record/3"


def _moment(text: str) -> str:
    datetime.fromisoformat(text)  # a ValueError for the 45th of a month
    return text


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
SafeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Utc = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z$"),
    AfterValidator(_moment),
]
Microseconds = Annotated[float, Field(ge=0)]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, int | float) else value


Samples = Annotated[
    list[Microseconds],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=list[Microseconds] | Microseconds),
]
"""One for each graph that was made; a record of the first format has a single number."""


def utc_text(moment: datetime) -> str:
    """``2026-01-31T12:00:00.123456Z``; the moment must be aware."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def card_id(uuid: str) -> str:
    """First eight hex digits of a UUID as NVML writes it; MIG slices keep their prefix."""
    kind, _, digits = uuid.partition("-")
    return digits[:8].lower() if kind == "GPU" else f"mig-{digits[:8].lower()}"


class _Part(BaseModel):
    # JSON has no NaN: it would be written as null, and then read as "not known".
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RawFile(_Part):
    """The CSV that this record vouches for."""

    file: SafeName = Field(description="name, in the folder of the record")
    sha256: Sha256
    size_bytes: int = Field(ge=1)
    rows: int = Field(ge=1)


class OtherProcess(_Part):
    """Another process with a compute context on the same GPU."""

    pid: int
    used_memory_bytes: int | None = None


class DeviceState(_Part):
    """What NVML said of the GPU at one moment, each field queried on its own, and how busy the host was."""

    taken_utc: Utc
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle_reasons: list[str] | None = Field(None, description="names of the set bits, [] when none")
    throttle_reasons_mask: int | None = None
    performance_state: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    utilization_percent: int | None = None
    used_memory_bytes: int | None = None
    other_processes: list[OtherProcess] | None = None
    load_average_1min: float | None = Field(
        None, description="of the host; no reason to leave a block out: it does not tell of the issuing core"
    )
    unavailable: dict[str, str] = Field(default_factory=dict, description="field -> why it is None")


class Device(_Part):
    """The GPU, as the CUDA driver and NVML describe it."""

    name: str
    uuid: str = Field(description="GPU-... or MIG-..., as NVML writes it")
    kind: Literal["gpu", "mig"] = "gpu"
    parent_name: str | None = Field(None, description="of a MIG slice: the GPU it is cut from")
    parent_uuid: str | None = None
    pci_bus_id: str | None = None
    compute_capability: str = Field(pattern=r"^[0-9]+\.[0-9]+$")
    multiprocessors: int | None = None
    memory_total_bytes: int | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = Field(None, description="newest CUDA that the driver runs")
    vbios_version: str | None = None
    max_sm_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    ecc_enabled: bool | None = None
    mig_enabled: bool | None = None
    persistence_enabled: bool | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    virtual: bool = Field(description="a simulated GPU: never evidence about a card")
    unavailable: dict[str, str] = Field(default_factory=dict, description="field -> why it is None")


class Host(_Part):
    """The machine that issued the launches: its CPU decides what a loop costs."""

    hostname: str
    cpu_model: str | None = None
    cpu_count: int | None = None
    affinity: list[int] | None = Field(None, description="logical CPUs this process may run on")
    numa_node_of_gpu: int | None = None
    numa_nodes: int | None = None
    governor: str | None = Field(None, description="of these CPUs; several, with commas, where they differ")
    cpu_quota_cpus: float | None = Field(
        None, gt=0, description="CPUs' worth of time that control groups (of a container, of SLURM) grant the job"
    )
    hypervisor: str | None = None
    kernel: str | None = None
    os: str | None = None
    load_average_1min: float | None = None
    unavailable: dict[str, str] = Field(default_factory=dict, description="field -> why it is None")


class Software(_Part):
    """Versions of everything between Python and the device."""

    launchbench: str
    python: str
    cuda_bindings: str
    cuda_core: str
    numpy: str
    nvcc: str
    host_compiler: str | None = None
    build_flags: list[str] = Field(default_factory=list)


class Code(_Part):
    """The code that produced the numbers."""

    graphs_cu_sha256: Sha256
    fatbin_sha256: Sha256
    library_sha256: Sha256
    package_sha256: Sha256 = Field(description="over the Python modules that measure")
    commit: str | None = Field(None, description="None outside a git checkout")
    modified: bool | None = Field(None, description="the checkout had uncommitted changes to code")


class Slurm(_Part):
    """The allocation, where the job ran in one."""

    job_id: str
    node: str | None = None
    partition: str | None = None
    cluster: str | None = None


class Block(_Part):
    """One launch path and kernel: its correctness check and its one-off costs.

    The counts cover every launch of the block, warm-up and timed repetitions alike.
    """

    launch_path: LaunchPath
    kernel: Kernel
    protocol_hash: str = Field(pattern=r"^[0-9a-f]{12}$")
    expected_count: int = Field(ge=0, description="increments the buffer should have seen")
    observed_count: int = Field(ge=0, description="increments it has seen")
    warmup_rounds_run: int = Field(ge=1)
    capture_us: Samples
    instantiate_us: Samples
    upload_us: Samples
    first_replay_us: Samples = Field(description="first replay after upload, host clock, with synchronize")
    recapture_us: list[Microseconds] = Field([], description="capturing the loop anew on another buffer")
    update_us: list[Microseconds] = Field([], description="cuGraphExecUpdate with that capture")
    refused_updates: int = Field(0, ge=0, description="updates that the driver refused, so that a graph was made")
    graph_bytes: list[int] = Field([], description="device memory that instantiating and uploading took")
    not_timed: dict[Mode, str] = Field({}, description="mode -> why it cannot be timed here")
    attempt: int = Field(0, ge=0, description="0, and more where an earlier one failed a guard")
    buffer_address: str = Field(
        pattern=r"^0x[0-9a-f]+$", description="of the buffer; of the allocation that the placements lie in, if any"
    )
    started_utc: Utc
    before: DeviceState
    after: DeviceState
    involuntary_switches: int | None = Field(
        None, ge=0, description="how often meanwhile the kernel gave the issuing thread's core to another"
    )


MAX_TRIAL = 1_000_000
"""More than anybody makes of one cell, and what every table can hold."""


class Record(_Part):
    """One job: one GPU, one N."""

    format: Literal["launchbench-record/1", "launchbench-record/2", "launchbench-record/3"]
    run_id: SafeName = Field(description="unique; also the stem of the two files")
    site: SafeName
    label: SafeName
    launch_count: int = Field(ge=1, le=MAX_LAUNCH_COUNT, description="N")
    trial: int = Field(
        1, ge=1, le=MAX_TRIAL, description="number of this fresh process among those of its cell, from 1"
    )
    seed: int | None = Field(None, ge=0, description="decided the placements and the order of the modes")
    started_utc: Utc
    finished_utc: Utc
    raw: RawFile
    protocol: Protocol
    blocks: list[Block] = Field(min_length=1)
    paths_not_measured: dict[LaunchPath, str] = Field({}, description="launch path -> why it cannot be measured here")
    kernels_not_measured: dict[LaunchPath, dict[Kernel, str]] = Field(
        {}, description="launch path with some of the kernels -> each of the others -> why it cannot be measured here"
    )
    frameworks: dict[str, str] = Field({}, description="version of each framework that has launched, by package")
    device: Device
    host: Host
    software: Software
    code: Code
    slurm: Slurm | None = None

    def to_json(self) -> str:
        """The record as it is written to disk: indented JSON with a final newline."""
        return self.model_dump_json(indent=1) + "\n"


def record_schema() -> str:
    """JSON Schema of a record, as committed under ``workflow/schemas``."""
    return json.dumps(Record.model_json_schema(), indent=2, sort_keys=True) + "\n"
