"""Four ways to let a replay work on another buffer, each verified and timed over N, in a process of its own.

    python -m launchbench.pointers.cures --binaries build/cuda --device 0 --launch-counts 8,64 --repetitions 50 ...

It prints one JSON object a line: rows of ``pointers_columns.CURE_REPETITIONS`` and checks (``CureCheck``). Times are
host times, microseconds:

``prepare_us``       the capture of N launches on the new buffer, where the cure needs one
``apply_us``         from then until the executable graph, or the fixed buffer, holds what the next replay needs
``first_replay_us``  that replay, with the synchronize: an upload that is left to it shows here
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import DeviceMemory, call, read_float, zero_float
from launchbench.measure.native import NativeLoops, check_driver
from launchbench.measure.timing import FLOAT_BYTES, without_garbage_collection
from launchbench.pointers.native import load, node_setter
from launchbench.results.pointers_words import CURES

NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING of cuda.h
CONTENTS = 3
"""What the fixed buffer is written with: a whole number that is no count of launches by accident."""


@dataclass(frozen=True)
class Bench:
    """What all cures share: stream, kernel and the native loops."""

    stream: int
    function: int
    loops: NativeLoops
    set_nodes: Any

    def captured(self, address: int, count: int) -> Any:
        """Graph of so many launches of ``tiny`` on the float at an address."""
        from cuda.bindings.driver import CUstreamCaptureMode

        issue = self.loops.driver_loop(self.function, self.stream, address, count)
        call("cuStreamBeginCapture", self.stream, CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
        try:
            check_driver(issue())
        except LaunchbenchError:
            # The error of the launch says more than that of the end of a capture which it has invalidated.
            with contextlib.suppress(LaunchbenchError):
                call("cuStreamEndCapture", self.stream)
            raise
        return call("cuStreamEndCapture", self.stream)

    def replayed(self, executable: Any) -> None:
        """Replay and wait."""
        call("cuGraphLaunch", executable, self.stream)
        call("cuStreamSynchronize", self.stream)


class CureRun(ABC):
    """One cure on a graph of its own, which is captured on ``address``."""

    def __init__(self, bench: Bench, address: int, count: int) -> None:
        self._bench = bench
        self._count = count
        self._graph = bench.captured(address, count)
        self.executable = call("cuGraphInstantiate", self._graph, 0)

    def prepare(self, address: int) -> bool:
        """What has to be done before the cure is applied; whether there was anything."""
        return False

    @abstractmethod
    def apply(self, address: int) -> None:
        """Let the next replay work on the buffer of this address."""

    def settle(self) -> None:
        """Throw away what the cure has replaced; outside the timed interval."""
        return

    def close(self) -> None:
        """Release the graph."""
        for name, handle in (("cuGraphExecDestroy", self.executable), ("cuGraphDestroy", self._graph)):
            call(name, handle)

    def expected(self, address: int) -> dict[int, float]:
        """Address -> what it must hold after one replay, if all buffers held 0 before the cure."""
        return {address: float(self._count)}


class ExecUpdate(CureRun):
    """``cuGraphExecUpdate`` with a graph that is captured anew."""

    def prepare(self, address: int) -> bool:
        """Capture on the new buffer."""
        self._fresh = self._bench.captured(address, self._count)
        return True

    def apply(self, address: int) -> None:
        """Update in place."""
        call("cuGraphExecUpdate", self.executable, self._fresh)

    def settle(self) -> None:
        """The new graph was only a pattern."""
        call("cuGraphDestroy", self._fresh)


class NodeParams(CureRun):
    """``cuGraphExecKernelNodeSetParams`` of each of the N nodes."""

    def __init__(self, bench: Bench, address: int, count: int) -> None:
        super().__init__(bench, address, count)
        nodes = call("cuGraphGetNodes", self._graph, count)[0]
        handles = [int(node) for node in nodes]
        self._set = node_setter(bench.set_nodes, int(self.executable), handles, bench.function)

    def apply(self, address: int) -> None:
        """Set them."""
        self._set(address)


class Recapture(CureRun):
    """A new graph and a new executable graph."""

    def prepare(self, address: int) -> bool:
        """Capture on the new buffer."""
        self._fresh = self._bench.captured(address, self._count)
        return True

    def apply(self, address: int) -> None:
        """Instantiate."""
        self._old = (self.executable, self._graph)
        self.executable, self._graph = call("cuGraphInstantiate", self._fresh, 0), self._fresh

    def settle(self) -> None:
        """Release the old ones."""
        for name, handle in zip(("cuGraphExecDestroy", "cuGraphDestroy"), self._old, strict=True):
            call(name, handle)


class FixedBuffer(CureRun):
    """The graph keeps its buffer; what is new is copied into it in place."""

    def __init__(self, bench: Bench, address: int, count: int) -> None:
        super().__init__(bench, address, count)
        self._fixed = address

    def apply(self, address: int) -> None:
        """Copy; ``address`` is where the new contents lie."""
        call("cuMemcpyDtoDAsync", self._fixed, address, FLOAT_BYTES, self._bench.stream)

    def expected(self, address: int) -> dict[int, float]:
        """The fixed buffer counts on from what was copied, which stays where it came from."""
        return {address: float(CONTENTS), self._fixed: float(CONTENTS + self._count)}


MAKERS: dict[str, type[CureRun]] = {
    "exec-update": ExecUpdate,
    "node-params": NodeParams,
    "recapture": Recapture,
    "fixed-buffer": FixedBuffer,
}


class Wrong(LaunchbenchError):
    """A replay wrote elsewhere than it should have."""


class Checker:
    """Sets buffers up before a cure, and reads them after the replay that follows it."""

    def __init__(self, cure: str, run: CureRun, stream: int) -> None:
        self._cure = cure
        self._run = run
        self._stream = stream
        self.checked = 0

    def before(self, addresses: list[int], target: int) -> None:
        """Zero all, and give the source of the fixed buffer its contents."""
        import numpy as np

        for address in addresses:
            zero_float(address, self._stream)
        if self._cure == "fixed-buffer":
            bits = int(np.float32(CONTENTS).view(np.uint32))
            call("cuMemsetD32Async", target, bits, 1, self._stream)
            call("cuStreamSynchronize", self._stream)

    def after(self, addresses: list[int], target: int) -> None:
        """Read all.

        Raises:
            Wrong: one does not hold what it should.
        """
        wanted = self._run.expected(target)
        for address in addresses:
            seen, right = read_float(address, self._stream), wanted.get(address, 0.0)
            if seen != right:
                place = "the right buffer" if address == target else "another buffer"
                raise Wrong(f"{place} holds {seen:g}; expected {right:g}")
        self.checked += 1


def after_a_free(bench: Bench, cure: str, count: int) -> int:
    """Exercise 4 itself: the buffer is freed after the capture, the cure turns to a new one; replays checked.

    Raises:
        LaunchbenchError: a call failed, or the replay wrote elsewhere.
    """
    old = DeviceMemory(FLOAT_BYTES)
    with DeviceMemory(FLOAT_BYTES) as new:
        run = MAKERS[cure](bench, old.address, count)
        checker = Checker(cure, run, bench.stream)
        # A fixed buffer is never freed: not to free it is the cure.
        freed = cure != "fixed-buffer"
        if freed:
            call("cuMemFree", old.address)
        buffers = [new.address] if freed else [old.address, new.address]
        checker.before(buffers, new.address)
        run.prepare(new.address)
        run.apply(new.address)
        bench.replayed(run.executable)
        run.settle()
        checker.after(buffers, new.address)
        run.close()
        if not freed:
            call("cuMemFree", old.address)
    return checker.checked


class Timed:
    """One cure during the timed repetitions; it leaves them at its first failure."""

    def __init__(self, bench: Bench, cure: str, count: int, home: int) -> None:
        self.cure = cure
        self.outcome, self.reason, self.checked = "right-buffer", "", 0
        self._bench = bench
        self._run: CureRun | None = None
        with self.watched():
            self.checked = after_a_free(bench, cure, count)
            self._run = MAKERS[cure](bench, home, count)
            self._checker = Checker(cure, self._run, bench.stream)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Turns an error into the cure's outcome."""
        try:
            yield
        except LaunchbenchError as error:
            self.outcome = "wrong-buffer" if isinstance(error, Wrong) else "failed"
            self.reason = str(error)

    def time(self, addresses: list[int], target: int, begun_ns: int) -> dict[str, float | None] | None:
        """One repetition, checked; None after a failure."""
        if self.outcome != "right-buffer" or not self._run:
            return None
        clock, run = time.perf_counter_ns, self._run
        row: dict[str, float | None] | None = None
        with self.watched():
            self._checker.before(addresses, target)
            start = clock()
            prepared = run.prepare(target)
            ready = clock()
            run.apply(target)
            applied = clock()
            self._bench.replayed(run.executable)
            done = clock()
            run.settle()
            self._checker.after(addresses, target)
            self.checked += 1
            row = {
                "start_us": round((start - begun_ns) / 1e3, 3),
                "prepare_us": (ready - start) / 1e3 if prepared else None,
                "apply_us": (applied - ready) / 1e3,
                "first_replay_us": (done - applied) / 1e3,
                "total_us": (done - start) / 1e3,
            }
        return row

    def close(self) -> None:
        """Release the graph, as far as that works."""
        with contextlib.suppress(LaunchbenchError):
            if self._run:
                self._run.close()

    def check(self, count: int) -> dict[str, Any]:
        """Fields of ``CureCheck``."""
        known = {"cure": self.cure, "launch_count": count, "outcome": self.outcome, "checked": self.checked}
        return known | ({"reason": self.reason} if self.reason else {})


