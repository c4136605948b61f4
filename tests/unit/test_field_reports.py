"""What breaks for people who measure launches, and no other test shows: see tests/README.md."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from launchbench.measure import timing
from launchbench.measure.timing import ONE_OFF_SAMPLES
from launchbench.results.protocol import FLOAT32_EXACT_COUNT, QUEUE_DEPTH
from tests.unit.test_error_sweep import BLOCKS, FULL, REPETITIONS, Bench, N, bench, jobs
from tests.virtual_gpu import T4, Fault

__all__ = ["bench", "jobs"]  # fixtures


def medians(frame: pd.DataFrame, column: str) -> dict[str, float]:
    return {str(mode): float(value) for mode, value in frame.groupby("mode")[column].median().items()}


# ---------------------------------------------------------------- 12: warm-up


def test_the_warm_up_is_in_the_mode_that_is_timed_and_every_repetition_is_kept(bench: Bench) -> None:
    cold = dataclasses.replace(T4, cold_factor=3.0, cold_bursts=30)
    truth = {"loop": T4.loop_us(N, python=True), "replay": T4.replay_us(N)}
    for rounds, is_warm in ((8, True), (1, False)):
        bench.configure(launch_paths=["cuda-python"], kernels=["empty"], warmup_rounds=rounds)
        assert bench.measure(cards=[cold]).status == 0
        raw = bench.result().raw
        assert len(raw) == FULL * 2 * REPETITIONS
        true = [row.gpu_us == pytest.approx(truth[row.mode], rel=1e-4) for row in raw.itertuples()]
        assert all(true) == is_warm, raw


def test_the_graph_is_uploaded_before_the_first_replay(bench: Bench) -> None:
    slow = dataclasses.replace(T4, upload_us=5000.0)
    bench.configure(launch_paths=["native-driver"], kernels=["empty"])
    assert bench.measure(cards=[slow]).status == 0
    (block,) = bench.result().record.blocks
    # One more was made for the repetitions, and its first replay is of the warm-up.
    assert block.upload_us == pytest.approx([slow.once_us(N)[2]] * (ONE_OFF_SAMPLES + 1), rel=1e-3)
    assert block.first_replay_us == pytest.approx([slow.replay_total_us(N)] * ONE_OFF_SAMPLES, rel=1e-3)


def test_no_block_pays_what_only_a_first_graph_pays(bench: Bench) -> None:
    # Everything up to the end of the first graph: zeroing, the loop that loads the kernel, upload, replay.
    cold = dataclasses.replace(T4, cold_factor=3.0, cold_bursts=4)
    bench.configure(kernels=["empty"])
    assert bench.measure(cards=[cold]).status == 0
    for block in bench.result().record.blocks:
        costs = (block.capture_us, block.instantiate_us, block.upload_us, block.first_replay_us)
        for samples, truth in zip(costs, (*T4.once_us(N), T4.replay_total_us(N)), strict=True):
            assert len(samples) >= ONE_OFF_SAMPLES and samples == pytest.approx([truth] * len(samples), rel=1e-3)
    for row in bench.tables()["summary"].to_dict("records"):
        assert row["one_off_samples"] >= ONE_OFF_SAMPLES
        assert row["capture_min_us"] == row["capture_us"] == row["capture_max_us"]


def test_what_nvml_does_not_tell_is_said_since_nothing_is_flagged_for_it(bench: Bench) -> None:
    bench.configure(launch_paths=["native-driver"], kernels=["empty"])
    asked = ("whether the clock was throttled", "whether another process was on the card")
    calls = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses")
    for faults in ([], *([Fault(call, 3)] for call in calls)):
        done = bench.measure(faults)
        told = [words for words in asked if f"{words} (Not Supported)" in done.err]
        assert (done.status, told) == (0, [asked[calls.index(fault.call)] for fault in faults])
    # Whoever is on the card in mid-run only is not known either.
    done = bench.measure([Fault(calls[0], 3, start=2)])
    assert "warning: not known, so that nothing is left out for it: whether the clock was throttled (Not" in done.err


# ---------------------------------------------------------------- progress


def test_a_block_that_takes_long_tells_how_far_it_is(bench: Bench) -> None:
    slow = dataclasses.replace(T4, issue_ex_us=1_000_000.0, instantiate_us=6e6)
    bench.configure(launch_paths=["cuda-python"], kernels=["empty"], repetitions=2, warmup_rounds=3)
    done = bench.measure(cards=[slow])
    assert done.status == 0
    lines = [line.removeprefix(f"t4 N={N} trial 1 cuda-python empty: ") for line in done.err.splitlines()]
    told = [tuple(re.fullmatch(r"(.+), (\d+) s", line).groups()) for line in lines[:-2]]  # type: ignore[union-attr]
    assert [what for what, _ in told][:2] == ["one-off costs 0 of 7", "one-off costs 1 of 7"]
    parts = dict.fromkeys(re.sub(r" \d+( of \d+)?$", "", what) for what, _ in told)
    assert list(parts) == ["one-off costs", "warm-up rounds", "placements"], told
    seconds = [int(number) for _, number in told]
    assert all(later - sooner >= 5 for sooner, later in itertools.pairwise([0, *seconds]))
    assert len(bench.result().raw) == FULL * 2 * 2


# ---------------------------------------------------------------- 16: events


def test_events_lie_around_the_work_and_never_inside(bench: Bench) -> None:
    assert bench.measure().status == 0
    result = bench.result()
    intervals = len(result.raw) + 2  # the warm-up of the one placement that has replays alone, of two modes
    for block in result.record.blocks:
        own = (result.raw["launch_path"] == block.launch_path) & (result.raw["kernel"] == block.kernel)
        timed = set(result.raw.loc[own, "mode"])
        tried = timed - {"loop", "replay", "replay-batch"}
        intervals += 2 * len(tried) + block.warmup_rounds_run * len(timed)
    calls = bench.calls
    assert calls["cuEventRecord"] == 2 * intervals
    assert calls["cuEventElapsedTime"] == intervals
    assert calls["cuEventCreate"] == 2 * BLOCKS


# ---------------------------------------------------------------- 17: updates that are refused


def test_updates_that_are_always_refused_are_told_and_cost_no_replay_anything(bench: Bench) -> None:
    bench.configure(launch_paths=["native-driver"], kernels=["empty"], placements=3, full_placements=3)
    done = bench.measure([Fault("cuGraphExecUpdate", 910)])
    assert done.status == 0
    subject = f"t4 N={N} trial 1 native-driver empty"
    assert f"{subject}: warning: updates of a graph that the driver refused (910): 2; it was made anew" in done.err
    raw = bench.result().raw
    replays = raw.loc[raw["mode"] == "replay", "gpu_us"]
    assert replays.tolist() == pytest.approx([T4.replay_us(N)] * 3 * REPETITIONS, rel=1e-4)
    (row,) = bench.tables()["summary"].to_dict("records")
    assert (row["refused_updates"], math.isnan(row["update_us"]), row["recapture_us"] > 0) == (2, True, True)


def test_a_driver_that_tells_a_refused_update_again_at_its_next_call(bench: Bench) -> None:
    bench.configure(launch_paths=["native-driver"], kernels=["empty"], placements=3, full_placements=3)
    again = Fault("cuCtxSynchronize", 910, count=1)
    assert bench.measure([Fault("cuGraphExecUpdate", 910, count=1), again]).status == 0
    (block,) = bench.result().record.blocks
    assert (block.refused_updates, len(block.update_us)) == (1, 1)
    # Another error is told, by this call or the next.
    lost = bench.measure([Fault("cuGraphExecUpdate", 910, count=1), Fault("cuCtxSynchronize", 700, sticky=True)])
    assert lost.status == 1 and "(700)" in lost.err


# ---------------------------------------------------------------- 18: the queue


def issue_us(card: object, count: int) -> float:
    """Until the last of so many launches has returned, on a card that is slower than its host."""
    host = device = 0.0
    ends: list[float] = []
    assert isinstance(card, type(T4))
    for launch in range(count):
        host += card.issue_us
        if launch >= card.queue_depth:  # waits for a place
            host = max(host, ends[launch - card.queue_depth])
        device = max(device, host) + card.pace_us
        ends.append(device)
    return host


@pytest.mark.parametrize("count", [512, QUEUE_DEPTH - 1, QUEUE_DEPTH, QUEUE_DEPTH + 1, 4096])
def test_issuing_and_the_whole_are_told_apart_around_the_depth_of_the_queue(bench: Bench, count: int) -> None:
    card = dataclasses.replace(T4, issue_us=1.0, pace_us=20.0, queue_depth=QUEUE_DEPTH)
    bench.configure(launch_paths=["native-driver"], kernels=["empty"], launch_counts=[count])
    assert bench.measure(cards=[card], count=count).status == 0
    raw = bench.result().raw
    assert medians(raw, "gpu_us")["loop"] == pytest.approx(card.loop_us(count), rel=1e-4)
    assert medians(raw, "issue_us")["loop"] == pytest.approx(issue_us(card, count), rel=1e-3)
    assert medians(raw, "total_us")["loop"] == pytest.approx(card.loop_total_us(count), rel=1e-3)
    (regime,) = bench.tables()["summary"]["regime"]
    assert regime == ("past-queue-depth" if count > QUEUE_DEPTH else "below-queue-depth")


# ---------------------------------------------------------------- 19: counting in float32


@pytest.mark.parametrize("launches", [FLOAT32_EXACT_COUNT, 1_048_576, 3, 5_000_000])
def test_counting_stays_exact_beyond_what_float32_can_count(monkeypatch: pytest.MonkeyPatch, launches: int) -> None:
    buffer = np.zeros(1, dtype=np.float32)
    monkeypatch.setattr(timing, "zero_float", lambda *_: buffer.fill(0))
    monkeypatch.setattr(timing, "read_float", lambda *_: float(buffer[0]))
    counter = timing.Counter(address=1, stream=2, per_launch=1)
    rounds = 3 * FLOAT32_EXACT_COUNT // launches + 2 if launches > 3 else 1000
    for _ in range(rounds):
        counter.before(launches)
        # As so many additions of one: exact up to 2**24, where they have no effect any more.
        buffer[0] = min(float(buffer[0]) + launches, float(FLOAT32_EXACT_COUNT))
    counter.settle()
    assert counter.observed == counter.expected == rounds * launches


# ---------------------------------------------------------------- 20: pools


def test_memory_is_a_plain_allocation(bench: Bench) -> None:
    assert bench.measure().status == 0
    assert bench.calls["cuMemAlloc"] == bench.calls["cuMemFree"] == 1
    assert not [name for name in bench.calls if ("Async" in name and name != "cuMemsetD32Async") or "Pool" in name]


# ---------------------------------------------------------------- 22: inside a SLURM job


def test_a_job_inside_another_slurm_job_works_and_says_so(bench: Bench) -> None:
    variables = {"SLURM_JOB_ID": "77", "SLURMD_NODENAME": "node-7", "SLURM_CPUS_PER_TASK": "1", "SLURM_NTASKS": "8"}
    assert bench.measure(variables=variables).status == 0
    slurm = bench.result().record.slurm
    assert slurm is not None and (slurm.job_id, slurm.node, slurm.partition) == ("77", "node-7", None)


# ---------------------------------------------------------------- the table


def test_the_table_names_tests_that_exist() -> None:
    tests = Path(__file__).resolve().parents[1]
    rows = [
        row for row in (tests / "README.md").read_text(encoding="utf-8").splitlines() if re.match(r"\| \d+ \|", row)
    ]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, 25))
    for row in rows:
        source = ""
        for name in re.findall(r"`([\w/.\[\]]+)`", row.split("|")[3]):
            if name.endswith(".py"):
                source = (tests / name).read_text(encoding="utf-8")
            elif name.startswith("test_"):
                assert f"def {name.split('[')[0]}(" in source, name
        assert source or "not here: " in row
