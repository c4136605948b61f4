"""Published figures: read strictly, shown apart, and never taken for results."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pandas as pd
import pytest

from launchbench.config.names import site_name
from launchbench.errors import LaunchbenchError
from launchbench.results import columns
from launchbench.results.files import read_results
from launchbench.results.layout import NO_SITE, find_files, published_files
from launchbench.results.published import read_published
from launchbench.results.published_columns import PUBLISHED, QUANTITIES

PROJECT = Path(__file__).parents[2]
NAMES = [column.name for column in PUBLISHED]
ROW = {
    "quantity": "replay_per_node",
    "clock": "host",
    "issued_by": "native",
    "launch_count": "64",
    "value": "0.8",
    "unit": "us per node",
    "gpu": "Made up card",
    "host": "Made up CPU",
    "driver": "1.2.3",
    "cuda": "",
    "measured": "64 nodes",
    "caveat": "made up",
    "source_title": "A title",
    "source_url": "https://example.org/a?b=c&d=e",
    "source_date": "2026-08",
}
ODD = ["<script>alert(1)</script>", 'a "quoted", text', "NA", "nan", "x" * 200, "µs ≤ 1 漢字", "$x_{$ \\b{c}%"]


def text(*rows: dict[str, str]) -> str:
    """A file of rows, each a good one with these cells."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, NAMES, lineterminator="\n")
    writer.writeheader()
    writer.writerows([ROW | row for row in rows])
    return stream.getvalue()


def write(results: Path, *rows: dict[str, str], name: str = "some.csv") -> Path:
    path = results / "published" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(*rows), encoding="utf-8")
    return path


# --- the reader


def test_every_cell_is_read_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, {}, {"launch_count": "", "host": "", "source_date": ""})
    first, second = read_published(tmp_path).to_dict("records")
    assert first == ROW | {"launch_count": 64, "value": 0.8}
    assert pd.isna(second["launch_count"])
    assert second["host"] == second["source_date"] == ""


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, {"gpu": "second"}, name="b.csv")
    write(tmp_path, {"gpu": "first"}, name="a.csv")
    write(tmp_path, {"gpu": "half written"}, name=".tmp-c.csv")
    (tmp_path / "published" / "README.md").write_text("no table", encoding="utf-8")
    assert read_published(tmp_path)["gpu"].tolist() == ["first", "second"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("column", ["gpu", "host", "measured", "caveat", "source_title"])
def test_any_text_is_text(tmp_path: Path, column: str, odd: str) -> None:
    write(tmp_path, {column: odd})
    assert read_published(tmp_path)[column].tolist() == [odd]


def test_no_folder_and_an_empty_one_have_no_rows(tmp_path: Path) -> None:
    assert read_published(tmp_path).empty
    (tmp_path / "published").mkdir()
    assert read_published(tmp_path).empty
    assert published_files(tmp_path) == []


@pytest.mark.parametrize(
    ("cells", "got"),
    [
        ({"quantity": "latency"}, "quantity, row 2: got 'latency'; expected one of loop, loop_per_launch, replay, "),
        ({"clock": "sundial"}, "clock, row 2: got 'sundial'; expected one of host, events, not stated"),
        ({"issued_by": ""}, "issued_by, row 2: got ''; expected one of native, python"),
        ({"launch_count": "0"}, "launch_count, row 2: got '0'; expected a whole number from 1 to 1048576 or nothing"),
        ({"launch_count": "8..64"}, "launch_count, row 2: got '8..64'; expected a whole number from 1"),
        ({"value": "4-5"}, "value, row 2: got '4-5'; expected a number from 0"),
        ({"value": ""}, "value, row 2: got ''; expected a number from 0"),
        ({"value": "0"}, "value, row 2: got 0.0; expected a number above 0"),
        ({"value": "inf"}, "value, row 2: got inf; expected a number above 0"),
        ({"unit": "us"}, "unit, row 2: got 'us'; expected us per node, the unit of replay_per_node"),
        ({"unit": "ms"}, "unit, row 2: got 'ms'; expected one of us, us per launch, us per node, ratio"),
        ({"gpu": " "}, "gpu, row 2: got ' '; expected text, not nothing"),
        ({"measured": ""}, "measured, row 2: got ''; expected text, not nothing"),
        ({"caveat": ""}, "caveat, row 2: got ''; expected text, not nothing"),
        ({"source_title": ""}, "source_title, row 2: got ''; expected text, not nothing"),
        ({"source_url": ""}, "source_url, row 2: got ''; expected text, not nothing"),
        ({"source_date": "30.7.2026"}, "source_date, row 2: got '30.7.2026'; expected YYYY, YYYY-MM, YYYY-MM-DD or"),
        ({"source_date": "2026-13"}, "source_date, row 2: got '2026-13'; expected YYYY, YYYY-MM"),
    ],
)
def test_a_wrong_cell_is_one_line(tmp_path: Path, cells: dict[str, str], got: str) -> None:
    path = write(tmp_path, {}, cells)
    with pytest.raises(LaunchbenchError) as caught:
        read_published(tmp_path)
    assert str(caught.value).startswith(f"{path}: {got}")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (b"", "columns are none; expected quantity, clock"),
        (text({})[:-1].encode().replace(b"2026-08", b"\xff"), "not a CSV table"),
        (text({}).replace("caveat,", "", 1).encode(), "columns are quantity, clock"),
        (text({}, {}).rpartition(",")[0].encode(), "row 2: got 14 columns; expected 15"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, content: bytes, got: str) -> None:
    path = write(tmp_path)
    path.write_bytes(content)
    with pytest.raises(LaunchbenchError) as caught:
        read_published(tmp_path)
    assert str(caught.value).startswith(f"{path}: {got}")
    assert str(caught.value).isprintable()


def test_something_else_in_the_place_of_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "published" / "folder.csv").mkdir(parents=True)
    with pytest.raises(LaunchbenchError, match=r"folder\.csv: cannot be read: not a regular file"):
        read_published(tmp_path)
    (tmp_path / "published" / "folder.csv").rmdir()
    os.mkfifo(tmp_path / "published" / "pipe.csv")
    with pytest.raises(LaunchbenchError, match=r"pipe\.csv: cannot be read: not a regular file"):
        read_published(tmp_path)


