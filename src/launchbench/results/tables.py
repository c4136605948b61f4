"""Validation of tables against ``columns``, by pandera, and the table schema that is committed."""

from __future__ import annotations

import csv
import functools
import io
import json
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import pandas as pd
from pandas.api.types import is_float_dtype, is_object_dtype

from launchbench.config.messages import escaped, shown
from launchbench.errors import LaunchbenchError
from launchbench.results import (
    anatomy_columns,
    columns,
    decode_columns,
    lengths_columns,
    path_columns,
    pointers_columns,
    published_columns,
)
from launchbench.results.columns import Column
from launchbench.results.plain_csv import read_plain

if TYPE_CHECKING:
    import pandera.pandas as pa
    from pandera.errors import SchemaError

_DTYPES = {"int": "int64", "float": "float64", "str": "str", "bool": "bool"}


def _checks(column: Column) -> list[pa.Check]:
    import pandera.pandas as pa

    checks = []
    if column.minimum is not None:
        checks.append(pa.Check.ge(column.minimum))
    if column.maximum is not None:
        checks.append(pa.Check.le(column.maximum))
    if column.choices:
        checks.append(pa.Check.isin(column.choices))
    return checks


def _dtype(column: Column) -> str:
    return "Int64" if column.kind == "int" and column.nullable else _DTYPES[column.kind]


@functools.cache
def schema(table: tuple[Column, ...]) -> pa.DataFrameSchema:
    """The pandera schema of a table: exactly these columns, in this order, types coerced."""
    import pandera.pandas as pa

    return pa.DataFrameSchema(
        {
            column.name: pa.Column(
                _dtype(column), _checks(column), nullable=column.nullable, description=column.meaning
            )
            for column in table
        },
        strict=True,
        ordered=True,
        coerce=True,
    )


def validate(frame: pd.DataFrame, table: tuple[Column, ...], source: str) -> pd.DataFrame:
    """The frame with the table's types.

    Raises:
        LaunchbenchError: one line naming source, column, row and value.
    """
    dtypes = dict(frame.dtypes)
    for column in table:
        if column.kind == "int" and column.name in dtypes and is_float_dtype(dtypes[column.name]):
            cut = frame[column.name] % 1 > 0  # they would be cut off
            if cut.any():
                value = frame.loc[cut, column.name].iloc[0]
                raise LaunchbenchError(escaped(f"{source}: {column.name}: got {value}; expected {_expected(column)}"))
    if frame.empty and list(frame.columns) == [column.name for column in table]:
        return frame.astype({column.name: _dtype(column) for column in table})  # nothing to check, and often so
    floats = [column.name for column in table if column.kind == "float" and column.name in dtypes]
    mixed = [name for name in floats if is_object_dtype(dtypes[name])]
    frame = _floats(frame, mixed)
    if _is_valid(frame, table):
        return frame
    from pandera.errors import SchemaError, SchemaErrors  # only here: what is right needs none of it

    try:
        return schema(table).validate(frame)
    except (SchemaError, SchemaErrors) as error:
        first = error.schema_errors[0] if isinstance(error, SchemaErrors) else error
        raise LaunchbenchError(escaped(f"{source}: {_explain(first, table)}")) from error


def _floats(frame: pd.DataFrame, mixed: Sequence[str]) -> pd.DataFrame:
    """The frame with columns of numbers and None as numbers, as pandera would make them."""
    try:
        return frame.astype(dict.fromkeys(mixed, "float64")) if mixed else frame
    except (TypeError, ValueError):
        return frame  # pandera says which value it is


def _is_valid(frame: pd.DataFrame, table: Sequence[Column]) -> bool:
    """Whether pandera would return the frame as it is: most are, and it takes longer than all else to say so."""
    if list(frame.columns) != [column.name for column in table]:
        return False
    for column in table:
        values = frame[column.name]
        if values.dtype != _dtype(column):
            return False
        missing = values.hasnans
        if missing and not column.nullable:
            return False
        values = values.dropna() if missing else values
        if column.choices and not values.isin(column.choices).all():
            return False
        if column.minimum is not None and not (values >= column.minimum).all():
            return False
        if column.maximum is not None and not (values <= column.maximum).all():
            return False
    return True


def _explain(error: SchemaError, table: Sequence[Column]) -> str:
    name = getattr(error.schema, "name", None)
    column = next((column for column in table if column.name == name), None)
    cases = error.failure_cases
    if column is None or not isinstance(cases, pd.DataFrame) or cases.empty:
        return " ".join(str(error).split())[:300]
    value, row = cases["failure_case"].iloc[0], cases["index"].iloc[0]
    place = "" if pd.isna(row) else f", row {int(row) + 1}"
    return f"{column.name}{place}: got {shown(str(value))}; expected {_expected(column)}"


