"""Everything that can fail under a measurement, one by one: the job fails with one line, or its record says so.

Which functions there are is taken from a trace of a job, so that a new one is covered as soon as it is called.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launchbench.__main__ import main
from launchbench.measure.host import cpu_cores
from launchbench.measure.lock import core_lock
from launchbench.results.failures import MAX_REASON, read_failures
from launchbench.results.files import Result, read_results
from tests.unit.undrawn import draw_nothing
from tests.virtual_gpu import A100, H100, T4, Card, Fault, Process, Throttle, VirtualGpu, read_trace
from tests.virtual_gpu.jobs import Done, Jobs

N = 3
REPETITIONS = 3
PLACEMENTS, FULL = 2, 1
ROUNDS = PLACEMENTS * REPETITIONS
BLOCKS = 4
UNKNOWN = 999
NO_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY (2); the card's memory is full: nvidia-smi lists who holds it"

SWALLOWED = {
    "cuDevicePrimaryCtxRelease": "at the end of the process; the result is filed by then",
    "cuEventDestroy": "a destructor of cuda.core, which cannot raise; the event has been read",
    "cuStreamDestroy": "a destructor of cuda.core, after the last synchronize",
}
"""Functions whose failure cuda.core keeps to itself: the measurement is complete without them."""

UNSEEN = {"cuGetProcAddress": "cuda.bindings tells only that a function is not found, and names that function"}
"""Functions that fail under the name of another one, without a code."""

PARENT = dataclasses.replace(A100, uuid="GPU-aaaaaaaa-0000-1111-2222-444444444444")
SLICE = Card(
    name="launchbench virtual A100 MIG 1g.5gb",
    uuid="MIG-bbbbbbbb-0000-1111-2222-444444444444",
    parent=PARENT.uuid,
    compute_capability="8.0",
    processors=14,
    memory_mb=4864,
)
SLICE_LABEL = "launchbench-virtual-a100-mig-1g.5gb"


@dataclass(frozen=True)
class Bench:
    """A folder in which a job runs, and what it leaves there."""

    folder: Path
    gpu: VirtualGpu
    jobs: Jobs
    binaries: Path

    def measure(
        self,
        faults: list[Fault] | None = None,
        cards: list[Card] | None = None,
        label: str = "t4",
        card: str = "any",
        count: int = N,
        trial: int = 1,
        timeout_s: float = 60,
        to_the_end: bool = False,
        **more: Any,
    ) -> Done:
        environment = self.gpu.environment(
            cards or [T4], faults or [], modelled_clock=True, trace=self.folder / "calls", **more
        )
        self.clear()
        arguments = ["--label", label, "--card", card, "--launch-count", str(count), "--binaries", str(self.binaries)]
        arguments += ["--trial", str(trial), "--receipt", "receipt.json"]
        limits = {"timeout_s": timeout_s, "to_the_end": to_the_end}
        done = self.jobs.run(environment, self.folder, "measure", *arguments, **limits)
        said = " ".join(line.removeprefix("launchbench: ") for line in done.said)
        kept = [failure.reason for failure in read_failures(self.folder / "build")]
        assert kept == ([said[:MAX_REASON]] if done.status == 1 else []) or done.status not in (0, 1)
        shutil.rmtree(self.folder / "build", ignore_errors=True)
        return done

    def configure(self, **settings: Any) -> None:
        fixed = {"site": "lab", "virtual_results": "allow", "results_dir": "simulated", "launch_counts": [N]}
        fixed |= {"repetitions": REPETITIONS, "warmup_rounds": 1, "warmup_ms": 0}
        fixed |= {"placements": PLACEMENTS, "full_placements": FULL, "pool_mib": 1}
        (self.folder / "config.yaml").write_text(json.dumps(fixed | settings))

    def clear(self) -> None:
        shutil.rmtree(self.folder / "simulated", ignore_errors=True)
        for name in ("receipt.json", "calls", "stdout", "stderr"):
            (self.folder / name).unlink(missing_ok=True)

    @property
    def left(self) -> list[str]:
        """Files that the job has written for others to read, temporary ones included."""
        own = {"config.yaml", "stdout", "stderr", "calls"}
        files = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path) for path in files if str(path) not in own)

    @property
    def calls(self) -> dict[str, int]:
        return read_trace(self.folder / "calls")

    def result(self) -> Result:
        """The one complete result."""
        results, problems = read_results(self.folder / "simulated")
        assert (len(results), problems) == (1, [])
        assert sorted(json.loads((self.folder / "receipt.json").read_text())) == ["size_bytes"]
        assert len(self.left) == 3
        return results[0]

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of what was measured."""
        done = self.jobs.run(self.gpu.environment(), self.folder, "aggregate")
        assert done.status == 0, done.err
        folder = self.folder / "build" / "tables"
        tidy = pd.concat(pd.read_parquet(path) for path in folder.glob("tidy/*/*/*.parquet"))
        return {"tidy": tidy, **{path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}}


