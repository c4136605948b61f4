"""What becomes of NVML's answers, by a stand-in for its Python module: no NVML is loaded here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from launchbench.measure import nvml
from launchbench.measure.nvml import CLOCK_EVENT_BITS, session, throttle_names
from launchbench.results.record import Device

GPU_UUID = "GPU-12345678-9abc-def0-1234-56789abcdef0"
MIG_UUID = "MIG-abcdef01-9abc-def0-1234-56789abcdef0"
GIB = 2**30
PROCESS = SimpleNamespace(pid=77_777_777, usedGpuMemory=5 * GIB)


class NvmlError(Exception):
    """Has no base in common with other errors, as in the real module."""


class Library:
    """Answers like ``pynvml``; every query says for which handle it was asked."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": "parent",
            "nvmlSystemGetDriverVersion": "580.65.06",
            "nvmlDeviceGetName": "NVIDIA Fictional 9000",
            "nvmlDeviceGetUUID": GPU_UUID,
            "nvmlDeviceGetVbiosVersion": "96.00.01",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=16 * GIB, used=3 * GIB),
            "nvmlDeviceGetMaxClockInfo": lambda _, clock: {1: 1980, 2: 2619}[clock],
            "nvmlDeviceGetEnforcedPowerLimit": 70_500,
            "nvmlDeviceGetPowerManagementDefaultLimit": 75_000,
            "nvmlDeviceGetEccMode": [1, 0],
            "nvmlDeviceGetMigMode": [0, 1],
            "nvmlDeviceGetPersistenceMode": 1,
            "nvmlDeviceGetCurrPcieLinkGeneration": 1,
            "nvmlDeviceGetCurrPcieLinkWidth": 8,
            "nvmlDeviceGetMaxPcieLinkGeneration": 4,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetClockInfo": lambda _, clock: {1: 585, 2: 5001}[clock],
            "nvmlDeviceGetCurrentClocksEventReasons": 0x5,
            "nvmlDeviceGetPerformanceState": 8,
            "nvmlDeviceGetTemperature": 41,
            "nvmlDeviceGetPowerUsage": 12_345,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=3, memory=1),
            "nvmlDeviceGetComputeRunningProcesses": [PROCESS],
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml") or name not in self.answers:
            raise AttributeError(f"module 'pynvml' has no attribute {name!r}")

        def query(*arguments: Any) -> Any:
            self.asked.append((name, *arguments))
            answer = self.answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return query


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """The stand-in, in the place of ``pynvml``."""
    made = Library()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


FACTS: dict[str, tuple[str, Any]] = {
    "driver_version": ("nvmlSystemGetDriverVersion", "580.65.06"),
    "vbios_version": ("nvmlDeviceGetVbiosVersion", "96.00.01"),
    "memory_total_bytes": ("nvmlDeviceGetMemoryInfo", 16 * GIB),
    "max_sm_clock_mhz": ("nvmlDeviceGetMaxClockInfo", 1980),
    "max_memory_clock_mhz": ("nvmlDeviceGetMaxClockInfo", 2619),
    "power_limit_w": ("nvmlDeviceGetEnforcedPowerLimit", 70.5),
    "power_limit_default_w": ("nvmlDeviceGetPowerManagementDefaultLimit", 75.0),
    "ecc_enabled": ("nvmlDeviceGetEccMode", True),
    "mig_enabled": ("nvmlDeviceGetMigMode", False),
    "persistence_enabled": ("nvmlDeviceGetPersistenceMode", True),
    "pcie_generation": ("nvmlDeviceGetCurrPcieLinkGeneration", 1),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth", 8),
    "pcie_max_generation": ("nvmlDeviceGetMaxPcieLinkGeneration", 4),
    "pcie_max_width": ("nvmlDeviceGetMaxPcieLinkWidth", 16),
}
PARENT: dict[str, tuple[str, Any]] = {
    "parent_name": ("nvmlDeviceGetName", "NVIDIA Fictional 9000"),
    "parent_uuid": ("nvmlDeviceGetUUID", GPU_UUID),
}
STATE: dict[str, tuple[str, Any]] = {
    "sm_clock_mhz": ("nvmlDeviceGetClockInfo", 585),
    "memory_clock_mhz": ("nvmlDeviceGetClockInfo", 5001),
    "throttle_reasons": ("nvmlDeviceGetCurrentClocksEventReasons", ["gpu_idle", "sw_power_cap"]),
    "throttle_reasons_mask": ("nvmlDeviceGetCurrentClocksEventReasons", 5),
    "performance_state": ("nvmlDeviceGetPerformanceState", 8),
    "temperature_c": ("nvmlDeviceGetTemperature", 41),
    "power_w": ("nvmlDeviceGetPowerUsage", 12.345),
    "utilization_percent": ("nvmlDeviceGetUtilizationRates", 3),
    "used_memory_bytes": ("nvmlDeviceGetMemoryInfo", 3 * GIB),
    "other_processes": (
        "nvmlDeviceGetComputeRunningProcesses",
        [{"pid": PROCESS.pid, "used_memory_bytes": 5 * GIB}],
    ),
}
QUERIES = sorted({query for table in (FACTS, PARENT, STATE) for query, _ in table.values()})


