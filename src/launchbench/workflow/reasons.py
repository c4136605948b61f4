"""Why measurements failed that could not say so themselves: killed, never started, or refused by SLURM.

Snakemake's log says which cells failed and as which job; SLURM says what became of the job.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from launchbench.config.messages import refusal
from launchbench.programs import run
from launchbench.results.failures import MAX_REASON, Attempt, Failure, now_utc, read_failure, write_failure
from launchbench.results.layout import LAUNCH, PREFIXES

Ask = Callable[[Sequence[str]], str]
"""Runs a command of SLURM; its standard output, empty where it failed or is not there."""

_EXTRAS = "|".join(PREFIXES.values())
_BLOCK = re.compile(
    rf"^(?:Error in rule (?:measure|{_EXTRAS}):|    message: Error in group .*)\n(?:(?!\[).*\n?)*", re.MULTILINE
)
_MESSAGE = re.compile(r"^    message: (.*?)(?=^    \w+:)", re.MULTILINE | re.DOTALL)
_PLACE = rf"/cells/([^/\n]+)/([^/\n]+)/([^/\n]+)/(?:n(\d+)\.t(\d+)|({_EXTRAS}))\.\d+\.json"
_RECEIPT = re.compile(rf"^ +output: .*{_PLACE}$", re.MULTILINE)
_STATUS = re.compile(
    rf"^Command '.* --receipt [^\n]*{_PLACE}.*' "
    r"(?:returned non-zero exit status (\d+)|died with <Signals\.\w+: (\d+)>)\.$",
    re.MULTILINE,
)
# The log of an extra job has a number for its name as well.
_JOB = re.compile(
    rf"^ +(?:external_jobid: |log: (?!\S*/logs/(?:{_EXTRAS})/\S+ \().*/)(\d+)(?:\.log\b.*)?$", re.MULTILINE
)


@dataclass(frozen=True)
class Lost:
    """A job that Snakemake gave up, and what its log says of it."""

    attempt: Attempt
    slurm_job: str | None
    message: str
    status: int | None
    """Of the shell: 128 and the number of the signal that ended the job, or the shell with it."""
    together: tuple[Attempt, ...]
    """Everything that was to be done in the same job of a scheduler."""


def read_log(text: str) -> list[Lost]:
    """The measurements that failed, by Snakemake's log; of one that is told several times, the telling with a job."""
    found: dict[Attempt, Lost] = {}
    statuses = {_attempt(*told[:6]): int(told[6] or 128 + int(told[7])) for told in _STATUS.findall(text)}
    for block in (match[0] for match in _BLOCK.finditer(text)):
        message = _MESSAGE.search(block)
        job = _JOB.search(block)
        together = tuple(dict.fromkeys(_attempt(*receipt) for receipt in _RECEIPT.findall(block)))
        for attempt in together:
            said = message[1].strip() if message else ""
            said, status = "" if said == "None" else said, statuses.get(attempt)
            lost = Lost(attempt, job[1] if job else None, said, status, together)
            known = found.get(attempt)
            if known is None or not (known.slurm_job or known.message):
                found[attempt] = lost
    return [found[attempt] for attempt in sorted(found, key=_order)]


def _attempt(site: str, label: str, card: str, count: str, trial: str, extra: str) -> Attempt:
    if extra:
        return Attempt(site, label, card, kind=extra)
    return Attempt(site, label, card, int(count), int(trial))


def _order(attempt: Attempt) -> tuple[str, str, str, str, int, int]:
    kind = "" if attempt.kind == LAUNCH else attempt.kind
    return attempt.site, attempt.label, attempt.card, kind, attempt.launch_count or 0, attempt.trial


