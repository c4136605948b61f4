"""What the stand-ins share: a launch on the virtual GPU, and what goes wrong with it."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from pathlib import Path
from typing import Any

from cuda.bindings import driver

FAULT, _, AFTER = os.environ.get("LAUNCHBENCH_TEST_FRAMEWORK", "").partition(":")
launches = itertools.count(1)


class OwnError(Exception):
    """Frameworks have error classes of their own."""


@functools.cache
def function(name: str) -> Any:
    image = Path(os.environ["LAUNCHBENCH_TEST_FATBIN"]).read_bytes()
    status, library = driver.cuLibraryLoadData(image, [], [], 0, [], [], 0)
    assert status == 0
    status, kernel = driver.cuLibraryGetKernel(library, name.encode())
    assert status == 0
    status, found = driver.cuKernelGetFunction(kernel)
    assert status == 0
    return found


def launch(name: str, stream: int, address: int) -> None:
    number = next(launches)
    if FAULT == "raises" and number > int(AFTER or 0):
        raise OwnError("no\nkernel image\tis available")
    if FAULT == "omits" and number == int(AFTER):
        return
    queue = driver.CUstream(0 if FAULT == "elsewhere" else stream)
    if FAULT == "synchronizes":
        [status] = driver.cuStreamSynchronize(queue)
        if status:
            raise OwnError(f"synchronize: {status.name}")
    arguments = ((ctypes.c_void_p(address),), (ctypes.c_void_p,))
    [status] = driver.cuLaunchKernel(function(name), 1, 1, 1, 1, 1, 1, 0, queue, arguments, 0)
    if status:
        raise OwnError(f"launch: {status.name}")


def described(interface: dict[str, Any]) -> int:
    """The address in a CUDA array interface of one float32."""
    assert interface["shape"] == (1,) and interface["typestr"] == "<f4" and interface["strides"] is None
    address, read_only = interface["data"]
    assert read_only is False and interface["version"] == 3 and "stream" not in interface
    return int(address)