def values(table: dict[str, tuple[str, Any]], failed: str = "") -> dict[str, Any]:
    return {field: None if query == failed else value for field, (query, value) in table.items()}


def facts_and_state(uuid: str = GPU_UUID) -> tuple[dict[str, Any], dict[str, Any]]:
    with session(uuid) as opened:
        facts, state = opened.facts(), opened.state().model_dump()
    assert state.pop("taken_utc").endswith("Z")
    assert state.pop("load_average_1min") >= 0  # which no library has to be there for
    return facts, state


def test_the_tables_above_have_every_query_that_is_made() -> None:
    source = Path(nvml.__file__).read_text(encoding="utf-8")
    older = {"nvmlDeviceGetCurrentClocksThrottleReasons"}
    assert sorted(set(re.findall(r'"(nvml\w+)"', source)) - older) == QUERIES


def test_a_driver_that_knows_clock_events_by_their_older_name(library: Library) -> None:
    library.answers["nvmlDeviceGetCurrentClocksEventReasons"] = NvmlError("Function Not Found")
    library.answers["nvmlDeviceGetCurrentClocksThrottleReasons"] = 0x28
    _, state = facts_and_state()
    assert (state["throttle_reasons"], state["throttle_reasons_mask"]) == (["hw_slowdown", "sw_thermal_slowdown"], 0x28)
    assert state["unavailable"] == {}


def test_the_installed_module_has_every_query_that_is_made() -> None:
    """The real one, which an old third-party package may shadow."""
    everything = [*QUERIES, *(name for name in Library().answers if name not in QUERIES)]
    assert [name for name in everything if not callable(getattr(pynvml, name, None))] == []
    for name in ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "NVML_TEMPERATURE_GPU"):
        assert getattr(pynvml, name) == getattr(Library, name)


def test_every_answer_lands_in_its_field(library: Library) -> None:
    facts, state = facts_and_state()
    assert facts == values(FACTS) | {"parent_name": None, "parent_uuid": None, "unavailable": {}}
    assert state == values(STATE) | {"unavailable": {}}
    assert library.asked[:2] == [("nvmlInit",), ("nvmlDeviceGetHandleByUUID", GPU_UUID)]
    assert library.asked[-1] == ("nvmlShutdown",)
    Device(name="x", uuid=GPU_UUID, compute_capability="9.0", virtual=False, **facts)


