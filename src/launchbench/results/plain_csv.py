"""The short way to read a CSV: of what is written here, by pyarrow, and never of anything in doubt.

Whatever is not a plain table, or holds a value that is not surely one of its column, is left to ``tables``, which
reads it slowly and knows what to say. So nothing is accepted here that is refused there, and values are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from launchbench.results.columns import Column

_DIGITS = 18  # any number of so many fits
_WHOLE = r"^-?[0-9]{1,18}$"
_LONGEST = 131_072  # of a field, for the module csv


def read_plain(data: bytes, table: Sequence[Column]) -> pd.DataFrame | None:
    """The table, with the types of its columns, not yet validated; None where it has to be read with care.

    Plain are lines of ASCII with line feeds, without quotation marks, after a header of exactly these columns.
    """
    names = [column.name for column in table]
    header = ",".join(names).encode() + b"\n"
    if not data.startswith(header) or not data.endswith(b"\n") or not data.isascii():
        return None
    if any(sign in data for sign in (b'"', b"\r", b"\0", b"\n\n")) or len(data) == len(header):
        return None
    try:
        text = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(use_threads=False, skip_rows=1, column_names=names),
            csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
        columns = {column.name: _convert(text[column.name], column) for column in table}
    except pa.ArrowException:
        return None
    if any(values is None for values in columns.values()):
        return None
    return pd.DataFrame({name: values.to_pandas() for name, values in columns.items()})


def _convert(text: Any, column: Column) -> Any:
    if column.kind == "str":
        return text if pc.max(pc.binary_length(text)).as_py() < _LONGEST else None
    if column.kind == "bool":
        true = pc.is_in(text, pa.array(["True", "true"]))
        return true if pc.all(pc.or_(true, pc.is_in(text, pa.array(["False", "false"])))).as_py() else None
    if column.kind == "int":
        # The cast takes 0x10 too; a pattern takes four times as long as digits alone.
        digits = pc.all(pc.ascii_is_decimal(text)).as_py() and pc.max(pc.binary_length(text)).as_py() <= _DIGITS
        plain = digits or pc.all(pc.match_substring_regex(text, _WHOLE)).as_py()
        return pc.cast(text, pa.int64()) if plain and not column.nullable else None
    if column.nullable:
        text = pc.if_else(pc.is_in(text, pa.array(["", "nan"])), None, text)
    values = pc.cast(text, pa.float64())
    return values if pc.all(pc.is_finite(values), min_count=0).as_py() else None
