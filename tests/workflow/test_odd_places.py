"""Homes that cannot be written, odd paths and folders that are files: a report all the same, or one clear line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.fabricate import write_sweep
from tests.workflow.conftest import Clone, clone_into


@pytest.fixture
def clone(make_clone: Callable[[], Clone]) -> Clone:
    """An empty clone."""
    return make_clone()


def test_nothing_outside_the_clone_has_to_be_writable_or_there(clone: Clone) -> None:
    write_sweep(clone.path / "results", (8, 64), repetitions=2)
    odd = {"HOME": "/dev/null/home", "TMPDIR": "/dev/null/tmp", "LC_ALL": "C", "TERM": "", "USER": "", "LOGNAME": ""}
    run = clone.snakemake(**odd, XDG_CACHE_HOME="", XDG_CONFIG_HOME="")
    assert run.status == 0, run.text
    assert "Traceback" not in run.text
    assert "t4: at N = 64 a stream launch" in clone.page


def test_braces_in_the_path_are_one_line(tmp_path: Path) -> None:
    clone = clone_into(tmp_path / "a {clone}")
    run = clone.snakemake("-n")
    assert run.status != 0
    assert run.said == [
        f"launchbench: {clone.path}: got braces in the path of this folder; "
        "expected a path without { and }: rename or move it"
    ]
    assert "Traceback" not in run.text
