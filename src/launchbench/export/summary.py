"""The summary as JSON: no NaN and no infinity; what is not known is null and says why."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable
from typing import Any

import pandas as pd

import launchbench
from launchbench.aggregate.summarise import ONE_OFF
from launchbench.results import columns
from launchbench.results.columns import Column

FORMAT = "launchbench-summary/1"

NEVER = "never: the replay is not faster than the loop"
PERHAPS_NEVER = "perhaps never: in its interval the replay is not faster than the loop"
NOT_RECORDED = "the record of the job does not have it"
NO_SAMPLE = "no sample of it is valid"
NO_ONE_OFF = "no job of the cell has a sample of it"
NO_INTERVAL = "no interval was computed"

_INTERVAL = re.compile(r"_(low|high)(?=_us$|$)")
_ONE_OFF = {f"{step}{end}" for step in ONE_OFF for end in ("_us", "_min_us", "_max_us")}
_ONE_OFF |= {"graph_bytes", "graph_min_bytes", "graph_max_bytes"}
_JSON_TYPES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}


def summary_json(summary: pd.DataFrame, gaps: pd.DataFrame) -> str:
    """The document that :func:`summary_schema` describes, indented, with a final newline.

    Args:
        summary: a validated table, columns ``columns.SUMMARY``.
        gaps: the same, ``columns.GAPS``.
    """
    document = {
        "format": FORMAT,
        "launchbench": launchbench.__version__,
        "simulated": bool(summary["virtual"].any()),
        "units": {column.name: column.unit for column in columns.SUMMARY if column.unit},
        "cells": [_cell(row) for row in summary.to_dict("records")],
        "gaps": [{column.name: _value(row[column.name]) for column in columns.GAPS} for row in gaps.to_dict("records")],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _cell(row: dict[Hashable, Any]) -> dict[str, Any]:
    cell = {column.name: _value(row[column.name], column.nullable) for column in columns.SUMMARY}
    unknown = [name for name, value in cell.items() if value is None]
    return {**cell, "unavailable": {name: _why(name, row) for name in unknown}}


def _value(value: Any, nullable: bool = False) -> Any:
    if pd.isna(value) or (isinstance(value, float) and math.isinf(value)) or (nullable and value == ""):
        return None
    return value


def _why(name: str, row: dict[Hashable, Any]) -> str:
    if isinstance(row[name], str):
        return NOT_RECORDED
    figure = _INTERVAL.sub("", name)
    if math.isinf(row[name]):
        return NEVER if name == figure else PERHAPS_NEVER
    if name != figure:
        return str(row["interval_reason"]) or NO_INTERVAL if _value(row[figure]) is not None else _why(figure, row)
    if name in _ONE_OFF:
        return NO_ONE_OFF
    if name == "break_even_replays" and _value(row["speedup"]) is not None:
        return f"capture, instantiate or upload: {NO_ONE_OFF}"
    return str(row["flags"]) or NO_SAMPLE


def _property(column: Column) -> dict[str, Any]:
    kind: Any = _JSON_TYPES[column.kind]
    text = f"{column.meaning}; {column.unit}" if column.unit else column.meaning
    return {"type": [kind, "null"] if column.nullable else kind, "description": text}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def summary_schema() -> str:
    """JSON Schema of ``summary.json``, as committed under ``workflow/schemas``."""
    text = {"type": "string"}
    reasons = {
        "type": "object",
        "additionalProperties": text,
        "description": "for each column that is null: why",
    }
    cell = _object({**{column.name: _property(column) for column in columns.SUMMARY}, "unavailable": reasons})
    document = _object(
        {
            "format": {"const": FORMAT},
            "launchbench": {**text, "description": "version of the package that exported"},
            "simulated": {"type": "boolean", "description": "some cells are of simulated GPUs: their virtual is true"},
            "units": {"type": "object", "additionalProperties": text, "description": "by column; the others have none"},
            "cells": {"type": "array", "items": cell},
            "gaps": {"type": "array", "items": _object({one.name: _property(one) for one in columns.GAPS})},
        }
    )
    return json.dumps({"title": FORMAT, **document}, indent=2) + "\n"
