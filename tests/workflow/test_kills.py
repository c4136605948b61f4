"""A workflow that is killed, has no disk, may not write or runs twice: nothing is lost, nothing half is accepted."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from launchbench.measure.lock import card_lock
from launchbench.results.files import read_results
from tests.virtual_gpu import T4, Fault, VirtualGpu
from tests.workflow.conftest import SHORT, TABLES, Clone, Run
from tests.workflow.forked import Running, kill_group
from tests.workflow.test_virtual_workflow import RESULTS, new_clone

COUNTS = [8, 64]
CHAINS, KILLS = 2, 20


@pytest.fixture(scope="module")
def pristine(
    virtual_gpu: VirtualGpu, binaries: Path, nvcc_wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Clone:
    """A clone with the products of the build, one card and two N, of which nothing is measured."""
    environment = virtual_gpu.environment([T4], modelled_clock=True)
    clone = new_clone(tmp_path_factory.mktemp("pristine") / "a clone", environment, nvcc_wheels, launch_counts=COUNTS)
    shutil.copytree(binaries, clone.path / "build" / "cuda", copy_function=shutil.copy)
    return clone


@pytest.fixture
def clone(pristine: Clone, tmp_path: Path) -> Clone:
    return pristine.copy(tmp_path / "a clone")


@pytest.fixture(scope="module")
def duration_s(pristine: Clone, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], float]:
    """About how long a run takes, up to the tables and up to the page."""
    clone = pristine.copy(tmp_path_factory.mktemp("timed") / "a clone")
    began = time.monotonic()
    assert clone.snakemake(*TABLES).status == 0
    tables = time.monotonic() - began
    assert clone.snakemake().status == 0
    return {TABLES: tables, (): time.monotonic() - began - 0.5}


def group_is_gone(process: Running, within_s: float = 10) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def recover(clone: Clone, *arguments: str) -> Run:
    """What README.md says: run it again; where it says that the folder is locked, unlock it first."""
    run = clone.snakemake(*arguments)
    if run.status and "--unlock" in run.text:
        assert clone.snakemake("--unlock").status == 0
        run = clone.snakemake(*arguments)
    return run


def check_whole(clone: Clone, kept: dict[str, str], repetitions: int = SHORT["repetitions"]) -> None:
    """Every cell has a complete result, what was complete before is unchanged, and nothing else is in the tables."""
    results, problems = read_results(clone.path / RESULTS)
    assert clone.results(RESULTS).items() >= kept.items()
    newest = [result.record for result in results if result.record.protocol.repetitions == repetitions]
    assert {record.launch_count for record in newest} == set(COUNTS)
    # A CSV that was written by a job which was killed before it wrote its record: told, not used.
    orphan = "no record beside it; the job was interrupted or the record removed"
    assert {problem.reason for problem in problems} <= {orphan}
    trials = pd.read_csv(clone.path / "build" / "tables" / "trials.csv")
    assert set(trials["run_id"]) == {result.record.run_id for result in results}
    assert set(trials["repetitions_flagged"]) == {0}
    assert set(trials[~trials["superseded"]]["launch_count"]) == set(COUNTS)


def complete(clone: Clone) -> dict[str, str]:
    """The files of complete results, with their checksums."""
    results, _ = read_results(clone.path / RESULTS)
    stems = {result.path.stem for result in results}
    return {name: digest for name, digest in clone.results(RESULTS).items() if Path(name).stem in stems}


@pytest.mark.parametrize("seed", range(CHAINS))
def test_killed_at_random_moments(clone: Clone, duration_s: dict[tuple[str, ...], float], seed: int) -> None:
    """Each run is the recovery from the kill before; the last one is left alone."""
    generator = random.Random(seed)
    repetitions = SHORT["repetitions"]
    kept: dict[str, str] = {}
    for number in range(KILLS // CHAINS):
        arguments = () if number % 5 == 1 else TABLES  # sometimes the page too
        with clone.start(*arguments) as process:
            time.sleep(generator.uniform(0.1, duration_s[arguments]))
            kill_group(process.pid)
            text = process.communicate()
            assert group_is_gone(process)
        assert clone.results(RESULTS).items() >= kept.items()
        kept = complete(clone)
        if process.returncode == 0:  # it was faster: another protocol gives the next one as much to do
            repetitions += 1
            clone.configure(repetitions=repetitions)
        elif any((clone.path / ".snakemake" / "locks").glob("*")):
            assert clone.snakemake("--unlock").status == 0
        else:
            assert process.returncode == -signal.SIGKILL, text
    run = recover(clone, *TABLES)
    assert run.status == 0, run.text
    assert "Traceback" not in run.text
    check_whole(clone, kept, repetitions)
    assert clone.snakemake(*TABLES).started("measure") == 0


def test_killed_while_it_measures(clone: Clone, virtual_gpu: VirtualGpu) -> None:
    hanging = virtual_gpu.environment([T4], [Fault("cuMemFree", hang=True)], modelled_clock=True)
    with Clone(clone.path, hanging).start(*TABLES) as process:
        while "measure t4" not in (line := process.stdout.readline()):
            assert line
        time.sleep(1)
        kill_group(process.pid)
        process.communicate()
        assert group_is_gone(process)
    assert clone.results(RESULTS) == {}
    refused = clone.snakemake(*TABLES)
    assert refused.status != 0 and "--unlock" in refused.text
    assert recover(clone, *TABLES).status == 0
    check_whole(clone, {})


@pytest.mark.parametrize("when", ["receipt written", "record not written"])
def test_killed_between_two_files(clone: Clone, when: str) -> None:
    """States that a kill leaves at moments which are too short to hit."""
    assert clone.snakemake(*TABLES).status == 0
    if when == "receipt written":
        # Snakemake notes what it has begun, and did not come to note that it is done.
        (receipt,) = (clone.path / "build" / "cells").rglob("n8.t1.0.json")
        mark_incomplete(clone, receipt)
        kept = complete(clone)
    else:
        (record,) = (clone.path / RESULTS).rglob("n0000008-*.json")
        record.unlink()
        for receipt in (clone.path / "build" / "cells").rglob("n8.t1.0.json"):
            receipt.unlink()
        shutil.rmtree(clone.path / "build" / "tables")
        kept = complete(clone)
        assert len(kept) == 2
    run = recover(clone, *TABLES)
    assert run.status == 0, run.text
    check_whole(clone, kept)


def test_measuring_anew_goes_on_after_it_was_interrupted(clone: Clone, virtual_gpu: VirtualGpu) -> None:
    """The tables of the time before are there and complete; they must not hide that something is still to do."""
    assert clone.snakemake(*TABLES).status == 0
    kept = complete(clone)
    clone.configure(repetitions=13)
    failing = virtual_gpu.environment([T4], [Fault("cuMemAlloc", 2)], modelled_clock=True)
    assert Clone(clone.path, failing).snakemake(*TABLES, "--no-hooks").status != 0  # without the page of what worked
    run = clone.snakemake(*TABLES)
    assert (run.status, run.started("measure")) == (0, len(COUNTS)), run.text
    assert complete(clone).items() > kept.items()
    summary = pd.read_csv(clone.path / "build" / "tables" / "summary.csv")
    places = (SHORT["placements"], SHORT["full_placements"])
    assert set(summary["repetitions_used"]) == {many * few for many in (13, SHORT["repetitions"]) for few in places}


def mark_incomplete(clone: Clone, path: Path) -> None:
    """As Snakemake does before it starts a job."""
    import base64

    name = base64.b64encode(str(path.relative_to(clone.path)).encode()).decode()
    folder = clone.path / ".snakemake" / "incomplete"
    folder.mkdir(exist_ok=True)
    (folder / name).touch()


# ---------------------------------------------------------------- disks


@pytest.fixture
def small_disk(clone: Clone) -> Iterator[Callable[[str], None]]:
    """A disk of its own under the results folder; called with mount options, it is mounted anew with them."""
    folder = clone.path / RESULTS
    folder.mkdir()

    def mount(options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "launchbench-test", str(folder)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no mount on this machine")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"mounting a small disk is not permitted: {error.stderr.strip()}")

    yield mount
    with contextlib.suppress(OSError):
        subprocess.run(["umount", str(folder)], capture_output=True)


def test_a_full_disk(clone: Clone, small_disk: Callable[[str], None]) -> None:
    small_disk("size=64k")
    results = clone.path / RESULTS
    (results / "filler").write_bytes(b"x" * 36_000)
    run = clone.snakemake(*TABLES)
    assert run.status != 0
    assert len(set(run.said)) >= 1
    assert all(line.endswith("cannot be written: No space left on device") for line in run.said), run.said
    assert "Traceback" not in run.text
    kept = complete(clone)
    assert set(clone.results(RESULTS)) == set(kept) | {"filler"}  # neither half a result nor a temporary file
    (results / "filler").unlink()
    small_disk("remount,size=4m")
    assert recover(clone, *TABLES).status == 0
    check_whole(clone, kept)


def test_a_results_folder_that_is_read_only(clone: Clone, small_disk: Callable[[str], None]) -> None:
    small_disk("size=4m")
    assert clone.snakemake(*TABLES).status == 0
    kept = clone.results(RESULTS)
    small_disk("remount,ro")
    clone.configure(launch_counts=[*COUNTS, 512])
    run = clone.snakemake(*TABLES)
    assert run.status != 0
    assert len(set(run.said)) == 1
    assert run.said[0].endswith("cannot be written: Read-only file system; expected a folder to write to")
    assert "Traceback" not in run.text
    # What is there can still be rendered.
    assert clone.snakemake(*TABLES, "--config", "cards=none").status == 0
    assert clone.results(RESULTS) == kept


# ---------------------------------------------------------------- twice


def test_two_workflows_in_one_folder(clone: Clone, virtual_gpu: VirtualGpu) -> None:
    card = dataclasses.replace(T4, uuid="GPU-20c40000-1111-2222-3333-" + os.urandom(6).hex())
    clone = Clone(clone.path, virtual_gpu.environment([card], modelled_clock=True))
    assert card.uuid
    with clone.start(*TABLES) as first:
        with card_lock(card.uuid, folder=virtual_gpu.locks):
            while "waiting for another measurement" not in (line := first.stdout.readline()):
                assert line
            second = clone.snakemake(*TABLES)
            assert second.status != 0
            assert "LockException" in second.text and "--unlock" in second.text
            assert clone.results(RESULTS) == {}
        text = first.communicate()
    assert first.returncode == 0, text
    check_whole(clone, {})
