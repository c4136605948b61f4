"""The timer: a native loop's interval lies in the native call alone, and any other's around the call from here."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import DriverError
from launchbench.measure.native import Interval, NativeIssue, check_driver
from launchbench.measure.timing import Loop, Timer

pytest.importorskip("cuda.core")  # whose errors the timer translates


class Event:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __sub__(self, _: Event) -> float:
        return 0.25  # milliseconds


class Stream:
    handle = 3

    def __init__(self) -> None:
        self.did: list[str] = []

    def record(self, event: Event) -> None:
        self.did.append(f"record {event.handle}")

    def sync(self) -> None:
        self.did.append("sync")


def timed_by(recorded: int, status: int = 0) -> Any:
    """What the library does when it times: it fills the interval in."""

    def timed(reference: Any, count: int) -> int:
        interval = ctypes.cast(reference, ctypes.POINTER(Interval)).contents
        assert (interval.first, interval.second, interval.stream, count) == (1, 2, 3, 64)
        interval.begin_ns, interval.issued_ns, interval.recorded = 5_000, 12_500, recorded
        return status

    return timed


def loop(timed: Any) -> Loop:
    def untimed(*_: object) -> int:
        raise AssertionError("issued without being timed")

    return Loop("cuLaunchKernel", NativeIssue(untimed, timed, lambda: 25_000, (64,)), check_driver)


def test_a_native_loop_is_timed_by_the_library_and_its_clock() -> None:
    stream = Stream()
    times = Timer(stream, (Event(1), Event(2)), 0).time(loop(timed_by(0)))  # type: ignore[arg-type]
    assert stream.did == ["sync"], "the events are recorded natively"
    assert (times["issue_us"], times["total_us"], times["gpu_us"]) == (7.5, 20.0, 250.0)


@pytest.mark.parametrize(("recorded", "status", "said"), [(700, 0, "cuEventRecord"), (0, 719, "cuLaunchKernel")])
def test_what_fails_in_the_library_is_named(recorded: int, status: int, said: str) -> None:
    timer = Timer(Stream(), (Event(1), Event(2)), 0)  # type: ignore[arg-type]
    with pytest.raises((DriverError, LaunchbenchError), match=f"^{said} failed: .*{recorded or status}"):
        timer.time(loop(timed_by(recorded, status)))


def test_any_other_loop_is_timed_from_here() -> None:
    stream = Stream()

    def issue() -> int:
        stream.did.append("issue")
        return 0

    times = Timer(stream, (Event(1), Event(2)), 0).time(Loop("cuLaunchKernel", issue, check_driver))  # type: ignore[arg-type]
    assert stream.did == ["record 1", "issue", "record 2", "sync"]
    assert 0 <= times["issue_us"] <= times["total_us"]
