"""Small programs against the CUDA driver API and NVML, each of which says what it saw, as JSON.

They run as processes of their own: on the virtual GPU, and those on semantics unchanged on a real card.

    python -m tests.virtual_gpu.scenarios NAME build/cuda/graphs.fatbin
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

MODES = {
    "global": cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL,
    "thread_local": cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    "relaxed": cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
}
LARGE = 64 << 20


def code(name: str, *arguments: Any) -> int:
    """CUresult of one call."""
    return int(getattr(cu, name)(*arguments)[0])


def ask(name: str, *arguments: Any) -> Any:
    """What one call returns; it has to succeed."""
    status, *values = getattr(cu, name)(*arguments)
    if int(status):
        raise SystemExit(f"{name} failed: {int(status)}")
    return values[0] if len(values) == 1 else tuple(values)


class Gpu:
    """Context, kernels and a non-blocking stream on the first device."""

    def __init__(self, image: Path) -> None:
        ask("cuInit", 0)
        self.context = ask("cuDevicePrimaryCtxRetain", ask("cuDeviceGet", 0))
        ask("cuCtxSetCurrent", self.context)
        self.stream = ask("cuStreamCreate", 1)
        self.library = ask("cuLibraryLoadData", image.read_bytes(), [], [], 0, [], [], 0)
        self.kernels = {
            name: ask("cuKernelGetFunction", ask("cuLibraryGetKernel", self.library, name.encode()))
            for name in ("tiny", "empty")
        }

    def zeroed(self, size: int = 4) -> int:
        """Address of a new allocation whose first float is 0."""
        address = int(ask("cuMemAlloc", size))
        self.fill(address, 0)
        return address

    def fill(self, address: int, bits: int) -> None:
        """Set the 32 bits at an address and wait."""
        ask("cuMemsetD32Async", address, bits, 1, self.stream)
        ask("cuStreamSynchronize", self.stream)

    def read(self, address: int) -> float:
        """The float at an address, after everything on the stream; a failure ends the program."""
        ask("cuStreamSynchronize", self.stream)
        value = np.full(1, np.nan, dtype=np.float32)
        ask("cuMemcpyDtoH", value.ctypes.data, address, 4)
        return float(value[0])

    def launch(self, address: int, kernel: str = "tiny", stream: Any = None) -> int:
        """CUresult of one launch."""
        argument = np.array([address], dtype=np.uint64)
        arguments = np.array([argument.ctypes.data], dtype=np.uint64)
        where = self.stream if stream is None else stream
        return code("cuLaunchKernel", self.kernels[kernel], 1, 1, 1, 1, 1, 1, 0, where, arguments.ctypes.data, 0)

    def capture(self, address: int, count: int, kernel: str = "tiny") -> Any:
        """Graph of so many launches in a row."""
        ask("cuStreamBeginCapture", self.stream, MODES["global"])
        for _ in range(count):
            self.launch(address, kernel)
        return ask("cuStreamEndCapture", self.stream)

    def instantiated(self, address: int, count: int = 1) -> Any:
        """Executable graph of so many launches of ``tiny``."""
        return ask("cuGraphInstantiate", self.capture(address, count), 0)

    def replay(self, executable: Any) -> int:
        """CUresult of a replay and the wait for it."""
        return code("cuGraphLaunch", executable, self.stream) or code("cuStreamSynchronize", self.stream)

    def node_parameters(self, address: int) -> tuple[Any, list[np.ndarray]]:
        """Parameters of a kernel node that runs ``tiny`` on an address, and what must stay alive meanwhile."""
        argument = np.array([address], dtype=np.uint64)
        arguments = np.array([argument.ctypes.data], dtype=np.uint64)
        parameters = cu.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = self.kernels["tiny"]
        parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1
        parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1
        parameters.kernelParams = arguments.ctypes.data
        return parameters, [argument, arguments]


def first_parameter(node: Any) -> int:
    """The address that a kernel node was captured with."""
    parameters = ask("cuGraphKernelNodeGetParams", node)
    pointer = ctypes.cast(int(parameters.kernelParams), ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))
    return int(pointer[0][0])


def in_thread(gpu: Gpu, work: Callable[[], Any]) -> Any:
    """What a function returns when another thread, with the same context, runs it."""
    answers = []

    def run() -> None:
        ask("cuCtxSetCurrent", gpu.context)
        answers.append(work())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return answers[0]


# ---------------------------------------------------------------- counting and pointers


def counting(gpu: Gpu) -> dict[str, Any]:
    """Loops, replays and the end of what float32 can count."""
    address = gpu.zeroed()
    for _ in range(100):
        gpu.launch(address)
    seen = {"loop": gpu.read(address)}
    executable = gpu.instantiated(address, 8)
    seen["after instantiation"] = gpu.read(address)
    for _ in range(3):
        gpu.replay(executable)
    seen["after three replays of eight"] = gpu.read(address)
    gpu.launch(address, "empty")
    seen["after the empty kernel"] = gpu.read(address)
    gpu.fill(address, int(np.float32(2**24 - 1).view(np.uint32)))
    for _ in range(5):
        gpu.launch(address)
    seen["five above 2**24 - 1"] = gpu.read(address)
    return seen


def pointers(gpu: Gpu) -> dict[str, Any]:
    """Exercise 4 while the context lives: whom does a replay write to after its buffer was freed?"""
    seen: dict[str, Any] = {}
    old = gpu.zeroed()
    executable = gpu.instantiated(old)
    ask("cuMemFree", old)
    new = gpu.zeroed()
    seen["recycled"] = [new == old, gpu.replay(executable), gpu.read(new)]

    executable = gpu.instantiated(new)
    ask("cuMemFree", new)
    innocent = gpu.zeroed()
    newer = gpu.zeroed()
    seen["innocent"] = [innocent == new, gpu.replay(executable), gpu.read(innocent), gpu.read(newer)]

    executable = gpu.instantiated(newer)
    newest = gpu.zeroed()
    ask("cuMemFree", newer)
    seen["unowned"] = [newest == newer, gpu.replay(executable), gpu.read(newest)]

    graph = gpu.capture(newest, 1)
    info = ask("cuGraphExecUpdate", executable, graph)
    seen["updated"] = [int(info.result), gpu.replay(executable), gpu.read(newest)]

    node = ask("cuGraphGetNodes", gpu.capture(newest, 1), 1)[0][0]
    parameters, _alive = gpu.node_parameters(innocent)
    seen["node of another graph"] = code("cuGraphExecKernelNodeSetParams", executable, node, parameters)
    again = gpu.capture(newest, 1)
    executable = ask("cuGraphInstantiate", again, 0)
    node = ask("cuGraphGetNodes", again, 1)[0][0]
    before = gpu.read(innocent)
    seen["node update"] = [
        code("cuGraphExecKernelNodeSetParams", executable, node, parameters),
        gpu.replay(executable),
        gpu.read(innocent) - before,
        gpu.read(newest),
    ]
    # The executable graph was changed, the graph that it was made from was not.
    seen["address in the graph"] = first_parameter(node) == newest
    seen["node update in the graph"] = [
        code("cuGraphKernelNodeSetParams", node, parameters),
        first_parameter(node) == innocent,
        gpu.replay(ask("cuGraphInstantiate", again, 0)),
        gpu.read(innocent) - before,
    ]
    return seen


def large(gpu: Gpu) -> dict[str, Any]:
    """Exercise 4 with a large allocation: it is unmapped when it is freed."""
    bystander, old = gpu.zeroed(), gpu.zeroed(LARGE)
    executable = gpu.instantiated(old)
    ask("cuMemFree", old)
    value = np.zeros(1, dtype=np.float32)
    return {
        "launch": code("cuGraphLaunch", executable, gpu.stream),
        "synchronize": code("cuStreamSynchronize", gpu.stream),
        "copy": code("cuMemcpyDtoH", value.ctypes.data, bystander, 4),
        "allocate": code("cuMemAlloc", 4),
        "launch again": gpu.launch(bystander),
        "query": code("cuStreamQuery", gpu.stream),
    }


def memory(gpu: Gpu) -> dict[str, Any]:
    """What the allocator and the copies refuse."""
    address = gpu.zeroed(8)
    values = np.array([1.5, 2.5], dtype=np.float32)
    ask("cuMemcpyHtoD", address, values.ctypes.data, 8)
    back = np.zeros(2, dtype=np.float32)
    ask("cuMemcpyDtoH", back.ctypes.data, address, 8)
    seen: dict[str, Any] = {
        "aligned": address % 256,
        "round trip": back.tolist(),
        "beyond the end": code("cuMemcpyDtoH", back.ctypes.data, address + 4, 8),
        "more than there is": code("cuMemAlloc", 1 << 50),
        "of no size": code("cuMemAlloc", 0),
        "free inside": code("cuMemFree", address + 4),
        "free": code("cuMemFree", address),
    }
    seen["free twice"] = code("cuMemFree", address)
    seen["copy of freed memory"] = code("cuMemcpyDtoH", back.ctypes.data, address, 4)
    return seen


# ---------------------------------------------------------------- capture


def capture_rules(gpu: Gpu) -> dict[str, Any]:
    """For each thing done during a capture: its CUresult, and that of the end of the capture."""
    buffer, spare, unused = gpu.zeroed(), gpu.zeroed(), gpu.zeroed()
    value = np.zeros(1, dtype=np.float32)
    event = ask("cuEventCreate", 0)
    ask("cuEventRecord", event, gpu.stream)
    inside = ask("cuEventCreate", 0)
    other = ask("cuStreamCreate", 1)
    blocking = ask("cuStreamCreate", 0)
    ask("cuCtxSynchronize")

    def allocate() -> int:
        return code("cuMemAlloc", 4)

    def relaxed_thread() -> int:
        mode = ask("cuThreadExchangeStreamCaptureMode", MODES["relaxed"])
        status = allocate()
        ask("cuThreadExchangeStreamCaptureMode", mode)
        return status

    def wait_inside() -> int:
        ask("cuEventRecord", inside, gpu.stream)
        return code("cuEventSynchronize", inside)

    def copy() -> int:
        return code("cuMemcpyDtoH", value.ctypes.data, spare, 4)

    cases: dict[str, tuple[str, Any, Callable[[], int]]] = {
        "launch": ("global", gpu.stream, lambda: gpu.launch(buffer)),
        "launch on a stream that is not captured": ("global", gpu.stream, lambda: gpu.launch(buffer, stream=other)),
        "synchronize the stream": ("global", gpu.stream, lambda: code("cuStreamSynchronize", gpu.stream)),
        "synchronize the stream, relaxed": ("relaxed", gpu.stream, lambda: code("cuStreamSynchronize", gpu.stream)),
        "query the stream": ("global", gpu.stream, lambda: code("cuStreamQuery", gpu.stream)),
        "synchronize another stream": ("global", gpu.stream, lambda: code("cuStreamSynchronize", other)),
        "synchronize the context": ("global", gpu.stream, lambda: code("cuCtxSynchronize")),
        "synchronize an event inside": ("global", gpu.stream, wait_inside),
        "query an event from before": ("global", gpu.stream, lambda: code("cuEventQuery", event)),
        "query an event from before, relaxed": ("relaxed", gpu.stream, lambda: code("cuEventQuery", event)),
        "allocate, global": ("global", gpu.stream, allocate),
        "allocate, thread_local": ("thread_local", gpu.stream, allocate),
        "allocate, relaxed": ("relaxed", gpu.stream, allocate),
        "allocate in another thread, global": ("global", gpu.stream, lambda: in_thread(gpu, allocate)),
        "allocate in another thread, thread_local": ("thread_local", gpu.stream, lambda: in_thread(gpu, allocate)),
        "allocate in a relaxed thread": ("global", gpu.stream, relaxed_thread),
        "free": ("global", gpu.stream, lambda: code("cuMemFree", unused)),
        "copy by the legacy stream": ("global", gpu.stream, copy),
        "copy by the legacy stream, relaxed": ("relaxed", gpu.stream, copy),
        "copy by the legacy stream, blocking": ("relaxed", blocking, copy),
        "launch on the legacy stream": ("global", gpu.stream, lambda: gpu.launch(buffer, stream=cu.CUstream(0))),
        "launch on the legacy stream, blocking": (
            "global",
            blocking,
            lambda: gpu.launch(buffer, stream=cu.CUstream(0)),
        ),
        "begin again": ("global", gpu.stream, lambda: code("cuStreamBeginCapture", gpu.stream, MODES["global"])),
        "wait for an event from before": (
            "global",
            gpu.stream,
            lambda: code("cuStreamWaitEvent", gpu.stream, event, 0),
        ),
        "end in another thread": (
            "global",
            gpu.stream,
            lambda: in_thread(gpu, lambda: code("cuStreamEndCapture", gpu.stream)),
        ),
    }
    seen: dict[str, Any] = {}
    for name, (mode, stream, work) in cases.items():
        ask("cuStreamBeginCapture", stream, MODES[mode])
        seen[name] = [work(), code("cuStreamEndCapture", stream)]
        ask("cuCtxSynchronize")
    seen["begin on the legacy stream"] = code("cuStreamBeginCapture", cu.CUstream(0), MODES["global"])
    seen["end without a beginning"] = code("cuStreamEndCapture", gpu.stream)
    ask("cuStreamBeginCapture", gpu.stream, MODES["global"])
    code("cuStreamSynchronize", gpu.stream)
    seen["launch into an invalidated capture"] = gpu.launch(buffer)
    code("cuStreamEndCapture", gpu.stream)
    return seen


def forks(gpu: Gpu) -> dict[str, Any]:
    """Captures over two streams."""
    buffer = gpu.zeroed()
    other = ask("cuStreamCreate", 1)
    event, back = ask("cuEventCreate", 0), ask("cuEventCreate", 0)

    def fork() -> None:
        ask("cuStreamBeginCapture", gpu.stream, MODES["global"])
        gpu.launch(buffer)
        ask("cuEventRecord", event, gpu.stream)
        ask("cuStreamWaitEvent", other, event, 0)
        gpu.launch(buffer, stream=other)

    seen: dict[str, Any] = {}
    fork()
    gpu.launch(buffer)
    ask("cuEventRecord", back, other)
    ask("cuStreamWaitEvent", gpu.stream, back, 0)
    gpu.launch(buffer)
    status, graph = cu.cuStreamEndCapture(gpu.stream)
    executable = ask("cuGraphInstantiate", graph, 0)
    seen["joined"] = [int(status), gpu.replay(executable), gpu.read(buffer)]
    fork()
    seen["not joined"] = code("cuStreamEndCapture", gpu.stream)
    fork()
    seen["ended on the other stream"] = [code("cuStreamEndCapture", other), code("cuStreamEndCapture", gpu.stream)]
    ask("cuStreamBeginCapture", gpu.stream, MODES["global"])
    ask("cuStreamBeginCapture", other, MODES["global"])
    ask("cuEventRecord", event, other)
    seen["merged"] = [
        code("cuStreamWaitEvent", gpu.stream, event, 0),
        code("cuStreamEndCapture", gpu.stream),
        code("cuStreamEndCapture", other),
    ]
    return seen


def update(gpu: Gpu) -> dict[str, Any]:
    """Updates that fit and that do not: CUresult of the update and of a replay after it."""
    first, second = gpu.zeroed(), gpu.zeroed()
    executable = gpu.instantiated(first, 3)

    def attempt(graph: Any) -> list[int]:
        return [code("cuGraphExecUpdate", executable, graph), gpu.replay(executable)]

    seen: dict[str, Any] = {"other address": attempt(gpu.capture(second, 3))}
    seen["counts"] = [gpu.read(first), gpu.read(second)]
    seen["more nodes"] = attempt(gpu.capture(second, 4))
    ask("cuStreamBeginCapture", gpu.stream, MODES["global"])
    gpu.launch(second)
    ask("cuMemsetD32Async", second, 0, 1, gpu.stream)
    gpu.launch(second)
    seen["a memset among them"] = attempt(ask("cuStreamEndCapture", gpu.stream))
    seen["counts after"] = [gpu.read(first), gpu.read(second)]
    seen["other kernel"] = attempt(gpu.capture(second, 3, "empty"))
    seen["counts after the empty kernel"] = [gpu.read(first), gpu.read(second)]
    return seen


def handles(gpu: Gpu) -> dict[str, Any]:
    """Handles that are over, kernels that are not there, events that cannot be read."""
    timed, untimed, never = ask("cuEventCreate", 0), ask("cuEventCreate", 2), ask("cuEventCreate", 0)
    for event in (timed, untimed):
        ask("cuEventRecord", event, gpu.stream)
    ask("cuStreamSynchronize", gpu.stream)
    seen: dict[str, Any] = {
        "elapsed of an event without timing": code("cuEventElapsedTime", timed, untimed),
        "elapsed of an event never recorded": code("cuEventElapsedTime", timed, never),
        "no such kernel": code("cuLibraryGetKernel", gpu.library, b"tin"),
        "no grid": code("cuLaunchKernel", gpu.kernels["empty"], 0, 1, 1, 1, 1, 1, 0, gpu.stream, 0, 0),
        "not an image": code("cuLibraryLoadData", bytes(64), [], [], 0, [], [], 0),
    }
    return seen


def abandoned(gpu: Gpu) -> dict[str, Any]:
    """Captures whose graph or stream goes away before their end."""
    buffer = gpu.zeroed()
    ask("cuStreamBeginCapture", gpu.stream, MODES["global"])
    gpu.launch(buffer)
    graph = ask("cuStreamGetCaptureInfo", gpu.stream)[2]
    seen: dict[str, Any] = {
        "graph": [code("cuGraphDestroy", graph), gpu.launch(buffer), code("cuStreamEndCapture", gpu.stream)]
    }
    other = ask("cuStreamCreate", 1)
    ask("cuStreamBeginCapture", other, MODES["global"])
    seen["stream"] = [code("cuMemAlloc", 4), code("cuStreamDestroy", other), code("cuMemAlloc", 4)]
    return seen


# ---------------------------------------------------------------- time


def clocks(gpu: Gpu) -> list[dict[str, Any]]:
    """Events and the host's clock around loops and replays."""
    first, second = ask("cuEventCreate", 0), ask("cuEventCreate", 0)
    address = gpu.zeroed()

    def timed(work: Callable[[], Any]) -> dict[str, float]:
        ask("cuEventRecord", first, gpu.stream)
        start = time.perf_counter()
        work()
        issued = time.perf_counter()
        ask("cuEventRecord", second, gpu.stream)
        ask("cuStreamSynchronize", gpu.stream)
        done = time.perf_counter()
        milliseconds = ask("cuEventElapsedTime", first, second)
        return {"gpu_us": milliseconds * 1e3, "issue_us": (issued - start) * 1e6, "total_us": (done - start) * 1e6}

    rows = []
    for kernel in ("tiny", "empty"):
        for count in (8, 64, 512, 2048):
            executable = ask("cuGraphInstantiate", gpu.capture(address, count, kernel), 0)
            ask("cuGraphUpload", executable, gpu.stream)
            ask("cuStreamSynchronize", gpu.stream)
            for mode, work in (
                ("loop", lambda: [gpu.launch(address, kernel) for _ in range(count)]),  # noqa: B023
                ("replay", lambda: ask("cuGraphLaunch", executable, gpu.stream)),  # noqa: B023
            ):
                row = {"kernel": kernel, "count": count, "mode": mode, "address": address}
                rows.append({**row, **timed(work)})
    return rows


