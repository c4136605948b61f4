"""Figures of what a launch consists of, of the ladder and of break-even. Computes nothing: it draws the tables.

Few cards are drawn one by one; of many cards, the median of each label and the range of its cards.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from launchbench.report.anatomy import LADDER, Section, has_kernel, missing
from launchbench.report.cells import label_name, replays
from launchbench.report.comparison import Comparison
from launchbench.report.drawing import (
    MAX_SERIES,
    PALETTE,
    WIDTH,
    empty_figure,
    legend_columns,
    log_values,
    medians,
    spread_out,
    styles_of,
    watermark,
    width_of,
    wrapped,
)
from launchbench.report.drawn import Drawings
from launchbench.report.svg import tell
from launchbench.results.anatomy_columns import DEVICE_PACE, HOST_ISSUE, PAST_DEPTH
from launchbench.wording import number, plural, several, shortened, with_interval

FIGURES = ("anatomy", "ladder", "break_even")

MAX_COUNTS = 4
COLUMNS = 4
"""Panels side by side."""

BESIDE = 0.06
"""Octaves between the marks of two series at the same N: equal numbers of replays are common."""

_PARTS = (
    ("issue", "host: issuing one launch", 0, ""),
    ("pace", "device: one queued launch", 1, ""),
    ("node", "device: one node of the graph", 2, ""),
    ("graph_call", "host: one graph launch call, divided by its N nodes", 4, "////"),
)
_CULPRIT = {HOST_ISSUE: "issue", DEVICE_PACE: "pace"}
_MANY = "marks: median over the cards of a label; bars and bands: smallest to largest"

Floats = NDArray[np.float64]


def drawings(section: Section, comparison: Comparison, launch_path: str) -> Drawings:
    """What draws all three; ``launch_path``: whose break-even is drawn."""
    return {
        "anatomy": lambda: draw_anatomy(section),
        "ladder": lambda: draw_ladder(section),
        "break_even": lambda: draw_break_even(comparison, launch_path),
    }


# ---------------------------------------------------------------- anatomy


def draw_anatomy(section: Section) -> Figure:
    """Grouped bars, a panel for each N; stacked is only a node: that of the control, and what tiny adds."""
    names = section.told[:MAX_SERIES]
    tiny = section.parts[section.parts["kernel"] == "tiny"]
    counts = spread_out(sorted(set(tiny["launch_count"])), MAX_COUNTS)
    if not names or not counts:
        return empty_figure()
    height = 1.7 + 0.95 * len(names) + (0.6 if len(counts) == 1 else 0)  # a longer legend
    figure, grid = plt.subplots(
        1,
        len(counts),
        figsize=(width_of(len(counts)), height),
        squeeze=False,
        layout="constrained",
        sharex=True,
        sharey=True,
    )
    for axes, count in zip(grid[0], counts, strict=True):
        rows = tiny[tiny["launch_count"] == count]
        for position, name in enumerate(names):
            _bars(axes, rows[rows["name"] == name], position, count)
        past = bool((rows["bottleneck"] == PAST_DEPTH).any())
        axes.set_title(f"N = {count:,}" + ("\npast the queue's depth" if past else ""))
        axes.set_xlabel("µs")
        axes.grid(True, axis="x", color="0.9")
        axes.set_axisbelow(True)
    for axes in grid[0]:
        # Room for the numbers at the ends of the bars.
        axes.set_xlim(0, 1.4 * grid[0, 0].dataLim.x1 if len(counts) == 1 else 1.4 * max(a.dataLim.x1 for a in grid[0]))
    grid[0, 0].set_yticks(range(len(names)), [wrapped(name) for name in names])
    grid[0, 0].set_ylim(len(names) - 0.45, -0.55)
    keys = [
        Patch(facecolor=PALETTE[color], edgecolor="0.2", hatch=hatch, label=label) for _, label, color, hatch in _PARTS
    ]
    added = Patch(
        facecolor="white", edgecolor=PALETTE[2], hatch="xxxx", label="of which tiny takes more than the control"
    )
    figure.legend(
        handles=[*keys[:3], added, keys[3]], loc="outside lower center", ncols=min(2, len(counts)), frameon=False
    )
    note = "side by side, since they overlap in time; bold: what the loop waits for"
    _notes(figure, [note, *([_MANY] if section.many else []), *_left_out(section.told)])
    watermark(figure, section.simulated)
    return figure


def _bars(axes: Axes, rows: pd.DataFrame, position: int, count: int) -> None:
    if rows.empty:
        axes.text(0, position, " not measured", va="center", fontsize=8, color="0.35")
        return
    verdicts = set(rows["bottleneck"])
    culprit = _CULPRIT.get(verdicts.pop()) if len(verdicts) == 1 else None
    height = 0.19
    for row, (name, told, color, hatch) in enumerate(_PARTS):
        at = position + (row - 1.5) * 0.21
        divided = name == "graph_call"
        whole_call = _middle_and_ends(rows, name)
        value, low, high = (one / count if divided else one for one in whole_call)
        if math.isnan(value):
            axes.text(0, at, " not timed", va="center", fontsize=7, color="0.35")
            continue
        look: dict[str, Any] = {"color": PALETTE[color], "edgecolor": "0.2", "linewidth": 0.5, "hatch": hatch}
        drawn: BarContainer = axes.barh(at, value, height, **look)
        drawn.set_label(f"{name}")
        shown = f"{number(value) if value >= 0.01 else '< 0.01'}"
        # The call is of all nodes: alone, its share would read as what the call takes.
        of_call = f" = {number(whole_call[0])} / {count:,}" if divided else ""
        tell(drawn[0], [f"{told}: {with_interval(value, low, high)} µs{of_call}, N = {count:,}"])
        if low < high:
            axes.errorbar(value, at, xerr=[[value - low], [high - value]], color="0.1", capsize=2, linewidth=1)
        if name == "node" and has_kernel(rows).all():
            added = float(rows["kernel_us"].median())
            more: dict[str, Any] = {"facecolor": "white", "edgecolor": PALETTE[2], "hatch": "xxxx", "linewidth": 0.5}
            axes.barh(at, added, height, left=value - added, **more)
        weight = "bold" if name == culprit else "normal"
        axes.text(
            max(value, high),
            at,
            f" {shown}{of_call}",
            va="center",
            fontsize=7.5,
            fontweight=weight,
        )


def _middle_and_ends(rows: pd.DataFrame, name: str) -> tuple[float, float, float]:
    """The only card's value and interval, or median, smallest and largest of several cards."""
    values = rows[f"{name}_us"].dropna()
    if len(rows) == 1:
        row = rows.iloc[0]
        value, low, high = (float(row[f"{name}{end}_us"]) for end in ("", "_low", "_high"))
        return (value, low, high) if low < high else (value, value, value)
    return (float(values.median()), float(values.min()), float(values.max())) if len(values) else (math.nan,) * 3


