"""Generated files in the repository equal what the code generates."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchbench.schemas import GENERATED

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", GENERATED)
def test_the_committed_file_is_what_the_code_says(name: str) -> None:
    assert (PROJECT / name).read_text(encoding="utf-8") == GENERATED[name](), "run `launchbench schemas`"
