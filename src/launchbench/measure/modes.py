"""The ways in which one block executes its N kernels, each bound to the placement that is being timed.

It issues and captures; it holds no clock but those of the one-off costs, and decides no order.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from launchbench.measure.driver import call, check, naming
from launchbench.measure.gate import Gate
from launchbench.measure.graphs import CoreGraphs, Costs, DriverGraphs, MovableGraph
from launchbench.measure.native import NativeLoops
from launchbench.measure.timing import Loop, make_loop, since_us
from launchbench.results.protocol import QUEUE_DEPTH

if TYPE_CHECKING:
    from cuda.core import Kernel, Stream

DEPENDENT_CAPABILITY = (9, 0)
"""Programmatic dependent launch needs compute capability 9.0 (CUDA C++ Programming Guide, that chapter)."""

GATED_COUNT = QUEUE_DEPTH // 2
"""Largest N that is issued behind a gate: with room to spare below the queue's depth."""

BATCH_NODES = 512
"""A replay of fewer nodes is also timed as many at once as make this many, for the events to resolve."""


def modes_of(launch_path: str, kernel: str, launch_count: int, capability: tuple[int, int]) -> dict[str, str]:
    """Mode -> why it cannot be timed here, empty where it can, in the order of ``protocol.MODES``.

    Only the native loop through the driver has more than loop and replay: the others would repeat it.
    """
    modes = {"loop": "", "replay": ""}
    if launch_path != "native-driver":
        return modes
    if launch_count < BATCH_NODES:
        modes["replay-batch"] = ""
    modes["replay-queued"] = ""
    past = f"N = {launch_count:,} is past what is issued behind a gate, {GATED_COUNT:,}"
    modes["queued"] = past if launch_count > GATED_COUNT else ""
    needs = "compute capability {}.{} has no programmatic dependent launch, 9.0 has".format(*capability)
    for mode in ("loop-dependent", "replay-dependent"):
        modes[mode] = "" if capability >= DEPENDENT_CAPABILITY else needs
    if kernel == "tiny":
        modes["fused-memory"] = modes["fused-register"] = ""
    return modes


def kernels_of(launch_paths: Sequence[str], kernels: Sequence[str]) -> list[str]:
    """Names of the kernels that blocks of these launch paths and kernels launch."""
    names = list(kernels)
    if "native-driver" in launch_paths:
        names += [f"{kernel}_dependent" for kernel in kernels] + ["gate"]
        names += ["fused_memory", "fused_register"] if "tiny" in kernels else []
    return names


_TRIED = "tried"  # a graph for trying what the driver may refuse: the plain one's costs are not to hold that

NATIVE_PATHS = ("native-driver", "native-runtime")
"""Their graphs are launched from C as well, with ``cuGraphLaunch``; the others' from Python."""


@dataclass
class Mode:
    """One way, bound to a placement.

    Attributes:
        name: one of ``protocol.MODES``.
        work: issues it.
        launches: kernels that increment, over the whole interval; a fused kernel counts as N.
        replays: graph launches in the interval, 0 in a loop.
        gate: closed before and opened after issuing.
    """

    name: str
    work: Loop
    launches: int
    replays: int = 0
    gate: Gate | None = None


