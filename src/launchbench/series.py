"""Which series of CUDA packages, 12 or 13, fits the driver of this machine.

Nothing but the standard library: `make` runs this very file before anything is installed, and the Snakefile
imports it. cuda-python, nvcc and driver meet here; whether a binary fits a driver is decided by loading it.
"""

from __future__ import annotations

import ctypes
import sys
from importlib.metadata import PackageNotFoundError, version

SERIES = (12, 13)
"""Series of cuda-python that launchbench works with, each for drivers of its own number and newer ones."""


def driver_cuda_version() -> tuple[int, int] | None:
    """Newest CUDA version that the installed driver runs, such as (12, 4); None where there is no driver.

    Asked of libcuda itself, which needs neither cuda-python nor a card.
    """
    number = ctypes.c_int()
    try:
        status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return None
    # The library that toolkits bring for linking answers with an error.
    return None if status or number.value <= 0 else (number.value // 1000, number.value % 1000 // 10)


def broken_driver() -> str:
    """That the driver's library cannot be loaded, and why; empty where it can, or where it is not here at all."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        # The loader names the file that it does not find: this one, or one that this one needs.
        return "" if str(error).startswith("libcuda.so.1: cannot open") else f"libcuda.so.1 cannot be loaded: {error}"
    return ""


def installed_series() -> int | None:
    """Series of the cuda-python in this environment; None where it has none."""
    try:
        return int(version("cuda-bindings").partition(".")[0])
    except (PackageNotFoundError, ValueError):
        return None


def fitting_series(driver: tuple[int, int] | None, present: int | None = None) -> int:
    """The series to install: the newest that the driver can run, without one what is present already.

    Args:
        driver: as `driver_cuda_version` says; one that is too old for all gets the oldest series.
        present: series of an environment that is there.
    """
    if driver is None:
        return present if present in SERIES else SERIES[-1]
    return max((series for series in SERIES if series <= driver[0]), default=SERIES[0])


if __name__ == "__main__":
    print(fitting_series(driver_cuda_version(), int(sys.argv[1]) if sys.argv[1:] else None))
