"""A gate that holds a stream until all launches are issued, so that the device's own pace shows.

A kernel polls a word in the host's memory. It gives up after a while by the device's clock: with more launches
than the queue holds the host would wait for the device, and the device for the host, for ever.
"""

from __future__ import annotations

import contextlib
import ctypes

from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import call

LIMIT_MS = 500
"""Longer than any loop that a gate is put before takes to issue; a stream is never held for longer."""

_WORDS = 2
_MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP of cuda.h


class Gate:
    """Two words of mapped host memory and the kernel that watches the first one.

    Args:
        function: handle of the kernel ``gate`` of ``graphs.cu``.
        stream: handle of the stream it holds.

    Raises:
        LaunchbenchError: the memory cannot be had.
    """

    def __init__(self, function: int, stream: int) -> None:
        self._function = function
        self._stream = stream
        size_bytes = _WORDS * ctypes.sizeof(ctypes.c_uint)
        self._host = int(call("cuMemHostAlloc", size_bytes, _MAPPED))
        self._words = (ctypes.c_uint * _WORDS).from_address(self._host)
        self._device = int(call("cuMemHostGetDevicePointer", self._host, 0))

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.open()
        if kind is None:
            call("cuMemFreeHost", self._host)
            return
        with contextlib.suppress(LaunchbenchError):
            call("cuMemFreeHost", self._host)

    def close(self) -> None:
        """Hold the stream; the gate must not be closed yet."""
        self._words[0] = self._words[1] = 0
        values = (self._device, LIMIT_MS * 1_000_000)
        types = (ctypes.c_void_p, ctypes.c_ulonglong)
        call("cuLaunchKernel", self._function, 1, 1, 1, 1, 1, 1, 0, self._stream, (values, types), 0)

    def open(self) -> None:
        """Let the stream go on."""
        self._words[0] = 1

    def gave_up(self) -> bool:
        """Whether the stream went on before it was let; to be asked after a synchronize."""
        return bool(self._words[1])
