"""The look that all figures share, and what turns a figure into files. It knows no table."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from launchbench.report.svg import told
from launchbench.wording import number, with_interval

MAX_SERIES = 12
MAX_PANELS = 5
NO_RESULTS = "no results yet"

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
WIDTH, ALONE = 9.0, 5.6
_IMAGE_DPI = 200  # of what is drawn as an image inside an SVG
_PNG_DPI = 150
PALETTE = (
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
)
"""Seaborn's palette "colorblind"."""

_TICKS = {"color": ".15", "major.size": 6.0, "major.width": 1.25, "minor.size": 4.0, "minor.width": 1.0}
_SEABORN: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": ".15",
    "axes.labelcolor": ".15",
    "axes.linewidth": 1.25,
    "grid.color": ".8",
    "grid.linewidth": 1.0,
    "legend.title_fontsize": 12.0,
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
    "text.color": ".15",
    **{f"{axis}.{name}": value for axis in ("xtick", "ytick") for name, value in _TICKS.items()},
}
"""Seaborn's style "ticks", written out: loading seaborn loads scipy.stats, which takes longer than a figure."""

OWN_STYLE: dict[Any, Any] = {
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


def styles_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line style of each name: the last two tell the series apart in grey."""
    dashes = ("solid", "dashed", "dashdot", "dotted")
    return {
        name: {
            "color": PALETTE[position % len(PALETTE)],
            "marker": _MARKERS[position % len(_MARKERS)],
            "linestyle": dashes[position % len(dashes)],
            "markersize": 5,
            "linewidth": 1.4,
        }
        for position, name in enumerate(names)
    }


def styles_among(names: Sequence[str], drawn: Collection[str]) -> dict[str, dict[str, Any]]:
    """Of the names that are drawn, at most ``MAX_SERIES``, the styles that they have among all of them."""
    styles = [(name, style) for name, style in styles_of(names).items() if name in drawn]
    return dict(styles[:MAX_SERIES])


def watermark(figure: Figure, simulated: bool) -> None:
    """Mark a figure that holds simulated GPUs, across its middle."""
    if simulated:
        figure.text(
            0.5,
            0.55,
            "SIMULATED GPU INCLUDED\nNOT A MEASUREMENT",
            fontsize=min(26.0, 8 * figure.get_size_inches()[1]),  # within a low figure too
            color="#b00020",
            alpha=0.22,
            ha="center",
            va="center",
            rotation=18,
            zorder=10,
        )


def wrapped(name: str) -> str:
    """The name in lines that fit a legend."""
    return "\n".join(textwrap.wrap(name, 26, break_on_hyphens=False)) or name


def gain_of(row: Mapping[Any, Any]) -> str:
    """The speed-up of a row with its interval, as a mark tells it."""
    return f"speed-up {with_interval(row['speedup'], row['speedup_low'], row['speedup_high'])}"


def width_of(panels: int) -> float:
    """Inches of a figure with so many panels side by side: one alone needs less, and can be read on a phone."""
    return WIDTH if panels > 1 else ALONE


def medians(axes: Axes, rows: pd.DataFrame, x: str, y: str, band: bool = True, **look: Any) -> None:
    """The median of ``y`` at each ``x``, and the band from the smallest to the largest."""
    import seaborn as sns  # here alone: see _SEABORN

    ends = ("pi", 100) if band else None
    sns.lineplot(rows, x=x, y=y, estimator="median", errorbar=ends, ax=axes, legend=False, **look)


def log_values(axes: Axes) -> None:
    """A logarithmic vertical axis that has numbers also within a decade, none of them as a formula; after drawing."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    decades = np.log10(high / low)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5) if decades < 1.2 else (1, 3) if decades < 3 else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 1)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def legend_columns(names: Sequence[str], width: float = WIDTH) -> int:
    """How many of the names fit beside each other below a figure of so many inches."""
    longest = max((len(line) for name in names for line in wrapped(name).split("\n")), default=0)
    return max(1, min(6, int(110 * width / WIDTH) // (longest + 8)))


def spread_out(values: Sequence[int], most: int = MAX_PANELS) -> list[int]:
    """At most so many of the values, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(at)] for at in np.linspace(0, len(values) - 1, most)]


def empty_figure() -> Figure:
    """What is drawn where there is nothing to draw."""
    figure = plt.figure(figsize=(WIDTH, 1.2))
    figure.text(0.5, 0.5, NO_RESULTS, ha="center", va="center", fontsize=16, color="0.3")
    return figure


@contextmanager
def styled() -> Iterator[None]:
    """The look of all figures, whatever the user has configured."""
    with plt.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SEABORN | OWN_STYLE)
        yield


def files_of(figure: Figure) -> dict[str, bytes]:
    """Suffix (``svg``, ``png``) -> content; the same figure gives the same bytes.

    The canvases are asked themselves: ``savefig`` would draw everything once more before each file.
    """
    svg, png = io.BytesIO(), io.BytesIO()
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")
    figure.dpi = _IMAGE_DPI
    FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    figure.dpi = _PNG_DPI
    FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})  # type: ignore[no-untyped-call]
    plt.close(figure)
    return {"svg": told(svg.getvalue()), "png": png.getvalue()}
