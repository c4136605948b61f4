"""What jobs of every extra kind are asked for, and what their records say alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launchbench.measure import provenance
from launchbench.measure.cards import Card
from launchbench.measure.host import host_facts, slurm_facts
from launchbench.measure.job import describe_device
from launchbench.measure.nvml import Nvml
from launchbench.results.extra_files import new_extra_id
from launchbench.results.record import utc_text


@dataclass(frozen=True)
class Request:
    """What to do and where it goes.

    Attributes:
        label: GPU type that is asked for.
        card: short UUID of one certain card, or None for any of that type.
        site: folder under the results.
        binaries: folder with the products of ``launchbench build``.
    """

    label: str
    card: str | None
    site: str
    binaries: Path


def shared_fields(
    kind: str, request: Request, card: Card, session: Nvml, started: datetime, modules: Sequence[str]
) -> dict[str, Any]:
    """Fields of an ``ExtraRecord`` at the end of a job, without ``before`` and ``after``.

    Args:
        kind: of the job.
        request: what it was asked for.
        card: that it ran on.
        session: NVML's of that card.
        started: when it began.
        modules: those that decide its numbers.

    Raises:
        LaunchbenchError: the binaries are not those that their manifest describes.
    """
    return {
        "run_id": new_extra_id(kind, card.id, started),
        "site": request.site,
        "label": request.label,
        "started_utc": utc_text(started),
        "finished_utc": utc_text(datetime.now(UTC)),
        "device": describe_device(card, session),
        "host": host_facts(card.pci_bus_id),
        "software": provenance.software(request.binaries),
        "code": provenance.code(request.binaries, modules),
        "slurm": slurm_facts(),
    }
