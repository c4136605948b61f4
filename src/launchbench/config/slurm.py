"""How a SLURM cluster is asked for a GPU type: the model, and Snakemake's resources that say it. Light to import."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import core_schema

from launchbench.config.messages import shown
from launchbench.config.rules import Problem, Rule, problems_error, text, whole

_KEYS_OF_OPTIONS = {
    "-p --partition": "partition",
    "-G --gpus --gpus-per-node --gpus-per-task --gpus-per-socket": "gpu_model",
    "--gres": "gres",
    "-C --constraint": "constraint",
    "-A --account": "account",
    "-q --qos": "qos",
    "-t --time": "time_minutes",
    "--mem --mem-per-cpu --mem-per-gpu": "memory_mb",
    "--deadline": "deadline_minutes",
}
_OPTIONS_OF_SNAKEMAKE = (
    *("-J", "--job-name", "-o", "--output", "-e", "--error", "--parsable", "--export", "--comment", "-D", "--chdir"),
    *("-n", "--ntasks", "--ntasks-per-gpu", "-N", "--nodes", "-c", "--cpus-per-task", "--cpus-per-gpu"),
    *("-a", "--array", "--wrap", "-M", "--clusters"),
)
_PLAIN_MODEL = re.compile("[A-Za-z0-9_.]+")
"""What the plugin takes as gpu_model; it refuses a hyphen, which SLURM allows."""


def _parse_extra(value: object) -> str:
    # The plugin hands it to a shell as it is.
    if not isinstance(value, str) or not re.fullmatch("[A-Za-z0-9_=,.:/@%+ -]{1,200}", value):
        raise ValueError
    keys = {option: key for options, key in _KEYS_OF_OPTIONS.items() for option in options.split()}
    for word in value.split():
        long = re.match("--[a-z-]+", word)
        option = long[0] if long else word[:2]
        if option in keys:
            raise ValueError(f" (for {option} there is the key {keys[option]})")
        if option in _OPTIONS_OF_SNAKEMAKE:
            raise ValueError(f" ({option} is set by Snakemake)")
    return value


_NAME = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_ANY_NAME = text(_NAME, "no value or a name of 1 to 64 letters, digits, dots, underscores and hyphens")
_NAMES = text(f"{_NAME}(,{_NAME})*", "no value, or a partition, or several with commas between them")
_GRES = text(f"gpu(:{_NAME})?(:1)?", "no value or one GPU: gpu, gpu:1, gpu:<type> or gpu:<type>:1")
_CONSTRAINT = text("[A-Za-z0-9_.&|!*:()\\[\\],-]{1,200}", 'no value or features, for example "nvlink&sxm"')
_EXTRA = Rule(
    "no value or more options of sbatch, without quotes or other signs that a shell reads",
    _parse_extra,
    core_schema.str_schema(min_length=1, max_length=200),
)


class SlurmRequest(BaseModel):
    """How one GPU of a type is asked for. Every key may be left out; one with no value is not asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: Annotated[str, _NAMES] | None = Field(None, description="sbatch --partition; null = the default one")
    gpu_model: Annotated[str, _ANY_NAME] | None = Field(
        None, description="the cluster's name of the GPU type, as sinfo -o %G shows it; null = any GPU"
    )
    gres: Annotated[str, _GRES] | None = Field(
        None, description="sbatch --gres, where a cluster wants that and not --gpus; instead of gpu_model"
    )
    constraint: Annotated[str, _CONSTRAINT] | None = Field(
        None, description="sbatch --constraint: features that the node must have"
    )
    account: Annotated[str, _ANY_NAME] | None = Field(None, description="sbatch --account; null = yours by default")
    qos: Annotated[str, _ANY_NAME] | None = Field(None, description="sbatch --qos")
    time_minutes: Annotated[int, whole(1, 10_080)] | None = Field(
        15, description="sbatch --time of one trial at one N; null = the partition's"
    )
    memory_mb: Annotated[int, whole(100, 1_000_000)] | None = Field(
        4000, description="sbatch --mem in MiB; null = the partition's"
    )
    deadline_minutes: Annotated[int, whole(1, 100_000)] | None = Field(
        1440, description="give up a job that cannot have ended this long after submission; null = wait for ever"
    )
    extra: Annotated[str, _EXTRA] | None = Field(None, description="more options of sbatch, such as --exclusive")

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems: list[Problem] = []
        if self.gpu_model and self.gres:
            problems.append((("gres",), f"got {shown(self.gres)} beside gpu_model", "one of the two"))
        if self.deadline_minutes and self.time_minutes and self.deadline_minutes <= self.time_minutes:
            clause = f"got {self.deadline_minutes}"
            problems.append((("deadline_minutes",), clause, f"more than time_minutes, which is {self.time_minutes}"))
        if problems:
            raise problems_error(problems)
        return self

    def resources(self) -> dict[str, str | int]:
        """What a rule asks snakemake-executor-plugin-slurm for, by the names that the plugin reads."""
        extra = [] if self.deadline_minutes is None else [f"--deadline=now+{self.deadline_minutes}minutes"]
        asked: dict[str, str | int | None] = {
            "slurm_partition": self.partition,
            "slurm_account": self.account,
            "constraint": self.constraint,
            "qos": self.qos,
            # Zero is not asked for. Without a value Snakemake would ask for memory by the size of the input.
            "runtime": self.time_minutes or 0,
            "mem_mb": self.memory_mb or 0,
        }
        model = self.gpu_model
        if self.gres:
            model = self.gres.removeprefix("gpu").removesuffix(":1").removeprefix(":") or None
        if model and not _PLAIN_MODEL.fullmatch(model):
            extra.append(f"--gpus-per-node={model}:1")  # and no resource gpu: SLURM refuses both together
        elif self.gres:
            asked["gres"] = self.gres
        else:
            asked |= {"gpu": 1, "gpu_model": model}
        extra += [self.extra] if self.extra else []
        asked["slurm_extra"] = " ".join(extra) or None
        return {name: value for name, value in asked.items() if value is not None}
