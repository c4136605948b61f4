"""Timing of one block: a loop of N launches against replay of the graph captured from it.

Knows the device and the clock, but no file, no NVML and no Snakemake. The intervals:

``gpu_us``    between two events recorded on the stream directly before and after the work
``issue_us``  host clock (``time.perf_counter_ns``) from before the first launch call until the last returned
``total_us``  the same start, until the stream was synchronized after the second event
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import DriverError, call, core_error, naming, read_float, zero_float
from launchbench.measure.native import NativeLoops, check_driver, check_runtime
from launchbench.results.protocol import FLOAT32_EXACT_COUNT, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuda.core import Device, Event, Stream
    from cuda.core import Kernel as DeviceKernel

    from launchbench.measure.gate import Gate

FLOAT_BYTES = 4

ONE_OFF_SAMPLES = 7
"""Graphs made one after another for the one-off costs, after one that is thrown away."""

INSTANTIATION = (
    "cuGraphInstantiateWithParams",
    "cuUserObjectCreate",
    "cuGraphRetainUserObject",
    "cuGraphReleaseUserObject",
)
"""What ``cuda.core`` calls to make an executable graph, which owns what the captured launches refer to."""


@dataclass(frozen=True)
class Loop:
    """One launch path bound to a kernel, stream, buffer and N.

    Attributes:
        call: driver call that a launch makes.
        issue: issues the whole loop and returns a status.
        check: raises for such a status.
    """

    call: str
    issue: Callable[[], Any]
    check: Callable[[Any], None]

    def run(self) -> None:
        """Issue the loop and raise if a launch failed."""
        with naming(self.call):
            self.check(self.issue())


@dataclass
class OneOff:
    """Host times in microseconds of what is done once for each graph, one sample for each graph."""

    capture_us: list[float] = field(default_factory=list)
    instantiate_us: list[float] = field(default_factory=list)
    upload_us: list[float] = field(default_factory=list)
    first_replay_us: list[float] = field(default_factory=list)


@dataclass
class BlockTiming:
    """What timing one block yields."""

    one_off: OneOff
    warmup_rounds_run: int
    expected_count: int
    observed_count: int
    repetitions: list[dict[str, Any]] = field(default_factory=list)

    def frame(self, launch_count: int, launch_path: str, kernel: str) -> pd.DataFrame:
        """Rows of ``columns.RAW``."""
        frame = pd.DataFrame(self.repetitions)
        frame.insert(0, "kernel", kernel)
        frame.insert(0, "launch_path", launch_path)
        frame.insert(0, "launch_count", launch_count)
        return frame


class Counter:
    """Expected against observed increments of the float that ``tiny`` counts in.

    float32 counts exactly only up to 2**24, so the buffer is read and zeroed before it gets there; the sums
    are kept here, as integers. The control kernel must leave the buffer at zero.
    """

    def __init__(self, address: int, stream: int, per_launch: int) -> None:
        self._address = address
        self._stream = stream
        self._per_launch = per_launch
        self._pending = 0
        self.expected = 0
        self.observed = 0
        zero_float(address, stream)

    def before(self, launches: int) -> None:
        """Announce launches that are about to be issued; may synchronize."""
        if self._pending + launches > FLOAT32_EXACT_COUNT:
            self.settle()
        self._pending += launches
        self.expected += launches * self._per_launch

    def settle(self) -> None:
        """Read the buffer into ``observed`` and zero it.

        Raises:
            LaunchbenchError: the buffer does not hold a whole count.
        """
        seen = read_float(self._address, self._stream)
        if not (seen >= 0 and seen.is_integer()):
            raise LaunchbenchError(f"the buffer holds {seen}; expected a count of launches")
        self.observed += int(seen)
        zero_float(self._address, self._stream)
        self._pending = 0


def make_loop(
    launch_path: str,
    kernel_name: str,
    kernel: DeviceKernel,
    loops: NativeLoops,
    stream: Stream,
    address: int,
    launch_count: int,
) -> Loop:
    """The loop of one launch path.

    Args:
        launch_path: one of ``protocol.LAUNCH_PATHS``.
        kernel_name: one of ``protocol.KERNELS``.
        kernel: the same kernel, from the fatbin.
        loops: the native library.
        stream: every launch goes here.
        address: device address of the float.
        launch_count: N.

    Raises:
        LaunchbenchError: unknown launch path.
    """
    handle = int(stream.handle)
    if launch_path == "native-driver":
        issue = loops.driver_loop(_function_handle(kernel), handle, address, launch_count)
        return Loop("cuLaunchKernel", issue, check_driver)
    if launch_path == "native-runtime":
        issue = loops.runtime_loop(kernel_name, handle, address, launch_count)
        return Loop("<<<>>>", issue, check_runtime)
    if launch_path == "cuda-python":
        return _cuda_python_loop(kernel, stream, address, launch_count)
    raise LaunchbenchError(f"unknown launch path {launch_path!r}")


def _function_handle(kernel: DeviceKernel) -> int:
    # cuda.core loads libraries (CUkernel); cuLaunchKernel takes one cast to CUfunction, but the function of
    # the current context spares every launch the look-up.
    return int(call("cuKernelGetFunction", kernel.handle))


def _cuda_python_loop(kernel: DeviceKernel, stream: Stream, address: int, launch_count: int) -> Loop:
    from cuda.core import Buffer, LaunchConfig, launch

    buffer = Buffer.from_handle(address, FLOAT_BYTES)
    config = LaunchConfig(grid=1, block=1)

    def issue() -> None:
        for _ in range(launch_count):
            launch(stream, config, kernel, buffer)

    return Loop("cuLaunchKernelEx", issue, lambda _: None)


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """No collection inside a timed interval: it would be Python's time, not the launch's."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _since_us(start_ns: int) -> float:
    return (time.perf_counter_ns() - start_ns) / 1e3


