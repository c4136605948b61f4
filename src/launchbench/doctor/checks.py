"""Checks of this environment: packages, compilers, CPU, folders; and the list of all checks."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from launchbench.build.compile import PRODUCTS, accepts
from launchbench.build.toolkit import find_toolkit, pinned_version
from launchbench.config.model import Config
from launchbench.doctor import cluster, frameworks, gpu
from launchbench.doctor.finding import Check, Finding, ask, found
from launchbench.errors import LaunchbenchError
from launchbench.measure.host import cpu_cores, host_facts
from launchbench.measure.lock import core_lock, lock_dir, ranges
from launchbench.series import SERIES, driver_cuda_version, installed_series

LIMIT_S = 20.0
ROOM_BYTES = 200 * 2**20
"""Less free space than this is told: an nvcc as wheels takes about as much."""


def packages(_config: Config) -> Iterator[Finding]:
    """Python and what launchbench imports."""
    missing = []
    for name in ("snakemake", "cuda-bindings", "cuda-core", "nvidia-ml-py", "numpy", "pandas", "matplotlib"):
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        do = "`make install` installs them, or `pip install -r requirements.lock`"
        yield Finding("fail", "packages", f"not installed: {', '.join(missing)}", do)
    if installed_series() not in (*SERIES, None):
        yield Finding("fail", "packages", f"cuda-bindings of series {installed_series()}", "series 12 or 13 is needed")
    elif not missing:
        told = f"Python {platform.python_version()}, snakemake {version('snakemake')}, cuda-core {version('cuda-core')}"
        yield Finding("ok", "packages", f"{told}, cuda-python of series {installed_series()}")


def compilers(config: Config) -> Iterator[Finding]:
    """nvcc, the architectures it knows, and the C++ compiler it takes."""
    wheels = Path(config.build_dir) / "nvcc"
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        toolkit = find_toolkit(wheels)
    for line in told.getvalue().splitlines():
        yield Finding("warn", "nvcc", line.removeprefix("launchbench: "))
    if toolkit is None:
        yield from _without_nvcc(config)
        return
    yield Finding("ok", "nvcc", f"{toolkit.version} ({toolkit.source}: {toolkit.nvcc})")
    try:
        unknown, compiler = accepts(toolkit, config.architectures)
    except LaunchbenchError as error:
        yield Finding("fail", "C++ compiler", str(error))
        return
    for line in unknown:
        yield Finding("fail", "nvcc", line)
    yield Finding("ok", "C++ compiler", f"{compiler['name']} {compiler['version']}, which nvcc accepts")


def _without_nvcc(config: Config) -> Iterator[Finding]:
    if all((Path(config.build_dir) / "cuda" / product).is_file() for product in PRODUCTS):
        yield Finding("ok", "nvcc", "none, and none needed: the kernels are compiled")
        return
    newest = driver_cuda_version()
    if newest and newest[0] < SERIES[-1]:
        do = f"load a module or install a toolkit of CUDA {newest[0]}; its wheels have no nvcc"
        yield Finding("fail", "nvcc", f"none of CUDA {newest[0]}", do)
        return
    try:
        do = f"nvcc {pinned_version(Path('requirements-nvcc.lock'))} is fetched as wheels when it is needed (network)"
        yield Finding("warn", "nvcc", "none", do)
    except LaunchbenchError as error:
        yield Finding("fail", "nvcc", "none, and none can be fetched", str(error))
    if not any(map(found, ("g++", "c++", "clang++"))):
        yield Finding("fail", "C++ compiler", "none on PATH", "install g++")


def sanitizer(_config: Config) -> Iterator[Finding]:
    """compute-sanitizer, which the exercise on memory errors needs and measuring does not."""
    beside = [Path(home) / "bin" / "compute-sanitizer" for home in _cuda_homes()]
    candidates = [shutil.which("compute-sanitizer"), *(str(path) for path in beside if path.is_file())]
    program = next((path for path in candidates if path), None)
    if program is None:
        do = "it comes with a CUDA toolkit; measuring does without"
        yield Finding("warn", "sanitizer", "no compute-sanitizer", do)
        return
    answer = ask([program, "--version"], LIMIT_S)
    if answer.failed:
        yield Finding("warn", "sanitizer", answer.failed)
    else:
        release = re.search(r"[0-9]+(\.[0-9]+)+", answer.out)
        yield Finding("ok", "sanitizer", f"compute-sanitizer {release[0] if release else ''} ({program})")


def _cuda_homes() -> list[str]:
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    if nvcc := shutil.which("nvcc"):
        homes.append(str(Path(nvcc).resolve().parent.parent))
    return [home for home in (*homes, "/usr/local/cuda") if home]


def cpu(_config: Config) -> Iterator[Finding]:
    """The cores that the launching process may use, and what else uses them."""
    facts = host_facts(None)
    model = facts.cpu_model or "unknown CPU"
    if facts.affinity is None:
        yield Finding("ok", "CPU", f"{model}; this system does not tell which cores a process may use")
        return
    usable, count = ranges(facts.affinity), len(facts.affinity)
    says = (
        f"{model}; may use logical CPUs {usable} ({count} of {facts.cpu_count}), governor {facts.governor or 'unknown'}"
    )
    if count == 1:
        yield Finding("warn", "CPU", says, "two or more (--cpus-per-task=2) keep other threads away from the launches")
    elif facts.cpu_quota_cpus is not None and facts.cpu_quota_cpus < count:
        says += f", {facts.cpu_quota_cpus:g} CPUs' worth of time"
        yield Finding("warn", "CPU", says, "where a control group's quota is used up, launches stop: lift it")
    elif facts.governor not in (None, "performance"):
        yield Finding("warn", "CPU", says, "loop times follow the clock: the governor performance is steadier")
    else:
        yield Finding("ok", "CPU", says)
    load = facts.load_average_1min
    if load is not None and load > max(1, count / 2):
        do = "other programs run on these cores: loops will take longer"
        yield Finding("warn", "load", f"{load} runnable processes on average in the last minute", do)
    try:
        with core_lock(cpu_cores(), timeout_s=-1):
            yield Finding("ok", "locks", f"{lock_dir()} can hold the locks of cards and cores")
    except LaunchbenchError as error:
        if "another measurement" in str(error):
            yield Finding(
                "warn", "locks", "a measurement runs on these cores now", "a new one waits until it has ended"
            )
        else:
            yield Finding("fail", "locks", str(error), "LAUNCHBENCH_LOCK_DIR names another folder for all users")


def folders(config: Config) -> Iterator[Finding]:
    """Whether results, reports and scratch files can be written."""
    for key in ("results_dir", "reports_dir", "build_dir"):
        folder = Path(getattr(config, key))
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        try:
            with tempfile.TemporaryFile(dir=nearest):
                room = shutil.disk_usage(nearest).free
        except OSError as error:
            yield Finding("fail", key, f"{folder} cannot be written ({error.strerror})", f"set {key} in config.yaml")
            continue
        if room < ROOM_BYTES:
            yield Finding("warn", key, f"{folder}: {room // 2**20} MiB are free", "make room")
        else:
            yield Finding("ok", key, f"{folder} can be written")


CHECKS: dict[str, Check] = {
    "packages": packages,
    "driver": gpu.driver,
    "cards": gpu.cards,
    "nvml": gpu.nvml,
    "compilers": compilers,
    "launch paths": frameworks.launch_paths,
    "kernels": gpu.kernels,
    "sanitizer": sanitizer,
    "slurm": cluster.slurm,
    "accounting": cluster.accounting,
    "cpu": cpu,
    "folders": folders,
}
"""All checks by name, in the order of the lines."""
