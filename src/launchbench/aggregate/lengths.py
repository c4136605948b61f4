"""Joins all lengths jobs into tables: cells, models, crossovers, and files that cannot be used.

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

from launchbench.aggregate import stats
from launchbench.aggregate.extra import gaps, table
from launchbench.aggregate.identity import identity
from launchbench.aggregate.lengths_model import HELPS, LengthModel, ahead, fit, pace
from launchbench.aggregate.paired import paired_medians
from launchbench.results import flags, lengths_columns
from launchbench.results.extra_files import ExtraResult, read_extras
from launchbench.results.failures import Failure
from launchbench.results.files import write_atomically
from launchbench.results.lengths import LengthsRecord
from launchbench.results.lengths_files import LENGTHS
from launchbench.results.lengths_words import KIND

WRONG_MODEL_PERCENT = 10.0
KERNEL_SCALE = 0.05
"""Kernels that are off by more than this share were calibrated at another clock than they ran at."""

RESOLUTION_BELOW_US = 1000.0
"""Events are read as float32 milliseconds, which above this no longer resolve what the clock does."""

SAME_TICK_US = 1e-3

CELL = ["launch_count", "kernel_us"]
PAIR = ["loop", "replay"]
TIMES = ("gpu_us", "issue_us", "total_us")

Result = ExtraResult[LengthsRecord]


@dataclass(frozen=True)
class LengthsTables:
    """The tables, each validated against its list of columns."""

    lengths: pd.DataFrame
    length_models: pd.DataFrame
    crossovers: pd.DataFrame
    lengths_gaps: pd.DataFrame


def tabulate(results_dir: Path, failures: Sequence[Failure] = ()) -> LengthsTables:
    """Read every lengths job under ``results_dir``; a broken file, and a failure, becomes a row of ``lengths_gaps``."""
    results, problems = read_extras(LENGTHS, results_dir)
    results.sort(key=lambda one: (one.site, one.record.label, one.record.device.uuid, one.record.started_utc))
    cells: list[dict[str, Any]] = []
    models: list[dict[str, Any]] = []
    crossings: list[dict[str, Any]] = []
    for result in results:
        own, model, crossed = _rows(result)
        cells += own
        models.append(model)
        crossings += crossed
    jobs = table(models, lengths_columns.LENGTH_MODELS, "length_models")
    return LengthsTables(
        table(cells, lengths_columns.LENGTHS, "lengths"),
        jobs,
        table(crossings, lengths_columns.CROSSOVERS, "crossovers"),
        gaps(problems, results_dir, failures, jobs, KIND),
    )


def write_lengths_tables(results_dir: Path, out_dir: Path, failures: Sequence[Failure] = ()) -> None:
    """Write ``lengths.csv``, ``length_models.csv``, ``crossovers.csv`` and ``lengths_gaps.csv``, each whole or not.

    Raises:
        LaunchbenchError: the folder cannot be written.
    """
    for name, frame in vars(tabulate(results_dir, failures)).items():
        write_atomically(out_dir / f"{name}.csv", frame.to_csv(index=False, lineterminator="\n").encode())


def _rows(result: Result) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
    who = identity(result)
    judged = judge(result)
    cells = [{**who, **cell} for cell in _cells(result.record, judged)]
    model = _fit(cells)
    for cell in cells:
        _add_model(cell, model)
    return cells, {**who, **_model_row(result, judged, model, cells)}, _crossovers(who, cells, model)


# ---------------------------------------------------------------- what counts


def judge(result: Result) -> pd.DataFrame:
    """The repetitions with a column ``flag``: why one is not used, empty where it is.

    Loop and replay of one repetition are used or left out together.
    """
    rows = result.table.copy()
    nothing = rows["mode"] == "nothing"
    # Between events around nothing no call is made, so issuing may take no time at all.
    seen = rows.assign(issue_us=rows["issue_us"].where(~nothing, rows["total_us"]))
    own = pd.Series(flags.row_reasons(seen), index=rows.index, dtype=object)
    own = _also(own, _impossible(rows))
    sets = {one.launch_count: "; ".join(flags.state_reasons(one.before, one.after)) for one in result.record.sets}
    first = "; ".join(flags.state_reasons(result.record.before, result.record.sets[0].before))
    own = _also(own, rows["launch_count"].map({**sets, 0: first}).fillna("N is not in the record").astype(object))
    keys = [*CELL, "repetition"]
    for mode in PAIR:
        of_mode = (rows["mode"] == mode).astype(int).groupby([rows[key] for key in keys]).transform("sum")
        lost = ~nothing & (of_mode == 0)
        own = _also(own, pd.Series(np.where(lost, f"no {mode} in this repetition", ""), rows.index))
        twice = ~nothing & (of_mode > 1)
        own = _also(own, pd.Series(np.where(twice, f"{mode} recorded twice", ""), rows.index))
    named = pd.Series(np.where((own != "") & ~nothing, rows["mode"] + ": " + own, own), rows.index, dtype=object)
    pairs = named[~nothing].groupby([rows.loc[~nothing, key] for key in keys])
    rows["flag"] = named
    rows.loc[~nothing, "flag"] = pairs.transform(lambda texts: "; ".join(text for text in texts if text))
    return rows


def _impossible(rows: pd.DataFrame) -> pd.Series:
    """What no clock that can be trusted says of these kernels."""
    gpu, work = rows["gpu_us"], rows["launch_count"] * rows["kernel_us"]
    slack = flags.HOST_SLACK_RATIO * gpu + flags.HOST_SLACK_US
    texts = np.where(gpu < work / 2, "GPU time below half of what its kernels take", "")
    before = np.where(rows["issue_us"] > slack, "GPU time shorter than issuing", "")
    return _also(pd.Series(texts, rows.index, dtype=object), pd.Series(before, rows.index, dtype=object))


def _also(first: pd.Series, second: pd.Series) -> pd.Series:
    both = (first != "") & (second != "")
    return first + np.where(both, "; ", "") + second


# ---------------------------------------------------------------- cells


def _cells(record: LengthsRecord, judged: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each N and length of the protocol, in that order."""
    left_out = {(one.launch_count, one.kernel_us) for one in record.left_out}
    timed = judged[judged["mode"] != "nothing"]
    groups = dict(iter(timed.groupby(CELL, sort=False)))
    cells: list[dict[str, Any]] = []
    samples: dict[tuple[int, float], np.ndarray[Any, Any]] = {}
    for count in record.protocol.launch_counts:
        for kernel in record.protocol.kernels_us:
            cell: dict[str, Any] = {"launch_count": count, "kernel_us": kernel, "work_us": count * kernel}
            group = groups.get((count, kernel), timed.iloc[:0])
            used = group[group["flag"] == ""]
            reasons = group[group["flag"] != ""].groupby("repetition")["flag"].first().value_counts(sort=False)
            texts = [f"{text} ({number} repetition{'s' if number > 1 else ''})" for text, number in reasons.items()]
            if (count, kernel) in left_out:
                longest = record.protocol.longest_ms
                texts = [f"not timed: {count} kernels of {kernel:g} us alone take longer than {longest:g} ms"]
            elif group.empty:
                texts = ["no repetitions in the CSV"]
            cell |= {
                "repetitions_used": used["repetition"].nunique(),
                "repetitions_flagged": int(reasons.sum()),
                "flags": "; ".join(texts),
            }
            if len(used):
                wide = used.pivot(index="repetition", columns="mode", values=list(TIMES))
                samples[count, kernel] = np.array([[wide[time][mode] for mode in PAIR] for time in TIMES], float)
            cells.append(cell)
    figures = _figures(samples)
    for cell in cells:
        key = (cell["launch_count"], cell["kernel_us"])
        cell |= figures.get(key, {})
        issue, gpu = cell.get("loop_issue_us", math.nan), cell.get("loop_us", math.nan)
        cell["pace"], cell["pace_reason"] = pace(*key, issue, gpu)
        cell["ahead"] = ahead(key[0], issue, gpu)
    return cells


