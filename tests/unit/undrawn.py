"""Pages without figures, for tests that look at something else: drawing takes longer than all of them."""

from __future__ import annotations

import pytest

from launchbench.report import page


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """One small drawing in place of each figure."""
    files = {"svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>", "png": b""}
    patch.setattr(page, "draw", lambda *_: dict.fromkeys(page.FIGURES, files))
