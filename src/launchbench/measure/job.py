"""One measurement job: one GPU, one N, one trial, every configured launch path and kernel; one CSV and one record."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from launchbench.config.messages import escaped
from launchbench.config.model import Config
from launchbench.errors import LaunchbenchError
from launchbench.measure import nvml, provenance
from launchbench.measure.blocks import Bench, measure_block
from launchbench.measure.cards import Card, choose, told_if_simulated, visible_cards
from launchbench.measure.driver import OUT_OF_MEMORY, DeviceMemory, DriverError, call, driver_version, naming
from launchbench.measure.host import cpu_cores, host_facts, slurm_facts
from launchbench.measure.kernels import become_current, load_kernels
from launchbench.measure.lock import card_lock, core_lock
from launchbench.measure.modes import kernels_of
from launchbench.measure.native import NativeLoops
from launchbench.measure.paths.adapter import Ground, MakeLoop
from launchbench.measure.paths.gaps import PathGaps
from launchbench.measure.paths.prepare import prepare, stating
from launchbench.results.files import new_run_id, write_result, write_size_receipt
from launchbench.results.protocol import LaunchPath, Protocol
from launchbench.results.record import Block, Device, utc_text

_JUDGED = {
    "throttle_reasons": "whether the clock was throttled",
    "other_processes": "whether another process was on the card",
}
"""What repetitions are left out for, by the field of a state that tells it."""

SEED_BITS = 53
"""As many as every reader of JSON keeps of a whole number."""


@dataclass(frozen=True)
class Job:
    """What to measure and where it goes.

    Attributes:
        label: GPU type that is asked for.
        card: short UUID of one certain card, or None for any of that type.
        launch_count: N.
        site: folder under the results.
        binaries: folder with the products of ``launchbench build``.
        trial: number of this fresh process among those of its cell, from 1.
    """

    label: str
    card: str | None
    launch_count: int
    site: str
    binaries: Path
    trial: int = 1


def protocol_of(config: Config) -> Protocol:
    """The part of the configuration that decides how a block is timed."""
    return Protocol(**config.model_dump(include=set(Protocol.model_fields) - {"version"}))


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
    with (
        told_if_simulated(card),
        card_lock(card.uuid),
        core_lock(cpu_cores()),
        nvml.session(card.uuid) as session,
    ):
        return _measure(job, config, card, session)


def load_on(card: Card, binaries: Path, config: Config) -> None:
    """Load the kernels on a card and measure nothing.

    Raises:
        LaunchbenchError: the driver does not take them, says why and what helps; or a CUDA call failed.
    """
    become_current(card)
    load_kernels(binaries, card, kernels_of(config.launch_paths, config.kernels))


def write_receipt(receipt: Path, record: Path, results_dir: Path) -> None:
    """Say that a cell has been measured.

    Args:
        receipt: the file that Snakemake waits for.
        record: path of the record that was filed.
        results_dir: root of the results; the receipt names record and CSV relative to it, with their sizes.

    Raises:
        LaunchbenchError: the receipt cannot be written.
    """
    write_size_receipt(receipt, (record, record.with_suffix(".csv")), results_dir)


def _measure(job: Job, config: Config, card: Card, session: nvml.Nvml) -> Path:
    begun_ns = time.perf_counter_ns()
    started = datetime.now(UTC)
    strangers = strangers_on(card, session, job.label, config)
    device = become_current(card)
    with naming("cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority"):
        stream = device.create_stream()
    session.learn_own_pid(strangers)
    kernels = load_kernels(job.binaries, card, kernels_of(config.launch_paths, config.kernels))
    protocol = protocol_of(config)
    seed = secrets.randbits(SEED_BITS)
    subject = f"{job.label} N={job.launch_count} trial {job.trial}"

    attempts: list[tuple[Block, pd.DataFrame]] = []
    gaps, frameworks, thorough = PathGaps(), dict[str, str](), _thorough_path(config)
    with _pool(config.pool_mib) as pool:
        make_loops: dict[str, MakeLoop] = {}
        bench = Bench(
            subject=subject,
            launch_count=job.launch_count,
            capability=card.compute_capability,
            device=device,
            stream=stream,
            kernels=kernels,
            loops=NativeLoops(job.binaries / "liblaunchloops.so"),
            protocol=protocol,
            session=session,
            pool=pool,
            rng=np.random.default_rng(seed),
            make_loops=make_loops,
            strangers=frozenset(strangers),
        )
        ground = Ground(device.device_id, int(stream.handle), job.binaries / "graphs.fatbin")
        for launch_path in config.launch_paths:
            prepared = prepare(launch_path, config.kernels, ground, stream, pool.address)
            reasons = dict(prepared.reasons)
            if prepared.make_loop:
                make_loops[launch_path] = prepared.make_loop
            for kernel in (kernel for kernel in config.kernels if kernel not in prepared.reasons):
                frameworks |= prepared.versions
                everywhere = (launch_path, kernel) == (thorough or launch_path, "tiny")
                placements = config.placements if everywhere else config.full_placements
                with stating(launch_path, kernel, reasons, stream):
                    attempts += measure_block(bench, launch_path, kernel, placements, config.full_placements)
                    thorough = launch_path if everywhere else thorough
            gaps.add(launch_path, reasons, config.kernels, subject)
    if not attempts:
        raise LaunchbenchError(f"none of the launch paths can be measured here: {gaps.told()}")
    if unknown := untold(block for block, _ in attempts):
        print(f"{subject}: warning: {unknown}", file=sys.stderr, flush=True)
    call("cuCtxSynchronize")  # whatever went wrong on the device and was not noticed yet, before anything is filed
    raw = pd.concat([frame for _, frame in attempts], ignore_index=True)
    fields: dict[str, Any] = {
        "run_id": new_run_id(job.launch_count, card.id, started, job.trial),
        "site": job.site,
        "label": job.label,
        "launch_count": job.launch_count,
        "trial": job.trial,
        "seed": seed,
        "started_utc": utc_text(started),
        "finished_utc": utc_text(datetime.now(UTC)),
        "protocol": protocol,
        "blocks": [block for block, _ in attempts],
        "paths_not_measured": gaps.paths,
        "kernels_not_measured": gaps.kernels,
        "frameworks": frameworks,
        "device": describe_device(card, session),
        "host": host_facts(card.pci_bus_id),
        "software": provenance.software(job.binaries),
        "code": provenance.code(job.binaries),
        "slurm": slurm_facts(),
    }
    record = write_result(Path(config.results_dir), fields, raw)
    held_s, timed_s = (time.perf_counter_ns() - begun_ns) / 1e9, raw["total_us"].sum() / 1e6
    share = f"{timed_s:.1f} s of them ({100 * timed_s / held_s:.0f} %) inside timed intervals"
    print(f"{subject}: held the card for {held_s:.1f} s, {share}", file=sys.stderr, flush=True)
    return record


def untold(blocks: Iterable[Block]) -> str:
    """What nothing was flagged for because NVML did not tell it before or after some block; empty where it told all."""
    reasons: dict[str, str] = {}
    for state in (state for block in blocks for state in (block.before, block.after)):
        for field, words in _JUDGED.items():
            if getattr(state, field) is None:
                reasons.setdefault(words, state.unavailable.get(field, "no reason given"))
    told = ", ".join(f"{words} ({reason})" for words, reason in reasons.items())
    return f"not known, so that nothing is left out for it: {told}" if told else ""


def _thorough_path(config: Config) -> LaunchPath | None:
    """The native launch path that ``tiny`` is timed on at all placements; where there is none, the first that runs."""
    return next((path for path in config.launch_paths if path.startswith("native-")), None)


def _pool(pool_mib: int) -> DeviceMemory:
    try:
        return DeviceMemory(pool_mib << 20)
    except DriverError as error:
        if error.code != OUT_OF_MEMORY:
            raise
        expected = "no more MiB than the card has free"
        raise LaunchbenchError(f"pool_mib: got {pool_mib}; expected {expected}: {error}") from error


def strangers_on(card: Card, session: nvml.Nvml, label: str, config: Config) -> set[int]:
    """Processes on the card before this one comes to it.

    Raises:
        LaunchbenchError: there are any where the scheduler was asked for a card of its own; elsewhere company is only
            flagged.
    """
    strangers = session.pids()
    if strangers and config.cards == "listed":
        found = f"{card.name} (card {card.id}) with the processes {', '.join(map(str, sorted(strangers)[:5]))} on it"
        raise LaunchbenchError(escaped(f"asked to measure {label} alone; found {found}: nothing was measured"))
    return strangers


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
