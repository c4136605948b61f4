"""A whole pointers job on a virtual card: the record, its files, and who reads them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from launchbench.errors import LaunchbenchError
from launchbench.results import extra_files
from launchbench.results.extra_files import files_of, read_extras
from launchbench.results.files import read_results
from launchbench.results.pointers import PointersRecord
from launchbench.results.pointers_files import POINTERS, write_pointers
from launchbench.results.pointers_words import CURES, SCENARIOS
from tests.unit.fabricate import write_job
from tests.unit.test_pointers import CARD, UUID
from tests.unit.test_sanitizer import ANSWERS, NEW, script
from tests.virtual_gpu import Fault, VirtualGpu

SETTINGS = {
    "site": "lab",
    "results_dir": "sim",
    "virtual_results": "allow",
    "launch_counts": [8, 64],
    "cure_repetitions": 8,
    "warmup_rounds": 1,
    "warmup_ms": 0,
}

# Sees what the real one sees: nothing of a recycled address or a victim. It does not get to see the unmapped one.
FAKE = f"""{ANSWERS}
for scenario; do :; done
echo "========= COMPUTE-SANITIZER"
case $scenario in
unowned) cat <<'X'
{NEW}X
exit 86;;
unmapped) echo "========= Error: Device not supported"; exit 1;;
esac
echo "device {UUID}"
echo "complete $scenario 0"
echo "========= ERROR SUMMARY: 0 errors"
"""


def measure(
    virtual_gpu: VirtualGpu, binaries: Path, folder: Path, faults: Sequence[Fault] = (), fake: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    environment = virtual_gpu.environment([CARD], faults, modelled_clock=True)
    if fake:
        script(folder / "cuda" / "bin" / "compute-sanitizer", fake)
    environment |= {"CUDA_HOME": str(folder / "cuda"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "launchbench", "pointers", "--label", "h100", "--receipt", "receipt.json"]
    command += ["--binaries", str(binaries)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def done(virtual_gpu: VirtualGpu, binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a job that was done; no test may change it."""
    folder = tmp_path_factory.mktemp("pointers")
    ended = measure(virtual_gpu, binaries, folder, fake=FAKE)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture
def results(done: Path, tmp_path: Path) -> Path:
    """A copy of its results."""
    return Path(shutil.copytree(done / "sim", tmp_path / "sim"))


def record_of(results: Path) -> Path:
    [path] = results.rglob("*.json")
    return path


def test_the_record_and_its_files(done: Path) -> None:
    [result], problems = read_extras(POINTERS, done / "sim")
    record = result.record
    assert problems == [] and result.site == "lab"
    assert record.device.virtual and record.device.uuid == UUID and record.label == "h100"
    assert {name: seen.outcome for name, seen in record.scenarios.items()} == {
        "control": "captured-buffer-updated",
        "recycled": "d2-updated",
        "victim": "victim-corrupted",
        "unowned": "nothing-visible",
        "unmapped": "context-lost",
    }
    assert [(check.cure, check.launch_count, check.outcome) for check in record.cures] == [
        (cure, count, "right-buffer") for count in (8, 64) for cure in CURES
    ]
    assert len(result.table) == record.cures_file.rows == 2 * 4 * 8
    assert record.protocol.launch_counts == [8, 64] and record.before.taken_utc < record.after.taken_utc
    sizes = json.loads((done / "receipt.json").read_text())["size_bytes"]
    assert set(sizes) == {str(path.relative_to(done / "sim")) for path in (done / "sim").rglob("*.*")}


def test_what_the_sanitizer_said_is_kept_and_parsed(done: Path) -> None:
    [result], _ = read_extras(POINTERS, done / "sim")
    sanitizer = result.record.sanitizer
    assert (sanitizer.version, sanitizer.source) == ("2025.3.1.0", "CUDA_HOME")
    runs = {run.scenario: run for run in sanitizer.runs}
    assert {name: run.verdict for name, run in runs.items()} == {
        "control": "clean",
        "recycled": "clean",
        "victim": "clean",
        "unowned": "errors",
        "unmapped": "not-run",
    }
    assert runs["unmapped"].reason == "Error: Device not supported" and runs["unmapped"].tool_exit_status == 1
    unowned = runs["unowned"]
    assert (unowned.tool_exit_status, unowned.target_exit_status, unowned.error_count) == (86, 0, 2)
    assert unowned.errors[0].source_line == "graphs.cu:18" and unowned.errors[1].api_code == 719
    assert unowned.report
    kept = (result.path.parent / unowned.report.file).read_text()
    assert kept == f"========= COMPUTE-SANITIZER\n{NEW}"
    assert [path.name.split(".", 1)[1] for path in files_of(POINTERS, result.path)] == [
        *("json", "csv"),
        *(f"sanitizer-{name}.txt" for name in SCENARIOS),
    ]


