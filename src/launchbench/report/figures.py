"""Figures of a comparison: speed-up, times, placements. Computes nothing: it draws what the tables hold.

Few cards are drawn one by one; of many cards, medians and the whole range of each label. The same tables give
the same bytes.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from launchbench.report.comparison import SIMULATED, Comparison
from launchbench.report.overlay import draw_marks
from launchbench.report.published import NOT_MEASURED_HERE, Mark
from launchbench.wording import number

MAX_SERIES = 12
MAX_PANELS = 5
NO_RESULTS = "no results yet"

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
_WIDTH = 9.0
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": ["DejaVu Sans"],
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "svg.hashsalt": "launchbench",
    # Outlines instead of text: the figure looks the same where the font is missing.
    "svg.fonttype": "path",
    # A name with dollar signs is a name, not a formula.
    "text.parse_math": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def draw(
    comparison: Comparison,
    points: pd.DataFrame | None,
    launch_path: str,
    published: Mapping[str, Sequence[Mark]] | None = None,
) -> dict[str, dict[str, bytes]]:
    """All figures: name to suffix (``svg``, ``png``) to file content.

    Args:
        comparison: what is compared.
        points: marks as :func:`launchbench.report.placements.marks` gives them; None where there are too many.
        launch_path: the path whose placements are drawn.
        published: marks of published figures, by the figure that has them.
    """
    marks = published or {}
    with _style():
        return {
            "speedup": _files(draw_speedup(comparison, marks.get("speedup", ()))),
            "times": _files(draw_times(comparison, marks.get("times", ()))),
            "placements": _files(draw_placements(comparison, points, launch_path)),
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
                axes.errorbar(group["launch_count"], middle, yerr=bars, capsize=3, **style)
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
                axes.plot(group["launch_count"], group[f"{mode}_us"], **marks)
                _line(axes, comparison, group, mode, {"color": style["color"], "linestyle": dashes})
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 1)))
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


def draw_placements(comparison: Comparison, points: pd.DataFrame | None, launch_path: str) -> Figure:
    """The median of every placement per card and N, trials side by side; of many cards the spread of their figures."""
    rows = comparison.rows(launch_path)
    counts = _spread_out(sorted(set(rows["launch_count"])))
    if not counts or (points is None and not comparison.many):
        return _empty()
    names = _names(comparison)[:MAX_SERIES]
    figure, grid = plt.subplots(2, len(counts), figsize=(_WIDTH, 5.2), squeeze=False, layout="constrained")
    for column, count in enumerate(counts):
        for axes, (mode, unit) in zip(grid[:, column], (("loop", "launch"), ("replay", "node")), strict=True):
            if comparison.many or points is None:
                _boxes(axes, comparison, rows[rows["launch_count"] == count], f"{mode}_us_per_{unit}", names)
            else:
                own = points[(points["launch_count"] == count) & (points["mode"] == mode)]
                _strip(axes, own, names, comparison)
            axes.set_xlim(-0.6, len(names) - 0.4)
            axes.set_xticks([])
            axes.ticklabel_format(axis="y", useOffset=False, style="plain")
            axes.set_ylabel(f"{mode}: µs per {unit}" if column == 0 else "")
        grid[0, column].set_title(f"N = {count:,}")
    return _finish(figure, comparison, [], linestyle="none", title="left to right:")


def _strip(axes: Axes, own: pd.DataFrame, names: Sequence[str], comparison: Comparison) -> None:
    styles = _styles(comparison.cards)
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
    for box, look in zip(drawn["boxes"], _styles(names).values(), strict=True):
        box.set_facecolor(look["color"])


def _bands(axes: Axes, comparison: Comparison, rows: pd.DataFrame, column: str, linestyle: str) -> None:
    """Median over the cards of a label, and the band from the smallest to the largest."""
    named = _with_label_name(comparison, rows)
    styles = _styles([name for name, _ in _labels(comparison)])
    for name, style in list(styles.items())[:MAX_SERIES]:
        own = named[named["label_name"] == name]
        if own.empty:
            continue
        sns.lineplot(
            own,
            x="launch_count",
            y=column,
            estimator="median",
            errorbar=("pi", 100),
            ax=axes,
            color=style["color"],
            marker=style["marker"],
            linestyle=linestyle,
            markersize=5,
            legend=False,
        )


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
    paths = comparison.launch_paths
    if not paths:
        return _empty(), []
    figure, grid = plt.subplots(1, len(paths), figsize=(_WIDTH, 4.4), squeeze=False, layout="constrained", sharey=True)
    counts = sorted(set(comparison.compared["launch_count"]))
    for axes, path in zip(grid[0], paths, strict=True):
        axes.set_xscale("log", base=2)
        shown = _spread_out(counts, 10)
        axes.xaxis.set_major_locator(FixedLocator([float(count) for count in shown]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", rotation=45 if len(shown) > 6 else 0)
        axes.set_xlabel("N (launches or nodes)")
        axes.set_title(f"launches issued by {path}")
        axes.grid(True, color="0.9")
        axes.set_axisbelow(True)
    grid[0, 0].set_ylabel(ylabel)
    return figure, list(zip(paths, grid[0], strict=True))


def _series(comparison: Comparison, rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    for name, style in _styles(comparison.cards).items():
        group = rows[rows["card_name"] == name]
        if len(group):
            yield style, group


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line style of each name: the last two tell the series apart in grey."""
    palette = sns.color_palette("colorblind", 10)
    dashes = ("solid", "dashed", "dashdot", "dotted")
    return {
        name: {
            "color": palette[position % 10],
            "marker": _MARKERS[position % len(_MARKERS)],
            "linestyle": dashes[position % len(dashes)],
            "markersize": 5,
            "linewidth": 1.4,
        }
        for position, name in enumerate(names)
    }


