"""What Snakemake is told to ask a SLURM cluster for. Light to import."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from launchbench.config.messages import escaped, shown
from launchbench.errors import LaunchbenchError

RESOURCES = (
    "slurm_partition",
    "slurm_account",
    "qos",
    "constraint",
    "runtime",
    "mem_mb",
    "gpu",
    "gpu_model",
    "gres",
    "slurm_extra",
)
"""Resources of a measurement, by the names that snakemake-executor-plugin-slurm 2 reads."""

_OTHERS = (
    *("mem", "mem_mib", "mem_mb_per_cpu", "disk", "disk_mb", "disk_mib", "tmpdir", "threads", "_cores", "measurements"),
    *("slurm_cluster", "cluster", "clusters", "nodes", "tasks", "tasks_per_gpu", "tasks_per_node", "mpi"),
    *("cpus_per_task", "cpus_per_gpu"),
)


def check_resources(given: Mapping[str, Iterable[str]]) -> None:
    """Refuse resources that ask a cluster for nothing: Snakemake takes any name, and the job gets no GPU.

    Args:
        given: option that sets resources -> their names.

    Raises:
        LaunchbenchError: one line for each that nothing reads.
    """
    lines = []
    for option, names in given.items():
        for name in (name for name in names if name not in (*RESOURCES, *_OTHERS)):
            near = difflib.get_close_matches(name, RESOURCES, n=1, cutoff=0.5)
            advice = f"; did you mean {near[0]!r}?" if near else f", such as {', '.join(RESOURCES)}"
            lines.append(
                f"{option}: got the resource {shown(name)}, which asks for nothing; expected one known{advice}"
            )
    if lines:
        raise LaunchbenchError("\n".join(map(escaped, lines)))
