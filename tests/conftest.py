"""What the tests share: the virtual GPU, and the binaries built by a real nvcc."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from tests.virtual_gpu import CompileError, VirtualGpu, compile_library

ROOT = Path(__file__).resolve().parent.parent

pytest_plugins = ["tests.traced"]

# The same examples everywhere, so that a red run is a change's doing. HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("repeat", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """After pytest's own lines, one for each test: how many were skipped for which reason."""
    yield
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", ())]
    reasons = Counter(str(why[2]).removeprefix("Skipped: ") for why in skipped if isinstance(why, tuple))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"NOT RUN: {count} tests, {reason}", yellow=True)


@pytest.fixture(scope="session")
def virtual_gpu_library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for LD_LIBRARY_PATH with the virtual driver and the virtual NVML, compiled unless it is cached."""
    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("virtual_gpu")) if cache else tmp_path_factory.mktemp("virtual_gpu")
    if ":" in str(folder) or ";" in str(folder):  # what LD_LIBRARY_PATH cannot hold
        folder = tmp_path_factory.mktemp("virtual_gpu")
    try:
        return compile_library(folder)
    except CompileError as error:
        if "no C compiler" in str(error):
            pytest.skip(f"the virtual GPU has to be compiled: {error}")
        raise


@pytest.fixture(scope="session")
def virtual_gpu(virtual_gpu_library: Path, tmp_path_factory: pytest.TempPathFactory) -> VirtualGpu:
    """The compiled virtual GPU; ``environment`` of it starts processes on virtual cards."""
    return VirtualGpu(virtual_gpu_library, tmp_path_factory.mktemp("locks"))


@pytest.fixture(scope="session")
def cuda12_packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for PYTHONPATH with the cuda-bindings of series 12: the rest is the same for both series."""
    lock = (ROOT / "requirements-cuda12.lock").read_text()
    [pin] = re.findall(r"^cuda-bindings==(?:.*\\\n)+.*\n", lock, re.MULTILINE)
    cache = getattr(request.config, "cache", None)
    parent = Path(cache.mkdir("cuda12")) if cache else tmp_path_factory.mktemp("cuda12")
    identity = f"{pin} {sys.implementation.cache_tag}"
    folder = parent / hashlib.sha256(identity.encode()).hexdigest()[:16]
    with FileLock(f"{folder}.lock"):
        if folder.exists():
            return folder
        temporary = Path(tempfile.mkdtemp(dir=parent))
        (temporary / "requirements.txt").write_text(pin)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--target", str(temporary / "packages"), "-r", str(temporary / "requirements.txt")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            (temporary / "packages").rename(folder)
        shutil.rmtree(temporary)
    if done.returncode:
        pytest.skip(f"cuda-bindings of series 12 cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return folder


@pytest.fixture(scope="session")
def nvcc_wheels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheels of nvcc are kept if no nvcc is on this machine."""
    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("nvcc")) if cache else tmp_path_factory.mktemp("nvcc")
    return folder / "wheels"


@pytest.fixture(scope="session")
def binaries(nvcc_wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with what ``launchbench build`` makes, by the nvcc that it finds or fetches; made once a session."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "binaries" / "cuda"
    command = [sys.executable, "-m", "launchbench", "build", "--config", "config.yaml"]
    command += ["--out", str(folder), "--wheels", str(nvcc_wheels)]
    with FileLock(shared / "binaries.lock"):
        if (folder / "build.json").exists():
            return folder
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 1 and "nvcc is needed to build" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return folder