FAILURES: list[tuple[Exception, str]] = [
    (NvmlError("Not\nSupported "), "Not Supported"),
    (NvmlError(), "NvmlError"),
    (OSError("no such thing"), "no such thing"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "answer is not UTF-8"),
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("failure", "reason"), FAILURES, ids=["error", "no text", "OSError", "UTF-8"])
def test_a_query_that_fails_leaves_only_its_field_unknown(
    library: Library, query: str, failure: Exception, reason: str
) -> None:
    library.answers[query] = failure
    facts, state = facts_and_state(MIG_UUID)
    for found, table in ((facts, FACTS | PARENT), (state, STATE)):
        unknown = {field: reason for field, (its, _) in table.items() if its == query}
        assert found.pop("unavailable") == unknown
        assert found == values(table, failed=query)
    Device(name="x", uuid=MIG_UUID, compute_capability="9.0", virtual=False, **facts)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_an_old_module_lacks(library: Library, query: str) -> None:
    del library.answers[query]
    facts, state = facts_and_state(MIG_UUID)
    reasons = facts.pop("unavailable") | state.pop("unavailable")
    assert set(reasons.values()) == {f"this pynvml has no {query}; the package is nvidia-ml-py"}
    assert facts == values(FACTS | PARENT, failed=query)
    assert state == values(STATE, failed=query)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("nvmlSystemGetDriverVersion", ["driver_version"]),
        ("nvmlDeviceGetVbiosVersion", ["vbios_version"]),
        ("nvmlDeviceGetName", ["parent_name"]),
        ("nvmlDeviceGetUUID", ["parent_uuid"]),
    ],
)
def test_text_as_bytes(library: Library, query: str, fields: list[str]) -> None:
    """Older modules answer in bytes, some drivers in bytes that are no UTF-8."""
    library.answers[query] = "Größe".encode()
    facts, _ = facts_and_state(MIG_UUID)
    assert [facts[field] for field in fields] == ["Größe"]
    library.answers[query] = b"NVIDIA \xff\xfe"
    facts, _ = facts_and_state(MIG_UUID)
    assert [facts[field] for field in fields] == [None]
    assert facts["unavailable"] == dict.fromkeys(fields, "answer is not UTF-8")


@pytest.mark.parametrize(
    ("query", "answer", "reason"),
    [
        *((query, 2**32 - 1, "NVML answers that it has no value") for query in QUERIES if "Pcie" in query),
        ("nvmlDeviceGetPowerUsage", 2**32 - 1, "NVML answers that it has no value"),
        ("nvmlDeviceGetEnforcedPowerLimit", -1, "NVML answers that it has no value"),
        ("nvmlDeviceGetCurrentClocksEventReasons", 2**64 - 1, "NVML answers that it has no value"),
        ("nvmlDeviceGetMemoryInfo", SimpleNamespace(total=2**64 - 1, used=2**64 - 1), "NVML answers that it has no"),
        ("nvmlDeviceGetVbiosVersion", "", "NVML answers that it has no value"),
        ("nvmlDeviceGetVbiosVersion", b" ", "NVML answers that it has no value"),
        ("nvmlDeviceGetPerformanceState", 32, "NVML answers that it is unknown"),
    ],
)
def test_a_number_that_means_none_is_no_value(library: Library, query: str, answer: Any, reason: str) -> None:
    """NVML succeeds, and says so by NVML_VALUE_NOT_AVAILABLE or NVML_PSTATE_UNKNOWN."""
    library.answers[query] = answer
    facts, state = facts_and_state()
    for found, table in ((facts, FACTS), (state, STATE)):
        unavailable = found.pop("unavailable")
        assert set(unavailable) == {field for field, (its, _) in table.items() if its == query}
        assert all(reason in words for words in unavailable.values())
        assert values(table, failed=query).items() <= found.items()


def test_text_that_no_file_can_hold_is_written_out(library: Library) -> None:
    library.answers["nvmlDeviceGetVbiosVersion"] = "96\udcff\n1"
    library.answers["nvmlDeviceGetPowerUsage"] = NvmlError("lost \udcff")
    facts, state = facts_and_state()
    assert (facts["vbios_version"], state["unavailable"]["power_w"]) == (r"96\udcff\n1", r"lost \udcff")
    assert Device(name="x", uuid=GPU_UUID, compute_capability="9.0", virtual=False, **facts).model_dump_json()


def test_memory_of_a_process_that_is_not_told(library: Library) -> None:
    library.answers["nvmlDeviceGetComputeRunningProcesses"] = [
        SimpleNamespace(pid=999_999_999, usedGpuMemory=2**64 - 1)
    ]
    _, state = facts_and_state()
    assert state["other_processes"] == [{"pid": 999_999_999, "used_memory_bytes": None}]


@pytest.mark.parametrize("query", QUERIES)
def test_an_answer_of_another_kind_stops_nothing(library: Library, query: str) -> None:
    """What no version of NVML answers, so that nothing is assumed of the others."""
    library.answers[query] = object()
    facts, state = facts_and_state(MIG_UUID)
    expected = values(FACTS | PARENT, failed=query)
    assert {field: value for field, value in facts.items() if field in expected and value is not None} == {
        field: value for field, value in expected.items() if value is not None
    }
    for found, table in ((facts, FACTS | PARENT), (state, STATE)):
        assert set(found["unavailable"]) == {field for field, (its, _) in table.items() if its == query}


