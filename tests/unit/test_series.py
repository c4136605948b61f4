"""Drivers, cuda-python and compilers of CUDA 12 and 13, in every pairing, on the virtual GPU."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbench.measure.modes import kernels_of
from launchbench.results.protocol import KERNELS, LAUNCH_PATHS
from launchbench.series import fitting_series, installed_series
from tests.unit.test_error_sweep import Bench, refusal
from tests.unit.test_virtual_gpu import fatbin
from tests.virtual_gpu import A100, NAME, T4, Card, Fault, VirtualGpu
from tests.virtual_gpu.jobs import Jobs

ROOT = Path(__file__).resolve().parents[2]
V100 = Card(name=f"{NAME} V100", compute_capability="7.0")
CODES = (("sass", 75), ("sass", 80), ("sass", 90), ("ptx", 90))


@pytest.mark.parametrize(
    ("driver", "present", "series"),
    [
        ((13, 0), None, 13),
        ((14, 2), 12, 13),
        ((12, 9), 13, 12),
        ((12, 0), None, 12),
        ((11, 8), None, 12),
        (None, None, 13),
        (None, 12, 12),
        (None, 11, 13),
    ],
)
def test_the_driver_decides_the_series(driver: tuple[int, int] | None, present: int | None, series: int) -> None:
    assert fitting_series(driver, present) == series


@pytest.mark.parametrize(
    ("version", "faults", "series"),
    [
        ("12.4", (), "12"),
        ("13.2", (), "13"),
        ("12.4", (Fault("cuDriverGetVersion", 34),), "13"),
        ("12.4", (Fault("cuInit", 100),), "12"),
    ],
    ids=["12", "13", "the library for linking", "no card"],
)
def test_it_is_asked_without_cuda_python_and_without_a_card(
    virtual_gpu: VirtualGpu, version: str, faults: tuple[Fault, ...], series: str
) -> None:
    environment = virtual_gpu.environment(faults=faults, driver_version=version)
    command = [sys.executable, "-I", "-S", str(ROOT / "src/launchbench/series.py"), "13"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == (f"{series}\n", "", 0)


def test_without_a_driver_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library\n")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-I", "-S", str(ROOT / "src/launchbench/series.py"), "12"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout == "12\n"


# ---------------------------------------------------------------- jobs


@dataclasses.dataclass(frozen=True)
class Lab:
    """A folder, and jobs with the cuda-python of one series."""

    bench: Bench
    series: int

    def binaries(self, nvcc: str, *codes: tuple[str, int], architectures: str = "sm_75") -> Lab:
        """The same with binaries that an nvcc of this version might have made."""
        folder = self.bench.folder.parent / f"{self.bench.folder.name}-binaries"
        shutil.copytree(self.bench.binaries, folder)
        kernels = tuple(kernels_of(LAUNCH_PATHS, KERNELS))
        image = fatbin(*codes, kernels=kernels, release=".".join(nvcc.split(".")[:2]))
        (folder / "graphs.fatbin").write_bytes(image)
        manifest = json.loads((folder / "build.json").read_text())
        manifest["nvcc"]["version"] = nvcc
        manifest["architectures"] = [architectures]
        manifest["products"]["graphs.fatbin"]["sha256"] = hashlib.sha256(image).hexdigest()
        (folder / "build.json").write_text(json.dumps(manifest))
        return Lab(dataclasses.replace(self.bench, binaries=folder), self.series)


@pytest.fixture(scope="module", params=[13, 12])
def series(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def jobs_of_series(virtual_gpu: VirtualGpu, series: int, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    environment = virtual_gpu.environment()
    if series == 12:
        packages = request.getfixturevalue("cuda12_packages")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(packages), environment.get("PYTHONPATH")]))
    elif installed_series() != series:
        pytest.skip(f"this environment has cuda-python {installed_series()}")
    with Jobs(environment) as started:
        yield started


@pytest.fixture
def lab(virtual_gpu: VirtualGpu, jobs_of_series: Jobs, series: int, binaries: Path, tmp_path: Path) -> Lab:
    bench = Bench(tmp_path / "work", virtual_gpu, jobs_of_series, binaries)
    bench.folder.mkdir()
    bench.configure()
    return Lab(bench, series)


def test_a_driver_of_the_series_or_newer_measures(lab: Lab) -> None:
    made = lab.binaries("12.4.131", *CODES)
    for version in ("12.4", "13.2")[lab.series - 12 :]:
        done = made.bench.measure(driver_version=version)
        assert done.status == 0, done.err
        record = made.bench.result().record
        assert record.software.cuda_bindings.startswith(f"{lab.series}.")
        assert (record.software.nvcc, record.device.cuda_driver_version) == ("12.4.131", version)
        assert [block.observed_count == block.expected_count > 0 for block in record.blocks if block.kernel == "tiny"]


def test_a_driver_older_than_cuda_python_is_named_with_the_series_that_fits(lab: Lab) -> None:
    older = {13: "12.4", 12: "11.8"}[lab.series]
    cure = {
        13: "`make report CUDA=12`, or elsewhere `pip install 'cuda-python==12.*'`, installs one that fits",
        12: "install a driver that runs CUDA 12 or newer",
    }[lab.series]
    line = refusal(lab.bench, lab.bench.measure(driver_version=older))
    assert line.startswith(f"cuda-python {lab.series}.")
    assert line.endswith(f" needs a driver that runs CUDA {lab.series}, and this one runs up to {older}: {cure}")
    assert "cuLibraryLoadData" not in lab.bench.calls
    environment = lab.bench.gpu.environment(driver_version=older)
    assert refusal(lab.bench, lab.bench.jobs.run(environment, lab.bench.folder, "probe")) == line


def test_machine_code_of_a_newer_toolkit_runs_within_a_series(lab: Lab) -> None:
    made = lab.binaries(f"{lab.series}.9.86", *CODES)
    done = made.bench.measure(driver_version=f"{lab.series}.1")
    assert done.status == 0, done.err
    assert made.bench.result().record.software.nvcc == f"{lab.series}.9.86"


def test_ptx_of_a_newer_toolkit_is_refused_and_machine_code_is_the_cure(lab: Lab) -> None:
    made = lab.binaries(f"{lab.series}.9.86", ("sass", 90), ("ptx", 75))
    done = made.bench.measure(cards=[A100], label="a100", driver_version=f"{lab.series}.1")
    line = refusal(made.bench, done)
    assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)" in line
    older = f"install a newer driver, or build with an nvcc not newer than {lab.series}.1"
    assert line.endswith(f"{NAME} A100 is sm_80: add sm_80 to architectures, {older}")


def test_a_binary_of_a_newer_series_is_refused_before_anything_is_timed(lab: Lab) -> None:
    made = lab.binaries(f"{lab.series + 1}.0.88", *CODES)
    line = refusal(made.bench, made.bench.measure(driver_version=f"{lab.series}.4"))
    assert "(222); " in line
    assert line.endswith(
        f"install a newer driver, or build with an nvcc of CUDA {lab.series} (on PATH or in CUDA_HOME)"
    )
    assert not {"cuLaunchKernel", "cuMemAlloc"} & set(made.bench.calls)


@pytest.mark.parametrize("nvcc", ["12.9.86", "13.0.88"])
def test_a_card_that_the_compiler_no_longer_knows(lab: Lab, nvcc: str) -> None:
    driver = "13.0" if lab.series == 13 or nvcc.startswith("13") else "12.9"
    label = "launchbench-virtual-v100"
    made = lab.binaries(nvcc, *CODES)
    line = refusal(made.bench, made.bench.measure(cards=[V100], label=label, driver_version=driver))
    assert "the binary has no code for this card" in line
    cure = {
        "12.9.86": "V100 is sm_70: add sm_70 to architectures",
        "13.0.88": "V100 is sm_70: CUDA 13 no longer knows sm_70: "
        "add it to architectures and run `make report CUDA=12`",
    }[nvcc]
    assert line.endswith(cure)


def test_such_a_card_is_measured_with_code_of_cuda_12(lab: Lab) -> None:
    made = lab.binaries("12.9.86", ("sass", 70), *CODES)
    done = made.bench.measure(cards=[V100, T4], label="launchbench-virtual-v100", driver_version="13.0")
    assert done.status == 0, done.err
    assert made.bench.result().record.device.compute_capability == "7.0"
