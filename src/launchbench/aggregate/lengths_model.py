"""What loop and replay of N kernels of one length take, as a model of five costs; fitted, evaluated and turned round.

A loop is a pipeline of two stages: the host issues a launch in i, the device executes a queued one in k = p + L, where
L is the kernel's length. The first has to be issued and the last has to be executed, in between the slower stage sets
the pace: ``i + k + (N - 1) max(i, k) + fixed``. A replay is ``fixed + N (n + L)``. All times are microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

AHEAD = 0.9
"""A host that has issued everything by this share of the loop's GPU time, or earlier, ran ahead of the device."""

IN_FLIGHT = 2.0
"""Launches that are under way at the end although the host sets the pace: the one that runs, and one before it."""

HELPS = 1.02
"""A graph helps while its speed-up is above this."""

LONGEST_US = 1e6
"""Nobody asks about longer kernels."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LengthModel:
    """The costs; NaN where the cells do not tell.

    Attributes:
        issue_us: host: issuing one launch, i.
        pace_us: device: one launch that is queued already, less its kernel, p.
        loop_fixed_us: part of the loop that depends on nothing; NaN counts as none.
        node_us: device: one node of a replay, less its kernel, n.
        replay_fixed_us: part of a replay that depends on nothing; NaN counts as none.
        kernel_scale: length of the kernels / length asked for.
    """

    issue_us: float
    pace_us: float
    loop_fixed_us: float
    node_us: float
    replay_fixed_us: float
    kernel_scale: float

    def loop_us(self, count: float, kernel_us: float) -> float:
        """GPU time of the loop; NaN where neither stage is known."""
        length = self.kernel_scale * kernel_us
        issue, device = self.issue_us, self.pace_us + length
        fixed = 0.0 if math.isnan(self.loop_fixed_us) else self.loop_fixed_us
        if math.isnan(device):
            return fixed + count * issue + length
        if math.isnan(issue):
            return fixed + count * device
        return fixed + issue + device + (count - 1) * max(issue, device)

    def replay_us(self, count: float, kernel_us: float) -> float:
        """GPU time of one replay."""
        fixed = 0.0 if math.isnan(self.replay_fixed_us) else self.replay_fixed_us
        return fixed + count * (self.node_us + self.kernel_scale * kernel_us)

    def speedup(self, count: float, kernel_us: float) -> float:
        """Loop divided by replay."""
        return self.loop_us(count, kernel_us) / self.replay_us(count, kernel_us)

    def crossover_us(self, count: float) -> float:
        """Kernel length at which the speed-up is ``HELPS``: 0 where it is never more, NaN where it cannot be told."""

        def gain(kernel_us: float) -> float:
            return self.loop_us(count, kernel_us) - HELPS * self.replay_us(count, kernel_us)

        if any(map(math.isnan, (self.pace_us, gain(0)))) or gain(LONGEST_US) > 0:
            return math.nan
        from scipy.optimize import brentq  # takes half a second to load, and most tables need none of it

        return float(brentq(gain, 0.0, LONGEST_US, xtol=1e-3)) if gain(0) > 0 else 0.0


def ahead(count: int, issue_us: float, gpu_us: float) -> float:
    """Launches that were issued and not executed when the last call returned."""
    return count * (1 - issue_us / gpu_us)


def pace(count: int, kernel_us: float, issue_us: float, gpu_us: float) -> tuple[str, str]:
    """Whose pace a loop went at, one of ``lengths_words.PACES``, and why that cannot be told."""
    if not gpu_us > 0:
        return "cannot-tell", "no valid samples"
    if count == 1:
        return "cannot-tell", "a single launch has no pace"
    if issue_us < AHEAD * gpu_us and ahead(count, issue_us, gpu_us) > IN_FLIGHT:
        return "device", ""
    if count * kernel_us >= AHEAD * gpu_us:
        return "cannot-tell", "issuing and the kernels take about as long"
    return "host", ""


def fit(counts: Floats, kernels_us: Floats, loops_us: Floats, replays_us: Floats, paces: list[str]) -> LengthModel:
    """The model of the cells, by least squares of the relative deviations.

    The short kernels, with which the host sets the pace, tell what issuing costs; the long ones what the device needs
    between two kernels. A loop of which it cannot be told whose pace it went at is not used.

    Args:
        counts: N of each cell, shape (cells,).
        kernels_us: asked for, same shape.
        loops_us: GPU times, above 0.
        replays_us: the same.
        paces: one of ``lengths_words.PACES`` each.
    """
    several = len(np.unique(counts)) > 1
    node, fixed, scale = _replays(counts, kernels_us, replays_us, several)
    lengths = scale * kernels_us
    word = np.array(paces, dtype=object)
    host, device = word == "host", word == "device"
    used = host | device
    if not used.any():
        return LengthModel(math.nan, math.nan, math.nan, node, fixed, scale)
    # In each regime one cost comes N times, the other once.
    issue, queued = np.where(host, counts, 1.0)[used], np.where(device, counts, 1.0)[used]
    y = loops_us[used]
    rest = y - np.where(device, counts * lengths, lengths)[used]
    columns = {"fixed": np.ones(len(y)), "issue": issue, "pace": queued}
    if not host.any():
        del columns["issue"]
    if not device.any():
        del columns["pace"]
    if not several:
        del columns["fixed"]
    found = _solve(columns, rest, y)
    if found is None and "fixed" in columns:
        del columns["fixed"]
        found = _solve(columns, rest, y)
    found = found or {}
    return LengthModel(
        found.get("issue", math.nan), found.get("pace", math.nan), found.get("fixed", math.nan), node, fixed, scale
    )


def _replays(counts: Floats, kernels_us: Floats, replays_us: Floats, several: bool) -> tuple[float, float, float]:
    columns = {"node": counts}
    if several:
        columns["fixed"] = np.ones(len(counts))
    if len(np.unique(kernels_us)) > 1:
        columns["scale"] = counts * kernels_us
    rest = replays_us if "scale" in columns else replays_us - counts * kernels_us
    found = _solve(columns, rest, replays_us) or {}
    return found.get("node", math.nan), found.get("fixed", math.nan), found.get("scale", 1.0)


def _solve(columns: dict[str, Floats], rest: Floats, weight: Floats) -> dict[str, float] | None:
    """Least squares of ``(rest - columns) / weight``; None where the columns do not tell their costs apart."""
    design = np.column_stack(list(columns.values())) / weight[:, None]
    size = np.abs(design).max(axis=0)
    parameters, _, rank, _ = np.linalg.lstsq(design / size, rest / weight, rcond=1e-9)
    if rank < len(columns):
        return None
    return dict(zip(columns, map(float, parameters / size), strict=True))
