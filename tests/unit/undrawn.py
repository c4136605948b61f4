"""Pages without figures, for tests that look at something else: drawing takes longer than all of them."""

from __future__ import annotations

import pytest

from launchbench.report import anatomy_figures, clocks_figure, decode_figure, figures, lengths_figure, paths_figure
from launchbench.report.page import FIGURES

DRAWING = (figures, anatomy_figures, lengths_figure, clocks_figure, paths_figure, decode_figure)


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """One small drawing in place of each figure."""
    files = {"svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>", "png": b""}
    for module in DRAWING:
        patch.setattr(module, "draw", lambda *_: dict.fromkeys(FIGURES, files))