def _expected(column: Column) -> str:
    if column.choices:
        return f"one of {', '.join(column.choices)}"
    words = {"int": "a whole number", "float": "a number", "str": "text", "bool": "True or False"}[column.kind]
    if column.minimum is not None:
        words += f" from {column.minimum:g}"
    if column.maximum is not None:
        words += f" to {column.maximum:.0f}"
    return words + (" or nothing" if column.nullable else "")


@functools.cache
def _no_rows(table: tuple[Column, ...], storage: str) -> pd.DataFrame:
    """A table without rows; ``storage`` is what pandas is told now of where it holds text."""
    return validate(pd.DataFrame(columns=[column.name for column in table]), table, "")


def parse_csv(stream: IO[bytes], table: tuple[Column, ...], source: str) -> pd.DataFrame:
    """Read a CSV of this table; text such as ``NA`` in a text column stays text.

    Raises:
        LaunchbenchError: not CSV, or not the table's columns and values.
    """
    data = stream.read()
    names = [column.name for column in table]
    if data == ",".join(names).encode() + b"\n":
        return _no_rows(table, pd.get_option("mode.string_storage")).copy()  # and often so
    plain = read_plain(data, table)
    if plain is not None:
        return validate(plain, table, source)
    _check_shape(data, names, source)
    try:
        text = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False, na_filter=False, encoding="utf-8")
    except (ValueError, pd.errors.ParserError) as error:
        raise LaunchbenchError(escaped(f"{source}: not a CSV table: {error}")) from error
    return validate(pd.DataFrame({c.name: _convert(text[c.name], c, source) for c in table}), table, source)


def _check_shape(data: bytes, expected: list[str], source: str) -> None:
    """Every row has the header's columns: pandas fills short rows up, and shifts all if the first is too long."""
    rows = csv.reader(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline=""), strict=True)
    try:
        header = next(rows, [])
        if header != expected:
            raise LaunchbenchError(
                escaped(f"{source}: columns are {', '.join(header)[:600] or 'none'}; expected {', '.join(expected)}")
            )
        for number, row in enumerate(rows, 1):
            if len(row) != len(expected):
                raise LaunchbenchError(
                    escaped(f"{source}: row {number}: got {len(row)} columns; expected {len(expected)}")
                )
    except (csv.Error, UnicodeDecodeError) as error:
        raise LaunchbenchError(escaped(f"{source}: not a CSV table: {error}")) from error


def _convert(series: pd.Series[Any], column: Column, source: str) -> pd.Series[Any]:
    if column.kind == "str":
        return series
    if column.kind == "bool":
        values = series.map({"True": True, "False": False, "true": True, "false": False})
    else:
        pattern = r"[+-]?[0-9]{1,18}" if column.kind == "int" else r"[+-]?([0-9.]+([eE][+-]?[0-9]+)?|inf)"
        values = pd.to_numeric(series.where(series.str.fullmatch(pattern)), errors="coerce")
    bad = values.isna() & ~series.isin(["", "nan"] if column.nullable else [])
    if column.kind == "float":
        bad |= values.abs().eq(float("inf")) & ~series.str.endswith("inf")  # 1e400
    if bad.any():
        row = int(bad.to_numpy().argmax())
        got = f"got {shown(series.iloc[row])}; expected {_expected(column)}"
        raise LaunchbenchError(escaped(f"{source}: {column.name}, row {row + 1}: {got}"))
    if column.kind == "int" and column.nullable:
        # Not from values, which are floats where one is unknown.
        exact = [None if unknown else int(text) for text, unknown in zip(series, values.isna(), strict=True)]
        return pd.Series(exact, index=series.index, dtype="Int64")
    return values


def write_csv(frame: pd.DataFrame, table: tuple[Column, ...], source: str) -> bytes:
    """The validated frame as CSV bytes with line feeds as line ends and shortest exact floats."""
    chosen = frame[[column.name for column in table]]
    if chosen.empty:
        return (",".join(chosen.columns) + "\n").encode()  # nothing to check, and often so
    return validate(chosen, table, source).to_csv(index=False, lineterminator="\n").encode()


