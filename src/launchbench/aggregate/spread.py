"""Identical cards against each other: how far apart cards of one type lie at one launch path, kernel and N.

It pools only rows that agree in ``ALIKE``: a difference of hosts, drivers, compilers or protocols is not one of
cards. It reads no file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from launchbench.aggregate.stats import CONFIDENCE
from launchbench.aggregate.trials import MIN_TRIALS
from launchbench.results import columns
from launchbench.results.protocol import COMPARED_MODES

ALIKE = ["label", "gpu_name", "cpu_model", "driver_version", "nvcc", "protocol_hash", "virtual"]
ALIKE += ["launch_path", "kernel", "launch_count"]

FEW_PROCESSES = f"cannot tell cards from processes: fewer than {MIN_TRIALS} on a card"
NOT_APART = "cards not told apart: processes on one card differ as much"
APART = "cards differ by more than processes on one card"
NO_SPREAD = "cannot tell: processes on one card do not differ at all"


def spread(trials: pd.DataFrame) -> pd.DataFrame:
    """One row for each type of card, launch path, kernel, N and mode that two or more cards were measured at.

    Args:
        trials: rows of ``columns.TRIALS`` that count; those that are superseded, have no figure or are of another mode
            than loop and replay are left out. Several rows of one card are processes of it.

    Returns:
        The columns of ``columns.SPREAD``, sorted: the median over cards of each card's mean, the smallest and the
        largest of these means, their distance in percent of the median, and a verdict at the 5 % level by one-way
        analysis of variance (Fisher, "Statistical Methods for Research Workers", 1925) of the processes' logarithms.
    """
    rows = trials[~trials["superseded"].astype(bool) & (trials["gpu_us"] > 0)]
    found = []
    for mode in COMPARED_MODES:
        known = rows[rows["mode"] == mode]
        figure = known["gpu_us"] / known["launch_count"]
        known = known.assign(figure=figure, logarithm=np.log(figure))
        cards = known.groupby([*ALIKE, "gpu_uuid"], dropna=False, sort=True).agg(
            card=("card", "first"),
            mean=("figure", "mean"),
            processes=("figure", "size"),
            log_mean=("logarithm", "mean"),
            log_variance=("logarithm", "var"),
        )
        hosts = known.groupby(ALIKE, dropna=False, sort=True)["hostname"].nunique()
        for (key, group), host_count in zip(cards.groupby(level=ALIKE, dropna=False, sort=True), hosts, strict=True):
            if len(group) >= 2:
                found.append(
                    {**dict(zip(ALIKE, key, strict=True)), "mode": mode, "hosts": host_count, **_compare(group)}
                )
    frame = pd.DataFrame(found, columns=[column.name for column in columns.SPREAD])
    return frame.sort_values([*ALIKE, "mode"], kind="stable", ignore_index=True)


def _compare(cards: pd.DataFrame) -> dict[str, Any]:
    """The row of cards of one type; ``cards`` has a row for each."""
    means = cards["mean"].to_numpy(np.float64)
    low, high, median = int(means.argmin()), int(means.argmax()), float(np.median(means))
    return {
        "cards": len(cards),
        "processes": int(cards["processes"].sum()),
        "median_us": median,
        "smallest_us": float(means[low]),
        "smallest_card": cards["card"].iloc[low],
        "largest_us": float(means[high]),
        "largest_card": cards["card"].iloc[high],
        "spread_percent": 100 * float(means[high] - means[low]) / median,
        "verdict": _verdict(cards),
    }


def _verdict(cards: pd.DataFrame) -> str:
    counts = cards["processes"].to_numpy(np.float64)
    if counts.min() < MIN_TRIALS:
        return FEW_PROCESSES
    means = cards["log_mean"].to_numpy(np.float64)
    within = float(((counts - 1) * cards["log_variance"]).sum()) / (counts.sum() - len(cards))
    if within < 1e-18:
        return NO_SPREAD
    between = float((counts * (means - np.average(means, weights=counts)) ** 2).sum()) / (len(cards) - 1)
    by_chance = float(special.fdtrc(len(cards) - 1, counts.sum() - len(cards), between / within))
    return APART if by_chance < 1 - CONFIDENCE else NOT_APART
