"""One row per job, launch path, kernel and mode: what one fresh process says. It reads no file."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from launchbench.aggregate.cells import CLOCKS, trial_figures
from launchbench.results import flags
from launchbench.results.protocol import COMPARED_MODES, MODES
from launchbench.results.record import Block

NOT_TIMED = "not timed: "
"""Begins the flags of a mode that a job could not time, before the reason."""

_FIGURES = [*CLOCKS, "placement_low_us", "placement_high_us"]
_COUNTS = ["placements", "repetitions_used", "repetitions_flagged"]

Ints = NDArray[np.int64]


def trial_rows(raw: pd.DataFrame, blocks: pd.DataFrame, rounds: flags.Rounds) -> pd.DataFrame:
    """The columns of ``columns.TRIALS``, and ``cell``, ``unit`` and ``moment`` of ``blocks``.

    Loop and replay have a row also where there is no repetition of them, another mode where it was timed or the
    record says why not.

    Args:
        raw: repetitions as :func:`launchbench.results.flags.find_rounds` takes them.
        blocks: job, cell, unit (job, launch path and kernel), trial, attempt, flag and record of each block; sorted by
            cell, trial and time.
        rounds: which repetitions are used.
    """
    unit = blocks["unit"].to_numpy(np.int64)
    figures = trial_figures(_executions(raw, unit, rounds), ["unit", "mode_code"]).set_index(["unit", "mode_code"])
    reasons = _reasons(raw, blocks, rounds)
    index = pd.MultiIndex.from_tuples(sorted({*figures.index, *reasons}), names=["unit", "mode_code"])
    figures = figures.reindex(index)
    figures[_COUNTS] = figures[_COUNTS].fillna(0).astype("int64")
    figures["flags"] = [reasons.get(key, "") for key in index]
    identity = blocks.drop_duplicates("unit").set_index("unit").drop(columns=["attempt", "flag", "record"])
    identity["once_us"] = _once(blocks, rounds)
    rows = figures.reset_index().merge(identity.reset_index(), on="unit", how="left")
    rows["once_us"] = rows["once_us"].astype("float64")
    rows["mode"] = [MODES[code] for code in rows["mode_code"]]
    rows["superseded"] = _superseded(rows)
    return rows


def _executions(raw: pd.DataFrame, unit: Ints, rounds: flags.Rounds) -> pd.DataFrame:
    """Repetitions with the times of one execution; a number of its own for each placement of each block."""
    block, placement = raw["block"].to_numpy(np.int64), raw["placement"].to_numpy(np.int64)
    replays = np.maximum(raw["replays"].to_numpy(np.float64), 1)
    new_place = np.zeros(len(raw), dtype=bool)
    new_place[1:] = (np.diff(block) != 0) | (np.diff(placement) != 0)
    return pd.DataFrame(
        {
            "unit": unit[block],
            "mode_code": raw["mode_code"].to_numpy(np.int64),
            "placement": np.cumsum(new_place),
            "used": rounds.row_used,
            **{clock: raw[clock].to_numpy(np.float64) / replays for clock in CLOCKS},
        }
    )


def _reasons(raw: pd.DataFrame, blocks: pd.DataFrame, rounds: flags.Rounds) -> dict[tuple[int, int], str]:
    """Why repetitions of a unit and mode are left out; empty where none is. Has at least loop and replay of each."""
    unit = blocks["unit"].to_numpy(np.int64)
    units = int(unit.max()) + 1 if len(unit) else 0
    left_out = ~rounds.row_used
    group = unit[raw["block"].to_numpy(np.int64)] * len(MODES) + raw["mode_code"].to_numpy(np.int64)
    texts = flags.count_reasons(group[left_out], rounds.row_reason[left_out], units * len(MODES))
    found = {divmod(at, len(MODES)): text for at, text in enumerate(texts) if text}
    compared = [MODES.index(mode) for mode in COMPARED_MODES]
    for own, why in missing_blocks(raw["block"].to_numpy(np.int64), blocks):
        for code in compared:
            found[own, code] = "; ".join(filter(None, (found.get((own, code)), why)))
    for own, record in zip(unit.tolist(), blocks["record"], strict=True):
        for code in compared:
            found.setdefault((own, code), "")
        for mode, why in record.not_timed.items() if isinstance(record, Block) else ():
            found.setdefault((own, MODES.index(mode)), f"{NOT_TIMED}{' '.join(why.split())}")
    return found


def missing_blocks(present: Ints, blocks: pd.DataFrame) -> list[tuple[int, str]]:
    """Unit of each block that has no repetition, and what is to be said of it."""
    empty = blocks[~np.isin(np.arange(len(blocks)), present)]
    return [
        (unit, "; ".join(filter(None, (flag, flags.NO_REPETITIONS))))
        for unit, flag in empty[["unit", "flag"]].itertuples(index=False, name=None)
    ]


def used_blocks(blocks: pd.DataFrame, rounds: flags.Rounds) -> pd.DataFrame:
    """The blocks that have a record and a round that is used: what the others cost once is worth nothing either."""
    used = np.bincount(rounds.block[rounds.used], minlength=len(blocks)) > 0
    return blocks[used & blocks["record"].notna().to_numpy(bool)]


def _once(blocks: pd.DataFrame, rounds: flags.Rounds) -> pd.Series[float]:
    """Capture, instantiate and upload by unit, from its newest attempt that is used."""
    newest = used_blocks(blocks, rounds).drop_duplicates("unit", keep="last").set_index("unit")["record"]
    return newest.map(_once_us).astype("float64")


def _once_us(block: Block) -> float:
    return float(sum(np.median(steps) for steps in (block.capture_us, block.instantiate_us, block.upload_us)))


def _superseded(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether a newer job stands for the row; a job without loop and replay never stands for one that has both.

    Units ascend by cell, trial and time.
    """
    compared = rows["mode"].isin(COMPARED_MODES) & rows["gpu_us"].notna()
    by_unit = rows.assign(sides=compared).groupby("unit", sort=True)
    units = by_unit.agg(cell=("cell", "first"), trial=("trial", "first"), sides=("sides", "sum"))
    usable = (units["sides"] == len(COMPARED_MODES)).astype("int64")
    groups = units.groupby(["cell", "trial"], sort=False)
    number = groups.ngroup()
    newer = groups.cumcount(ascending=False)
    newer_usable = usable.groupby(number).transform("sum") - usable.groupby(number).cumsum()
    old = (newer_usable > 0) | ((usable == 0) & (newer > 0))
    return rows["unit"].map(old).to_numpy(bool)
