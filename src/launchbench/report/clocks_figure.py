"""The figure of one loop by two clocks over kernel length. Computes nothing: it draws what the tables hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from launchbench.report.drawing import (
    empty_figure,
    legend_columns,
    log_values,
    medians,
    watermark,
    wrapped,
)
from launchbench.report.drawn import Drawings
from launchbench.report.lengths import Section
from launchbench.report.lengths_panels import panels
from launchbench.report.svg import tell
from launchbench.wording import number

FIGURE = "clocks"

_CLOCKS: tuple[tuple[str, str, Any, str | None], ...] = (
    ("loop_issue", "host clock until the last launch call returned", "dotted", "white"),
    ("loop", "GPU time by events", "solid", None),
)


def drawings(section: Section) -> Drawings:
    """What draws it, by its name."""
    return {FIGURE: lambda: draw_clocks(section)}


def draw_clocks(section: Section) -> Figure:
    """Both clocks per launch over kernel length, one panel per N; the total is left out: it lies on the GPU time."""
    made = panels(section)
    if made is None:
        return empty_figure()
    for count, axes in made.axes.items():
        for name, style, own in made.series(count):
            for column, clock, dashes, fill in _CLOCKS:
                look = {**style, "linestyle": dashes, "markerfacecolor": fill or style["color"]}
                if section.many:
                    _median(axes, own, column, look)
                elif len(own):
                    _line(axes, own, column, look, f"{name}, {clock}")
        log_values(axes)
    made.first.set_ylabel("time of the loop / N (µs)")
    figure, styles = made.figure, made.styles
    handles = [Line2D([], [], label=wrapped(name), **{**style, "linestyle": "none"}) for name, style in styles.items()]
    keys = [
        Line2D([], [], color="0.3", marker="o", linestyle=dashes, markerfacecolor=fill or "0.3", label=clock)
        for _, clock, dashes, fill in _CLOCKS
    ]
    columns = legend_columns([*styles, *(clock for _, clock, _, _ in _CLOCKS)], figure.get_size_inches()[0])
    figure.legend(handles=[*handles, *keys], loc="outside lower center", ncols=columns, frameon=False)
    if section.many:
        figure.suptitle("median over the cards of a label", fontsize=10)
    watermark(figure, section.simulated)
    return figure


def _line(axes: Axes, own: pd.DataFrame, column: str, look: dict[str, Any], what: str) -> None:
    each = own[f"{column}_us"].to_numpy(float) / own["launch_count"].to_numpy(float)
    lengths = own["kernel_us"].to_numpy(float)
    [line] = axes.plot(lengths, each, **look)
    pairs = zip(lengths, np.asarray(each), strict=True)
    tell(line, [f"{what}, kernels of {length:,g} µs: {number(value)} µs per launch" for length, value in pairs])


def _median(axes: Axes, own: pd.DataFrame, column: str, look: dict[str, Any]) -> None:
    if len(own):
        each = own.assign(each=own[f"{column}_us"] / own["launch_count"])
        style = {name: value for name, value in look.items() if name != "markerfacecolor"}
        medians(axes, each, "kernel_us", "each", band=False, **style)
