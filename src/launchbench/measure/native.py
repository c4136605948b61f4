"""The native issue loops of ``liblaunchloops.so``: N launches in one call, with no Python in between."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import check

Issue = Callable[[], int]
"""Issues one whole loop and returns a status; arguments are bound beforehand to keep Python out of the way."""


class NativeLoops:
    """The loaded library.

    Raises:
        LaunchbenchError: it is missing, built for another machine, or not this library.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(str(path.resolve()))
            self._driver = {
                kind: getattr(self._library, f"launchbench_issue_{kind}") for kind in ("driver", "dependent", "fused")
            }
            self._spin = self._library.launchbench_issue_spin
            self._runtime = {
                kernel: getattr(self._library, f"launchbench_issue_runtime_{kernel}") for kernel in ("tiny", "empty")
            }
        except (OSError, AttributeError) as error:
            raise LaunchbenchError(escaped(f"{path}: cannot be loaded: {error}")) from error
        for function in self._driver.values():
            function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint]
            function.restype = ctypes.c_int
        self._spin.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint, ctypes.c_uint64]
        self._spin.restype = ctypes.c_int
        for function in self._runtime.values():
            function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
            function.restype = ctypes.c_int

    def driver_loop(self, function: int, stream: int, buffer: int, launch_count: int, kind: str = "driver") -> Issue:
        """A loop of ``cuLaunchKernel``; all handles and the buffer are addresses as integers.

        ``kind`` may also be ``dependent``, where each launch depends by program on the one before
        (``cuLaunchKernelEx`` with programmatic stream serialization), or ``fused``: one launch that is told N.
        """
        loop = self._driver[kind]
        arguments = (
            ctypes.c_void_p(function),
            ctypes.c_void_p(stream),
            ctypes.c_uint64(buffer),
            ctypes.c_uint(launch_count),
        )
        return lambda: int(loop(*arguments))

    def spin_loop(self, function: int, stream: int, buffer: int, launch_count: int, cycles: int) -> Issue:
        """A loop of ``cuLaunchKernel`` of ``spin``, which runs for so many cycles."""
        loop = self._spin
        arguments = (
            ctypes.c_void_p(function),
            ctypes.c_void_p(stream),
            ctypes.c_uint64(buffer),
            ctypes.c_uint(launch_count),
            ctypes.c_uint64(cycles),
        )
        return lambda: int(loop(*arguments))

    def runtime_loop(self, kernel: str, stream: int, buffer: int, launch_count: int) -> Issue:
        """A loop of ``<<<>>>`` through the CUDA runtime, in the current primary context."""
        loop = self._runtime[kernel]
        arguments = (ctypes.c_void_p(stream), ctypes.c_void_p(buffer), ctypes.c_uint(launch_count))
        return lambda: int(loop(*arguments))


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