class Block:
    """All modes of one launch path and kernel that can be timed here."""

    def __init__(
        self,
        launch_path: str,
        kernel: str,
        launch_count: int,
        names: Sequence[str],
        kernels: dict[str, Kernel],
        loops: NativeLoops,
        stream: Stream,
        make_loop: Callable[[str, int, int], Loop] | None = None,
    ) -> None:
        """With ``make_loop``, from kernel, address and N, it issues the loop of a framework."""
        self.launch_path = launch_path
        self.kernel = kernel
        self.launch_count = launch_count
        self.names = tuple(names)
        self.costs = Costs()
        self._kernels = kernels
        self._loops = loops
        self._native_loops = loops if launch_path in NATIVE_PATHS else None
        self._stream = stream
        self._make_loop = make_loop
        self._graphs: dict[str, MovableGraph] = {}
        self._gate: Gate | None = None
        self._open = contextlib.ExitStack()

    @contextlib.contextmanager
    def opened(self) -> Iterator[Block]:
        """Gate and graphs are released at the end, whatever happens."""
        with self._open:
            yield self

    def drop(self, names: Collection[str]) -> None:
        """Forget these modes, and what was made to try them."""
        if tried := self._graphs.pop(_TRIED, None):
            tried.close()
        self.names = tuple(name for name in self.names if name not in names)

    def loop_at(self, address: int) -> Loop:
        """The plain loop on this buffer."""
        if self._make_loop:
            return self._make_loop(self.kernel, address, self.launch_count)
        return make_loop(
            self.launch_path,
            self.kernel,
            self._kernels[self.kernel],
            self._loops,
            self._stream,
            address,
            self.launch_count,
        )

    def sample_costs(self, address: int) -> int:
        """Make the graph of the plain loop once more and replay it; the number of increments it makes."""
        with self._movable(self.loop_at(address), self.costs) as graph:
            start = time.perf_counter_ns()
            graph.replay().run()
            _synchronize(self._stream)
            self.costs.first_replay_us.append(since_us(start))
        return self.launch_count

    def at(self, address: int, names: Sequence[str]) -> list[Mode]:
        """These modes, working on this buffer."""
        plain, count = self.loop_at(address), self.launch_count
        modes = []
        for name in names:
            if name == "loop":
                modes.append(Mode(name, plain, count))
            elif name == "queued":
                modes.append(Mode(name, plain, count, gate=self._own_gate()))
            elif name == "replay":
                modes.append(Mode(name, self._graph("plain", plain).replay(), count, replays=1))
            elif name == "replay-queued":
                # One graph launch, so that no queue can be too short for it at any N.
                graph = self._graphs.get("plain") or self._graphs.get(_TRIED) or self._graph(_TRIED, plain)
                modes.append(Mode(name, graph.replay(), count, replays=1, gate=self._own_gate()))
            elif name == "replay-batch":
                replays = BATCH_NODES // count
                modes.append(Mode(name, self._graphs["plain"].batch(replays), count * replays, replays=replays))
            elif name == "loop-dependent":
                modes.append(Mode(name, self._native(f"{self.kernel}_dependent", "dependent", address), count))
            elif name == "replay-dependent":
                dependent = self._native(f"{self.kernel}_dependent", "dependent", address)
                modes.append(Mode(name, self._graph("dependent", dependent).replay(), count, replays=1))
            else:
                modes.append(Mode(name, self._native(name.replace("-", "_"), "fused", address), count))
        return modes

    def _own_gate(self) -> Gate:
        if self._gate is None:
            self._gate = self._open.enter_context(Gate(self._function("gate"), int(self._stream.handle)))
        return self._gate

    def _graph(self, name: str, loop: Loop) -> MovableGraph:
        if name in self._graphs:
            self._graphs[name].move(loop)
        else:
            # What the dependent one costs is not told apart: its one-off costs are not those of the plain loop.
            costs = self.costs if name == "plain" else Costs()
            self._graphs[name] = self._open.enter_context(self._movable(loop, costs))
        return self._graphs[name]

    def _movable(self, loop: Loop, costs: Costs) -> MovableGraph:
        maker = CoreGraphs() if self.launch_path == "cuda-python" else DriverGraphs()
        return MovableGraph(self._stream, loop, costs, self._native_loops, maker)

    def _native(self, function: str, kind: str, address: int) -> Loop:
        handle, stream = self._function(function), int(self._stream.handle)
        issue = self._loops.driver_loop(handle, stream, address, self.launch_count, kind)
        launch = "cuLaunchKernelEx" if kind == "dependent" else "cuLaunchKernel"
        return Loop(launch, issue, partial(check, launch))

    def _function(self, name: str) -> int:
        return int(call("cuKernelGetFunction", self._kernels[name].handle))


def _synchronize(stream: Stream) -> None:
    with naming("cuStreamSynchronize"):
        stream.sync()