def test_launch_results_and_pointers_results_are_not_taken_for_each_other(results: Path) -> None:
    launch = write_job(results, 8)
    found, problems = read_results(results)
    assert [one.path for one in found] == [launch] and problems == []
    pointed, problems = read_extras(POINTERS, results)
    assert [one.path for one in pointed] == [record_of(results.joinpath("lab", "h100"))] and problems == []


def test_a_record_under_a_name_of_the_other_kind_is_refused_and_not_lost(results: Path) -> None:
    path = record_of(results)
    renamed = path.rename(path.with_name("n0000008-abc.json"))
    _, [problem] = read_results(results)
    assert problem.path == renamed and "launchbench-pointers/1" in problem.reason
    launch = write_job(results, 8)
    launch.rename(launch.with_name(f"{path.stem[:-1]}x.json"))
    _, problems = read_extras(POINTERS, results)
    assert any("launchbench-record/" in one.reason for one in problems)


def damage(path: Path, suffix: str) -> Path:
    [file] = [one for one in path.parent.iterdir() if one.name.endswith(suffix)]
    return file


@pytest.mark.parametrize(
    ("suffix", "content", "reason"),
    [
        (".csv", b"", "cut short: 0 of"),
        (".csv", None, "missing; its record is there"),
        (".sanitizer-victim.txt", b"nothing", "cut short: 7 of"),
        (".sanitizer-victim.txt", None, "missing; its record is there"),
        (".sanitizer-unowned.txt", b"x" * 4000, "changed since it was measured"),
        (".json", b"", "empty; expected a launchbench-pointers/1 record"),
        (".json", b"{}", "format: Field required"),
        (".json", None, "no record beside it"),
    ],
)
def test_every_damage_is_said_once_with_its_file(
    results: Path, suffix: str, content: bytes | None, reason: str
) -> None:
    file = damage(record_of(results), suffix)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    found, [problem] = read_extras(POINTERS, results)
    assert found == [] and reason in problem.reason
    assert problem.path == (file if content is not None or suffix != ".json" else file.with_suffix(".csv"))
    assert (problem.site, problem.label, problem.card) == ("lab", "h100", "12345678")
    assert read_results(results) == ([], [])


def test_nothing_is_replaced_and_nothing_half_written_is_left(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [result], _ = read_extras(POINTERS, results)
    dumped = result.record.model_dump()
    fields = {name: dumped[name] for name in PointersRecord.model_fields if name not in ("format", "cures_file")}
    with pytest.raises(LaunchbenchError, match="exists already; results are never replaced"):
        write_pointers(results, fields, result.table, {})

    written = []

    def full(path: Path, data: bytes) -> None:
        if path.suffix == ".json":
            raise LaunchbenchError("No space left on device")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written.append(path)

    monkeypatch.setattr(extra_files, "write_atomically", full)
    with pytest.raises(LaunchbenchError, match="No space left"):
        write_pointers(tmp_path / "other", fields, result.table, {"victim": b"text"})
    assert len(written) == 2 and not any(path.exists() for path in written)


def test_a_binary_that_does_not_fit_is_one_line_and_nothing_is_written(
    virtual_gpu: VirtualGpu, binaries: Path, tmp_path: Path
) -> None:
    ended = measure(virtual_gpu, binaries, tmp_path, [Fault("cuLibraryLoadData", 209)])
    assert ended.returncode == 1 and not (tmp_path / "sim").exists() and not (tmp_path / "receipt.json").exists()
    said = [line for line in ended.stderr.splitlines() if line.startswith("launchbench: ")]
    assert said == [
        "launchbench: cuLibraryLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU (209); "
        "the binary has no code for this card"
    ]


def test_cures_that_cannot_be_tried_are_failed_and_the_scenarios_are_kept(
    virtual_gpu: VirtualGpu, binaries: Path, tmp_path: Path
) -> None:
    """And there is no sanitizer."""
    ended = measure(virtual_gpu, binaries, tmp_path, [Fault("cuGraphGetNodes", 2)])
    assert ended.returncode == 0, ended.stderr
    [result], _ = read_extras(POINTERS, tmp_path / "sim")
    failed = {check.cure: check.reason for check in result.record.cures if check.outcome == "failed"}
    assert set(failed) == {"node-params"} and "cuGraphGetNodes failed" in str(failed["node-params"])
    assert {run.verdict for run in result.record.sanitizer.runs} == {"not-run"}
    assert all(
        "`pip install nvidia-cuda-sanitizer-api` brings it" in str(r.reason) for r in result.record.sanitizer.runs
    )
    assert {run.report for run in result.record.sanitizer.runs} == {None}
