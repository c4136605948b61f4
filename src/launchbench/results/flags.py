"""Why a repetition, or a whole block, is left out of the summary.

It decides only from what is physically sure or was recorded by the job; an unusual but possible time is
never flagged here. Loop and replay of one repetition are used or left out together, as a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from launchbench.results.protocol import MODES, Protocol
from launchbench.results.record import Block, DeviceState

HOST_SLACK_US = 20.0
HOST_SLACK_RATIO = 1.01
"""GPU time may exceed the host's total by this much before the two cannot belong together.

The last event is reached before the synchronize returns, so the events end inside the host's interval. They
may begin before it: the first event is recorded ahead of the first clock reading, and an idle device passes
it at once. That head start is the duration of one event record call, 1 to 10 us; 1 % is far beyond the
difference in pace of two quartz clocks, 20 us far beyond the 0.5 us resolution of events.
"""

THROTTLING = (
    "sw_power_cap",
    "hw_slowdown",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
)
"""NVML clock events that mean a card slower than its settings; an idle or a configured clock is none."""

NOT_IN_RECORD = "its record has no correctness check for it"
NO_REPETITIONS = "no repetitions in the CSV"

_ROW_REASONS = (
    "no GPU time",
    "GPU time not positive",
    "host time not positive",
    "total time below issue time",
    "GPU time longer than the host saw",
)
_PAIR_REASONS = ("recorded twice", *(f"no {mode} in this repetition" for mode in MODES))
_BITS_PER_MODE = len(_ROW_REASONS)
_PAIR_SHIFT = _BITS_PER_MODE * len(MODES)


@dataclass(frozen=True)
class Pairs:
    """Repetitions of all blocks, loop and replay together.

    ``of_row`` has shape (rows,): the number of each row's pair. The others have shape (pairs,): the number of
    the pair's block, whether it is used, and the reason where it is not.
    """

    of_row: NDArray[np.int64]
    block: NDArray[np.int64]
    used: NDArray[np.bool_]
    reason: NDArray[np.object_]


def block_flag(block: Block, protocol: Protocol) -> str:
    """Reasons why nothing of a block may be used, separated by '; '; empty when there is none."""
    reasons = []
    if block.observed_count != block.expected_count:
        reasons.append(f"wrong count: {block.observed_count} seen, {block.expected_count} expected")
    if block.protocol_hash != protocol.block_hash(block.launch_path, block.kernel):
        reasons.append("protocol hash does not belong to the record's protocol")
    return "; ".join([*reasons, *state_reasons(block.before, block.after)])


def state_reasons(before: DeviceState, after: DeviceState) -> list[str]:
    """Why nothing may be used that was timed between two states of the card; empty where nothing speaks against it."""
    reasons = []
    states = (("before", before), ("after", after))
    for name in THROTTLING:
        when = [moment for moment, state in states if name in (state.throttle_reasons or ())]
        if when:
            reasons.append(f"clock throttled: {name} ({' and '.join(when)})")
    busy = [moment for moment, state in states if state.other_processes]
    if busy:
        reasons.append(f"other process on the card ({' and '.join(busy)})")
    return reasons


def find_pairs(raw: pd.DataFrame, block_flags: Sequence[str]) -> Pairs:
    """Join rows to pairs and judge them.

    Args:
        raw: columns of ``columns.RAW`` plus ``block`` and ``mode_code`` (index into ``MODES``), sorted by
            block, repetition and mode.
        block_flags: reason for each block, empty where there is none.
    """
    block, repetition = raw["block"].to_numpy(np.int64), raw["repetition"].to_numpy(np.int64)
    mode = raw["mode_code"].to_numpy(np.int64)
    if not len(raw):
        none = np.array([], dtype=np.int64)
        return Pairs(none, none, none.astype(bool), none.astype(object))
    first = np.concatenate([[True], (np.diff(block) != 0) | (np.diff(repetition) != 0)])
    of_row = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    bits = np.bitwise_or.reduceat(_row_bits(raw) << (_BITS_PER_MODE * mode), starts)
    for code in range(len(MODES)):
        count = np.add.reduceat((mode == code).astype(np.int64), starts)
        bits |= (count > 1).astype(np.int64) << _PAIR_SHIFT
        bits |= (count == 0).astype(np.int64) << (_PAIR_SHIFT + 1 + code)
    pair_block = block[starts]
    flagged = np.array([bool(flag) for flag in block_flags])[pair_block]
    reason = np.full(len(starts), "", dtype=object)
    for value in np.unique(bits[bits > 0]):
        reason[bits == value] = _words(int(value))
    for number in np.unique(pair_block[flagged]):
        at = slice(*np.searchsorted(pair_block, [number, number + 1]))
        reason[at] = [f"{block_flags[number]}; {own}" if own else block_flags[number] for own in reason[at]]
    return Pairs(of_row, pair_block, (bits == 0) & ~flagged, reason)


def judge_block(raw: pd.DataFrame, block_flag: str = "") -> tuple[int, str]:
    """Judge the repetitions of one block: how many are used, and why the others are not.

    Args:
        raw: columns of ``columns.RAW``, of one launch path and kernel.
        block_flag: reason why none may be used, empty where there is none.
    """
    ordered = raw.assign(block=0, mode_code=raw["mode"].map(MODES.index)).sort_values(["repetition", "mode_code"])
    pairs = find_pairs(ordered, [block_flag])
    return int(pairs.used.sum()), count_reasons(pairs, 1)[0]


def _row_bits(raw: pd.DataFrame) -> NDArray[np.int64]:
    gpu, issue, total = (raw[name].to_numpy(np.float64) for name in ("gpu_us", "issue_us", "total_us"))
    missing = np.isnan(gpu)
    conditions = (
        missing,
        ~missing & ~((gpu > 0) & np.isfinite(gpu)),
        ~((issue > 0) & np.isfinite(issue) & (total > 0) & np.isfinite(total)),
        total < issue,
        np.isfinite(gpu) & (gpu > HOST_SLACK_RATIO * total + HOST_SLACK_US),
    )
    bits = np.zeros(len(raw), dtype=np.int64)
    for position, condition in enumerate(conditions):
        bits |= condition.astype(np.int64) << position
    return bits


def _words(bits: int) -> str:
    words = [
        f"{mode}: {reason}"
        for code, mode in enumerate(MODES)
        for position, reason in enumerate(_ROW_REASONS)
        if bits >> (code * _BITS_PER_MODE + position) & 1
    ]
    words += [reason for position, reason in enumerate(_PAIR_REASONS) if bits >> (_PAIR_SHIFT + position) & 1]
    return "; ".join(words)


def count_reasons(pairs: Pairs, blocks: int) -> list[str]:
    """The distinct reasons of each block, each with its number of repetitions: shape (blocks,)."""
    texts = [""] * blocks
    if not (~pairs.used).any():
        return texts
    left_out = pd.DataFrame({"block": pairs.block[~pairs.used], "reason": pairs.reason[~pairs.used]})
    counts = left_out.groupby(["block", "reason"], sort=True).size().reset_index(name="count")
    gathered: dict[int, list[str]] = {}
    for block, reason, count in counts.itertuples(index=False, name=None):
        gathered.setdefault(block, []).append(f"{reason} ({count} repetition{'s' if count > 1 else ''})")
    for block, reasons in gathered.items():
        texts[block] = "; ".join(reasons)
    return texts


def row_reasons(raw: pd.DataFrame) -> list[str]:
    """Why each row cannot be used, by its own times alone, separated by '; '; empty where nothing speaks against it.

    Args:
        raw: columns ``gpu_us``, ``issue_us`` and ``total_us``.
    """
    reasons = {0: ""}
    for value in set(bits := _row_bits(raw).tolist()):
        reasons[value] = "; ".join(words for at, words in enumerate(_ROW_REASONS) if value >> at & 1)
    return [reasons[value] for value in bits]
