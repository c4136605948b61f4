"""Hollow grey marks of published figures, numbered as in their table, on panels that have been drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from launchbench.report.published import ISSUED_BY, Mark

_GREY = "0.35"
_SHAPES = {"loop": "H", "replay": "d"}
"""Shapes that no card has."""


def draw_marks(
    panels: Sequence[tuple[str, Axes]], published: Sequence[Mark], labels: Mapping[str, str]
) -> list[Line2D]:
    """Draw each mark on the panels of its kind of loop; return the keys of the legend, none where nothing is drawn.

    Args:
        panels: launch path and axes of each.
        published: the marks.
        labels: mode -> what the legend says of its marks.
    """
    for path, axes in panels:
        for mark in published:
            if mark.issued_by != ISSUED_BY.get(path):
                continue
            axes.plot(mark.launch_count, mark.height, **_look(mark.mode), zorder=4)
            place: dict[str, Any] = {"textcoords": "offset points", "xytext": (5, -8), "fontsize": 8, "color": _GREY}
            axes.annotate(str(mark.number), (mark.launch_count, mark.height), **place)
    modes = {mark.mode for mark in published} if panels else set()
    return [Line2D([], [], label=label, **_look(mode)) for mode, label in labels.items() if mode in modes]


def _look(mode: str) -> dict[str, Any]:
    shape = {"marker": _SHAPES[mode], "markersize": 7, "markeredgewidth": 1.1}
    return {**shape, "linestyle": "none", "color": _GREY, "markerfacecolor": "none"}
