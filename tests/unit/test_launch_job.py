"""A launch job as a whole on virtual cards: its modes, placements and trials, and what is measured again."""

from __future__ import annotations

import dataclasses
import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from launchbench.errors import LaunchbenchError
from launchbench.measure import blocks, modes
from launchbench.measure.placements import ONE_OFF_SAMPLES, PlacedTiming, draw
from launchbench.results.protocol import MODES, Protocol
from launchbench.results.record import Block
from tests.unit.test_error_sweep import Bench, N, bench, jobs, refusal, warnings
from tests.virtual_gpu import A100, H100, T4, Card, Fault, Process, Throttle

__all__ = ["bench", "jobs"]  # fixtures

PLACEMENTS, FULL, REPETITIONS = 5, 2, 3
HOST_MODES = ("loop", "replay")


def configure(bench: Bench, **settings: Any) -> None:
    fixed = {"placements": PLACEMENTS, "full_placements": FULL, "repetitions": REPETITIONS, "warmup_rounds": 2}
    bench.configure(**fixed | settings)


def block_of(bench: Bench, path: str = "native-driver", kernel: str = "tiny") -> Block:
    """The one attempt at this block."""
    (found,) = [one for one in bench.result().record.blocks if (one.launch_path, one.kernel) == (path, kernel)]
    return found


# --- modes and placements


def test_every_mode_is_filed_and_counts_exactly(bench: Bench) -> None:
    configure(bench)
    assert bench.measure(cards=[H100], label="h100").status == 0
    result = bench.result()
    timed = result.raw.groupby(["launch_path", "kernel"])["mode"].agg(set)
    assert timed["native-driver", "tiny"] == set(MODES)
    assert timed["native-driver", "empty"] == set(MODES) - {"fused-memory", "fused-register"}
    assert timed["cuda-python", "tiny"] == timed["cuda-python", "empty"] == set(HOST_MODES)
    rows = result.raw[(result.raw["launch_path"] == "native-driver") & (result.raw["kernel"] == "tiny")]
    block = block_of(bench)
    batch = modes.BATCH_NODES // N
    each = {mode: N * batch if mode == "replay-batch" else N for mode in MODES}
    assert rows.groupby("mode")["replays"].agg(set).to_dict() == {
        mode: {batch if mode == "replay-batch" else int(mode.startswith("replay"))} for mode in MODES
    }
    counted = N * (1 + 1 + ONE_OFF_SAMPLES)  # a loop that loads the kernel, and the graphs of the one-off costs
    counted += sum(2 * each[mode] for mode in MODES if mode not in ("loop", "replay", "replay-batch"))  # tried
    counted += sum(each.values()) * (block.warmup_rounds_run + FULL - 1) + 2 * N * (PLACEMENTS - FULL)  # warm-up
    counted += sum(each[mode] for mode in rows["mode"])
    assert block.observed_count == block.expected_count == counted
    assert not block.not_timed and len(block.update_us) == PLACEMENTS - 1
    assert {one.observed_count for one in result.record.blocks if one.kernel == "empty"} == {0}


def test_one_block_has_all_placements_and_the_others_what_they_need(bench: Bench) -> None:
    configure(bench, launch_paths=["cuda-python", "native-driver"])
    assert bench.measure().status == 0
    raw = bench.result().raw
    at = raw.groupby(["launch_path", "kernel"])["placement"].nunique()
    assert at.to_dict() == {
        (path, kernel): PLACEMENTS if (path, kernel) == ("native-driver", "tiny") else FULL
        for path in ("cuda-python", "native-driver")
        for kernel in ("tiny", "empty")
    }
    loops = raw[raw["mode"] == "loop"].groupby(["launch_path", "kernel"])["placement"].nunique()
    assert set(loops) == {FULL}
    assert (raw.groupby(["launch_path", "kernel", "placement", "mode"]).size() == REPETITIONS).all()
    assert raw["offset_bytes"].max() < 1 << 20 and raw["offset_bytes"].nunique() > PLACEMENTS


def test_without_a_native_path_the_first_one_has_all_placements(bench: Bench) -> None:
    configure(bench, launch_paths=["cuda-python"])
    assert bench.measure().status == 0
    at = bench.result().raw.groupby("kernel")["placement"].nunique()
    assert at.to_dict() == {"tiny": PLACEMENTS, "empty": FULL}


def test_the_seed_decides_placements_and_orders(bench: Bench) -> None:
    seeds = set()
    for _ in range(2):
        configure(bench, launch_paths=["cuda-python"], kernels=["tiny"])
        assert bench.measure().status == 0
        result = bench.result()
        assert result.record.seed is not None
        seeds.add(result.record.seed)
        rng = np.random.default_rng(result.record.seed)
        expected = []
        for place in draw(rng, 1 << 20, PLACEMENTS, FULL):
            names = HOST_MODES if place.full else ("replay",)
            for repetition in range(REPETITIONS):
                for index in rng.permutation(len(names)):
                    expected.append((place.number, place.offset_bytes, repetition, names[index]))
        seen = result.raw[["placement", "offset_bytes", "repetition", "mode"]]
        assert list(seen.itertuples(index=False, name=None)) == expected
    assert len(seeds) == 2


