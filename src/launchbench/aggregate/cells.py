"""One figure a trial, and one row a cell: what several fresh processes say of one mode together.

A trial's figure is the mean over its placements of each placement's median. A cell's interval comes from its trials
alone (``trials``). It may not pool rows that differ in anything of ``SAME_CELL``. It reads no file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from launchbench.aggregate import trials
from launchbench.aggregate.stats import Batch, Estimate
from launchbench.results.protocol import COMPARED_MODES

SAME_CELL = ["site", "label", "card", "hostname", "driver_version", "nvcc"]
SAME_CELL += ["launch_path", "kernel", "launch_count", "protocol_hash", "virtual"]
"""Trials equal in all of these are of one cell: they measured the same thing."""

CLOCKS = ("gpu_us", "issue_us", "total_us")

Floats = NDArray[np.float64]


def trial_figures(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Figures of every trial and mode, from the repetitions that are used.

    Args:
        rows: ``keys``, ``placement``, ``used``, and ``gpu_us``, ``issue_us`` and ``total_us``, a row a repetition.
        keys: what tells trials and modes apart, such as the job, launch path, kernel and mode.

    Returns:
        A row for each distinct ``keys``, sorted by them: the three times as means over the placements of each
        placement's median; ``placement_low_us`` and ``placement_high_us``, the smallest and the largest of these
        medians of GPU time; ``placements``, ``repetitions_used`` and ``repetitions_flagged``. Times are missing
        where nothing is used.
    """
    used = rows[rows["used"]]
    medians = used.groupby([*keys, "placement"], sort=True)[list(CLOCKS)].median()
    grouped = medians.groupby(level=list(range(len(keys))), sort=True)
    figures = grouped[list(CLOCKS)].mean()
    figures["placement_low_us"] = grouped["gpu_us"].min()
    figures["placement_high_us"] = grouped["gpu_us"].max()
    figures["placements"] = grouped.size()
    counts = rows.groupby(keys, sort=True)["used"].agg(["sum", "size"])
    figures = figures.reindex(counts.index)
    figures["placements"] = figures["placements"].fillna(0).astype("int64")
    figures["repetitions_used"] = counts["sum"].astype("int64")
    figures["repetitions_flagged"] = (counts["size"] - counts["sum"]).astype("int64")
    return figures.reset_index()


def current(rows: pd.DataFrame, cell: Sequence[str] = SAME_CELL) -> pd.DataFrame:
    """The rows that count: of each cell and number of a trial those of one job that are not superseded.

    Where two such jobs are left, the newer has no loop and replay together and does not stand for the older.

    Args:
        rows: ``run_id``, ``cell``, ``trial``, ``mode``, ``gpu_us`` and ``superseded``, sorted by time within each cell
            and trial.
        cell: columns that tell cells apart.
    """
    usable = rows[~rows["superseded"].astype(bool) & rows["gpu_us"].notna()]
    # Jobs are numbered by time within their group, so of equally complete ones the last is the newest.
    job, group = (_numbers(usable, [*first, *cell, "trial"]) for first in (["run_id"], []))
    complete = np.bincount(job, weights=usable["mode"].isin(COMPARED_MODES)) == len(COMPARED_MODES)
    score = complete[job] * len(job) + job
    best = np.zeros(len(job), dtype=np.int64)
    np.maximum.at(best, group, score)
    chosen: pd.DataFrame = usable[score == best[group]]
    return chosen


def _numbers(rows: pd.DataFrame, keys: list[str]) -> NDArray[np.int64]:
    """Number of each row's group, in the order of their first rows."""
    return np.asarray(rows.groupby(keys, dropna=False, sort=False).ngroup(), dtype=np.int64)


