"""What a captured graph consists of, asked of the driver: the launches of a step are counted, not reckoned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from launchbench.measure.driver import call

_PREFIX = "CU_GRAPH_NODE_TYPE_"


@dataclass
class Counted:
    """Kernel nodes, and all nodes by kind; ``reason`` where they cannot be asked for."""

    launches: int | None = None
    nodes: dict[str, int] = field(default_factory=dict)
    reason: str | None = None


def count_nodes(graph: int) -> Counted:
    """Nodes of a graph by kind.

    Args:
        graph: its handle, a ``cudaGraph_t`` as a number; the runtime's graphs are the driver's.

    Raises:
        LaunchbenchError: the driver refused.
    """
    from cuda.bindings import driver

    raw = driver.CUgraph(graph)
    _, count = call("cuGraphGetNodes", raw, 0)
    nodes = call("cuGraphGetNodes", raw, count)[0] if count else []
    kinds = Counter(call("cuGraphNodeGetType", node).name.removeprefix(_PREFIX).lower() for node in nodes)
    return Counted(launches=kinds.get("kernel", 0), nodes=dict(sorted(kinds.items())))