# --- what cannot be timed


@pytest.mark.parametrize(("card", "label", "capability"), [(T4, "t4", "7.5"), (A100, "a100", "8.0")])
def test_an_older_card_says_why_there_is_no_programmatic_launch(
    bench: Bench, card: Card, label: str, capability: str
) -> None:
    configure(bench, launch_paths=["native-driver"], kernels=["tiny"])
    assert bench.measure(cards=[card], label=label).status == 0
    reason = f"compute capability {capability} has no programmatic dependent launch, 9.0 has"
    assert block_of(bench).not_timed == {"loop-dependent": reason, "replay-dependent": reason}
    assert "cuLaunchKernelEx" not in bench.calls


@pytest.mark.parametrize(
    ("fault", "refused"),
    [
        (
            Fault("cuLaunchKernelEx", 801),
            {"loop-dependent": "cuLaunchKernelEx", "replay-dependent": "cuLaunchKernelEx"},
        ),
        # An older driver takes the loop, twice N launches, and refuses to capture it.
        (Fault("cuLaunchKernelEx", 1, start=2 * N + 1, count=1), {"replay-dependent": "cuLaunchKernelEx"}),
        (Fault("cuGraphExecUpdate", 801, count=1), {"replay-dependent": "cuGraphExecUpdate"}),
        (Fault("cuMemHostAlloc", 801), {"replay-queued": "cuMemHostAlloc", "queued": "cuMemHostAlloc"}),
    ],
)
def test_a_mode_that_the_driver_refuses_is_left_out_and_says_so(
    bench: Bench, fault: Fault, refused: dict[str, str]
) -> None:
    configure(bench, launch_paths=["native-driver"], kernels=["tiny"])
    done = bench.measure([fault], [H100], "h100")
    assert (done.status, warnings(done)) == (0, [])
    block = block_of(bench)
    names = {1: "CUDA_ERROR_INVALID_VALUE (1)", 801: "CUDA_ERROR_NOT_SUPPORTED (801)"}
    assert block.not_timed == {
        mode: f"refused by the driver: {call} failed: {names[fault.result]}" for mode, call in refused.items()
    }
    assert set(bench.result().raw["mode"]) == set(MODES) - set(refused)
    assert block.observed_count == block.expected_count > 0


@pytest.mark.parametrize("call", ["cuLaunchKernel", "cuGraphLaunch", "cuStreamBeginCapture"])
def test_loop_and_replay_are_never_left_out(bench: Bench, call: str) -> None:
    assert refusal(bench, bench.measure([Fault(call, 801)], [H100], "h100")).endswith("NOT_SUPPORTED (801)")


def test_what_is_broken_is_no_refusal(bench: Bench) -> None:
    configure(bench, launch_paths=["native-driver"], kernels=["tiny"])
    line = refusal(bench, bench.measure([Fault("cuLaunchKernelEx", 700)], [H100], "h100"))
    assert line == "cuLaunchKernelEx failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)"


def test_a_pool_that_does_not_fit(bench: Bench) -> None:
    configure(bench, pool_mib=4)
    small = dataclasses.replace(T4, memory_mb=3)
    line = refusal(bench, bench.measure(cards=[small]))
    assert line.startswith("pool_mib: got 4; expected no more MiB than the card has free: cuMemAlloc failed: ")


# --- guards


def test_a_block_that_was_disturbed_is_kept_and_measured_again(bench: Bench) -> None:
    configure(bench)
    # One query before and one after each attempt: the third block ends throttled, and no later one.
    done = bench.measure(throttle=Throttle(after=5, until=6, mask=0x40))
    assert done.status == 0
    (line,) = warnings(done)
    assert "clock throttled: hw_thermal_slowdown (after)" in line
    assert line.endswith("; measured again, attempt 2 of 3")
    result = bench.result()
    told = [(one.launch_path, one.kernel, one.attempt) for one in result.record.blocks]
    disturbed = told[2]
    assert [attempt for *_, attempt in told] == [0, 0, 0, 1, 0] and told[3][:2] == disturbed[:2]
    rows = result.raw[(result.raw["launch_path"] == disturbed[0]) & (result.raw["kernel"] == disturbed[1])]
    sizes = rows.groupby("attempt").size()
    assert sizes[0] == sizes[1] == FULL * 2 * REPETITIONS
    # Elsewhere: the random numbers go on.
    assert set(rows.loc[rows["attempt"] == 0, "offset_bytes"]) != set(rows.loc[rows["attempt"] == 1, "offset_bytes"])


def test_after_three_attempts_what_there_is_is_filed(bench: Bench) -> None:
    configure(bench, launch_paths=["cuda-python"], kernels=["empty"])
    # It comes after the job has looked who is there.
    done = bench.measure(processes=[Process(99, start=2)])
    assert done.status == 0
    told = [line.rsplit("; ", 1)[1] for line in warnings(done)]
    assert told == [
        "measured again, attempt 2 of 3",
        "measured again, attempt 3 of 3",
        "given up after 3 attempts",
    ]
    result = bench.result()
    assert [block.attempt for block in result.record.blocks] == [0, 1, 2]
    assert result.raw.groupby("attempt").size().tolist() == [FULL * 2 * REPETITIONS] * 3


