"""Sentences made from the numbers of a comparison, in the words of the case that the numbers show.

It may not state a number, an effect or a cause that its rows do not carry, and knows no published figure.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import pandas as pd

from launchbench.aggregate.fits import WRONG_MODEL_PERCENT
from launchbench.aggregate.summarise import PAST_DEPTH
from launchbench.aggregate.trials import MIN_TRIALS
from launchbench.report.cells import replays, row_anchor
from launchbench.report.comparison import MANY_CARDS, Comparison
from launchbench.results.protocol import QUEUE_DEPTH
from launchbench.wording import number, plural, several, span, with_interval

LOOP_OF = {
    "native-driver": "a native loop of cuLaunchKernel",
    "native-runtime": "a native loop of <<<>>>",
    "cuda-bindings": "a Python loop of cuLaunchKernel by cuda.bindings",
    "cuda-python": "a Python loop of cuda.core.launch",
    "cupy": "a Python loop of CuPy",
    "numba": "a Python loop of Numba, with its own kernel (not the same code),",
    "triton": "a Python loop of Triton, with its own kernel (not the same code),",
    "torch": "a Python loop of PyTorch, with its own kernel (not the same code),",
}
"""Who issues the launches, in words."""

HOST_BOUND = 0.9
"""Issuing that takes at least this share of the loop's GPU time sets its pace."""

SAME_SPEED = 0.02
"""Speed-ups that differ by less than this share are told as equal."""

Row = dict[Hashable, Any]


def short_answer(comparison: Comparison, launch_path: str) -> list[tuple[str, str]]:
    """One paragraph per card, or per label where there are many cards, each with the place of its raw data.

    Empty where nothing is compared.
    """
    at = comparison.headline_count(launch_path)
    if at is None:
        return []
    rows = comparison.rows(launch_path)
    if comparison.many:
        labels = by_label(rows, comparison)
        return [(_label_answer(name, group, at, launch_path), "#summary") for name, group in labels]
    return [
        _card_answer(card, group.to_dict("records"), at, launch_path, comparison.listed)
        for card in comparison.cards
        if len(group := rows[rows["card_name"] == card])
    ]


def _card_answer(card: str, rows: list[Row], at: int, launch_path: str, listed: bool) -> tuple[str, str]:
    row = next((row for row in rows if row["launch_count"] == at), rows[-1])
    n = row["launch_count"]
    first = (
        f"{card}: at N = {n:,} a stream launch from {LOOP_OF[launch_path]} costs "
        f"{number(row['loop_us_per_launch'])} µs on this host, a replay "
        f"{number(row['replay_us_per_node'])} µs per node; {_versus(row)}."
    )
    others = several(_at(other, "speedup", "") for other in rows if other is not row)
    text = first + (f" Speed-up at the other N: {others}." if others else "") + pays(rows)
    return text, f"#{row_anchor(row)}" if listed else "#summary"


def _at(row: Row, column: str, unit: str = " µs") -> str:
    return f"{number(row[column])}{unit} at N = {row['launch_count']:,}"


def _versus(row: Row) -> str:
    value = with_interval(row["speedup"], row["speedup_low"], row["speedup_high"])
    low, high = row["speedup_low"], row["speedup_high"]
    if math.isnan(low):
        low = high = row["speedup"]
    if low > 1:
        return f"the graph is {value} times as fast as the loop"
    if high < 1:
        return f"the graph does not help: its speed-up is {value}, so the loop is faster"
    return f"the graph does not help measurably: its speed-up is {value}"


def pays(rows: list[Row]) -> str:
    """After how many replays a graph has paid for itself, over the N of a card; begins with a space."""
    known = [row for row in rows if not math.isnan(row["break_even_replays"])]
    paid = [
        f"{replays(row)} at N = {row['launch_count']:,}" for row in known if math.isfinite(row["break_even_replays"])
    ]
    never = [f"N = {row['launch_count']:,}" for row in known if math.isinf(row["break_even_replays"])]
    text = f" Replays until capture, instantiation and upload are paid for: {several(paid)}." if paid else ""
    return text + (f" They are never paid for at {several(never)}." if never else "")


def by_label(rows: pd.DataFrame, comparison: Comparison) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each label that has any, simulated GPUs apart."""
    groups = []
    for label, virtual in comparison.labels:
        group = rows[(rows["label"] == label) & (rows["virtual"] == virtual)]
        if len(group):
            groups.append((f"{label}{' (simulated)' if virtual else ''}", group))
    return groups


def _label_answer(label: str, group: pd.DataFrame, at: int, launch_path: str) -> str:
    here = group[group["launch_count"] == at]
    if here.empty:
        return f"{label}: nothing at N = {at:,}."
    return (
        f"{label}: over {plural(here['card_name'].nunique(), 'card')} at N = {at:,}, a stream launch from "
        f"{LOOP_OF[launch_path]} costs {span(here['loop_us_per_launch'])} µs, a replay "
        f"{span(here['replay_us_per_node'])} µs per node, and the speed-up is {span(here['speedup'])} "
        "(smallest to largest card)."
    )


def clocks(comparison: Comparison, launch_path: str) -> list[str]:
    """What the host's clock and the events say of the same loop, one sentence per card."""
    at = comparison.headline_count(launch_path)
    if at is None or comparison.many:
        return []
    rows = comparison.rows(launch_path, launch_count=at)
    return [
        f"{row['card_name']}, N = {at:,}: {_clock(row)}"
        for card in comparison.cards
        for row in rows[rows["card_name"] == card].to_dict("records")
    ]


