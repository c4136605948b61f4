"""One row per cell and mode, and one per cell: the trials of a cell together.

It may not pool rows that differ in anything of ``cells.SAME_CELL``. It reads no file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from launchbench.aggregate.cells import cell_figures, current, speedups
from launchbench.aggregate.trial_table import missing_blocks, used_blocks
from launchbench.results import columns, flags
from launchbench.results.protocol import COMPARED_MODES, QUEUE_DEPTH
from launchbench.results.record import Block

_ENDS: dict[str, Callable[[list[float]], Any]] = {"": np.median, "_min": np.min, "_max": np.max}

ONE_OFF = ("capture", "instantiate", "upload", "first_replay", "recapture", "update")

BELOW_DEPTH, PAST_DEPTH = "below-queue-depth", "past-queue-depth"

_IDENTITY = [column.name for column in columns.IDENTITY]


def modes_of_cells(trials: pd.DataFrame) -> pd.DataFrame:
    """The columns of ``columns.CELL_MODES``, and ``cell``: every mode of every cell.

    Args:
        trials: rows as :func:`launchbench.aggregate.trial_table.trial_rows` gives them.
    """
    counted = current(trials, ["cell"])
    figures = cell_figures(counted, ["cell", "mode_code"])
    shown = trials[~trials["superseded"]].sort_values(["cell", "mode_code", "moment", "run_id"], kind="stable")
    rows = shown.drop_duplicates(["cell", "mode_code"], keep="last")
    rows = rows[["cell", "mode_code", "mode", *_IDENTITY, "launch_path", "kernel", "launch_count"]]
    rows = rows.merge(figures, on=["cell", "mode_code"], how="left")
    rows[["trials", "placements"]] = rows[["trials", "placements"]].fillna(0).astype("int64")
    # One placement a trial leaves nothing that could spread.
    distance = 100 * (rows["placement_high_us"] - rows["placement_low_us"]) / rows["gpu_us"]
    rows["spread_percent"] = distance.where(rows["placements"] > rows["trials"])
    why = shown.groupby(["cell", "mode_code"])["flags"].agg(_distinct)
    unexplained = [why[key] for key in rows[["cell", "mode_code"]].itertuples(index=False, name=None)]
    reason = rows["reason"].astype(object).where(rows["trials"] > 0, pd.Series(unexplained, dtype=object))
    rows["reason"] = reason.astype("str")
    return rows


def summarise(trials: pd.DataFrame, modes: pd.DataFrame, blocks: pd.DataFrame, rounds: flags.Rounds) -> pd.DataFrame:
    """The columns of ``columns.SUMMARY``, and ``cell``: one row for each cell.

    Args:
        trials: rows as :func:`launchbench.aggregate.trial_table.trial_rows` gives them.
        modes: rows of :func:`modes_of_cells`.
        blocks: as :func:`launchbench.aggregate.trial_table.trial_rows` takes them.
        rounds: which repetitions are used.
    """
    frame = _cells(trials)
    _add_rounds(frame, trials, blocks, rounds)
    for mode in COMPARED_MODES:
        own = modes[modes["mode"] == mode].set_index("cell")
        for name in ("", "_low", "_high"):
            frame[f"{mode}{name}_us"] = own[f"gpu{name}_us"].astype("float64")
        for name in ("issue", "total"):
            frame[f"{mode}_{name}_us"] = own[f"{name}_us"].astype("float64")
        frame[f"{mode}_reason"] = own["reason"]
        frame[f"{mode}_trials"] = own["trials"]
    frame["loop_us_per_launch"] = frame["loop_us"] / frame["launch_count"]
    frame["replay_us_per_node"] = frame["replay_us"] / frame["launch_count"]
    frame["placements"] = modes[modes["mode"] == "replay"].set_index("cell")["placements"]
    counted = current(trials, ["cell"])
    both = speedups(counted[counted["mode"].isin(COMPARED_MODES)], ["cell"]).set_index("cell")
    for name in ("speedup", "speedup_low", "speedup_high", "break_even_replays"):
        frame[name] = both[name].astype("float64")
    for name in ("break_even_replays", "break_even_replays_low", "break_even_replays_high"):
        frame[name] = np.ceil(both[name].astype("float64"))
    frame["speedup_reason"] = both["speedup_reason"]
    frame["trials"] = frame[[f"{mode}_trials" for mode in COMPARED_MODES]].min(axis=1).astype("int64")
    frame["interval_reason"] = [_reason(row) for row in frame.to_dict("records")]
    frame = frame.join(_one_off(trials, blocks, rounds))
    for name in ("one_off_samples", "refused_updates"):
        frame[name] = frame[name].fillna(0).astype("int64")
    frame["regime"] = np.where(frame["launch_count"] > QUEUE_DEPTH, PAST_DEPTH, BELOW_DEPTH)
    return frame.reset_index()


def _cells(trials: pd.DataFrame) -> pd.DataFrame:
    """Identity of each cell, from the newest of its jobs, and all of its jobs; its index is the cell."""
    jobs = trials[~trials["superseded"]].drop_duplicates(["cell", "run_id"])
    jobs = jobs.sort_values(["cell", "moment", "run_id"], kind="stable", na_position="first")
    newest = jobs.drop_duplicates("cell", keep="last").set_index("cell")
    frame = newest[[*_IDENTITY, "launch_path", "kernel", "launch_count"]].copy()
    frame["runs"] = jobs.groupby("cell")["run_id"].agg(" ".join)
    return frame


def _add_rounds(frame: pd.DataFrame, trials: pd.DataFrame, blocks: pd.DataFrame, rounds: flags.Rounds) -> None:
    """Rounds that are used and that are left out, with their reasons, from the jobs that are not superseded."""
    old = set(trials.loc[trials["superseded"], "unit"])
    shown = ~blocks["unit"].isin(old).to_numpy(bool)
    cell = blocks["cell"].to_numpy(np.int64)
    cells = int(cell.max()) + 1 if len(cell) else 0
    of_round, here = cell[rounds.block], shown[rounds.block]
    left_out = here & ~rounds.used
    reasons = flags.count_reasons(of_round[left_out], rounds.reason[left_out], cells)
    cell_of_unit = dict(zip(blocks["unit"], cell.tolist(), strict=True))
    for unit, why in missing_blocks(rounds.block, blocks):
        if unit not in old:
            reasons[cell_of_unit[unit]] = "; ".join(filter(None, (reasons[cell_of_unit[unit]], why)))
    for name, keep in (("repetitions_used", here & rounds.used), ("repetitions_flagged", left_out)):
        frame[name] = np.bincount(of_round[keep], minlength=cells).astype("int64")[frame.index.to_numpy(np.int64)]
    frame["flags"] = [reasons[number] for number in frame.index]


def _reason(row: dict[Any, Any]) -> str:
    """Why figures of a cell have no interval: one reason that all have is said once."""
    named = {
        name: row[f"{name}_reason"]
        for name in (*COMPARED_MODES, "speedup")
        if np.isfinite(row["speedup" if name == "speedup" else f"{name}_us"]) and row[f"{name}_reason"]
    }
    if len(set(named.values())) <= 1 and len(named) in (0, 3):
        return next(iter(named.values()), "")
    return "; ".join(f"{name}: {why}" for name, why in named.items())


def _one_off(trials: pd.DataFrame, blocks: pd.DataFrame, rounds: flags.Rounds) -> pd.DataFrame:
    """Median, smallest and largest of all samples of each one-off cost, by cell."""
    old = set(trials.loc[trials["superseded"], "unit"])
    used = used_blocks(blocks, rounds)
    rows: dict[int, dict[str, float]] = {}
    shown = used[~used["unit"].isin(old)]
    groups: dict[int, list[Block]] = {}
    for cell, record in zip(shown["cell"], shown["record"], strict=True):
        groups.setdefault(cell, []).append(record)
    for cell, group in groups.items():
        samples = {step: [one for block in group for one in getattr(block, f"{step}_us")] for step in ONE_OFF}
        rows[cell] = {
            "one_off_samples": len(samples["capture"]),
            "refused_updates": sum(block.refused_updates for block in group),
        }
        sizes = [float(one) for block in group for one in block.graph_bytes]
        for end, of in _ENDS.items():
            rows[cell] |= {f"{step}{end}_us": float(of(own)) if own else np.nan for step, own in samples.items()}
            rows[cell][f"graph{end}_bytes"] = float(of(sizes)) if sizes else np.nan
    names = ["one_off_samples", "refused_updates", *(f"{step}{end}_us" for step in ONE_OFF for end in _ENDS)]
    names += [f"graph{end}_bytes" for end in _ENDS]
    return pd.DataFrame.from_dict(rows, orient="index", columns=names, dtype="float64")


def _distinct(texts: pd.Series[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))
