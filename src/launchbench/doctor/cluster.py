"""SLURM, as this process sees it, and whether its accounting answers."""

from __future__ import annotations

import os
from collections.abc import Iterator

from launchbench.config.model import Config
from launchbench.doctor.finding import Finding, ask, found, in_slurm_job

LIMIT_S = 10.0
"""For one question to SLURM; `sacct` waits for ever where accounting is set up and its database is not there."""


def slurm(_config: Config) -> Iterator[Finding]:
    """The job this is in, the partitions with GPUs, and whether `squeue` tells the states of jobs."""
    if in_slurm_job():
        variables = ("SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_JOB_PARTITION", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES")
        told = ", ".join(f"{name}={os.environ[name]}" for name in variables if name in os.environ)
        yield Finding("ok", "SLURM job", told)
    if not found("sinfo") or not found("sbatch"):
        yield Finding(
            "ok", "SLURM", "no sbatch and sinfo here: cards of this machine can be measured, no jobs submitted"
        )
        return
    answer = ask(["sinfo", "--noheader", "--format=%P %G %a"], LIMIT_S)
    if answer.failed:
        do = "ask the administrators whether slurmctld runs; the cards of this machine can be measured without it"
        yield Finding("fail" if in_slurm_job() else "warn", "SLURM", answer.failed, do)
        return
    partitions = [line.split() for line in answer.out.splitlines() if line.split()]
    with_gpus = [f"{name.rstrip('*')}: {gres}" for name, gres, *_ in partitions if "gpu" in gres]
    if with_gpus:
        yield Finding("ok", "SLURM", f"partitions with GPUs: {'; '.join(with_gpus)}")
    else:
        yield Finding("warn", "SLURM", "no partition names a GPU as a generic resource (gres)", "ask how GPUs are got")
    states = ask(["squeue", "--noheader", "--me"], LIMIT_S)
    if states.failed:
        yield Finding("fail", "SLURM", states.failed, "profiles/slurm asks it whether jobs have ended")


def accounting(_config: Config) -> Iterator[Finding]:
    """Whether `sacct` answers: Snakemake asks it for finished jobs, and waits for ever where it does not."""
    if not found("sbatch"):
        return
    without = "profiles/slurm asks squeue; a profile of your own needs slurm-status-command: squeue"
    if not found("sacct"):
        yield Finding("warn", "accounting", "no sacct", without)
        return
    answer = ask(["sacct", "--noheader", "--allocations", "--starttime=now-1hours"], LIMIT_S)
    if answer.failed:
        yield Finding("warn", "accounting", answer.failed, without)
    else:
        yield Finding("ok", "accounting", "sacct answers")
