"""One scenario of exercise 4 through cuda-python, in this process, told in the lines that ``lines`` reads.

    python -m launchbench.pointers.scenarios recycled --fatbin build/cuda/graphs.fatbin --device 0

``graphs --pointers`` does the same, call for call, through the CUDA runtime. No call that fails ends the program
before its answer is complete: what follows an error is the answer. One scenario loses the context, so a process
runs one scenario and no more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cuda

from launchbench.pointers.outcome import PROBE
from launchbench.results.pointers_words import SCENARIOS

SMALL_BYTES = 4
LARGE_BYTES = 64 << 20
"""Allocations of this size are mapped alone and unmapped when they are freed."""

NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING of cuda.h
CAPTURE_MODE = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL


class _StopError(Exception):
    pass


class Scenario:
    """The calls of one scenario, each said with its code."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._buffers: dict[str, int] = {}

    def run(self, fatbin: bytes, device: int) -> None:
        """Run it; values and addresses are said on the way.

        Raises:
            _StopError: it did not come about, because a call before the replay failed.
        """
        self._step("prepare")
        self._open(fatbin, device)
        self._allocate("d", LARGE_BYTES if self._name == "unmapped" else SMALL_BYTES)
        if self._name in ("unowned", "unmapped", "control"):
            self._allocate("d2")
        self._step("capture")
        executable = self._capture()
        self._step("first-replay")
        self._replay(executable)
        self._read("d", "captured")
        self._step("free")
        if self._name != "control":
            self._must("cuMemFree", self._buffers["d"])
        if self._name == "victim":
            self._allocate("victim")
        if "d2" not in self._buffers:
            self._allocate("d2")
        self._step("replay")
        self._replay(executable, must=False)
        self._step("after")
        for name in ("d", "d2", "victim"):
            if name in self._buffers and (name != "d" or self._name == "control"):
                self._read(name, name, must=False)
        self._allocate(PROBE, must=False)
        self._release(executable)

    def _open(self, fatbin: bytes, device: int) -> None:
        self._must("cuInit", 0)
        handle = self._must("cuDeviceGet", device)
        digits = bytes(self._must("cuDeviceGetUuid", handle).bytes).hex()
        _say(f"device GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}")
        self._must("cuCtxSetCurrent", self._must("cuDevicePrimaryCtxRetain", handle))
        library = self._must("cuLibraryLoadData", fatbin, [], [], 0, [], [], 0)
        self._function = self._must("cuKernelGetFunction", self._must("cuLibraryGetKernel", library, b"tiny"))
        self._stream = self._must("cuStreamCreate", NON_BLOCKING)

    def _allocate(self, name: str, size_bytes: int = SMALL_BYTES, must: bool = True) -> None:
        address = self._call("cuMemAlloc", size_bytes, must=must)
        if address is None:
            return
        self._buffers[name] = int(address)
        _say(f"address {name} {int(address):#x}")
        self._call("cuMemsetD32Async", address, 0, 1, self._stream, must=must)
        self._call("cuStreamSynchronize", self._stream, must=must)

    def _capture(self) -> Any:
        argument = np.array([self._buffers["d"]], dtype=np.uint64)
        arguments = np.array([argument.ctypes.data], dtype=np.uint64)
        self._must("cuStreamBeginCapture", self._stream, CAPTURE_MODE)
        self._must("cuLaunchKernel", self._function, 1, 1, 1, 1, 1, 1, 0, self._stream, arguments.ctypes.data, 0)
        return self._must("cuGraphInstantiate", self._must("cuStreamEndCapture", self._stream), 0)

    def _replay(self, executable: Any, must: bool = True) -> None:
        self._call("cuGraphLaunch", executable, self._stream, must=must)
        self._call("cuStreamSynchronize", self._stream, must=must)

    def _read(self, buffer: str, name: str, must: bool = True) -> None:
        value = np.full(1, np.nan, dtype=np.float32)
        if self._call("cuMemcpyDtoH", value.ctypes.data, self._buffers[buffer], value.nbytes, must=must) is not None:
            _say(f"value {name} {value[0]:.9g}")

    def _release(self, executable: Any) -> None:
        self._step("release")
        for name, address in self._buffers.items():
            if name != "d" or self._name == "control":
                self._call("cuMemFree", address, must=False)
        self._call("cuGraphExecDestroy", executable, must=False)
        self._call("cuStreamDestroy", self._stream, must=False)

    def _must(self, name: str, *arguments: Any) -> Any:
        return self._call(name, *arguments, must=True)

    def _call(self, name: str, *arguments: Any, must: bool) -> Any:
        """What the call returns, () without a value; None where it failed and need not succeed."""
        status, *values = getattr(cuda, name)(*arguments)
        _say(f"call {name} {int(status)} {getattr(status, 'name', 'unknown')}")
        if int(status) == 0:
            return values[0] if values else ()
        if must:
            raise _StopError
        return None

    def _step(self, name: str) -> None:
        _say(f"step {name}")


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """Run one scenario; 0 when it came to its end, whatever the calls said, 1 when it did not come about."""
    parser = argparse.ArgumentParser(description="One scenario of exercise 4.")
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--fatbin", type=Path, required=True)
    parser.add_argument("--device", type=int, default=0)
    arguments = parser.parse_args()
    try:
        Scenario(arguments.scenario).run(arguments.fatbin.read_bytes(), arguments.device)
    except _StopError:
        return 1
    _say(f"complete {arguments.scenario} 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
