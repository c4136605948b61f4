"""Figures of a comparison: speed-up, times, placements. Computes nothing: it draws what the tables hold.

Few cards are drawn one by one; of many cards, medians and the whole range of each label. The same tables give
the same bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from launchbench.report.cells import path_name
from launchbench.report.comparison import SIMULATED, Comparison
from launchbench.report.drawing import (
    MAX_SERIES,
    empty_figure,
    gain_of,
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
from launchbench.report.overlay import draw_marks
from launchbench.report.placements import GATED, PLAIN
from launchbench.report.published import NOT_MEASURED_HERE, Mark
from launchbench.report.svg import tell
from launchbench.wording import several, shortened, with_interval

MAX_MARKS = 2000
"""More marks than this are drawn as an image inside the SVG, where each would take 120 bytes."""

MAX_ACROSS = 4
"""Panels of launch paths in a row."""


def drawings(
    comparison: Comparison,
    points: pd.DataFrame | None,
    launch_path: str,
    published: Mapping[str, Sequence[Mark]] | None = None,
    nodes: pd.DataFrame | None = None,
) -> Drawings:
    """What draws the figures, by name.

    Args:
        comparison: what is compared.
        points: marks as :func:`launchbench.report.placements.marks` gives them; None where there are too many.
        launch_path: the path whose placements are drawn.
        published: marks of published figures, by the figure that has them.
        nodes: rows of :func:`launchbench.report.placements.node_rows`, drawn for many cards.
    """
    marks = published or {}
    return {
        "placements": lambda: draw_placements(comparison, points, launch_path, nodes),
        "times": lambda: draw_times(comparison, marks.get("times", ())),
        "speedup": lambda: draw_speedup(comparison, marks.get("speedup", ())),
    }


def draw_speedup(comparison: Comparison, published: Sequence[Mark] = ()) -> Figure:
    """Speed-up over N, one panel per launch path, 95 % intervals as bars; what was published, hollow and grey."""
    figure, panels = _path_panels(comparison, "speed-up of the graph\n(loop time / replay time)")
    for path, axes in panels:
        rows = comparison.rows(path)
        axes.axhline(1, color="0.45", linewidth=1, linestyle=":", zorder=1)
        if comparison.many:
            _bands(axes, comparison, rows, "speedup", "solid")
        else:
            for style, group in _series(comparison, rows):
                ends = group[["speedup_low", "speedup_high"]].to_numpy(float)
                middle = group["speedup"].to_numpy(float)
                bars = np.nan_to_num(np.abs(ends.T - middle))
                drawn = axes.errorbar(group["launch_count"], middle, yerr=bars, capsize=3, **style)
                tell(drawn[0], [f"{_where(row)}: {gain_of(row)}" for row in group.to_dict("records")])
    overlay = draw_marks(panels, published, {"loop": NOT_MEASURED_HERE})
    for _, axes in panels:
        # After every panel is drawn: a limit set earlier would stop the shared axis from growing.
        axes.set_ylim(bottom=0)
    return _finish(figure, comparison, [Line2D([], [], color="0.45", linestyle=":", label="no gain (1)")], overlay)


def draw_times(comparison: Comparison, published: Sequence[Mark] = ()) -> Figure:
    """GPU time of loop and replay over N, both logarithmic, with the fitted straight lines, and published times."""
    figure, panels = _path_panels(comparison, "GPU time by events (µs)")
    modes: tuple[tuple[str, Any], ...] = (("loop", "solid"), ("replay", "dashed"))
    for path, axes in panels:
        rows = comparison.rows(path)
        for mode, dashes in modes:
            if comparison.many:
                _bands(axes, comparison, rows, f"{mode}_us", dashes)
                continue
            for style, group in _series(comparison, rows):
                fill = style["color"] if mode == "loop" else "white"
                marks = {**style, "linestyle": "none", "markerfacecolor": fill}
                [line] = axes.plot(group["launch_count"], group[f"{mode}_us"], **marks)
                tell(line, [f"{_where(row)}: {mode} {_time(row, mode)}" for row in group.to_dict("records")])
                _line(axes, comparison, group, mode, {"color": style["color"], "linestyle": dashes})
        log_values(axes)
    keys = [
        Line2D([], [], color="0.3", linestyle=dashes, marker="o", label=name, markerfacecolor=fill)
        for (_, dashes), name, fill in zip(
            modes, ("loop (line: fit)", "replay (line: fit)"), ("0.3", "white"), strict=True
        )
    ]
    if comparison.many:
        keys = [Line2D([], [], color="0.3", linestyle=dashes, label=mode) for mode, dashes in modes]
    overlay = draw_marks(panels, published, {mode: f"{mode}: {NOT_MEASURED_HERE}" for mode, _ in modes})
    return _finish(figure, comparison, keys, overlay, linestyle="none")


def draw_placements(
    comparison: Comparison, points: pd.DataFrame | None, launch_path: str, nodes: pd.DataFrame | None = None
) -> Figure:
    """The median of every placement per card and N, trials side by side; of many cards the spread of their figures."""
    rows = comparison.rows(launch_path)
    counts = spread_out(sorted(set(rows["launch_count"])))
    if not counts or (points is None and not comparison.many):
        return empty_figure()
    names = series_names(comparison)[:MAX_SERIES]
    timed = _timed_nodes(rows, points, nodes, launch_path)
    figure, grid = plt.subplots(
        2, len(counts), figsize=(width_of(len(counts)), 5.2), squeeze=False, layout="constrained"
    )
    for column, count in enumerate(counts):
        for axes, mode in zip(grid[:, column], ("loop", "node"), strict=True):
            if comparison.many or points is None:
                boxed = rows.assign(each_us=rows["loop_us_per_launch"]) if mode == "loop" else timed
                _boxes(axes, comparison, boxed[boxed["launch_count"] == count], "each_us", names)
            else:
                own = points[(points["launch_count"] == count) & ((points["mode"] == "loop") == (mode == "loop"))]
                _strip(axes, own, names, comparison, as_image=len(points) > MAX_MARKS)
            axes.set_xlim(-0.6, len(names) - 0.4)
            axes.set_xticks([])
            axes.ticklabel_format(axis="y", useOffset=False, style="plain")
            axes.set_title(f"{mode}, N = {count:,}")
    gated = set(timed["mode"]) == {GATED}
    grid[0, 0].set_ylabel("loop: µs per launch")
    grid[1, 0].set_ylabel("node behind a gate: µs" if gated else "replay: µs per node")
    _finish(figure, comparison, [], linestyle="none", title="left to right:")
    if not gated and (timed["mode"] == GATED).any():
        name = "card_name" if not comparison.many else "label"
        plain = [shortened(str(one)) for one in dict.fromkeys(timed.loc[timed["mode"] == PLAIN, name])]
        figure.suptitle(f"node: behind a gate; plain replays of {several(plain[:MAX_SERIES])}", fontsize=10)
    return figure


def _timed_nodes(
    rows: pd.DataFrame, points: pd.DataFrame | None, nodes: pd.DataFrame | None, launch_path: str
) -> pd.DataFrame:
    """What is drawn of nodes: marks of placements, or a figure of each card; ``mode`` says by which replay."""
    if points is not None:
        return points[points["mode"] != "loop"]
    if nodes is not None and launch_path in set(nodes["launch_path"]):
        return nodes[nodes["kernel"] == "tiny"]
    return rows.assign(each_us=rows["replay_us_per_node"], mode=PLAIN)


def _strip(axes: Axes, own: pd.DataFrame, names: Sequence[str], comparison: Comparison, as_image: bool) -> None:
    styles = styles_of(comparison.cards)
    good = own.loc[own["used"], "each_us"].to_numpy(float)
    if len(good):
        margin = 0.1 * (good.max() - good.min()) or 0.05 * good.max()
        axes.set_ylim(good.min() - margin, good.max() + margin)
    for position, name in enumerate(names):
        mine = own[own["card_name"] == name]
        each, used = mine["each_us"].to_numpy(float), mine["used"].to_numpy(bool)
        shown = np.isfinite(each)
        # Spread sideways in their order, trial after trial, so that drifts show and the picture is repeatable.
        across = (mine["trial"] + 0.8 * mine["place"]) / mine["trials"]
        place = position - 0.4 + 0.8 * across.to_numpy(float)
        style: dict[str, Any] = {"marker": styles[name]["marker"], "linestyle": "none", "markersize": 3}
        style["rasterized"] = as_image
        axes.plot(place[shown & used], each[shown & used], color=styles[name]["color"], **style)
        left_out = shown & ~used
        if left_out.any():
            # One wild value would flatten the others: beyond the range it sits on the edge.
            edge = np.clip(each[left_out], *axes.get_ylim()) if len(good) else each[left_out]
            hollow = {**style, "markerfacecolor": "none", "color": "0.2", "clip_on": not len(good)}
            axes.plot(place[left_out], edge, **hollow)


def _boxes(axes: Axes, comparison: Comparison, rows: pd.DataFrame, column: str, names: Sequence[str]) -> None:
    named = _with_label_name(comparison, rows)
    groups = [named.loc[named["label_name"] == name, column].to_numpy(float) for name in names]
    style: dict[str, Any] = {"medianprops": {"color": "black"}, "flierprops": {"markersize": 3}}
    drawn = axes.boxplot(groups, positions=range(len(names)), widths=0.6, patch_artist=True, **style)
    for box, look in zip(drawn["boxes"], styles_of(names).values(), strict=True):
        box.set_facecolor(look["color"])


def _bands(axes: Axes, comparison: Comparison, rows: pd.DataFrame, column: str, linestyle: str) -> None:
    """Median over the cards of a label, and the band from the smallest to the largest."""
    named = _with_label_name(comparison, rows)
    styles = styles_of([name for name, _ in _labels(comparison)])
    for name, style in list(styles.items())[:MAX_SERIES]:
        own = named[named["label_name"] == name]
        if own.empty:
            continue
        look = {**style, "linestyle": linestyle}
        del look["linewidth"]
        medians(axes, own, "launch_count", column, **look)


def _line(axes: Axes, comparison: Comparison, group: pd.DataFrame, mode: str, style: dict[str, Any]) -> None:
    row = group.iloc[0]
    fits = comparison.fits
    for name in ("card_name", "protocol_hash", "launch_path", "kernel"):
        fits = fits[fits[name] == row[name]]
    fit = fits[(fits["mode"] == mode) & (fits["points"] > 1)]
    if len(fit) != 1:
        return
    n = np.geomspace(group["launch_count"].min(), group["launch_count"].max(), 60)
    time = float(fit["fixed_us"].iloc[0]) + float(fit["per_launch_us"].iloc[0]) * n
    axes.plot(n, np.where(time > 0, time, np.nan), linewidth=1.2, zorder=1, **style)


def _path_panels(comparison: Comparison, ylabel: str) -> tuple[Figure, list[tuple[str, Axes]]]:
    paths = comparison.swept_paths
    if not paths:
        return empty_figure(), []
    across = min(len(paths), MAX_ACROSS)
    down = -(-len(paths) // across)
    size = (width_of(across), 4.4 if down == 1 else 1 + 3 * down)
    figure, grid = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained", sharey=True)
    for axes in grid.flat[len(paths) :]:
        axes.remove()
    counts = sorted(set(comparison.compared["launch_count"]))
    panels = list(zip(paths, grid.flat, strict=False))
    for path, axes in panels:
        axes.set_xscale("log", base=2)
        shown = spread_out(counts, 10)
        axes.xaxis.set_major_locator(FixedLocator([float(count) for count in shown]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", rotation=45 if len(shown) > 6 else 0)
        axes.set_xlabel("N (launches or nodes)")
        axes.set_title(path_name(path) if len(paths) > 2 else f"launches issued by {path}")
        axes.grid(True, color="0.9")
        axes.set_axisbelow(True)
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    return figure, panels


def _series(comparison: Comparison, rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    for name, style in styles_of(comparison.cards).items():
        group = rows[rows["card_name"] == name]
        if len(group):
            yield style, group


def _where(row: dict[Hashable, Any]) -> str:
    return f"{row['card_name']}, {row['launch_path']}, N = {row['launch_count']:,}"


def _time(row: dict[Hashable, Any], mode: str) -> str:
    value, low, high = (row[f"{mode}{end}_us"] for end in ("", "_low", "_high"))
    return f"{with_interval(value, low, high, 4)} µs"


def series_names(comparison: Comparison) -> list[str]:
    """Names of what is drawn: cards, or labels where there are many cards."""
    return [name for name, _ in _labels(comparison)] if comparison.many else comparison.cards


def _labels(comparison: Comparison) -> list[tuple[str, tuple[str, bool]]]:
    """Name and key of every label that has something to draw."""
    have = set(comparison.compared[["label", "virtual"]].itertuples(index=False, name=None))
    return [
        (f"{label} ({SIMULATED})" if virtual else label, (label, virtual))
        for label, virtual in comparison.labels
        if (label, virtual) in have
    ]


def _with_label_name(comparison: Comparison, rows: pd.DataFrame) -> pd.DataFrame:
    names = pd.DataFrame(
        [(name, label, virtual) for name, (label, virtual) in _labels(comparison)],
        columns=["label_name", "label", "virtual"],
    )
    return rows.merge(names, on=["label", "virtual"])


def _finish(
    figure: Figure,
    comparison: Comparison,
    more: list[Line2D],
    overlay: Sequence[Line2D] = (),
    title: str = "",
    **style: Any,
) -> Figure:
    """Legend below the panels, so that it never covers data."""
    if not comparison.cards:
        return figure
    names = series_names(comparison)
    styles = list(styles_of(names).items())[:MAX_SERIES]
    handles = [Line2D([], [], label=wrapped(name), **{**own, **style}) for name, own in styles]
    columns = legend_columns([*names, *(str(line.get_label()) for line in overlay)], figure.get_size_inches()[0])
    for line in overlay:
        line.set_label(wrapped(str(line.get_label())))
    lines, look = [*handles, *more, *overlay], {"frameon": False, "title": title or None, "title_fontsize": 9}
    figure.legend(handles=lines, loc="outside lower center", ncols=columns, **look)
    notes = ["line: median over the cards of a label; band: smallest to largest"] if more and comparison.many else []
    if len(names) > MAX_SERIES:
        notes.append(f"{len(names) - MAX_SERIES} more labels are not drawn")
    if notes:
        figure.suptitle("; ".join(notes), fontsize=10)
    watermark(figure, bool(comparison.compared["virtual"].any()))
    return figure
