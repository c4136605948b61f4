"""One measurement job: one GPU, one N, every configured launch path and kernel, one CSV and one record."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from launchbench.config.messages import escaped
from launchbench.config.model import Config
from launchbench.errors import LaunchbenchError
from launchbench.measure import nvml, provenance
from launchbench.measure.cards import Card, choose, visible_cards
from launchbench.measure.driver import MISFIT_CODES, DeviceMemory, DriverError, call, driver_version, naming
from launchbench.measure.host import cpu_cores, host_facts, slurm_facts
from launchbench.measure.lock import card_lock, core_lock
from launchbench.measure.native import NativeLoops
from launchbench.measure.progress import Progress
from launchbench.measure.timing import FLOAT_BYTES, make_loop, time_block
from launchbench.results import flags
from launchbench.results.failures import ON_SIMULATED
from launchbench.results.files import new_run_id, write_atomically, write_result
from launchbench.results.protocol import Kernel as KernelName
from launchbench.results.protocol import LaunchPath, Protocol
from launchbench.results.record import Block, Device, utc_text

if TYPE_CHECKING:
    from cuda.core import Device as CudaDevice
    from cuda.core import Kernel, Stream


OLDEST_OF_CUDA_13 = (7, 5)
"""Compute capability of the oldest cards that CUDA 13 builds for, by its release notes; CUDA 12.9 also knows sm_50."""


@dataclass(frozen=True)
class Job:
    """What to measure and where it goes.

    Attributes:
        label: GPU type that is asked for.
        card: short UUID of one certain card, or None for any of that type.
        launch_count: N.
        site: folder under the results.
        binaries: folder with the products of ``launchbench build``.
    """

    label: str
    card: str | None
    launch_count: int
    site: str
    binaries: Path


def protocol_of(config: Config) -> Protocol:
    """The part of the configuration that decides how a block is timed."""
    return Protocol(repetitions=config.repetitions, warmup_rounds=config.warmup_rounds, warmup_ms=config.warmup_ms)


def run(job: Job, config: Config) -> Path:
    """Measure and file the result; nothing is written unless everything worked.

    Returns:
        Path of the new record.

    Raises:
        LaunchbenchError: no driver, not the card that was asked for, a CUDA call failed, or the results
            cannot be written.
    """
    cards = visible_cards()  # first: without a driver there is no use in building
    provenance.read_manifest(job.binaries)
    card = choose(cards, config, job.label, job.card)
    try:
        with card_lock(card.uuid), core_lock(cpu_cores()), nvml.session(card.uuid) as session:
            return _measure(job, config, card, session)
    except Exception as error:
        if card.is_virtual:
            error.add_note(ON_SIMULATED)
        raise


def load_on(card: Card, binaries: Path, config: Config) -> None:
    """Load the kernels on a card and measure nothing.

    Raises:
        LaunchbenchError: the driver does not take them, says why and what helps; or a CUDA call failed.
    """
    _become_current(card)
    _load_kernels(binaries, card, config)


def write_receipt(receipt: Path, record: Path, results_dir: Path) -> None:
    """Say that a cell has been measured.

    Args:
        receipt: the file that Snakemake waits for.
        record: path of the record that was filed.
        results_dir: root of the results; the receipt names record and CSV relative to it, with their sizes.

    Raises:
        LaunchbenchError: the receipt cannot be written.
    """
    files = (record, record.with_suffix(".csv"))
    text = json.dumps({"size_bytes": {str(file.relative_to(results_dir)): file.stat().st_size for file in files}})
    write_atomically(receipt, f"{text}\n".encode())


def _measure(job: Job, config: Config, card: Card, session: nvml.Nvml) -> Path:
    started = datetime.now(UTC)
    strangers = session.pids()
    if strangers and config.cards == "listed":
        # The scheduler was asked for a card of its own; elsewhere company is only flagged.
        found = f"{card.name} (card {card.id}) with the processes {', '.join(map(str, sorted(strangers)[:5]))} on it"
        raise LaunchbenchError(escaped(f"asked to measure {job.label} alone; found {found}: nothing was measured"))
    device = _become_current(card)
    with naming("cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority"):
        stream = device.create_stream()
    session.learn_own_pid(strangers)
    kernels = _load_kernels(job.binaries, card, config)
    loops = NativeLoops(job.binaries / "liblaunchloops.so")
    protocol = protocol_of(config)

    blocks: list[Block] = []
    frames: list[pd.DataFrame] = []
    for launch_path in config.launch_paths:
        for kernel in config.kernels:
            block, frame = _measure_block(
                job, device, stream, launch_path, kernel, kernels[kernel], loops, protocol, session
            )
            blocks.append(block)
            frames.append(frame)
    call("cuCtxSynchronize")  # whatever went wrong on the device and was not noticed yet, before anything is filed
    fields: dict[str, Any] = {
        "run_id": new_run_id(job.launch_count, card.id, started),
        "site": job.site,
        "label": job.label,
        "launch_count": job.launch_count,
        "started_utc": utc_text(started),
        "finished_utc": utc_text(datetime.now(UTC)),
        "protocol": protocol,
        "blocks": blocks,
        "device": describe_device(card, session),
        "host": host_facts(card.pci_bus_id),
        "software": provenance.software(job.binaries),
        "code": provenance.code(job.binaries),
        "slurm": slurm_facts(),
    }
    return write_result(Path(config.results_dir), fields, pd.concat(frames, ignore_index=True))


def _become_current(card: Card) -> CudaDevice:
    from cuda.core import Device as CudaDevice

    with naming("cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"):
        device = CudaDevice(card.index)
        device.set_current()
    return device


def _load_kernels(binaries: Path, card: Card, config: Config) -> dict[KernelName, Kernel]:
    """Kernels by name, loaded now rather than at the first launch, so that a misfit shows before any timing."""
    from cuda.core import ObjectCode

    try:
        with naming("cuLibraryLoadData", "cuLibraryGetKernel"):
            code = ObjectCode.from_fatbin((binaries / "graphs.fatbin").read_bytes(), name="graphs")
            kernels: dict[KernelName, Kernel] = {name: code.get_kernel(name) for name in config.kernels}
        for kernel in kernels.values():
            call("cuKernelGetFunction", kernel.handle)
    except OSError as error:
        raise LaunchbenchError(f"{error.filename}: {error.strerror}; `launchbench build` makes it") from error
    except DriverError as error:
        if error.code not in MISFIT_CODES:
            raise
        raise LaunchbenchError(f"{error}; {_misfit(error.code, binaries, card)}") from error
    return kernels


def _misfit(code: int, binaries: Path, card: Card) -> str:
    """Toolkit, driver and card where they do not fit, and what helps."""
    manifest = provenance.read_manifest(binaries)
    target = "sm_{}{}".format(*card.compute_capability)
    newest = driver_version()
    return (
        f"the binary was built by nvcc {manifest.nvcc.version} for {', '.join(manifest.architectures)} "
        f"and PTX of the newest, the driver runs CUDA up to {newest}, {card.name} is {target}: "
        + _cure(code, card, manifest, newest)
    )


def _cure(code: int, card: Card, manifest: provenance.Manifest, newest: str) -> str:
    target = "sm_{}{}".format(*card.compute_capability)
    older = f"install a newer driver, or build with an nvcc not newer than {newest}"
    nvcc, driver = (int(version.partition(".")[0]) for version in (manifest.nvcc.version, newest))
    if code == 803:
        return "restart the machine, as after an update of its driver"
    if code == 804:
        return "take the forward-compatibility libcuda out of the library path"
    if nvcc >= 13 and card.compute_capability < OLDEST_OF_CUDA_13:
        return f"CUDA 13 no longer knows {target}: add it to architectures and run `make report CUDA=12`"
    if nvcc > driver:
        return f"install a newer driver, or build with an nvcc of CUDA {driver} (on PATH or in CUDA_HOME)"
    if target not in (name.rstrip("af") for name in manifest.architectures):
        # Machine code of a newer toolkit runs within a series; only PTX does not.
        return f"add {target} to architectures" + ("" if code == 209 else f", {older}")
    if code == 209:
        return f"the code for {target} is not taken: run `launchbench build` again, or install a newer driver"
    return older


def _measure_block(
    job: Job,
    device: CudaDevice,
    stream: Stream,
    launch_path: LaunchPath,
    kernel: KernelName,
    function: Kernel,
    loops: NativeLoops,
    protocol: Protocol,
    session: nvml.Nvml,
) -> tuple[Block, pd.DataFrame]:
    count = job.launch_count
    subject = f"{job.label} N={count} {launch_path} {kernel}"
    started = datetime.now(UTC)
    before = session.state()
    with DeviceMemory(FLOAT_BYTES) as buffer:
        loop = make_loop(launch_path, kernel, function, loops, stream, buffer.address, count)
        counts = 1 if kernel == "tiny" else 0
        timing = time_block(device, stream, loop, counts, count, buffer.address, protocol, Progress(subject))
    after = session.state()
    frame = timing.frame(count, launch_path, kernel)
    medians = frame.groupby("mode")["gpu_us"].median()
    print(
        f"{subject}: loop {medians['loop']:.2f} us, "
        f"replay {medians['replay']:.2f} us, counted {timing.observed_count} of {timing.expected_count}",
        file=sys.stderr,
        flush=True,
    )
    block = Block(
        launch_path=launch_path,
        kernel=kernel,
        protocol_hash=protocol.block_hash(launch_path, kernel),
        expected_count=timing.expected_count,
        observed_count=timing.observed_count,
        warmup_rounds_run=timing.warmup_rounds_run,
        **vars(timing.one_off),
        buffer_address=f"{buffer.address:#x}",
        started_utc=utc_text(started),
        before=before,
        after=after,
    )
    if timing.observed_count != timing.expected_count:
        raise LaunchbenchError(
            f"{launch_path} {kernel} N={count}: the buffer counted {timing.observed_count} launches, "
            f"expected {timing.expected_count}: nothing was written"
        )
    used, reasons = flags.judge_block(frame)
    if not used:
        raise LaunchbenchError(
            f"{launch_path} {kernel} N={count}: no repetition can be used: {reasons}: nothing was written"
        )
    used, reasons = flags.judge_block(frame, flags.block_flag(block, protocol))
    if reasons:
        print(
            f"{subject}: warning: "
            f"{protocol.repetitions - used} of {protocol.repetitions} repetitions will not be used: {reasons}",
            file=sys.stderr,
            flush=True,
        )
    return block, frame


def describe_device(card: Card, session: nvml.Nvml) -> Device:
    """The card as CUDA and NVML describe it."""
    major, minor = card.compute_capability
    return Device(
        name=card.name,
        uuid=card.uuid,
        kind="mig" if card.is_mig else "gpu",
        pci_bus_id=card.pci_bus_id,
        compute_capability=f"{major}.{minor}",
        multiprocessors=card.multiprocessors,
        cuda_driver_version=driver_version(),
        virtual=card.is_virtual,
        **session.facts(),
    )
