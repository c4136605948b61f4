"""What the workflow says on a machine without a driver, and to a mistake in the configuration."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from tests.workflow.conftest import Clone


@pytest.fixture
def clone(make_clone: Callable[[], Clone]) -> Clone:
    """An empty clone."""
    return make_clone()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("launch_counts=[8,8]", "--config: launch_counts[1]: got '8', which is a duplicate"),
        ("launch_counts=[]", "--config: launch_counts: got []; expected a list of at least one entry"),
        ("launch_counts=[0]", "--config: launch_counts[0]: got '0'; expected"),
        ("repetitions=1e3", "--config: repetitions: got 1000.0; expected a whole number"),
        (
            "repetition=5",
            "--config: repetition: got an unknown key; expected a valid key; did you mean 'repetitions'?",
        ),
        ("cards=false", "--config: cards: got 'false'; expected one of visible, listed, none"),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(clone: Clone, setting: str, message: str) -> None:
    run = clone.snakemake("--config", setting)
    assert run.status != 0
    assert [line for line in run.text.splitlines() if "launchbench:" in line] == [
        line for line in run.text.splitlines() if f"launchbench: {message}" in line
    ]
    assert message in run.text
    assert "Traceback" not in run.text
    assert not (clone.path / "build").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"launch_counts: [8\n", "config.yaml: line 2, column 1: "),
        (
            b"launch_counts: [8]\nlaunch_counts: [9]\n",
            "config.yaml: line 2: got the key 'launch_counts', already in line 1",
        ),
        (b"\xff\xfe\n", "config.yaml: line 1: got bytes that are not UTF-8"),
        (None, "config.yaml: No such file or directory; expected a readable file"),
    ],
)
def test_a_broken_configuration_file_is_one_line(clone: Clone, content: bytes | None, message: str) -> None:
    path = clone.path / "config.yaml"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    run = clone.snakemake("-n")
    assert run.status != 0
    assert f"launchbench: {message}" in run.text
    assert "Traceback" not in run.text


def test_listing_cards_plans_one_job_per_label_and_count(clone: Clone) -> None:
    run = clone.snakemake("-n", "--config", "cards=listed", "launch_counts=[8,64]", "trials=2")
    assert run.status == 0, run.text
    measured = {line.split(": ", 1)[1] for line in run.text.splitlines() if ": measure " in line}
    assert measured == {
        f"measure {label} (card any) at N = {n}, trial {trial}"
        for label in ("t4", "a100", "h100", "h200")
        for n in (8, 64)
        for trial in (1, 2)
    }


def test_a_measurement_stops_with_one_line_and_touches_nothing(clone: Clone) -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has an NVIDIA driver")
    cuda = clone.path / "build" / "cuda"
    cuda.mkdir(parents=True)
    for name in ("graphs", "graphs.fatbin", "liblaunchloops.so"):
        (cuda / name).write_bytes(b"not used")
    (cuda / "build.json").write_text(
        '{"nvcc": {"version": "0"}, "host_compiler": {"name": "", "version": ""}, "flags": [], "architectures": [],'
        ' "source": {"sha256": ""}, "products": {}}'
    )
    run = clone.snakemake("--allowed-rules", "measure", "--config", "cards=listed", "launch_counts=[8]", "gpus={}")
    assert run.status != 0
    run = clone.snakemake(
        "build/cells/here/t4/any/n8.t1.0.json", "--allowed-rules", "measure", "--config", "cards=listed", "site=here"
    )
    assert run.status != 0
    said = [line for line in run.text.splitlines() if line.startswith("launchbench: ")]
    assert said[0].startswith("launchbench: no NVIDIA driver on this machine (libcuda.so.1 not found)")
    assert "Traceback" not in run.text
    assert clone.results() == {}
    assert not (clone.path / "build" / "cells").exists() or not list((clone.path / "build" / "cells").rglob("*.json"))