def _clock(row: Row) -> str:
    issue, gpu, total = row["loop_issue_us"], row["loop_us"], row["loop_total_us"]
    text = (
        f"issuing the loop took the host {number(issue, 4)} µs, the events saw {number(gpu, 4)} µs, and with "
        f"the synchronize the host saw {number(total, 4)} µs. "
    )
    if issue < HOST_BOUND * gpu:
        return text + f"The device worked on for {number(gpu - issue)} µs after the last launch: it sets the pace."
    if row["regime"] == PAST_DEPTH:
        return text + "With the queue full, issuing waits for the device: who sets the pace cannot be told."
    return text + "Issuing sets the pace: the device waits for the host, so this loop time is the host's."


def fits(comparison: Comparison, launch_path: str) -> list[str]:
    """What in loop and replay time depends on N, one paragraph per card, or per label where there are many."""
    lines = comparison.fits
    lines = lines[(lines["launch_path"] == launch_path) & (lines["kernel"] == "tiny")]
    if comparison.many:
        return [f"{name}: {_label_fits(group)}" for name, group in by_label(lines, comparison)]
    rows = comparison.rows(launch_path)
    paragraphs = []
    for card in comparison.cards:
        own = rows[rows["card_name"] == card]
        if own.empty:
            continue
        mine = lines[(lines["card_name"] == card) & (lines["protocol_hash"] == own["protocol_hash"].iloc[0])]
        by_mode = {row["mode"]: row for row in mine.to_dict("records")}
        if len(by_mode) == 2:
            text = _explained(by_mode["loop"], by_mode["replay"], own.to_dict("records"))
            paragraphs.append(f"{card}: {text}")
    return paragraphs


def _label_fits(lines: pd.DataFrame) -> str:
    wrong = int((lines["largest_residual_percent"] > WRONG_MODEL_PERCENT).sum())
    good = lines[(lines["points"] > 1) & ~(lines["largest_residual_percent"] > WRONG_MODEL_PERCENT)]
    loop, replay = (good[good["mode"] == mode] for mode in ("loop", "replay"))
    text = (
        f"over {plural(lines['card_name'].nunique(), 'card')}, loop time grows by {span(loop['per_launch_us'])} µs "
        f"with every launch and has {span(loop['fixed_us'])} µs that do not depend on N; replay time grows by "
        f"{span(replay['per_launch_us'])} µs with every node and has {span(replay['fixed_us'])} µs that do not."
    )
    left_out = f" A straight line is the wrong model for {plural(wrong, 'other line')}." if wrong else ""
    return text + left_out


def _explained(loop: Row, replay: Row, rows: list[Row]) -> str:
    if loop["points"] < 2:
        return f"only N = {rows[0]['launch_count']:,} was measured, so what depends on N cannot be told."
    parts = [_part(loop, rows, "loop"), _part(replay, rows, "replay"), _growth(loop, replay, rows)]
    if loop["points"] == 2:
        parts.append("Two values of N draw the line but cannot test it.")
    return " ".join(part for part in parts if part)


def _part(line: Row, rows: list[Row], mode: str) -> str:
    unit = "launch" if mode == "loop" else "node"
    name = "Loop time" if mode == "loop" else "Replay time"
    if _wrong(line):
        column = "loop_us_per_launch" if mode == "loop" else "replay_us_per_node"
        each = several(_at(row, column) for row in rows)
        return f"{name} is no straight line over N ({line['verdict']}); per {unit} it is {each}."
    slope = with_interval(line["per_launch_us"], line["per_launch_low_us"], line["per_launch_high_us"])
    text = f"{name} grows by {slope} µs with every {unit}"
    if line["per_launch_us"] <= 0:
        text = f"{name} does not grow with N (slope {slope} µs)"
    return f"{text}; {_fixed(line, rows, mode)}"


def _fixed(line: Row, rows: list[Row], mode: str) -> str:
    fixed = with_interval(line["fixed_us"], line["fixed_low_us"], line["fixed_high_us"])
    if line["fixed_us"] <= 0 or line["fixed_low_us"] <= 0:
        return f"a part that does not depend on N cannot be told from zero ({fixed} µs)."
    first, last = (rows[at] for at in (0, -1))
    column = "loop_us" if mode == "loop" else "replay_us"
    shares = [min(100.0, 100 * line["fixed_us"] / row[column]) for row in (first, last)]
    what = "" if mode == "loop" else ", handing over the graph as a whole,"
    return (
        f"{fixed} µs{what} do not depend on N: {number(shares[0], 2)} % of the time at N = "
        f"{first['launch_count']:,} and {number(shares[1], 2)} % at N = {last['launch_count']:,}."
    )