@pytest.fixture(scope="module")
def jobs(virtual_gpu: VirtualGpu) -> Iterator[Jobs]:
    with Jobs(virtual_gpu.environment()) as started:
        yield started


@pytest.fixture
def bench(virtual_gpu: VirtualGpu, jobs: Jobs, binaries: Path, tmp_path: Path) -> Bench:
    made = Bench(tmp_path, virtual_gpu, jobs, binaries)
    made.configure()
    return made


def refusal(bench: Bench, done: Done) -> str:
    """The one line of a job that failed and left nothing."""
    assert done.status == 1, done
    assert len(done.said) == 1, done
    assert done.said[0].isprintable()
    assert "Traceback" not in done.err
    assert done.out == ""
    assert bench.left == []
    return done.said[0].removeprefix("launchbench: ")


def warnings(done: Done) -> list[str]:
    """What was said of repetitions that cannot be used."""
    mark = ": warning"
    return [line.replace(mark, "", 1) for line in done.err.splitlines() if mark in line]


# ---------------------------------------------------------------- the driver


def complaint(bench: Bench, done: Done, call: str) -> str:
    """What is wrong with how the failure of a call was told; empty when nothing is."""
    if call in SWALLOWED:
        return "" if done.status == 0 and bench.result() else f"status {done.status}, left {bench.left}: {done.err}"
    told = [line for line in done.said if re.search(rf"\b{call}\b", line) and f"({UNKNOWN})" in line]
    right = done.status == 1 and len(done.said) == len(told) == 1 and "Traceback" not in done.err
    return "" if right and bench.left == [] else f"status {done.status}, left {bench.left}: {done.err}"


def driver_calls(bench: Bench) -> dict[str, int]:
    assert bench.measure(to_the_end=True).status == 0
    calls = {name: count for name, count in bench.calls.items() if name.startswith("cu")}
    assert len(calls) > 35
    assert set(SWALLOWED) | set(UNSEEN) <= set(calls), "an entry that no call needs any more"
    return calls


@pytest.mark.untraced
def test_every_driver_function_that_fails_is_named_with_its_code(bench: Bench) -> None:
    wrong = {}
    for call in sorted(set(driver_calls(bench)) - set(UNSEEN)):
        wrong[call] = complaint(bench, bench.measure([Fault(call, UNKNOWN)], to_the_end=call in SWALLOWED), call)
    assert {call: what for call, what in wrong.items() if what} == {}


@pytest.mark.untraced
def test_only_graphs_of_cuda_core_have_a_user_object(bench: Bench) -> None:
    """One that has takes longer from launch to first node, which is not what a C++ program waits for."""
    objects = {}
    for path in ("native-driver", "cuda-bindings", "cuda-python"):
        bench.configure(launch_paths=[path], kernels=["empty"])
        assert bench.measure().status == 0
        objects[path] = bench.calls.get("cuUserObjectCreate", 0) > 0
    assert objects == {"native-driver": False, "cuda-bindings": False, "cuda-python": True}


