"""What Snakemake has to do: the cells that this run may measure, and the results that are there already.

Light to import, since every job parses the Snakefile: no pandas, no CUDA, no NVML. Nothing here writes.

No file under the results folder is ever an output of a rule, so Snakemake never deletes one. A measure job's
output is a receipt under the build folder that names the record it filed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from launchbench.build.toolkit import toolkit_identity
from launchbench.config.messages import escaped, refusal, shown
from launchbench.config.model import SETTINGS_VARIABLE, Config
from launchbench.config.names import host_slug
from launchbench.config.slurm import SlurmRequest
from launchbench.errors import LaunchbenchError
from launchbench.programs import run
from launchbench.results.layout import LAUNCH, cell_of_name, find_files, job_kind
from launchbench.results.protocol import Protocol
from launchbench.series import broken_driver

CARDS_VARIABLE = "LAUNCHBENCH_VISIBLE_CARDS"
"""Set by the process that planned, read by the jobs it starts: one probe a run."""

PROBE_TIMEOUT_S = 120
PROBE_TIMEOUT_VARIABLE = "LAUNCHBENCH_PROBE_TIMEOUT_S"
"""Environment variable: how many seconds the driver has to answer, where ``PROBE_TIMEOUT_S`` is not right."""

NO_CARD = ("CUDA_ERROR_NO_DEVICE", "CUDA_ERROR_STUB_LIBRARY")
"""Answers of a machine that has nothing to measure; any other says that something is broken, and ends the run."""

WITHOUT_A_CARD = "`make report-cached` renders the report without asking the card"


@dataclass(frozen=True, order=True)
class Cell:
    """One job: a GPU type, one card of it (``any`` where the scheduler picks), N, and the number of the trial."""

    label: str
    card: str
    launch_count: int
    trial: int


def probe_cards(config: Config) -> list[tuple[str, str]]:
    """(label, card) of every GPU that CUDA shows here; empty without a driver or a visible GPU.

    The driver is asked in a process of its own, since it may hang or take long.

    Raises:
        LaunchbenchError: the probe failed in another way.
    """
    known = os.environ.get(CARDS_VARIABLE)
    if known is None:
        known = json.dumps(_probe(config))
        os.environ[CARDS_VARIABLE] = known
    try:
        return [(str(label), str(card)) for label, card in json.loads(known)]
    except (ValueError, TypeError):
        raise refusal(CARDS_VARIABLE, f"got {shown(known)}", "no such variable: launchbench sets it itself") from None


def _probe(config: Config) -> list[tuple[str, str]]:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        if broken := broken_driver():
            # As in images that were made beside a driver and run without one.
            print(escaped(f"launchbench: no driver is used: {broken}"), file=sys.stderr)
        return []
    command = [sys.executable, "-m", "launchbench", "probe"]
    environment = {**os.environ, SETTINGS_VARIABLE: config.model_dump_json()}
    timeout_s = probe_timeout_s()
    done = run(command, timeout_s, 0, env=environment, text=True, errors="replace")
    if done.exit_status is None:
        raise LaunchbenchError(f"the NVIDIA driver did not answer within {timeout_s} s; {WITHOUT_A_CARD}")
    if done.exit_status != 0:
        said = done.err.strip()
        if any(name in said for name in NO_CARD):
            print(said, file=sys.stderr)
            return []
        lines = [line.removeprefix("launchbench: ") for line in said.splitlines()]
        lines[-1:] = [f"{lines[-1] if lines else f'probe ended with status {done.exit_status}'}; {WITHOUT_A_CARD}"]
        raise LaunchbenchError("\n".join(lines))
    last = done.out.rstrip("\n").rpartition("\n")[2]  # a driver, or what the site starts Python with, may print too
    try:
        return [(card["label"], card["card"]) for card in json.loads(last)]
    except (ValueError, TypeError, KeyError):
        said = f"`launchbench probe` printed {shown(last)} instead of a list of cards"
        raise LaunchbenchError(f"{said}; {WITHOUT_A_CARD}") from None


def probe_timeout_s() -> int:
    """How many seconds the driver has to answer.

    Raises:
        LaunchbenchError: ``PROBE_TIMEOUT_VARIABLE`` is not a whole number of seconds.
    """
    given = os.environ.get(PROBE_TIMEOUT_VARIABLE)
    if given is None:
        return PROBE_TIMEOUT_S
    if not re.fullmatch("[1-9][0-9]{0,5}", given):
        raise refusal(PROBE_TIMEOUT_VARIABLE, f"got {shown(given)}", "a whole number of seconds")
    return int(given)


class Plan:
    """Cells, receipts and cached files for one configuration."""

    def __init__(self, config: Config, again: Callable[[], bool] = lambda: False) -> None:
        """For one run.

        Args:
            config: of that run.
            again: whether listed labels are measured although their results are there.
        """
        self.config = config
        self.again = again
        self.site = config.site or host_slug(platform.node())
        self.results = Path(config.results_dir)

    def cells(self) -> list[Cell]:
        """The cells that this run may measure, sorted.

        Raises:
            LaunchbenchError: the visible cards cannot be found out.
        """
        trials = range(1, self.config.trials + 1)
        each = product(self.cards(), self.config.launch_counts, trials)
        cells = sorted(Cell(label, card, count, trial) for (label, card), count, trial in each)
        return [cell for cell in cells if cell.card != "any" or self.again() or not self._is_stored(cell)]

    def cards(self) -> list[tuple[str, str]]:
        """(label, card) of what this run may measure; ``any`` card where a scheduler picks.

        Raises:
            LaunchbenchError: the visible cards cannot be found out.
        """
        if self.config.cards == "none":
            return []
        if self.config.cards == "listed":
            return [(label, "any") for label in self.config.slurm or self.config.gpus]
        return probe_cards(self.config)

    def requests(self, label: str) -> dict[str, str | int]:
        """What a job of this label asks a cluster for, by the names of Snakemake's plugin."""
        return self.config.slurm.get(label, SlurmRequest()).resources()

    def all_receipts(self) -> list[str]:
        """Receipts of all cells of this run."""
        return [self.receipt(cell) for cell in self.cells()]

    def receipt(self, cell: Cell) -> str:
        """Path of the receipt that says this cell has been measured.

        A receipt whose result is gone no longer counts: the number in the name is that of lost receipts, so
        the cell is measured again and the lost one stays as it is.
        """
        lost = sum(not self.is_kept(path) for path in self._receipts(cell))
        return str(self._folder(cell) / f"n{cell.launch_count}.t{cell.trial}.{lost}.json")

    def _folder(self, cell: Cell) -> Path:
        return Path(self.config.build_dir) / "cells" / self.site / cell.label / cell.card

    def _receipts(self, cell: Cell) -> Iterator[Path]:
        return self._folder(cell).glob(f"n{cell.launch_count}.t{cell.trial}.*.json")

    def _is_stored(self, cell: Cell) -> bool:
        """Whether a card of this label has a result of this trial and protocol, and no receipt says whose.

        What is measured in a queue is measured once: results count also in a fresh clone, or after the build
        folder was deleted. With a receipt the cell stays one of this run, and Snakemake judges it.
        """
        if any(self.is_kept(path) for path in self._receipts(cell)):
            return False
        wanted = json.loads(self.protocol())
        folder = self.results / self.site / cell.label
        found = folder.glob(f"*/n{cell.launch_count:07d}-*.json")
        return any(
            cell_of_name(path.name) == (cell.launch_count, cell.trial) and _is_result(path, wanted) for path in found
        )

    def is_kept(self, receipt: Path) -> bool:
        """Whether a receipt can be read and all files that it names are there in full."""
        try:
            if not receipt.is_file():  # reading a pipe would never end
                return False
            sizes = json.loads(receipt.read_bytes())["size_bytes"]
            kept = [(self.results / name).stat().st_size == size for name, size in sizes.items()]
            return bool(kept) and all(kept)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return False

    def cached(self) -> str:
        """Identity of the launch results that no cell of this run can add to: the same before and after the run.

        Over names, sizes and times, so that a file that is added, removed or edited shows. They are no inputs
        of a rule: git gives a clone's files any time, also one in the future, and there may be thousands.
        """
        own = set(self.cells())
        unread: list[tuple[Path, str]] = []
        found = [path for path in find_files(self.results, unread) if job_kind(path) == LAUNCH]
        others = [path for path in found if not self._belongs(path, own)]
        return self.identity([*others, *(folder for folder, _ in unread)])

    def identity(self, paths: Iterable[Path]) -> str:
        """Identity of files of the results, over names, sizes and times."""
        identity = hashlib.sha256()
        for path in paths:
            status = path.lstat()  # a link may lead nowhere
            line = f"{path.relative_to(self.results)} {status.st_size} {status.st_mtime_ns}\n"
            identity.update(os.fsencode(line))
        return identity.hexdigest()[:16]

    def _belongs(self, path: Path, own: set[Cell]) -> bool:
        site, label, card = path.parts[-4:-1]
        numbers = cell_of_name(path.name)
        if site != self.site or numbers is None:
            return False
        return any(Cell(label, name, *numbers) in own for name in (card, "any"))

    def protocol(self) -> str:
        """What decides a measurement, as text: a change measures again, any other setting does not."""
        shared = Protocol(**self.config.model_dump(include=set(Protocol.model_fields) - {"version"}))
        chosen = {"launch_paths": self.config.launch_paths, "kernels": self.config.kernels}
        return json.dumps({**shared.model_dump(exclude_none=True), **chosen}, sort_keys=True)

    def compared(self) -> str:
        """What decides which gaps the tables name, as text."""
        return json.dumps({"gpus": list(self.config.gpus), "launch_counts": self.config.launch_counts})

    def nvcc_identity(self) -> str:
        """The compiler that a build would use, such as ``nvcc 13.0.88``; the same before and after fetching it."""
        return toolkit_identity(Path(self.config.build_dir) / "nvcc", Path("requirements-nvcc.lock"))


def _is_result(record: Path, wanted: dict[str, Any]) -> bool:
    """Whether a record and its CSV are whole and hold every block of the wanted protocol."""
    try:
        if not record.is_file():
            return False
        told = json.loads(record.read_bytes())
        blocks = {(block["launch_path"], block["kernel"]) for block in told["blocks"]}
        # A field that is not there is null: what records of placements alone have.
        same = all(told["protocol"].get(name) == wanted.get(name) for name in Protocol.model_fields)
        paths, kernels = told.get("paths_not_measured", {}), told.get("kernels_not_measured", {})
        complete = all(
            (path, kernel) in blocks or path in paths or kernel in kernels.get(path, {})
            for path, kernel in product(wanted["launch_paths"], wanted["kernels"])
        )
        return same and complete and record.with_suffix(".csv").stat().st_size == told["raw"]["size_bytes"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
