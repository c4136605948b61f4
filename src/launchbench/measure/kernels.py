"""The compiled kernels on one card, and what helps where card, driver and toolkit do not fit together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from launchbench.errors import LaunchbenchError
from launchbench.measure import provenance
from launchbench.measure.cards import Card
from launchbench.measure.driver import MISFIT_CODES, DriverError, call, driver_version, naming

if TYPE_CHECKING:
    from cuda.core import Device as CudaDevice
    from cuda.core import Kernel

OLDEST_OF_CUDA_13 = (7, 5)
"""Compute capability of the oldest cards that CUDA 13 builds for, by its release notes; CUDA 12.9 also knows sm_50."""


def become_current(card: Card) -> CudaDevice:
    """The card as cuda.core's device, its primary context current in this thread.

    Raises:
        LaunchbenchError: a CUDA call failed.
    """
    from cuda.core import Device as CudaDevice

    with naming("cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"):
        device = CudaDevice(card.index)
        device.set_current()
    return device


def load_kernels(binaries: Path, card: Card, names: Iterable[str]) -> dict[str, Kernel]:
    """Kernels by name, loaded now rather than at the first launch, so that a misfit shows before any timing.

    Raises:
        LaunchbenchError: the driver does not take them, says why and what helps; or a CUDA call failed.
    """
    from cuda.core import ObjectCode

    try:
        with naming("cuLibraryLoadData", "cuLibraryGetKernel"):
            code = ObjectCode.from_fatbin((binaries / "graphs.fatbin").read_bytes(), name="graphs")
            kernels: dict[str, Kernel] = {name: code.get_kernel(name) for name in names}
        for kernel in kernels.values():
            call("cuKernelGetFunction", kernel.handle)
    except OSError as error:
        raise LaunchbenchError(f"{error.filename}: {error.strerror}; `launchbench build` makes it") from error
    except DriverError as error:
        if error.code not in MISFIT_CODES:
            raise
        raise LaunchbenchError(f"{error}; {_misfit(error.code, binaries, card)}") from error
    return kernels


def _misfit(code: int, binaries: Path, card: Card) -> str:
    """Toolkit, driver and card where they do not fit, and what helps."""
    manifest = provenance.read_manifest(binaries)
    target = "sm_{}{}".format(*card.compute_capability)
    newest = driver_version()
    return (
        f"the binary was built by nvcc {manifest.nvcc.version} for {', '.join(manifest.architectures)} "
        f"and PTX of the newest, the driver runs CUDA up to {newest}, {card.name} is {target}: "
        + _cure(code, card, manifest, newest)
    )


def _cure(code: int, card: Card, manifest: provenance.Manifest, newest: str) -> str:
    target = "sm_{}{}".format(*card.compute_capability)
    older = f"install a newer driver, or build with an nvcc not newer than {newest}"
    nvcc, driver = (int(version.partition(".")[0]) for version in (manifest.nvcc.version, newest))
    if code == 803:
        return "restart the machine, as after an update of its driver"
    if code == 804:
        return "take the forward-compatibility libcuda out of the library path"
    if nvcc >= 13 and card.compute_capability < OLDEST_OF_CUDA_13:
        return f"CUDA 13 no longer knows {target}: add it to architectures and run `make report CUDA=12`"
    if nvcc > driver:
        return f"install a newer driver, or build with an nvcc of CUDA {driver} (on PATH or in CUDA_HOME)"
    if target not in (name.rstrip("af") for name in manifest.architectures):
        # Machine code of a newer toolkit runs within a series; only PTX does not.
        return f"add {target} to architectures" + ("" if code == 209 else f", {older}")
    if code == 209:
        return f"the code for {target} is not taken: run `launchbench build` again, or install a newer driver"
    return older