# ---------------------------------------------------------------- ladder


def draw_ladder(section: Section) -> Figure:
    """Time per launch, node or increment over N, a panel for each card or label; what was not timed is said below."""
    names = section.told[:MAX_SERIES]
    if not names:
        return empty_figure()
    columns = min(COLUMNS, len(names))
    lines = math.ceil(len(names) / columns)
    figure, grid = plt.subplots(
        lines,
        columns,
        figsize=(width_of(columns), 1.6 + 2.9 * lines),
        squeeze=False,
        layout="constrained",
        sharex=True,
        sharey=True,
    )
    styles = styles_of(LADDER)
    styles["fused-register"] |= {"markerfacecolor": "white", "color": "0.45"}
    counts = sorted(set(section.parts["launch_count"]))
    for axes, name in zip(grid.flat, names, strict=False):
        untimed: dict[str, list[str]] = {}
        for mode, style in styles.items():
            own = section.mode(name, mode)
            known = own[own["gpu_us"].notna()]
            if known.empty:
                untimed.setdefault(missing(section, name, mode), []).append(mode)
            elif section.many:
                look = {key: value for key, value in style.items() if key != "markerfacecolor"}
                medians(axes, known, "launch_count", "each_us", **look)
            else:
                middle = known["each_us"].to_numpy(float)
                ends = known[["each_low_us", "each_high_us"]].to_numpy(float).T
                bars = np.nan_to_num(np.abs(ends - middle))
                drawn = axes.errorbar(known["launch_count"], middle, yerr=bars, capsize=2, **style)
                tell(drawn[0], [_told(name, mode, row) for row in known.to_dict("records")])
        axes.set_title(wrapped(name))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 1)))
        _over_counts(axes, counts, 6)
        axes.tick_params(labelbottom=True)  # below it may be nothing
        below = ["N", *(f"{several(modes)}:\n{reason}" for reason, modes in untimed.items())]
        width = 100 // columns
        axes.set_xlabel("\n".join(_folded(text, width) for text in below), fontsize=8)
        axes.set_ylabel("")
    for axes in list(grid.flat)[len(names) :]:
        axes.remove()
    figure.supylabel("µs per launch, node or increment", fontsize=10)
    keys = [Line2D([], [], label=_RUNGS.get(mode, mode), **style) for mode, style in styles.items()]
    figure.legend(handles=keys, loc="outside lower center", ncols=min(3, 1 + columns), frameon=False)
    _notes(figure, [*([_MANY] if section.many else []), *_left_out(section.told)])
    watermark(figure, section.simulated)
    return figure


