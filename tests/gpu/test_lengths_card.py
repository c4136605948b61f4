"""Exercises 5 and 6 on a real card: short kernels wait for launches, long ones do not, and lengths are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from launchbench.aggregate.lengths import LengthsTables, tabulate
from tests.gpu.test_real_card import cards, pytestmark

__all__ = ["pytestmark"]


@pytest.fixture(scope="module")
def made(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> LengthsTables:
    """The tables of one job with few repetitions."""
    folder = tmp_path_factory.mktemp("lengths")
    settings = {"site": "lab", "launch_counts": [8, 64], "length_repetitions": 7}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    card = cards(folder)[0]
    command = [sys.executable, "-m", "launchbench", "lengths", "--label", card["label"], "--card", card["card"]]
    command += ["--binaries", str(binaries)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return tabulate(folder / "results")


def test_every_cell_is_there(made: LengthsTables) -> None:
    assert made.lengths_gaps.empty and len(made.length_models) == 1
    used = made.lengths[made.lengths["repetitions_used"] > 0]
    assert len(used) == len(made.lengths), made.lengths["flags"].unique()


def test_long_kernels_are_at_the_pace_of_the_device_and_gain_nothing(made: LengthsTables) -> None:
    longest = made.lengths[made.lengths["kernel_us"] == 1000]
    assert set(longest["pace"]) == {"device"}
    assert (longest["loop_issue_us"] < 0.5 * longest["loop_us"]).all()
    assert longest["speedup"].between(0.95, 1.05).all()


def test_kernels_take_what_was_asked_for(made: LengthsTables) -> None:
    assert made.length_models["kernel_scale"].between(0.9, 1.1).all(), made.length_models.T
    assert (made.length_models["event_resolution_us"] > 0).all() and (made.length_models["nothing_us"] > 0).all()
