"""What `launchbench doctor` says of machines that are whole, lacking or broken; it never hangs and never raises."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from launchbench.__main__ import main
from launchbench.build import toolkit
from launchbench.config.model import Config
from launchbench.doctor import checks, cluster, examine, frameworks, gpu
from launchbench.doctor.finding import Check, Finding, ask
from launchbench.measure import host
from launchbench.measure.lock import core_lock
from tests.conftest import ROOT
from tests.unit.test_error_sweep import Bench
from tests.virtual_gpu import A100, H100, NAME, T4, Card, Fault, Process, Throttle, VirtualGpu
from tests.virtual_gpu.jobs import Jobs

ALLOWED = Config(virtual_results="allow", results_dir="simulated")


def told(check: Check, config: Config = ALLOWED) -> list[tuple[str, str]]:
    """Status and the rest of the line of every finding, in this process."""
    return [(finding.status, finding.line()[6:]) for finding in check(config)]


@pytest.fixture(autouse=True)
def outside_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


@pytest.fixture(scope="module")
def jobs(virtual_gpu: VirtualGpu) -> Iterator[Jobs]:
    with Jobs(virtual_gpu.environment()) as started:
        yield started


@pytest.fixture
def bench(virtual_gpu: VirtualGpu, jobs: Jobs, tmp_path: Path) -> Bench:
    made = Bench(tmp_path, virtual_gpu, jobs, Path())
    made.configure()
    return made


def asked(bench: Bench, check: str, cards: Sequence[Card] = (T4,), faults: Sequence[Fault] = (), **more: Any) -> str:
    """What one check says on virtual cards; the status of the command fits the lines."""
    done = bench.jobs.run(bench.gpu.environment(cards, faults, **more), bench.folder, "doctor", "--check", check)
    assert done.status == int("fail " in done.out), done
    assert done.err == ""
    return done.out


# ---------------------------------------------------------------- the whole


@pytest.mark.untraced
def test_a_machine_that_is_whole_passes(virtual_gpu: VirtualGpu, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    for name, body in (("sinfo", "echo 'gpu* gpu:h100:4 up'"), ("sbatch", ""), ("sacct", ""), ("squeue", "")):
        program(tools / name, body)
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    environment = virtual_gpu.environment([T4, H100], variables={"PATH": path})
    (tmp_path / "config.yaml").write_text("virtual_results: allow\nresults_dir: simulated\n")
    command = [sys.executable, "-m", "launchbench", "doctor"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = [(line[:5].strip(), line[6:19].strip()) for line in done.stdout.splitlines()]
    assert {status for status, _ in lines} <= {"ok", "warn"}
    assert [what for _, what in lines if what in ("driver", "card", "processes", "kernels", "SLURM", "accounting")] == [
        *("driver", "card", "card", "processes", "processes", "kernels", "SLURM", "accounting")
    ]
    assert {what for _, what in lines} >= {"packages", "NVML", "nvcc", "sanitizer", "CPU", "locks", "results_dir"}


def test_a_check_that_hangs_or_dies_is_one_line(virtual_gpu: VirtualGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "CHECKS", {"cards": gpu.cards, "nvml": gpu.nvml, "kernels": gpu.kernels})
    for name, value in virtual_gpu.environment(faults=[Fault("cuInit", hang=True)]).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAUNCHBENCH_PROBE_TIMEOUT_S", "3")
    begun = time.monotonic()
    assert list(examine.examine(ALLOWED, limit_s=500)) == [
        "fail  cards         this check did not answer within 3 s",
        "fail  nvml          not checked, since the driver did not answer the check of cards",
        "fail  kernels       not checked, since the driver did not answer the check of cards",
    ]
    assert time.monotonic() - begun < 60
    monkeypatch.setattr(examine, "CHECKS", {"cards": gpu.cards})
    monkeypatch.setenv("LAUNCHBENCH_PROBE_TIMEOUT_S", "soon")
    assert next(iter(examine.examine(ALLOWED))) == (
        "fail  driver        LAUNCHBENCH_PROBE_TIMEOUT_S: got 'soon'; expected a whole number of seconds"
    )
    monkeypatch.delenv("LAUNCHBENCH_PROBE_TIMEOUT_S")
    monkeypatch.setenv("LAUNCHBENCH_VIRTUAL_GPU", "nonsense")
    [line] = examine.examine(ALLOWED, limit_s=60)
    assert line.startswith("fail  cards         this check ended with exit status 70 (")


# Of a framework, as the files of an installation say it.
METADATA = """Metadata-Version: 2.1
Name: {name}
Version: 0.61.2
Requires-Dist: numpy<{newest},>=1.24
Requires-Dist: none-of-this-name
Requires-Dist: pandas<1; extra == "docs"
"""


@pytest.mark.parametrize(
    ("newest", "finding"),
    [
        (
            "2.0",
            "numba: numba 0.61.2 asks for numpy<2.0,>=1.24; {numpy} is installed: it may import and yet fail at its "
            "first launch; install releases that fit",
        ),
        ("99", ""),
    ],
)
def test_a_framework_beside_releases_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: str, finding: str
) -> None:
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise ImportError('nobody is to import it')\n")
    facts = tmp_path / "numba-0.61.2.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(METADATA.format(name="numba", newest=newest))
    (facts / "top_level.txt").write_text("numba\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    lines = [line for line in told(frameworks.launch_paths) if "numba" in line[1]]
    assert [line[1].partition(" ")[2].strip() for line in lines if line[0] == "warn"] == [
        *([f"paths  {finding.format(numpy=numpy.__version__)}"] if finding else [])
    ]
    assert "frameworks installed: numba 0.61.2" in lines[-1][1] and "measuring tells" in lines[-1][1]


def test_a_mistake_in_a_check_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(_: Config) -> Iterator[Finding]:
        yield Finding("ok", "first", "fine")
        raise ZeroDivisionError("by\nzero")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(checks.CHECKS, "cpu", broken)
    assert main(["doctor", "--check", "cpu"]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "ok    first         fine",
        r"fail  cpu           the check itself failed: ZeroDivisionError: by\nzero",
    ]


def test_a_mistake_in_the_configuration_is_a_line_and_the_rest_is_told_all_the_same(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.folder / "config.yaml").write_text("repetitions: 0\nsyte: lab\n")
    first, second, third = asked(bench, "driver").splitlines()
    assert first.startswith("fail  configuration config.yaml: ") and second.startswith("fail  configuration ")
    assert third.startswith("ok    driver ")
    monkeypatch.chdir(bench.folder)
    for arguments, line in (
        (["--check", "drivers"], "--check: got 'drivers'; expected one of packages, driver, "),
        *(
            (["--limit-s", given], f"--limit-s: got {got}; expected a number above 0, at most 86400\n")
            for given, got in (("0", "0.0"), ("-1", "-1.0"), ("nan", "nan"), ("inf", "inf"), ("1e9", "1000000000.0"))
        ),
    ):
        assert main(["doctor", *arguments]) == 1
        assert capsys.readouterr().err.startswith(f"launchbench: {line}")


# ---------------------------------------------------------------- the driver and the cards


@pytest.mark.parametrize(("job", "status"), [(None, "warn"), ("17", "fail")])
def test_without_a_driver_only_a_job_fails(job: str | None, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "driver_cuda_version", lambda: None)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    [(said, line)] = told(gpu.driver)
    assert (said, line.startswith("driver        no NVIDIA driver (libcuda.so.1): nothing can be measured here")) == (
        status,
        True,
    )
    for check in (gpu.cards, gpu.nvml):
        assert told(check) == []
    monkeypatch.setattr(gpu, "broken_driver", lambda: "libcuda.so.1 cannot be loaded: libcuda.so.1: file too short")
    [(said, line)] = told(gpu.driver)
    assert line.startswith("driver        libcuda.so.1 cannot be loaded: libcuda.so.1: file too short: nothing can be")


def test_a_driver_that_is_too_old_is_told_once(bench: Bench) -> None:
    line = asked(bench, "driver", driver_version="12.4")
    assert line.startswith("fail  driver        cuda-python 13.")
    assert "runs up to 12.4: `make report CUDA=12`" in line
    assert asked(bench, "cards", driver_version="12.4") == ""


def test_cards_with_the_labels_that_they_match(bench: Bench) -> None:
    other = Card(name=f"{NAME} L4", compute_capability="8.9")
    first, second = asked(bench, "cards", [A100, other]).splitlines()
    assert first.startswith(f"ok    card          {NAME} A100 (") and first.endswith("capability 8.0: a100")
    assert second.startswith(f"warn  card          {NAME} L4 (")
    assert "matches no label: it is measured as launchbench-virtual-l4" in second


def test_a_simulated_card_is_refused_unless_allowed(bench: Bench) -> None:
    bench.configure(virtual_results="refuse", results_dir="results")
    assert asked(bench, "cards").endswith("simulated, and virtual_results is 'refuse'\n")


@pytest.mark.parametrize(("job", "status"), [(None, "warn"), ("17", "fail")])
def test_no_visible_card(bench: Bench, job: str | None, status: str) -> None:
    variables = {"CUDA_VISIBLE_DEVICES": "", **({"SLURM_JOB_ID": job} if job else {})}
    line = asked(bench, "cards", variables=variables)
    assert line.startswith(f"{status}  cards         cuInit failed: CUDA_ERROR_NO_DEVICE (100)")
    assert ("ask for a GPU" in line) == bool(job)


@pytest.mark.parametrize(
    ("capability", "architectures", "line"),
    [
        ("8.6", ["sm_80"], None),
        (
            "8.6",
            ["sm_80a", "sm_90"],
            "fail  architectures {id}: sm_80a, sm_90 do not run on it: " + "add sm_86 to architectures",
        ),
        ("7.0", ["sm_75"], "fail  architectures {id}: sm_75 do not run on it: add sm_70 to architectures"),
        (
            "12.0",
            ["sm_75", "sm_90"],
            "warn  architectures {id}: no machine code for it, the driver compiles PTX: "
            "add sm_120 to architectures, if nvcc knows it",
        ),
    ],
)
def test_what_the_build_will_have_for_a_card(
    bench: Bench, capability: str, architectures: list[str], line: str | None
) -> None:
    bench.configure(architectures=architectures)
    card = Card(name=f"{NAME} X", compute_capability=capability, uuid="GPU-abcdef01-0000-0000-0000-000000000000")
    assert asked(bench, "cards", [card]).splitlines()[1:] == ([line.format(id="abcdef01")] if line else [])


def test_nvml_and_who_else_is_on_the_card(bench: Bench) -> None:
    processes = [Process(pid=99), Process(pid=100)]
    nvml, others, clocks = asked(bench, "nvml", processes=processes, throttle=Throttle(after=0, mask=0x40)).splitlines()
    assert nvml.startswith("ok    NVML ") and "driver 580.00.00" in nvml
    assert others.startswith("warn  processes ") and "other processes on the card (99, 100): end them" in others
    assert clocks.startswith("warn  clocks ") and "held back now (hw_thermal_slowdown)" in clocks
    silent = asked(bench, "nvml", faults=[Fault("nvmlDeviceGetComputeRunningProcesses", 3)])
    assert silent.startswith("warn  NVML ") and "not told: mig_enabled, other_processes" in silent
    assert len(silent.splitlines()) == 1
    absent = asked(bench, "nvml", faults=[Fault("nvmlInitWithFlags", 9)])
    assert absent.startswith("warn  NVML ") and "clocks, throttling and other processes stay unknown" in absent


def test_the_kernels_are_loaded_to_find_out(bench: Bench, binaries: Path) -> None:
    assert asked(bench, "kernels").startswith("ok    kernels       not compiled yet (build/cuda)")
    (bench.folder / "build").mkdir()
    (bench.folder / "build/cuda").symlink_to(binaries)
    assert asked(bench, "kernels").endswith("the kernels in build/cuda load\n")
    line = asked(bench, "kernels", faults=[Fault("cuLibraryLoadData", 222)])
    assert line.startswith("fail  kernels ") and "(222); " in line and "install a newer driver" in line


# ---------------------------------------------------------------- the machine


def program(path: Path, body: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the only programs on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)

    def make(**bodies: str) -> None:
        for name, body in bodies.items():
            program(tmp_path / "bin" / name.replace("_", "-"), body)

    return make


def test_without_slurm(tools: Callable[..., None]) -> None:
    assert [status for status, _ in told(cluster.slurm)] == ["ok"]
    assert told(cluster.accounting) == []


def test_slurm_that_answers(tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    tools(sinfo="echo 'cpu (null) up'; echo 'gpu* gpu:h100:4 up'", sbatch="", sacct="", squeue="")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_JOB_GPUS", "2")
    assert told(cluster.slurm)[0][1].startswith("SLURM job     SLURM_JOB_ID=17, ")
    assert told(cluster.slurm)[1:] == [("ok", "SLURM         partitions with GPUs: gpu: gpu:h100:4")]
    assert told(cluster.accounting) == [("ok", "accounting    sacct answers")]


def test_slurm_without_gpus(tools: Callable[..., None]) -> None:
    tools(sinfo="echo 'cpu (null) up'", sbatch="", squeue="exit 1")
    (status, line), squeue = told(cluster.slurm)
    assert (status, "no partition names a GPU" in line) == ("warn", True)
    assert squeue == (
        "fail",
        "SLURM         squeue ended with exit status 1: profiles/slurm asks it whether jobs have ended",
    )
    assert told(cluster.accounting) == [("warn", "accounting    no sacct: " + SQUEUE)]


SQUEUE = "profiles/slurm asks squeue; a profile of your own needs slurm-status-command: squeue"


def test_accounting_that_is_off_or_hangs(tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    off = "Slurm accounting storage is disabled"
    tools(sinfo="exit 3", sbatch="", sacct=f"echo '{off}' >&2; exit 1")
    assert told(cluster.accounting) == [("warn", f"accounting    sacct ended with exit status 1 ({off}): {SQUEUE}")]
    assert told(cluster.slurm)[0][1].startswith("SLURM         sinfo ended with exit status 3: ask the administrators")
    monkeypatch.setattr(cluster, "LIMIT_S", 0.5)
    tools(sacct="exec /bin/sleep 60")
    assert told(cluster.accounting) == [("warn", f"accounting    sacct did not answer within 0.5 s: {SQUEUE}")]


def test_a_program_that_hangs_leaves_nothing_behind(tmp_path: Path) -> None:
    program(tmp_path / "hangs", "/bin/sleep 600 & echo $! > '%s'; wait" % (tmp_path / "pid"))
    answer = ask([str(tmp_path / "hangs")], 1)
    assert answer.failed == "hangs did not answer within 1 s"
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
        state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("what it started still runs")


@pytest.fixture
def no_nvcc(monkeypatch: pytest.MonkeyPatch, tools: Callable[..., None], tmp_path: Path) -> Callable[..., None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(toolkit, "_nvcc_of_pathfinder", lambda: None)
    monkeypatch.setattr(toolkit, "INSTALLATIONS", tmp_path)
    return tools


def test_no_nvcc_is_fetched_later_or_needed_now(no_nvcc: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("requirements-nvcc.lock").write_text("nvidia-cuda-nvcc==13.0.88 \\\n")
    monkeypatch.setattr(checks, "driver_cuda_version", lambda: (13, 0))
    assert told(checks.compilers) == [
        ("warn", "nvcc          none: nvcc 13.0.88 is fetched as wheels when it is needed (network)"),
        ("fail", "C++ compiler  none on PATH: install g++"),
    ]
    monkeypatch.setattr(checks, "driver_cuda_version", lambda: (12, 4))
    [(status, line)] = told(checks.compilers)
    assert (status, line.startswith("nvcc          none of CUDA 12: load a module or install a toolkit")) == (
        "fail",
        True,
    )
    for product in ("graphs", "graphs.fatbin", "liblaunchloops.so"):
        Path("build/cuda").mkdir(parents=True, exist_ok=True)
        Path("build/cuda", product).touch()
    assert told(checks.compilers) == [("ok", "nvcc          none, and none needed: the kernels are compiled")]


def test_an_nvcc_that_lacks_an_architecture_or_a_compiler(
    no_nvcc: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (
        'case "$*" in *--version*) echo "Cuda compilation tools, release 13.0, V13.0.88";; '
        "*--list-gpu-arch*) echo compute_75; echo compute_90;; *) echo 'host_is gcc \"12.2\"';; esac"
    )
    no_nvcc(nvcc=answers)
    config = Config(architectures=("sm_70", "sm_90a"))
    lines = told(checks.compilers, config)
    assert lines[0][1].startswith("nvcc          13.0.88 (PATH: ")
    assert lines[1][0] == "fail" and "does not know sm_70; it knows sm_75, sm_90; CUDA 12.9 is the last" in lines[1][1]
    assert lines[2] == ("ok", "C++ compiler  gcc 12.2, which nvcc accepts")
    no_nvcc(nvcc=answers.replace("*) echo 'host", "*) echo 'Cannot find compiler' >&2; exit 1; echo 'host"))
    assert told(checks.compilers, config)[-1][1].endswith("install g++, or set NVCC_PREPEND_FLAGS='-ccbin COMPILER'")


def test_compute_sanitizer(tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_cuda_homes", list)
    assert told(checks.sanitizer)[0][0] == "warn"
    tools(compute_sanitizer="echo 'NVIDIA (R) Compute Sanitizer'; echo 'Version 2025.3.1.0 (build 1)'")
    [(status, line)] = told(checks.sanitizer)
    assert (status, line.startswith("sanitizer     compute-sanitizer 2025.3.1.0 (")) == ("ok", True)


def test_one_cpu_and_a_busy_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAUNCHBENCH_LOCK_DIR", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    monkeypatch.setattr(os, "getloadavg", lambda: (7.5, 0.0, 0.0))
    one, load, locks = told(checks.cpu)
    assert one[0] == "warn" and "may use logical CPUs 3 (1 of " in one[1] and "--cpus-per-task=2" in one[1]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4})
    monkeypatch.setattr(host, "_cpu_quota", lambda _: 1.5)
    status, line = told(checks.cpu)[0]
    assert status == "warn" and "1.5 CPUs' worth of time: where a control group's quota is used up" in line
    assert load[0] == "warn" and "7.5 runnable processes" in load[1]
    assert locks == ("ok", f"locks         {tmp_path} can hold the locks of cards and cores")
    monkeypatch.setenv("LAUNCHBENCH_LOCK_DIR", str(tmp_path / "missing"))
    status, line = told(checks.cpu)[-1]
    assert status == "fail" and "No such file or directory: LAUNCHBENCH_LOCK_DIR names another" in line


def test_a_measurement_on_the_same_cores_is_told(bench: Bench) -> None:
    with core_lock(range(256), timeout_s=0, folder=bench.gpu.locks):
        assert "warn  locks         a measurement runs on these cores now" in asked(bench, "cpu")


def test_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    unwritable = Config(results_dir="/proc/launchbench/results")
    assert told(checks.folders, unwritable)[0] == (
        "fail",
        "results_dir   /proc/launchbench/results cannot be written (No such file or directory): "
        "set results_dir in config.yaml",
    )
    assert [status for status, _ in told(checks.folders)] == ["ok", "ok", "ok"]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(checks, "ROOM_BYTES", 2**80)
    assert [status for status, _ in told(checks.folders)] == ["warn", "warn", "warn"]


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [status for status, _ in told(checks.packages)] == ["ok"]
    known = checks.version

    def version(name: str) -> str:
        if name == "nvidia-ml-py":
            raise checks.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(checks, "version", version)
    assert told(checks.packages)[0][1].startswith("packages      not installed: nvidia-ml-py: `make install`")
    monkeypatch.setattr(checks, "installed_series", lambda: 11)
    assert ("fail", "packages      cuda-bindings of series 11: series 12 or 13 is needed") in told(checks.packages)


STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[str]]]:
    """Every program that is started; SIGTERM raises SystemExit, as in the command."""
    programs: list[subprocess.Popen[str]] = []
    real = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        programs.append(real(*arguments, **options))
        return programs[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    yield programs
    signal.signal(signal.SIGTERM, before)
    for program in programs:
        program.kill()
        program.wait()


def test_a_signal_while_a_program_is_being_started_ends_it(
    started: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        program = start(*arguments, **options)
        signal.raise_signal(signal.SIGTERM)  # before the caller knows the program
        return program

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(SystemExit):
        ask([sys.executable, "-c", "import time; time.sleep(600)"], 500)
    assert started[0].poll() == -signal.SIGTERM


def test_a_signal_while_a_program_is_being_ended_ends_it(started: list[subprocess.Popen[str]]) -> None:
    def interrupt() -> None:
        while not ending.wait(0.1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    ending = threading.Event()
    real = os.killpg

    def killpg(group: int, number: int) -> None:
        real(group, number)
        ending.set()

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(os, "killpg", killpg)
        threading.Thread(target=interrupt).start()
        ask([sys.executable, "-c", STUBBORN], 1)
    assert started[0].poll() == -signal.SIGKILL


def test_signals_are_what_they_were_after_a_program(started: list[subprocess.Popen[str]]) -> None:
    def handler(*_: object) -> None:
        pass

    signal.signal(signal.SIGTERM, handler)
    assert ask(["true"], 10).failed == ""
    assert signal.getsignal(signal.SIGTERM) is handler
    assert started[0].poll() == 0


def test_a_doctor_ignores_what_it_was_told_to(started: list[subprocess.Popen[str]]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    main(["doctor", "--check", "accounting"])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


@pytest.mark.untraced
def test_a_check_has_the_time_to_end_what_it_asks(
    tools: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "CHECKS", {"slurm": cluster.slurm})
    (tmp_path / "stubborn.py").write_text(STUBBORN, encoding="utf-8")
    tools(sbatch="true", sinfo=f"echo $$ > {tmp_path}/pid; exec {sys.executable} {tmp_path}/stubborn.py")
    assert list(examine.examine(Config(), limit_s=8)) == ["fail  slurm         this check did not answer within 8 s"]
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.untraced
def test_a_doctor_that_is_ended_leaves_nothing_behind(virtual_gpu: VirtualGpu, tmp_path: Path) -> None:
    environment = virtual_gpu.environment(faults=[Fault("cuInit", hang=True)]) | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "launchbench", "doctor", "--limit-s", "500"]
    doctor = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

    def descendants() -> list[int]:
        mark = f"TMPDIR={tmp_path}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != doctor.pid:
                    found.append(int(folder.name))
        return found

    deadline = time.monotonic() + 60
    while not descendants() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(2)
    assert descendants()
    doctor.terminate()
    doctor.communicate(timeout=30)
    while descendants() and time.monotonic() < deadline + 30:
        time.sleep(0.1)
    assert descendants() == []
