"""The SLURM that the other tests use is what they take it for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.slurm.cluster import CONFIGURATION, Cluster

pytestmark = pytest.mark.slurm

PROBE = "from launchbench.measure.cards import visible_cards; print(visible_cards()[0].name)"


@pytest.mark.parametrize(
    ("gpu_type", "node", "name"),
    [("tesla-t4", "t4-node", "launchbench virtual T4"), ("h100", "h100-node", "launchbench virtual H100")],
)
def test_a_job_lands_on_the_node_of_its_gpu_type_and_sees_its_card(
    cluster: Cluster, gpu_type: str, node: str, name: str
) -> None:
    command = f'echo "$SLURMD_NODENAME"; {sys.executable} -c "{PROBE}"'
    said = cluster.command("srun", f"--gpus-per-node={gpu_type}:1", "sh", "-c", command)
    assert said == f"{node}\n{name}\n"


def test_accounting_is_off_though_sacct_is_there(cluster: Cluster) -> None:
    done = subprocess.run(["sacct"], capture_output=True, text=True)
    assert done.returncode != 0 and "accounting storage is disabled" in done.stderr


def test_its_configuration_is_marked_as_its_own(cluster: Cluster) -> None:
    assert all(path.read_text().startswith("# launchbench") for path in CONFIGURATION)
