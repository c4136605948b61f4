"""The section about baked-in pointers: sentences made from each card's own outcomes, and two tables.

It may not state an outcome, a number or a cause that its rows do not carry: a card that behaves in another way gets
other sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from launchbench.report.cells import (
    RAW_DATA,
    Cell,
    Row,
    Table,
    any_simulated,
    count,
    cut,
    heads,
    label_name,
    of_run,
    quantity,
)
from launchbench.report.comparison import HEADLINE_COUNT, MANY_CARDS
from launchbench.report.extra import MAX_ROWS, Files, broken, newest, read_named, unmeasured
from launchbench.results.pointers_words import SCENARIOS
from launchbench.wording import UNKNOWN, number, plural, several, shortened, with_interval

BY_LUCK = ("d2-updated", "victim-corrupted")
"""Outcomes in which the freed address belongs to another live buffer."""

TITLES = {
    "control": "Control (d is kept)",
    "recycled": "Recycled address (d is freed, then d2 allocated)",
    "victim": "Innocent victim (d is freed, another buffer allocated, then d2)",
    "unowned": "Unowned address (d2 allocated, then a small d freed)",
    "unmapped": "Unmapped address (d of 64 MiB, freed)",
}

CURE_NAMES = {
    "exec-update": "cuGraphExecUpdate with a graph captured anew",
    "node-params": "cuGraphExecKernelNodeSetParams for every node",
    "recapture": "capturing and instantiating anew",
    "fixed-buffer": "a fixed buffer that is written in place",
}


@dataclass(frozen=True)
class Section:
    """What the template shows."""

    stories: list[tuple[str, list[str]]]
    """Card or label -> its sentences."""
    missing: list[str]
    """Labels that nobody has measured."""
    scenarios: Table
    cures: Table
    broken: Table
    simulated: bool


def section(
    tables_dir: Path, config_labels: Sequence[str], files: Files, beside: pd.DataFrame | None = None
) -> Section:
    """The section, from ``pointers.csv``, ``cures.csv`` and ``pointers_gaps.csv``.

    ``beside`` is that of ``read_named``.

    Raises:
        LaunchbenchError: a table is missing or is not what its columns say.
    """
    pointers, cures = read_named(tables_dir, beside, "pointers", "cures")
    shown, timed = newest(pointers), newest(cures)
    return Section(
        stories=_stories(shown, timed),
        missing=unmeasured(pointers, config_labels),
        scenarios=_scenario_table(shown, files),
        cures=_cure_table(timed),
        broken=broken(tables_dir, "pointers", files),
        simulated=any_simulated(pointers),
    )


def _stories(shown: pd.DataFrame, timed: pd.DataFrame) -> list[tuple[str, list[str]]]:
    cards = list(dict.fromkeys(shown["card_name"]))
    if len(cards) > MANY_CARDS:
        groups = shown.groupby(["label", "virtual"], sort=True)
        return [(label_name(str(label), bool(virtual)), _counted(group)) for (label, virtual), group in groups]
    return [(card, card_story(_records(shown, card), _records(timed, card))) for card in cards]


def _records(frame: pd.DataFrame, card: str) -> list[Row]:
    return frame[frame["card_name"] == card].to_dict("records")


def _counted(group: pd.DataFrame) -> list[str]:
    total = group["card_name"].nunique()
    told = []
    for name in SCENARIOS:
        own = group[group["scenario"] == name]
        outcomes = own["outcome"].value_counts().items()
        verdicts = own["sanitizer"].value_counts().items()
        text, seen = (several(f"{word} on {count}" for word, count in counts) for counts in (outcomes, verdicts))
        told.append(f"{TITLES[name]}, {plural(total, 'card')}: {text}; compute-sanitizer: {seen}.")
    return told


def card_story(rows: list[Row], cures: list[Row]) -> list[str]:
    """Sentences about one card: a line a scenario, what the sanitizer cannot see, and the cures."""
    by_name = {str(row["scenario"]): row for row in rows}
    known = [(name, by_name[name]) for name in SCENARIOS if name in by_name]
    seen = {name: _seen_by_tool(row) for name, row in known}
    alike = len(set(seen.values())) == 1 and known[0][1]["sanitizer"] == "not-run"
    told = [f"{TITLES[name]}: {_what(row)}" + ("" if alike else f" {seen[name]}") for name, row in known]
    once = [f"In all of them: {seen[known[0][0]]}"] if alike else []
    return [*told, *once, *_blind(by_name), *cure_story(cures)]


def _what(row: Row) -> str:
    outcome, d, d2 = row["outcome"], row["d_address"], row["d2_address"]
    if outcome == "captured-buffer-updated":
        return "the replay counted d up, as it was captured to, and left d2 at 0."
    if outcome == "d2-updated":
        if d and d == d2:
            return f"the allocator gave d2 the address of d again ({d}), so d2 holds 1 after the replay: by luck."
        return f"d2 holds 1 after the replay, although it lies at {d2 or UNKNOWN} and d lay at {d or UNKNOWN}."
    if outcome == "victim-corrupted":
        where = f" at the address of d ({d})" if d and d == row["victim_address"] else ""
        return (
            f"the innocent buffer{where} holds 1 after the replay although nobody meant to write to it, and d2 "
            "holds 0: data are corrupted, and no call returned an error."
        )
    if outcome == "nothing-visible":
        return f"every call returned success and d2 ({d2 or UNKNOWN}) still holds 0: nothing shows that it went wrong."
    if outcome == "cannot-tell":
        return f"what the replay did cannot be told: {row['reason'] or 'no reason was kept'}."
    failed = f"{row['failed_call']} returned {row['failed_name']} ({row['failed_code']})"
    if outcome == "context-lost":
        return (
            f"{failed}, and no allocation succeeds after it: the context is lost with all that the process had in it."
        )
    return f"{failed}; the context stayed usable."


def _seen_by_tool(row: Row) -> str:
    verdict, reason = row["sanitizer"], shortened(row["sanitizer_reason"], 300)
    if verdict == "clean":
        return "compute-sanitizer: no error."
    if verdict == "not-run":
        return f"compute-sanitizer was not run: {reason or 'no reason was kept'}."
    if verdict == "cannot-tell":
        return f"Whether compute-sanitizer would report anything cannot be told: {reason or 'no reason was kept'}."
    return f"compute-sanitizer: {_error(row)}."


def _error(row: Row) -> str:
    parts = [
        f" in {row['kernel']}" if row["kernel"] else "",
        f" ({row['source_line']})" if row["source_line"] else "",
        f", {_distance(row)}" if row["side"] else "",
        f", launched by {row['host_frame']}" if row["host_frame"] and row["access"] else "",
    ]
    api = _calls(row["api_errors"])
    return _kind(row) + "".join(parts) + (f"; then {api}" if api and row["access"] else "")


def _kind(row: Row) -> str:
    return f"“{row['sanitizer_kind']}”" if row["sanitizer_kind"] else "errors that it did not describe"


def _calls(api_errors: str) -> str:
    """The calls that failed under the tool, those with the same error together."""
    calls: dict[str, list[str]] = {}
    for one in filter(None, api_errors.split("; ")):
        call, _, error = one.partition(": ")
        calls.setdefault(error, []).append(call)
    return several(f"{several(names)} returned {error}" if error else several(names) for error, names in calls.items())


def _distance(row: Row) -> str:
    if row["side"] == "inside":
        return "inside the nearest allocation"
    known = not pd.isna(row["distance_bytes"])
    return (f"{row['distance_bytes']:,} bytes " if known else "") + f"{row['side']} the nearest allocation"


def _blind(rows: dict[str, Row]) -> list[str]:
    """What the tool cannot see, where it has looked and seen nothing; and whether its looking can be trusted."""
    told = []
    unseen = [name for name, row in rows.items() if row["outcome"] in BY_LUCK and row["sanitizer"] == "clean"]
    if unseen:
        cases = several(TITLES[name].partition(" (")[0].lower() for name in unseen)
        told.append(
            f"What compute-sanitizer cannot see here: {cases}. The freed address belongs to a live allocation again, "
            "so the access is valid to the tool; that the graph means another buffer is known to nobody but the "
            "programmer. A clean report is no proof that a graph's pointers are good."
        )
    control = rows.get("control")
    if control and control["sanitizer"] == "errors":
        told.append("The tool reports errors in the control too, so its other reports are in doubt.")
    return told


def cure_story(rows: list[Row]) -> list[str]:
    """Which cures worked, and what they cost at the N of the headline."""
    if not rows:
        return []
    good = [row for row in rows if row["outcome"] == "right-buffer" and row["repetitions"]]
    told = [
        f"{CURE_NAMES[row['cure']][0].upper()}{CURE_NAMES[row['cure']][1:]} at N = {row['launch_count']:,}: "
        + ("the replay wrote to the wrong buffer" if row["outcome"] == "wrong-buffer" else "failed")
        + f" ({row['reason'] or 'no reason was kept'})."
        for row in rows
        if row["outcome"] != "right-buffer"
    ]
    if good:
        counts = sorted({row["launch_count"] for row in good})
        at = HEADLINE_COUNT if HEADLINE_COUNT in counts else counts[-1]
        told.append(_costs([row for row in good if row["launch_count"] == at], at, sum(row["checked"] for row in good)))
    return told


def _costs(rows: list[Row], at: int, checked: int) -> str:
    costs = [(float(np.nansum([row["prepare_us"], row["apply_us"]])), row) for row in rows]
    costs.sort(key=lambda pair: pair[0])
    parts = [f"{CURE_NAMES[row['cure']]} {number(cost)} µs{_split(row)}" for cost, row in costs]
    text = (
        f"After each of these the replay wrote to the right buffer, in all {checked:,} replays that were checked. "
        f"Host time before the replay, at N = {at:,}: {several(parts)}."
    )
    by_name = {row["cure"]: row for row in rows}
    if {"exec-update", "recapture"} <= set(by_name):
        update, anew = (by_name[name]["apply_us"] for name in ("exec-update", "recapture"))
        if update < anew:
            text += (
                f" Both need a new capture; updating then takes {number(update)} µs where instantiating takes "
                f"{number(anew)} µs."
            )
        else:
            text += " Here the update is no cheaper than instantiating anew."
    return text


def _split(row: Row) -> str:
    return "" if math.isnan(row["prepare_us"]) else f" ({number(row['prepare_us'])} of them for the capture)"


def _scenario_table(rows: pd.DataFrame, files: Files) -> Table:
    order = rows["scenario"].map({name: rank for rank, name in enumerate(SCENARIOS)})
    rows = rows.assign(rank=order).sort_values(["card_name", "rank"], kind="stable")
    shown = rows.head(MAX_ROWS)
    body = [
        _scenario_row(row, files, leads)
        for row, leads in zip(shown.to_dict("records"), shown["run_id"].duplicated(), strict=True)
    ]
    head = heads(
        "card",
        "scenario",
        ("d", "address of the captured buffer"),
        ("d2", "address of the new buffer"),
        ("victim", "address of the innocent buffer"),
        ("d2[0]", "after the replay; 0 before it"),
        ("victim[0]", "after the replay; 0 before it"),
        ("first error", "by the replay or after it"),
        "outcome",
        ("compute-sanitizer", "of the stand-alone program in the same scenario"),
        RAW_DATA,
    )
    caption = "Exercise 4: what a replay did after its buffer was freed."
    notes = cut(len(rows), MAX_ROWS, "pointers.csv")
    return Table("pointers", caption, head, body, any_simulated(rows), notes)


def _scenario_row(row: Row, files: Files, leads: bool) -> list[Cell]:
    failed = f"{row['failed_call']}: {row['failed_name']} ({row['failed_code']})" if row["failed_call"] else "none"
    found = row["sanitizer"]
    if found == "errors":
        known = not pd.isna(row["sanitizer_errors"])
        found = f"{plural(int(row['sanitizer_errors']), 'error')}: {_kind(row)}" if known else _kind(row)
    report = files(row["sanitizer_file"]) if row["sanitizer_file"] else ()
    stem = f"{row['site']}/{row['label']}/{row['card']}/{row['run_id']}"
    links = [("sanitizer's report", address) for _, address in report]
    links += [(word, address) for word in ("CSV", "record") for _, address in files(f"{stem}.{_SUFFIX[word]}")]
    values = [
        quantity(math.nan) if pd.isna(row[name]) else quantity(float(row[name]), f"{row[name]:g}")
        for name in ("d2_value", "victim_value")
    ]
    return [
        of_run(row, leads),
        Cell(row["scenario"], TITLES[row["scenario"]]),
        *(Cell(row[f"{name}_address"] or UNKNOWN) for name in ("d", "d2", "victim")),
        *values,
        Cell(failed, kind="prose"),
        Cell(row["outcome"].replace("-", " "), row["reason"]),
        Cell(found, row["sanitizer_reason"], kind="prose"),
        Cell("", links=links),
    ]


_SUFFIX = {"CSV": "csv", "record": "json"}


def _cure_table(rows: pd.DataFrame) -> Table:
    body = []
    for row in rows.head(MAX_ROWS).to_dict("records"):
        figures = [_interval(row, part) for part in ("prepare", "apply", "first_replay", "total")]
        body.append(
            [
                of_run(row),
                Cell(CURE_NAMES[row["cure"]]),
                count(row["launch_count"]),
                Cell(row["outcome"].replace("-", " "), row["reason"]),
                count(row["checked"]),
                *figures,
            ]
        )
    head = heads(
        "card",
        "cure",
        "N",
        ("replay wrote to", "the buffers were read after every replay"),
        ("checked", "replays"),
        ("capture, µs", "host clock, median [95 % interval]; none where the cure needs no capture"),
        ("cure, µs", "host clock, median [95 % interval]"),
        ("replay after it, µs", "host clock with synchronize; an upload that is left to it shows here"),
        ("all, µs", "host clock, median [95 % interval]"),
    )
    caption = "What it costs to let a replay work on another buffer."
    return Table("cures", caption, head, body, any_simulated(rows), cut(len(rows), MAX_ROWS, "cures.csv"))


def _interval(row: Row, part: str) -> Cell:
    value, low, high = (row[f"{part}{end}_us"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return Cell(UNKNOWN, kind="missing")
    return quantity(float(value), with_interval(value, low, high))