def cell_figures(figures: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Every mode of every cell over its trials.

    Args:
        figures: as :func:`current` gives them.
        keys: what makes a cell and mode.

    Returns:
        A row for each distinct ``keys``, sorted by them: ``trials``; ``gpu_us`` with ``gpu_low_us`` and
        ``gpu_high_us``, its 95 % interval; ``issue_us`` and ``total_us``; the smallest and largest placement of all
        trials; ``reason``, why there is no interval.
    """
    columns = [*keys, "trials", "gpu_us", "gpu_low_us", "gpu_high_us", "issue_us", "total_us"]
    columns += ["placement_low_us", "placement_high_us", "placements", "reason"]
    if figures.empty:
        return pd.DataFrame(columns=columns)
    groups = figures.groupby(keys, sort=True, dropna=False)
    result = groups.agg(
        trials=("gpu_us", "size"),
        issue_us=("issue_us", "mean"),
        total_us=("total_us", "mean"),
        placement_low_us=("placement_low_us", "min"),
        placement_high_us=("placement_high_us", "max"),
        placements=("placements", "sum"),
    )
    samples = [group.to_numpy(np.float64) for _, group in groups["gpu_us"]]
    batch = _by_size(samples, trials.mean_time)
    result["gpu_us"], result["gpu_low_us"], result["gpu_high_us"] = batch.value, batch.low, batch.high
    result["reason"] = _reasons(samples, batch)
    return result.reset_index()[columns]


def speedups(figures: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Loop divided by replay of every cell, and the replays after which its graph has paid for itself.

    Args:
        figures: rows of modes ``loop`` and ``replay`` as :func:`current` gives them, with ``mode``, ``trial`` and
            ``once_us``: capture, instantiation and upload of the trial, the median of its samples.
        keys: what makes a cell, without the mode.

    Returns:
        A row for each distinct ``keys`` with both modes in some trial: ``speedup``, ``break_even_replays``, each
        with ``_low`` and ``_high`` and, where there is no interval, ``_reason``. Break-even is by host times, as what
        making a graph costs is.
    """
    sides = [
        figures[figures["mode"] == mode].set_index([*keys, "trial"]).add_suffix(f"_{mode}")
        for mode in ("loop", "replay")
    ]
    both = sides[0].join(sides[1], how="inner")
    times = {name: both[name].to_numpy(np.float64) for name in _COMPARED}
    rows: list[dict[str, Any]] = []
    for at in _positions(both, keys):
        loop, replay = (times[f"gpu_us_{mode}"][at] for mode in COMPARED_MODES)
        ratio = trials.single(trials.ratio(loop[None], replay[None]), len(at))
        row = dict(zip(keys, both.index[at[0]], strict=False))  # the last level is the trial
        row |= _spread("speedup", ratio)
        once = times["once_us_replay"][at]
        saved = times["total_us_loop"][at] - times["total_us_replay"][at]
        known = np.isfinite(once) & (once > 0)
        if known.any():
            row |= _spread("break_even_replays", trials.break_even(once[known], saved[known]))
        rows.append(row)
    names = [f"{name}{end}" for name in ("speedup", "break_even_replays") for end in ("", "_low", "_high", "_reason")]
    return pd.DataFrame(rows, columns=[*keys, *names])


_COMPARED = ("gpu_us_loop", "gpu_us_replay", "total_us_loop", "total_us_replay", "once_us_replay")


def _positions(rows: pd.DataFrame, keys: list[str]) -> list[NDArray[np.intp]]:
    """The rows of each group by the first levels of the index, sorted by these."""
    if rows.empty:
        return []
    number = rows.groupby(level=list(range(len(keys))), sort=True, dropna=False).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)


def _spread(name: str, estimate: Estimate) -> dict[str, Any]:
    return {
        name: estimate.value,
        f"{name}_low": estimate.low,
        f"{name}_high": estimate.high,
        f"{name}_reason": estimate.reason,
    }


def _by_size(samples: list[Floats], statistic: Callable[[Floats], Batch]) -> Batch:
    """The statistic of each sample; samples of one size go through together."""
    parts = np.full((3, len(samples)), np.nan)
    sizes = np.array([len(sample) for sample in samples])
    for size in np.unique(sizes):
        at = np.flatnonzero(sizes == size)
        batch = statistic(np.stack([samples[index] for index in at]))
        parts[:, at] = batch.value, batch.low, batch.high
    return Batch(*parts)


def _reasons(samples: list[Floats], batch: Batch) -> list[str]:
    return [
        "" if not np.isnan(low) else trials.TOO_FEW_TRIALS if len(sample) < trials.MIN_TRIALS else trials.ALL_EQUAL
        for sample, low in zip(samples, batch.low, strict=True)
    ]
