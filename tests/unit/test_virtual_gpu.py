"""The virtual GPU keeps its promises: semantics of the driver, modelled time, faults. All in processes of their own.

``SEMANTICS`` is asserted of a real card too, by the test that is marked ``gpu``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import statistics
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.virtual_gpu import (
    A100,
    H100,
    SOURCES,
    T4,
    VARIABLE,
    Card,
    Fault,
    Machine,
    Process,
    Throttle,
    VirtualGpu,
    compile_library,
    read_trace,
)

pytestmark = pytest.mark.untraced  # it is the stand-in that is tested, not the package

ROOT = Path(__file__).resolve().parent.parent.parent
SLICE_PARENT = dataclasses.replace(A100, uuid="GPU-aaaaaaaa-0000-1111-2222-333333333333")
SLICES = [
    Card(
        name=f"launchbench virtual A100 MIG 1g.5gb #{number}",
        uuid=f"MIG-bbbbbbb{number}-0000-1111-2222-333333333333",
        parent=SLICE_PARENT.uuid,
        compute_capability="8.0",
        processors=14,
    )
    for number in range(2)
]


def run(environment: dict[str, str], *command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout
    )


def run_scenario(name: str, image: Path, environment: dict[str, str]) -> Any:
    done = run(environment, "-m", "tests.virtual_gpu.scenarios", name, str(image))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def fatbin(*codes: tuple[str, int], kernels: tuple[str, ...] = ("tiny", "empty"), release: str = "13.0") -> bytes:
    """An image as nvcc lays it out: ("ptx" or "sass", architecture) each, with the names of kernels in machine code."""
    note = f"\0Cuda compilation tools, release {release}, V{release}.88\0".encode()
    sections = b"".join(b"\0.text." + kernel.encode() for kernel in kernels) + b"\0"
    entries = b""
    for kind, architecture in codes:
        payload = (note + sections if kind == "sass" else b"packed").ljust(256, b"\0")
        header = struct.pack(
            "<HHIQIIHHI", 2 if kind == "sass" else 1, 0x101, 64, len(payload), 0, 0, 0, 0, architecture
        )
        entries += header.ljust(64, b"\0") + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "graphs.fatbin"
    path.write_bytes(fatbin(("sass", 75), ("sass", 80), ("sass", 90), ("ptx", 90)))
    return path


# ---------------------------------------------------------------- semantics

# What each scenario must see: a CUresult, or a pair of those of the call and of the end of the capture, or values.
SEMANTICS: dict[str, Any] = {
    # Launches and replays count, in float32.
    "counting": {
        "loop": 100.0,
        "after instantiation": 100.0,
        "after three replays of eight": 124.0,
        "after the empty kernel": 124.0,
        "five above 2**24 - 1": 16777216.0,
    },
    # A replay writes to the address it was captured with, whoever has it by then.
    "pointers": {
        "recycled": [True, 0, 1.0],
        "innocent": [True, 0, 1.0, 0.0],
        "unowned": [False, 0, 0.0],
        "updated": [0, 0, 1.0],
        "node of another graph": 1,
        "node update": [0, 0, 1.0, 1.0],
        "address in the graph": True,
        "node update in the graph": [0, True, 0, 2.0],
    },
    # A replay onto unmapped memory loses the context.
    "large": {
        "launch": 0,
        "synchronize": 700,
        "copy": 700,
        "allocate": 700,
        "launch again": 700,
        "query": 700,
    },
    # Memory is real and its limits are checked.
    "memory": {
        "aligned": 0,
        "round trip": [1.5, 2.5],
        "beyond the end": 1,
        "more than there is": 2,
        "of no size": 1,
        "free inside": 1,
        "free": 0,
        "free twice": 1,
        "copy of freed memory": 1,
    },
    # What is forbidden during a capture invalidates it.
    "capture_rules": {
        "launch": [0, 0],
        "launch on a stream that is not captured": [0, 0],
        "synchronize the stream": [900, 901],
        "synchronize the stream, relaxed": [900, 901],
        "query the stream": [900, 901],
        "synchronize another stream": [900, 901],
        "synchronize the context": [900, 901],
        "synchronize an event inside": [907, 901],
        "query an event from before": [900, 901],
        "query an event from before, relaxed": [0, 0],
        "allocate, global": [900, 901],
        "allocate, thread_local": [900, 901],
        "allocate, relaxed": [0, 0],
        "allocate in another thread, global": [900, 901],
        "allocate in another thread, thread_local": [0, 0],
        "allocate in a relaxed thread": [0, 0],
        "free": [900, 901],
        "copy by the legacy stream": [0, 0],
        "copy by the legacy stream, relaxed": [0, 0],
        "copy by the legacy stream, blocking": [906, 901],
        "launch on the legacy stream": [0, 0],
        "launch on the legacy stream, blocking": [906, 901],
        "begin again": [401, 0],
        "wait for an event from before": [905, 901],
        "end in another thread": [908, 401],
        "begin on the legacy stream": 900,
        "end without a beginning": 401,
        "launch into an invalidated capture": 901,
    },
    # Forks have to be joined.
    "forks": {
        "joined": [0, 0, 4.0],
        "not joined": 904,
        "ended on the other stream": [903, 901],
        "merged": [902, 901, 901],
    },
    # An update must fit, and a refused one changes nothing.
    "update": {
        "other address": [0, 0],
        "counts": [0.0, 3.0],
        "more nodes": [910, 0],
        "a memset among them": [910, 0],
        "counts after": [0.0, 9.0],
        "other kernel": [0, 0],
        "counts after the empty kernel": [0.0, 9.0],
    },
    # Bad handles and images are refused.
    "handles": {
        "elapsed of an event without timing": 400,
        "elapsed of an event never recorded": 400,
        "no such kernel": 500,
        "no grid": 1,
        "not an image": 0,
    },
    # The same through cuda.core.
    "python_api": {"replay": 5.0, "after update": [5.0, 5.0], "refused": True, "after refused update": [5.0, 10.0]},
}


@pytest.mark.parametrize("name", SEMANTICS)
def test_semantics(virtual_gpu: VirtualGpu, image: Path, name: str) -> None:
    assert run_scenario(name, image, virtual_gpu.environment()) == SEMANTICS[name]


def test_a_capture_may_be_abandoned(virtual_gpu: VirtualGpu, image: Path) -> None:
    seen = run_scenario("abandoned", image, virtual_gpu.environment())
    assert seen == {"graph": [0, 901, 901], "stream": [900, 0, 0]}


@pytest.mark.gpu
@pytest.mark.skipif(
    not Path("/dev/nvidiactl").exists(), reason="needs a real NVIDIA card, to compare the virtual one with"
)
def test_semantics_are_those_of_a_real_card(binaries: Path) -> None:
    seen = {name: run_scenario(name, binaries / "graphs.fatbin", dict(os.environ)) for name in SEMANTICS}
    assert seen == SEMANTICS


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    "card",
    [
        T4,
        H100,
        Card(issue_us=1.0, pace_us=2.0, levels_us=(0.5,), event_us=0.25),
        Card(event_us=50.0, graph_launch_node_us=0.25, graph_fixed_us=1.0),
    ],
)
def test_events_say_what_the_model_says(virtual_gpu: VirtualGpu, image: Path, card: Card) -> None:
    for row in run_scenario("clocks", image, virtual_gpu.environment([card])):
        kernel, count, address = row["kernel"], row["count"], row["address"]
        truth = card.loop_us if row["mode"] == "loop" else card.replay_us
        assert row["gpu_us"] == pytest.approx(truth(count, kernel, address), rel=1e-6)
        # The host really waits, so its clock never shows less than the device took.
        assert row["total_us"] >= row["gpu_us"] - card.event_us
        if row["mode"] == "replay":
            assert row["issue_us"] >= card.graph_launch_us


def test_the_host_runs_at_most_the_queue_depth_ahead(virtual_gpu: VirtualGpu, image: Path) -> None:
    card = Card(issue_us=1.0, pace_us=200.0, levels_us=(0.0,), queue_depth=64, graph_fixed_us=1e4)
    rows = pd.DataFrame(run_scenario("clocks", image, virtual_gpu.environment([card])))
    loops, replays = rows[rows["mode"] == "loop"], rows[rows["mode"] == "replay"]
    assert loops["gpu_us"].tolist() == pytest.approx([card.loop_us(count) for count in loops["count"]], rel=1e-6)
    assert (loops["issue_us"] >= (loops["count"] - card.queue_depth) * card.pace_us).all()
    # The smallest: another process may take the processor at any time.
    free = loops[loops["count"] <= card.queue_depth]
    assert (free["issue_us"] / free["gpu_us"]).min() < 0.5
    assert replays["issue_us"].min() < 5_000  # one piece of work, however long


def test_work_is_not_done_before_its_time(virtual_gpu: VirtualGpu, image: Path) -> None:
    card = Card(issue_us=1.0, pace_us=6000.0, levels_us=(0.0,))
    seen = run_scenario("early", image, virtual_gpu.environment([card]))
    polls = seen.pop("polls")
    assert 1 <= polls < 1000
    assert seen == {"stream": 600, "event": 600, "elapsed": 600, "copy": 0, "count by then": 0.0, "count": 50.0}


def test_noise_is_as_large_as_asked_and_comes_back_with_its_seed(virtual_gpu: VirtualGpu, image: Path) -> None:
    card = dataclasses.replace(T4, noise=0.02, cold_bursts=3, cold_factor=2.0)
    one, again, other = (
        run_scenario("noise", image, virtual_gpu.environment([card], seed=seed, spend=False)) for seed in (1, 1, 2)
    )
    assert one == again != other
    truth = card.loop_us(4)
    assert [round(time / truth) for time in one[:3]] == [2, 2, 2]
    assert statistics.median(one[3:]) == pytest.approx(truth, rel=0.01)
    assert statistics.stdev(one[3:]) == pytest.approx(0.02 * truth, rel=0.25)


def test_the_time_of_tiny_depends_on_the_page_of_its_address() -> None:
    card = dataclasses.replace(T4, levels_us=(0.25, 0.5, 1.0))
    times = [card.kernel_us("tiny", 0x7F2000000000 + 4096 * page) for page in range(300)]
    assert {times.count(level) > 50 for level in card.levels_us} == {True}
    assert card.kernel_us("tiny", 0x7F2000000004) == card.kernel_us("tiny", 0x7F2000000FFC)
    assert card.kernel_us("empty", 0x7F2000000000) == 0


# ---------------------------------------------------------------- devices

TWO = [
    dataclasses.replace(H100, uuid="GPU-12345678-aaaa-bbbb-cccc-000000000001", pci="00000000:81:00.0"),
    dataclasses.replace(T4, uuid="GPU-1234ffff-aaaa-bbbb-cccc-000000000002", pci="00000000:04:00.0"),
]
MIG = [SLICE_PARENT, *SLICES, T4]


@pytest.mark.parametrize(
    ("cards", "visible", "names"),
    [
        (TWO, None, ["H100", "T4"]),
        (TWO, "1,0", ["T4", "H100"]),
        (TWO, "1", ["T4"]),
        (TWO, "0,-1,1", ["H100"]),
        (TWO, "0,7,1", ["H100"]),
        (TWO, "0,frog,1", ["H100"]),
        (TWO, " 1 , 0", ["T4", "H100"]),
        (TWO, "", 100),
        (TWO, "-1", 100),
        (TWO, "0,0", 100),
        (TWO, "GPU-1234ffff-aaaa-bbbb-cccc-000000000002", ["T4"]),
        (TWO, "GPU-1234f,GPU-12345", ["T4", "H100"]),
        (TWO, "GPU-1234", 100),
        (MIG, None, ["A100 MIG 1g.5gb #0"]),
        (MIG, SLICES[1].uuid, ["A100 MIG 1g.5gb #1"]),
        (MIG, f"MIG-{SLICE_PARENT.uuid}/2/0", ["A100 MIG 1g.5gb #1"]),
        (MIG, "1", ["T4"]),
        (MIG, "1,0", ["A100 MIG 1g.5gb #0"]),
    ],
)
def test_visible_devices(
    virtual_gpu: VirtualGpu, image: Path, cards: list[Card], visible: str | None, names: list[str] | int
) -> None:
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = run_scenario("devices", image, virtual_gpu.environment(cards, variables=variables))
    if isinstance(found, list):
        found = [device["name"].removeprefix("launchbench virtual ") for device in found]
    assert found == names


def test_cuda_and_nvml_may_differ_in_order(virtual_gpu: VirtualGpu, image: Path) -> None:
    def uuids(by_cuda: list[dict[str, str]]) -> list[str]:
        return [device["uuid"] for device in by_cuda]

    plain = virtual_gpu.environment(TWO)
    by_cuda = run_scenario("devices", image, plain)
    by_nvml = [gpu["uuid"].removeprefix("GPU-").replace("-", "") for gpu in run_scenario("management", image, plain)]
    assert uuids(by_cuda) == [card.uuid.removeprefix("GPU-").replace("-", "") for card in TWO if card.uuid]
    assert by_nvml == uuids(by_cuda)[::-1]
    assert [device["pci"] for device in by_cuda] == ["0000:81:00.0", "0000:04:00.0"]
    by_pci = virtual_gpu.environment(TWO, variables={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert uuids(run_scenario("devices", image, by_pci)) == by_nvml


def test_a_slice_knows_its_parent(virtual_gpu: VirtualGpu, image: Path) -> None:
    assert run_scenario("slices", image, virtual_gpu.environment(MIG)) == {
        "name": SLICES[0].name,
        "memory": int(SLICES[0].memory_mb) << 20,
        "parent": SLICE_PARENT.uuid,
        "mode": [1, 1],
        "clock": 3,
    }


def test_uuids_are_stable_and_distinct(virtual_gpu: VirtualGpu, image: Path) -> None:
    cards = [T4, T4, A100]
    first, second = (run_scenario("devices", image, virtual_gpu.environment(cards)) for _ in range(2))
    assert first == second
    assert len({device["uuid"] for device in first}) == len({device["pci"] for device in first}) == 3


@pytest.mark.parametrize(
    ("codes", "release", "capability", "driver", "result"),
    [
        ([("sass", 75)], "13.0", "7.5", "13.0", 0),
        ([("sass", 80)], "13.0", "8.6", "13.0", 0),
        ([("sass", 86)], "13.0", "8.0", "13.0", 209),
        ([("sass", 75)], "13.0", "8.0", "13.0", 209),
        ([("sass", 75), ("ptx", 75)], "13.0", "9.0", "13.0", 0),
        ([("sass", 75), ("ptx", 90)], "13.0", "7.0", "13.0", 209),
        ([("sass", 75), ("ptx", 75)], "13.1", "9.0", "13.0", 222),
        ([("sass", 90)], "13.1", "9.0", "13.0", 0),
        ([("sass", 75)], "13.0", "7.5", "12.4", 222),
    ],
)
def test_an_image_must_fit_card_and_driver(
    virtual_gpu: VirtualGpu,
    tmp_path: Path,
    codes: list[tuple[str, int]],
    release: str,
    capability: str,
    driver: str,
    result: int,
) -> None:
    path = tmp_path / "image"
    path.write_bytes(fatbin(*codes, release=release))
    card = dataclasses.replace(T4, compute_capability=capability)
    assert run_scenario("load", path, virtual_gpu.environment([card], driver_version=driver)) == result


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("fault", "results"),
    [
        (Fault("cuMemAlloc", 2), [0, 0, "fails"]),
        (Fault("cuMemAlloc", 2, start=3, count=1), [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]),
        (Fault("cuStreamSynchronize", 999, start=4), [0, 0, 0, 0, 0, 0, 0, 999, 0, 0, 999, 0]),
        (Fault("cuLaunchKernel", 719, start=3, sticky=True), [0, 0, 0, 0, 0, 0, 719, 719, 719, 719, 719, 719]),
        (Fault("cuLaunchKernel", 719, start=3, sticky=True, card=1), [0] * 12),
    ],
)
def test_calls_fail_when_they_are_told_to(
    virtual_gpu: VirtualGpu, image: Path, fault: Fault, results: list[int | str]
) -> None:
    environment = virtual_gpu.environment([T4], [fault])
    if results[-1] == "fails":
        done = run(environment, "-m", "tests.virtual_gpu.scenarios", "tour", str(image))
        assert done.returncode == 1
        assert done.stderr == "cuMemAlloc failed: 2\n"
    else:
        assert run_scenario("tour", image, environment) == results


def test_no_device_and_a_busy_device(virtual_gpu: VirtualGpu, image: Path) -> None:
    assert run_scenario("devices", image, virtual_gpu.environment([T4], [Fault("cuInit", 100)])) == 100
    done = run(
        virtual_gpu.environment([T4], [Fault("cuDevicePrimaryCtxRetain", 46)]),
        *("-m", "tests.virtual_gpu.scenarios", "tour", str(image)),
    )
    assert done.stderr == "cuDevicePrimaryCtxRetain failed: 46\n"


def test_a_call_can_hang(virtual_gpu: VirtualGpu, image: Path) -> None:
    hanging = virtual_gpu.environment([T4], [Fault("cuStreamSynchronize", hang=True, start=3)])
    with pytest.raises(subprocess.TimeoutExpired):
        run(hanging, "-m", "tests.virtual_gpu.scenarios", "tour", str(image), timeout=3)


@pytest.mark.parametrize("value", [0.0, -1.5, math.nan])
def test_events_can_lie(virtual_gpu: VirtualGpu, image: Path, value: float) -> None:
    fault = Fault("cuEventElapsedTime", value=value, start=2, count=1)
    before, lie, after = run_scenario("lie", image, virtual_gpu.environment([T4], [fault]))
    assert before == after == pytest.approx(T4.loop_us(1) / 1e3, rel=1e-6)
    assert np.array_equal([lie], [value], equal_nan=True)


def test_nvml_answers_change_when_they_are_told_to(virtual_gpu: VirtualGpu, image: Path) -> None:
    faults = [Fault("nvmlDeviceGetPowerUsage", 15, start=2, count=1), Fault("nvmlDeviceGetMigMode", 4, card=1)]
    throttle = Throttle(after=2, mask=0x40, sm_clock_mhz=300, card=1)
    processes = [Process(77, card=1), Process(78, card=1, start=2, memory_mb=None)]
    cards = [T4, A100, H100]
    environment = virtual_gpu.environment(cards, faults, throttle=throttle, processes=processes)
    first, second, third = run_scenario("management", image, environment)
    assert [gpu["power"] for gpu in (first, second, third)] == [[30000, 15, 30000], [30000] * 3, [30000] * 3]
    assert [gpu["mig"] for gpu in (first, second, third)] == [3, 4, [0, 0]]
    assert [gpu["reasons"] for gpu in (first, second, third)] == [[0] * 4, [0, 0, 0x40, 0x40], [0] * 4]
    assert [gpu["clock"] for gpu in (first, second, third)] == [1500, 300, 1500]
    assert second["processes"] == [[[77, 500 << 20]], [[77, 500 << 20], [78, None]]]
    assert first["processes"] == third["processes"] == [[], []]


def test_cuda_and_nvml_are_the_same_card(virtual_gpu: VirtualGpu, image: Path) -> None:
    throttle = Throttle(after=2, slowdown=1.5)
    lost = Fault("cuMemAlloc", 719, sticky=True)
    environment = virtual_gpu.environment([T4], [lost], throttle=throttle, processes=[Process(77)])
    seen = run_scenario("both_sides", image, environment)
    slow = dataclasses.replace(T4, graph_fixed_us=1.5 * T4.graph_fixed_us, node_us=1.5 * T4.node_us)
    assert seen["times"] == pytest.approx([T4.replay_us(100), T4.replay_us(100), slow.replay_us(100)], rel=1e-6)
    assert seen["pids"] == [seen["pids"][0], seen["pids"][0], 77]
    assert seen["name"] == 15
    environment = virtual_gpu.environment([T4], own_pid=4711)
    assert run_scenario("both_sides", image, environment)["pids"][1:] == [4711]


def test_a_freed_place_is_given_out_again(virtual_gpu: VirtualGpu, image: Path) -> None:
    assert run_scenario("reuse", image, virtual_gpu.environment()) == [True, True, False]


def test_names_may_be_undecodable(virtual_gpu: VirtualGpu, image: Path) -> None:
    card = dataclasses.replace(T4, name="launchbench virtual T\\xff4", nvml_name="launchbench virtual \\xc3(")
    environment = virtual_gpu.environment([card])
    assert run_scenario("devices", image, environment)[0]["name"] == "launchbench virtual T\xff4"
    assert run_scenario("management", image, environment)[0]["name"] == "not UTF-8"


def test_a_missing_function_is_missed_only_when_it_is_called(virtual_gpu: VirtualGpu, image: Path) -> None:
    environment = virtual_gpu.environment([T4], [Fault("cuMemAlloc", missing=True)])
    assert len(run_scenario("devices", image, environment)) == 1
    done = run(environment, "-m", "tests.virtual_gpu.scenarios", "tour", str(image))
    assert done.returncode == 1
    assert "function cuMemAlloc_v2 is not found" in done.stderr


def test_a_call_that_is_not_implemented_names_itself(virtual_gpu: VirtualGpu) -> None:
    done = run(virtual_gpu.environment(), "-c", "from cuda.bindings import driver as d; print(d.cuCtxGetLimit(0))")
    assert "launchbench virtual GPU: cuCtxGetLimit is not implemented" in done.stderr
    assert "801" in done.stdout


def test_a_fault_must_be_one_that_can_happen() -> None:
    with pytest.raises(ValueError, match="no function 'cuMemAloc'"):
        Fault("cuMemAloc", 2)


def test_a_mistake_in_the_variable_is_one_line(virtual_gpu: VirtualGpu, image: Path) -> None:
    environment = {**virtual_gpu.environment(), VARIABLE: "[card]\nissue = 4\n"}
    done = run(environment, "-m", "tests.virtual_gpu.scenarios", "devices", str(image))
    assert done.returncode == 70
    assert done.stderr == f"launchbench virtual GPU: unknown key or bad value in {VARIABLE}: issue = 4\n"


def test_no_card_can_have_the_name_of_a_real_one(virtual_gpu: VirtualGpu, image: Path) -> None:
    card = dataclasses.replace(T4, name="Tesla T4")
    done = run(virtual_gpu.environment([card]), "-m", "tests.virtual_gpu.scenarios", "devices", str(image))
    assert done.returncode == 70
    assert "a name that does not begin with 'launchbench virtual'" in done.stderr


def test_the_example_of_the_readme_is_accepted(virtual_gpu: VirtualGpu, image: Path, tmp_path: Path) -> None:
    blocks = (SOURCES / "README.md").read_text().split("```")
    (example,) = [block for block in blocks if block.startswith("\ndriver_version")]
    text = example.replace("/tmp/calls", str(tmp_path / "calls"))
    (gpu,) = run_scenario("management", image, {**virtual_gpu.environment(), VARIABLE: text})
    assert gpu["name"] == "launchbench virtual T4"
    assert gpu["processes"] == [[[99, 500 << 20]]] * 2
    assert read_trace(tmp_path / "calls")["nvmlDeviceGetName"] == 1


def test_the_variable_may_name_a_file_and_calls_are_traced(
    virtual_gpu: VirtualGpu, image: Path, tmp_path: Path
) -> None:
    written = tmp_path / "machine"
    written.write_text(Machine([H100], trace=tmp_path / "calls").text())
    environment = {**virtual_gpu.environment(), VARIABLE: str(written)}
    for times in (1, 2):
        run_scenario("tour", image, environment)
        calls = read_trace(tmp_path / "calls")
        assert (calls["cuLaunchKernel"], calls["cuMemAlloc"], calls["cuInit"]) == (4 * times, 5 * times, times)


# ---------------------------------------------------------------- the library itself


def test_constants_and_structures_are_those_of_cuda_h() -> None:
    compiler, nvcc = shutil.which(os.environ.get("CC", "cc")), shutil.which("nvcc")
    places = [Path(nvcc).resolve().parent.parent / "include"] if nvcc else []
    places += [Path("/usr/local/cuda/include"), *Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/include")]
    headers = [place for place in places if (place / "cuda.h").is_file()]
    if not compiler or not headers:
        pytest.skip("no C compiler" if not compiler else f"no cuda.h in {', '.join(map(str, places))}")
    command = [compiler, "-std=gnu11", "-fsyntax-only", f"-I{headers[0]}", str(SOURCES / "check_abi.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_library_is_compiled_once(virtual_gpu_library: Path) -> None:
    before = (virtual_gpu_library / "libcuda.so.1").stat()
    assert compile_library(virtual_gpu_library.parent) == virtual_gpu_library
    assert (virtual_gpu_library / "libcuda.so.1").stat() == before


# ---------------------------------------------------------------- the whole job


def test_a_job_finds_the_truth(virtual_gpu: VirtualGpu, binaries: Path, tmp_path: Path) -> None:
    count = 100
    settings = {
        "site": "test",
        "virtual_results": "allow",
        "launch_counts": [count],
        "placements": 5,
        "full_placements": 2,
        "pool_mib": 1,
        "repetitions": 3,
        "warmup_rounds": 1,
        "warmup_ms": 0,
        **{f"{name}_dir": str(tmp_path / name) for name in ("results", "reports", "build")},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    command = ["-m", "launchbench", "measure", "--config", str(tmp_path / "config.yaml"), "--label", "h100"]
    command += ["--launch-count", str(count), "--binaries", str(binaries)]
    done = run(virtual_gpu.environment([T4, H100], trace=tmp_path / "calls"), *command)
    assert done.returncode == 0, done.stderr
    record = json.loads(Path(done.stdout.strip()).read_text())
    assert record["device"]["virtual"] is True
    assert record["device"]["name"] == "launchbench virtual H100"
    assert record["device"]["driver_version"] == "580.00.00"
    frame = pd.read_csv(Path(done.stdout.strip()).with_suffix(".csv"))
    (pool,) = {int(block["buffer_address"], 16) for block in record["blocks"]}
    medians = frame.groupby(["launch_path", "kernel", "mode", "offset_bytes"])["gpu_us"].median()
    for (path, kernel, mode, offset), median in medians.items():
        truth = H100.mode_us(mode, count, kernel, pool + offset)
        if (path, mode) == ("cuda-python", "loop"):
            truth = H100.loop_us(count, kernel, pool + offset, python=True)
        if mode != "replay-batch":
            assert median == pytest.approx(truth, rel=1e-4), (path, kernel, mode)
    for block in record["blocks"]:
        assert block["observed_count"] == block["expected_count"]
        assert block["before"]["other_processes"] == []
    calls = read_trace(tmp_path / "calls")
    assert calls["cuLaunchKernel"] > 0 and calls["cuLaunchKernelEx"] > 0
    assert calls["cuGraphLaunch"] > 0