def time_cures(
    bench: Bench, count: int, repetitions: int, warmup_rounds: int, warmup_ms: int
) -> Iterator[dict[str, Any]]:
    """Rows and checks of one N; all cures alternate, each round begins with another, and the buffer changes too."""
    with DeviceMemory(FLOAT_BYTES) as home, DeviceMemory(FLOAT_BYTES) as one, DeviceMemory(FLOAT_BYTES) as other:
        addresses = [home.address, one.address, other.address]
        cures = [Timed(bench, cure, count, home.address) for cure in CURES]
        begun = time.perf_counter_ns()

        def one_round(number: int) -> list[dict[str, Any]]:
            turn = number % len(cures)
            rows = []
            for order, cure in enumerate([*cures[turn:], *cures[:turn]]):
                row = cure.time(addresses, addresses[1 + number % 2], begun)
                if row is not None:
                    rows.append({"cure": cure.cure, "repetition": number, "order": order, **row})
            return rows

        rounds = 0
        with without_garbage_collection():
            while rounds < warmup_rounds or time.perf_counter_ns() - begun < warmup_ms * 1e6:
                one_round(rounds)
                rounds += 1
                if all(cure.outcome != "right-buffer" for cure in cures):
                    break
            timed = [row for number in range(repetitions) for row in one_round(number)]
        for row in timed:
            yield {"row": {"launch_count": count, **row}}
        for cure in cures:
            cure.close()
            yield {"check": cure.check(count)}


def open_bench(binaries: Path, device: int) -> Bench:
    """The kernel, a stream and the native library, in the primary context of a device.

    Raises:
        LaunchbenchError: a call failed, or a product of the build is missing.
    """
    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", device)))
    library = call("cuLibraryLoadData", (binaries / "graphs.fatbin").read_bytes(), [], [], 0, [], [], 0)
    function = call("cuKernelGetFunction", call("cuLibraryGetKernel", library, b"tiny"))
    native = binaries / "liblaunchloops.so"
    return Bench(int(call("cuStreamCreate", NON_BLOCKING)), int(function), NativeLoops(native), load(native))


def main() -> int:
    """Time all cures at every N; 0 unless nothing at all could be done."""
    parser = argparse.ArgumentParser(description="The cures of exercise 4.")
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--launch-counts", required=True)
    for name in ("--repetitions", "--warmup-rounds", "--warmup-ms"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args()
    try:
        bench = open_bench(given.binaries, given.device)
        for count in map(int, given.launch_counts.split(",")):
            for line in time_cures(bench, count, given.repetitions, given.warmup_rounds, given.warmup_ms):
                print(json.dumps(line), flush=True)
    except LaunchbenchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
