"""The native issue loops of ``liblaunchloops.so``: N launches in one call, with no Python in between."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import check

_POINTER, _ADDRESS, _COUNT = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint
_KERNEL_LOOP = (_POINTER, _POINTER, _ADDRESS, _COUNT)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "driver": _KERNEL_LOOP,
    "dependent": _KERNEL_LOOP,
    "fused": _KERNEL_LOOP,
    "spin": (*_KERNEL_LOOP, ctypes.c_uint64),
    "runtime_tiny": (_POINTER, _POINTER, _COUNT),
    "runtime_empty": (_POINTER, _POINTER, _COUNT),
    "replay": (_POINTER, _POINTER, _COUNT),
}
"""Loop -> types of its arguments, as in ``graphs.cu``."""


class Interval(ctypes.Structure):
    """``Interval`` of ``graphs.cu``: two events on a stream, and the host clock around what was issued between them.

    ``recorded`` is the CUresult of recording the events.
    """

    _fields_ = (
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("begin_ns", ctypes.c_longlong),
        ("issued_ns", ctypes.c_longlong),
        ("recorded", ctypes.c_int),
    )


class NativeIssue:
    """Issues one whole loop and returns a status; arguments are bound beforehand.

    ``clock_ns`` is the clock that an `Interval` is read from.
    """

    def __init__(
        self,
        untimed: Callable[..., int],
        timed: Callable[..., int],
        clock_ns: Callable[[], int],
        arguments: tuple[Any, ...],
    ) -> None:
        self._untimed, self._timed, self._arguments = untimed, timed, arguments
        self.clock_ns = clock_ns

    def __call__(self) -> int:
        """Issue it, untimed."""
        return self._untimed(*self._arguments)

    def timed(self, interval: Interval) -> Callable[[], int]:
        """The same between the events of this interval, which are recorded in the same native call."""
        return partial(self._timed, ctypes.byref(interval), *self._arguments)


class NativeLoops:
    """The loaded library.

    Raises:
        LaunchbenchError: it is missing, built for another machine, or not this library.
    """

    def __init__(self, path: Path) -> None:
        self._untimed: dict[str, Any] = {}
        self._timed: dict[str, Any] = {}
        try:
            library = ctypes.CDLL(str(path.resolve()))
            self._clock_ns = library.launchbench_host_ns
            self._clock_ns.restype = ctypes.c_longlong
            for name, types in _ARGUMENTS.items():
                self._untimed[name] = getattr(library, f"launchbench_issue_{name}")
                self._timed[name] = getattr(library, f"launchbench_time_{name}")
                self._untimed[name].argtypes = types
                self._timed[name].argtypes = (ctypes.c_void_p, *types)
        except (OSError, AttributeError) as error:
            raise LaunchbenchError(escaped(f"{path}: cannot be loaded: {error}")) from error

    def _bound(self, name: str, *values: int) -> NativeIssue:
        arguments = tuple(kind(value) for kind, value in zip(_ARGUMENTS[name], values, strict=True))
        return NativeIssue(self._untimed[name], self._timed[name], self._clock_ns, arguments)

    def driver_loop(
        self, function: int, stream: int, buffer: int, launch_count: int, kind: str = "driver"
    ) -> NativeIssue:
        """A loop of ``cuLaunchKernel``; all handles and the buffer are addresses as integers.

        ``kind`` may also be ``dependent``, where each launch depends by program on the one before
        (``cuLaunchKernelEx`` with programmatic stream serialization), or ``fused``: one launch that is told N.
        """
        return self._bound(kind, function, stream, buffer, launch_count)

    def spin_loop(self, function: int, stream: int, buffer: int, launch_count: int, cycles: int) -> NativeIssue:
        """A loop of ``cuLaunchKernel`` of ``spin``, which runs for so many cycles."""
        return self._bound("spin", function, stream, buffer, launch_count, cycles)

    def runtime_loop(self, kernel: str, stream: int, buffer: int, launch_count: int) -> NativeIssue:
        """A loop of ``<<<>>>`` through the CUDA runtime, in the current primary context."""
        return self._bound(f"runtime_{kernel}", stream, buffer, launch_count)

    def replays(self, graph: int, stream: int, count: int) -> NativeIssue:
        """So many ``cuGraphLaunch`` of one executable graph, whose handle is an address as an integer."""
        return self._bound("replay", graph, stream, count)


def check_driver(code: int) -> None:
    """Raise for a status of :meth:`NativeLoops.driver_loop`."""
    check("cuLaunchKernel", code)


def check_runtime(code: int) -> None:
    """Raise for a status of :meth:`NativeLoops.runtime_loop`, a cudaError_t.

    Raises:
        LaunchbenchError: ``code`` is not 0.
    """
    if code != 0:
        raise LaunchbenchError(f"<<<>>> through the CUDA runtime failed: cudaError_t {code}")
