"""Why a repetition, or a whole block, is left out of the summary.

It decides only from what is physically sure or was recorded by the job; an unusual but possible time is
never flagged here. Loop and replay of one round (a repetition at a placement) are used or left out together;
every other mode stands for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from launchbench.results.protocol import COMPARED_MODES, MODES, Protocol
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
_ROUND_REASONS = ("recorded twice", *(f"no {mode} in this repetition" for mode in COMPARED_MODES))
_BITS_PER_MODE = len(_ROW_REASONS)
_ROUND_SHIFT = _BITS_PER_MODE * len(MODES)
_LOOP, _REPLAY = (MODES.index(mode) for mode in COMPARED_MODES)

Bits = NDArray[np.int64]


@dataclass(frozen=True)
class Rounds:
    """The rounds of all blocks, and what is used of each.

    ``of_row`` has shape (rows,): the number of each row's round. ``block``, ``used`` and ``reason`` have shape
    (rounds,): the number of the round's block, whether its loop and replay are used, and why not. ``row_used`` and
    ``row_reason`` are the same of each row: in the two modes those of its round, in another its own.
    """

    of_row: Bits
    block: Bits
    used: NDArray[np.bool_]
    reason: NDArray[np.object_]
    row_used: NDArray[np.bool_]
    row_reason: NDArray[np.object_]


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


def find_rounds(raw: pd.DataFrame, block_flags: Sequence[str]) -> Rounds:
    """Join rows to rounds and judge them.

    A replay is expected in every round, a loop where its placement has loops, or anywhere if its block has none.

    Args:
        raw: columns of ``columns.RAW`` plus ``block`` (number of launch path, kernel, attempt and job) and
            ``mode_code`` (index into ``MODES``), sorted by block, placement, repetition and mode.
        block_flags: reason for each block, empty where there is none.
    """
    if not len(raw):
        none = np.array([], dtype=np.int64)
        no, nothing = none.astype(bool), none.astype(object)
        return Rounds(none, none, no, nothing, no, nothing)
    block, placement, repetition, mode = (
        raw[name].to_numpy(np.int64) for name in ("block", "placement", "repetition", "mode_code")
    )
    new_place = np.concatenate([[True], (np.diff(block) != 0) | (np.diff(placement) != 0)])
    new_round = new_place | np.concatenate([[True], np.diff(repetition) != 0])
    again = ~new_round & np.concatenate([[False], np.diff(mode) == 0])
    twice = again | np.concatenate([again[1:], [False]])
    starts = np.flatnonzero(new_round)
    of_row, of_block = np.cumsum(new_round) - 1, block[starts]

    own = (_row_bits(raw) << (_BITS_PER_MODE * mode)) | (twice.astype(np.int64) << _ROUND_SHIFT)
    loop, replay = mode == _LOOP, mode == _REPLAY
    compared = loop | replay
    bits = np.bitwise_or.reduceat(np.where(compared, own, 0), starts)
    place = np.cumsum(new_place) - 1
    has_loops = np.bincount(place, weights=loop)[place[starts]] > 0
    has_loops |= np.bincount(block, weights=loop)[of_block] == 0
    lost_loop, lost_replay = (np.add.reduceat(side.astype(np.int64), starts) == 0 for side in (loop, replay))
    bits |= (lost_loop & has_loops).astype(np.int64) << (_ROUND_SHIFT + 1)
    bits |= lost_replay.astype(np.int64) << (_ROUND_SHIFT + 2)

    of_both = np.where(compared, bits[of_row], own)
    flagged = np.array([bool(flag) for flag in block_flags])
    return Rounds(
        of_row,
        of_block,
        (bits == 0) & ~flagged[of_block],
        _texts(bits, of_block, block_flags),
        (of_both == 0) & ~flagged[block],
        _texts(of_both, block, block_flags),
    )


def judge_block(raw: pd.DataFrame, block_flag: str = "") -> tuple[int, str]:
    """Judge the rounds of one block: how many are used, and why the others are not.

    Args:
        raw: columns of ``columns.RAW``, of one launch path, kernel and attempt.
        block_flag: reason why none may be used, empty where there is none.
    """
    ordered = raw.assign(block=0, mode_code=raw["mode"].map(MODES.index))
    rounds = find_rounds(ordered.sort_values(["placement", "repetition", "mode_code"]), [block_flag])
    left_out = ~rounds.used
    return int(rounds.used.sum()), count_reasons(rounds.block[left_out], rounds.reason[left_out], 1)[0]


def _row_bits(raw: pd.DataFrame) -> Bits:
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


def _texts(bits: Bits, block: Bits, block_flags: Sequence[str]) -> NDArray[np.object_]:
    """The reasons as words: those of the block, then the own."""
    distinct, code = np.unique(bits, return_inverse=True)
    words = np.array([_words(int(value)) for value in distinct], dtype=object)
    texts: NDArray[np.object_] = words[code]
    for number in (number for number, flag in enumerate(block_flags) if flag):
        at = block == number
        texts[at] = [f"{block_flags[number]}; {own}" if own else block_flags[number] for own in texts[at]]
    return texts


def _words(bits: int) -> str:
    words = [
        f"{mode}: {reason}"
        for code, mode in enumerate(MODES)
        for position, reason in enumerate(_ROW_REASONS)
        if bits >> (code * _BITS_PER_MODE + position) & 1
    ]
    words += [reason for position, reason in enumerate(_ROUND_REASONS) if bits >> (_ROUND_SHIFT + position) & 1]
    return "; ".join(words)


def count_reasons(group: Bits, reason: NDArray[np.object_], groups: int) -> list[str]:
    """The distinct reasons of each group, each with its number of repetitions: shape (groups,).

    Args:
        group: number of the group of each repetition that is left out.
        reason: why, same shape.
        groups: how many there are.
    """
    gathered: dict[int, list[str]] = {}
    if len(group):
        left_out = pd.DataFrame({"group": group, "reason": reason})
        counts = left_out.groupby(["group", "reason"], sort=True).size().reset_index(name="count")
        for number, text, count in counts.itertuples(index=False, name=None):
            gathered.setdefault(number, []).append(f"{text} ({count} repetition{'s' if count > 1 else ''})")
    return ["; ".join(gathered.get(number, ())) for number in range(groups)]


def row_reasons(raw: pd.DataFrame) -> list[str]:
    """Why each row cannot be used, by its own times alone, separated by '; '; empty where nothing speaks against it.

    Args:
        raw: columns ``gpu_us``, ``issue_us`` and ``total_us``.
    """
    reasons = {0: ""}
    for value in set(bits := _row_bits(raw).tolist()):
        reasons[value] = "; ".join(words for at, words in enumerate(_ROW_REASONS) if value >> at & 1)
    return [reasons[value] for value in bits]