def test_without_constants_of_their_own_the_documented_numbers_are_used(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "NVML_TEMPERATURE_GPU"):
        monkeypatch.delattr(Library, name)
    facts, state = facts_and_state()
    assert facts["max_sm_clock_mhz"] == 1980 and state["memory_clock_mhz"] == 5001
    assert ("nvmlDeviceGetTemperature", "handle", 0) in library.asked


# --- opening


def nothing_known(uuid: str, reason: str, **but: str) -> None:
    with session(uuid) as opened:
        assert opened.pids() == set()
        opened.learn_own_pid(set())
    facts, state = facts_and_state(uuid)
    assert facts.pop("unavailable") == dict.fromkeys([name for name in FACTS if name not in but], reason)
    assert {name: facts.pop(name) for name in but} == but
    assert state.pop("unavailable") == dict.fromkeys(STATE, reason)
    assert set(facts.values()) == set(state.values()) == {None}


@pytest.mark.parametrize(
    ("failure", "reason"), [(NvmlError("Library\nNot Found"), "Library Not Found"), (NvmlError(), "NvmlError")]
)
def test_nvml_that_does_not_start(library: Library, failure: Exception, reason: str) -> None:
    library.answers["nvmlInit"] = failure
    nothing_known(GPU_UUID, f"NVML: {reason}")
    assert {name for name, *_ in library.asked} == {"nvmlInit"}


def test_the_real_module_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stand-in: whatever the installed module raises where libnvidia-ml.so is missing."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", lambda name: (_ for _ in ()).throw(OSError(f"{name}: not found")))
    nothing_known(GPU_UUID, "NVML: NVML Shared Library Not Found")


def test_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nothing_known(GPU_UUID, "NVML: import of pynvml halted; None in sys.modules")


def test_a_strangers_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace())
    nothing_known(GPU_UUID, "NVML: 'types.SimpleNamespace' object has no attribute 'nvmlInit'")


def test_a_uuid_that_nvml_does_not_know(library: Library) -> None:
    library.answers["nvmlDeviceGetHandleByUUID"] = NvmlError("Not Found")
    nothing_known(GPU_UUID, f"NVML does not know {GPU_UUID}: Not Found", driver_version="580.65.06")
    assert [name for name, *_ in library.asked].count("nvmlShutdown") == 2


def test_a_session_ends_also_after_an_error(library: Library) -> None:
    library.answers["nvmlShutdown"] = NvmlError("Uninitialized")
    with pytest.raises(ZeroDivisionError), session(GPU_UUID):
        raise ZeroDivisionError
    assert library.asked[-1] == ("nvmlShutdown",)


# --- slices