def _figures(samples: dict[tuple[int, float], np.ndarray[Any, Any]]) -> dict[tuple[int, float], dict[str, float]]:
    """Medians and intervals of all cells; those of one sample size at once."""
    found: dict[tuple[int, float], dict[str, float]] = {key: {} for key in samples}
    for size in {sample.shape[-1] for sample in samples.values()}:
        keys = [key for key, sample in samples.items() if sample.shape[-1] == size]
        stacked = np.stack([samples[key] for key in keys])  # cell, time, mode, repetition
        for at, time in enumerate(("", "_issue", "_total")):
            paired = paired_medians(stacked[:, at, 0], np.maximum(stacked[:, at, 1], 1e-9))
            batches = {f"{mode}{time}": batch for mode, batch in zip(PAIR, (paired.first, paired.second), strict=True)}
            names = dict.fromkeys(batches, "_us")
            if not time:
                batches["speedup"], names["speedup"] = paired.ratio, ""
            for name, batch in batches.items():
                unit = names[name]
                for cell, value, low, high in zip(keys, batch.value, batch.low, batch.high, strict=True):
                    found[cell] |= {f"{name}{unit}": value, f"{name}_low{unit}": low, f"{name}_high{unit}": high}
    return found


# ---------------------------------------------------------------- the model


def _fit(cells: list[dict[str, Any]]) -> LengthModel:
    used = [cell for cell in cells if cell["repetitions_used"]]
    if not used:
        return LengthModel(*[math.nan] * 6)
    names = ("launch_count", "kernel_us", "loop_us", "replay_us")
    counts, kernels, loops, replays = (np.array([cell[name] for cell in used], np.float64) for name in names)
    return fit(counts, kernels, loops, replays, [cell["pace"] for cell in used])