def keep_reasons(log: Path, build_dir: Path, ask: Ask | None = None) -> list[Failure]:
    """Keep why each measurement of a failed run failed, unless its own job has said so; returns what was kept.

    Args:
        log: Snakemake's, of that run.
        build_dir: under which failures are kept.
        ask: stands in for SLURM's commands.

    Raises:
        LaunchbenchError: the log cannot be read, or the folder cannot be written.
    """
    try:
        if not log.is_file() and log.exists():
            raise refusal(str(log), "not a regular file", "a log of Snakemake")
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise refusal(str(log), error.strerror or str(error), "a log of Snakemake") from error
    kept = []
    for lost in read_log(text):
        own = read_failure(lost.attempt.path(build_dir))
        if own and (own.slurm_job == lost.slurm_job if lost.slurm_job else not lost.message):
            continue
        reason = " ".join(_reason(lost, build_dir, ask or _ask).split())[:MAX_REASON]
        failure = Failure(**asdict(lost.attempt), reason=reason, failed_utc=now_utc(), slurm_job=lost.slurm_job)
        write_failure(build_dir, failure)
        kept.append(failure)
    return kept


def _reason(lost: Lost, build_dir: Path, ask: Ask) -> str:
    if lost.slurm_job is None:
        refused = re.findall(r"(?:sbatch: error: )(.*?)(?=\n|'\.|$)", lost.message)
        if refused:
            last = refused[-1].removeprefix("Batch job submission failed: ")
            return f"SLURM refused the job: {last}"
        kind = lost.attempt.kind
        logs = build_dir / "logs" / ("measure" if kind == LAUNCH else kind)
        return lost.message or f"{_ended(lost.status)}; its log is under {logs}"
    for attempt in lost.together:
        other = read_failure(attempt.path(build_dir))
        if attempt != lost.attempt and other and other.slurm_job == lost.slurm_job:
            what = f"N = {attempt.launch_count}, trial {attempt.trial}" if attempt.kind == LAUNCH else attempt.kind
            return f"not begun: {what} failed before, in the same SLURM job {lost.slurm_job}"
    return _of_job(lost.slurm_job, lost.message, ask)


def _ended(status: int | None) -> str:
    if status == 128 + signal.SIGKILL:
        return "the job was killed (SIGKILL), by somebody or by the system for want of memory"
    with contextlib.suppress(ValueError):
        if status and status > 128:
            return f"the job was ended by {signal.Signals(status - 128).name}"
    return "the job ended without saying why"


def _of_job(job: str, message: str, ask: Ask) -> str:
    told = dict(re.findall(r"(\w+)=(\S+)", ask(["scontrol", "show", "job", "--oneliner", job])))
    if not told:  # of jobs that ended long ago only accounting knows
        fields = ask(["sacct", "-j", job, "-X", "-n", "-P", "-o", "State,Timelimit,NodeList,Partition"]).split("|")
        told = dict(zip(("JobState", "TimeLimit", "NodeList", "Partition"), map(str.strip, fields), strict=False))
    status = re.search(r"status is: '([A-Z_]+)", message)
    state = (told.get("JobState", "").split() or [status[1] if status else "unknown"])[0]
    node = told.get("NodeList", "")
    ran = bool(re.match(r"[A-Za-z0-9]", node)) and node != "None"
    where = f" on {node}" if ran else ""
    if state == "TIMEOUT":
        return f"SLURM job {job}{where} reached its time limit of {told.get('TimeLimit', 'unknown length')}"
    if state == "CANCELLED":
        return f"SLURM job {job} was cancelled{' while it ran' + where if ran else ' before it ran'}"
    if state == "DEADLINE":
        return f"SLURM job {job} did not run before its deadline{_unavailable(told.get('Partition', ''), ask)}"
    if state == "OUT_OF_MEMORY":
        return f"SLURM job {job}{where} needed more memory than it was given"
    if state == "NODE_FAIL":
        return f"SLURM job {job} ended because its node failed{where}"
    return f"SLURM job {job}{where} ended as {state} without saying why; its log is under .snakemake/slurm_logs"


def _unavailable(partition: str, ask: Ask) -> str:
    command = ["sinfo", "--list-reasons", "--noheader", "--format=%N (%E)"]
    nodes = list(_lines(ask([*command, f"--partition={partition}"] if partition else command)))
    return f"; nodes out of service: {', '.join(nodes)}" if nodes else ""


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def _ask(command: Sequence[str]) -> str:
    try:
        done = run(command, 60, stderr=subprocess.DEVNULL, text=True, errors="replace")
    except OSError:
        return ""
    return str(done.out) if done.exit_status == 0 else ""
