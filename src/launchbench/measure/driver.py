"""The CUDA driver API where a call must be exact, with errors that name the call.

Everything that ``cuda.core`` does well is left to it; this is for memory that must come from
``cuMemAlloc`` and not from a pool, for device identity, and for readable errors.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from launchbench.errors import LaunchbenchError
from launchbench.series import SERIES, broken_driver

MISFIT_CODES = {
    200: "the driver cannot read the binary",
    209: "the binary has no code for this card",
    218: "the driver cannot compile the binary's PTX",
    222: "the binary's PTX is newer than the driver",
    803: "the installed user-mode driver does not match the kernel-mode driver",
    804: "this card is not supported by the forward-compatibility driver",
}
"""CUresult codes (cuda.h) with which loading a module says that driver, card and toolkit do not fit."""

INIT_CURES = {
    803: "restart the machine, as after an update of its driver",
    804: "take the forward-compatibility libcuda out of the library path",
}
"""What helps against the codes that end a process before it has asked for any module."""


OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY of cuda.h


class DriverError(LaunchbenchError):
    """A driver call that failed; ``code`` is its CUresult."""

    def __init__(self, call: str, code: int, name: str) -> None:
        self.call = call
        self.code = code
        hint = f"; {MISFIT_CODES[code]}" if code in MISFIT_CODES else ""
        if call == "cuInit" and code in INIT_CURES:
            hint += f": {INIT_CURES[code]}"
        if code == OUT_OF_MEMORY:
            hint = "; the card's memory is full: nvidia-smi lists who holds it"
        if code == 34:
            hint = "; the libcuda.so.1 that was found is a toolkit's stub: take its folder out of LD_LIBRARY_PATH"
        if code == 100:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            hint = f"; no visible GPU (CUDA_VISIBLE_DEVICES={'not set' if visible is None else repr(visible)})"
        super().__init__(f"{call} failed: {name} ({code}){hint}")


class NoDriverError(LaunchbenchError):
    """There is no CUDA driver on this machine."""

    def __init__(self) -> None:
        why = broken_driver() or "libcuda.so.1 not found"
        super().__init__(
            f"no NVIDIA driver on this machine ({why}): measuring needs a card; "
            "`make report-cached` renders the report from the results that are here"
        )


def call(name: str, *arguments: Any) -> Any:
    """Call ``cuda.bindings.driver.<name>`` and return its result without the status.

    Returns:
        None, the one value, or a tuple of values.

    Raises:
        NoDriverError: libcuda.so.1 is not there.
        DriverError: the call's status is not CUDA_SUCCESS.
    """
    from cuda.bindings import driver
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        status, *values = getattr(driver, name)(*arguments)
    except DynamicLibNotFoundError:
        raise NoDriverError from None
    except RuntimeError as error:
        # A driver older than the bindings lacks the symbol.
        raise LaunchbenchError(f"{name} failed: {' '.join(str(error).split())}") from error
    if int(status) != 0:
        raise DriverError(name, int(status), getattr(status, "name", "unknown CUresult"))
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def check(name: str, code: int) -> None:
    """Raise :class:`DriverError` for a status that a native loop has returned.

    Raises:
        DriverError: ``code`` is not 0.
    """
    if code == 0:
        return
    from cuda.bindings import driver

    try:
        text = driver.CUresult(code).name
    except ValueError:
        text = "unknown CUresult"
    raise DriverError(name, code, text)


@contextlib.contextmanager
def naming(*calls: str) -> Iterator[None]:
    """Turn an error of ``cuda.core`` inside the block into one line that names the driver call.

    Args:
        calls: what the block calls in the driver; several where ``cuda.core`` does not say which one failed.

    Raises:
        LaunchbenchError: ``cuda.core`` raised a CUDA error.
        NoDriverError: libcuda.so.1 is not there.
    """
    from cuda.core._utils.cuda_utils import CUDAError
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        yield
    except DynamicLibNotFoundError:
        raise NoDriverError from None
    except (CUDAError, RuntimeError) as error:
        raise core_error(error, *calls) from error


def core_error(error: Exception, *calls: str) -> LaunchbenchError:
    """An exception of ``cuda.core`` as one line: the driver call, the code by name and number."""
    from cuda.bindings.driver import CUresult

    text = " ".join(str(error).split())
    known = re.search(r"CUDA_ERROR_[A-Z0-9_]+", text)
    result = getattr(CUresult, known[0], None) if known else None
    if "CU_GRAPH_EXEC_UPDATE_" in text:  # the reason for the one code that goes with it
        result = CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
    if result is None and text.isascii() and text.isdigit():
        with contextlib.suppress(ValueError):
            result = CUresult(int(text))
    if result is None:
        return LaunchbenchError(f"{_one_of(calls)} failed: {text}")
    return DriverError(_one_of(calls), int(result), result.name)


def _one_of(calls: Sequence[str]) -> str:
    return calls[0] if len(calls) == 1 else f"{', '.join(calls[:-1])} or {calls[-1]}"


def driver_version() -> str:
    """Newest CUDA version that the installed driver runs, such as ``13.0``.

    Raises:
        NoDriverError: libcuda.so.1 is not there.
        DriverError: the call failed.
    """
    number = int(call("cuDriverGetVersion"))
    return f"{number // 1000}.{number % 1000 // 10}"


def require_series() -> None:
    """Refuse a cuda-python of a newer series than the driver's: what it then calls need not be what the driver has.

    Raises:
        LaunchbenchError: the two do not fit; says which cuda-python does.
        NoDriverError: libcuda.so.1 is not there.
        DriverError: the driver does not say its version.
    """
    from cuda.bindings import __version__ as bindings

    newest, series = driver_version(), int(bindings.partition(".")[0])
    driver = int(newest.partition(".")[0])
    if driver >= series:
        return
    cure = f"install a driver that runs CUDA {SERIES[0]} or newer"
    if driver in SERIES:
        pip = f"pip install 'cuda-python=={driver}.*'"
        cure = f"`make report CUDA={driver}`, or elsewhere `{pip}`, installs one that fits"
    raise LaunchbenchError(
        f"cuda-python {bindings} needs a driver that runs CUDA {series}, and this one runs up to {newest}: {cure}"
    )


class DeviceMemory:
    """A plain allocation in the current context, released on exit from the ``with`` block."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.address = int(call("cuMemAlloc", size_bytes))

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            call("cuMemFree", self.address)
            return
        # The error that ended the block says more than the failure to free after it.
        with contextlib.suppress(LaunchbenchError):
            call("cuMemFree", self.address)


def zero_float(address: int, stream: int) -> None:
    """Set one float at a device address to 0.0 and wait for it."""
    call("cuMemsetD32Async", address, 0, 1, stream)
    call("cuStreamSynchronize", stream)


def read_float(address: int, stream: int) -> float:
    """The float32 at a device address, after everything on the stream."""
    import numpy as np

    value = np.full(1, np.nan, dtype=np.float32)
    call("cuStreamSynchronize", stream)
    call("cuMemcpyDtoH", value.ctypes.data, address, value.nbytes)
    return float(value[0])