def test_every_quantity_stands_beside_columns_of_the_summary() -> None:
    known = {column.name for column in columns.SUMMARY}
    for quantity in QUANTITIES.values():
        named = quantity.beside("not stated").replace(" / N", "").split(" or ")
        assert set(named) <= known
        assert quantity.beside("host") == quantity.by_host
        assert quantity.beside("events") == quantity.by_events


def test_the_shipped_file_is_good_and_every_source_can_be_visited() -> None:
    shipped = read_published(PROJECT / "results")
    assert len(shipped) == 10
    assert shipped["source_url"].str.startswith("https://").all()
    assert set(shipped["issued_by"]) == {"native"}
    assert shipped["launch_count"].notna().all()


# --- its folder is no site


def test_the_folder_is_not_taken_for_a_site(tmp_path: Path) -> None:
    write(tmp_path, {})
    unread: list[tuple[Path, str]] = []
    assert list(find_files(tmp_path, unread)) == []
    assert unread == []
    assert read_results(tmp_path) == ([], [])


def test_results_that_were_put_there_are_told(tmp_path: Path) -> None:
    card = tmp_path / "published" / "t4" / "00000000"
    card.mkdir(parents=True)
    (card / "n0000008-x.json").write_text(json.dumps({}), encoding="utf-8")
    _, problems = read_results(tmp_path)
    assert [(problem.path, problem.reason) for problem in problems] == [(card.parent, NO_SITE)]


def test_no_site_has_its_name() -> None:
    with pytest.raises(LaunchbenchError, match=r"--site: got 'published'; expected .*; not published"):
        site_name("published")
    assert site_name("published-2") == "published-2"