@pytest.mark.untraced
def test_every_driver_function_that_fails_at_its_last_call_is_named_with_its_code(bench: Bench) -> None:
    # cuda.core tells no code of the first, and asked again, as the job does, it works; the last calls of the others are
    # in destructors of cuda.core, which cannot raise.
    once_only = {"cuEventCreate", "cuGraphDestroy", "cuGraphExecDestroy"}
    calls = driver_calls(bench)
    wrong = {}
    for call in sorted(name for name, count in calls.items() if count > 1 and name not in UNSEEN.keys() | once_only):
        fault = Fault(call, UNKNOWN, start=calls[call], count=1)
        done = bench.measure([fault], to_the_end=call in SWALLOWED)
        wrong[call] = complaint(bench, done, call)
    assert len(wrong) > 20
    assert {call: what for call, what in wrong.items() if what} == {}
    done = bench.measure([Fault("cuEventCreate", UNKNOWN, start=2, count=1)])
    assert refusal(bench, done) == "cuEventCreate failed: Failed to create CUDA event"


def test_the_first_error_inside_a_capture_is_the_one_that_is_told(bench: Bench) -> None:
    # The loop of the capture is the second one; a launch that fails there invalidates the capture.
    faults = [Fault("cuLaunchKernel", 719, start=N + 1, count=1), Fault("cuStreamEndCapture", 901)]
    assert refusal(bench, bench.measure(faults)) == "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED (719)"


def test_no_graph_is_left_after_a_failure(bench: Bench) -> None:
    # A framework that fails is a gap, and the job goes on with what it has left on the card.
    bench.configure(launch_paths=["native-driver"], kernels=["tiny"])
    bench.measure([Fault("cuLaunchKernel", 719, start=N + 1, count=1)])
    assert (bench.calls["cuStreamEndCapture"], bench.calls.get("cuGraphDestroy")) == (1, 1)
    bench.measure([Fault("cuGraphDestroy", UNKNOWN, start=1, count=1)])
    assert (bench.calls["cuGraphInstantiate"], bench.calls.get("cuGraphExecDestroy")) == (1, 1)


def test_a_function_that_the_driver_lacks_is_named(bench: Bench) -> None:
    assert refusal(bench, bench.measure([Fault("cuGetProcAddress", UNKNOWN)])).startswith("cuInit failed: ")
    done = bench.measure([Fault("cuMemAlloc", missing=True)])
    assert refusal(bench, done).startswith("cuMemAlloc failed: ")


# ---------------------------------------------------------------- NVML

NVML_CODES = {3: "Not Supported", 4: "Insufficient Permissions", 15: "GPU is lost"}
WITHOUT_ANSWER = {"nvmlShutdown", "nvmlInitWithFlags", "nvmlDeviceGetHandleByUUID"} | {
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"
}


def parts(result: Result) -> dict[str, dict[str, Any]]:
    """The parts of a record that NVML fills, by name."""
    record = result.record
    states = {
        f"{when} {i}": getattr(block, when) for i, block in enumerate(record.blocks) for when in ("before", "after")
    }
    return {name: part.model_dump() for name, part in {"device": record.device, **states}.items()}


