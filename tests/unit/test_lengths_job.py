"""A whole lengths job on a virtual card: record and rows against the cost model, guards and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from launchbench.aggregate.lengths import tabulate
from launchbench.measure.lengths import LENGTHS_US, LONGEST_MS, NOTHING_REPETITIONS, WARMUP_ROUNDS
from launchbench.results.extra_files import files_of, read_extras
from launchbench.results.files import read_results
from launchbench.results.lengths_files import LENGTHS
from tests.virtual_gpu import H100, Fault, Process, Throttle, VirtualGpu
from tests.virtual_gpu.jobs import Done, Jobs

UUID = "GPU-12345678-1234-1234-1234-123456789abc"
CARD = replace(H100, uuid=UUID)
SETTINGS: dict[str, Any] = {
    "site": "lab",
    "results_dir": "sim",
    "virtual_results": "allow",
    "launch_counts": [8, 128, 4096],
    "length_repetitions": 6,
    "warmup_ms": 1,
}


@pytest.fixture(scope="module")
def jobs(virtual_gpu: VirtualGpu) -> Iterator[Jobs]:
    with Jobs(virtual_gpu.environment([CARD])) as running:
        yield running


def measure(
    jobs: Jobs,
    virtual_gpu: VirtualGpu,
    binaries: Path,
    folder: Path,
    *arguments: str,
    faults: Sequence[Fault] = (),
    settings: dict[str, Any] | None = None,
    **machine: Any,
) -> Done:
    (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS | (settings or {})))
    environment = virtual_gpu.environment([CARD], faults, modelled_clock=True, **machine)
    named = ("--receipt", "receipt.json", "--binaries", str(binaries))
    return jobs.run(environment, folder, "lengths", *(arguments or ("--label", "h100")), *named)


@pytest.fixture(scope="module")
def done(
    jobs: Jobs, virtual_gpu: VirtualGpu, binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Done]:
    """Folder of a job that was done, and what it said; no test may change it."""
    folder = tmp_path_factory.mktemp("lengths")
    ended = measure(jobs, virtual_gpu, binaries, folder)
    assert ended.status == 0, ended.err
    return folder, ended


def test_the_record_and_its_files(done: tuple[Path, Done]) -> None:
    folder, ended = done
    [result], problems = read_extras(LENGTHS, folder / "sim")
    record = result.record
    assert problems == [] and result.site == "lab" and read_results(folder / "sim") == ([], [])
    assert record.device.virtual and record.device.uuid == UUID and record.label == "h100"
    assert record.cycles_per_us == pytest.approx(1500, rel=1e-6)
    assert [one.launch_count for one in record.sets] == record.protocol.launch_counts == [8, 128]
    assert record.protocol.version == 2
    assert record.sets[0].after == record.sets[1].before and record.sets[1].after == record.after
    left_out = [(one.launch_count, one.kernel_us) for one in record.left_out]
    assert left_out == [(128, 1000.0)] and 128 * 1000.0 > LONGEST_MS * 1e3 >= 128 * 500.0
    cells = [(n, length) for n in (8, 128) for length in LENGTHS_US if (n, length) not in left_out]
    assert len(result.table) == record.repetitions_file.rows == NOTHING_REPETITIONS + 2 * 6 * len(cells)
    # Per cell one loop to load the kernel, then loop and replay in every round; the calibration launches singly.
    launches = sum(n for n, _ in cells) * (1 + 2 * (WARMUP_ROUNDS + 6)) + 2 * 6
    assert record.expected_count == record.observed_count == launches
    sizes = json.loads((folder / "receipt.json").read_text())["size_bytes"]
    assert set(sizes) == {str(file.relative_to(folder / "sim")) for file in files_of(LENGTHS, result.path)}
    assert ended.out.strip() == str(result.path.relative_to(folder)) and "warning" not in ended.err


def test_its_order_comes_from_its_seed(done: tuple[Path, Done]) -> None:
    [result], _ = read_extras(LENGTHS, done[0] / "sim")
    rng = np.random.default_rng(result.record.seed)
    rows = result.table[result.table["mode"] != "nothing"]
    first = rows[(rows["launch_count"] == 8) & (rows["kernel_us"] == 0)].sort_values(["repetition", "order"])
    drawn = [["loop", "replay"][index] for _ in range(WARMUP_ROUNDS + 6) for index in rng.permutation(2)]
    assert first["mode"].tolist() == drawn[2 * WARMUP_ROUNDS :]


def test_tables_are_the_cost_model_and_tell_host_bound_from_device_bound(done: tuple[Path, Done]) -> None:
    made = tabulate(done[0] / "sim")
    cells = made.lengths[made.lengths["repetitions_used"] > 0]
    assert len(cells) == 2 * len(LENGTHS_US) - 1 and set(cells["repetitions_used"]) == {6}
    for cell in cells.to_dict("records"):
        n, device = cell["launch_count"], CARD.pace_us + cell["kernel_us"]
        loop = max(n * CARD.issue_us + device, CARD.issue_us + n * device)
        replay = CARD.graph_launch_us + CARD.graph_fixed_us + n * (CARD.node_us + cell["kernel_us"])
        assert cell["loop_us"] == pytest.approx(loop, rel=1e-3)
        assert cell["replay_us"] == pytest.approx(replay, rel=1e-3)
        assert cell["loop_issue_us"] == pytest.approx(n * CARD.issue_us, rel=1e-6)
        assert cell["replay_issue_us"] == pytest.approx(CARD.graph_launch_us, rel=1e-6)
        assert cell["loop_total_us"] == pytest.approx(loop + CARD.sync_us, rel=1e-3)
        assert cell["pace"] == ("host" if device < CARD.issue_us else "device"), cell
    model = made.length_models.iloc[0]
    assert (model["issue_us"], model["pace_us"]) == pytest.approx((CARD.issue_us, CARD.pace_us), rel=1e-3)
    assert model["node_us"] == pytest.approx(CARD.node_us, rel=1e-3)
    assert model["replay_fixed_us"] == pytest.approx(CARD.graph_launch_us + CARD.graph_fixed_us, rel=1e-3)
    assert model["kernel_scale"] == pytest.approx(1, rel=1e-4)
    assert model["nothing_us"] == pytest.approx(CARD.event_us, rel=1e-4)
    assert model["largest_loop_residual_percent"] < 0.1 and model["verdict"] == "within 10 % of every cell"
    crossed = made.crossovers.set_index("launch_count")
    assert crossed["verdict"].tolist() == ["reached", "reached"]
    assert crossed.loc[8, ["helps_until_us", "no_help_from_us"]].tolist() == [20, 50]


def test_a_lying_event_costs_its_pair_and_nothing_else(
    jobs: Jobs, virtual_gpu: VirtualGpu, binaries: Path, tmp_path: Path
) -> None:
    # Before the cells come the calibration (12 intervals) and the pairs around nothing.
    cell = 2 * (WARMUP_ROUNDS + 8)
    at = 12 + NOTHING_REPETITIONS + 2 * WARMUP_ROUNDS + 1
    lies = [
        Fault("cuEventElapsedTime", value=1e9, start=at, count=1),
        Fault("cuEventElapsedTime", value=1e-6, start=at + LENGTHS_US.index(50) * cell, count=1),
    ]
    few = {"launch_counts": [64], "length_repetitions": 8}
    ended = measure(jobs, virtual_gpu, binaries, tmp_path, faults=lies, settings=few)
    assert ended.status == 0, ended.err
    assert "lengths: warning: 1 of 192 timings will not be used: GPU time longer than the host saw" in ended.err
    rows = tabulate(tmp_path / "sim").lengths.set_index("kernel_us")
    assert rows["repetitions_flagged"].to_dict() == dict.fromkeys(LENGTHS_US, 0) | {0.0: 1, 50.0: 1}
    assert rows.loc[0, "repetitions_used"] == rows.loc[50, "repetitions_used"] == 7
    assert "GPU time longer than the host saw (1 repetition)" in rows.loc[0, "flags"]
    assert "GPU time below half of what its kernels take" in rows.loc[50, "flags"]


@pytest.mark.parametrize(
    ("arguments", "settings", "faults", "said"),
    [
        (("--label", "t4"), {}, (), "asked to measure t4; found"),
        (("--label", "h100", "--card", "ffffffff"), {}, (), "ffffffff"),
        (("--label", "h100"), {"launch_counts": [4096]}, (), "launch_counts: got [4096]; expected also one of at most"),
        (("--label", "h100"), {}, (Fault("cuEventElapsedTime", value=0.0),), "spin of 1200000 cycles took 0.0 us"),
        (("--label", "h100"), {}, (Fault("cuLibraryLoadData", 209),), "CUDA_ERROR_NO_BINARY_FOR_GPU (209); the binary"),
        (("--label", "h100"), {}, (Fault("cuEventElapsedTime", value=0.0, start=13),), "no repetition can be used: "),
        (("--label", "h100"), {}, (Fault("cuEventCreate", 2),), "cuEventCreate failed: CUDA_ERROR_OUT_OF_MEMORY (2)"),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_nothing_is_written(
    jobs: Jobs,
    virtual_gpu: VirtualGpu,
    binaries: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    settings: dict[str, Any],
    faults: Sequence[Fault],
    said: str,
) -> None:
    small = {"launch_counts": [8], "length_repetitions": 1} | settings
    ended = measure(jobs, virtual_gpu, binaries, tmp_path, *arguments, faults=faults, settings=small)
    assert ended.status == 1, ended.err
    [line] = ended.said
    assert said in line
    assert not list(tmp_path.rglob("sim/**/*.*")) and not (tmp_path / "receipt.json").exists()


def test_company_is_flagged_and_refused_where_a_card_was_asked_for_alone(
    jobs: Jobs, virtual_gpu: VirtualGpu, binaries: Path, tmp_path: Path
) -> None:
    small = {"launch_counts": [8], "length_repetitions": 2}
    company = {"processes": [Process(4242)]}
    ended = measure(jobs, virtual_gpu, binaries, tmp_path, settings=small, **company)
    assert ended.status == 0, ended.err
    assert "nothing at N = 8 will be used: other process on the card (before and after)" in ended.err
    made = tabulate(tmp_path / "sim")
    assert set(made.lengths["repetitions_used"]) == {0} and made.crossovers["verdict"].tolist() == ["cannot-tell"]
    assert made.length_models.loc[0, "verdict"] == "no model: no valid samples"
    ended = measure(jobs, virtual_gpu, binaries, tmp_path, settings={**small, "cards": "listed"}, **company)
    assert ended.status == 1
    assert "asked to measure h100 alone; found" in ended.said[0] and "4242" in ended.said[0]


def test_throttling_within_one_n_leaves_the_other_one(
    jobs: Jobs, virtual_gpu: VirtualGpu, binaries: Path, tmp_path: Path
) -> None:
    small = {"launch_counts": [8, 16], "length_repetitions": 2}
    ended = measure(jobs, virtual_gpu, binaries, tmp_path, settings=small, throttle=Throttle(2))
    assert ended.status == 0, ended.err
    cells = tabulate(tmp_path / "sim").lengths.groupby("launch_count")
    assert cells["repetitions_used"].max().tolist() == [2, 0]
    assert "clock throttled: sw_thermal_slowdown (after)" in cells["flags"].first()[16]
