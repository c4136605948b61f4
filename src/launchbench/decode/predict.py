"""What a decode step should take, from the costs of its parts. Formulas only: asks no device, needs no PyTorch.

Assumptions, all of them approximations: an operation costs the host what it costs among one piece of each other kind,
layer by layer; a kernel takes the device as long in a row of its kind as in the step; the first kernel's latency is
lost among hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launchbench.results.decode import StepPart, StoredCosts


@dataclass(frozen=True)
class Predicted:
    """Times of one step, in microseconds."""

    host_us: float
    device_us: float
    eager_us: float
    graph_us: float
    bare_eager_us: float | None
    bare_graph_us: float | None


def predict(launches: int, parts: Sequence[StepPart], stored: StoredCosts | None) -> Predicted:
    """Times of a step of so many launches.

    - replay: the sum of the parts' replays, in which kernels follow each other at the pace of nodes.
    - device, once the launches are queued: that, and for each launch what a queued one costs more than a node
      (stored, else taken as nothing).
    - host: the sum of issuing the parts, by turns as a layer has them: in a row of their kind they cost less.
    - eager: a pipeline of these two at its steady state, so the slower one.

    Where the parts have fewer or more launches than the step, their sums are scaled to its number.
    The bare figures are the sheet's own reckoning, launches x cost of a launch: kernels that take no time, issued
    without PyTorch.

    Args:
        launches: kernel nodes of the captured step.
        parts: with at least one launch among them.
        stored: costs of a launch on the same card and host.

    Raises:
        ValueError: the parts have no launch.
    """
    counted = sum(part.launches for part in parts)
    if counted == 0:
        raise ValueError("the parts have no launch")
    scale = launches / counted
    host = scale * sum(part.host_us for part in parts)
    graph = scale * sum(part.device_us for part in parts)
    dearer = max(0.0, stored.queued_us - stored.node_us) if stored and stored.queued_us is not None else 0.0
    device = graph + launches * dearer
    return Predicted(
        host_us=host,
        device_us=device,
        eager_us=max(host, device),
        graph_us=graph,
        bare_eager_us=launches * stored.issue_us if stored else None,
        bare_graph_us=launches * stored.node_us if stored else None,
    )