def _add_model(cell: dict[str, Any], model: LengthModel) -> None:
    place = (cell["launch_count"], cell["kernel_us"])
    for mode, value in (("loop", model.loop_us(*place)), ("replay", model.replay_us(*place))):
        cell[f"{mode}_model_us"] = value
        cell[f"{mode}_residual_percent"] = 100 * (1 - value / cell.get(f"{mode}_us", math.nan))


def _model_row(result: Result, judged: pd.DataFrame, model: LengthModel, cells: list[dict[str, Any]]) -> dict[str, Any]:
    nothing = judged[(judged["mode"] == "nothing") & (judged["flag"] == "")]
    row: dict[str, Any] = {
        "version": result.record.protocol.version,
        "repetitions": result.record.protocol.repetitions,
        "cycles_per_us": result.record.cycles_per_us,
        "event_resolution_us": event_resolution(judged.loc[judged["flag"] == "", "gpu_us"]),
        "nothing_used": len(nothing),
        "points": sum(cell["repetitions_used"] > 0 for cell in cells),
        **vars(model),
    }
    for name, time in (("nothing", "gpu_us"), ("nothing_total", "total_us")):
        if len(nothing):
            found = stats.median(nothing[time].to_numpy())
            row |= {f"{name}_us": found.value, f"{name}_low_us": found.low, f"{name}_high_us": found.high}
    for mode in PAIR:
        residuals = [abs(cell[f"{mode}_residual_percent"]) for cell in cells]
        row[f"largest_{mode}_residual_percent"] = max((r for r in residuals if not math.isnan(r)), default=math.nan)
    return {**row, "verdict": _verdict(model, row)}


def event_resolution(gpu_us: pd.Series) -> float:
    """Smallest step between two different short intervals, in microseconds; NaN where none differ."""
    values = np.sort(gpu_us[(gpu_us > 0) & (gpu_us < RESOLUTION_BELOW_US)].to_numpy(np.float64))
    steps = np.diff(values)
    steps = steps[steps > SAME_TICK_US]
    return float(steps.min()) if len(steps) else math.nan


def _verdict(model: LengthModel, row: dict[str, Any]) -> str:
    if not row["points"]:
        return "no model: no valid samples"
    told = []
    residual = max(row["largest_loop_residual_percent"], row["largest_replay_residual_percent"])
    if residual > WRONG_MODEL_PERCENT:
        told.append(f"wrong model: it misses a cell by {residual:.0f} %")
    if abs(model.kernel_scale - 1) > KERNEL_SCALE:
        told.append(f"kernels took {model.kernel_scale:.2f} times what was asked for: the clock changed")
    for name, words in (("issue_us", "the host never set the pace"), ("pace_us", "the device never set the pace")):
        if math.isnan(getattr(model, name)):
            told.append(f"{words}, so that cost is not known")
    if math.isnan(model.loop_fixed_us) or math.isnan(model.replay_fixed_us):
        told.append("too few N to tell a fixed part: it is in the other costs")
    return "; ".join(told) or "within 10 % of every cell"


# ---------------------------------------------------------------- crossover


def _crossovers(who: dict[str, Any], cells: list[dict[str, Any]], model: LengthModel) -> list[dict[str, Any]]:
    rows = []
    for count in dict.fromkeys(cell["launch_count"] for cell in cells):
        used = [cell for cell in cells if cell["launch_count"] == count and cell["repetitions_used"]]
        used.sort(key=lambda cell: cell["kernel_us"])
        rows.append({**who, "launch_count": count, **crossover(used), "model_us": model.crossover_us(count)})
    return rows


def crossover(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """From which kernel length on a graph no longer helps, of usable cells of one N in the order of their lengths."""
    row: dict[str, Any] = {"verdict": "cannot-tell", "reason": "no valid samples"}
    if not cells:
        return row
    row["longest_us"] = cells[-1]["kernel_us"]
    if any(cell["repetitions_used"] < stats.MIN_SAMPLE for cell in cells):
        return {**row, "reason": stats.TOO_FEW}
    # Where the spread is below the resolution of the clock, the value is as good as an interval.
    helps = [(cell["speedup"] if math.isnan(cell["speedup_low"]) else cell["speedup_low"]) > HELPS for cell in cells]
    row["reason"] = ""
    if not any(helps):
        return {**row, "verdict": "never-helps", "no_help_from_us": cells[0]["kernel_us"]}
    last = max(at for at, yes in enumerate(helps) if yes)
    row["helps_until_us"] = cells[last]["kernel_us"]
    if last == len(cells) - 1:
        return {**row, "verdict": "not-reached"}
    return {**row, "verdict": "reached", "no_help_from_us": cells[last + 1]["kernel_us"]}
