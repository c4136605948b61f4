"""Joins all decode jobs into tables: points, jobs with their prediction, and files that cannot be used.

It pools nothing: a row is of one job, so its intervals are about repetitions within one process. It renders nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from launchbench.aggregate.extra import SAME_JOB, gaps, table
from launchbench.aggregate.identity import identity, moments
from launchbench.aggregate.lengths_model import HELPS
from launchbench.aggregate.paired import Paired, paired_medians
from launchbench.results import decode_columns, flags
from launchbench.results.decode import DecodePoint, DecodeRecord
from launchbench.results.decode_files import DECODE
from launchbench.results.decode_words import DECODE_MODES, KIND
from launchbench.results.extra_files import ExtraResult, read_extras
from launchbench.results.failures import Failure
from launchbench.results.files import write_atomically
from launchbench.wording import one_line

Result = ExtraResult[DecodeRecord]
Row = dict[str, Any]

CLOCKS = {"gpu_us": "", "issue_us": "_issue", "total_us": "_total"}


@dataclass(frozen=True)
class DecodeTables:
    """The tables, each validated against its list of columns."""

    decode: pd.DataFrame
    decode_jobs: pd.DataFrame
    decode_gaps: pd.DataFrame


def tabulate(results_dir: Path, failures: Sequence[Failure] = ()) -> DecodeTables:
    """Read every decode job under ``results_dir``; a broken file, and a failure, becomes a row of ``decode_gaps``."""
    results, problems = read_extras(DECODE, results_dir)
    results.sort(key=lambda one: (one.site, one.record.label, one.record.device.uuid, one.record.started_utc))
    points: list[Row] = []
    jobs: list[Row] = []
    for result in results:
        own = _points(result)
        points += own
        jobs.append(_job(result, own))
    made = table(jobs, decode_columns.DECODE_JOBS, "decode_jobs")
    made["superseded"] = _superseded(made)
    rows = table(points, decode_columns.DECODE, "decode")
    rows["superseded"] = rows["run_id"].isin(set(made.loc[made["superseded"], "run_id"])).astype("bool")
    return DecodeTables(rows, made, gaps(problems, results_dir, failures, made, KIND))


def write_decode_tables(results_dir: Path, out_dir: Path, failures: Sequence[Failure] = ()) -> None:
    """Write ``decode.csv``, ``decode_jobs.csv`` and ``decode_gaps.csv``, each whole or not at all.

    Raises:
        LaunchbenchError: the folder cannot be written.
    """
    for name, frame in vars(tabulate(results_dir, failures)).items():
        write_atomically(out_dir / f"{name}.csv", frame.to_csv(index=False, lineterminator="\n").encode())


def _superseded(jobs: pd.DataFrame) -> pd.Series[bool]:
    """A job that was run stands for those that were not, also for newer ones; of equals the newest counts."""
    moment = moments(jobs["started_utc"])
    rank = pd.DataFrame({"ran": jobs["not_run"] == "", "moment": moment}).sort_values(["ran", "moment"]).index
    last = jobs.loc[rank].drop_duplicates(SAME_JOB, keep="last").index
    return pd.Series(~jobs.index.isin(last), jobs.index, dtype="bool")


# ---------------------------------------------------------------- points


def _points(result: Result) -> list[Row]:
    """A row for each batch and width of the protocol, in that order; none where nothing was run."""
    record = result.record
    if record.not_run is not None:
        return []
    timed = {(one.batch, one.width): one for one in record.points}
    why = {(one.batch, one.width): one.reason for one in record.left_out}
    groups = dict(iter(result.table.groupby(["batch", "width"], sort=False)))
    rows = []
    for key in record.protocol.points:
        row = {**identity(result), "batch": key[0], "width": key[1]}
        if key in timed:
            row |= _timed(timed[key], groups.get(key, result.table.iloc[:0]))
        else:
            row |= {**_nothing(f"not timed: {one_line(why[key])}"), "launches_reason": ""}
        rows.append(row)
    return rows


def _nothing(reason: str) -> Row:
    return {"repetitions_used": 0, "repetitions_flagged": 0, "flags": reason, "verdict": "cannot-tell"}


def _timed(point: DecodePoint, own: pd.DataFrame) -> Row:
    judged = _judge(point, own)
    bad = judged[judged["flag"] != ""].groupby("repetition")["flag"].first().value_counts(sort=False)
    texts = [f"{text} ({number} repetition{'s' if number > 1 else ''})" for text, number in bad.items()]
    used = judged[judged["flag"] == ""]
    row: Row = {
        "launches": point.launches,
        "nodes": sum(point.nodes.values()) or None,
        "launches_reason": one_line(point.launches_reason or ""),
        "largest_difference": point.largest_difference,
        **_nothing("; ".join(texts) if len(own) else "no repetitions in the CSV"),
        "repetitions_used": used["repetition"].nunique(),
        "repetitions_flagged": int(bad.sum()),
    }
    if used.empty:
        return row
    for clock, name in CLOCKS.items():
        paired = _medians(used, clock)
        for mode, batch in zip(DECODE_MODES, (paired.first, paired.second), strict=True):
            row[f"{mode}{name}_us"] = float(batch.value[0])
            if clock == "gpu_us":
                row |= {f"{mode}_low_us": float(batch.low[0]), f"{mode}_high_us": float(batch.high[0])}
        if clock == "gpu_us":
            ratio = (float(end[0]) for end in (paired.ratio.value, paired.ratio.low, paired.ratio.high))
            row |= dict(zip(("speedup", "speedup_low", "speedup_high"), ratio, strict=True))
    row["verdict"] = _verdict(row["speedup"], row["speedup_low"])
    return row


def _judge(point: DecodePoint, own: pd.DataFrame) -> pd.DataFrame:
    """The repetitions with a column ``flag``; eager and graph of one are used or left out together."""
    whole = "; ".join(flags.state_reasons(point.before, point.after))
    texts = [f"{mode}: {text}" if text else "" for mode, text in zip(own["mode"], flags.row_reasons(own), strict=True)]
    judged = own.assign(flag=texts)
    for repetition, rows in judged.groupby("repetition"):
        reasons = [whole, *rows["flag"]]
        for mode in DECODE_MODES:
            times = int((rows["mode"] == mode).sum())
            reasons.append("" if times == 1 else f"{mode} recorded {times} times")
        judged.loc[judged["repetition"] == repetition, "flag"] = "; ".join(text for text in reasons if text)
    return judged


def _medians(used: pd.DataFrame, clock: str) -> Paired:
    """Of one clock, for a token."""
    wide = used.assign(token_us=used[clock] / used["tokens"]).pivot(
        index="repetition", columns="mode", values="token_us"
    )
    eager, graph = (wide[mode].to_numpy(np.float64)[None] for mode in DECODE_MODES)
    return paired_medians(eager, graph)


def _verdict(speedup: float, low: float) -> str:
    if math.isnan(low):
        return "cannot-tell"
    return "helps" if low > HELPS else "no-help"


# ---------------------------------------------------------------- jobs


def _job(result: Result, points: list[Row]) -> Row:
    record = result.record
    row: Row = {
        **identity(result),
        "not_run": one_line(record.not_run or ""),
        "torch": one_line(record.torch.version) if record.torch else "",
        "stored_run": "",
        "stored_reason": one_line(record.prediction_reason or ""),
    }
    if record.not_run is not None:
        return row
    batch, width = record.protocol.points[0]
    measured = points[0]
    row |= {"batch": batch, "width": width, "launches": measured.get("launches")}
    found = record.prediction
    if found is None:
        return row
    pairs = (
        ("eager", found.eager_us, measured.get("eager_us")),
        ("graph", found.graph_us, measured.get("graph_us")),
        ("speedup", found.eager_us / found.graph_us, measured.get("speedup")),
    )
    misses = {f"{name}_miss_percent": 100 * (told / seen - 1) for name, told, seen in pairs if seen}
    return (
        row
        | misses
        | {
            "predicted_eager_us": found.eager_us,
            "predicted_host_us": found.host_us,
            "alone_host_us": sum(part.alone_us for part in found.parts),
            "predicted_device_us": found.device_us,
            "predicted_graph_us": found.graph_us,
            "predicted_speedup": found.eager_us / found.graph_us,
            "bare_eager_us": found.bare_eager_us,
            "bare_graph_us": found.bare_graph_us,
            "stored_run": found.stored.run_id if found.stored else "",
        }
    )
