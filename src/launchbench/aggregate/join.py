"""Joins all raw results into tables: every repetition, trials, modes, anatomy, summary, fits, gaps.

It drops nothing and fills in nothing: a repetition that is left out of the summary stays in ``tidy`` with
the reason. How rows are summarised stands in ``summarise``, what is missing in ``gaps``. It draws and
renders nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from launchbench.aggregate.anatomy import anatomy
from launchbench.aggregate.cells import SAME_CELL
from launchbench.aggregate.fits import fit
from launchbench.aggregate.gaps import find_gaps
from launchbench.aggregate.identity import identity, moments
from launchbench.aggregate.path_gaps import unmeasured
from launchbench.aggregate.summarise import modes_of_cells, summarise
from launchbench.aggregate.trial_table import trial_rows
from launchbench.results import anatomy_columns, columns, flags, path_columns, tables
from launchbench.results.failures import Failure
from launchbench.results.files import Result, read_results
from launchbench.results.protocol import KERNELS, LAUNCH_PATHS, MODES
from launchbench.results.record import Block

_IDENTITY = [column.name for column in columns.IDENTITY]
_BLOCK = ["job", *_IDENTITY, "trial", "launch_path", "kernel", "launch_count", "attempt", "flag"]
_BLOCK += ["record", "moment", "unit", "cell"]


@dataclass(frozen=True)
class Joined:
    """The tables that follow from results alone, each validated against its list in ``columns``."""

    tidy: pd.DataFrame
    trials: pd.DataFrame
    modes: pd.DataFrame
    anatomy: pd.DataFrame
    summary: pd.DataFrame
    fits: pd.DataFrame
    unmeasured: pd.DataFrame


@dataclass(frozen=True)
class Tables(Joined):
    """All of them."""

    gaps: pd.DataFrame


def aggregate(
    results_dir: Path,
    config_labels: Sequence[str],
    launch_counts: Sequence[int],
    failures: Sequence[Failure] = (),
) -> Tables:
    """Read everything under ``results_dir`` into memory and summarise it.

    A card with its four N and three trials takes about 50 MB; ``aggregate.write`` has one card at a time in memory.

    Args:
        results_dir: root of the raw results; may be missing or empty.
        config_labels: GPU labels that should have results.
        launch_counts: values of N that every measured card should have.
        failures: attempts that left no result, for the reasons of gaps.

    Raises:
        LaunchbenchError: never for a broken file, which becomes a row of ``gaps``.
    """
    results, problems = read_results(results_dir)
    joined = join(results)
    gaps = find_gaps(joined.summary, problems, results_dir, config_labels, launch_counts, failures, joined.unmeasured)
    return Tables(**vars(joined), gaps=tables.validate(gaps, columns.GAPS, "gaps"))


def join(results: list[Result]) -> Joined:
    """The tables of these results. A row depends on results of its own card only, and rows are sorted by card."""
    blocks = _blocks(results)
    raw = _raw(results, blocks)
    rounds = flags.find_rounds(raw, blocks["flag"].tolist())
    trials = trial_rows(raw, blocks, rounds)
    modes = modes_of_cells(trials)
    summary = summarise(trials, modes, blocks, rounds)
    return Joined(
        tidy=tables.validate(_tidy(raw, blocks, rounds), columns.TIDY, "tidy"),
        trials=_table(trials, columns.TRIALS, "trials"),
        modes=_table(modes, columns.CELL_MODES, "modes"),
        anatomy=_table(anatomy(trials, modes), anatomy_columns.ANATOMY, "anatomy"),
        summary=_table(summary, columns.SUMMARY, "summary"),
        fits=_table(fit(summary, trials), columns.FITS, "fits"),
        unmeasured=_table(unmeasured(results), path_columns.UNMEASURED, "unmeasured"),
    )


def join_trials(results: list[Result]) -> pd.DataFrame:
    """The table ``trials`` of these results, without the work of the others."""
    blocks = _blocks(results)
    raw = _raw(results, blocks)
    rounds = flags.find_rounds(raw, blocks["flag"].tolist())
    return _table(trial_rows(raw, blocks, rounds), columns.TRIALS, "trials")


def _table(frame: pd.DataFrame, table: tuple[columns.Column, ...], name: str) -> pd.DataFrame:
    return tables.validate(frame[[column.name for column in table]].reset_index(drop=True), table, name)


def _blocks(results: list[Result]) -> pd.DataFrame:
    """One row per job, launch path, kernel and attempt, in the order of the tables.

    ``job`` is the result's index, ``record`` the block of its record, None where that has none; ``moment`` sorts by
    time. Blocks of one job, launch path and kernel have the same ``unit``, those of one cell the same ``cell``; both
    ascend.
    """
    rows: list[dict[str, Any]] = []
    for job, result in enumerate(results):
        record = result.record
        shared = {
            "job": job,
            **identity(result),
            "trial": record.trial,
            "launch_count": record.launch_count,
        }
        measured: dict[tuple[str, str, int], Block] = {
            (block.launch_path, block.kernel, block.attempt): block for block in record.blocks
        }
        for launch_path, kernel, attempt in dict.fromkeys([*measured, *_present(result.raw)]):
            block = measured.get((launch_path, kernel, attempt))
            rows.append(
                {
                    **shared,
                    "launch_path": launch_path,
                    "kernel": kernel,
                    "attempt": attempt,
                    "protocol_hash": block.protocol_hash if block else record.protocol.block_hash(launch_path, kernel),
                    "record": block,
                    "flag": flags.block_flag(block, record.protocol) if block else flags.NOT_IN_RECORD,
                }
            )
    frame = pd.DataFrame(rows, columns=_BLOCK)
    frame["moment"] = moments(frame["started_utc"])
    order = [*SAME_CELL, "trial", "moment", "run_id", "attempt"]
    frame = frame.sort_values(order, kind="stable", na_position="first", ignore_index=True)
    for name, keys in (("unit", ["run_id", *SAME_CELL]), ("cell", SAME_CELL)):
        frame[name] = frame.groupby(keys, sort=False, dropna=False).ngroup()
    return frame


def _present(raw: pd.DataFrame) -> list[tuple[str, str, int]]:
    """Launch path, kernel and attempt of each block that has repetitions."""
    path, kernel = _codes(raw["launch_path"], LAUNCH_PATHS), _codes(raw["kernel"], KERNELS)
    attempt = raw["attempt"].to_numpy(np.int64)
    # Repetitions of a block stand together, so that few rows begin one.
    begins = np.concatenate([[True], (np.diff(path) != 0) | (np.diff(kernel) != 0) | (np.diff(attempt) != 0)])
    at = np.flatnonzero(begins[: len(raw)])
    names = zip(path[at].tolist(), kernel[at].tolist(), attempt[at].tolist(), strict=True)
    return [(LAUNCH_PATHS[first], KERNELS[second], number) for first, second, number in names]


def _raw(results: list[Result], blocks: pd.DataFrame) -> pd.DataFrame:
    """All repetitions with the number of their row of ``blocks``, sorted by it, placement, repetition and mode."""
    if not results:
        names = [*(column.name for column in columns.RAW), "block", "mode_code"]
        return pd.DataFrame({name: pd.Series(dtype="int64") for name in names})
    raw = pd.concat([result.raw for result in results], ignore_index=True)
    job = np.repeat(np.arange(len(results)), [len(result.raw) for result in results])
    attempts = np.unique(blocks["attempt"].to_numpy(np.int64))
    number = np.zeros((len(results), len(LAUNCH_PATHS), len(KERNELS), len(attempts)), dtype=np.int64)
    number[blocks["job"].to_numpy(np.int64), *_codes_of_block(blocks, attempts)] = np.arange(len(blocks))
    raw["block"] = number[job, *_codes_of_block(raw, attempts)]
    raw["mode_code"] = _codes(raw["mode"], MODES)
    order = np.lexsort([raw["mode_code"], raw["repetition"], raw["placement"], raw["block"]])
    return raw.iloc[order].reset_index(drop=True)


def _codes_of_block(frame: pd.DataFrame, attempts: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    attempt = np.searchsorted(attempts, frame["attempt"].to_numpy(np.int64))
    return _codes(frame["launch_path"], LAUNCH_PATHS), _codes(frame["kernel"], KERNELS), attempt


def _codes(values: pd.Series[Any], choices: tuple[str, ...]) -> NDArray[np.int64]:
    return np.asarray(pd.Categorical(values, categories=list(choices)).codes, dtype=np.int64)


def _tidy(raw: pd.DataFrame, blocks: pd.DataFrame, rounds: flags.Rounds) -> pd.DataFrame:
    identity = blocks[_IDENTITY].take(raw["block"].to_numpy()).reset_index(drop=True)
    flag = pd.Series(rounds.row_reason, dtype="str", name="flag")
    return pd.concat([identity, raw[[column.name for column in columns.RAW]], flag], axis=1)
