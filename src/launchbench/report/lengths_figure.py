"""The figure of speed-up over kernel length. Computes nothing: it draws what the tables hold, the model among it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from launchbench.aggregate.lengths_model import LengthModel
from launchbench.report.drawing import (
    empty_figure,
    gain_of,
    legend_columns,
    medians,
    watermark,
    wrapped,
)
from launchbench.report.drawn import Drawings
from launchbench.report.lengths import Section
from launchbench.report.lengths_panels import LINEAR_BELOW_US, panels
from launchbench.report.svg import tell

FIGURE = "kernel_length"
MAX_NAMED = 4
"""Crossovers named in a panel; the table has all."""


def drawings(section: Section) -> Drawings:
    """What draws it, by its name."""
    return {FIGURE: lambda: draw_kernel_length(section)}


def draw_kernel_length(section: Section) -> Figure:
    """Speed-up over kernel length, one panel per N: marks with intervals, lines for the model, crossovers named."""
    made = panels(section)
    if made is None:
        return empty_figure()
    for count, axes in made.axes.items():
        axes.axhline(1, color="0.45", linewidth=1, linestyle=":", zorder=1)
        for _, style, own in made.series(count):
            if section.many:
                _band(axes, own, style)
            elif len(own):
                _marks(axes, own, style)
                _model(axes, section, own, style)
        if not section.many:
            _name_crossovers(axes, section, count, made.styles)
    made.first.set_ylabel("speed-up of the graph\n(loop time / replay time)")
    for axes in made.axes.values():
        axes.set_ylim(bottom=0)
    _legend(made.figure, section, made.styles)
    return made.figure


def _marks(axes: Axes, own: pd.DataFrame, style: dict[str, Any]) -> None:
    middle = own["speedup"].to_numpy(float)
    bars = np.nan_to_num(np.abs(own[["speedup_low", "speedup_high"]].to_numpy(float).T - middle))
    drawn = axes.errorbar(own["kernel_us"], middle, yerr=bars, capsize=3, **{**style, "linestyle": "none"})
    tell(
        drawn[0],
        [
            f"{row['card_name']}, N = {row['launch_count']:,}, kernels of {row['kernel_us']:,g} µs: {gain_of(row)}"
            for row in own.to_dict("records")
        ],
    )


def _model(axes: Axes, section: Section, own: pd.DataFrame, style: dict[str, Any]) -> None:
    row = section.models[section.models["card_name"] == own["card_name"].iloc[0]].iloc[0]
    names = ("issue_us", "pace_us", "loop_fixed_us", "node_us", "replay_fixed_us", "kernel_scale")
    model = LengthModel(*(float(row[name]) for name in names))
    longest = float(own["kernel_us"].max())
    lengths = np.concatenate([np.linspace(0, LINEAR_BELOW_US, 12), np.geomspace(LINEAR_BELOW_US, 1500, 120)])
    lengths = lengths[lengths <= max(longest, LINEAR_BELOW_US)]
    gains = [model.speedup(float(own["launch_count"].iloc[0]), float(length)) for length in lengths]
    look = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.2}
    axes.plot(lengths, gains, zorder=1.5, **look)


def _band(axes: Axes, own: pd.DataFrame, style: dict[str, Any]) -> None:
    look = {"color": style["color"], "marker": style["marker"], "linestyle": style["linestyle"], "markersize": 5}
    if len(own):
        medians(axes, own, "kernel_us", "speedup", **look)


def _name_crossovers(axes: Axes, section: Section, count: int, styles: dict[str, dict[str, Any]]) -> None:
    rows = section.crossovers[section.crossovers["launch_count"] == count]
    told = []
    for row in rows.to_dict("records"):
        if row["verdict"] == "reached" and row["card_name"] in styles:
            color = styles[str(row["card_name"])]["color"]
            axes.axvspan(
                row["helps_until_us"], row["no_help_from_us"], color=color, alpha=0.15, linewidth=0, zorder=0.5
            )
        told.append(f"{wrapped(str(row['card_name']))}: {_words(row)}")
    if told and len(told) <= MAX_NAMED:
        look = {"facecolor": "white", "edgecolor": "0.8", "boxstyle": "round,pad=0.3"}
        axes.text(
            0.97,
            0.97,
            "\n".join(["no longer helps:", *told]),
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=8,
            bbox=look,
        )


def _words(row: dict[Any, Any]) -> str:
    if row["verdict"] == "reached":
        return f"from {row['no_help_from_us']:,g} µs on"
    return {"not-reached": "not reached", "never-helps": "at any length"}.get(row["verdict"], "cannot tell")


def _legend(figure: Figure, section: Section, styles: dict[str, dict[str, Any]]) -> None:
    handles = [Line2D([], [], label=wrapped(name), **style) for name, style in styles.items()]
    handles.append(Line2D([], [], color="0.45", linestyle=":", label="no gain (1)"))
    columns = legend_columns(list(styles), figure.get_size_inches()[0])
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
    note = "marks: measured, with 95 % intervals;\nlines: model; shaded: where the graph stops helping"
    if section.many:
        note = "line: median over the cards of a label; band: smallest to largest"
    figure.suptitle(note, fontsize=10)
    watermark(figure, section.simulated)