def test_with_company_that_was_there_before_and_stays_a_block_is_measured_once(bench: Bench) -> None:
    configure(bench, launch_paths=["cuda-python"], kernels=["tiny", "empty"])
    done = bench.measure(processes=[Process(99), Process(77, start=2)])
    assert done.status == 0
    follows = "not measured again: process 99 was on the card before this job and stays"
    assert [line.rsplit("; ", 1)[1] for line in warnings(done)] == [follows] * 2
    result = bench.result()
    assert [(block.kernel, block.attempt) for block in result.record.blocks] == [("tiny", 0), ("empty", 0)]
    assert {one.pid for block in result.record.blocks for one in block.after.other_processes or []} == {77, 99}
    assert (bench.tables()["summary"]["repetitions_used"] == 0).all()


def test_how_busy_the_host_was_is_recorded(bench: Bench) -> None:
    configure(bench, launch_paths=["cuda-python"], kernels=["empty"])
    assert bench.measure().status == 0
    block = block_of(bench, "cuda-python", "empty")
    assert block.involuntary_switches is not None and block.involuntary_switches >= 0
    for state in (block.before, block.after):
        assert state.load_average_1min is not None and state.load_average_1min >= 0


def test_a_wrong_count_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = PlacedTiming(modes.Costs(), expected_count=7, observed_count=6, rows=[])
    for order, mode in enumerate(HOST_MODES):
        row = {"mode": mode, "placement": 0, "offset_bytes": 0, "repetition": 0, "order": order, "replays": order}
        timing.rows.append({**row, "start_us": 0.0, "gpu_us": 2.0, "issue_us": 1.0, "total_us": 3.0})
    asked: list[object] = []
    monkeypatch.setattr(blocks, "time_placements", lambda *given: asked.append(given) or timing)
    shared: Any = SimpleNamespace(
        subject="t4 N=3 trial 1",
        launch_count=3,
        capability=(7, 5),
        device=None,
        stream=None,
        kernels={},
        loops=None,
        protocol=Protocol(repetitions=1, warmup_rounds=1, warmup_ms=0),
        session=SimpleNamespace(state=lambda: None),
        pool=SimpleNamespace(address=256, size_bytes=1024),
        rng=np.random.default_rng(1),
        make_loops={},
    )
    with pytest.raises(LaunchbenchError) as caught:
        blocks.measure_block(shared, "native-driver", "tiny", 1, 1)
    expected = "native-driver tiny N=3: the buffer counted 6 launches, expected 7: nothing was written"
    assert (str(caught.value), len(asked)) == (expected, 1)


# --- trials


def test_the_trial_is_in_name_record_and_lines(bench: Bench) -> None:
    configure(bench, launch_paths=["cuda-python"], kernels=["empty"])
    done = bench.measure(trial=2)
    assert done.status == 0
    result = bench.result()
    assert (result.record.trial, result.record.run_id[:12]) == (2, "n0000003-t2-")
    assert all(line.startswith(f"t4 N={N} trial 2") for line in done.err.splitlines())
    receipt = json.loads((bench.folder / "receipt.json").read_text())
    assert all("/n0000003-t2-" in name for name in receipt["size_bytes"])


@pytest.mark.parametrize("trial", [0, 1_000_001])
def test_a_trial_that_is_none(bench: Bench, trial: int) -> None:
    arguments = ("--label=t4", "--launch-count=8", f"--trial={trial}")
    done = bench.jobs.run(bench.gpu.environment(), bench.folder, "measure", *arguments)
    assert done.said == [f"launchbench: --trial: got {trial}; expected a whole number from 1 to 1000000"]


def test_a_job_says_how_much_of_its_time_it_has_timed(bench: Bench) -> None:
    configure(bench, repetitions=50)
    done = bench.measure(count=500)
    assert done.status == 0
    last = done.err.splitlines()[-1]
    told = re.fullmatch(
        r"t4 N=500 trial 1: held the card for ([\d.]+) s, ([\d.]+) s of them \((\d+) %\) inside timed intervals", last
    )
    assert told, last
    held, timed, share = map(float, told.groups())
    raw: pd.DataFrame = bench.result().raw
    assert timed == pytest.approx(raw["total_us"].sum() / 1e6, abs=0.06)
    assert 0 < timed < held and share == pytest.approx(100 * timed / held, abs=8)


@pytest.mark.parametrize(
    ("pids", "told"),
    [
        ([9], "process 9 was"),
        ([9, 10], "processes 9, 10 were"),
        ([*range(30)], "processes 0, 1, 2, 3, 4 and 25 more were"),
    ],
)
def test_of_many_processes_it_is_said_how_many(pids: list[int], told: str) -> None:
    assert f"not measured again: {told} on the card before this job and stay" in blocks._what_follows(1, pids)
