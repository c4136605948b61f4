"""What a timed interval is, and the loops of launches that are timed.

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import DriverError, call, check, core_error, naming, read_float, zero_float
from launchbench.measure.native import Interval, NativeIssue, NativeLoops, check_driver, check_runtime
from launchbench.results.protocol import FLOAT32_EXACT_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuda.core import Device, Event, Stream
    from cuda.core import Kernel as DeviceKernel

    from launchbench.measure.gate import Gate

FLOAT_BYTES = 4

ONE_OFF_SAMPLES = 7
"""Graphs made one after another for the one-off costs, after one that is thrown away."""


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
    if launch_path == "cuda-bindings":
        return _cuda_bindings_loop(kernel, handle, address, launch_count)
    if launch_path == "cuda-python":
        return _cuda_python_loop(kernel, stream, address, launch_count)
    raise LaunchbenchError(f"unknown launch path {launch_path!r}")


def _function_handle(kernel: DeviceKernel) -> int:
    # cuda.core loads libraries (CUkernel); cuLaunchKernel takes one cast to CUfunction, but the function of
    # the current context spares every launch the look-up.
    return int(call("cuKernelGetFunction", kernel.handle))


def _cuda_bindings_loop(kernel: DeviceKernel, stream: int, address: int, launch_count: int) -> Loop:
    import numpy as np
    from cuda.bindings import driver

    # kernelParams of cuda.h: an array of pointers to the arguments, made once and kept while launches read it.
    argument = np.array([address], np.uint64)
    packed = np.array([argument.ctypes.data], np.uint64)
    function, queue = driver.CUfunction(_function_handle(kernel)), driver.CUstream(stream)
    launch, parameters = driver.cuLaunchKernel, int(packed.ctypes.data)

    def issue(_kept: object = (argument, packed)) -> int:
        for _ in range(launch_count):
            status = launch(function, 1, 1, 1, 1, 1, 1, 0, queue, parameters, 0)[0]
            if status:
                return int(status)
        return 0

    return Loop("cuLaunchKernel", issue, check_driver)


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


def since_us(start_ns: int) -> float:
    """Microseconds of the host clock since a reading of ``time.perf_counter_ns``."""
    return (time.perf_counter_ns() - start_ns) / 1e3


def timing_events(device: Device) -> tuple[Event, Event]:
    """Two events that intervals are taken between.

    Raises:
        LaunchbenchError: they cannot be had.
    """
    from cuda.core import EventOptions

    options = EventOptions(timing_enabled=True)
    try:
        with naming("cuEventCreate"):
            return device.create_event(options), device.create_event(options)
    except DriverError:
        raise
    except Exception:
        # cuda.core does not hand the code on: the driver is asked for an event once more, to hear it.
        call("cuEventDestroy", call("cuEventCreate", 0))
        raise


class Timer:
    """Times one piece of work by the events and by the host clock, in one go.

    What a native loop issues is also timed natively: with Python between the events an interval of a few launches
    would be several percent longer than that of a C++ program.
    """

    def __init__(self, stream: Stream, events: tuple[Event, Event], begun_ns: int) -> None:
        from cuda.core._utils.cuda_utils import CUDAError

        self._stream = stream
        self._first, self._second = events
        self._begun_ns = begun_ns
        self._errors = (CUDAError, RuntimeError)
        self._interval = Interval(int(self._first.handle), int(self._second.handle), int(stream.handle))

    def time(self, work: Loop, gate: Gate | None = None) -> dict[str, float]:
        """Microseconds of one interval; with a gate nothing starts on the device before all is issued."""
        if gate:
            gate.close()
        if isinstance(work.issue, NativeIssue):
            start, issue_us, total_us = self._natively(work, work.issue, gate)
        else:
            start, issue_us, total_us = self._here(work, gate)
        with naming("cuEventElapsedTime"):
            gpu_us = (self._second - self._first) * 1e3
        if gate and gate.gave_up():
            gpu_us = math.nan  # the launches were not all queued when the first one began
        return {
            "start_us": round((start - self._begun_ns) / 1e3, 3),
            "gpu_us": round(gpu_us, 4),
            "issue_us": issue_us,
            "total_us": total_us,
        }

    def _here(self, work: Loop, gate: Gate | None) -> tuple[int, float, float]:
        stream, issue, clock, launch = self._stream, work.issue, time.perf_counter_ns, work.call
        under_way = "cuEventRecord"
        status: Any = None
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
        except self._errors as error:
            # A launch that failed says more than what fails after it; checked earlier, it would lengthen the interval.
            if status is not None:
                work.check(status)
            raise core_error(error, under_way) from error
        work.check(status)
        return start, (issued - start) / 1e3, (done - start) / 1e3

    def _natively(self, work: Loop, native: NativeIssue, gate: Gate | None) -> tuple[int, float, float]:
        interval, stream, clock = self._interval, self._stream, native.clock_ns
        issue = native.timed(interval)
        start = time.perf_counter_ns()
        status = issue()
        if gate:
            gate.open()
        if status or interval.recorded:
            check("cuEventRecord", interval.recorded)
            work.check(status)
        try:
            stream.sync()
            done = clock()
        except self._errors as error:
            raise core_error(error, "cuStreamSynchronize") from error
        begun = interval.begin_ns
        return start, (interval.issued_ns - begun) / 1e3, (done - begun) / 1e3
