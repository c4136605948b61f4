"""Where the numbers come from: GPU, host, software and code of each card, from the newest record.

It reads records only, for few cards; of many cards it tells what the summary holds.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from pydantic import BaseModel

from launchbench.errors import LaunchbenchError
from launchbench.report.cells import Cell, Table, any_simulated, cut, heads
from launchbench.report.comparison import CARD_KEY, Comparison
from launchbench.results.files import read_record
from launchbench.results.protocol import Protocol
from launchbench.results.record import DeviceState, Record
from launchbench.wording import UNKNOWN, plural, ranges, several, shortened

MAX_COLUMNS = 8
MAX_ROWS = 200

_LEFT_OUT = {"unavailable", "affinity", "cpu_quota_cpus", "virtual", "build_flags"}
_UNITS = (("_bytes", "bytes"), ("_mhz", "MHz"), ("_us", "µs"), ("_w", "W"), ("_c", "°C"))


def origins(comparison: Comparison, results_dir: Path) -> Table:
    """One column per card, rows for every field of its record; for many cards one row each."""
    cards = comparison.summary.drop_duplicates(CARD_KEY)
    if len(cards) > MAX_COLUMNS:
        return _many(comparison, cards)
    records: dict[str, Record | None] = {}
    newest = comparison.summary.sort_values(["started_utc", "run_id"]).drop_duplicates("card_name", keep="last")
    for row in newest.sort_values("card_name").to_dict("records"):
        path = results_dir / row["site"] / row["label"] / row["card"] / f"{row['run_id']}.json"
        try:
            records[row["card_name"]] = read_record(path)
        except LaunchbenchError:
            records[row["card_name"]] = None
    fields: dict[str, dict[str, Cell]] = {}
    for name, record in records.items():
        for field, cell in _fields(record).items() if record else ():
            fields.setdefault(field, {})[name] = cell
    unknown = Cell(UNKNOWN, "not in the record", kind="missing")
    body = [
        [Cell(field, heading="row"), *(known.get(name, unknown) for name in records)] for field, known in fields.items()
    ]
    caption = "GPU, host, software and code of each card, from its newest run. A dash is a value that could not be had."
    return Table("origins", caption, heads("", *records), body, any_simulated(comparison.summary))


def _fields(record: Record) -> dict[str, Cell]:
    cells = {
        **_of_model("GPU", record.device),
        **_of_model("host", record.host),
        **_of_model("software", record.software),
        **_of_model("code", record.code),
    }
    if record.slurm:
        cells.update(_of_model("SLURM", record.slurm))
    affinity = record.host.affinity
    cells["host: CPUs it may run on"] = Cell(UNKNOWN if affinity is None else ranges(affinity))
    quota = record.host.cpu_quota_cpus
    cells["host: quota of CPU time, CPUs"] = _value(
        None if quota is None else f"{quota:.3g}", record.host.unavailable.get("cpu_quota_cpus", "not recorded")
    )
    cells["software: build flags"] = Cell(" ".join(record.software.build_flags) or UNKNOWN)
    protocol = record.protocol
    cells["protocol"] = Cell(_protocol(protocol))
    first, last = record.blocks[0].before, record.blocks[-1].after
    for name, field in (
        ("SM clock, MHz", "sm_clock_mhz"),
        ("temperature, °C", "temperature_c"),
        ("power, W", "power_w"),
        ("clock events", "throttle_reasons"),
        ("other processes", "other_processes"),
    ):
        cells[f"before and after: {name}"] = _change(first, last, field)
    return cells


def _protocol(protocol: Protocol) -> str:
    repeated = f"{protocol.repetitions} repetitions"
    if protocol.placements is not None:
        repeated += f" at each of {plural(protocol.placements, 'placement')}"
    warm_up = f"{protocol.warmup_rounds} warm-up rounds and at least {protocol.warmup_ms} ms"
    return f"version {protocol.version}: {repeated} after {warm_up}"


def _of_model(section: str, model: BaseModel) -> dict[str, Cell]:
    reasons: dict[str, str] = getattr(model, "unavailable", {})
    cells = {}
    for name, value in model:
        if name in _LEFT_OUT:
            continue
        suffix, unit = next(((end, unit) for end, unit in _UNITS if name.endswith(end)), ("", ""))
        words = name.removesuffix(suffix).replace("_", " ") + (f", {unit}" if unit else "")
        cells[f"{section}: {words}"] = _value(value, reasons.get(name, "not recorded"))
    return cells


def _value(value: object, reason: str) -> Cell:
    if value is None:
        return Cell(UNKNOWN, reason, kind="missing")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, float):
        return Cell(_rounded(value), "" if value == round(value, 1) else str(value))
    text = f"{value:,}" if isinstance(value, int) else str(value)
    short = text[:12] + "…" if len(text) == 64 and text.isalnum() else shortened(text, 80)
    return Cell(short, text if short != text else "")


def _change(before: DeviceState, after: DeviceState, field: str) -> Cell:
    words = []
    for state in (before, after):
        value = getattr(state, field)
        if value is None:
            words.append(UNKNOWN)
        elif field == "other_processes":
            words.append(str(len(value)))
        elif isinstance(value, float):
            words.append(_rounded(value))
        else:
            words.append(several(value) or "none" if isinstance(value, list) else str(value))
    reason = before.unavailable.get(field) or after.unavailable.get(field) or ""
    return Cell(" → ".join(words), reason, kind="missing" if UNKNOWN in words else "")


def _rounded(value: float) -> str:
    """Watts and load averages: no sensor is more exact than a tenth."""
    return f"{value:,.1f}".removesuffix(".0")


def _many(comparison: Comparison, cards: pd.DataFrame) -> Table:
    names = ("gpu_name", "card", "site", "hostname", "cpu_model", "driver_version", "nvcc")
    ordered = cards.sort_values("card_name")
    body = [
        [Cell(row["card_name"], heading="row")]
        + [Cell(shortened(row[name]) or UNKNOWN, row[name] if len(row[name]) > 40 else "") for name in names]
        for row in ordered.head(MAX_ROWS).to_dict("records")
    ]
    head = heads("card", "GPU", "UUID begins", "site", "host", "host CPU", "driver", "nvcc")
    caption = "GPU, host and software of each card; everything else stands in its records."
    return Table(
        "origins", caption, head, body, any_simulated(comparison.summary), cut(len(cards), MAX_ROWS, "summary.csv")
    )
