"""The figure of the decode step's speed-up over batch. Computes nothing: it draws what the tables hold."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from launchbench.report.decode import Section, slowed
from launchbench.report.drawing import (
    MAX_PANELS,
    MAX_SERIES,
    empty_figure,
    gain_of,
    styles_of,
    watermark,
    width_of,
    wrapped,
)
from launchbench.report.drawn import Drawings
from launchbench.report.svg import tell

FIGURE = "decode"

_HEIGHT = 4.2
_SLOWED = "the host was slower than elsewhere"


def drawings(section: Section) -> Drawings:
    """What draws it, by its name."""
    return {FIGURE: lambda: draw_decode(section)}


def draw_decode(section: Section) -> Figure:
    """Speed-up over batch, one panel per card: a line with intervals for each width."""
    used = section.points[section.points["repetitions_used"] > 0]
    cards = list(dict.fromkeys(used["card_name"]))
    if not cards:
        return empty_figure()
    shown = cards[:MAX_PANELS]
    widths = sorted(set(used["width"]))[:MAX_SERIES]
    styles = styles_of([f"width {width:,}" for width in widths])
    figure, grid = plt.subplots(
        1, len(shown), figsize=(width_of(len(shown)), _HEIGHT), squeeze=False, layout="constrained", sharey=True
    )
    any_slowed = False
    for axes, card in zip(grid[0], shown, strict=True):
        rows: pd.DataFrame = used[used["card_name"] == card]
        rows = rows.assign(slowed=slowed(rows.to_dict("records")))
        any_slowed |= bool(rows["slowed"].any())
        _prepare(axes, card, sorted(set(rows["batch"])))
        for width, style in zip(widths, styles.values(), strict=True):
            own: pd.DataFrame = rows[rows["width"] == width].sort_values("batch")
            if len(own):
                middle = own["speedup"].to_numpy(float)
                bars = np.nan_to_num(np.abs(own[["speedup_low", "speedup_high"]].to_numpy(float).T - middle))
                drawn = axes.errorbar(own["batch"], middle, yerr=bars, capsize=3, **style)
                records = own.to_dict("records")
                texts = [f"{card}, width {width:,}, batch {row['batch']:,}: {gain_of(row)}" for row in records]
                slow = own["slowed"].to_numpy(bool)
                tell(drawn[0], ["" if hollow else text for text, hollow in zip(texts, slow, strict=True)])
                if slow.any():
                    hollow_look = {**style, "linestyle": "none", "markerfacecolor": "white", "zorder": 3}
                    [marks] = axes.plot(own["batch"][slow], middle[slow], **hollow_look)
                    tell(marks, [f"{text}; {_SLOWED}" for text, hollow in zip(texts, slow, strict=True) if hollow])
        axes.set_ylim(bottom=0)
    grid[0, 0].set_ylabel("speed-up of the graph\n(eager time / replay time)")
    handles = [Line2D([], [], label=name, **style) for name, style in styles.items()]
    if any_slowed:
        handles.append(
            Line2D([], [], color="0.3", marker="o", linestyle="none", markerfacecolor="white", label=_SLOWED)
        )
    handles.append(Line2D([], [], color="0.45", linestyle=":", label="no gain (1)"))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(2 if len(shown) == 1 else 4, len(handles)), frameon=False
    )
    cut = f"; {len(shown)} of {len(cards)} cards, the table has all" if len(shown) < len(cards) else ""
    figure.suptitle(f"a token of every sequence, with 95 % intervals{cut}", fontsize=10)
    watermark(figure, section.simulated)
    return figure


def _prepare(axes: Axes, card: str, batches: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(batches))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("batch (sequences decoded together)")
    axes.set_title(wrapped(card))
    axes.grid(True, color="0.9")
    axes.set_axisbelow(True)
    axes.axhline(1, color="0.45", linewidth=1, linestyle=":", zorder=1)
