"""The short way to read a CSV gives what the careful one gives, and whatever is in doubt it leaves to that."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchbench.errors import LaunchbenchError
from launchbench.results import tables
from launchbench.results.columns import Column
from launchbench.results.plain_csv import read_plain

TABLE = (
    Column("name", "str", "text"),
    Column("count", "int", "a count"),
    Column("us", "float", "a time"),
    Column("maybe_us", "float", "a time, or not known", nullable=True),
    Column("virtual", "bool", "yes or no"),
)
HEADER = "name,count,us,maybe_us,virtual\n"
PLAIN = "tiny,8,4.25,,True\nNA,-0012,1e-05,12.5,false\n,0,0.1,nan,False\n"


def carefully(data: bytes) -> pd.DataFrame | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "read_plain", lambda *_: None)
        return as_always(data)


def as_always(data: bytes) -> pd.DataFrame | str:
    try:
        return tables.parse_csv(io.BytesIO(data), TABLE, "x")
    except LaunchbenchError as error:
        return str(error)


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert isinstance(one, str) and one == other
    else:
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_a_table_as_it_is_written_goes_the_short_way() -> None:
    data = (HEADER + PLAIN).encode()
    found = read_plain(data, TABLE)
    assert found is not None
    assert found["name"].tolist() == ["tiny", "NA", ""]
    assert found["count"].tolist() == [8, -12, 0]
    assert found["us"].tolist() == [4.25, 1e-05, 0.1]
    assert found["maybe_us"].isna().tolist() == [True, False, True]
    assert found["virtual"].tolist() == [True, False, False]
    assert_same(as_always(data), carefully(data))


FIELDS = ["", " ", "0", "+1", "-0", "007", "1_0", "0x1F", "1e400", "1e-400", "inf", "-inf", "Inf", "nan", "NaN", "NA"]
FIELDS += ["1.", ".5", "1..2", "1e", "1e5", "1E+05", "1,2", '"1"', "'1'", "9" * 18, "9" * 19, "9" * 30, "1 ", "\t1"]
FIELDS += ["True", "TRUE", "1\r", "1\n", "\n", "\u0661", "\u00a01", "x\x00", "1;2", "0.1e-2", "1.5f", "1e+0000000001"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("place", range(len(TABLE)))
def test_whatever_stands_in_a_field_is_read_or_refused_as_with_care(place: int, field: str) -> None:
    row = ["tiny", "8", "4.25", "", "True"]
    row[place] = field
    data = (HEADER + PLAIN + ",".join(row) + "\n" + PLAIN).encode()
    assert_same(as_always(data), carefully(data))


SHAPES = {
    "no rows": HEADER,
    "nothing": "",
    "no header": PLAIN,
    "a blank line": HEADER + PLAIN + "\n" + PLAIN,
    "a blank line last": HEADER + PLAIN + "\n",
    "no line end": HEADER + PLAIN[:-1],
    "a short row": HEADER + PLAIN + "tiny,8\n",
    "a long row": HEADER + "tiny,8,1,1,True,\n" + PLAIN,
    "all rows long": HEADER + "tiny,8,1,1,True,\n",
    "carriage returns": (HEADER + PLAIN).replace("\n", "\r\n"),
    "a mark of the byte order": "\ufeff" + HEADER + PLAIN,
    "the header twice": HEADER + HEADER + PLAIN,
    "another order": "count,name,us,maybe_us,virtual\n" + PLAIN,
    "a very long field": HEADER + "x" * 140_000 + ",8,4.25,,True\n",
    "an open quotation": HEADER + '"tiny,8,4.25,,True\n' + PLAIN,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_whatever_the_shape_it_is_read_or_refused_as_with_care(shape: str) -> None:
    data = SHAPES[shape].encode()
    assert_same(as_always(data), carefully(data))


@pytest.mark.untraced
@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_are_the_nearest_floats(numbers: list[float]) -> None:
    data = (HEADER + "".join(f"a,1,{number!r},,True\n" for number in numbers)).encode()
    np.testing.assert_array_equal(as_always(data)["us"], numbers, strict=False)
    assert_same(as_always(data), carefully(data))


@pytest.mark.untraced
@settings(deadline=None, max_examples=150)
@given(st.integers(0, len(PLAIN) - 1), st.sampled_from('0019.,-+eE"\n\r naTrue\x00\u00e9x'))
def test_one_sign_changed(at: int, sign: str) -> None:
    data = (HEADER + PLAIN[:at] + sign + PLAIN[at + 1 :]).encode()
    assert_same(as_always(data), carefully(data))
