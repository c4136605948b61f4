"""Who made a result, as the tables tell it, and when, as they sort it: the same for jobs of all kinds."""

from __future__ import annotations

from typing import Any

import pandas as pd

from launchbench.results.extra_files import ExtraResult
from launchbench.results.files import Result
from launchbench.results.record import Host, card_id
from launchbench.wording import one_line


def identity(result: Result | ExtraResult[Any]) -> dict[str, Any]:
    """The columns of ``columns.IDENTITY`` without the protocol hash."""
    record = result.record
    return {
        "site": one_line(result.site),
        "label": record.label,
        "card": card_id(record.device.uuid),
        "gpu_name": one_line(record.device.name),
        "gpu_uuid": one_line(record.device.uuid),
        "hostname": one_line(record.host.hostname),
        "cpu_model": _cpu(record.host),
        "driver_version": one_line(record.device.driver_version or ""),
        "nvcc": one_line(record.software.nvcc),
        "virtual": record.device.virtual,
        "run_id": record.run_id,
        "started_utc": record.started_utc,
    }


def _cpu(host: Host) -> str:
    """Model, number, and what of it the job had: neither virtual machines of one name and model with other numbers of
    CPUs are alike, nor a job bound to one CPU and a free one, nor hosts with other governors.
    """
    model = one_line(host.cpu_model or "")
    usable = len(host.affinity or ())
    told = [
        f"{host.cpu_count} CPUs" if host.cpu_count else "",
        f"{usable} usable" if usable and usable != host.cpu_count else "",
        f"time of {host.cpu_quota_cpus:.3g}" if host.cpu_quota_cpus else "",
        f"governor {one_line(host.governor)}" if host.governor else "",
    ]
    return ", ".join([model, *filter(None, told)]) if model else model


def moments(started_utc: pd.Series[Any]) -> pd.Series[Any]:
    """The column ``started_utc`` as moments: as text, "...00Z" sorts after "...00.5Z"; NaT where it is none."""
    return pd.to_datetime(started_utc, format="ISO8601", utc=True, errors="coerce")