def time_block(
    device: Device,
    stream: Stream,
    loop: Loop,
    counts: int,
    launch_count: int,
    address: int,
    protocol: Protocol,
    progress: Callable[[str, int, int | None], None] = lambda what, done, of: None,
    one_off_samples: int = ONE_OFF_SAMPLES,
) -> BlockTiming:
    """Capture, verify and time one block.

    Args:
        device: current device, of ``stream``.
        stream: the stream that ``loop`` issues on.
        loop: issues ``launch_count`` launches.
        counts: increments one launch makes, 1 for ``tiny`` and 0 for ``empty``.
        launch_count: N.
        address: device address of the float that the launches work on.
        protocol: repetitions and warm-up.
        progress: is told between two intervals what is being done and how many are done, of how many if known.
        one_off_samples: graphs to sample the one-off costs of, at least 1.

    Raises:
        LaunchbenchError: a CUDA call failed, or the buffer does not hold a count.
    """
    from cuda.core import EventOptions

    handle = int(stream.handle)
    options = EventOptions(timing_enabled=True)
    try:
        with naming("cuEventCreate"):
            first, second = device.create_event(options), device.create_event(options)
    except DriverError:
        raise
    except LaunchbenchError:
        # cuda.core does not hand the code on: the driver is asked for an event once more, to hear it.
        call("cuEventDestroy", call("cuEventCreate", 0))
        raise
    counter = Counter(address, handle, counts)

    # One loop outside the capture: kernels are loaded lazily, at their first launch.
    counter.before(launch_count)
    loop.run()
    _synchronize(stream)

    one_off = OneOff()
    with contextlib.ExitStack() as stack:
        stack.callback(second.close)
        stack.callback(first.close)
        stack.enter_context(without_garbage_collection())
        # What only the first graph of a process, launch path or size pays, is paid by one that nothing is kept of.
        _make_graph(stream, loop, launch_count, counter, OneOff()).close()
        for number in range(one_off_samples):
            progress("one-off costs", number, one_off_samples)
            graph = _make_graph(stream, loop, launch_count, counter, one_off)
            if number < one_off_samples - 1:
                graph.close()
        stack.callback(graph.close)
        repetitions, rounds = _repeat(stream, loop, graph, (first, second), launch_count, counter, protocol, progress)
        counter.settle()
    return BlockTiming(
        one_off=one_off,
        warmup_rounds_run=rounds,
        expected_count=counter.expected,
        observed_count=counter.observed,
        repetitions=repetitions,
    )


