"""Why jobs failed that could not say so: by Snakemake's log and by what SLURM answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from launchbench.errors import LaunchbenchError
from launchbench.results.failures import (
    ON_SIMULATED,
    Attempt,
    Failure,
    forget_failure,
    keep_failure,
    read_failures,
    write_failure,
)
from launchbench.results.layout import PREFIXES
from launchbench.workflow.reasons import keep_reasons, read_log

# As Snakemake 9.27 with snakemake-executor-plugin-slurm 2.8 writes it, with shorter commands.
HEAD = """[Mon Nov 30 05:24:21 2026]
Job 5: measure t4 (card any) at N = 8, trial 1
Job 5 has been submitted with SLURM jobid 7 (log: /w/.snakemake/slurm_logs/rule_measure/lab_t4_any_8_0/7.log).
"""


def single(label: str, job: str, state: str, count: int = 8) -> str:
    return f"""[Mon Nov 30 05:24:57 2026]
Error in rule measure:
    message: SLURM-job '{job}' failed, SLURM status is: '{state}'. Detailed failure reason unavailable (status command \
is not 'sacct').For further error details see the cluster/cloud log and the log files of the involved rule(s).
    jobid: 1
    input: build/cuda/graphs.fatbin, build/cuda/build.json
    output: build/cells/lab/{label}/any/n{count}.t1.0.json
    log: build/logs/measure/lab/{label}/any/n{count}.t1.0.log, /w/.snakemake/slurm_logs/rule_measure/x/{job}.log \
(check log file(s) for error details)
    shell:
        python -m launchbench measure --receipt build/cells/lab/{label}/any/n{count}.t1.0.json
        (command exited with non-zero exit code)
    external_jobid: {job}
Logfile build/logs/measure/lab/{label}/any/n{count}.t1.0.log: empty file
"""


REFUSED = """[Mon Nov 30 05:24:21 2026]
Error in rule measure:
    message: SLURM sbatch failed. The error message was 'sbatch: error: Memory specification can not be satisfied
sbatch: error: Batch job submission failed: Requested node configuration is not available'.
    sbatch call:
        sbatch --parsable --output /w/.snakemake/slurm_logs/rule_measure/lab_h200_any_8_0/%j.log --gpus=h200:1
For further error details see the cluster/cloud log and the log files of the involved rule(s).
    jobid: 4
    output: build/cells/lab/h200/any/n8.t1.0.json
    log: build/logs/measure/lab/h200/any/n8.t1.0.log (check log file(s) for error details)
"""

GROUP = """[Mon Nov 30 05:28:00 2026]
    message: Error in group measure_h100
    log: /w/.snakemake/slurm_logs/group_measure_h100_measure/11.log (check log file(s) for error details)
    jobs:
        rule measure:
            jobid: 3
            output: build/cells/lab/h100/any/n64.t1.0.json
            log: build/logs/measure/lab/h100/any/n64.t1.0.log (check log file(s) for error details)
        rule measure:
            jobid: 4
            output: build/cells/lab/h100/any/n512.t1.0.json
            log: build/logs/measure/lab/h100/any/n512.t1.0.log (check log file(s) for error details)
Logfile /w/.snakemake/slurm_logs/group_measure_h100_measure/11.log:
================================================================================
Error in rule measure:
    message: None
    jobid: 0
    output: build/cells/lab/h100/any/n512.t1.0.json
    log: build/logs/measure/lab/h100/any/n512.t1.0.log (check log file(s) for error details)
Shutting down, this might take some time.
"""

LOCAL = """[Mon Nov 30 05:28:00 2026]
Error in rule measure:
    message: None
    jobid: 3
    output: build/cells/lab/t4/0892b876/n64.t1.0.json
    log: build/logs/measure/lab/t4/0892b876/n64.t1.0.log (check log file(s) for error details)
[Mon Nov 30 05:28:01 2026]
Error in rule report:
    message: None
    output: reports/comparison.html