def early(gpu: Gpu) -> dict[str, Any]:
    """What is seen of work that is still on its way."""
    address = gpu.zeroed()
    start, end = ask("cuEventCreate", 0), ask("cuEventCreate", 0)
    ask("cuEventRecord", start, gpu.stream)
    for _ in range(50):
        gpu.launch(address)
    ask("cuEventRecord", end, gpu.stream)
    value = np.full(1, np.nan, dtype=np.float32)
    seen: dict[str, Any] = {
        "stream": code("cuStreamQuery", gpu.stream),
        "event": code("cuEventQuery", end),
        "elapsed": code("cuEventElapsedTime", start, end),
        "copy": code("cuMemcpyDtoH", value.ctypes.data, address, 4),
        "count by then": float(value[0]),
    }
    polls = 0
    while code("cuEventQuery", end) and polls < 1000:
        time.sleep(0.01)
        polls += 1
    seen["polls"] = polls
    seen["count"] = gpu.read(address)
    return seen


def noise(gpu: Gpu) -> list[float]:
    """Event times of the same loop, again and again."""
    first, second = ask("cuEventCreate", 0), ask("cuEventCreate", 0)
    times = []
    for _ in range(200):
        ask("cuEventRecord", first, gpu.stream)
        for _ in range(4):
            gpu.launch(0, "empty")
        ask("cuEventRecord", second, gpu.stream)
        ask("cuStreamSynchronize", gpu.stream)
        times.append(ask("cuEventElapsedTime", first, second) * 1e3)
    return times


