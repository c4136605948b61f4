"""Published figures in the report: a table and hollow marks, apart from everything that was measured."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.figure import Figure

from launchbench.config.model import load as configuration
from launchbench.errors import LaunchbenchError
from launchbench.report import figures
from launchbench.report import page as report
from launchbench.report.comparison import Comparison
from launchbench.report.comparison import load as load_tables
from launchbench.report.published import NOT_MEASURED_HERE, Mark, is_web_address, marks, table, told
from launchbench.results.published import read_published
from launchbench.workflow.published import published_identity
from tests.unit.fabricate import write_sweep
from tests.unit.test_published import ODD, ROW, write
from tests.unit.test_report import COUNTS, Page, render
from tests.unit.undrawn import draw_nothing

PATHS = ["native-driver", "cuda-python"]
ROWS = [
    {"gpu": "In range"},
    {"gpu": "Far out", "launch_count": "200000"},
    {"gpu": "No N", "launch_count": ""},
    {"gpu": "A call", "quantity": "graph_launch", "unit": "us"},
    {"gpu": "A loop", "quantity": "loop", "unit": "us", "value": "411.7"},
    {"gpu": "Python", "quantity": "loop_per_launch", "unit": "us per launch", "value": "9.25", "issued_by": "python"},
    {"gpu": "Ratio", "quantity": "speedup", "unit": "ratio", "value": "4.5", "launch_count": "512"},
]


@pytest.fixture(autouse=True)
def _quick_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One small drawing for all, but for tests of what is drawn."""
    if "measured" not in request.fixturenames:
        draw_nothing(monkeypatch)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of one card with its tables and page, and published figures."""
    folder = tmp_path_factory.mktemp("published")
    write_sweep(folder / "results", label="h200")
    with pytest.MonkeyPatch.context() as patch:
        draw_nothing(patch)
        render(folder, ["h200"])
    write(folder / "results", *ROWS)
    return folder


@pytest.fixture
def measured(base: Path) -> Comparison:
    return load_tables(base / "build" / "tables", ["h200"], COUNTS)


def page(base: Path, out: Path, results: Path | None = None, with_published: bool = True) -> Page:
    """The page of the tables of ``base``, with the published figures of ``results``."""
    made = report.render(base / "build" / "tables", results or base / "results", out, ["h200"], COUNTS, with_published)
    return Page(made.read_text(encoding="utf-8"))


def published(folder: Path, *rows: dict[str, str]) -> pd.DataFrame:
    write(folder, *rows)
    return read_published(folder)


# --- the table


def test_the_table_has_every_row_with_its_source(base: Path, tmp_path: Path) -> None:
    made = page(base, tmp_path)
    rows = made.tables["published"]
    assert [row[1] for row in rows[1:]] == [row["gpu"] for row in ROWS]
    assert [row[0] for row in rows[1:]] == [str(number) for number in range(1, len(ROWS) + 1)]
    assert rows[1] == [
        "1",
        "In range",
        "64",
        "0.8 µs per node",
        "Made up CPU; driver 1.2.3; CUDA not stated",
        "replay per node: 64 nodes (clock: host; issued by a native loop)",
        "made up",
        "A title, 2026-08",
    ]
    assert (rows[2][2], rows[3][2], rows[5][3], rows[7][3]) == ("200,000", "\N{EN DASH}", "411.7 µs", "4.5")
    assert "7 figures of others: published, not measured here" in made.text
    links = [link["href"] for link in made.all("a") if str(link["href"]).startswith("http")]
    assert links == [ROW["source_url"]] * len(ROWS)


def test_what_is_not_stated_is_said(tmp_path: Path) -> None:
    (row,) = table(published(tmp_path, {"host": "", "driver": "", "source_date": ""})).rows
    assert row[4].text == "host not stated; driver not stated; CUDA not stated"
    assert row[7].links == [("A title, no date", ROW["source_url"])]


@pytest.mark.parametrize(
    ("cells", "beside"),
    [
        ({}, "replay_total_us / N"),
        ({"clock": "events"}, "replay_us / N"),
        ({"clock": "not stated"}, "replay_us / N or replay_total_us / N"),
        ({"quantity": "graph_launch", "unit": "us"}, "replay_issue_us"),
    ],
)
def test_a_value_says_what_it_may_stand_beside(tmp_path: Path, cells: dict[str, str], beside: str) -> None:
    (row,) = table(published(tmp_path, cells)).rows
    assert row[3].title == f"may stand beside {beside}"


@pytest.mark.parametrize("odd", ODD)
def test_any_text_shows_as_text(base: Path, tmp_path: Path, odd: str) -> None:
    write(tmp_path, dict.fromkeys(("gpu", "host", "measured", "caveat", "source_title", "source_url"), odd))
    made = page(base, tmp_path / "out", tmp_path)
    row = made.tables["published"][1]
    assert row[1] == odd
    assert row[6] == odd
    assert row[7] == f"{odd}, 2026-08: {odd}"
    assert made.all("script") == [{}]


@pytest.mark.parametrize(
    ("url", "linked"),
    [
        ("https://example.org/a_(b)?c=d&e=f#g", True),
        ("HTTP://EXAMPLE.ORG/µ", True),
        ("javascript:alert(1)", False),
        ("data:text/html,<script>alert(1)</script>", False),
        ("file:///etc/hosts", False),
        ("//example.org", False),
        ("doi:10.1000/182", False),
        ("https://", False),
        ("https://[", False),
        (" https://example.org", False),
        ("https://example.org/a b", False),
        ("https://example.org/\n", False),
        ('https://example.org/"onclick=x', False),
    ],
)
def test_a_link_is_made_of_web_addresses_alone(base: Path, tmp_path: Path, url: str, linked: bool) -> None:
    assert is_web_address(url) == linked
    (row,) = table(published(tmp_path, {"source_url": url})).rows
    assert bool(row[7].links) == linked
    assert linked or row[7].text.endswith(url)


# --- never mixed


def test_tables_are_the_same_with_and_without(base: Path, tmp_path: Path) -> None:
    """Those of ``base`` were made before it had published figures."""
    render(tmp_path, ["h200"], results=base / "results")
    of_both = [sorted((folder / "build" / "tables").rglob("*.csv")) for folder in (base, tmp_path)]
    assert {path.name for path in of_both[0]} >= {"summary.csv", "fits.csv", "gaps.csv"}
    without, with_them = ({path.name: path.read_bytes() for path in paths} for paths in of_both)
    assert without == with_them
    assert (base / "reports" / "spread.csv").read_bytes() == (tmp_path / "reports" / "spread.csv").read_bytes()


def test_other_tables_of_the_page_are_the_same_with_and_without(base: Path, tmp_path: Path) -> None:
    with_them, without = page(base, tmp_path).tables, page(base, tmp_path, with_published=False).tables
    assert with_them.pop("published")
    assert with_them == without


def test_switched_off_the_page_is_that_of_before_there_were_any(base: Path) -> None:
    off = page(base, base / "off", with_published=False)
    assert off.source == (base / "reports" / "comparison.html").read_text(encoding="utf-8")
    assert "ublished" not in off.source


def test_a_broken_file_is_one_line_and_switched_off_none(base: Path, tmp_path: Path) -> None:
    path = write(tmp_path, {"quantity": "latency"})
    with pytest.raises(LaunchbenchError) as caught:
        page(base, tmp_path / "out", tmp_path)
    assert str(caught.value).startswith(f"{path}: quantity, row 1: got 'latency'; expected one of loop, ")
    assert page(base, tmp_path / "out", tmp_path, with_published=False).tables


# --- the marks


def test_marks_are_of_the_plotted_quantity_and_an_n_in_range(tmp_path: Path) -> None:
    rows = published(tmp_path, *ROWS)
    assert marks(rows, "times", PATHS, COUNTS) == [
        Mark(1, 64, pytest.approx(51.2), "replay", "native", "In range"),
        Mark(5, 64, 411.7, "loop", "native", "A loop"),
        Mark(6, 64, pytest.approx(592.0), "loop", "python", "Python"),
    ]
    assert marks(rows, "speedup", PATHS, COUNTS) == [Mark(7, 512, 4.5, "loop", "native", "Ratio")]
    assert [mark.number for mark in marks(rows, "times", ["native-runtime"], COUNTS)] == [1, 5]
    assert [mark.number for mark in marks(rows, "times", ["cuda-python"], COUNTS)] == [6]
    assert [mark.number for mark in marks(rows, "times", PATHS, [64])] == [1, 5, 6]
    assert marks(rows, "times", PATHS, [65, 4096]) == []
    assert marks(rows, "times", [], []) == []


def shapes(figure: Figure) -> list[list[Any]]:
    """Place and number of the marks of each panel."""
    found = []
    for axes in figure.axes:
        numbers = {text.xy: text.get_text() for text in axes.texts}
        lines = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
        places = [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines]
        found.append([(*place, numbers[place], line.get_marker()) for place, line in zip(places, lines, strict=True)])
    return found


def legend(figure: Figure) -> list[str]:
    return [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()]


def test_marks_are_hollow_numbered_and_on_the_panel_of_their_loop(measured: Comparison, tmp_path: Path) -> None:
    rows = published(tmp_path, *ROWS)
    times = figures.draw_times(measured, marks(rows, "times", PATHS, COUNTS))
    assert shapes(times) == [
        [(64, pytest.approx(51.2), "1", "d"), (64, 411.7, "5", "H")],
        [(64, pytest.approx(592.0), "6", "H")],
    ]
    assert legend(times)[-2:] == [f"{mode}: {NOT_MEASURED_HERE}" for mode in ("loop", "replay")]
    speedup = figures.draw_speedup(measured, marks(rows, "speedup", PATHS, COUNTS))
    assert shapes(speedup) == [[(512, 4.5, "7", "H")], []]
    assert legend(speedup)[-1] == NOT_MEASURED_HERE
    width = times.get_window_extent().width
    times.canvas.draw()
    box = times.legends[0].get_window_extent()
    assert 0 <= box.x0 <= box.x1 <= width
    lines = [line for text in times.legends[0].get_texts() for line in text.get_text().split("\n")]
    assert max(map(len, lines)) <= 26
    plt.close("all")


def test_without_marks_a_figure_is_as_before(measured: Comparison) -> None:
    for draw in (figures.draw_times, figures.draw_speedup):
        assert not any("published" in text for text in legend(draw(measured)))
        assert shapes(draw(measured, [])) == [[], []]
    plt.close("all")


def test_caption_and_alternative_text_tell_the_marks(base: Path, tmp_path: Path) -> None:
    made = page(base, tmp_path)
    speedup, times = (str(image["aria-label"]) for image in made.all("svg")[:2])
    assert "published, not measured here: In range replay 51.2 µs at N = 64; A loop loop 412 µs at N = 64" in times
    assert "published, not measured here: Ratio 4.50 at N = 512." in speedup
    assert "Far out" not in times
    assert made.text.count("Hollow grey marks are published figures") == 2
    assert [link for link in made.all("a") if link["href"] == "#published"]
    assert told([]) == ""


def test_a_figure_without_marks_has_no_word_of_them(base: Path, tmp_path: Path) -> None:
    write(tmp_path, {"launch_count": ""})
    made = page(base, tmp_path / "out", tmp_path)
    assert "Hollow grey marks are" not in made.text
    assert not any("published" in str(image["aria-label"]) for image in made.all("svg"))
    assert len(made.tables["published"]) == 2


# --- when the report is rendered anew


def test_a_changed_file_makes_another_report_and_its_time_does_not(tmp_path: Path) -> None:
    results = str(tmp_path / "results")
    on, off = configuration({"results_dir": results}), configuration({"results_dir": results, "published": False})
    seen = [published_identity(on)]
    path = write(tmp_path / "results", {})
    seen.append(published_identity(on))
    os.utime(path, (1, 1))
    assert published_identity(on) == seen[-1]
    write(tmp_path / "results", {"value": "0.9"})
    seen.append(published_identity(on))
    path.rename(path.with_name("other.csv"))
    seen.append(published_identity(on))
    write(tmp_path / "results", {})
    seen.append(published_identity(on))
    os.mkfifo(path.with_name("pipe.csv"))
    seen.append(published_identity(on))
    seen.append(published_identity(off))
    assert len(set(seen)) == len(seen) == 7
    path.unlink()
    assert published_identity(off) == seen[-1]


def test_the_report_rule_alone_depends_on_them() -> None:
    rules = Path(__file__).parents[2] / "workflow" / "rules"
    using = [path.name for path in sorted(rules.glob("*.smk")) if "published_identity(CONFIG)" in path.read_text()]
    assert using == ["report.smk"]
    assert re.search(r"params:(?:\n        .*)*\n        published=", (rules / "report.smk").read_text())