"""

ANSWERS = {
    "TIMEOUT": "JobId=10 JobState=TIMEOUT Reason=TimeLimit TimeLimit=00:15:00 Partition=gpu NodeList=node7",
    "RUN": "JobId=10 JobState=CANCELLED Reason=None TimeLimit=00:15:00 Partition=gpu NodeList=node7",
    "CANCELLED": "JobId=10 JobState=CANCELLED Reason=None TimeLimit=00:15:00 Partition=gpu NodeList=(null)",
    "DEADLINE": "JobId=10 JobState=DEADLINE Reason=DeadLine TimeLimit=00:15:00 Partition=gpu NodeList=",
    "OOM": "JobId=10 JobState=OUT_OF_MEMORY Reason=OutOfMemory Partition=gpu NodeList=node7",
    "NODE": "JobId=10 JobState=NODE_FAIL Reason=NodeDown Partition=gpu NodeList=node7",
    "FAILED": "JobId=10 JobState=FAILED Reason=NonZeroExitCode Partition=gpu NodeList=node7",
}


def kept(tmp_path: Path, text: str, answers: dict[str, str] | None = None) -> dict[tuple[str, int], str]:
    """(label, N) -> reason, where each command of SLURM answers this."""
    log = tmp_path / "snakemake.log"
    log.write_text(text)
    keep_reasons(log, tmp_path / "build", lambda command: (answers or {}).get(command[0], ""))
    return {(one.label, one.launch_count): one.reason for one in read_failures(tmp_path / "build")}


def own(tmp_path: Path, reason: str, job: str | None, label: str = "h100", count: int = 512, card: str = "any") -> None:
    failure = Failure(
        site="lab",
        label=label,
        card=card,
        launch_count=count,
        reason=reason,
        failed_utc="2026-11-30T05:00:00Z",
        slurm_job=job,
    )
    write_failure(tmp_path / "build", failure)


def test_the_log_names_cells_jobs_and_what_was_said() -> None:
    told = read_log(HEAD + single("a100", "10", "TIMEOUT") + REFUSED + GROUP + LOCAL)
    assert [(one.attempt.label, one.attempt.card, one.attempt.launch_count, one.slurm_job) for one in told] == [
        ("a100", "any", 8, "10"),
        ("h100", "any", 64, "11"),
        ("h100", "any", 512, "11"),
        ("h200", "any", 8, None),
        ("t4", "0892b876", 64, None),
    ]
    assert [one.launch_count for one in told[1].together] == [64, 512] and told[1].together == told[2].together
    assert "TIMEOUT" in told[0].message and "sbatch failed" in told[3].message and told[4].message == ""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("TIMEOUT", "SLURM job 10 on node7 reached its time limit of 00:15:00"),
        ("RUN", "SLURM job 10 was cancelled while it ran on node7"),
        ("CANCELLED", "SLURM job 10 was cancelled before it ran"),
        ("DEADLINE", "SLURM job 10 did not run before its deadline; nodes out of service: node7 (fan), node8 (disk)"),
        ("OOM", "SLURM job 10 on node7 needed more memory than it was given"),
        ("NODE", "SLURM job 10 ended because its node failed on node7"),
        (
            "FAILED",
            "SLURM job 10 on node7 ended as FAILED without saying why; its log is under .snakemake/slurm_logs",
        ),
    ],
)
def test_what_slurm_says_of_a_job(tmp_path: Path, answer: str, reason: str) -> None:
    answers = {"scontrol": ANSWERS[answer], "sinfo": "node7 (fan)\nnode8 (disk)\n"}
    assert kept(tmp_path, single("a100", "10", "X"), answers) == {("a100", 8): reason}


def test_of_a_job_that_slurm_has_forgotten_accounting_is_asked_then_the_log(tmp_path: Path) -> None:
    text = single("a100", "10", "TIMEOUT")
    said = kept(tmp_path, text, {"sacct": "CANCELLED by 1001|00:10:00|node3|gpu\n"})
    assert said == {("a100", 8): "SLURM job 10 was cancelled while it ran on node3"}
    (tmp_path / "other").mkdir()
    said = kept(tmp_path / "other", text)
    assert said == {("a100", 8): "SLURM job 10 reached its time limit of unknown length"}


def test_a_job_that_was_refused(tmp_path: Path) -> None:
    reason = "SLURM refused the job: Requested node configuration is not available"
    own(tmp_path, "of an earlier attempt", None, label="h200", count=8)
    assert kept(tmp_path, REFUSED) == {("h200", 8): reason}


def test_what_a_job_said_itself_stands(tmp_path: Path) -> None:
    own(tmp_path, "asked to measure h100; found none", "11")
    assert kept(tmp_path, GROUP, {"scontrol": ANSWERS["FAILED"]}) == {
        ("h100", 512): "asked to measure h100; found none",
        ("h100", 64): "not begun: N = 512, trial 1 failed before, in the same SLURM job 11",
    }


def test_trials_of_one_n_fail_apart(tmp_path: Path) -> None:
    text = GROUP.replace("n64.t1.", "n512.t2.")
    assert [(one.attempt.launch_count, one.attempt.trial) for one in read_log(text)] == [(512, 1), (512, 2)]
    own(tmp_path, "asked to measure h100; found none", "11")
    kept(tmp_path, text, {"scontrol": ANSWERS["FAILED"]})
    assert [(one.trial, one.reason) for one in read_failures(tmp_path / "build")] == [
        (1, "asked to measure h100; found none"),
        (2, "not begun: N = 512, trial 1 failed before, in the same SLURM job 11"),
    ]


def test_what_an_earlier_job_said_does_not(tmp_path: Path) -> None:
    own(tmp_path, "asked to measure a100; found none", "4", label="a100", count=8)
    said = kept(tmp_path, single("a100", "10", "TIMEOUT"), {"scontrol": ANSWERS["TIMEOUT"]})
    assert said == {("a100", 8): "SLURM job 10 on node7 reached its time limit of 00:15:00"}


def test_without_a_scheduler(tmp_path: Path) -> None:
    said = kept(tmp_path, LOCAL)
    logs = tmp_path / "build/logs/measure"
    assert said == {("t4", 64): f"the job ended without saying why; its log is under {logs}"}
    # Inside somebody's allocation, what the job said names a SLURM job that Snakemake knows nothing of.
    own(tmp_path, "cuMemAlloc failed", "77", label="t4", count=64, card="0892b876")
    assert kept(tmp_path, LOCAL) == {("t4", 64): "cuMemAlloc failed"}


EXTRA = """[Mon Nov 30 05:28:00 2026]
Error in rule lengths:
    message: None
    jobid: 3
    output: build/cells/lab/t4/0892b876/lengths.0.json
    log: build/logs/lengths/lab/t4/0892b876/0.log (check log file(s) for error details)