_RUNGS = {
    "loop-dependent": "loop, programmatic edges",
    "replay-dependent": "replay, programmatic edges",
    "fused-memory": "one kernel, memory (floor)",
    "fused-register": "one kernel, register (other work)",
}


def _told(name: str, mode: str, row: dict[Hashable, Any]) -> str:
    each = with_interval(*(row[f"each{end}_us"] for end in ("", "_low", "_high")))
    return f"{name}, {_RUNGS.get(mode, mode)}, N = {row['launch_count']:,}: {each} µs"


def _folded(text: str, width: int) -> str:
    lines = []
    for line in text.split("\n"):
        words = shortened(line, 4 * width).split(" ")
        lines.append(words[0])
        for word in words[1:]:
            if len(lines[-1]) + 1 + len(word) <= width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
    return "\n".join(lines)


# ---------------------------------------------------------------- break-even


def draw_break_even(comparison: Comparison, launch_path: str) -> Figure:
    """Replays until a graph has paid for itself, with "never" as a level of its own; and what it costs once."""
    rows = comparison.rows(launch_path)
    rows = rows[rows["break_even_replays"].notna()]
    if rows.empty:
        return empty_figure()
    names = _series_names(comparison, rows)
    rows = rows.assign(name=names, once_us=rows["capture_us"] + rows["instantiate_us"] + rows["upload_us"])
    order = list(dict.fromkeys(sorted(names, key=_rank(comparison))))
    styles = dict(list(styles_of(order).items())[:MAX_SERIES])
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 4.6), layout="constrained")
    ends = rows[["break_even_replays", "break_even_replays_low", "break_even_replays_high"]].to_numpy(float)
    finite = ends[np.isfinite(ends)]
    never = 10.0 ** (math.ceil(math.log10(max(float(finite.max()), 1.0) if len(finite) else 1.0)) + 0.7)
    for position, (name, style) in enumerate(styles.items()):
        own = rows[rows["name"] == name]
        _paid(left, own, style, never, comparison.many, 2 ** (BESIDE * (position - (len(styles) - 1) / 2)))
        for column, dashes, fill in (("once_us", "solid", style["color"]), ("update_us", "dotted", "white")):
            known = own[own[column].notna()].groupby("launch_count")[column].median()
            look = {**style, "linestyle": dashes, "markerfacecolor": fill}
            [line] = right.plot(known.index, known.to_numpy(float), **look)
            what = "making it" if column == "once_us" else "updating it"
            tell(line, [f"{name}, {what}, N = {at:,}: {number(time)} µs" for at, time in known.items()])
    _never(left, never, not np.isfinite(ends[:, 0]).all() or np.isinf(ends[:, 2]).any())
    counts = sorted(set(rows["launch_count"]))
    for axes, label in ((left, "replays until the graph has paid"), (right, "host time, µs")):
        axes.set_ylabel(label)
        axes.set_xlabel("N (nodes)")
        _over_counts(axes, counts, 8)
    log_values(right)
    left.set_title(f"launches issued by {launch_path}")
    updated = ", or updating it (dotted)" if rows["update_us"].notna().any() else ""
    right.set_title(f"paid once: making it (solid){updated}")
    handles = [Line2D([], [], label=wrapped(name), **style) for name, style in styles.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=legend_columns(list(styles)), frameon=False)
    _notes(figure, [*([_MANY] if comparison.many else []), *_left_out(order)])
    watermark(figure, bool(rows["virtual"].any()))
    return figure