def _make_graph(stream: Stream, loop: Loop, launch_count: int, counter: Counter, one_off: OneOff) -> Any:
    """Capture, instantiate, upload and replay once, each timed into ``one_off``."""
    graph, capture_us, instantiate_us = _capture(stream, loop)
    try:
        start = time.perf_counter_ns()
        with naming("cuGraphUpload"):
            graph.upload(stream)
        _synchronize(stream)
        upload_us = _since_us(start)

        counter.before(launch_count)
        start = time.perf_counter_ns()
        with naming("cuGraphLaunch"):
            graph.launch(stream)
        _synchronize(stream)
        first_replay_us = _since_us(start)
    except LaunchbenchError:
        graph.close()
        raise
    one_off.capture_us.append(capture_us)
    one_off.instantiate_us.append(instantiate_us)
    one_off.upload_us.append(upload_us)
    one_off.first_replay_us.append(first_replay_us)
    return graph


def _capture(stream: Stream, loop: Loop) -> tuple[Any, float, float]:
    start = time.perf_counter_ns()
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
    capture_us = _since_us(start)
    start = time.perf_counter_ns()
    with naming(*INSTANTIATION):
        graph = builder.complete()
    instantiate_us = _since_us(start)
    builder.close()
    return graph, capture_us, instantiate_us


def _synchronize(stream: Stream) -> None:
    with naming("cuStreamSynchronize"):
        stream.sync()


def _repeat(
    stream: Stream,
    loop: Loop,
    graph: Any,
    events: tuple[Event, Event],
    launch_count: int,
    counter: Counter,
    protocol: Protocol,
    progress: Callable[[str, int, int | None], None],
) -> tuple[list[dict[str, Any]], int]:
    """Warm up, then time; loop and replay alternate, and so does which of them goes first."""
    begun = time.perf_counter_ns()
    timer = Timer(stream, events, begun)
    replay = Loop("cuGraphLaunch", partial(graph.launch, stream), lambda _: None)

    def one_round(number: int) -> list[dict[str, Any]]:
        counter.before(2 * launch_count)
        modes = [("loop", loop), ("replay", replay)]
        if number % 2:
            modes.reverse()
        return [
            {"mode": mode, "repetition": number, "order": order, **timer.time(work)}
            for order, (mode, work) in enumerate(modes)
        ]

    rounds = 0
    while rounds < protocol.warmup_rounds or _since_us(begun) < protocol.warmup_ms * 1e3:
        one_round(rounds)
        rounds += 1
        progress("warm-up rounds", rounds, None)
    rows = []
    for number in range(protocol.repetitions):
        rows += one_round(number)
        progress("repetitions", number + 1, protocol.repetitions)
    return rows, rounds


class Timer:
    """Times one piece of work by the events and by the host clock, in one go."""

    def __init__(self, stream: Stream, events: tuple[Event, Event], begun_ns: int) -> None:
        from cuda.core._utils.cuda_utils import CUDAError

        self._stream = stream
        self._first, self._second = events
        self._begun_ns = begun_ns
        self._errors = (CUDAError, RuntimeError)

    def time(self, work: Loop, gate: Gate | None = None) -> dict[str, float]:
        """Microseconds of one interval; with a gate nothing starts on the device before all is issued."""
        stream, issue, clock, launch = self._stream, work.issue, time.perf_counter_ns, work.call
        under_way = "cuEventRecord"
        if gate:
            gate.close()
        try:
            stream.record(self._first)
            under_way = launch
            start = clock()
            status = issue()
            issued = clock()
            under_way = "cuEventRecord"
            stream.record(self._second)
            if gate:
                gate.open()
            under_way = "cuStreamSynchronize"
            stream.sync()
            done = clock()
            under_way = "cuEventElapsedTime"
            gpu_us = (self._second - self._first) * 1e3
        except self._errors as error:
            raise core_error(error, under_way) from error
        work.check(status)
        if gate and gate.gave_up():
            gpu_us = math.nan  # the launches were not all queued when the first one began
        return {
            "start_us": round((start - self._begun_ns) / 1e3, 3),
            "gpu_us": round(gpu_us, 4),
            "issue_us": (issued - start) / 1e3,
            "total_us": (done - start) / 1e3,
        }