TABLES = {
    "raw": ("One timed repetition of one mode; the CSVs under `results/`.", columns.RAW),
    "tidy": (
        "Every repetition of every job, flagged; `build/tables/tidy/<site>/<label>/<card>.parquet`.",
        columns.TIDY,
    ),
    "trials": ("One row per job, launch path, kernel and mode; `build/tables/trials.csv`.", columns.TRIALS),
    "modes": ("One row per cell and mode; `build/tables/modes.csv`.", columns.CELL_MODES),
    "anatomy": (
        "One row per cell of the path native-driver: what a launch consists of; `build/tables/anatomy.csv`.",
        anatomy_columns.ANATOMY,
    ),
    "summary": ("One row per cell, with its trials together; `build/tables/summary.csv`.", columns.SUMMARY),
    "unmeasured": (
        "One row per job and launch path that could not be measured there; `build/tables/unmeasured.csv`.",
        path_columns.UNMEASURED,
    ),
    "fits": ("A straight line over N per card, launch path, kernel and mode; `build/tables/fits.csv`.", columns.FITS),
    "spread": ("Cards of one type against each other; `reports/spread.csv`.", columns.SPREAD),
    "gaps": ("What is missing from the comparison; `build/tables/gaps.csv`.", columns.GAPS),
    "cure_repetitions": (
        "One timed repetition of one cure; the CSVs of pointers jobs under `results/`.",
        pointers_columns.CURE_REPETITIONS,
    ),
    "pointers": ("One row per pointers job and scenario; `build/tables/pointers.csv`.", pointers_columns.POINTERS),
    "pointers_gaps": (
        "Pointers jobs that failed, and files of them that cannot be used; `build/tables/pointers_gaps.csv`.",
        columns.GAPS,
    ),
    "cures": ("One row per pointers job, cure and N; `build/tables/cures.csv`.", pointers_columns.CURE_TIMES),
    "length_repetitions": (
        "One timed repetition at one N and kernel length; the CSVs of lengths jobs under `results/`.",
        lengths_columns.LENGTH_REPETITIONS,
    ),
    "lengths": ("One row per lengths job, N and kernel length; `build/tables/lengths.csv`.", lengths_columns.LENGTHS),
    "length_models": (
        "One row per lengths job: clocks and model; `build/tables/length_models.csv`.",
        lengths_columns.LENGTH_MODELS,
    ),
    "crossovers": (
        "One row per lengths job and N: until which kernel length a graph helps; `build/tables/crossovers.csv`.",
        lengths_columns.CROSSOVERS,
    ),
    "lengths_gaps": (
        "Lengths jobs that failed, and files of them that cannot be used; `build/tables/lengths_gaps.csv`.",
        columns.GAPS,
    ),
    "decode_repetitions": (
        "One timed repetition of the decode step, eager or graph; the CSVs of decode jobs under `results/`.",
        decode_columns.DECODE_REPETITIONS,
    ),
    "decode": ("One row per decode job, batch and width; `build/tables/decode.csv`.", decode_columns.DECODE),
    "decode_jobs": (
        "One row per decode job: what was predicted, or why it was not run; `build/tables/decode_jobs.csv`.",
        decode_columns.DECODE_JOBS,
    ),
    "decode_gaps": (
        "Decode jobs that failed, and files of them that cannot be used; `build/tables/decode_gaps.csv`.",
        columns.GAPS,
    ),
    "published": (
        "What others have published, never mixed with results; the CSVs in `results/published/`.",
        published_columns.PUBLISHED,
    ),
}


def tables_schema() -> str:
    """All tables with units, as JSON; committed under ``workflow/schemas``."""
    tables = {
        name: [
            {
                "name": column.name,
                "type": column.kind,
                "unit": column.unit,
                "nullable": column.nullable,
                "meaning": column.meaning,
            }
            | ({"choices": list(column.choices)} if column.choices else {})
            for column in table
        ]
        for name, (_, table) in TABLES.items()
    }
    return json.dumps(tables, indent=2) + "\n"


def columns_markdown() -> str:
    """The same as a page to read; committed as ``docs/columns.md``."""
    lines = [
        "# Columns of every table",
        "",
        "Generated by `launchbench schemas` from `columns.py` and `*_columns.py` in `src/launchbench/results`.",
    ]
    for name, (summary, table) in TABLES.items():
        lines += [
            "",
            f"## {name}",
            "",
            summary,
            "",
            "| column | type | unit | may be empty | meaning |",
            "|---|---|---|---|---|",
        ]
        for column in table:
            choices = f" ({', '.join(column.choices)})" if column.choices else ""
            empty = "yes" if column.nullable else "no"
            lines.append(f"| `{column.name}` | {column.kind} | {column.unit} | {empty} | {column.meaning}{choices} |")
    return "\n".join(lines) + "\n"