[Mon Nov 30 05:28:01 2026]
Error in rule decode:
    message: SLURM-job '12' failed, SLURM status is: 'FAILED'.
    output: build/cells/lab/a100/any/decode.1.json
    log: build/logs/decode/lab/a100/any/1.log, /w/.snakemake/slurm_logs/rule_decode/x/12.log (check log file(s) for \
error details)
    external_jobid: 12
"""


def test_extra_jobs_too(tmp_path: Path) -> None:
    log, build = tmp_path / "log", tmp_path / "build"
    log.write_text(EXTRA + GROUP.replace("n64.t1.0.json", "pointers.0.json"))
    own(tmp_path, "asked to measure h100; found none", "11")
    keep_reasons(log, build, lambda command: ANSWERS["FAILED"] if command[0] == "scontrol" else "")
    told = {kind: [(one.label, one.reason) for one in read_failures(build, kind)] for kind in PREFIXES.values()}
    assert told == {
        # Its log is named by a number, which is no job of SLURM.
        "lengths": [("t4", f"the job ended without saying why; its log is under {build / 'logs' / 'lengths'}")],
        "decode": [
            ("a100", "SLURM job 12 on node7 ended as FAILED without saying why; its log is under .snakemake/slurm_logs")
        ],
        "pointers": [("h100", "not begun: N = 512, trial 1 failed before, in the same SLURM job 11")],
    }


KILLED = """RuleException:
CalledProcessError in file "/w/a clone/workflow/rules/measure.smk", line 31:
Command 'set -euo pipefail;  : > 'a b/logs/x.log'; python -m launchbench measure --receipt 'a b/cells/lab/t4/\
0892b876/n64.t1.0.json' 2>&1 | tee -a 'a b/logs/x.log'' {ended}.
"""


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (137, "the job was killed (SIGKILL), by somebody or by the system for want of memory"),
        (139, "the job was ended by SIGSEGV"),
        (255, "the job ended without saying why"),
        (1, "the job ended without saying why"),
        # With its shell, as when a whole group of processes is killed.
        (
            "died with <Signals.SIGKILL: 9>",
            "the job was killed (SIGKILL), by somebody or by the system for want of memory",
        ),
        ("died with <Signals.SIGTERM: 15>", "the job was ended by SIGTERM"),
    ],
)
def test_what_ended_a_job_of_this_machine(tmp_path: Path, ended: int | str, reason: str) -> None:
    told = f"returned non-zero exit status {ended}" if isinstance(ended, int) else ended
    said = kept(tmp_path, KILLED.format(ended=told) + LOCAL)
    assert said == {("t4", 64): f"{reason}; its log is under {tmp_path / 'build/logs/measure'}"}


def test_slurm_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    log = tmp_path / "log"
    log.write_text(single("a100", "10", "OUT_OF_MEMORY"))
    (failure,) = keep_reasons(log, tmp_path / "build")
    assert failure.reason == "SLURM job 10 needed more memory than it was given"


def test_a_log_without_failures(tmp_path: Path) -> None:
    assert kept(tmp_path, HEAD) == {}
    assert not (tmp_path / "build").exists()


def test_a_log_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, what in (
        ("none", "No such file or directory"),
        (".", "not a regular file"),
        ("pipe", "not a regular file"),
    ):
        log = tmp_path / name
        with pytest.raises(LaunchbenchError) as refused:
            keep_reasons(log, tmp_path / "build")
        assert str(refused.value) == f"{log}: {what}; expected a log of Snakemake"


# --- the files


def test_a_failure_is_kept_whatever_its_text_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    keep_failure(tmp_path, Attempt("lab", "t4", "any", 8), LaunchbenchError("one\nline " + "x" * 1000))
    keep_failure(tmp_path, Attempt("lab", "t4", "any", 64), KeyError("y"))
    keep_failure(tmp_path, Attempt("lab", "t4", "any", 512), LaunchbenchError(""))
    keep_failure(tmp_path, Attempt("lab", "t4", "any", 4096), OSError("no file a\udcffb\x1b"))  # a name of bytes
    told = read_failures(tmp_path)
    assert [one.reason[:9] for one in told[:3]] == ["one line ", "a bug: Ke", "Launchben"]
    assert told[3].reason == r"a bug: OSError: no file a\udcffb\x1b"
    assert len(told[0].reason) == 500
    assert {one.slurm_job for one in told} == {"12"}
    forget_failure(tmp_path, Attempt("lab", "t4", "any", 8))
    forget_failure(tmp_path, Attempt("lab", "t4", "any", 8))
    assert [one.launch_count for one in read_failures(tmp_path)] == [64, 512, 4096]


def test_a_failure_that_cannot_be_kept_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "failures").write_text("a file")
    keep_failure(tmp_path, Attempt("lab", "t4", "any", 8), LaunchbenchError("x"))
    keep_failure(tmp_path, Attempt("lab", "../../t4", "any", 8), LaunchbenchError("x"))
    assert read_failures(tmp_path) == []


@pytest.mark.parametrize("kind", ["launch", "lengths"])
def test_only_launch_jobs_have_an_n(kind: str) -> None:
    with pytest.raises(ValidationError, match="launch jobs alone have an N"):
        Failure(
            site="lab",
            label="t4",
            card="any",
            kind=kind,
            launch_count=8 if kind == "lengths" else None,
            reason="x",
            failed_utc="2026-11-30T05:00:00Z",
        )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "launchbench-failure/2"}'])
def test_a_file_that_is_no_failure_is_passed_over(tmp_path: Path, text: str) -> None:
    path = Attempt("lab", "t4", "any", 8).path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read_failures(tmp_path) == []


@pytest.mark.parametrize(
    "place",
    [
        ("zoo", "t4", "any", 8, 1),
        ("lab", "h200", "any", 8, 1),
        ("lab", "t4", "01234567", 8, 1),
        ("lab", "t4", "any", 64, 1),
        ("lab", "t4", "any", 8, 2),
    ],
)
def test_a_failure_in_the_place_of_another_cell_is_passed_over(
    tmp_path: Path, place: tuple[str, str, str, int, int]
) -> None:
    keep_failure(tmp_path, Attempt("lab", "t4", "any", 8), LaunchbenchError("x"))
    other = Attempt(*place).path(tmp_path)
    other.parent.mkdir(parents=True, exist_ok=True)
    Attempt("lab", "t4", "any", 8).path(tmp_path).rename(other)
    assert read_failures(tmp_path) == []


def test_an_error_on_a_simulated_gpu_is_kept_as_one(tmp_path: Path) -> None:
    error = LaunchbenchError("x")
    error.add_note(ON_SIMULATED)
    keep_failure(tmp_path, Attempt("lab", "t4", "any", 8), error)
    keep_failure(tmp_path, Attempt("lab", "t4", "any", 64), LaunchbenchError("x"))
    assert [one.virtual for one in read_failures(tmp_path)] == [True, False]


def test_a_pipe_in_the_place_of_a_failure_is_not_read(tmp_path: Path) -> None:
    path = Attempt("lab", "t4", "any", 8).path(tmp_path)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    code = "import sys, pathlib, launchbench.results.failures as f; print(f.read_failures(pathlib.Path(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"
