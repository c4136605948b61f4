"""Facts about the host: each may be missing, and then says why."""

from __future__ import annotations

import json
import os
import platform
import stat
from pathlib import Path
from typing import Any

import pytest

from launchbench.measure import host
from launchbench.measure.host import cpu_cores, host_facts, slurm_facts

LSCPU: dict[str, Any] = {
    "lscpu": [
        {"field": "Architecture:", "data": "x86_64"},
        {
            "field": "Vendor ID:",
            "data": "GenuineIntel",
            "children": [
                {"field": "BIOS Model name:", "data": "from the BIOS"},
                {"field": "Model name:", "data": "Fictional CPU @ 2.00GHz", "children": [{"field": "x:", "data": "1"}]},
            ],
        },
        {"field": "Hypervisor vendor:", "data": "KVM"},
        {"field": "NUMA:", "data": None, "children": [{"field": "NUMA node(s):", "data": "2"}]},
    ]
}


@pytest.fixture
def lscpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of this name on the path, which the test writes; nothing else is there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "lscpu"


def script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def answering(path: Path, answer: object) -> None:
    path.with_suffix(".json").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    script(path, f"exec /bin/cat '{path}.json'")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root under which /sys is looked up, with nothing in it."""
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setattr(host, "Path", lambda path: root / str(path).removeprefix("/"))
    return root


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(text.encode())


def test_what_lscpu_says(lscpu: Path) -> None:
    answering(lscpu, LSCPU)
    facts = host_facts("0000:3b:00.0")
    assert (facts.cpu_model, facts.hypervisor, facts.numa_nodes) == ("Fictional CPU @ 2.00GHz", "KVM", 2)
    assert not {"cpu_model", "hypervisor", "numa_nodes", "lscpu"} & set(facts.unavailable)


def test_lscpu_is_asked_in_english_whatever_the_locale(lscpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its field names are translated."""
    for name in ("LANG", "LC_ALL", "LC_MESSAGES", "LANGUAGE"):
        monkeypatch.setenv(name, "de_DE.UTF-8")
    english, german = json.dumps(LSCPU), json.dumps(LSCPU).replace("Model name", "Modellname")
    script(lscpu, f"if [ \"$LC_ALL\" = C ]; then printf '%s' '{english}'; else printf '%s' '{german}'; fi")
    assert host_facts(None).cpu_model == "Fictional CPU @ 2.00GHz"


def test_a_model_that_only_the_bios_names(lscpu: Path) -> None:
    answering(
        lscpu, {"lscpu": [{"field": "BIOS Model name:", "data": "ARM thing"}, {"field": "Model name:", "data": ""}]}
    )
    assert host_facts(None).cpu_model == "ARM thing"


def test_of_several_kinds_of_cores_each_is_told(lscpu: Path) -> None:
    """A GB10 has two; which of them issues the launches is not known."""
    kinds = [{"field": "Model name:", "data": name} for name in ("Cortex-X925", "Cortex-A725", "Cortex-X925")]
    answering(lscpu, {"lscpu": kinds})
    assert host_facts(None).cpu_model == "Cortex-X925 + Cortex-A725"


def test_a_dash_is_no_model(lscpu: Path) -> None:
    answering(lscpu, {"lscpu": [{"field": "Model name:", "data": "-"}, {"field": "Hypervisor vendor:", "data": "-"}]})
    facts = host_facts(None)
    assert (facts.cpu_model, facts.hypervisor) == (None, None)
    assert facts.unavailable["cpu_model"] == facts.unavailable["hypervisor"] == "lscpu does not say"


@pytest.mark.parametrize("nodes", ["", "two", "-1", "1.5", "²"])
def test_what_lscpu_does_not_say(lscpu: Path, nodes: str) -> None:
    answering(lscpu, {"lscpu": [{"field": "Architecture:", "data": "x"}, {"field": "NUMA node(s):", "data": nodes}]})
    facts = host_facts(None)
    assert (facts.cpu_model, facts.numa_nodes, facts.hypervisor) == (None, None, "none seen")
    assert facts.unavailable["cpu_model"] == "lscpu does not say"
    assert facts.unavailable["numa_nodes"] == "lscpu does not say"
    assert "hypervisor" not in facts.unavailable


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "Expecting value"),
        ("Model name: Fictional CPU", "Expecting value"),
        ("{}", "'lscpu'"),
        ("[]", "list indices must be integers"),
        ("null", "'NoneType' object is not subscriptable"),
        ('{"lscpu": null}', "'NoneType' object is not iterable"),
        ('{"lscpu": ["Model name:"]}', "'str' object has no attribute 'get'"),
        ('{"lscpu": [{"data": "x"}]}', "'field'"),
        ('{"lscpu": [{"field": "x", "children": 3}]}', "'int' object is not iterable"),
    ],
)
def test_an_lscpu_that_answers_something_else(lscpu: Path, answer: str, reason: str) -> None:
    answering(lscpu, answer)
    nothing_from_lscpu(f"lscpu: {reason}")


