"""What a cluster is asked for, from the configuration to the resources that Snakemake's plugin reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launchbench.config.model import Config, load
from launchbench.config.slurm import SlurmRequest
from launchbench.config.yaml_file import read_yaml
from launchbench.errors import LaunchbenchError
from launchbench.workflow.cluster import RESOURCES, check_resources

PROFILE = Path(__file__).parents[2] / "profiles" / "slurm"
DEADLINE = "--deadline=now+1440minutes"


def resources(**asked: Any) -> dict[str, str | int]:
    found = load({"slurm": {"t4": asked}}).slurm["t4"].resources()
    assert set(found) <= set(RESOURCES)
    return found


def test_nothing_said_is_one_gpu_of_any_type_for_a_quarter_of_an_hour() -> None:
    expected = {"gpu": 1, "runtime": 15, "mem_mb": 4000, "slurm_extra": DEADLINE}
    assert resources() == expected
    assert load({"slurm": {"t4": None}}).slurm["t4"].resources() == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"gpu_model": "a100"}, {"gpu": 1, "gpu_model": "a100"}),
        ({"gpu_model": "a100_80gb.v2"}, {"gpu": 1, "gpu_model": "a100_80gb.v2"}),
        # The plugin refuses a hyphen, and SLURM a typed and an untyped GPU together.
        ({"gpu_model": "tesla-t4"}, {"slurm_extra": f"{DEADLINE} --gpus-per-node=tesla-t4:1"}),
        ({"gres": "gpu:a100:1"}, {"gres": "gpu:a100:1"}),
        ({"gres": "gpu"}, {"gres": "gpu"}),
        ({"gres": "gpu:1"}, {"gres": "gpu:1"}),
        ({"gres": "gpu:tesla-t4:1"}, {"slurm_extra": f"{DEADLINE} --gpus-per-node=tesla-t4:1"}),
        ({"gres": "gpu:tesla-t4"}, {"slurm_extra": f"{DEADLINE} --gpus-per-node=tesla-t4:1"}),
        ({"partition": "gpu,gpu-long"}, {"gpu": 1, "slurm_partition": "gpu,gpu-long"}),
        ({"account": "proj-7", "qos": "short"}, {"gpu": 1, "slurm_account": "proj-7", "qos": "short"}),
        ({"constraint": "nvlink&sxm"}, {"gpu": 1, "constraint": "nvlink&sxm"}),
        ({"extra": "--exclusive"}, {"gpu": 1, "slurm_extra": f"{DEADLINE} --exclusive"}),
        ({"time_minutes": 30, "memory_mb": 8000}, {"gpu": 1, "runtime": 30, "mem_mb": 8000}),
    ],
)
def test_asked(asked: dict[str, Any], expected: dict[str, Any]) -> None:
    assert resources(**asked) == {"runtime": 15, "mem_mb": 4000, "slurm_extra": DEADLINE} | expected


def test_what_is_null_is_left_to_the_cluster() -> None:
    assert resources(time_minutes=None, memory_mb=None, deadline_minutes=None) == {"gpu": 1, "runtime": 0, "mem_mb": 0}


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (
            {"gpu-model": "a100"},
            "slurm.t4.gpu-model: got an unknown key; expected a valid key; did you mean 'gpu_model'?",
        ),
        ({"nodes": 1}, "slurm.t4.nodes: got an unknown key; expected one of partition, gpu_model, gres"),
        ({"gres": "gpu:a100:2"}, "slurm.t4.gres: got 'gpu:a100:2'; expected no value or one GPU"),
        ({"gres": "shard:1"}, "slurm.t4.gres: got 'shard:1'; expected no value or one GPU"),
        ({"gres": "gpu", "gpu_model": "t4"}, "slurm.t4.gres: got 'gpu' beside gpu_model; expected one of the two"),
        ({"gpu_model": "'a100'"}, "slurm.t4.gpu_model: got \"'a100'\"; expected no value or a name"),
        ({"time_minutes": "1:00:00"}, "slurm.t4.time_minutes: got '1:00:00'; expected a whole number from 1 to 10080"),
        ({"deadline_minutes": 15}, "slurm.t4.deadline_minutes: got 15; expected more than time_minutes, which is 15"),
        ({"extra": "--gres=gpu:1"}, "(for --gres there is the key gres)"),
        ({"extra": "--exclusive -t 5"}, "(for -t there is the key time_minutes)"),
        ({"extra": "-J name"}, "(-J is set by Snakemake)"),
        ({"extra": "--exclusive; rm -rf ~"}, "expected no value or more options of sbatch, without quotes"),
        ("a100", "slurm.t4: got 'a100'; expected a mapping of keys such as partition and gpu_model"),
    ],
)
def test_a_mistake_is_one_line(asked: Any, line: str) -> None:
    with pytest.raises(LaunchbenchError) as caught:
        load({"slurm": {"t4": asked}})
    said = str(caught.value)
    assert said.count("\n") == 0 and said.startswith("config.yaml: slurm.t4") and line in said


def test_only_labels_that_can_be_recognised_are_asked_for() -> None:
    with pytest.raises(LaunchbenchError, match=r"slurm\.l4: got a label that gpus has not; expected one of t4, a100"):
        load({"slurm": {"l4": {}}})


def test_the_shipped_cluster_file_is_valid_and_has_a_comment_above_every_key() -> None:
    shipped = read_yaml(PROFILE / "cluster.yaml")
    config = load(shipped, "cluster.yaml")
    assert config.cards == "listed"
    assert {label: request.gpu_model for label, request in config.slurm.items()} == {
        "t4": "t4",
        "a100": "a100",
        "h100": "h100",
    }
    assert config.slurm["t4"] == SlurmRequest(gpu_model="t4")  # what it says is the default
    assert list(shipped["slurm"]["t4"]) == list(SlurmRequest.model_fields)
    lines = (PROFILE / "cluster.yaml").read_text().splitlines()
    for key in [*("site", "cards", "slurm"), *SlurmRequest.model_fields]:
        at = next(number for number, line in enumerate(lines) if line.strip().startswith(f"{key}:"))
        assert lines[at - 1].strip().startswith("# "), key


def test_every_line_of_the_profile_is_explained() -> None:
    lines = (PROFILE / "profile.yaml").read_text().splitlines()
    keys = [number for number, line in enumerate(lines) if line[:1].isalpha()]
    assert keys and all(lines[number - 1].startswith("#") for number in keys)


def test_the_documentation_explains_every_key() -> None:
    text = (PROFILE.parents[1] / "docs" / "slurm.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert set(SlurmRequest.model_fields) <= set(rows)
    for key in read_yaml(PROFILE / "profile.yaml"):
        assert f"`{key}" in text, key


def test_resources_that_ask_for_nothing_are_refused() -> None:
    check_resources(
        {"--set-resources measure": ["slurm_partition", "mem_mb", "gres"], "--default-resources": ["tmpdir"]}
    )
    with pytest.raises(LaunchbenchError) as caught:
        check_resources({"--set-resources measure": ["gpus", "nvidia_gpu"], "--default-resources": ["zebra"]})
    assert str(caught.value).splitlines() == [
        "--set-resources measure: got the resource 'gpus', which asks for nothing; expected one known; "
        "did you mean 'gpu'?",
        "--set-resources measure: got the resource 'nvidia_gpu', which asks for nothing; expected one known, such as "
        f"{', '.join(RESOURCES)}",
        "--default-resources: got the resource 'zebra', which asks for nothing; expected one known, such as "
        f"{', '.join(RESOURCES)}",
    ]


def test_the_defaults_ask_no_cluster() -> None:
    assert Config().slurm == {}
