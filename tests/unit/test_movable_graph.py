"""A movable graph against a maker that only remembers what it was asked: who launches, and what is released when."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from launchbench.errors import LaunchbenchError
from launchbench.measure import graphs
from launchbench.measure.driver import DriverError
from launchbench.measure.graphs import UPDATE_REFUSED, Costs, MovableGraph
from launchbench.measure.timing import Loop
from tests.virtual_gpu import VirtualGpu

STREAM: Any = SimpleNamespace(handle=7, sync=lambda: None)
LOOP = Loop("cuLaunchKernel", lambda: 0, lambda _: None)


class Maker:
    """Graphs and executable graphs are numbers."""

    def __init__(self, **failing: DriverError) -> None:
        self.failing = failing
        self.done: list[str] = []
        self.made = 0

    def _do(self, what: str, *things: Any) -> None:
        self.done.append(" ".join([what, *map(str, things)]))
        if what in self.failing:
            raise self.failing[what]

    def capture(self, stream: Any, loop: Loop) -> Any:
        self.made += 1
        self._do("capture")
        return f"g{self.made}"

    def release(self, graph: Any) -> None:
        self._do("release", graph)

    def instantiate(self, graph: Any) -> Any:
        self._do("instantiate", graph)
        return f"e{self.made}"

    def upload(self, executable: Any, stream: Any) -> None:
        self._do("upload", executable)

    def update(self, executable: Any, graph: Any) -> None:
        self._do("update", executable, graph)

    def launcher(self, executable: Any, stream: Any) -> Callable[[], Any]:
        return lambda: f"launched {executable} from Python"

    def check(self, status: Any) -> None:
        self._do("check", status)

    def handle(self, executable: Any) -> int:
        return 11

    def destroy(self, executable: Any) -> None:
        self._do("destroy", executable)


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_unused_bytes", lambda: 0)


def refused(call: str, code: int = 999) -> DriverError:
    return DriverError(call, code, "CUDA_ERROR")


def test_with_native_loops_it_is_launched_by_them_and_else_from_python() -> None:
    native: Any = SimpleNamespace(replays=lambda handle, stream, count: lambda: f"{handle} on {stream}, {count} times")
    maker = Maker()
    assert MovableGraph(STREAM, LOOP, Costs(), native, maker).replay().issue() == "11 on 7, 1 times"
    assert MovableGraph(STREAM, LOOP, Costs(), native, maker).batch(64).issue() == "11 on 7, 64 times"
    replay = MovableGraph(STREAM, LOOP, Costs(), None, maker).replay()
    replay.run()
    assert maker.done[-1] == "check launched e3 from Python"


def test_it_is_moved_by_an_update_and_released_once() -> None:
    maker, costs = Maker(), Costs()
    with MovableGraph(STREAM, LOOP, costs, None, maker) as graph:
        graph.move(LOOP)
    graph.close()
    assert maker.done == [
        *("capture", "instantiate g1", "upload e1", "release g1"),
        *("capture", "update e1 g2", "release g2"),
        "destroy e1",
    ]
    told = {name: len(kept) for name, kept in vars(costs).items() if isinstance(kept, list)}
    assert told == dict.fromkeys(told, 1) | {"first_replay_us": 0}


def test_an_update_that_is_refused_makes_it_anew_and_is_counted() -> None:
    maker, costs = Maker(update=refused("cuGraphExecUpdate", UPDATE_REFUSED)), Costs()
    with MovableGraph(STREAM, LOOP, costs, None, maker) as graph:
        graph.move(LOOP)
    assert maker.done[5:] == ["update e1 g2", "destroy e1", "instantiate g2", "upload e2", "release g2", "destroy e2"]
    assert (costs.refused_updates, costs.update_us, len(costs.instantiate_us)) == (1, [], 1)


@pytest.mark.parametrize("what", ["instantiate", "upload"])
def test_what_fails_while_it_is_made_is_told_and_all_is_released(what: str) -> None:
    maker = Maker(**{what: refused(what), "release": refused("release"), "destroy": refused("destroy")})
    with pytest.raises(DriverError, match=f"^{what} failed"):
        MovableGraph(STREAM, LOOP, Costs(), None, maker)
    left = {"instantiate": [], "upload": ["destroy e1"]}[what]
    assert maker.done[-1 - len(left) :] == [*left, "release g1"]


def test_the_error_of_the_block_is_told_and_not_that_of_the_release() -> None:
    maker = Maker(destroy=refused("cuGraphExecDestroy"))
    with pytest.raises(LaunchbenchError, match="counted 3 of 4"), MovableGraph(STREAM, LOOP, Costs(), None, maker):
        raise LaunchbenchError("counted 3 of 4")
    with pytest.raises(DriverError, match="cuGraphExecDestroy"), MovableGraph(STREAM, LOOP, Costs(), None, maker):
        pass


@pytest.mark.untraced
@pytest.mark.parametrize("maker", ["DriverGraphs", "CoreGraphs"])
def test_nothing_unsafe_gets_into_a_capture(virtual_gpu: VirtualGpu, maker: str) -> None:
    """In mode ``global`` an allocation by any thread is refused while a capture is under way."""
    code = f"""
import threading
from cuda.core import Device
from launchbench.measure import graphs
from launchbench.measure.driver import call, DriverError
from launchbench.measure.timing import Loop
device = Device(0)
device.set_current()
stream = device.create_stream()
codes = []
def allocate():
    device.set_current()
    try:
        codes.append(call("cuMemFree", call("cuMemAlloc", 256)))
    except DriverError as error:
        codes.append(error.code)
def elsewhere():
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
allocate()
try:
    graphs.{maker}().capture(stream, Loop("cuLaunchKernel", elsewhere, lambda _: None))
except Exception:
    pass
print(codes)"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=virtual_gpu.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[None, 900]\n"