def test_a_slice_is_asked_for_memory_and_processes_and_its_gpu_for_the_rest(library: Library) -> None:
    facts, _ = facts_and_state(MIG_UUID)
    assert (facts["parent_name"], facts["parent_uuid"]) == ("NVIDIA Fictional 9000", GPU_UUID)
    asked = {(name, arguments[0]) for name, *arguments in library.asked if arguments}
    opening = {
        ("nvmlDeviceGetHandleByUUID", MIG_UUID),
        ("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", "handle"),
    }
    own = {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses"}
    rest = set(QUERIES) - own - {"nvmlSystemGetDriverVersion"}
    assert asked == opening | {(name, "handle") for name in own} | {(name, "parent") for name in rest}


def test_a_gpu_is_not_asked_for_a_parent(library: Library) -> None:
    facts_and_state(GPU_UUID)
    asked = {name for name, *_ in library.asked}
    assert not asked & {"nvmlDeviceGetDeviceHandleFromMigDeviceHandle", "nvmlDeviceGetName", "nvmlDeviceGetUUID"}


def test_a_slice_whose_gpu_is_not_told(library: Library) -> None:
    library.answers["nvmlDeviceGetDeviceHandleFromMigDeviceHandle"] = NvmlError("Not Supported")
    facts, state = facts_and_state(MIG_UUID)
    reason = f"NVML does not find the GPU of {MIG_UUID}: Not Supported"
    # What the slice itself answers stays; nothing of it is asked in place of its GPU.
    known = {"driver_version": "580.65.06", "memory_total_bytes": 16 * GIB}
    assert {name: value for name, value in facts.items() if value is not None and name != "unavailable"} == known
    assert facts["unavailable"] == dict.fromkeys(set(FACTS) - set(known) | {"parent_name", "parent_uuid"}, reason)
    assert (state["used_memory_bytes"], len(state["other_processes"])) == (3 * GIB, 1)
    assert (state["sm_clock_mhz"], state["power_w"], state["throttle_reasons"]) == (None, None, None)
    assert {state["unavailable"][name] for name in ("sm_clock_mhz", "power_w", "throttle_reasons")} == {reason}


# --- clock events


def test_names_of_clock_events() -> None:
    assert throttle_names(0) == []
    assert throttle_names(0x1 | 0x4 | 0x40) == ["gpu_idle", "sw_power_cap", "hw_thermal_slowdown"]
    assert throttle_names(0x200) == ["unknown_0x200"]
    assert throttle_names(0x8 | 0x1000 | 2**63) == ["hw_slowdown", "unknown_0x8000000000001000"]


def test_the_bits_are_those_of_the_installed_module() -> None:
    constants = {
        name.removeprefix("nvmlClocksEventReason").lower(): value
        for name, value in vars(pynvml).items()
        if re.fullmatch(r"nvmlClocksEventReason[A-Z]\w+", name)
    }
    for bit, name in CLOCK_EVENT_BITS.items():
        same = [constant for constant, value in constants.items() if value == bit]
        assert name.replace("_", "") in same or not same, (name, same)
    assert constants["swpowercap"] == 4


def test_no_clock_events_are_not_unknown_ones(library: Library) -> None:
    library.answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0
    _, state = facts_and_state()
    assert (state["throttle_reasons"], state["throttle_reasons_mask"], state["unavailable"]) == ([], 0, {})


# --- other processes


def rows(*pids: int) -> list[Any]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in pids]


def others(opened: nvml.Nvml) -> list[int] | None:
    found = opened.state().other_processes
    return None if found is None else [one.pid for one in found]


def test_this_process_and_the_kernel_are_no_strangers(library: Library) -> None:
    library.answers["nvmlDeviceGetComputeRunningProcesses"] = rows(0, os.getpid(), 999_999_999)
    with session(GPU_UUID) as opened:
        assert opened.pids() == {0, os.getpid(), 999_999_999}
        assert others(opened) == [999_999_999]
        found = opened.state().other_processes
    assert found is not None and found[0].used_memory_bytes is None


def test_nobody_else_is_an_empty_list(library: Library) -> None:
    library.answers["nvmlDeviceGetComputeRunningProcesses"] = rows(os.getpid())
    with session(GPU_UUID) as opened:
        assert others(opened) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [900_000_001], []),
        ([900_000_009], [900_000_009, 900_000_001], [900_000_009]),
        ([900_000_009], [900_000_001], []),
        # Two have appeared: none can be told to be this one, so both are told.
        ([], [900_000_001, 900_000_002], [900_000_001, 900_000_002]),
        # None has appeared.
        ([900_000_001], [900_000_001], [900_000_001]),
        ([], [], []),
    ],
)
def test_the_own_process_under_a_number_of_another_namespace(
    library: Library, before: list[int], after: list[int], expected: list[int]
) -> None:
    with session(GPU_UUID) as opened:
        library.answers["nvmlDeviceGetComputeRunningProcesses"] = rows(*before)
        strangers = opened.pids()
        library.answers["nvmlDeviceGetComputeRunningProcesses"] = rows(*after)
        opened.learn_own_pid(strangers)
        assert others(opened) == expected


def test_a_stranger_that_appears_beside_the_own_number_stays_one(library: Library) -> None:
    with session(GPU_UUID) as opened:
        library.answers["nvmlDeviceGetComputeRunningProcesses"] = rows(os.getpid(), 900_000_001)
        opened.learn_own_pid({os.getpid()})
        assert others(opened) == [900_000_001]


def test_processes_that_are_not_told_are_unknown_and_not_none(library: Library) -> None:
    library.answers["nvmlDeviceGetComputeRunningProcesses"] = NvmlError("Insufficient Permissions")
    with session(GPU_UUID) as opened:
        assert opened.pids() == set()
        opened.learn_own_pid(set())
        assert others(opened) is None
