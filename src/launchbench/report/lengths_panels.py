"""What the figures over kernel length have in common: a panel for each N, and a series for each card or label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from launchbench.report.cells import label_name
from launchbench.report.drawing import MAX_PANELS, spread_out, styles_among, width_of
from launchbench.report.lengths import Section

LINEAR_BELOW_US = 0.5
"""A logarithmic axis has no place for kernels of no length: below the shortest other one it is linear."""

_HEIGHT = 4.6
_TICKS_US = (0, 0.5, 1, 10, 100, 1000)


@dataclass(frozen=True)
class Panels:
    """The figure, its axes by N, the styles of the series by name, and the cells with the column ``series``."""

    figure: Figure
    axes: dict[int, Axes]
    styles: dict[str, dict[str, Any]]
    _cells: pd.DataFrame

    @property
    def first(self) -> Axes:
        """The leftmost, which has the label of the axis that all share."""
        return next(iter(self.axes.values()))

    def series(self, count: int) -> Iterator[tuple[str, dict[str, Any], pd.DataFrame]]:
        """Name, style and rows, by kernel length, of each series at this N; the rows may be none."""
        rows = self._cells[self._cells["launch_count"] == count]
        for name, style in self.styles.items():
            yield name, style, rows[rows["series"] == name].sort_values("kernel_us")


def panels(section: Section) -> Panels | None:
    """Empty panels for the cells that have repetitions; None where there are none."""
    used = section.cells[section.cells["repetitions_used"] > 0]
    counts = spread_out(sorted(set(used["launch_count"])), MAX_PANELS)
    if not counts:
        return None
    cells = used.assign(series=_series_names(section, used))
    styles = styles_among(list(dict.fromkeys([*section.elsewhere, *cells["series"]])), set(cells["series"]))
    figure, grid = plt.subplots(
        1, len(counts), figsize=(width_of(len(counts)), _HEIGHT), squeeze=False, layout="constrained", sharey=True
    )
    axes = dict(zip(counts, grid[0], strict=True))
    for count, one in axes.items():
        _over_lengths(one, count)
    return Panels(figure, axes, styles, cells)


def _series_names(section: Section, rows: pd.DataFrame) -> list[str]:
    if not section.many:
        return list(rows["card_name"])
    return [label_name(label, bool(virtual)) for label, virtual in zip(rows["label"], rows["virtual"], strict=True)]


def _over_lengths(axes: Axes, count: int) -> None:
    axes.set_xscale("symlog", linthresh=LINEAR_BELOW_US, linscale=0.35)
    axes.xaxis.set_major_locator(FixedLocator(list(_TICKS_US)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", rotation=45)
    axes.set_xlim(-0.1, 1500)
    axes.set_xlabel("kernel length (µs)")
    axes.set_title(f"N = {count:,}")
    axes.grid(True, color="0.9")
    axes.set_axisbelow(True)
