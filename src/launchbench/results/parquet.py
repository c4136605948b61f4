"""Tables as Parquet: the types of ``columns``, with unit and meaning of each column in the metadata of its field.

Text is dictionary-encoded, so that what is equal in every row takes no room. The same table gives the same bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.results import tables
from launchbench.results.columns import Column

_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}


@functools.cache
def arrow_schema(table: tuple[Column, ...]) -> Any:
    """The ``pyarrow.Schema`` of a table. Metadata of each field: ``meaning``, and ``unit``, empty where it has none."""
    return pa.schema(
        [
            pa.field(
                column.name,
                _TYPES[column.kind],
                nullable=column.nullable,
                metadata={"unit": column.unit, "meaning": column.meaning},
            )
            for column in table
        ]
    )


def parquet_bytes(frame: pd.DataFrame, table: tuple[Column, ...]) -> bytes:
    """A validated frame as a Parquet file; what is not known, NaN or empty text where that may be, is null in it."""
    arrays = [_array(frame[column.name], column) for column in table]
    stream = pa.BufferOutputStream()
    floats = [column.name for column in table if column.kind == "float"]
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=arrow_schema(table)),
        stream,
        compression="zstd",
        use_dictionary=[column.name for column in table if column.kind in ("str", "int")],
        column_encoding=dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
        write_statistics=False,  # no checksum is over them, and a reader skips rows by what they say
        write_page_checksum=True,
    )
    return bytes(stream.getvalue())


def _array(series: pd.Series[Any], column: Column) -> Any:
    if column.kind == "str" and column.nullable:
        series = series.mask(series == "")
    return pa.array(series, type=_TYPES[column.kind], from_pandas=True)


def parse_parquet(
    data: bytes,
    table: tuple[Column, ...],
    source: str,
    names: Collection[str] | None = None,
    only: Mapping[str, Collection[str]] | None = None,
) -> pd.DataFrame:
    """Read what :func:`parquet_bytes` made, validated as far as it is read.

    Args:
        data: the file.
        table: its columns.
        source: what an error calls it.
        names: columns to read, in the order of the table; all where None.
        only: values that a row must have, by columns of text; all rows where None.

    Raises:
        LaunchbenchError: not Parquet, damaged, or not the table's columns and values.
    """
    read = tuple(column for column in table if names is None or column.name in names)
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            _check_schema(file.schema_arrow, table, source)
            wanted = [column.name for column in table if column in read or column.name in (only or {})]
            found = file.read(columns=wanted, use_threads=False)
        found.validate(full=True)
        for name, values in (only or {}).items():
            found = found.filter(pc.is_in(found[name], pa.array(sorted(values), pa.string())))
        frame = pd.DataFrame({column.name: _series(found[column.name], column) for column in read})
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise LaunchbenchError(escaped(f"{source}: not a Parquet table, or a damaged one: {reason}")) from error
    return tables.validate(frame, read, source)


def _check_schema(found: Any, table: tuple[Column, ...], source: str) -> None:
    expected = arrow_schema(table)
    if found.names != expected.names:
        names, ours = ", ".join(found.names)[:600] or "none", ", ".join(expected.names)
        raise LaunchbenchError(escaped(f"{source}: columns are {names}; expected {ours}"))
    for field, ours in zip(found, expected, strict=True):
        if field.type != ours.type:
            raise LaunchbenchError(escaped(f"{source}: {field.name}: got {field.type}; expected {ours.type}"))


def _series(found: Any, column: Column) -> pd.Series[Any]:
    if column.kind == "str" and column.nullable:
        found = pc.fill_null(found, "")
    exact = {pa.int64(): pd.Int64Dtype()} if column.nullable else {}  # a float where one is unknown
    series: pd.Series[Any] = found.to_pandas(types_mapper=exact.get)
    return series
