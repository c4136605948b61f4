"""The figure of launch paths at one N: what a launch of the loop and what a node of the replay costs by each.

It draws what the tables hold. Paths of another machine code are hollow and below a line.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from launchbench.report.cells import path_name
from launchbench.report.comparison import SIMULATED, Comparison
from launchbench.report.drawing import (
    WIDTH,
    empty_figure,
    styles_among,
    watermark,
    wrapped,
)
from launchbench.report.drawn import Drawings
from launchbench.report.svg import tell
from launchbench.results.protocol import LAUNCH_PATHS, OTHER_CODE
from launchbench.wording import with_interval

FIGURE = "launch_paths"
_PANELS = (("loop_us", "loop: µs per launch"), ("replay_us", "replay: µs per node"))


def drawings(comparison: Comparison, at: int | None) -> Drawings:
    """What draws it, by its name."""
    return {FIGURE: lambda: draw_paths(comparison, at)}


def draw_paths(comparison: Comparison, at: int | None) -> Figure:
    """A line for each path, a mark for each card with its 95 % interval; of many cards, each label's range."""
    rows = comparison.compared
    here = rows[(rows["kernel"] == "tiny") & (rows["launch_count"] == (-1 if at is None else at))]
    if here.empty:
        return empty_figure()
    named = here.assign(series=_labels(here) if comparison.many else here["card_name"])
    order = [*dict.fromkeys(_labels(rows))] if comparison.many else comparison.cards
    styles = styles_among(order, set(named["series"]))
    paths = [path for path in LAUNCH_PATHS if path in set(here["launch_path"])]
    height = 1.6 + 0.36 * len(paths) * max(1, len(styles)) ** 0.5
    figure, grid = plt.subplots(1, 2, figsize=(WIDTH, height), layout="constrained", sharey=True)
    for axes, (column, label) in zip(grid, _PANELS, strict=True):
        for position, (name, style) in enumerate(styles.items()):
            shift = 0.7 * ((position + 0.5) / len(styles) - 0.5)
            for line, path in enumerate(paths):
                own = named[(named["series"] == name) & (named["launch_path"] == path)]
                if len(own):
                    _mark(axes, own, column, line + shift, path, style, name)
        axes.set_xlim(0, 1.08 * axes.dataLim.x1)
        axes.set_xlabel(f"{label}, N = {at:,}")
        axes.grid(True, axis="x", color="0.9")
        axes.set_axisbelow(True)
        first = next((line for line, path in enumerate(paths) if path in OTHER_CODE), 0)
        if first:
            axes.axhline(first - 0.5, color="0.6", linewidth=0.8, linestyle=":")
    grid[0].set_yticks(range(len(paths)), [path_name(path) for path in paths])
    grid[0].set_ylim(len(paths) - 0.4, -0.6)
    handles = [Line2D([], [], label=wrapped(name), **{**one, "linestyle": "none"}) for name, one in styles.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=max(1, min(4, len(handles))), frameon=False)
    watermark(figure, bool(here["virtual"].any()))
    return figure


def _labels(rows: pd.DataFrame) -> list[str]:
    keys = zip(rows["label"], rows["virtual"], strict=True)
    return [f"{label} ({SIMULATED})" if virtual else str(label) for label, virtual in keys]


def _mark(
    axes: Axes, own: pd.DataFrame, column: str, height: float, path: str, style: dict[str, Any], name: str
) -> None:
    each = own["launch_count"].to_numpy(float)
    value = own[column].to_numpy(float) / each
    middle = float(np.median(value))
    stem = column.removesuffix("_us")
    low, high = value.min(), value.max()
    if len(own) == 1:
        ends = own[[f"{stem}_low_us", f"{stem}_high_us"]].to_numpy(float)[0] / each[0]
        low, high = np.where(np.isfinite(ends), ends, middle)
    fill = "white" if path in OTHER_CODE else style["color"]
    look = {**style, "linestyle": "none", "markerfacecolor": fill, "capsize": 3}
    drawn = axes.errorbar([middle], [height], xerr=[[middle - low], [high - middle]], **look)
    unit = "µs per launch" if stem == "loop" else "µs per node"
    tell(drawn[0], [f"{name}, {path}: {with_interval(middle, low, high)} {unit}"])