def nothing_from_lscpu(reason: str) -> None:
    facts = host_facts(None)
    assert (facts.cpu_model, facts.numa_nodes, facts.hypervisor) == (None, None, None)
    for field in ("cpu_model", "numa_nodes", "hypervisor"):
        assert facts.unavailable[field].startswith(reason)
        assert facts.unavailable[field].isprintable()
    assert "lscpu" not in facts.unavailable
    # The rest is known all the same.
    assert facts.hostname and facts.cpu_count == os.cpu_count() and facts.kernel


def test_no_lscpu(lscpu: Path) -> None:
    nothing_from_lscpu("lscpu: [Errno 2] No such file or directory: 'lscpu'")


def test_an_lscpu_that_fails_or_is_not_utf8(lscpu: Path) -> None:
    script(lscpu, "exit 3")
    nothing_from_lscpu("lscpu: Command '['lscpu', '-J']' returned non-zero exit status 3.")
    script(lscpu, "printf '\\377\\376\\375'")
    nothing_from_lscpu("lscpu: 'utf-")


def test_affinity_is_that_of_this_process() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert host_facts(None).affinity == [min(allowed)]
    finally:
        os.sched_setaffinity(0, allowed)
    assert host_facts(None).affinity == sorted(allowed)


def test_the_governor_is_that_of_the_cpus_in_the_affinity(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 5, 6})
    path = "sys/devices/system/cpu/cpu5/cpufreq/scaling_governor"
    facts = host_facts(None)
    assert facts.governor is None
    assert facts.unavailable["governor"] == f"/{path}: No such file or directory"
    write(system, path, "performance\n")
    facts = host_facts(None)
    assert (facts.governor, facts.affinity) == ("performance", [5, 6, 7])
    assert "governor" not in facts.unavailable
    write(system, path.replace("cpu5", "cpu7"), "powersave\n")
    write(system, path.replace("cpu5", "cpu6"), "powersave\n")
    write(system, path.replace("cpu5", "cpu4"), "userspace\n")
    assert host_facts(None).governor == "performance, powersave"
    for cpu in (5, 6, 7):
        write(system, path.replace("cpu5", f"cpu{cpu}"), "\n")
    facts = host_facts(None)
    assert (facts.governor, facts.unavailable["governor"]) == (None, "the kernel reports none")


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/user/job\n", {"user/cpu.max": "150000 100000", "user/job/cpu.max": "max 100000"}, 1.5),
        ("0::/user/job\n", {"user/cpu.max": "150000 100000", "user/job/cpu.max": "400000 100000"}, 1.5),
        # The path is that of the host, the mount that of the container.
        ("0::/kubepods/pod1\n", {"cpu.max": "200000 100000"}, 2.0),
        ("0::/../other\n", {"cpu.max": "200000 100000"}, 2.0),
        (
            "5:memory:/x\n4:cpu,cpuacct:/x\n0::/\n",
            {"cpu/x/cpu.cfs_quota_us": "25000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            0.25,
        ),
        ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("0::/\n", {"cpu.max": "0 0"}, None),
        ("nonsense\n", {"cpu.max": ""}, None),
    ],
)
def test_the_quota_of_a_control_group(system: Path, groups: str, files: dict[str, str], quota: float | None) -> None:
    """Of a container with half a CPU the affinity still has all of them."""
    assert host_facts(None).unavailable["cpu_quota_cpus"] == "/proc/self/cgroup: No such file or directory"
    write(system, "proc/self/cgroup", groups)
    for name, text in files.items():
        write(system, f"sys/fs/cgroup/{name}", text)
    facts = host_facts(None)
    assert facts.cpu_quota_cpus == quota
    assert facts.unavailable.get("cpu_quota_cpus") == (None if quota else "no limit seen")


