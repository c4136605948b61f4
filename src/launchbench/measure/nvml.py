"""What NVML says of a GPU, each field asked on its own.

A query that a card, driver or container does not answer leaves ``None`` and its reason; it never stops a
measurement and never becomes 0. The GPU is found by UUID: NVML's and CUDA's indices need not agree.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from launchbench.config.messages import escaped
from launchbench.measure.host import load_average
from launchbench.results.record import DeviceState, OtherProcess, utc_text

CLOCK_EVENT_BITS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""nvmlClocksEventReasons of nvml.h."""

_NOT_AVAILABLE = (-1, 2**32 - 1, 2**64 - 1)

PSTATE_UNKNOWN = 32
"""NVML_PSTATE_UNKNOWN of nvml.h."""


@dataclass(frozen=True)
class Absent:
    """In place of the library or of a handle that could not be had: why."""

    reason: str


class Nvml:
    """A session with NVML for one GPU; use :func:`session`.

    Args:
        library: the module pynvml.
        handle: of the GPU or MIG slice: its memory and processes.
        parent: of the GPU, or the one that the slice is cut from: clocks, power and everything else.
        is_slice: whether they differ.
    """

    def __init__(self, library: Any, handle: Any, parent: Any, is_slice: bool) -> None:
        self._library = library
        self._handle = handle
        self._parent = parent
        self._is_slice = is_slice
        self._own_pids = {0, os.getpid()}

    def pids(self) -> set[int]:
        """Processes with a compute context on the GPU; empty where NVML does not say."""
        query = "nvmlDeviceGetComputeRunningProcesses"
        found = self._ask({}, "pids", query, self._handle, of=lambda rows: {int(row.pid) for row in rows})
        return found or set()

    def learn_own_pid(self, before: set[int]) -> None:
        """Tell this process from strangers, once its context exists.

        In another PID namespace the driver reports this process under a number that is not ``os.getpid()``:
        then the one process that has appeared since is this one.

        Args:
            before: ``pids()`` as it was before the context was created.
        """
        now = self.pids()
        appeared = now - before
        if os.getpid() not in now and len(appeared) == 1:
            self._own_pids |= appeared

    def _others(self, rows: list[Any]) -> list[OtherProcess]:
        return [
            OtherProcess(pid=int(row.pid), used_memory_bytes=None if _is_none(row.usedGpuMemory) else row.usedGpuMemory)
            for row in rows
            if int(row.pid) not in self._own_pids
        ]

    def _ask(
        self,
        missing: dict[str, str],
        field: str,
        query: str,
        *arguments: Any,
        of: Callable[[Any], Any] | None = None,
    ) -> Any:
        """One query; on any failure None, with the reason under ``missing[field]``."""
        absent = next((thing for thing in (self._library, *arguments) if isinstance(thing, Absent)), None)
        if absent is not None:
            missing[field] = absent.reason
            return None
        try:
            answer = getattr(self._library, query)(*arguments)
            found = (of or _plain)(answer)
            if _is_none(answer) or _is_none(found):
                raise ValueError("NVML answers that it has no value")
            return found
        except AttributeError:
            missing[field] = f"this pynvml has no {query}; the package is nvidia-ml-py"
        except UnicodeDecodeError:
            missing[field] = "answer is not UTF-8"
        except Exception as error:  # the library's errors have no common base with ctypes' ones
            missing[field] = _words(error)
        return None

    def facts(self) -> dict[str, Any]:
        """Fields of :class:`launchbench.results.record.Device` that NVML knows, with ``unavailable``."""
        missing: dict[str, str] = {}
        lib, gpu = self._library, self._parent
        ask = self._ask
        return {
            "driver_version": ask(missing, "driver_version", "nvmlSystemGetDriverVersion"),
            "parent_name": ask(missing, "parent_name", "nvmlDeviceGetName", gpu) if self._is_slice else None,
            "parent_uuid": ask(missing, "parent_uuid", "nvmlDeviceGetUUID", gpu) if self._is_slice else None,
            "vbios_version": ask(missing, "vbios_version", "nvmlDeviceGetVbiosVersion", gpu),
            "memory_total_bytes": ask(
                missing,
                "memory_total_bytes",
                "nvmlDeviceGetMemoryInfo",
                self._handle,
                of=lambda info: int(info.total),
            ),
            "max_sm_clock_mhz": ask(
                missing,
                "max_sm_clock_mhz",
                "nvmlDeviceGetMaxClockInfo",
                gpu,
                getattr(lib, "NVML_CLOCK_SM", 1),
            ),
            "max_memory_clock_mhz": ask(
                missing,
                "max_memory_clock_mhz",
                "nvmlDeviceGetMaxClockInfo",
                gpu,
                getattr(lib, "NVML_CLOCK_MEM", 2),
            ),
            "power_limit_w": ask(
                missing, "power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", gpu, of=lambda mw: mw / 1000
            ),
            "power_limit_default_w": ask(
                missing,
                "power_limit_default_w",
                "nvmlDeviceGetPowerManagementDefaultLimit",
                gpu,
                of=lambda mw: mw / 1000,
            ),
            "ecc_enabled": ask(missing, "ecc_enabled", "nvmlDeviceGetEccMode", gpu, of=lambda mode: bool(mode[0])),
            "mig_enabled": ask(missing, "mig_enabled", "nvmlDeviceGetMigMode", gpu, of=lambda mode: bool(mode[0])),
            "persistence_enabled": ask(
                missing, "persistence_enabled", "nvmlDeviceGetPersistenceMode", gpu, of=lambda mode: bool(_plain(mode))
            ),
            "pcie_generation": ask(missing, "pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", gpu),
            "pcie_width": ask(missing, "pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", gpu),
            "pcie_max_generation": ask(missing, "pcie_max_generation", "nvmlDeviceGetMaxPcieLinkGeneration", gpu),
            "pcie_max_width": ask(missing, "pcie_max_width", "nvmlDeviceGetMaxPcieLinkWidth", gpu),
            "unavailable": missing,
        }

    def state(self) -> DeviceState:
        """Clocks, throttle reasons, temperature, power and other processes, and the host's load, now."""
        missing: dict[str, str] = {}
        lib, gpu = self._library, self._parent
        ask = self._ask
        mask = ask(missing, "throttle_reasons_mask", "nvmlDeviceGetCurrentClocksEventReasons", gpu)
        if mask is None:  # its name before driver 535
            mask = ask({}, "", "nvmlDeviceGetCurrentClocksThrottleReasons", gpu)
        if mask is not None:
            missing.pop("throttle_reasons_mask", None)
        else:
            missing["throttle_reasons"] = missing["throttle_reasons_mask"]
        return DeviceState(
            taken_utc=utc_text(datetime.now(UTC)),
            sm_clock_mhz=ask(missing, "sm_clock_mhz", "nvmlDeviceGetClockInfo", gpu, getattr(lib, "NVML_CLOCK_SM", 1)),
            memory_clock_mhz=ask(
                missing, "memory_clock_mhz", "nvmlDeviceGetClockInfo", gpu, getattr(lib, "NVML_CLOCK_MEM", 2)
            ),
            throttle_reasons=None if mask is None else throttle_names(mask),
            throttle_reasons_mask=mask,
            performance_state=ask(
                missing, "performance_state", "nvmlDeviceGetPerformanceState", gpu, of=_performance_state
            ),
            temperature_c=ask(
                missing,
                "temperature_c",
                "nvmlDeviceGetTemperature",
                gpu,
                getattr(lib, "NVML_TEMPERATURE_GPU", 0),
            ),
            power_w=ask(missing, "power_w", "nvmlDeviceGetPowerUsage", gpu, of=lambda mw: mw / 1000),
            utilization_percent=ask(
                missing,
                "utilization_percent",
                "nvmlDeviceGetUtilizationRates",
                gpu,
                of=lambda rates: int(rates.gpu),
            ),
            used_memory_bytes=ask(
                missing,
                "used_memory_bytes",
                "nvmlDeviceGetMemoryInfo",
                self._handle,
                of=lambda info: int(info.used),
            ),
            other_processes=ask(
                missing,
                "other_processes",
                "nvmlDeviceGetComputeRunningProcesses",
                self._handle,
                of=self._others,
            ),
            load_average_1min=load_average(),
            unavailable=missing,
        )


