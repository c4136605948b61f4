"""The comparison with the plain program needs a card; what it compares can be seen without one."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from launchbench.config.model import Config


def test_every_part_covers_every_n_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    parts = importlib.import_module("native_against_program").PARTS
    assert {name: part.counts for name, part in parts.items()} == dict.fromkeys(
        ("loops", "control", "placements"), Config().launch_counts
    )