def test_a_host_whose_name_is_no_text(monkeypatch: pytest.MonkeyPatch, lscpu: Path) -> None:
    monkeypatch.setattr(host.platform, "node", lambda: "caf\udce9")
    answering(lscpu, {"lscpu": [{"field": "Model name:", "data": "\udcff"}]})
    facts = host_facts(None)
    assert (facts.hostname, facts.cpu_model) == (r"caf\udce9", r"\udcff")
    assert facts.model_dump_json()


@pytest.mark.parametrize(
    ("pci_bus_id", "folder"),
    [
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0001:C1:00.0", "0001:c1:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
    ],
)
def test_the_numa_node_of_the_gpu(system: Path, pci_bus_id: str, folder: str) -> None:
    write(system, f"sys/bus/pci/devices/{folder}/numa_node", "1\n")
    facts = host_facts(pci_bus_id)
    assert facts.numa_node_of_gpu == 1
    assert "numa_node_of_gpu" not in facts.unavailable
    write(system, f"sys/bus/pci/devices/{folder}/numa_node", "0\n")
    assert host_facts(pci_bus_id).numa_node_of_gpu == 0


@pytest.mark.parametrize("text", ["-1", "", "none", "²"])
def test_a_numa_node_that_the_kernel_does_not_know(system: Path, text: str) -> None:
    write(system, "sys/bus/pci/devices/0000:01:00.0/numa_node", f"{text}\n")
    facts = host_facts("0000:01:00.0")
    assert facts.numa_node_of_gpu is None
    assert facts.unavailable["numa_node_of_gpu"] == f"the kernel reports none ({text})"


@pytest.mark.parametrize("pci_bus_id", [None, ""])
def test_a_gpu_without_an_address(pci_bus_id: str | None) -> None:
    facts = host_facts(pci_bus_id)
    assert facts.numa_node_of_gpu is None
    assert facts.unavailable["numa_node_of_gpu"] == "PCI address unknown"


def test_an_address_that_the_kernel_does_not_have(system: Path) -> None:
    facts = host_facts("0000:01:00.0")
    assert facts.numa_node_of_gpu is None
    assert facts.unavailable["numa_node_of_gpu"].endswith("0000:01:00.0/numa_node: No such file or directory")


def test_a_system_that_does_not_say_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[str, str]:
        raise OSError("Unable to read files /etc/os-release, /usr/lib/os-release")

    monkeypatch.setattr(host.platform, "node", lambda: "")
    monkeypatch.setattr(host.platform, "freedesktop_os_release", fail)
    facts = host_facts(None)
    assert facts.hostname == "unknown"
    assert facts.os == host.platform.platform()


# --- SLURM

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURMD_NODENAME": "node17",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_CLUSTER_NAME": "alpha",
}


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SLURM:
        monkeypatch.delenv(name, raising=False)


def test_outside_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slurm_facts() is None
    for name in list(SLURM)[1:]:
        monkeypatch.setenv(name, SLURM[name])
    assert slurm_facts() is None
    monkeypatch.setenv("SLURM_JOB_ID", "")
    assert slurm_facts() is None


def test_inside_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    facts = slurm_facts()
    assert facts is not None
    assert facts.model_dump() == {"job_id": "4711", "node": "node17", "partition": "gpu", "cluster": "alpha"}


def test_names_that_are_no_text_end_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_PARTITION", "g\udcffpu\n")
    facts = slurm_facts()
    assert facts is not None and facts.partition == r"g\udcffpu\n" and facts.model_dump_json()

    def of_bytes() -> dict[str, str]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr(host.platform, "freedesktop_os_release", of_bytes)
    assert host_facts(None).os == platform.platform()


def test_inside_a_slurm_that_says_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "1_2")
    monkeypatch.setenv("SLURMD_NODENAME", "")
    facts = slurm_facts()
    assert facts is not None
    assert facts.model_dump() == {"job_id": "1_2", "node": None, "partition": None, "cluster": None}


def test_cores_are_counted_and_not_their_threads(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2, 3, 6, 9})
    for cpu, siblings in ((1, "1,5\n"), (2, "2-3\n"), (3, "2-3\n"), (6, "2,6\n")):
        write(system, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings)
    assert cpu_cores() == [1, 2, 9]


def test_no_cores_where_the_system_has_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cpu_cores() == []
