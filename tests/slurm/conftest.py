"""One real SLURM for all tests of this folder, and clones of the project that submit to it."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.slurm.cluster import Cluster, Node, start, why_not
from tests.virtual_gpu import A100, H100, T4, VirtualGpu
from tests.workflow.conftest import SHORT, Clone, Run, clone_into

RESULTS = "simulated"
SITE = "centre"
NODES = (Node("t4-node", "tesla-t4"), Node("a100-node", "a100"), Node("h100-node", "h100"))
CARDS = {
    node.name: dataclasses.replace(card, uuid=f"GPU-{uuid.uuid4()}")
    for node, card in zip(NODES, (T4, A100, H100), strict=True)
}
ASKED = {
    "t4": {"gpu_model": "tesla-t4"},
    "a100": {"partition": "gpu", "gpu_model": "a100"},
    "h100": {"gres": "gpu:h100:1"},
}
GROUPED = ("--groups", "measure=measure_{label}", "--group-components", "measure_{label}=1000")
QUICK = ("--slurm-init-seconds-before-status-checks=2", "--seconds-between-status-checks=2", "--latency-wait=20")


@pytest.fixture(scope="session")
def started(virtual_gpu: VirtualGpu) -> Iterator[Cluster]:
    """A running SLURM with a node for each of three GPU types; skipped where none can be started."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="launchbench-slurm-", dir="/tmp"))  # a socket needs a short path
    try:
        with start(folder, NODES, virtual_gpu) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder)
        for card in CARDS.values():
            Path(f"/tmp/launchbench-{card.uuid}.lock").unlink(missing_ok=True)


@pytest.fixture
def cluster(started: Cluster) -> Iterator[Cluster]:
    """The same, without jobs and with the right card on every node; a test must leave no job behind."""
    started.make_ready()
    for node, card in CARDS.items():
        started.hand_out(node, [card])
    yield started
    assert started.command("squeue", "--noheader", "--states=PENDING,RUNNING") == ""


@dataclasses.dataclass(frozen=True)
class HeadNode:
    """A clone of the project on a machine without a card."""

    clone: Clone

    def ask(self, asked: dict[str, dict[str, Any]]) -> None:
        """Write cluster.yaml: these labels, and little time and memory."""
        labels = {label: {"time_minutes": 2, "memory_mb": 500} | one for label, one in asked.items()}
        path = self.clone.path / "profiles" / "slurm" / "cluster.yaml"
        path.write_text(yaml.safe_dump({"site": SITE, "cards": "listed", "slurm": labels}))

    @property
    def command(self) -> tuple[str, ...]:
        """Of Snakemake, as documented, with shorter waits."""
        return ("--workflow-profile", "profiles/slurm", *QUICK)

    def submit(self, *arguments: str) -> Run:
        """Run it to the end."""
        return self.clone.snakemake(*self.command, *arguments, cores=None)

    def page(self, folder: str = "reports") -> str:
        """The text of the report."""
        return (self.clone.path / folder / "comparison.html").read_text(encoding="utf-8")


@pytest.fixture
def head_node(cluster: Cluster, binaries: Path, tmp_path: Path) -> Callable[..., HeadNode]:
    """Makes clones with the products of the build, and nothing measured."""

    def make(**settings: Any) -> HeadNode:
        clone = clone_into(tmp_path / "clone")
        short = {**SHORT, "launch_counts": [8, 64]}
        clone.configure(**{"virtual_results": "allow", "results_dir": RESULTS, **short, **settings})
        shutil.copytree(binaries, clone.path / "build" / "cuda", copy_function=shutil.copy)
        made = HeadNode(clone)
        made.ask(ASKED)
        return made

    return make
