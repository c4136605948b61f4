"""CSV tables: what is read is exactly what was written, and everything else is refused in one line."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchbench.errors import LaunchbenchError
from launchbench.results.columns import Column
from launchbench.results.protocol import MODES
from launchbench.results.tables import TABLES, parse_csv, tables_schema, validate, write_csv

TABLE = (
    Column("count", "int", "", minimum=1, maximum=1000),
    Column("maybe", "int", "", nullable=True),
    Column("time", "float", ""),
    Column("speed", "float", "", nullable=True),
    Column("text", "str", ""),
    Column("mode", "str", "", choices=("loop", "replay")),
    Column("flag", "bool", ""),
)
NAMES = [column.name for column in TABLE]
HEADER = ",".join(NAMES)
ROW = {"count": "8", "maybe": "3", "time": "1.5", "speed": "2", "text": "x", "mode": "loop", "flag": "True"}


def parse(data: bytes | str, table: Sequence[Column] = TABLE) -> pd.DataFrame:
    return parse_csv(io.BytesIO(data.encode() if isinstance(data, str) else data), table, "t.csv")


def refused(data: bytes | str) -> str:
    """The message, checked to be one printable line, less the source."""
    with pytest.raises(LaunchbenchError) as caught:
        parse(data)
    message = str(caught.value)
    assert message.isprintable() and message.startswith("t.csv: ")
    return message.removeprefix("t.csv: ")


def table_with(**cells: str) -> str:
    """A good row, then one with these cells."""
    rows = [ROW, ROW | cells]
    return "\n".join([HEADER, *(",".join(row.values()) for row in rows)]) + "\n"


def cell(column: str, text: str) -> Any:
    """What a cell of this text becomes."""
    return parse(table_with(**{column: text}))[column].tolist()[1]


# --- single cells


@pytest.mark.parametrize("word", ["NA", "nan", "NaN", "None", "null", "N/A", "", "#N/A", "inf", "True", "1", " a "])
def test_text_stays_text(word: str) -> None:
    assert cell("text", word) == word


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a,b"', "a,b"),
        ('"a\nb"', "a\nb"),
        ('"a""b"', 'a"b'),
        ('"a\r\nb"', "a\r\nb"),
        ('a"b', 'a"b'),
        ("µ 显卡", "µ 显卡"),
    ],
)
def test_quoted_text(text: str, value: str) -> None:
    assert cell("text", text) == value


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("1000", 1000), ("+8", 8), ("007", 7)])
def test_whole_numbers(text: str, value: int) -> None:
    assert cell("count", text) == value


ODD_DIGITS = "\u0663"
FULL_WIDTH = "\uff18"


@pytest.mark.parametrize(
    "text",
    ["", "NA", "nan", "None", "1e3", "1_000", " 8", "8 ", "8.0", "0x8", "8,", "True", "inf", "--8", "9" * 19,
     "9" * 400, ODD_DIGITS, FULL_WIDTH, "²", "8\x00"],
)  # fmt: skip
def test_what_is_no_whole_number(text: str) -> None:
    message = refused(table_with(count=f'"{text}"'))
    shown = repr(text) if len(text) < 60 else "'99999999"
    assert message.startswith(f"count, row 2: got {shown}")
    assert message.endswith("; expected a whole number from 1 to 1000")


@pytest.mark.parametrize("text", ["0", "-1", "1001"])
def test_whole_numbers_out_of_range(text: str) -> None:
    assert refused(table_with(count=text)) == f"count, row 2: got '{text}'; expected a whole number from 1 to 1000"


def test_a_whole_number_may_be_unknown_only_where_the_table_says_so() -> None:
    frame = parse(table_with(maybe=""))
    assert frame["maybe"].isna().tolist() == [False, True]
    assert frame["maybe"][0] == 3 and str(frame["maybe"].dtype) == "Int64"
    assert refused(table_with(maybe="NA")) == "maybe, row 2: got 'NA'; expected a whole number or nothing"
    beside_nothing = parse(table_with(maybe="900719925474099301") + ",".join((ROW | {"maybe": ""}).values()) + "\n")
    assert beside_nothing["maybe"][1] == 900_719_925_474_099_301
    for text in ("9223372036854775807", "9223372036854775808", "-9223372036854775809"):
        assert refused(table_with(maybe=text)) == f"maybe, row 2: got '{text}'; expected a whole number or nothing"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5", 1.5), ("-2", -2.0), (".5", 0.5), ("5.", 5.0), ("1e-3", 0.001), ("1E+3", 1000.0), ("inf", math.inf),
     ("-inf", -math.inf), ("0.30000000000000004", 0.1 + 0.2), ("5e-324", 5e-324),
     ("1.7976931348623157e308", sys.float_info.max)],
)  # fmt: skip
def test_numbers(text: str, value: float) -> None:
    assert cell("time", text) == value


@pytest.mark.parametrize(
    "text",
    ["", "nan", "NA", "NaN", "None", "1,5", "1.5.2", ".", "e3", "1e", "0x1p3", "1_0", " 1", "1e400", "-1e999",
     "infinity", "Inf", "1.5us", "True", ODD_DIGITS],
)  # fmt: skip
def test_what_is_no_number(text: str) -> None:
    assert refused(table_with(time=f'"{text}"')) == f"time, row 2: got {text!r}; expected a number"


@pytest.mark.parametrize("text", ["", "nan"])
def test_a_number_may_be_unknown_only_where_the_table_says_so(text: str) -> None:
    assert math.isnan(cell("speed", text))
    assert refused(table_with(speed="NA")) == "speed, row 2: got 'NA'; expected a number or nothing"


@pytest.mark.parametrize("text", ["", "1", "yes", "TRUE", "nan"])
def test_what_is_no_truth_value(text: str) -> None:
    assert refused(table_with(flag=text)) == f"flag, row 2: got {text!r}; expected True or False"


def test_truth_values() -> None:
    assert [cell("flag", text) for text in ("True", "true", "False", "false")] == [True, True, False, False]


@pytest.mark.parametrize("text", ["", "Loop", "loop ", "NA"])
def test_what_is_none_of_the_choices(text: str) -> None:
    assert refused(table_with(mode=text)) == f"mode, row 2: got {text!r}; expected one of loop, replay"


def test_a_long_value_is_shortened_and_control_characters_are_written_out() -> None:
    assert len(refused(table_with(mode="x" * 10_000))) < 150
    assert refused(table_with(mode='"a\n\x1b\u2028"')).startswith(r"mode, row 2: got 'a\n\x1b\u2028'; ")


# --- the shape of the table


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("count,maybe,time,speed,text,mode", "count, maybe, time, speed, text, mode"),
        ("maybe,count,time,speed,text,mode,flag", "maybe, count, time, speed, text, mode, flag"),
        (f"{HEADER},more", f"{', '.join(NAMES)}, more"),
        (f"{HEADER},flag", f"{', '.join(NAMES)}, flag"),
        ("count,count,time,speed,text,mode,flag", "count, count, time, speed, text, mode, flag"),
        (HEADER.upper(), ", ".join(NAMES).upper()),
        (HEADER.replace(",", ";"), HEADER.replace(",", ";")),
        (HEADER.replace("text", '"te\nxt\x1b"'), ", ".join(NAMES).replace("text", "te\\nxt\\x1b")),
        (HEADER.replace("text", ""), ", ".join(NAMES).replace("text", "")),
        (HEADER.replace("text", " text"), ", ".join(NAMES).replace("text", " text")),
        ("", "none"),
    ],
)
def test_other_columns(header: str, said: str) -> None:
    row = ",".join(["1"] * len(header.split(",")))
    assert refused(f"{header}\n{row}\n") == f"columns are {said}; expected {', '.join(NAMES)}"


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\r\n"])
def test_an_empty_file(data: bytes) -> None:
    assert refused(data) == f"columns are none; expected {', '.join(NAMES)}"


def test_thousands_of_columns_make_no_endless_line() -> None:
    assert len(refused(",".join(["c"] * 100_000))) < 1000


@pytest.mark.parametrize("data", [f"{HEADER}\n", HEADER])
def test_a_header_alone_is_a_table_without_rows(data: str) -> None:
    frame = parse(data)
    assert (list(frame.columns), len(frame)) == (NAMES, 0)
    assert [str(kind) for kind in frame.dtypes][:4] == ["int64", "Int64", "float64", "float64"]


GOOD = ",".join(ROW.values())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([f"{GOOD},9"], "row 1: got 8 columns; expected 7"),
        ([f"9,{GOOD}", f"9,{GOOD}"], "row 1: got 8 columns; expected 7"),
        ([f"{GOOD},", f"{GOOD},"], "row 1: got 8 columns; expected 7"),
        ([GOOD, f"{GOOD},"], "row 2: got 8 columns; expected 7"),
        ([GOOD, GOOD.rsplit(",", 1)[0]], "row 2: got 6 columns; expected 7"),
        ([GOOD, GOOD.rsplit(",", 1)[0], GOOD], "row 2: got 6 columns; expected 7"),
        ([GOOD, "", GOOD], "row 2: got 0 columns; expected 7"),
        ([GOOD, GOOD.replace("x", "a\rb")], "row 2: got 5 columns; expected 7"),
        ([GOOD, GOOD.replace("x", '"x')], "not a CSV table: unexpected end of data"),
        ([GOOD.replace("x", '"x"y')], "not a CSV table: ',' expected after '\"'"),
    ],
)
def test_rows_of_another_length(rows: list[str], message: str) -> None:
    """Not padded, not cut, and above all not shifted by one."""
    assert refused("\n".join([HEADER, *rows]) + "\n") == message


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_ends(ending: str) -> None:
    frame = parse(f"{HEADER}\n{GOOD}\n".replace("\n", ending))
    assert frame.iloc[0].tolist() == [8, 3, 1.5, 2.0, "x", "loop", True]


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert parse(b"\xef\xbb\xbf" + f"{HEADER}\n{GOOD}\n".encode())["count"].tolist() == [8]


@pytest.mark.parametrize(
    "data",
    [
        f"{HEADER}\n{GOOD}\n".encode("utf-16"),
        f"{HEADER}\n{GOOD}\n".replace("x", "µ").encode("latin-1"),
        HEADER.encode() + b"\n\xff\xfe\n",
        bytes(range(256)),
    ],
)
def test_bytes_that_are_not_utf8(data: bytes) -> None:
    assert refused(data).startswith("not a CSV table: 'utf-8' codec can't decode byte")


def test_zero_bytes() -> None:
    assert refused(bytes(50)).startswith(r"columns are \x00\x00")
    assert cell("text", "a\x00b") == "a\x00b"


# --- round trips

PRINTABLE = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=12)
WORDS = st.sampled_from(["NA", "nan", "None", "", "null", "inf", " ", '"', "''", "a,b", "a\nb", "\ufeff", "#", "\\n"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "count": st.integers(1, 1000),
            "maybe": st.none() | st.integers(-(10**18) + 1, 10**18 - 1),
            "time": st.floats(allow_nan=False),
            "speed": st.none() | st.floats(allow_nan=False),
            "text": WORDS | PRINTABLE,
            "mode": st.sampled_from(["loop", "replay"]),
            "flag": st.booleans(),
        }
    ),
    max_size=5,
)


@settings(max_examples=30, deadline=None)
@given(rows=ROWS)
def test_what_is_written_is_read_back_exactly(rows: list[dict[str, Any]]) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    frame["maybe"] = pd.array([row["maybe"] for row in rows], dtype="Int64")
    data = write_csv(frame, TABLE, "t.csv")
    back = parse(data).astype(object)
    given_rows = [tuple(row[name] for name in NAMES) for row in rows]
    read = [tuple(None if value is pd.NA or value != value else value for value in row) for row in back.to_numpy()]
    assert read == given_rows
    assert write_csv(parse(data), TABLE, "t.csv") == data
    assert b"\r" not in data


@pytest.mark.untraced
@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: f"{HEADER}\n{text}".encode()))
def test_any_bytes_are_a_table_or_refused_in_one_line(data: bytes) -> None:
    try:
        frame = parse(data)
    except LaunchbenchError as error:
        assert str(error).isprintable() and str(error).startswith("t.csv: ")
    else:
        assert list(frame.columns) == NAMES


# --- validation of a frame


def frame_with(**cells: Any) -> pd.DataFrame:
    good = {"count": 8, "maybe": 3, "time": 1.5, "speed": 2.0, "text": "x", "mode": "loop", "flag": True}
    return pd.DataFrame([good, good | cells])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"count": 0}, "count, row 2: got '0'; expected a whole number from 1 to 1000"),
        ({"count": 1001}, "count, row 2: got '1001'; expected a whole number from 1 to 1000"),
        ({"mode": "lo\nop"}, r"mode, row 2: got 'lo\nop'; expected one of loop, replay"),
        ({"time": math.nan}, "time, row 2: got 'nan'; expected a number"),
        ({"count": 1.5}, "count: got 1.5; expected a whole number from 1 to 1000"),
        ({"maybe": 1.5}, "maybe: got 1.5; expected a whole number or nothing"),
        ({"text": None}, "text, row 2: got "),
    ],
)
def test_a_frame_that_is_not_of_the_table_is_not_written(cells: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchbenchError) as caught:
        write_csv(frame_with(**cells), TABLE, "t.csv")
    assert str(caught.value).startswith(f"t.csv: {message}")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("change", ["missing", "extra", "order"])
def test_a_frame_of_other_columns(change: str) -> None:
    frame = frame_with()
    if change == "missing":
        frame = frame.drop(columns="time")
    elif change == "extra":
        frame["more"] = 1
    else:
        frame = frame[NAMES[::-1]]
    with pytest.raises(LaunchbenchError, match=r"^t\.csv: .*(time|more|order)") as caught:
        validate(frame, TABLE, "t.csv")
    assert str(caught.value).isprintable()


def test_the_schema_lists_every_column_with_its_unit() -> None:
    tables = json.loads(tables_schema())
    lengths = ["length_repetitions", "lengths", "length_models", "crossovers", "lengths_gaps"]
    decode = ["decode_repetitions", "decode", "decode_jobs", "decode_gaps"]
    launch = ["raw", "tidy", "trials", "modes", "anatomy", "summary", "unmeasured", "fits", "spread", "gaps"]
    pointers = ["cure_repetitions", "pointers", "pointers_gaps", "cures"]
    assert list(tables) == [*launch, *pointers, *lengths, *decode, "published"]
    for name, entries in tables.items():
        table = TABLES[name][1]
        assert [entry["name"] for entry in entries] == [column.name for column in table]
        times = [entry for entry in entries if entry["name"].endswith("_us") and not entry["name"].endswith("_per_us")]
        assert all(entry["unit"] == "us" for entry in times)
        assert all(entry["meaning"] for entry in entries)
    raw = {entry["name"]: entry for entry in tables["raw"]}
    assert raw["mode"]["choices"] == list(MODES)
    assert [name for name, entry in raw.items() if entry["nullable"]] == ["gpu_us"]
