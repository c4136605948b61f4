"""The machine that issues the launches: CPU, affinity, NUMA, governor, SLURM. Asks no GPU."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from pathlib import Path

from launchbench.config.messages import escaped
from launchbench.results.record import Host, Slurm

_CPUS = "/sys/devices/system/cpu"
_CGROUPS = "/sys/fs/cgroup"


def host_facts(pci_bus_id: str | None) -> Host:
    """Facts about this host; what cannot be had is None with its reason.

    Args:
        pci_bus_id: of the GPU, for its NUMA node; None where unknown.
    """
    missing: dict[str, str] = {}
    cpu = _lscpu(missing)
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cpu_model = cpu.get("Model name") or cpu.get("BIOS Model name")
    nodes = cpu.get("NUMA node(s)", "")
    numa_nodes = int(nodes) if re.fullmatch("[0-9]+", nodes) else None
    for field, known in (("cpu_model", cpu_model), ("numa_nodes", numa_nodes), ("hypervisor", cpu)):
        if not known:
            missing.setdefault(field, missing.get("lscpu", "lscpu does not say"))
    missing.pop("lscpu", None)
    return Host(
        hostname=escaped(platform.node()) or "unknown",
        cpu_model=cpu_model,
        cpu_count=os.cpu_count(),
        affinity=affinity,
        numa_node_of_gpu=_numa_node(pci_bus_id, missing),
        numa_nodes=numa_nodes,
        governor=_governor(affinity or [0], missing),
        cpu_quota_cpus=_cpu_quota(missing),
        hypervisor=cpu.get("Hypervisor vendor") or ("none seen" if cpu else None),
        kernel=escaped(platform.release()) or None,
        os=_os_name(),
        load_average_1min=load_average(),
        unavailable=missing,
    )


def load_average() -> float | None:
    """How many processes of this host ran or waited to, over the last minute; None where the kernel does not say."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def cpu_cores() -> list[int]:
    """Cores that this process may run on, each by the number of its first logical CPU; empty where unknown.

    Two logical CPUs of one core (hyper-threads) are the same core here: they slow each other down.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = _read(f"{_CPUS}/cpu{cpu}/topology/thread_siblings_list", "", {}) or ""
        first = re.match("[0-9]+", siblings)
        cores.add(int(first[0]) if first else cpu)
    return sorted(cores)


def _lscpu(missing: dict[str, str]) -> dict[str, str]:
    try:
        # Field names are translated in other locales.
        output = subprocess.run(
            ["lscpu", "-J"], capture_output=True, timeout=20, check=True, env={**os.environ, "LC_ALL": "C"}
        ).stdout
        pairs: dict[str, str] = {}
        entries = list(json.loads(output)["lscpu"])
        while entries:
            entry = entries.pop(0)
            entries.extend(entry.get("children", []))
            field, said = str(entry["field"]).rstrip(":"), escaped(str(entry.get("data") or "").strip())
            if said in ("", "-"):  # how lscpu writes a name that nobody gave
                continue
            if field == "Model name" and said not in pairs.get(field, said).split(" + "):
                pairs[field] += f" + {said}"  # one for each kind of core
            pairs.setdefault(field, said)
        return pairs
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError, AttributeError) as error:
        missing["lscpu"] = f"lscpu: {' '.join(str(error).split())}"
        return {}


def _governor(cpus: list[int], missing: dict[str, str]) -> str | None:
    """Of the CPUs that the issuing thread may run on; several where they differ."""
    reasons: dict[str, str] = {}
    read = [_read(f"{_CPUS}/cpu{cpu}/cpufreq/scaling_governor", f"{cpu}", reasons) for cpu in cpus]
    known = dict.fromkeys(name for name in read if name)
    if not known:
        missing["governor"] = reasons.get(f"{cpus[0]}", "the kernel reports none")
    return ", ".join(known) or None


def _cpu_quota(missing: dict[str, str]) -> float | None:
    """CPUs' worth of time that control groups grant: the least of cpu.max (version 2) or cpu.cfs_quota_us (1)
    of the group and those above it.

    Inside a container the group may have another path than its own mount shows; then the mount's root is the group.
    """
    limits = []
    groups = _read("/proc/self/cgroup", "cpu_quota_cpus", missing)
    if groups is None:
        return None
    for _, controllers, path in (line.split(":", 2) for line in groups.splitlines() if line.count(":") >= 2):
        if controllers and "cpu" not in controllers.split(","):
            continue
        above = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(above) + 1):
            if not controllers:
                told = _read("/".join([_CGROUPS, *above[:depth], "cpu.max"]), "", {}) or ""
            else:
                folder = "/".join([f"{_CGROUPS}/cpu", *above[:depth]])
                told = " ".join(_read(f"{folder}/cpu.cfs_{name}_us", "", {}) or "" for name in ("quota", "period"))
            if limit := re.fullmatch("([1-9][0-9]*) ([1-9][0-9]*)", told):
                limits.append(int(limit[1]) / int(limit[2]))
    if not limits:
        missing["cpu_quota_cpus"] = "no limit seen"
        return None
    return min(limits)


def _numa_node(pci_bus_id: str | None, missing: dict[str, str]) -> int | None:
    if not pci_bus_id:
        missing["numa_node_of_gpu"] = "PCI address unknown"
        return None
    # NVML writes the domain with eight digits, the kernel with at least four.
    address = re.sub("^0+(?=[0-9a-f]{4,}:)", "", pci_bus_id.lower())
    text = _read(f"/sys/bus/pci/devices/{address}/numa_node", "numa_node_of_gpu", missing)
    if text is None:
        return None
    if not re.fullmatch("[0-9]+", text):
        missing["numa_node_of_gpu"] = f"the kernel reports none ({text})"
        return None
    return int(text)


def _read(path: str, field: str, missing: dict[str, str]) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        missing[field] = f"{path}: {error.strerror}"
        return None


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except (OSError, ValueError):  # not there, or not UTF-8
        return platform.platform() or None


def slurm_facts() -> Slurm | None:
    """The SLURM allocation this process runs in, or None."""
    names = {
        "job_id": "SLURM_JOB_ID",
        "node": "SLURMD_NODENAME",
        "partition": "SLURM_JOB_PARTITION",
        "cluster": "SLURM_CLUSTER_NAME",
    }
    # Bytes that are no text would end the job when all is measured.
    told = {field: escaped(os.environ[name]) for field, name in names.items() if os.environ.get(name)}
    return Slurm.model_validate(told) if told.get("job_id") else None