def _growth(loop: Row, replay: Row, rows: list[Row]) -> str:
    first, last = rows[0], rows[-1]
    ends = f"from {_at(first, 'speedup', '')} to {_at(last, 'speedup', '')}"
    change = last["speedup"] / first["speedup"] - 1
    if abs(change) < SAME_SPEED:
        text = f"The speed-up stays about the same, {ends}"
    else:
        text = f"The speed-up {'grows' if change > 0 else 'falls'} {ends}"
    if _wrong(loop) or _wrong(replay) or loop["per_launch_us"] <= 0 or replay["per_launch_us"] <= 0:
        return text + "."
    limit = loop["per_launch_us"] / replay["per_launch_us"]
    text += (
        f"; as the fixed parts lose weight it tends to the ratio of the slopes, {number(limit)}"
        if change > 0 and last["speedup"] <= limit
        else f"; the ratio of the slopes is {number(limit)}"
    )
    slow = [f"N = {row['launch_count']:,}" for row in rows if row["speedup"] < 1]
    if limit <= 1:
        text += ". A node costs as much as a launch, so a graph has nothing to save"
    elif slow:
        text += f". At {several(slow)} the fixed part of a replay outweighs what the launches cost"
    return text + "."


def _wrong(line: Row) -> bool:
    return not math.isnan(line["largest_residual_percent"]) and (line["largest_residual_percent"] > WRONG_MODEL_PERCENT)


def not_alike(comparison: Comparison, launch_path: str) -> list[str]:
    """Warnings where the cards side by side differ in more than the card."""
    rows = comparison.rows(launch_path)
    warnings = []
    hosts = rows[["hostname", "cpu_model"]].drop_duplicates()
    if rows["card_name"].nunique() > 1 and len(hosts) > 1:
        cpus = sorted({model or "unknown CPU" for model in hosts["cpu_model"]})
        named = several(cpus) if len(cpus) <= 6 else f"{len(cpus)} CPU models"
        warnings.append(
            f"The loops were issued by {plural(len(hosts), 'host')} ({named}). The host decides what a loop "
            "costs, so a difference in loop time or speed-up is not a difference between the GPUs alone; "
            "replay per node is the device's."
        )
    if rows["protocol_hash"].nunique() > 1:
        warnings.append(
            f"These rows were timed under {plural(rows['protocol_hash'].nunique(), 'protocol')} "
            "(the table of protocols says what differs): they are not like for like."
        )
    if (rows["launch_count"] > QUEUE_DEPTH).any():
        warnings.append(
            f"N above about {QUEUE_DEPTH:,} can be another regime than N below: more launches than the queue of "
            "pending ones holds, so that issuing can have to wait for the device."
        )
    return warnings


def alt_speedup(comparison: Comparison) -> str:
    """What the speed-up figure shows, for those who do not see it."""
    return _alt(comparison, "Speed-up of graph replay over the stream loop against N.", ("speedup",))


def alt_times(comparison: Comparison) -> str:
    """What the figure of times shows."""
    title = "GPU time of loop and of replay against N, both axes logarithmic, with the fitted lines."
    return _alt(comparison, title, ("loop_us", "replay_us"))


def _alt(comparison: Comparison, title: str, names: tuple[str, ...]) -> str:
    word = {"speedup": "", "loop_us": "loop ", "replay_us": "replay "}
    parts = []
    for path in comparison.swept_paths:
        rows = comparison.rows(path)
        if comparison.many:
            groups = by_label(rows, comparison)
        else:
            groups = [(card, rows[rows["card_name"] == card]) for card in comparison.cards]
        told = [f"{name} {_ends(group, names, word)}" for name, group in groups if len(group)]
        if told:
            parts.append(f"{path}: {'; '.join(told)}.")
    return " ".join([title, *parts]) if parts else f"{title} No results yet."


def _ends(group: pd.DataFrame, names: tuple[str, ...], word: dict[str, str]) -> str:
    counts = sorted({group["launch_count"].min(), group["launch_count"].max()})
    told = []
    for name in names:
        unit = " µs" if name.endswith("_us") else ""
        at = [group[group["launch_count"] == count] for count in counts]
        ends = [f"{span(rows[name])}{unit} at N = {count:,}" for rows, count in zip(at, counts, strict=True)]
        told.append(word[name] + " to ".join(ends))
    return ", ".join(told)


def intervals(comparison: Comparison) -> str:
    """What the intervals stand on, and which cards have none for want of trials."""
    text = (
        "Intervals are 95 % intervals between trials: fresh processes, each with placements of the buffer of its own."
    )
    few = comparison.compared[comparison.compared["trials"] < MIN_TRIALS]
    if few.empty:
        return text
    if len(few) == len(comparison.compared):
        return f"No figure has an interval: every cell has fewer than {MIN_TRIALS} trials (fresh processes)."
    names = sorted(set(few["card_name"]))
    named = several(names) if len(names) <= MANY_CARDS else plural(len(names), "card")
    return f"{text} Cells with fewer than {MIN_TRIALS} trials have none: {plural(len(few), 'cell')} of {named}."
