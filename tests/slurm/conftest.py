"""One real SLURM for all tests of this folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, Node, start, why_not
from tests.virtual_gpu import A100, H100, T4, VirtualGpu

CARDS = {"t4-node": T4, "a100-node": A100, "h100-node": H100}
NODES = (Node("t4-node", "tesla-t4"), Node("a100-node", "a100"), Node("h100-node", "h100"))


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


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """The same, without jobs and with the right card on every node."""
    started.make_ready()
    for node, card in CARDS.items():
        started.hand_out(node, [card])
    return started