def _series_names(comparison: Comparison, rows: pd.DataFrame) -> list[str]:
    if not comparison.many:
        return list(rows["card_name"])
    return [label_name(label, bool(virtual)) for label, virtual in zip(rows["label"], rows["virtual"], strict=True)]


def _rank(comparison: Comparison) -> Any:
    order = [label_name(*key) for key in comparison.labels] if comparison.many else comparison.cards
    return order.index


def _paid(axes: Axes, own: pd.DataFrame, style: dict[str, Any], never: float, many: bool, aside: float) -> None:
    columns = ("break_even_replays", "break_even_replays_low", "break_even_replays_high")
    if many:
        grouped = own["break_even_replays"].clip(upper=never).groupby(own["launch_count"])
        counts = np.array(list(grouped.groups), dtype=float)
        values, low, high = (getattr(grouped, of)().to_numpy(float) for of in ("median", "min", "max"))
    else:
        counts = own["launch_count"].to_numpy(float)
        values, low, high = (np.minimum(own[column].to_numpy(float), never) for column in columns)
    counts = counts * aside
    bars = np.nan_to_num(np.abs(np.array([values - low, high - values])))
    # No line leads to "never", which is no number of replays.
    axes.plot(counts, np.where(values < never, values, np.nan), **{**style, "marker": "none"})
    drawn = axes.errorbar(counts, values, yerr=bars, capsize=3, **{**style, "linestyle": "none"})
    if not many:
        tell(
            drawn[0],
            [
                f"{row['name']}, N = {row['launch_count']:,}: paid for after {replays(row)} replays"
                for row in own.to_dict("records")
            ],
        )


def _never(axes: Axes, never: float, any_never: bool) -> None:
    axes.set_yscale("log")
    # Within few decades the powers of ten alone would leave the axis with one or two numbers.
    steps = (1, 2, 3, 5) if never < 500 else (1,)
    levels = [step * 10.0**power for power in range(int(math.log10(never)) + 1) for step in steps]
    levels = [level for level in levels if level < never / 2]
    if any_never:
        axes.axhline(never, color="0.45", linewidth=1, linestyle=":", zorder=1)
    ticks = [*levels, never] if any_never else levels
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: "never" if value == never else number(value, 1)))
    axes.set_ylim(0.7, never * 1.5 if any_never else None)


# ---------------------------------------------------------------- shared


def _over_counts(axes: Axes, counts: Sequence[int], most: int) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([float(count) for count in spread_out(list(counts), most)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(True, color="0.9")
    axes.set_axisbelow(True)


def _left_out(names: Sequence[str]) -> list[str]:
    more = len(names) - MAX_SERIES
    return [f"{plural(more, 'more label')} not drawn"] if more > 0 else []


def _notes(figure: Figure, notes: Sequence[str]) -> None:
    if notes:
        inches = figure.get_size_inches()[0]
        figure.suptitle(
            "\n".join(line for note in notes for line in textwrap.wrap(note, int(12 * inches))), fontsize=10
        )
