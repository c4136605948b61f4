"""The whole study from a head node: submitted, failed in every way that a cluster has, reported, and made good."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from launchbench.errors import LaunchbenchError
from launchbench.measure.lock import card_lock
from launchbench.results.files import read_results
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import ASKED, CARDS, GROUPED, RESULTS, SITE, HeadNode
from tests.unit.test_report import Page
from tests.virtual_gpu import Card, Fault

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]


def measured(head: HeadNode) -> set[tuple[str, str, int, str]]:
    """(label, name of the card, N, node) of every result."""
    results, problems = read_results(head.clone.path / RESULTS)
    assert not problems
    assert {result.record.site for result in results} <= {SITE}
    records = [result.record for result in results]
    return {(one.label, one.device.name, one.launch_count, one.slurm.node) for one in records if one.slurm}


def is_measured(card: Card) -> bool:
    """Whether a job has the card now."""
    assert card.uuid
    try:
        with card_lock(card.uuid, timeout_s=0):
            return False
    except LaunchbenchError:
        return True


def left_behind(head: HeadNode) -> list[Path]:
    """Locks and temporary files."""
    return [*head.clone.path.glob(".snakemake/locks/*"), *head.clone.path.rglob(".tmp-*")]


def test_the_whole_study_is_submitted_and_reported_by_one_command(
    cluster: Cluster, head_node: Callable[..., HeadNode]
) -> None:
    head = head_node()
    run = head.submit()
    assert run.status == 0, run.text
    assert (run.started("build"), run.started("measure"), run.started("report")) == (0, 6, 1)
    names = {"t4": "T4", "a100": "A100", "h100": "H100"}
    assert measured(head) == {
        (label, f"launchbench virtual {name}", count, f"{label}-node")
        for label, name in names.items()
        for count in (8, 64)
    }
    page = Page(head.page())
    assert all(f"{label} (simulated): at N = 64 a stream launch" in page.text for label in names)
    assert left_behind(head) == []
    # Once measured, a label is not measured again: after a run, after everything but the results was deleted.
    assert "Nothing to be done" in head.submit().text
    for folder in ("build/cells", "build/tables", ".snakemake", "reports"):
        shutil.rmtree(head.clone.path / folder)
    assert head.clone.planned(*head.command) == {"aggregate", "report"}
    assert head.clone.snakemake("-n", *head.command, "--forcerun", "measure").started("measure") == 6


def test_every_failure_is_a_gap_with_its_reason_and_a_second_run_makes_it_good(
    cluster: Cluster, head_node: Callable[..., HeadNode]
) -> None:
    head = head_node()
    a100 = {**ASKED["a100"], "time_minutes": 1}
    t4 = {**ASKED["t4"], "time_minutes": 1, "deadline_minutes": 2}
    head.ask({**ASKED, "a100": a100, "t4": t4, "h200": {"gpu_model": "h200"}})
    cluster.command("scontrol", "update", "NodeName=t4-node", "State=DRAIN", "Reason=broken fan")
    cluster.hand_out("h100-node", [CARDS["a100-node"]])
    cluster.hand_out("a100-node", [CARDS["a100-node"]], [Fault("cuMemAlloc", hang=True)])

    def jobs(label: str, state: str) -> list[str]:
        return [job for job, comment, found, _ in cluster.jobs() if f"_{label}_" in comment and found == state]

    with head.clone.start_anew(*head.command, cores=None) as process:
        cluster.until("both jobs wait for the drained node", lambda: len(jobs("t4", "PENDING")) == 2)
        cancelled, too_late = jobs("t4", "PENDING")
        cluster.command("scancel", cancelled)
        cluster.command("scontrol", "update", f"JobId={too_late}", "TimeLimit=2")  # too long for what is left
        cluster.until("a job hangs on the a100", lambda: jobs("a100", "RUNNING") and is_measured(CARDS["a100-node"]))
        (hung,) = jobs("a100", "RUNNING")
        cluster.hand_out("a100-node", [CARDS["a100-node"]])
        cluster.command("scontrol", "update", f"JobId={hung}", "EndTime=now")  # its time limit, a minute early
        text, _ = process.communicate(timeout=240)
    assert process.returncode == 1, text
    gaps = pd.read_csv(head.clone.path / "build" / "incomplete" / "gaps.csv").dropna(subset="launch_count")
    told = {(row.label, row.launch_count): row.reason for row in gaps.itertuples() if row.label != "t4"}
    ((label, _, done, _),) = measured(head)
    assert label == "a100"
    missing = 72 - done
    found = f"launchbench virtual A100 = a100 (card {str(CARDS['a100-node'].uuid)[4:12]})"
    failed, simulated = "the last attempt failed:", "the last attempt, on a simulated GPU, failed:"
    refused = "SLURM refused the job: Requested node configuration is not available"
    assert told == {
        ("a100", missing): f"{simulated} SLURM job {hung} on a100-node reached its time limit of 00:01:00",
        **{("h100", n): f"{failed} asked to measure h100; found {found}: nothing was measured" for n in (8, 64)},
        **{("h200", n): f"{failed} {refused}" for n in (8, 64)},
    }
    assert set(gaps[gaps["label"] == "t4"]["reason"]) == {
        f"{failed} SLURM job {cancelled} was cancelled before it ran",
        f"{failed} SLURM job {too_late} did not run before its deadline; nodes out of service: t4-node (broken fan)",
    }
    page = Page(head.page("reports/incomplete"))
    assert all(reason in page.text for reason in gaps["reason"])
    assert f"a100 (simulated): at N = {done} a stream launch" in page.text
    assert left_behind(head) == []

    cluster.command("scontrol", "update", "NodeName=t4-node", "State=RESUME")
    for node, card in CARDS.items():
        cluster.hand_out(node, [card])
    head.ask(ASKED)
    known = len(cluster.jobs())
    run = head.submit(*GROUPED)
    assert run.status == 0, run.text
    assert run.started("measure") == 5
    assert len(cluster.jobs()) == known + 3  # one allocation a label
    assert len(measured(head)) == 6
    assert not (head.clone.path / "reports" / "incomplete").exists()
    gaps = pd.read_csv(head.clone.path / "build" / "tables" / "gaps.csv")
    assert set(gaps[gaps["reason"].str.contains("failed")]["label"]) == {"h200"}  # which nobody has asked for again


def test_an_interrupted_run_leaves_no_job_in_the_queue(cluster: Cluster, head_node: Callable[..., HeadNode]) -> None:
    head = head_node(launch_counts=[8])
    for node in CARDS:
        cluster.command("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=upgrade")
    with head.clone.start_anew(*head.command, cores=None) as process:
        cluster.until("all wait", lambda: len(cluster.command("squeue", "--noheader").splitlines()) == 3)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 1, text
    assert cluster.command("squeue", "--noheader") == ""
    assert left_behind(head) == []
    assert "not measured yet" in head.page("reports/incomplete")
