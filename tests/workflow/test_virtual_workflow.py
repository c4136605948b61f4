"""The whole workflow on virtual cards: real nvcc, real Snakemake, real cuda-python, and a known truth to find.

Tolerance of every comparison with the cost model: 1 %. The cards have 0.3 % of noise with a fixed seed, events and
clocks are rounded to less than 0.1 %, and the page shows three digits, so at worst another 0.5 %.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from launchbench.measure.lock import card_lock
from launchbench.results.files import read_results
from launchbench.workflow.plan import WITHOUT_A_CARD
from tests.unit.fabricate import write_sweep
from tests.unit.test_report import Page
from tests.virtual_gpu import A100, H100, T4, Card, Fault, VirtualGpu
from tests.workflow.conftest import SHORT, TABLES, Clone, clone_into

COUNTS = (8, 64, 512, 4096)
RESULTS = "simulated"
TOLERANCE = 0.01
# CUDA counts the H100 first, NVML the T4. On neither does it matter where the buffer lies.
CARDS = {
    "h100": dataclasses.replace(H100, noise=0.003, levels_us=(0.25,), pci="00000000:81:00.0"),
    "t4": dataclasses.replace(T4, noise=0.003, pci="00000000:04:00.0"),
}


def git(clone: Clone, *arguments: str) -> None:
    command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *arguments]
    subprocess.run(command, cwd=clone.path, check=True, capture_output=True)


def new_clone(path: Path, environment: Mapping[str, str], wheels: Path, **settings: Any) -> Clone:
    """A clone whose configuration allows simulated results, in a folder of their own."""
    clone = clone_into(path, environment)
    clone.configure(**{"site": "lab", "virtual_results": "allow", "results_dir": RESULTS, **SHORT, **settings})
    if wheels.exists():  # what `launchbench build` has fetched where no nvcc is on the machine
        (clone.path / "build").mkdir()
        (clone.path / "build" / "nvcc").symlink_to(wheels)
    return clone


@pytest.fixture(scope="module")
def measured(
    virtual_gpu: VirtualGpu, binaries: Path, nvcc_wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Clone:
    """A clone in which two cards were measured at four N, with four cores. No test may change it."""
    assert binaries.exists()
    environment = virtual_gpu.environment(list(CARDS.values()), modelled_clock=True)
    clone = new_clone(tmp_path_factory.mktemp("measured") / "a clone", environment, nvcc_wheels)
    git(clone, "init", "-q")
    git(clone, "add", "config.yaml")
    git(clone, "commit", "-qm", "A clone")
    run = clone.snakemake(cores=4, anew=True)  # as users do
    assert run.status == 0, run.text
    assert {rule: run.started(rule) for rule in ("build", "measure", "aggregate", "report")} == {
        "build": 1,
        "measure": 8,
        "aggregate": 1,
        "report": 1,
    }
    return clone


@pytest.fixture
def copied(measured: Clone, tmp_path: Path) -> Clone:
    """A copy of it for one test."""
    return measured.copy(tmp_path / "a copy")


@pytest.fixture
def built(virtual_gpu: VirtualGpu, binaries: Path, nvcc_wheels: Path, tmp_path: Path) -> Callable[..., Clone]:
    """Makes clones with the products of the build, and nothing measured: (cards, faults, name, **settings)."""

    def make(cards: list[Card], faults: list[Fault] | None = None, name: str = "a clone", **settings: Any) -> Clone:
        environment = virtual_gpu.environment(cards, faults or [], modelled_clock=True)
        clone = new_clone(tmp_path / name, environment, nvcc_wheels, **settings)
        shutil.copytree(binaries, clone.path / "build" / "cuda", copy_function=shutil.copy)
        return clone

    return make


# ---------------------------------------------------------------- the numbers


@dataclasses.dataclass(frozen=True)
class Truth:
    """What the cost model says of one block, wherever its buffer lies."""

    card: Card
    kernel: str
    python: bool

    def loop_us(self, n: int) -> float:
        return self.card.loop_us(n, self.kernel, python=self.python)

    def replay_us(self, n: int) -> float:
        return self.card.replay_us(n, self.kernel)

    def slope(self, mode: str) -> float:
        time = self.loop_us if mode == "loop" else self.replay_us
        return (time(COUNTS[-1]) - time(COUNTS[0])) / (COUNTS[-1] - COUNTS[0])

    def fixed(self, mode: str) -> float:
        time = self.loop_us if mode == "loop" else self.replay_us
        return time(COUNTS[0]) - COUNTS[0] * self.slope(mode)

    def break_even(self, n: int) -> float:
        saved = self.card.loop_total_us(n, self.kernel, python=self.python)
        saved -= self.card.replay_total_us(n, self.kernel)
        return sum(self.card.once_us(n)) / saved


@pytest.fixture(scope="module")
def truths(measured: Clone) -> dict[tuple[str, str, str], Truth]:
    """(label, launch path, kernel) -> truth."""
    results, problems = read_results(measured.path / RESULTS)
    assert not problems
    found = {}
    for record in (result.record for result in results):
        for block in record.blocks:
            key = (record.label, block.launch_path, block.kernel)
            found[key] = Truth(CARDS[record.label], block.kernel, block.launch_path == "cuda-python")
    assert len(found) == 8
    return found


def close(value: float) -> Any:
    return pytest.approx(value, rel=TOLERANCE)


def is_break_even(found: float, truth: float) -> bool:
    """Whole replays, rounded up; a truth that lies on a whole number may be rounded either way."""
    return math.ceil(truth * (1 - TOLERANCE)) <= found <= math.ceil(truth * (1 + TOLERANCE))


def test_the_summary_tells_the_truth(measured: Clone, truths: dict[tuple[str, str, str], Truth]) -> None:
    summary = pd.read_csv(measured.path / "build" / "tables" / "summary.csv")
    assert len(summary) == 2 * len(COUNTS) * 4
    assert summary["virtual"].all()
    for row in summary.to_dict("records"):
        truth, n = truths[row["label"], row["launch_path"], row["kernel"]], row["launch_count"]
        places = "placements" if (row["launch_path"], row["kernel"]) == ("native-driver", "tiny") else "full_placements"
        used = SHORT[places] * SHORT["repetitions"]
        assert (row["repetitions_used"], row["repetitions_flagged"]) == (used, 0)
        assert row["loop_us"] == close(truth.loop_us(n))
        assert row["replay_us"] == close(truth.replay_us(n))
        assert row["loop_us_per_launch"] == close(truth.loop_us(n) / n)
        assert row["replay_us_per_node"] == close(truth.replay_us(n) / n)
        assert row["speedup"] == close(truth.loop_us(n) / truth.replay_us(n))
        assert pd.isna(row["speedup_low"]) and pd.isna(row["speedup_high"]), "one trial says nothing of the next"
        once = (row["capture_us"], row["instantiate_us"], row["upload_us"])
        assert once == tuple(map(close, truth.card.once_us(n)))
        assert is_break_even(row["break_even_replays"], truth.break_even(n))
    assert len(set(summary["break_even_replays"])) > 3  # else the comparison says little


def test_the_lines_tell_the_truth(measured: Clone, truths: dict[tuple[str, str, str], Truth]) -> None:
    fits = pd.read_csv(measured.path / "build" / "tables" / "fits.csv")
    assert len(fits) == 2 * 4 * 2
    for row in fits.to_dict("records"):
        truth = truths[row["label"], row["launch_path"], row["kernel"]]
        assert row["points"] == len(COUNTS)
        assert row["per_launch_us"] == close(truth.slope(row["mode"]))
        # The part that is left at N = 0, as exact as the time at the smallest N lets it be.
        smallest = COUNTS[0] * truth.slope(row["mode"]) + truth.fixed(row["mode"])
        assert row["fixed_us"] == pytest.approx(truth.fixed(row["mode"]), abs=TOLERANCE * smallest)
        assert row["verdict"].startswith("straight line")


def test_the_page_tells_the_truth(measured: Clone, truths: dict[tuple[str, str, str], Truth]) -> None:
    page = Page(measured.page)
    number = r"([\d.]+)(?: \[[^]]*\])?"
    pattern = (
        rf"(\w+) \(simulated\): at N = 512 a stream launch from a (native|Python) loop of \S+ costs {number} µs on "
        rf"this host, a replay {number} µs per node; the graph is {number} times as fast as the loop"
    )
    said = re.findall(pattern, page.text)
    assert len(said) == 4
    for label, who, per_launch, per_node, speedup in said:
        truth = truths[label, "native-driver" if who == "native" else "cuda-python", "tiny"]
        assert float(per_launch) == pytest.approx(truth.loop_us(512) / 512, rel=2 * TOLERANCE)
        assert float(per_node) == pytest.approx(truth.replay_us(512) / 512, rel=2 * TOLERANCE)
        assert float(speedup) == pytest.approx(truth.loop_us(512) / truth.replay_us(512), rel=2 * TOLERANCE)
    rows = [row for row in page.tables["summary"] if len(row) > 10 and row[1] in ("native-driver", "cuda-python")]
    assert len(rows) == 2 * len(COUNTS) * 4
    for row in rows:
        (label,) = (label for label in CARDS if row[0].startswith(label))
        truth, n = truths[label, row[1], row[2].split()[0]], int(row[3].replace(",", ""))
        told = [float(row[column].split(" ")[0].replace(",", "")) for column in (5, 9, 12)]
        asked = (truth.loop_us(n) / n, truth.replay_us(n) / n, truth.loop_us(n) / truth.replay_us(n))
        assert told == [pytest.approx(value, rel=2 * TOLERANCE) for value in asked]
    paid = r"(\w+) \(simulated\): at N = 512 .*? from a (native|Python) loop.*? are paid for: (.*?)\."
    told_paid = re.findall(paid, page.text)
    assert len(told_paid) == 4
    for label, who, what in told_paid:
        truth = truths[label, "native-driver" if who == "native" else "cuda-python", "tiny"]
        replays = {int(n.replace(",", "")): float(found) for found, n in re.findall(r"(\d+) at N = ([\d,]+)", what)}
        assert list(replays) == list(COUNTS)
        assert all(is_break_even(found, truth.break_even(n)) for n, found in replays.items())


def test_the_page_has_an_unmissable_banner(measured: Clone) -> None:
    page = Page(measured.page)
    banners = [attributes for attributes in page.all("p") if attributes.get("role") == "alert"]
    assert [banner["class"] for banner in banners] == ["alarm"]
    assert page.text.index("SIMULATED GPU: some or all figures on this page") < page.text.index("Short answer")
    assert "h100 (simulated)" in page.text and "t4 (simulated)" in page.text
    gaps = pd.read_csv(measured.path / "build" / "tables" / "gaps.csv")
    simulated = gaps[gaps["label"].isin(CARDS)]
    assert set(simulated["reason"]) == {"not measured yet: only a simulated GPU has results under this label"}


def test_records_say_what_was_measured(measured: Clone) -> None:
    results, _ = read_results(measured.path / RESULTS)
    for record in (result.record for result in results):
        card = CARDS[record.label]
        assert record.device.virtual
        assert record.device.name == card.name
        # By NVML, which counts the cards the other way round.
        assert record.device.memory_total_bytes == int(card.memory_mb) << 20
        for block in record.blocks:
            assert block.before.other_processes == block.after.other_processes == []


def test_one_measurement_at_a_time_with_four_cores(measured: Clone) -> None:
    results, _ = read_results(measured.path / RESULTS)
    spans = sorted((result.record.started_utc, result.record.finished_utc) for result in results)
    assert len(spans) == 8
    moments = [datetime.fromisoformat(moment) for span in spans for moment in span]
    assert moments == sorted(moments)


def test_every_rule_has_a_log_of_its_own(measured: Clone) -> None:
    logs = measured.path / "build" / "logs"
    assert {path.name for path in logs.glob("*.log")} == {"build.log", "aggregate.log", "report.log"}
    of_jobs = sorted((logs / "measure").rglob("*.log"))
    assert len(of_jobs) == 8
    for log in of_jobs:
        said = log.read_text(encoding="utf-8")
        assert "cuda-python empty: loop" in said  # standard error
        assert re.search(rf"^{RESULTS}/lab/\S+\.json$", said, re.MULTILINE)  # standard output


# ---------------------------------------------------------------- again


def test_a_second_run_has_nothing_to_do(measured: Clone) -> None:
    before = measured.results(RESULTS)
    assert "Nothing to be done" in measured.snakemake(cores=4, PYTHONHASHSEED="1", SLURM_JOB_ID="77").text
    git(measured, "commit", "-q", "--allow-empty", "-m", "Nothing")
    assert "Nothing to be done" in measured.snakemake(PYTHONHASHSEED="2", TMPDIR=str(measured.path)).text
    assert measured.results(RESULTS) == before


EVERYTHING = {"build", "measure", "aggregate", "report"}
MEASURING = EVERYTHING - {"build"}


def append(clone: Clone, name: str, text: str) -> None:
    with (clone.path / name).open("a") as file:
        file.write(text)


def touch_all(clone: Clone) -> None:
    for path in clone.path.rglob("*"):
        if ".snakemake" not in path.parts and ".git" not in path.parts and path.is_file():
            os.utime(path)


def date_in_the_future(clone: Clone) -> None:
    for path in (clone.path / "src").rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() + 90_000, time.time() + 90_000))


@pytest.mark.parametrize(
    ("change", "planned"),
    [
        (touch_all, set()),
        (date_in_the_future, set()),
        (lambda clone: append(clone, "src/launchbench/config/names.py", "# nothing\n"), set()),
        (lambda clone: append(clone, "src/launchbench/measure/host.py", "# nothing\n"), set()),
        (lambda clone: append(clone, "config.yaml", "# nothing\n"), set()),
        (lambda clone: append(clone, "README.md", "nothing\n"), set()),
        (
            lambda clone: clone.configure(gpus={"l4": {"name": "L4", "compute_capability": "8.9"}, **gpus(clone)}),
            {"aggregate", "report"},
        ),
        (lambda clone: append(clone, "src/launchbench/report/figures.py", "# changed\n"), {"report"}),
        (lambda clone: append(clone, "src/launchbench/aggregate/stats.py", "# changed\n"), {"aggregate", "report"}),
        (lambda clone: append(clone, "src/launchbench/measure/timing.py", "# changed\n"), MEASURING),
        (lambda clone: clone.configure(repetitions=13), MEASURING),
        (lambda clone: clone.configure(trials=2), MEASURING),
        (lambda clone: clone.configure(kernels=["tiny"]), MEASURING),
        (lambda clone: append(clone, "src/graphs.cu", "// changed\n"), EVERYTHING),
        (lambda clone: append(clone, "requirements-nvcc.lock", "# changed\n"), set()),
        (lambda clone: append(clone, "src/launchbench/build/compile.py", '\nCOMMON_FLAGS = ("-O3",)\n'), EVERYTHING),
        (lambda clone: clone.configure(architectures=["sm_75", "sm_90"]), EVERYTHING),
    ],
    ids=[
        "all files touched",
        "sources from the future",
        "comment in an unrelated module",
        "comment in a module that only describes",
        "comment in the configuration",
        "another file",
        "another label",
        "reporting module",
        "aggregating module",
        "measuring module",
        "protocol",
        "one more trial",
        "kernels",
        "source",
        "comment in the pins of an nvcc that is not used",
        "flags of the compiler",
        "flags",
    ],
)
def test_what_a_change_makes_anew(copied: Clone, change: Callable[[Clone], None], planned: set[str]) -> None:
    change(copied)
    assert copied.planned() == planned


def gpus(clone: Clone) -> dict[str, Any]:
    return dict(yaml.safe_load((clone.path / "config.yaml").read_text())["gpus"])


def test_another_nvcc_builds_anew(copied: Clone, tmp_path: Path) -> None:
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.9, V13.9.99'\n")
    nvcc.chmod(0o755)
    path = os.pathsep.join([str(nvcc.parent), copied.environment["PATH"]])
    assert copied.planned(PATH=path) == EVERYTHING


# ---------------------------------------------------------------- cards and caches


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (("--config", "cards=none"), {}, []),
        (TABLES, {"CUDA_VISIBLE_DEVICES": ""}, ["no visible GPU (CUDA_VISIBLE_DEVICES='')"]),
    ],
    ids=["cards=none", "none visible"],
)
def test_the_report_comes_from_the_cache_where_no_card_may_be_measured(
    copied: Clone, arguments: tuple[str, ...], variables: dict[str, str], said: list[str]
) -> None:
    before = copied.results(RESULTS)
    for folder in ("build", ".snakemake", "reports"):
        shutil.rmtree(copied.path / folder)
    run = copied.snakemake(*arguments, **variables)
    assert run.status == 0, run.text
    assert (run.started("build"), run.started("measure"), run.started("aggregate")) == (0, 0, 1)
    assert [any(word in line for line in run.said) for word in said] == [True] * len(said)
    assert "Traceback" not in run.text
    assert "h100" in (copied.path / "build" / "tables" / "summary.csv").read_text()
    assert arguments == TABLES or "h100 (simulated)" in copied.page
    assert copied.results(RESULTS) == before


def test_a_card_is_measured_beside_the_results_that_are_there(built: Callable[..., Clone]) -> None:
    """Two trials of two N, each a job with a file of its own; one that is lost is measured again alone."""
    clone = built([A100], launch_counts=[8, 64], trials=2)
    write_sweep(clone.path / RESULTS, (8, 64), label="h100", card=1)
    write_sweep(clone.path / RESULTS, (8,), label="a100", card=2)
    shipped = clone.results(RESULTS)
    assert clone.snakemake(*TABLES).status == 0
    results = clone.results(RESULTS)
    assert results.items() >= shipped.items()
    made = [Path(name).name for name in results.keys() - shipped.keys() if name.endswith(".json")]
    cells = [(count, trial) for count in (8, 64) for trial in (1, 2)]
    assert sorted(name.rsplit("-", 3)[0] for name in made) == [f"n{count:07d}-t{trial}" for count, trial in cells]
    summary = pd.read_csv(clone.path / "build" / "tables" / "summary.csv")
    assert set(summary[summary["label"] == "a100"]["virtual"]) == {True, False}
    again = clone.snakemake(*TABLES)
    assert (again.status, again.started("measure"), again.started("aggregate")) == (0, 0, 0)
    [lost] = (clone.path / RESULTS).rglob("n0000064-t2-*.json")
    lost.unlink()
    assert clone.snakemake("-n").started("measure") == 1


def test_a_new_card_appears(copied: Clone, virtual_gpu: VirtualGpu) -> None:
    environment = virtual_gpu.environment([*CARDS.values(), A100], modelled_clock=True)
    clone, before = Clone(copied.path, environment), copied.results(RESULTS)
    run = clone.snakemake("build/tables/summary.csv")
    assert run.status == 0, run.text
    assert (run.started("build"), run.started("measure")) == (0, 4)
    assert clone.results(RESULTS).items() >= before.items()
    summary = pd.read_csv(clone.path / "build" / "tables" / "summary.csv")
    assert set(summary["label"]) == {"t4", "h100", "a100"}


def test_forceall_with_a_card_keeps_the_old_results(built: Callable[..., Clone]) -> None:
    clone = built([T4], launch_counts=[8])
    assert clone.snakemake("build/tables/summary.csv").status == 0
    before = clone.results(RESULTS)
    rules = ("--allowed-rules", "measure", "aggregate")  # not the compiler too
    assert clone.snakemake("build/tables/summary.csv", "--forceall", *rules).status == 0
    assert clone.results(RESULTS).items() > before.items()
    trials = pd.read_csv(clone.path / "build" / "tables" / "trials.csv")
    loops = trials[trials["mode"] == "loop"]
    assert sorted(loops["superseded"]) == [False] * 4 + [True] * 4


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_a_lost_result_is_measured_again(copied: Clone, suffix: str) -> None:
    lost = sorted((copied.path / RESULTS).rglob(f"n0000064-*{suffix}"))[0]
    lost.unlink()
    kept = copied.results(RESULTS)
    run = copied.snakemake("build/tables/gaps.csv")
    assert run.status == 0, run.text
    assert run.started("measure") == 1
    results = copied.results(RESULTS)
    assert len(results) == len(kept) + 2 and results.items() >= kept.items()
    assert lost.name in (copied.path / "build" / "tables" / "gaps.csv").read_text() or suffix == ".json"
    assert copied.planned("build/tables/gaps.csv") == set()


def test_results_that_are_lost_together_with_their_receipts_are_measured_again(copied: Clone) -> None:
    for lost in (copied.path / RESULTS / "lab", copied.path / "build" / "cells"):
        shutil.rmtree(lost)
    run = copied.snakemake("-n")
    assert run.status == 0, run.text
    assert {rule: run.started(rule) for rule in EVERYTHING} == {"build": 0, "measure": 8, "aggregate": 1, "report": 1}


# ---------------------------------------------------------------- refused, locked, failed


def test_a_simulated_result_is_not_filed_unless_it_is_allowed(built: Callable[..., Clone]) -> None:
    clone = built([T4], launch_counts=[8], virtual_results="refuse", results_dir="results")
    run = clone.snakemake()
    assert run.status != 0
    assert len(set(run.said)) == 1
    assert "launchbench virtual T4" in run.said[0]
    assert "a simulated GPU, and virtual_results is 'refuse': nothing was measured" in run.said[0]
    assert "Traceback" not in run.text
    assert clone.results() == {}
    assert not list((clone.path / "build" / "cells").rglob("n*.json"))
    clone.configure(virtual_results="allow")
    run = clone.snakemake("-n")
    assert run.status != 0
    assert len(run.said) == 1 and "virtual_results: got 'allow'; expected refuse, or a results_dir apart" in run.said[0]
    # Elsewhere, but refused.
    clone.configure(virtual_results="refuse", results_dir=RESULTS)
    assert clone.snakemake("build/tables/summary.csv", "--no-hooks").status != 0
    assert not (clone.path / RESULTS).exists()


def test_one_card_that_fails_does_not_keep_the_other_from_being_measured(built: Callable[..., Clone]) -> None:
    clone = built([H100, T4], [Fault("cuMemAlloc", 999, card=0)], launch_counts=[8])
    run = clone.snakemake("build/tables/summary.csv")
    assert run.status != 0
    assert len(run.said) == 1
    assert run.said[0].startswith("launchbench: cuMemAlloc failed: CUDA_ERROR_UNKNOWN (999)")
    (log,) = (clone.path / "build" / "logs" / "measure" / "lab" / "h100").rglob("*.log")
    logged = log.read_text(encoding="utf-8").splitlines()
    assert logged.count(run.said[0]) == logged.count("Traceback (most recent call last):") == 1
    assert any(line.startswith("launchbench.measure.driver.DriverError: cuMemAlloc failed") for line in logged)
    assert "Traceback" not in run.text
    assert {name.split("/")[1] for name in clone.results(RESULTS)} == {"t4"}
    assert len(clone.results(RESULTS)) == 2
    # The other one has its report nevertheless, and the next run tries the failed one again.
    page = (clone.path / "reports/incomplete/comparison.html").read_text()
    assert "at N = 8 a stream launch" in page
    assert clone.planned() == {"measure", "aggregate", "report"}
    # The failed one is shown as a gap by the documented way to render without measuring.
    assert clone.snakemake("--config", "cards=none", *TABLES).status == 0
    gaps = pd.read_csv(clone.path / "build" / "tables" / "gaps.csv")
    reason = "the last attempt, on a simulated GPU, failed: cuMemAlloc failed: CUDA_ERROR_UNKNOWN (999)"
    (told,) = gaps[gaps["label"] == "h100"].dropna(subset="launch_count").itertuples()
    assert told.launch_count == 8
    assert told.reason.startswith(reason)


def test_a_driver_that_hangs_is_one_line(built: Callable[..., Clone]) -> None:
    clone = built([T4], [Fault("cuInit", hang=True)])
    run = clone.snakemake("-n", LAUNCHBENCH_PROBE_TIMEOUT_S="1")
    assert run.status != 0
    assert run.said == [f"launchbench: the NVIDIA driver did not answer within 1 s; {WITHOUT_A_CARD}"]
    assert "Traceback" not in run.text


def test_the_card_is_locked_between_two_workflows(virtual_gpu: VirtualGpu, built: Callable[..., Clone]) -> None:
    card = dataclasses.replace(T4, uuid="GPU-10c40000-1111-2222-3333-" + os.urandom(6).hex())
    clones = [built([card], name=name, launch_counts=[8, 64]) for name in ("one", "two")]
    assert card.uuid
    with clones[0].start("build/tables/summary.csv") as one, clones[1].start("build/tables/summary.csv") as two:
        with card_lock(card.uuid, folder=virtual_gpu.locks):
            for process in (one, two):
                while f"waiting for another measurement on {card.uuid} to finish" not in (
                    line := process.stdout.readline()
                ):
                    assert line, "ended without waiting"
        assert [process.wait() for process in (one, two) if process.communicate()] == [0, 0]
    spans = []
    for clone in clones:
        results, problems = read_results(clone.path / RESULTS)
        assert (len(results), problems) == (2, [])
        spans += [(result.record.started_utc, result.record.finished_utc) for result in results]
    moments = [moment for span in sorted(spans) for moment in span]
    assert moments == sorted(moments)


# ---------------------------------------------------------------- extra jobs


def test_extra_jobs_from_card_to_page(built: Callable[..., Clone]) -> None:
    """One job a card and kind beside those of the counts, and nothing to do again until a file of it is gone."""
    settings = {"launch_counts": [8], "kernels": ["tiny"], "launch_paths": ["native-driver"]}
    clone = built([CARDS["h100"]], **settings, extras=["pointers", "lengths", "decode"])
    run = clone.snakemake(cores=2)
    assert run.status == 0, run.text
    assert (run.started("pointers"), run.started("lengths"), run.started("measure")) == (1, 1, 1)
    # Without PyTorch, or on a card that is none, its job ends well and says why.
    assert run.started("decode") == 1 and "Not run: " in clone.page
    [pointers], [lengths] = (list((clone.path / RESULTS).rglob(f"{kind}-*.json")) for kind in ("pointers", "lengths"))
    assert "the innocent buffer at the address of d" in clone.page and "context is lost" in clone.page
    assert "The host sets the pace" in clone.page and "the graph helps with kernels up to" in clone.page
    tables = clone.path / "build" / "tables"
    outcomes = pd.read_csv(tables / "pointers.csv")["outcome"].tolist()
    assert outcomes[1:] == ["d2-updated", "victim-corrupted", "nothing-visible", "context-lost"]
    assert set(pd.read_csv(tables / "lengths.csv")["pace"]) == {"host", "device"}
    gaps = (tables / "gaps.csv").read_text()
    assert "pointers-" not in gaps and "lengths-" not in gaps
    [log] = (clone.path / "build" / "logs" / "pointers").rglob("*.log")
    assert "pointers: scenario victim: victim-corrupted" in log.read_text()
    assert (clone.path / "reports" / "figures" / "kernel_length.svg").stat().st_size > 10_000
    assert clone.planned() == set()
    pointers.with_suffix(".csv").unlink()
    assert clone.planned() == {"pointers", "aggregate", "report"}
    lengths.unlink()
    assert clone.planned("--config", "extras=[lengths]") == {"lengths", "aggregate", "report"}