def newly_unknown(bench: Bench, usual: dict[str, dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Part -> fields that are unknown now -> reason; checks that exactly these have lost their value."""
    found: dict[str, dict[str, str]] = {}
    for name, part in parts(bench.result()).items():
        known_before = {key for key, value in usual[name].items() if value is not None}
        lost = {key for key in known_before if part[key] is None}
        new = {key: why for key, why in part["unavailable"].items() if key not in usual[name]["unavailable"]}
        assert lost == set(new), (name, part)
        if new:
            found[name] = new
    return found


@pytest.mark.untraced
@pytest.mark.parametrize("label", ["a100", SLICE_LABEL])
def test_every_nvml_query_that_fails_leaves_a_field_empty_with_its_reason(bench: Bench, label: str) -> None:
    cards = [A100] if label == "a100" else [PARENT, SLICE]
    bench.configure(launch_paths=["native-driver"], kernels=["tiny"])
    assert bench.measure(cards=cards, label=label).status == 0
    usual, queries = parts(bench.result()), sorted(name for name in bench.calls if name.startswith("nvml"))
    assert len(queries) >= 20
    # Of a slice only what is asked of no whole GPU: the rest is the same code.
    for query in queries if label == "a100" else ["nvmlDeviceGetName", "nvmlDeviceGetUUID"]:
        for code, reason in NVML_CODES.items():
            done = bench.measure([Fault(query, code)], cards, label)
            assert done.status == 0, (query, done)
            unknown = newly_unknown(bench, usual)
            if query == "nvmlShutdown":
                assert unknown == {}
                continue
            assert unknown, query
            if query in WITHOUT_ANSWER:
                assert len(unknown) == 3 and len(unknown["before 0"]) >= 10, query
                assert len(unknown["device"]) >= 10
            reasons = {why for fields in unknown.values() for why in fields.values()}
            assert all(reason in why for why in reasons), (query, reasons)


def test_nvml_that_fails_in_mid_run_leaves_what_it_has_said(bench: Bench) -> None:
    bench.configure(launch_paths=["native-driver"], kernels=["tiny"])
    assert bench.measure().status == 0
    usual = parts(bench.result())
    assert bench.measure([Fault("nvmlDeviceGetTemperature", 15, start=2)]).status == 0
    assert newly_unknown(bench, usual) == {"after 0": {"temperature_c": "GPU is lost"}}


def test_what_nvml_says_may_be_undecodable(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    card = dataclasses.replace(T4, name="launchbench virtual \\xffT4 \\xc3(", vbios="\\xfe\\xff")
    done = bench.measure(cards=[card], label="launchbench-virtual-t4", nvml_driver_version="58\\xff")
    assert done.status == 1  # the letter before T4 makes it no word of its own
    (found,) = re.findall(r"= (\S+) \(card", refusal(bench, done))
    assert bench.measure(cards=[card], label=found, nvml_driver_version="58\\xff").status == 0
    device = bench.result().record.device
    assert device.name == "launchbench virtual \N{REPLACEMENT CHARACTER}T4 \N{REPLACEMENT CHARACTER}("
    assert device.virtual
    assert (device.driver_version, device.vbios_version) == (None, None)
    assert {device.unavailable[field] for field in ("driver_version", "vbios_version")} == {"answer is not UTF-8"}
    assert "b'" not in done.out
    assert len(bench.tables()["summary"]) == BLOCKS
    monkeypatch.chdir(bench.folder)
    draw_nothing(monkeypatch)
    assert main(["report"]) == 0
    page = (bench.folder / "reports" / "comparison.html").read_text(encoding="utf-8")
    assert not re.search(r"\bb'", page)


# ---------------------------------------------------------------- the card goes, or never was there


def test_the_card_is_lost_in_mid_run(bench: Bench) -> None:
    line = refusal(bench, bench.measure([Fault("cuLaunchKernel", 719, start=20, sticky=True)]))
    assert line == "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED (719)"


def test_no_memory_is_left(bench: Bench) -> None:
    tiny = dataclasses.replace(T4, memory_mb=0)
    expected = "pool_mib: got 1; expected no more MiB than the card has free: cuMemAlloc failed: "
    assert refusal(bench, bench.measure(cards=[tiny])) == expected + NO_MEMORY


def test_no_device(bench: Bench) -> None:
    line = refusal(bench, bench.measure([Fault("cuInit", 100)]))
    assert line.startswith("cuInit failed: CUDA_ERROR_NO_DEVICE (100); no visible GPU (CUDA_VISIBLE_DEVICES=not set)")
    line = refusal(bench, bench.measure(variables={"CUDA_VISIBLE_DEVICES": ""}))
    assert "no visible GPU (CUDA_VISIBLE_DEVICES='')" in line


def test_a_toolkits_stub_in_the_place_of_the_driver(bench: Bench) -> None:
    line = refusal(bench, bench.measure([Fault("cuInit", 34)]))
    assert line.startswith("cuInit failed: CUDA_ERROR_STUB_LIBRARY (34); the libcuda.so.1 that was found is a toolkit")
    assert line.endswith("take its folder out of LD_LIBRARY_PATH")


def test_a_busy_device(bench: Bench) -> None:
    line = refusal(bench, bench.measure([Fault("cuDevicePrimaryCtxRetain", 46)]))
    assert "cuDevicePrimaryCtxRetain" in line and "CUDA_ERROR_DEVICE_UNAVAILABLE (46)" in line


def test_a_call_that_hangs_files_nothing_and_frees_the_card_when_killed(bench: Bench) -> None:
    done = bench.measure([Fault("cuStreamSynchronize", hang=True, start=9)], timeout_s=3)
    assert done.status == -9
    assert bench.left == []
    assert bench.measure(timeout_s=20).status == 0


def test_the_wrong_card_for_the_label(bench: Bench) -> None:
    line = refusal(bench, bench.measure(cards=[T4], label="a100"))
    assert line.startswith("asked to measure a100; found launchbench virtual T4 = t4 (card ")
    assert line.endswith("): nothing was measured")


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (200, "install a newer driver, or build with an nvcc not newer than 13.0"),
        (209, "the code for sm_75 is not taken: run `launchbench build` again, or install a newer driver"),
        (218, "install a newer driver, or build with an nvcc not newer than 13.0"),
        (222, "install a newer driver, or build with an nvcc not newer than 13.0"),
        (803, "restart the machine, as after an update of its driver"),
        (804, "take the forward-compatibility libcuda out of the library path"),
    ],
)
def test_a_driver_that_does_not_take_the_binary(bench: Bench, code: int, cure: str) -> None:
    done = bench.measure([Fault("cuLibraryLoadData", code)])
    line = refusal(bench, done)
    assert f"({code}); " in line
    toolkit = json.loads((bench.binaries / "build.json").read_text())["nvcc"]["version"]
    assert f"built by nvcc {toolkit} for sm_75" in line
    assert f"the driver runs CUDA up to 13.0, launchbench virtual T4 is sm_75: {cure}" in line
    assert done.err.count("\n") == 1, "something was timed before"
    assert not {"cuLaunchKernel", "cuMemAlloc", "cuStreamBeginCapture"} & set(bench.calls)


@pytest.mark.parametrize(
    ("code", "architectures", "cure"),
    [
        (209, ["sm_80", "sm_90a"], "add sm_75 to architectures"),
        (
            222,
            ["sm_80"],
            "add sm_75 to architectures, install a newer driver, or build with an nvcc not newer than 13.0",
        ),
        (218, ["sm_75a"], "install a newer driver, or build with an nvcc not newer than 13.0"),
    ],
)
def test_the_advice_depends_on_what_was_built(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, code: int, architectures: list[str], cure: str
) -> None:
    built = tmp_path_factory.mktemp("built") / "cuda"
    shutil.copytree(bench.binaries, built)
    manifest = json.loads((built / "build.json").read_text())
    (built / "build.json").write_text(json.dumps(manifest | {"architectures": architectures}))
    other = dataclasses.replace(bench, binaries=built)
    line = refusal(other, other.measure([Fault("cuLibraryLoadData", code)], driver_version="13.0"))
    assert line.endswith(f"virtual T4 is sm_75: {cure}")


def test_a_kernel_that_cannot_be_loaded_for_another_reason_gets_no_wrong_advice(bench: Bench) -> None:
    line = refusal(bench, bench.measure([Fault("cuLibraryLoadData", 2)]))
    assert line == f"cuLibraryLoadData or cuLibraryGetKernel failed: {NO_MEMORY}"


def test_a_job_waits_for_the_cores_of_another_one_on_whatever_card(bench: Bench) -> None:
    with core_lock(cpu_cores()[:1], timeout_s=10, folder=bench.gpu.locks):
        done = bench.measure(timeout_s=2)
        assert (done.status, bench.left) == (-9, [])
        assert re.fullmatch(r"waiting for another measurement on CPU cores [0-9,-]+ to finish\n", done.err)
    assert bench.measure().status == 0


# ---------------------------------------------------------------- which card


def test_a_slice_is_recorded_as_one_of_its_parent(bench: Bench) -> None:
    cards = [PARENT, SLICE]
    assert "asked to measure a100; found" in refusal(bench, bench.measure(cards=cards, label="a100"))
    assert bench.measure(cards=cards, label=SLICE_LABEL).status == 0
    device = bench.result().record.device
    assert (device.kind, device.uuid, device.name) == ("mig", SLICE.uuid, SLICE.name)
    assert (device.parent_uuid, device.parent_name) == (PARENT.uuid, PARENT.name)
    assert device.memory_total_bytes == int(SLICE.memory_mb) << 20
    assert device.mig_enabled is True
    assert bench.result().path.parent.name == "mig-bbbbbbbb"
    summary = bench.tables()["summary"]
    assert set(summary["label"]) == {SLICE_LABEL}


def test_nvml_is_asked_about_the_card_that_cuda_measures(bench: Bench) -> None:
    one = dataclasses.replace(
        H100, pci="00000000:81:00.0", uuid="GPU-11111111-aaaa-bbbb-cccc-000000000001", power_w=111
    )
    two = dataclasses.replace(
        H100, pci="00000000:04:00.0", uuid="GPU-22222222-aaaa-bbbb-cccc-000000000002", power_w=222
    )
    processes = [Process(77, card=1)]
    for card, watts in ((one, 111), (two, 222)):
        assert card.uuid
        done = bench.measure(cards=[one, two], label="h100", card=card.uuid[4:12], processes=processes)
        assert done.status == 0
        record = bench.result().record
        assert record.device.uuid == card.uuid
        assert {block.before.power_w for block in record.blocks} == {watts}
        strangers = {len(block.after.other_processes or []) for block in record.blocks}
        assert strangers == {0 if card is one else 1}


def test_the_driver_decides_what_is_visible(bench: Bench) -> None:
    cards = [dataclasses.replace(T4, uuid=f"GPU-{i}{i}{i}{i}aaaa-0000-0000-0000-000000000000") for i in range(3)]
    for visible, chosen in (
        ("2,0", "2222aaaa"),
        ("GPU-1111aaaa-0000-0000-0000-000000000000", "1111aaaa"),
        ("GPU-1", "1111aaaa"),
        ("1,-1,2", "1111aaaa"),
    ):
        assert bench.measure(cards=cards, variables={"CUDA_VISIBLE_DEVICES": visible}).status == 0
        assert bench.result().path.parent.name == chosen


# ---------------------------------------------------------------- flagged, not used


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (0.0, "GPU time not positive"),
        (-1.5, "GPU time not positive"),
        (math.nan, "no GPU time"),
        (math.inf, "GPU time not positive"),
        (1e9, "GPU time longer than the host saw"),
    ],
)
def test_an_event_that_lies_is_flagged_and_not_used(bench: Bench, value: float, reason: str) -> None:
    bench.configure(launch_paths=["cuda-python"], kernels=["empty"])
    # The first two are of the warm-up, the third is the loop or the replay of the first repetition.
    done = bench.measure([Fault("cuEventElapsedTime", value=value, start=3, count=1)])
    flag = f"{bench.result().raw.iloc[0]['mode']}: {reason} (1 repetition)"
    told = f"1 of {REPETITIONS} repetitions will not be used: {flag}"
    assert (done.status, warnings(done)) == (0, [f"t4 N={N} trial 1 cuda-python empty: {told}"])
    tables = bench.tables()
    (row,) = tables["summary"].to_dict("records")
    assert (row["repetitions_used"], row["repetitions_flagged"]) == (REPETITIONS - 1, 1)
    assert row["flags"] == flag
    assert row["loop_us"] == pytest.approx(T4.loop_us(N, python=True), rel=1e-4)
    assert row["replay_us"] == pytest.approx(T4.replay_us(N), rel=1e-4)
    assert len(tables["tidy"]) == 2 * REPETITIONS
    assert (tables["tidy"]["flag"] != "").sum() == 2


@pytest.mark.parametrize(("value", "reason"), [(math.nan, "no GPU time"), (0.0, "GPU time not positive")])
def test_events_that_always_lie_leave_a_result_without_a_valid_sample(bench: Bench, value: float, reason: str) -> None:
    bench.configure(launch_paths=["cuda-python"], kernels=["tiny"])
    done = bench.measure([Fault("cuEventElapsedTime", value=value)])
    both, lone = f"loop: {reason}; replay: {reason} (3 repetitions)", f"replay: {reason} (3 repetitions)"
    told = f"t4 N={N} trial 1 cuda-python tiny: {ROUNDS} of {ROUNDS} repetitions will not be used: {both}; {lone}; "
    follows = ["measured again, attempt 2 of 3", "measured again, attempt 3 of 3", "given up after 3 attempts"]
    assert (done.status, warnings(done)) == (0, [told + what for what in follows])
    assert [block.attempt for block in bench.result().record.blocks] == [0, 1, 2]
    assert bench.result().raw.groupby("attempt").size().tolist() == [ROUNDS + REPETITIONS] * 3


def test_throttling_from_mid_run_is_flagged(bench: Bench) -> None:
    # One query before and one after each attempt: the third block ends in it.
    done = bench.measure(throttle=Throttle(after=5, mask=0x40, slowdown=1.5))
    assert done.status == 0
    told = f"{REPETITIONS} of {REPETITIONS} repetitions will not be used: clock throttled: hw_thermal_slowdown"
    assert [told in line for line in warnings(done)] == [True] * 2 * 3
    blocks = bench.result().record.blocks
    assert [block.attempt for block in blocks] == [0, 0, 0, 1, 2, 0, 1, 2]
    assert [block.before.throttle_reasons == block.after.throttle_reasons == [] for block in blocks[:2]] == [True] * 2
    summary = bench.tables()["summary"]
    flagged = summary[summary["repetitions_used"] == 0]
    assert len(flagged) == 2
    assert flagged["flags"].str.contains("clock throttled: hw_thermal_slowdown").all()
    assert (summary["repetitions_flagged"] == 0).sum() == 2


def test_another_process_on_the_card_is_flagged(bench: Bench) -> None:
    done = bench.measure(processes=[Process(99, memory_mb=None)])
    assert done.status == 0
    assert ["other process on the card (before and after)" in line for line in warnings(done)] == [True] * BLOCKS
    others = [block.after.other_processes for block in bench.result().record.blocks]
    assert [[(one.pid, one.used_memory_bytes) for one in some or []] for some in others] == [[(99, None)]] * BLOCKS
    summary = bench.tables()["summary"]
    assert (summary["repetitions_used"] == 0).all()
    assert summary["flags"].str.contains("other process on the card").all()


def test_a_card_with_company_is_refused_where_a_scheduler_was_asked_for_one(bench: Bench) -> None:
    bench.configure(cards="listed")
    done = bench.measure(
        cards=[dataclasses.replace(T4, uuid="GPU-01234567-0000-0000-0000-000000000000")],
        processes=[Process(99), Process(98)],
    )
    assert done.status == 1
    assert done.said == [
        "launchbench: asked to measure t4 alone; found launchbench virtual T4 (card 01234567) with the processes 98, "
        "99 on it: nothing was measured"
    ]
    assert bench.left == []


def test_this_process_is_no_stranger_in_another_pid_namespace(bench: Bench) -> None:
    done = bench.measure(own_pid=4711)
    assert (done.status, warnings(done)) == (0, [])
    assert {len(block.after.other_processes or []) for block in bench.result().record.blocks} == {0}
    assert sorted(bench.tables()["summary"]["repetitions_used"]) == [*[REPETITIONS] * 3, ROUNDS]
