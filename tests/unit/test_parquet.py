"""Tables as Parquet: what is read is what was written, with units, in the same bytes; damage is one line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from launchbench.errors import LaunchbenchError
from launchbench.results import tables
from launchbench.results.columns import Column
from launchbench.results.parquet import parquet_bytes, parse_parquet

TABLE = (
    Column("name", "str", "what it is called", choices=("a", "b")),
    Column("host", "str", "where", nullable=True),
    Column("count", "int", "how many", minimum=0),
    Column("maybe", "int", "how many, or not known", nullable=True),
    Column("gpu_us", "float", "how long", unit="us", nullable=True),
    Column("virtual", "bool", "a simulated GPU"),
)


def frame(rows: int = 4) -> pd.DataFrame:
    some = pd.DataFrame(
        {
            "name": ["a", "b", "a", "b"],
            "host": ["x|\n<script>", "", "NA", "gr\u00fc\u00df"],
            "count": [0, 2**53 + 1, 7, 8],
            "maybe": pd.array([2**53 + 1, None, 0, -1], dtype="Int64"),
            "gpu_us": [0.1 + 0.2, np.nan, np.inf, 5e-324],
            "virtual": [True, False, True, False],
        }
    )
    return tables.validate(some.head(rows), TABLE, "some")


@pytest.mark.parametrize("rows", [4, 0])
def test_what_is_read_is_what_was_written(rows: int) -> None:
    data = parquet_bytes(frame(rows), TABLE)
    pd.testing.assert_frame_equal(parse_parquet(data, TABLE, "some"), frame(rows), check_exact=True)
    assert parquet_bytes(frame(rows), TABLE) == data


def test_strangers_find_types_units_and_nulls() -> None:
    found = pq.read_table(pa.BufferReader(parquet_bytes(frame(), TABLE)))
    assert [str(kind) for kind in found.schema.types] == ["string", "string", "int64", "int64", "double", "bool"]
    field = found.schema.field("gpu_us")
    assert (field.metadata, field.nullable) == ({b"unit": b"us", b"meaning": b"how long"}, True)
    assert found.schema.field("count").metadata[b"unit"] == b""
    assert not found.schema.field("count").nullable
    assert [found[name].null_count for name in found.column_names] == [0, 1, 0, 1, 1, 0]
    assert pd.read_parquet(pa.BufferReader(parquet_bytes(frame(), TABLE)))["gpu_us"].iloc[0] == 0.1 + 0.2


def test_text_that_repeats_takes_no_room() -> None:
    many = pd.concat([frame()] * 10_000, ignore_index=True).assign(host="h" * 100)
    assert len(parquet_bytes(many, TABLE)) < 50_000


def test_only_some_columns_and_rows() -> None:
    data = parquet_bytes(frame(), TABLE)
    some = parse_parquet(data, TABLE, "some", ["gpu_us", "count"], {"name": ["b", "c"], "host": ["gr\u00fc\u00df"]})
    assert some.to_dict("list") == {"count": [8], "gpu_us": [5e-324]}
    assert parse_parquet(data, TABLE, "some", ["maybe"], {"name": ["c"]}).empty


def _edited(**columns: object) -> bytes:
    return parquet_bytes(frame().assign(**columns), TABLE)


def _by_others(edited: pd.DataFrame) -> bytes:
    rows = edited.astype(object).where(edited.notna(), None).to_dict("records")
    stream = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), stream)
    return bytes(stream.getvalue())


EDITS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "not a Parquet table, or a damaged one: "),
    "a CSV": (lambda: frame().to_csv().encode(), "not a Parquet table, or a damaged one: "),
    "cut": (lambda: parquet_bytes(frame(), TABLE)[:-30], "not a Parquet table, or a damaged one: "),
    "another value": (lambda: _edited(name="c"), "name, row 1: got 'c'; expected one of a, b"),
    "a number out of range": (lambda: _edited(count=[0, -1, 0, 0]), "count, row 2: got '-1'; expected a whole number"),
    "a column less": (lambda: _by_others(frame()[["name"]]), "columns are name; expected name, host, count, maybe"),
    "another type": (lambda: _by_others(frame().assign(count=1.5)), "count: got double; expected int64"),
    "nothing where something has to be": (
        lambda: _by_others(frame().assign(name=["a", None, "b", "b"])),
        "name, row 2: got 'nan'; expected one of a, b",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_is_no_such_table_is_one_line(edit: str) -> None:
    make, said = EDITS[edit]
    with pytest.raises(LaunchbenchError) as caught:
        parse_parquet(make(), TABLE, "build/x.parquet")
    assert str(caught.value).startswith(f"build/x.parquet: {said}")
    assert "\n" not in str(caught.value)


def test_no_flipped_byte_gives_another_table() -> None:
    data, whole = parquet_bytes(frame(), TABLE), frame()
    refused = 0
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        try:
            pd.testing.assert_frame_equal(parse_parquet(damaged, TABLE, "x"), whole, check_exact=True)
        except LaunchbenchError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > len(data) // 4