# ---------------------------------------------------------------- devices, faults


def devices() -> list[dict[str, Any]] | int:
    """What CUDA shows, or the CUresult of cuInit."""
    if status := code("cuInit", 0):
        return status
    found = []
    for index in range(ask("cuDeviceGetCount")):
        device = ask("cuDeviceGet", index)
        name = ask("cuDeviceGetName", 256, device).split(b"\0", 1)[0]
        found.append(
            {
                "name": name.decode("latin-1"),
                "uuid": bytes(ask("cuDeviceGetUuid", device).bytes).hex(),
                "pci": ask("cuDeviceGetPCIBusId", 64, device).split(b"\0", 1)[0].decode(),
            }
        )
    return found


def management() -> list[dict[str, Any]]:
    """What NVML says of all GPUs, in its order; errors as their numbers."""
    import pynvml

    def say(name: str, *arguments: Any) -> Any:
        try:
            answer = getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            return error.value
        except UnicodeDecodeError:
            return "not UTF-8"
        return answer

    pynvml.nvmlInit()
    gpus = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        gpus.append(
            {
                "name": say("nvmlDeviceGetName", handle),
                "uuid": say("nvmlDeviceGetUUID", handle),
                "reasons": [say("nvmlDeviceGetCurrentClocksEventReasons", handle) for _ in range(4)],
                "clock": say("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM),
                "power": [say("nvmlDeviceGetPowerUsage", handle) for _ in range(3)],
                "mig": say("nvmlDeviceGetMigMode", handle),
                "processes": [
                    [[row.pid, row.usedGpuMemory] for row in say("nvmlDeviceGetComputeRunningProcesses", handle)]
                    for _ in range(2)
                ],
            }
        )
    return gpus


def slices() -> dict[str, Any]:
    """What NVML says of the MIG slice that CUDA shows."""
    import pynvml

    ask("cuInit", 0)
    digits = bytes(ask("cuDeviceGetUuid", ask("cuDeviceGet", 0)).bytes).hex()
    pynvml.nvmlInit()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    slice_ = pynvml.nvmlDeviceGetHandleByUUID("-".join(("MIG", *parts)))
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(slice_)
    seen: dict[str, Any] = {
        "name": pynvml.nvmlDeviceGetName(slice_),
        "memory": pynvml.nvmlDeviceGetMemoryInfo(slice_).total,
        "parent": pynvml.nvmlDeviceGetUUID(parent),
        "mode": pynvml.nvmlDeviceGetMigMode(parent),
    }
    try:
        pynvml.nvmlDeviceGetClockInfo(slice_, pynvml.NVML_CLOCK_SM)
    except pynvml.NVMLError as error:
        seen["clock"] = error.value
    return seen


def both_sides(gpu: Gpu) -> dict[str, Any]:
    """How what happens on one side shows on the other: throttling, this process, a card that is lost."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    first, second = ask("cuEventCreate", 0), ask("cuEventCreate", 0)
    executable = ask("cuGraphInstantiate", gpu.capture(0, 100, "empty"), 0)
    gpu.replay(executable)

    def replay_us() -> float:
        ask("cuEventRecord", first, gpu.stream)
        ask("cuGraphLaunch", executable, gpu.stream)
        ask("cuEventRecord", second, gpu.stream)
        ask("cuStreamSynchronize", gpu.stream)
        return float(ask("cuEventElapsedTime", first, second)) * 1e3

    seen: dict[str, Any] = {"times": [], "pids": [os.getpid()]}
    for _ in range(3):
        seen["times"].append(replay_us())
        pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    seen["pids"] += [row.pid for row in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    try:
        code("cuMemAlloc", 4)
        seen["name"] = pynvml.nvmlDeviceGetName(handle)
    except pynvml.NVMLError as error:
        seen["name"] = error.value
    return seen


def reuse(gpu: Gpu) -> list[bool]:
    """Whether the place that was freed last is given out first, if the size is the same, and else another."""
    first, _wall, second, _end = (ask("cuMemAlloc", size) for size in (1024, 4, 1024, 4))
    ask("cuMemFree", first)
    ask("cuMemFree", second)
    again, smaller, next_again = (ask("cuMemAlloc", size) for size in (1000, 4, 1024))
    return [int(again) == int(second), int(smaller) == int(first), int(next_again) in (int(first), int(second))]


def tour(gpu: Gpu) -> list[int]:
    """CUresults of the same few calls, four times over."""
    address = gpu.zeroed()
    seen = []
    for _ in range(4):
        seen += [gpu.launch(address), code("cuStreamSynchronize", gpu.stream), code("cuMemAlloc", 4)]
    return seen


def load(image: Path) -> int:
    """CUresult of loading an image and of looking for its kernel on the first device."""
    ask("cuInit", 0)
    ask("cuCtxSetCurrent", ask("cuDevicePrimaryCtxRetain", ask("cuDeviceGet", 0)))
    status, library = cu.cuLibraryLoadData(image.read_bytes(), [], [], 0, [], [], 0)
    return int(status) or code("cuLibraryGetKernel", library, b"tiny")


def lie(gpu: Gpu) -> list[float]:
    """Elapsed times in milliseconds."""
    first, second = ask("cuEventCreate", 0), ask("cuEventCreate", 0)
    times = []
    for _ in range(3):
        ask("cuEventRecord", first, gpu.stream)
        gpu.launch(0, "empty")
        ask("cuEventRecord", second, gpu.stream)
        ask("cuStreamSynchronize", gpu.stream)
        times.append(ask("cuEventElapsedTime", first, second))
    return times


def python_api(image: Path) -> dict[str, Any]:
    """The same through ``cuda.core``: capture, replay, update of a graph in place."""
    from cuda.core import Buffer, Device, LaunchConfig, ObjectCode, launch

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    kernel = ObjectCode.from_fatbin(image.read_bytes()).get_kernel("tiny")
    addresses = [int(ask("cuMemAlloc", 4)) for _ in range(2)]
    for address in addresses:
        ask("cuMemsetD32Async", address, 0, 1, int(stream.handle))

    def build(address: int, count: int) -> Any:
        builder = stream.create_graph_builder().begin_building(mode="global")
        buffer = Buffer.from_handle(address, 4)
        for _ in range(count):
            launch(builder, LaunchConfig(grid=1, block=1), kernel, buffer)
        return builder.end_building()

    def read(address: int) -> float:
        stream.sync()
        value = np.zeros(1, dtype=np.float32)
        ask("cuMemcpyDtoH", value.ctypes.data, address, 4)
        return float(value[0])

    graph = build(addresses[0], 5).complete()
    graph.upload(stream)
    graph.launch(stream)
    seen: dict[str, Any] = {"replay": read(addresses[0])}
    graph.update(build(addresses[1], 5))
    graph.launch(stream)
    seen["after update"] = [read(address) for address in addresses]
    try:
        graph.update(build(addresses[1], 6))
    except Exception as error:
        seen["refused"] = "TOPOLOGY_CHANGED" in str(error)
    graph.launch(stream)
    seen["after refused update"] = [read(address) for address in addresses]
    return seen


def main() -> None:
    """Run one scenario and print what it saw."""
    scenario, image = globals()[sys.argv[1]], Path(sys.argv[2])
    if scenario in (devices, management, slices):
        answer = scenario()
    elif scenario in (load, python_api):
        answer = scenario(image)
    else:
        answer = scenario(Gpu(image))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
