"""What a record says of card, host, software and code: what differs between two sides, and what forbids comparing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from launchbench.compare.model import Difference
from launchbench.config.messages import escaped
from launchbench.results.protocol import Protocol
from launchbench.results.record import Device, Record
from launchbench.wording import ranges

MEMORY_WITHIN = 0.1
"""Memory sizes that differ by less are of one variant: driver and ECC take some of it for themselves."""
POWER_WITHIN_W = 0.5

_FIRST = ("driver version", "host", "host CPU", "nvcc", "build flags", "GPU UUID")
"""Told first, whatever the order of the record."""

# Of a moment rather than of a machine: a link slows down while a card is idle.
_LEFT_OUT = {"unavailable", "virtual", "load_average_1min", "pcie_generation", "pcie_width", "modified"}
_NAMES = {
    "device.name": "GPU name",
    "device.uuid": "GPU UUID",
    "device.driver_version": "driver version",
    "device.cuda_driver_version": "newest CUDA of the driver",
    "device.memory_total_bytes": "GPU memory, bytes",
    "device.power_limit_w": "power limit, W",
    "device.power_limit_default_w": "default power limit, W",
    "device.max_sm_clock_mhz": "maximum SM clock, MHz",
    "device.max_memory_clock_mhz": "maximum memory clock, MHz",
    "host.hostname": "host",
    "host.cpu_model": "host CPU",
    "host.cpu_count": "logical CPUs of the host",
    "host.affinity": "CPUs a job may run on",
    "host.cpu_quota_cpus": "quota of CPU time, CPUs",
    "host.kernel": "Linux kernel",
    "host.os": "operating system",
    "code.graphs_cu_sha256": "graphs.cu",
    "code.fatbin_sha256": "fatbin",
    "code.library_sha256": "library of native loops",
    "code.package_sha256": "measuring modules",
}


@dataclass(frozen=True)
class Facets:
    """What one job says of itself: texts by name, empty where not known."""

    told: dict[str, str]
    device: Device
    protocol: Protocol
    gaps: dict[tuple[str, str], str]
    """Launch path and kernel, or "" for all of them -> why that could not be measured."""

    @classmethod
    def of(cls, record: Record, site: str) -> Facets:
        """Those of a record that is filed under ``site``."""
        told = {"site": escaped(site)}
        for section in ("device", "host", "software", "code"):
            part: BaseModel = getattr(record, section)
            for name, value in part:
                if name not in _LEFT_OUT:
                    told[_NAMES.get(f"{section}.{name}", name.replace("_", " "))] = _text(name, value)
        # Framework and version, such as cupy 13.6.
        told |= {escaped(name): escaped(version) for name, version in record.frameworks.items()}
        gaps: dict[tuple[str, str], str] = {(path, ""): why for path, why in record.paths_not_measured.items()}
        for path, kernels in record.kernels_not_measured.items():
            gaps |= {(path, kernel): why for kernel, why in kernels.items()}
        return cls(told, record.device, record.protocol, gaps)


def differences(by_label: Iterable[tuple[str, Sequence[Facets], Sequence[Facets]]]) -> list[Difference]:
    """Every field in which the values of A and of B are not the same set.

    Args:
        by_label: label, facets of A's jobs and of B's; both sides of each have some.
    """
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    labels: list[str] = []
    for label, before, after in by_label:
        labels.append(label)
        for name in dict.fromkeys(name for facets in (*before, *after) for name in facets.told):
            values = [tuple(sorted({one.told.get(name, "") for one in side})) for side in (before, after)]
            if values[0] != values[1]:
                found.setdefault((name, values[0], values[1]), []).append(label)
    rank = {name: place for place, name in enumerate(_FIRST)}
    return [
        Difference(field=name, labels=[] if len(own) == len(labels) else own, before=list(old), after=list(new))
        for (name, old, new), own in sorted(found.items(), key=lambda item: rank.get(item[0][0], len(rank)))
    ]


def other_hardware(before: Device, after: Device) -> str:
    """Why two cards are not of one variant; empty where they are, as far as both records know."""
    pairs = [
        ("GPU", _variant_name(before), _variant_name(after)),
        ("compute capability", before.compute_capability, after.compute_capability),
        ("multiprocessors", before.multiprocessors, after.multiprocessors),
    ]
    told = [f"{name} {old} against {new}" for name, old, new in pairs if None not in (old, new) and old != new]
    sizes = before.memory_total_bytes, after.memory_total_bytes
    if sizes[0] and sizes[1] and max(sizes[0], sizes[1]) > (1 + MEMORY_WITHIN) * min(sizes[0], sizes[1]):
        told.append(f"memory {sizes[0] / 2**30:.0f} GiB against {sizes[1] / 2**30:.0f} GiB")
    limits = before.power_limit_w, after.power_limit_w
    if limits[0] is not None and limits[1] is not None and abs(limits[0] - limits[1]) > POWER_WITHIN_W:
        told.append(f"power limit {limits[0]:.0f} W against {limits[1]:.0f} W")
    return escaped(f"different hardware: {', '.join(told)}") if told else ""


def other_protocol(before: Protocol | None, after: Protocol | None, hashes: tuple[str, str]) -> str:
    """Why blocks of these protocols are not comparable, in the terms of the protocol."""
    text = f"different protocol: {hashes[0]} against {hashes[1]}"
    if before is None or after is None:
        return text
    old, new = before.model_dump(), after.model_dump()
    changed = [f"{name} {old[name]} against {new[name]}" for name in old if old[name] != new[name]]
    return f"{text} ({', '.join(changed)})" if changed else text


def _variant_name(device: Device) -> str:
    # Drivers before 470 left the maker's name out.
    name = device.name.removeprefix("NVIDIA ")
    return name if device.kind == "gpu" else f"{name} (MIG slice of {device.parent_name})"


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if name == "affinity" and isinstance(value, list):
        return ranges(value)
    if isinstance(value, list):
        return escaped(" ".join(map(str, value)))
    if name.endswith("_sha256"):
        return str(value)[:12]
    return escaped(str(value))