def _names(comparison: Comparison) -> list[str]:
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
    names = _names(comparison)
    styles = list(_styles(names).items())[:MAX_SERIES]
    handles = [Line2D([], [], label=_wrapped(name), **{**own, **style}) for name, own in styles]
    texts = [*names, *(str(line.get_label()) for line in overlay)]
    longest = max(len(line) for text in texts for line in _wrapped(text).split("\n"))
    columns = max(1, min(6, 110 // (longest + 8)))
    for line in overlay:
        line.set_label(_wrapped(str(line.get_label())))
    lines, look = [*handles, *more, *overlay], {"frameon": False, "title": title or None, "title_fontsize": 9}
    figure.legend(handles=lines, loc="outside lower center", ncols=columns, **look)
    notes = ["line: median over the cards of a label; band: smallest to largest"] if more and comparison.many else []
    if len(names) > MAX_SERIES:
        notes.append(f"{len(names) - MAX_SERIES} more labels are not drawn")
    if notes:
        figure.suptitle("; ".join(notes), fontsize=10)
    _watermark(figure, comparison)
    return figure


def _watermark(figure: Figure, comparison: Comparison) -> None:
    if comparison.compared["virtual"].any():
        figure.text(
            0.5,
            0.55,
            "SIMULATED GPU INCLUDED\nNOT A MEASUREMENT",
            fontsize=26,
            color="#b00020",
            alpha=0.22,
            ha="center",
            va="center",
            rotation=18,
            zorder=10,
        )


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, 26, break_on_hyphens=False)) or name


def _spread_out(values: Sequence[int], most: int = MAX_PANELS) -> list[int]:
    """At most so many of the values, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(at)] for at in np.linspace(0, len(values) - 1, most)]


def _empty() -> Figure:
    figure = plt.figure(figsize=(_WIDTH, 2.4))
    figure.text(0.5, 0.5, NO_RESULTS, ha="center", va="center", fontsize=16, color="0.3")
    return figure


@contextmanager
def _style() -> Iterator[None]:
    with plt.rc_context():
        matplotlib.rcdefaults()
        sns.set_theme(style="ticks")
        matplotlib.rcParams.update(_STYLE)
        yield


def _files(figure: Figure) -> dict[str, bytes]:
    svg, png = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
    plt.close(figure)
    return {"svg": svg.getvalue(), "png": png.getvalue()}
