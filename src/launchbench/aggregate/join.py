"""Joins all raw results into four tables: every repetition, summary, straight-line fits, gaps.

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

from launchbench.aggregate.gaps import find_gaps
from launchbench.aggregate.summarise import ONE_OFF, SAME_MEASUREMENT, fit, one_off, summarise
from launchbench.results import columns, flags, tables
from launchbench.results.failures import Failure
from launchbench.results.files import Result, read_results
from launchbench.results.protocol import KERNELS, LAUNCH_PATHS, MODES
from launchbench.results.record import card_id
from launchbench.wording import one_line

_SORT = [*SAME_MEASUREMENT, "started_utc", "run_id"]
_IDENTITY = [column.name for column in columns.IDENTITY]


@dataclass(frozen=True)
class Joined:
    """The three tables that follow from results alone, each validated against its list in ``columns``."""

    tidy: pd.DataFrame
    summary: pd.DataFrame
    fits: pd.DataFrame


@dataclass(frozen=True)
class Tables(Joined):
    """All four."""

    gaps: pd.DataFrame


def aggregate(
    results_dir: Path,
    config_labels: Sequence[str],
    launch_counts: Sequence[int],
    failures: Sequence[Failure] = (),
) -> Tables:
    """Read everything under ``results_dir`` into memory and summarise it.

    A card with its four N and three trials takes about 5 MB; ``aggregate.write`` has one card at a time in memory.

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
    gaps = find_gaps(joined.summary, problems, results_dir, config_labels, launch_counts, failures)
    return Tables(joined.tidy, joined.summary, joined.fits, tables.validate(gaps, columns.GAPS, "gaps"))


def join(results: list[Result]) -> Joined:
    """The tables of these results. A row depends on results of its own card only, and rows are sorted by card."""
    blocks = _blocks(results)
    raw = _raw(results, blocks)
    pairs = flags.find_pairs(raw, blocks["flag"].tolist())
    tidy = tables.validate(_tidy(raw, blocks, pairs), columns.TIDY, "tidy")
    summary = tables.validate(summarise(raw, blocks, pairs), columns.SUMMARY, "summary")
    return Joined(tidy, summary, tables.validate(fit(summary), columns.FITS, "fits"))


def _blocks(results: list[Result]) -> pd.DataFrame:
    """One row per job, launch path and kernel, in the order of the tables; ``job`` is the result's index."""
    rows: list[dict[str, Any]] = []
    for job, result in enumerate(results):
        record = result.record
        shared = {
            "job": job,
            "site": one_line(result.site),
            "label": record.label,
            "card": card_id(record.device.uuid),
            "gpu_name": one_line(record.device.name),
            "gpu_uuid": one_line(record.device.uuid),
            "hostname": one_line(record.host.hostname),
            "cpu_model": one_line(record.host.cpu_model or ""),
            "driver_version": one_line(record.device.driver_version or ""),
            "nvcc": one_line(record.software.nvcc),
            "virtual": record.device.virtual,
            "run_id": record.run_id,
            "started_utc": record.started_utc,
            "launch_count": record.launch_count,
        }
        measured = {(block.launch_path, block.kernel): block for block in record.blocks}
        rows.extend(
            {
                **shared,
                "launch_path": block.launch_path,
                "kernel": block.kernel,
                "protocol_hash": block.protocol_hash,
                **one_off(block),
                "flag": flags.block_flag(block, record.protocol),
            }
            for block in measured.values()
        )
        present = result.raw[["launch_path", "kernel"]].drop_duplicates()
        rows.extend(
            {
                **shared,
                "launch_path": launch_path,
                "kernel": kernel,
                "protocol_hash": record.protocol.block_hash(launch_path, kernel),
                "one_off_samples": 0,
                "flag": flags.NOT_IN_RECORD,
            }
            for launch_path, kernel in present.itertuples(index=False)
            if (launch_path, kernel) not in measured
        )
    names = ["job", *_SORT, *_IDENTITY, "one_off_samples", *ONE_OFF, "flag"]
    frame = pd.DataFrame(rows, columns=list(dict.fromkeys(names)))
    # As text, "...00Z" sorts after "...00.5Z".
    moment = pd.to_datetime(frame["started_utc"], format="ISO8601", utc=True, errors="coerce")
    order = frame.assign(started_utc=moment).sort_values(_SORT, kind="stable", na_position="first").index
    return frame.loc[order].reset_index(drop=True)


def _raw(results: list[Result], blocks: pd.DataFrame) -> pd.DataFrame:
    """All repetitions with the number of their row of ``blocks``, sorted by it, repetition and mode."""
    if not results:
        names = [*(column.name for column in columns.RAW), "block", "mode_code"]
        return pd.DataFrame({name: pd.Series(dtype="int64") for name in names})
    raw = pd.concat([result.raw for result in results], ignore_index=True)
    job = np.repeat(np.arange(len(results)), [len(result.raw) for result in results])
    number = np.zeros((len(results), len(LAUNCH_PATHS), len(KERNELS)), dtype=np.int64)
    number[blocks["job"].to_numpy(), *_path_and_kernel(blocks)] = np.arange(len(blocks))
    raw["block"] = number[job, *_path_and_kernel(raw)]
    raw["mode_code"] = _codes(raw["mode"], MODES)
    order = np.lexsort([raw["mode_code"], raw["repetition"], raw["block"]])
    return raw.iloc[order].reset_index(drop=True)


def _path_and_kernel(frame: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return _codes(frame["launch_path"], LAUNCH_PATHS), _codes(frame["kernel"], KERNELS)


def _codes(values: pd.Series[Any], choices: tuple[str, ...]) -> NDArray[np.int64]:
    return np.asarray(pd.Categorical(values, categories=list(choices)).codes, dtype=np.int64)


def _tidy(raw: pd.DataFrame, blocks: pd.DataFrame, pairs: flags.Pairs) -> pd.DataFrame:
    identity = blocks[_IDENTITY].take(raw["block"].to_numpy()).reset_index(drop=True)
    flag = pd.Series(pairs.reason, dtype="str").take(pairs.of_row).reset_index(drop=True)
    raw_names = [column.name for column in columns.RAW]
    return pd.concat([identity, raw[raw_names], flag.rename("flag")], axis=1)