def _performance_state(answer: Any) -> int:
    if answer == PSTATE_UNKNOWN:
        raise ValueError("NVML answers that it is unknown")
    return int(_plain(answer))


def throttle_names(mask: int) -> list[str]:
    """Names of the bits of a clock-event mask; bits that nvml.h does not name appear in hex."""
    names = [name for bit, name in CLOCK_EVENT_BITS.items() if mask & bit]
    unknown = mask & ~sum(CLOCK_EVENT_BITS)
    return names + ([f"unknown_{unknown:#x}"] if unknown else [])


def _plain(answer: Any) -> Any:
    if isinstance(answer, bytes):
        answer = answer.decode()
    if isinstance(answer, str):
        return escaped(answer.strip())
    if not isinstance(answer, int):
        raise TypeError(f"answer is of type {type(answer).__name__}")
    return answer


def _is_none(answer: Any) -> bool:
    """Whether a text is empty, or a number is NVML_VALUE_NOT_AVAILABLE (-1) of any width."""
    return answer == "" or (isinstance(answer, int) and answer in _NOT_AVAILABLE)


@contextlib.contextmanager
def session(uuid: str) -> Iterator[Nvml]:
    """NVML opened for the GPU or MIG slice of this UUID; where it cannot be, every field is unavailable."""
    is_slice = uuid.startswith("MIG-")
    try:
        import pynvml as library

        library.nvmlInit()
    except Exception as error:  # no library, no driver, a stranger's module: all mean "not available"
        nothing = Absent(f"NVML: {_words(error)}")
        yield Nvml(nothing, nothing, nothing, is_slice)
        return
    try:
        handle = _found(f"NVML does not know {uuid}", lambda: library.nvmlDeviceGetHandleByUUID(uuid))
        parent = handle
        if is_slice and not isinstance(handle, Absent):
            otherwise = f"NVML does not find the GPU of {uuid}"
            parent = _found(otherwise, lambda: library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle))
        yield Nvml(library, handle, parent, is_slice)
    finally:
        with contextlib.suppress(Exception):
            library.nvmlShutdown()


def _found(otherwise: str, query: Callable[[], Any]) -> Any:
    try:
        return query()
    except Exception as error:  # the library's errors have no common base with ctypes' ones
        return Absent(f"{otherwise}: {_words(error)}")


def _words(error: Exception) -> str:
    return escaped(" ".join(str(error).split())) or type(error).__name__
