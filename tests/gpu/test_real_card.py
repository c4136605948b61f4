"""On a real NVIDIA card: the job, the program and the visibility rules. No timing is asserted."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbench.results.files import read_results
from launchbench.results.protocol import COMPARED_MODES

PROJECT = Path(__file__).parents[2]


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not _has_driver(), reason="needs a real NVIDIA card; this machine has no NVIDIA driver"),
]


def launchbench(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the package."""
    return subprocess.run(
        [sys.executable, "-m", "launchbench", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def cards(cwd: Path, **environment: str) -> list[dict[str, Any]]:
    """What `launchbench probe` prints."""
    done = launchbench("probe", cwd=cwd, **environment)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with short settings and the products built in it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "config.yaml").write_text(
        "placements: 6\nfull_placements: 2\npool_mib: 16\n"
        "repetitions: 10\nwarmup_rounds: 2\nwarmup_ms: 0\nsite: test\n"
        "launch_paths: [native-driver, native-runtime, cuda-python]\n"
    )
    done = launchbench(
        "build",
        "--source",
        str(PROJECT / "src/graphs.cu"),
        "--nvcc-lock",
        str(PROJECT / "requirements-nvcc.lock"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    yield folder


@pytest.mark.parametrize("count", [8, 1025])
def test_a_job_files_a_checked_result(project: Path, count: int) -> None:
    card = cards(project)[0]
    done = launchbench("measure", "--label", card["label"], "--launch-count", str(count), cwd=project)
    assert done.returncode == 0, done.stderr
    results, problems = read_results(project / "results")
    assert problems == []
    result = next(result for result in results if result.record.launch_count == count)
    record = result.record
    assert record.device.uuid == card["uuid"]
    assert not record.device.virtual
    assert {(block.launch_path, block.kernel) for block in record.blocks} == {
        (path, kernel) for path in ("native-driver", "native-runtime", "cuda-python") for kernel in ("tiny", "empty")
    }
    for block in record.blocks:
        # Each block has at least its repetitions of loop and replay at two placements.
        assert block.expected_count == block.observed_count
        assert block.observed_count >= 2 * 2 * 10 * count if block.kernel == "tiny" else block.observed_count == 0
    first = result.raw[result.raw["attempt"] == 0]
    places = first.groupby(["launch_path", "kernel"])["placement"].nunique()
    assert sorted(places) == [2, 2, 2, 2, 2, 6] and places["native-driver", "tiny"] == 6
    compared = first[first["mode"].isin(COMPARED_MODES)]
    assert len(compared) == 10 * (6 * 2 * 2 + 4)
    assert (compared["gpu_us"] > 0).all()
    assert (result.raw["total_us"] >= result.raw["issue_us"]).all()


def test_the_wrong_label_measures_nothing(project: Path) -> None:
    before = sorted((project / "results").rglob("*")) if (project / "results").exists() else []
    done = launchbench("measure", "--label", "no-such-card", "--launch-count", "8", cwd=project)
    assert done.returncode == 1
    assert re.fullmatch(r"launchbench: asked to measure no-such-card; found .*: nothing was measured\n", done.stderr)
    assert (sorted((project / "results").rglob("*")) if (project / "results").exists() else []) == before


@pytest.mark.parametrize("value", ["", "-1", "7777"])
def test_no_visible_gpu_is_one_line(project: Path, value: str) -> None:
    done = launchbench("probe", cwd=project, CUDA_VISIBLE_DEVICES=value)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"no visible GPU (CUDA_VISIBLE_DEVICES={value!r})" in done.stderr


@pytest.mark.parametrize("form", ["{uuid}", "{short}", "0,-1,2"])
def test_every_form_of_visible_devices_finds_the_card(project: Path, form: str) -> None:
    card = cards(project)[0]
    value = form.format(uuid=card["uuid"], short=card["uuid"][:12])
    assert [found["uuid"] for found in cards(project, CUDA_VISIBLE_DEVICES=value)] == [card["uuid"]]


def test_the_program_prints_the_exercises(project: Path) -> None:
    done = subprocess.run([project / "build/cuda/graphs"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = re.findall(
        r"^ +(8|64|512|4096) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE
    )
    assert [row[0] for row in rows] == ["8", "64", "512", "4096"]
    for _, loop, replay, speedup, *_ in rows:
        assert float(speedup) == pytest.approx(float(loop) / float(replay), abs=0.01)
    assert "Exercise 5" in done.stdout


def test_the_program_releases_everything(project: Path) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not on the PATH")
    command = [sanitizer, "--leak-check", "full", project / "build/cuda/graphs", "--n", "8,64"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    if "not supported" in done.stdout:
        pytest.skip(f"compute-sanitizer does not run here: {done.stdout.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout
    assert "LEAK SUMMARY: 0 bytes leaked" in done.stdout
    assert "ERROR SUMMARY: 0 errors" in done.stdout
