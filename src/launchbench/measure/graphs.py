"""Executable graphs of one loop whose buffer can be changed, and what making them costs the host.

Made through the driver API, as a C++ program makes them. ``cuda.core`` ties what its launches refer to to the graph as
a user object (``cuGraphRetainUserObject``), and a graph with one takes longer from launch to first node: 1.1 us on an
H200, driver 580.159.04. Launches issued through ``cuda.core`` are captured and replayed by it all the same: that is
what its users pay.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import DriverError, call, check, naming
from launchbench.measure.native import NativeLoops
from launchbench.measure.timing import Loop, since_us

if TYPE_CHECKING:
    from cuda.core import Stream

UPDATE_REFUSED = 910  # CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE of cuda.h

INSTANTIATION = (
    "cuGraphInstantiateWithParams",
    "cuUserObjectCreate",
    "cuGraphRetainUserObject",
    "cuGraphReleaseUserObject",
)
"""What ``cuda.core`` calls to make an executable graph, which owns what the captured launches refer to."""


@dataclass
class Costs:
    """Host times in microseconds of what is done once a graph, a sample each."""

    capture_us: list[float] = field(default_factory=list)
    instantiate_us: list[float] = field(default_factory=list)
    upload_us: list[float] = field(default_factory=list)
    first_replay_us: list[float] = field(default_factory=list)
    recapture_us: list[float] = field(default_factory=list)
    update_us: list[float] = field(default_factory=list)
    graph_bytes: list[int] = field(default_factory=list)
    refused_updates: int = 0


class Maker(Protocol):
    """One interface that graphs are made through; graphs and executable graphs are what it made itself."""

    def capture(self, stream: Stream, loop: Loop) -> Any:
        """The graph of a loop, captured in mode ``global``."""

    def release(self, graph: Any) -> None:
        """Release a graph."""

    def instantiate(self, graph: Any) -> Any:
        """An executable graph."""

    def upload(self, executable: Any, stream: Stream) -> None:
        """Bring it to the device."""

    def update(self, executable: Any, graph: Any) -> None:
        """Give it the parameters of this graph."""

    def launcher(self, executable: Any, stream: Stream) -> Callable[[], Any]:
        """Launches it from Python; what it returns is for `check`."""

    def check(self, status: Any) -> None:
        """Raise for what a launch has returned."""

    def handle(self, executable: Any) -> int:
        """Its address."""

    def destroy(self, executable: Any) -> None:
        """Release an executable graph."""


class DriverGraphs:
    """Graphs by ``cuda.bindings.driver``."""

    def capture(self, stream: Stream, loop: Loop) -> Any:
        """A ``CUgraph``."""
        from cuda.bindings.driver import CUstreamCaptureMode

        handle = int(stream.handle)
        call("cuStreamBeginCapture", handle, CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
        try:
            loop.run()
        except LaunchbenchError:
            # The error of the launch says more than that of the end of a capture which it has invalidated.
            with contextlib.suppress(LaunchbenchError):
                call("cuGraphDestroy", call("cuStreamEndCapture", handle))
            raise
        return call("cuStreamEndCapture", handle)

    def release(self, graph: Any) -> None:
        """By ``cuGraphDestroy``."""
        call("cuGraphDestroy", graph)

    def instantiate(self, graph: Any) -> Any:
        """A ``CUgraphExec``, without flags."""
        return call("cuGraphInstantiate", graph, 0)

    def upload(self, executable: Any, stream: Stream) -> None:
        """By ``cuGraphUpload``."""
        call("cuGraphUpload", executable, int(stream.handle))

    def update(self, executable: Any, graph: Any) -> None:
        """By ``cuGraphExecUpdate``."""
        call("cuGraphExecUpdate", executable, graph)

    def launcher(self, executable: Any, stream: Stream) -> Callable[[], Any]:
        """Returns the status in a tuple, as the bindings do."""
        from cuda.bindings import driver

        return partial(driver.cuGraphLaunch, executable, driver.CUstream(int(stream.handle)))

    def check(self, status: Any) -> None:
        """Raise for the status in the tuple."""
        check("cuGraphLaunch", int(status[0]))

    def handle(self, executable: Any) -> int:
        """Its address."""
        return int(executable)

    def destroy(self, executable: Any) -> None:
        """By ``cuGraphExecDestroy``."""
        call("cuGraphExecDestroy", executable)


class CoreGraphs:
    """Graphs by ``cuda.core``."""

    def capture(self, stream: Stream, loop: Loop) -> Any:
        """A ``GraphBuilder`` that has ended."""
        with naming("cuStreamGetCaptureInfo", "cuStreamBeginCapture"):
            builder = stream.create_graph_builder()
            builder.begin_building(mode="global")
        try:
            loop.run()
        except LaunchbenchError:
            # The error of the launch says more than that of the end of a capture which it has invalidated.
            with contextlib.suppress(LaunchbenchError), naming("cuStreamEndCapture"):
                builder.end_building()
            raise
        with naming("cuStreamGetCaptureInfo", "cuStreamEndCapture"):
            builder.end_building()
        return builder

    def release(self, graph: Any) -> None:
        """Closes the builder."""
        graph.close()

    def instantiate(self, graph: Any) -> Any:
        """A ``Graph``."""
        with naming(*INSTANTIATION):
            return graph.complete()

    def upload(self, executable: Any, stream: Stream) -> None:
        """By ``Graph.upload``."""
        with naming("cuGraphUpload"):
            executable.upload(stream)

    def update(self, executable: Any, graph: Any) -> None:
        """By ``Graph.update``."""
        with naming("cuGraphExecUpdate"):
            executable.update(graph)

    def launcher(self, executable: Any, stream: Stream) -> Callable[[], Any]:
        """Raises where a launch fails."""
        return partial(executable.launch, stream)

    def check(self, status: Any) -> None:
        """Nothing: a launch that fails raises."""

    def handle(self, executable: Any) -> int:
        """Its address."""
        return int(executable.handle)

    def destroy(self, executable: Any) -> None:
        """Closes it."""
        with naming("cuGraphExecDestroy"):
            executable.close()


class MovableGraph:
    """An executable graph of one loop whose buffer can be changed: capture anew, then ``cuGraphExecUpdate``.

    Released on exit from a ``with`` block.
    """

    def __init__(
        self, stream: Stream, loop: Loop, costs: Costs, loops: NativeLoops | None = None, maker: Maker | None = None
    ) -> None:
        """With ``loops`` it is launched natively, as a native loop is; ``maker`` is the driver API by default."""
        self._stream = stream
        self._loops = loops
        self._costs = costs
        self._maker = maker or DriverGraphs()
        self._executable: Any = None
        start = time.perf_counter_ns()
        graph = self._maker.capture(stream, loop)
        costs.capture_us.append(since_us(start))
        with self._released(graph):
            self._make(graph, costs)

    def __enter__(self) -> MovableGraph:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            return
        # The error that ended the block says more than the failure to release after it.
        with contextlib.suppress(LaunchbenchError):
            self.close()

    @contextlib.contextmanager
    def _released(self, graph: Any) -> Iterator[None]:
        release = partial(self._maker.release, graph)
        try:
            yield
        except BaseException:
            for each in (self.close, release):
                with contextlib.suppress(LaunchbenchError):
                    each()
            raise
        try:
            release()
        except LaunchbenchError:
            with contextlib.suppress(LaunchbenchError):
                self.close()
            raise

    def _make(self, graph: Any, costs: Costs) -> None:
        before = _unused_bytes()
        start = time.perf_counter_ns()
        self._executable = self._maker.instantiate(graph)
        costs.instantiate_us.append(since_us(start))
        start = time.perf_counter_ns()
        self._maker.upload(self._executable, self._stream)
        with naming("cuStreamSynchronize"):
            self._stream.sync()
        costs.upload_us.append(since_us(start))
        costs.graph_bytes.append(max(0, before - _unused_bytes()))

    def move(self, loop: Loop) -> None:
        """Make it replay this loop instead, which differs in the buffer only."""
        start = time.perf_counter_ns()
        graph = self._maker.capture(self._stream, loop)
        self._costs.recapture_us.append(since_us(start))
        start = time.perf_counter_ns()
        with self._released(graph):
            try:
                self._maker.update(self._executable, graph)
                self._costs.update_us.append(since_us(start))
            except DriverError as error:
                if error.code != UPDATE_REFUSED:
                    raise
                # The loop differs in nothing but its buffer, so no driver should say so; where one does, the graph is
                # made anew, and the replays that follow are warmed up like any others.
                self._costs.refused_updates += 1
                # Some drivers say it once more at the next call; a context that is lost says so at every one.
                with contextlib.suppress(LaunchbenchError):
                    call("cuCtxSynchronize")
                self.close()
                self._make(graph, Costs())

    def replay(self) -> Loop:
        """One graph launch."""
        if self._loops:
            return self.batch(1)
        return Loop("cuGraphLaunch", self._maker.launcher(self._executable, self._stream), self._maker.check)

    def batch(self, replays: int) -> Loop:
        """So many graph launches in a row, of a graph that is launched natively."""
        assert self._loops
        issue = self._loops.replays(self._maker.handle(self._executable), int(self._stream.handle), replays)
        return Loop("cuGraphLaunch", issue, partial(check, "cuGraphLaunch"))

    def close(self) -> None:
        """Release it; once more is nothing."""
        executable, self._executable = self._executable, None
        if executable is not None:
            self._maker.destroy(executable)


def _unused_bytes() -> int:
    return int(call("cuMemGetInfo")[0])
