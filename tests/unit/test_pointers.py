"""Exercise 4 on the virtual GPU: every scenario and every cure, values and codes; and what is told from them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launchbench.pointers.lines import read_lines
from launchbench.pointers.outcome import judge
from launchbench.results.pointers import Seen
from launchbench.results.pointers_words import CURES, SCENARIOS
from tests.conftest import ROOT
from tests.virtual_gpu import H100, Fault, VirtualGpu

UUID = "GPU-12345678-1234-1234-1234-123456789abc"
CARD = replace(H100, uuid=UUID, levels_us=(0.25,))


def child(
    virtual_gpu: VirtualGpu, arguments: Sequence[object], faults: Sequence[Fault] = ()
) -> subprocess.CompletedProcess[str]:
    environment = virtual_gpu.environment([CARD], faults, modelled_clock=True)
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def play(virtual_gpu: VirtualGpu, binaries: Path, name: str, faults: Sequence[Fault] = ()) -> Seen:
    arguments = ["-m", "launchbench.pointers.scenarios", name, "--fatbin", binaries / "graphs.fatbin"]
    done = child(virtual_gpu, arguments, faults)
    return judge(name, read_lines(done.stdout), done.returncode, UUID)


def codes(seen: Seen, step: str) -> list[tuple[str, int]]:
    return [(call.call, call.code) for call in seen.calls if call.step == step]


# ---------------------------------------------------------------- scenarios


def test_control(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    seen = play(virtual_gpu, binaries, "control")
    assert (seen.outcome, seen.reason, seen.exit_status) == ("captured-buffer-updated", None, 0)
    assert seen.values == {"captured": 1, "d": 2, "d2": 0} and seen.device_uuid == UUID
    assert {call.code for call in seen.calls} == {0} and codes(seen, "free") == []


def test_recycled_address(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    seen = play(virtual_gpu, binaries, "recycled")
    assert seen.outcome == "d2-updated" and seen.values == {"captured": 1, "d2": 1}
    assert seen.addresses["d2"] == seen.addresses["d"]
    assert codes(seen, "free")[0] == ("cuMemFree", 0)
    assert codes(seen, "replay") == [("cuGraphLaunch", 0), ("cuStreamSynchronize", 0)]


def test_innocent_victim(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    seen = play(virtual_gpu, binaries, "victim")
    assert seen.outcome == "victim-corrupted" and seen.values == {"captured": 1, "d2": 0, "victim": 1}
    assert seen.addresses["victim"] == seen.addresses["d"] != seen.addresses["d2"]
    assert {call.code for call in seen.calls} == {0}


def test_unowned_address(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    seen = play(virtual_gpu, binaries, "unowned")
    assert seen.outcome == "nothing-visible" and seen.values == {"captured": 1, "d2": 0}
    assert seen.addresses["d2"] != seen.addresses["d"] and {call.code for call in seen.calls} == {0}


def test_unmapped_address(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    seen = play(virtual_gpu, binaries, "unmapped")
    assert seen.outcome == "context-lost" and seen.values == {"captured": 1}
    assert codes(seen, "free") == [("cuMemFree", 0)]
    assert codes(seen, "replay") == [("cuGraphLaunch", 0), ("cuStreamSynchronize", 700)]
    assert codes(seen, "after") == [("cuMemcpyDtoH", 700), ("cuMemAlloc", 700)]
    assert {call.name for call in seen.calls if call.code} == {"CUDA_ERROR_ILLEGAL_ADDRESS"}
    assert "probe" not in seen.addresses and seen.completed


def test_a_scenario_that_does_not_come_about(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    seen = play(virtual_gpu, binaries, "victim", [Fault("cuMemAlloc", 2, start=2)])
    assert seen.outcome == "cannot-tell" and not seen.completed and seen.exit_status == 1
    assert seen.reason == "the scenario did not come about: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"
    assert codes(seen, "free") == [("cuMemFree", 0), ("cuMemAlloc", 2)]


def test_a_driver_that_reports_an_error_and_goes_on(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    seen = play(virtual_gpu, binaries, "unowned", [Fault("cuGraphLaunch", 1, start=2, count=1)])
    assert seen.outcome == "error-reported" and codes(seen, "replay")[0] == ("cuGraphLaunch", 1)
    assert "probe" in seen.addresses and seen.values["d2"] == 0


LINES = f"""step prepare
device {UUID}
call cudaMalloc 0 cudaSuccess
address d 0x700
step first-replay
value captured 1
step free
address d2 0x700
step replay
call cudaGraphLaunch 0 cudaSuccess
step after
value d2 {{}}
address probe 0x900
complete recycled 0
"""


@pytest.mark.parametrize(
    ("edit", "status", "outcome", "reason"),
    [
        (("", ""), 0, "d2-updated", None),
        (("value d2 1", "value d2 0"), 0, "nothing-visible", None),
        (("value d2 1", "value d2 7"), 0, "cannot-tell", "d2 holds 7; expected 0 or 1"),
        (("value d2 1", "value d2 nan"), 0, "cannot-tell", "d2 was not read"),
        (("value captured 1", "value captured 0"), 0, "cannot-tell", "the first replay left 0.0 in d; expected 1"),
        (("complete recycled 0\n", ""), -11, "cannot-tell", "the process ended with status -11 before its last line"),
        (("complete recycled 0\n", "Killed\n"), None, "cannot-tell", "the process ended before its last line: Killed"),
        (("complete recycled", "complete victim"), 0, "cannot-tell", "the process said 'victim, status 0' and ended"),
        (("complete recycled 0", "complete recycled 0\nand more"), 0, "cannot-tell", "before its last line"),
        (("", ""), 3, "cannot-tell", "and ended with status 3"),
        ((UUID, UUID.replace("8", "9")), 0, "cannot-tell", "it ran on GPU-1234567"),
        (("0 cudaSuccess\nstep after", "719 cudaErrorLaunchFailure\nstep after"), 0, "error-reported", None),
    ],
)
def test_outcomes_are_told_from_what_was_seen(
    edit: tuple[str, str], status: int | None, outcome: str, reason: str | None
) -> None:
    seen = judge("recycled", read_lines(LINES.format(1).replace(*edit)), status, UUID)
    assert seen.outcome == outcome
    assert reason is None or reason in str(seen.reason)
    assert (seen.reason is None) == (reason is None)


def test_lines_between_those_of_the_sanitizer() -> None:
    text = LINES.format(1).replace("step replay", "========= Invalid __global__ read\nstep replay") + "=========\n"
    assert read_lines(text) == read_lines(LINES.format(1))
    assert read_lines("call cudaFree\nvalue d2 1e999\nstep elsewhere\n\x00").words == [
        "call cudaFree",
        "value d2 1e999",
        "step elsewhere",
        "\x00",
    ]


# ---------------------------------------------------------------- cures


def cure(
    virtual_gpu: VirtualGpu, binaries: Path, faults: Sequence[Fault] = (), before: str = ""
) -> tuple[pd.DataFrame, dict[tuple[str, int], dict[str, Any]]]:
    arguments = ["--binaries", binaries, "--launch-counts", "8,64", "--repetitions", 8]
    arguments += ["--warmup-rounds", 2, "--warmup-ms", 0]
    code = f"{before}\nimport sys\nfrom launchbench.pointers import cures\n"
    code += f"sys.argv[1:] = {list(map(str, arguments))!r}\nsys.exit(cures.main())"
    done = child(virtual_gpu, ["-c", code], faults)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    checks = [line["check"] for line in lines if "check" in line]
    rows = pd.DataFrame([line["row"] for line in lines if "row" in line])
    return rows, {(check["cure"], check["launch_count"]): check for check in checks}


@pytest.fixture(scope="module")
def cured(virtual_gpu: VirtualGpu, binaries: Path) -> tuple[pd.DataFrame, dict[tuple[str, int], dict[str, Any]]]:
    return cure(virtual_gpu, binaries)


@pytest.mark.parametrize("name", CURES)
def test_a_cure_turns_the_replay_to_the_right_buffer(cured: Any, name: str) -> None:
    _, checks = cured
    for count in (8, 64):
        # One after a free, two of the warm-up, eight timed.
        assert checks[name, count] == {"cure": name, "launch_count": count, "outcome": "right-buffer", "checked": 11}


@pytest.mark.parametrize("name", CURES)
def test_what_a_cure_costs_is_what_the_model_says(cured: Any, name: str) -> None:
    rows, _ = cured
    for count in (8, 64):
        own = rows[(rows["cure"] == name) & (rows["launch_count"] == count)]
        capture, instantiate, upload = CARD.once_us(count)
        replay = CARD.replay_total_us(count, "tiny", 0)
        prepare = capture if name in ("exec-update", "recapture") else 0.0
        apply = {"recapture": instantiate, "fixed-buffer": CARD.issue_us}.get(name, 0.0)
        first = replay + (upload - CARD.sync_us if name == "recapture" else 0.0)
        assert len(own) == 8
        assert own["prepare_us"].isna().all() == (prepare == 0)
        assert own["prepare_us"].fillna(0).tolist() == pytest.approx([prepare] * 8)
        assert own["apply_us"].tolist() == pytest.approx([apply] * 8)
        assert own["first_replay_us"].tolist() == pytest.approx([first] * 8)
        assert own["total_us"].tolist() == pytest.approx([prepare + apply + first] * 8)


def test_the_cures_alternate(cured: Any) -> None:
    rows, _ = cured
    for _, own in rows.groupby("launch_count"):
        assert all(sorted(orders) == [0, 1, 2, 3] for _, orders in own.groupby("repetition")["order"])
        assert all(set(orders) == {0, 1, 2, 3} for _, orders in own.groupby("cure")["order"])
        assert own["start_us"].is_monotonic_increasing


def test_an_update_that_is_refused_leaves_the_other_cures(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    rows, checks = cure(virtual_gpu, binaries, [Fault("cuGraphExecUpdate", 910, start=6)])
    assert checks["exec-update", 8]["outcome"] == "failed"
    assert "cuGraphExecUpdate failed: CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)" in checks["exec-update", 8]["reason"]
    assert checks["exec-update", 8]["checked"] == 5 and checks["exec-update", 64]["checked"] == 0
    assert {name for (name, _), check in checks.items() if check["outcome"] == "right-buffer"} == {*CURES[1:]}
    assert rows[rows["cure"] == "exec-update"]["launch_count"].tolist() == [8, 8], "kept as far as it came"


def test_a_cure_that_cures_nothing_is_found_out(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    before = "from launchbench.pointers.cures import NodeParams\nNodeParams.apply = lambda *_: None"
    rows, checks = cure(virtual_gpu, binaries, before=before)
    assert checks["node-params", 8]["outcome"] == "wrong-buffer"
    assert checks["node-params", 8]["reason"] == "the right buffer holds 0; expected 8"
    assert "node-params" not in set(rows["cure"]) and checks["recapture", 64]["outcome"] == "right-buffer"


def test_every_scenario_has_a_test() -> None:
    assert set(SCENARIOS) == {"control", "recycled", "victim", "unowned", "unmapped"}
