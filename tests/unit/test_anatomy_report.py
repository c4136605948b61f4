"""Sections and figures of what a launch consists of: what they say is what the tables hold."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from launchbench.aggregate.join import Tables, aggregate
from launchbench.report import anatomy, anatomy_figures, anatomy_tables, placements, sections
from launchbench.report.anatomy import Section, make_section
from launchbench.report.cells import Table
from launchbench.report.comparison import Comparison, compare
from launchbench.report.drawing import NO_RESULTS, styled
from launchbench.report.drawn import draw
from launchbench.wording import number
from tests.unit.fabricate import CostModel, write_job, write_sweep
from tests.unit.fabricate_modes import ModeModel, write_modes
from tests.unit.test_report import render
from tests.unit.undrawn import draw_nothing

LABELS = ["t4", "h100"]
COUNTS = (8, 512, 4096)
T4 = ModeModel(issue=2.0, pace=3.1, node=2.6, empty_node=1.2, levels=(0.8, 0.9, 1.1, 1.2))
H100 = ModeModel()


@pytest.fixture(autouse=True)
def no_figures_left() -> Iterator[None]:
    yield
    plt.close("all")


Made = tuple[Section, Comparison, Tables]


def load(results: Path, labels: Sequence[str] = LABELS, counts: Sequence[int] = COUNTS) -> Made:
    made = aggregate(results, labels, counts)
    comparison = compare(made.summary, made.trials, made.fits, made.gaps, labels, counts)
    return make_section(made.anatomy, made.modes, comparison), comparison, made


@pytest.fixture(scope="module")
def two_cards(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("two-cards")
    write_modes(folder, COUNTS, label="t4", card=0, capability=(7, 5), model=T4)
    write_modes(folder, COUNTS, label="h100", card=1, model=H100)
    return load(folder)


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def row_of(table: Table, *who: str) -> list[str]:
    [found] = [row for row in texts(table) if row[:3] == list(who)]
    return found


def value(cell: str) -> float:
    return float(cell.partition(" ")[0].replace(",", ""))


def written(figure: Figure) -> str:
    figure.canvas.draw()
    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


# --- sentences


def test_the_bottleneck_is_told_from_the_numbers_of_each_card(two_cards: Made) -> None:
    told = dict(anatomy.anatomy_sentences(two_cards[0]))
    assert list(told) == LABELS
    assert told["t4"][0].startswith("The loop waits for the device, which takes longer")
    assert re.search(r"at N = 512 \((1\.9\d|2\.0\d) µs to issue, 3\.1\d µs queued\)", told["t4"][0])
    assert told["h100"][0].startswith("The loop waits for the host, which takes longer")
    assert re.search(r"at N = 512 \(4\.[45]\d µs to issue, 1\.5\d µs queued\)", told["h100"][0])
    for card in LABELS:
        assert re.search(r"\. N = 4,096 \(\d\.\d\d µs per launch\) is past the queue's depth", told[card][0])
    assert re.match(r"The kernel itself, .* takes 0\.2[45]\d \[0\.\d+–0\.\d+\] µs at N = 512", told["h100"][1])  # noqa: RUF001
    assert told["h100"][2] == "One call that launches a graph takes the host 3.00 µs at N = 8 and 3.00 µs at N = 4,096."


def test_the_ladder_says_what_programmatic_edges_bring(two_cards: Made) -> None:
    told = dict(anatomy.ladder_sentences(two_cards[0]))
    graph, loop, floor = told["h100"]
    assert re.search(r"graph at N = 512: a node takes 0\.6\d+ \[.*\] µs instead of 0\.7\d+ .*: they help\.$", graph)
    assert re.search(r"loop at N = 512: a launch takes 3\.\d+ \[.*\] µs instead of 4\.[45]\d .*: they help\.$", loop)
    times = (H100.replay_us(512)) / (2 + 512 * H100.floor)
    assert float(floor.split(" ")[-3]) == pytest.approx(times, rel=0.02)
    assert told["t4"][0] == (
        "Programmatic edges, in the graph or in the loop: not timed: compute capability 7.5 has no programmatic "
        "dependent launch, 9.0 has."
    )
    assert len(told["t4"]) == 2


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.7, 0.9, "they help"),
        (0.985, 1.015, "they bring nothing"),
        (0.981, 0.999, "they bring nothing"),
        (0.9, 1.1, "one cannot tell whether they help"),
        (1.1, 1.2, "they cost time"),
        (float("nan"), float("nan"), "one cannot tell whether they help, without an interval"),
    ],
)
def test_what_a_ratio_of_times_says(low: float, high: float, words: str) -> None:
    assert anatomy.gain({"x_low": low, "x_high": high}, "x") == words


def test_placements_say_what_one_buffer_is_worth(two_cards: Made) -> None:
    t4, h100 = placements.placement_sentences(two_cards[0])
    assert (
        t4.startswith("t4: a node of tiny differs by 4")
        and "over 12 placements at N = 512 (timed behind a gate); one of the control" in t4
    )
    assert re.search(r"can be off the mean by 2[01] %, however often it repeats\.$", t4)
    assert h100.startswith("h100: a node of tiny differs by 4.")


@pytest.mark.parametrize("lost", [[], ["empty"], ["tiny", "empty"]])
def test_a_node_is_timed_behind_a_gate_or_said_not_to_be(tmp_path: Path, lost: list[str]) -> None:
    write_modes(tmp_path, (64, 512), label="t4")
    _, comparison, made = load(tmp_path, ["t4"])
    modes = made.modes
    plain, gated, here = (modes["mode"] == "replay", modes["mode"] == "replay-queued", modes["launch_count"] == 512)
    modes.loc[plain, "spread_percent"] = 70.0
    modes.loc[gated, "spread_percent"] = 7.0
    modes.loc[gated & here & modes["kernel"].isin(lost), ["gpu_us", "spread_percent"]] = np.nan
    section = make_section(made.anatomy, modes, comparison)
    rows = placements.node_rows(section)
    assert len(rows) == 4, "each kernel and N once"
    [told] = placements.placement_sentences(section)
    table = {(row[1], row[2]): (row[4], row[7]) for row in texts(anatomy_tables.placements(section))}
    assert table["tiny", "64"] == table["empty (control)", "64"] == ("behind a gate", "7.0 %")
    if lost:
        # Never one kernel by one mode and the other by the other.
        assert "differs by 70 % over 12 placements at N = 512 (plain replays); one of the control differs by 70" in told
        assert table["tiny", "512"] == table["empty (control)", "512"] == ("plain replays", "70 %")
        assert placements.plain_note(rows).startswith("Not timed behind a gate: t4 at N = 512: these are plain replays")
    else:
        assert "differs by 7.0 % over 12 placements at N = 512 (timed behind a gate)" in told
        assert placements.plain_note(rows) == ""


@pytest.mark.parametrize(("low", "high", "percent"), [(9.0, 13.0, 30), (6.0, 11.0, 40)])
def test_the_placement_farthest_from_the_mean_counts(low: float, high: float, percent: float) -> None:
    modes = pd.DataFrame({"gpu_us": [10.0], "placement_low_us": [low], "placement_high_us": [high]})
    assert placements.off_by(modes).tolist() == pytest.approx([percent])


def test_a_place_that_does_not_matter_is_not_said_to(tmp_path: Path) -> None:
    write_modes(tmp_path, (64,), model=ModeModel(levels=(1.0,), empty_node=0.75))
    made = aggregate(tmp_path, [], ())
    made.modes.loc[made.modes["kernel"] == "empty", "placement_high_us"] *= 1.2
    made.modes.loc[made.modes["kernel"] == "empty", "spread_percent"] = 20.0
    comparison = compare(made.summary, made.trials, made.fits, made.gaps, ["t4"], (64,))
    [told] = placements.placement_sentences(make_section(made.anatomy, made.modes, comparison))
    assert told.endswith("That is no more than the control's, so where the buffer lies does not show here.")


def test_break_even_is_told_also_where_it_never_comes(tmp_path: Path) -> None:
    write_modes(tmp_path, (8, 512), label="t4", model=ModeModel(replay_fixed=60.0))
    _, comparison, made = load(tmp_path, ["t4"])
    row = made.summary[(made.summary["launch_count"] == 512) & (made.summary["kernel"] == "tiny")].iloc[0]
    [told] = anatomy.break_even_sentences(comparison, "native-driver")
    assert told.startswith(
        f"t4: Replays until capture, instantiation and upload are paid for: {row['break_even_replays']:.0f}"
    )
    assert told.endswith(" They are never paid for at N = 8.")
    axes = anatomy_figures.draw_break_even(comparison, "native-driver").axes[0]
    line, marks = axes.lines[0], axes.containers[0][0]
    assert np.isnan(line.get_ydata()[0]) and line.get_ydata()[1] == row["break_even_replays"]
    [never] = [tick for tick in axes.get_yticks() if axes.yaxis.get_major_formatter()(tick) == "never"]
    assert marks.get_ydata()[0] == never and axes.get_ylim()[1] > never
    assert list(axes.get_yticks()[:3]) == [1, 2, 3]


def test_one_trial_has_values_and_no_verdict(tmp_path: Path) -> None:
    write_modes(tmp_path, (8, 512), trials=1, label="h100")
    section, *_ = load(tmp_path)
    [(_, told)] = anatomy.anatomy_sentences(section)
    assert told[0].startswith("What the loop waits for cannot be told: at N = 8 (4.")
    assert told[0].count("fewer than 3 trials") == 1 and told[0].endswith("an interval between processes.")
    assert "[" not in "".join(told) and re.search(r"takes 0\.2\d+ µs at N = 512", told[1])
    [(_, edges)] = anatomy.ladder_sentences(section)
    assert edges[0].endswith("one cannot tell whether they help, without an interval.")
    assert row_of(anatomy_tables.parts(section), "h100", "tiny", "512")[-1] == "cannot tell"


def test_old_results_say_what_was_not_measured_then(tmp_path: Path) -> None:
    write_sweep(tmp_path, (8, 512), label="t4", format=2)
    section, comparison, _ = load(tmp_path)
    assert section.unmeasured == ["t4"]
    assert anatomy.anatomy_sentences(section) == anatomy.ladder_sentences(section) == []
    assert placements.placement_sentences(section) == []
    assert not anatomy_tables.parts(section).rows and not anatomy_tables.ladder(section).rows
    for drawing in (anatomy_figures.draw_anatomy, anatomy_figures.draw_ladder):
        assert written(drawing(section)) == NO_RESULTS
    alternatives = anatomy.alternatives(section, comparison, "native-driver", [])
    assert alternatives["anatomy"].endswith("Not measured yet.") and alternatives["ladder"].endswith(
        "Not measured yet."
    )


# --- tables


def test_the_tables_hold_the_model(two_cards: Made) -> None:
    section = two_cards[0]
    parts, ladder = anatomy_tables.parts(section), anatomy_tables.ladder(section)
    for label, model in (("t4", T4), ("h100", H100)):
        row = row_of(parts, label, "tiny", "512")
        expected = [model.loop_us(512) / 512, model.issue, model.pace, model.replay_us(512) / 512, model.replay_call]
        expected[0] = max(expected[0], model.pace)
        expected.append(model.node - model.empty_node)
        assert [value(cell) for cell in row[3:9]] == pytest.approx(expected, rel=0.04)
        assert row[-1] == ("device pace" if label == "t4" else "host issue")
        assert row_of(parts, label, "empty (control)", "512")[8] == "–"  # noqa: RUF001
        past = row_of(parts, label, "tiny", "4,096")
        assert (past[5], past[-1]) == ("not timed", "past queue depth")
        rungs = row_of(ladder, label, "tiny", "512")[3:]
        assert value(rungs[-1]) == pytest.approx(2 / 512 + model.floor / 10, rel=0.02)
        assert value(rungs[-2]) == pytest.approx(2 / 512 + model.floor, rel=0.02)
    assert row_of(ladder, "t4", "tiny", "512")[4] == "not timed"
    assert value(row_of(ladder, "h100", "tiny", "512")[6]) == pytest.approx(0.8 * H100.replay_us(512) / 512, rel=0.02)
    assert [note for note in map(str, ladder.notes) if note.startswith("Not timed")] == [
        "Not timed: loop-dependent and replay-dependent (compute capability 7.5 has no programmatic dependent launch, "
        "9.0 has)."
    ]
    assert "N = 4,096 is past what is issued behind a gate" in " ".join(map(str, parts.notes))


def test_the_table_of_placements(two_cards: Made) -> None:
    table = anatomy_tables.placements(two_cards[0])
    row = row_of(table, "t4", "tiny", "4,096")
    assert row[3:5] == ["12", "behind a gate"]
    assert [value(cell) for cell in row[5:7]] == pytest.approx([0.8 * T4.node, 1.2 * T4.node], rel=0.03)
    assert value(row[7]) == pytest.approx(40, abs=3) and value(row[8]) == pytest.approx(20, abs=2)
    assert value(row_of(table, "t4", "empty (control)", "4,096")[7]) < 3


def test_what_was_disturbed_is_listed_with_its_reason(tmp_path: Path) -> None:
    def throttled(record: dict[str, Any], raw: pd.DataFrame) -> None:
        if record["launch_count"] == 8 or record["trial"] == 2:
            for block in record["blocks"]:
                block["after"]["throttle_reasons"] = ["hw_thermal_slowdown"]

    write_modes(tmp_path, (8, 512), kernels=("tiny",), label="h100", edit=throttled)
    section, comparison, _ = load(tmp_path)
    table = anatomy_tables.disturbed(comparison)
    lost, part = texts(table)
    assert lost[3:5] == ["8", "no valid samples"] and "hw_thermal_slowdown (after)" in lost[-1]
    assert part[3:5] == ["512", "32 repetitions of 2 trials"] and part[5] == "16"
    parts = anatomy_tables.parts(section)
    assert [row[0].text for row in parts.rows] == ["h100 *"]
    assert "hw_thermal_slowdown" in parts.rows[0][0].title and "* repetitions were left out" in str(parts.notes[-1])


# --- figures


def test_the_figure_of_the_parts_draws_the_table(two_cards: Made) -> None:
    section = two_cards[0]
    figure = anatomy_figures.draw_anatomy(section)
    assert [axes.get_title() for axes in figure.axes] == ["N = 8", "N = 512", "N = 4,096\npast the queue's depth"]
    widths = [bar.get_width() for bar in figure.axes[1].patches]
    for position, label in enumerate(LABELS):
        row = section.rows(label).set_index("launch_count").loc[512]
        expected = [row["issue_us"], row["pace_us"], row["node_us"], row["kernel_us"], row["graph_call_us"] / 512]
        assert widths[5 * position : 5 * position + 5] == pytest.approx(expected)
    bold = {text.get_text().strip() for axes in figure.axes for text in axes.texts if text.get_fontweight() == "bold"}
    at_512 = {label: section.rows(label).set_index("launch_count").loc[512] for label in LABELS}
    assert {number(at_512["t4"]["pace_us"]), number(at_512["h100"]["issue_us"])} <= bold
    text = written(figure)
    assert text.count("not timed") == 2 and "bold: what the loop waits for" in text and "µs" in text
    assert "SIMULATED" not in text
    # A bar that is a share of one call says of what.
    assert f"= {number(at_512['h100']['graph_call_us'])} / 512" in text and "divided by its N nodes" in text


def test_the_ladder_draws_every_mode_and_states_gaps(two_cards: Made) -> None:
    section = two_cards[0]
    figure = anatomy_figures.draw_ladder(section)
    t4, h100 = figure.axes
    assert (len(t4.containers), len(h100.containers)) == (4, 6)
    for mode, container in zip(anatomy.LADDER, h100.containers, strict=True):
        rows = section.mode("h100", mode)
        np.testing.assert_array_equal(container[0].get_ydata(), rows["each_us"])
        np.testing.assert_allclose(rows["each_us"] * rows["launch_count"], rows["gpu_us"])
    assert h100.get_xscale() == h100.get_yscale() == "log"
    below = " ".join(t4.get_xlabel().split())
    assert below.startswith("N loop-dependent and replay-dependent: not timed: compute capability 7.5")
    assert h100.get_xlabel() == "N"
    assert "one kernel, register (other work)" in written(figure)


@pytest.mark.untraced
def test_files_are_repeatable_and_simulated_cards_are_marked(tmp_path: Path) -> None:
    write_modes(tmp_path, (64,), kernels=("tiny",), label="h100", hostname="<script>$x_{$", virtual=True)
    write_modes(tmp_path, (64,), kernels=("tiny",), label="h100", hostname="N" * 200, virtual=True, run=1)
    section, comparison, _ = load(tmp_path)
    drawn = draw(anatomy_figures.drawings(section, comparison, "native-driver"))
    assert sorted(drawn) == sorted(anatomy_figures.FIGURES)
    assert drawn == draw(anatomy_figures.drawings(section, comparison, "native-driver"))
    for files in drawn.values():
        ElementTree.fromstring(files["svg"])
        assert b"<dc:date>" not in files["svg"]
    with styled():
        for figure in (
            anatomy_figures.draw_anatomy(section),
            anatomy_figures.draw_ladder(section),
            anatomy_figures.draw_break_even(comparison, "native-driver"),
        ):
            assert "SIMULATED GPU INCLUDED" in written(figure)


@pytest.mark.untraced
def test_many_cards_are_told_per_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few: dict[str, Any] = {"kernels": ("tiny",), "placements": 1, "full_placements": 1, "repetitions": 2}
    for card in range(60):
        label, issue = ("t4", 2.0 + card / 100) if card < 30 else ("h100", 4.0 + card / 100)
        write_modes(tmp_path, (64,), trials=1, label=label, card=card, model=ModeModel(issue=issue), **few)
    section, comparison, _ = load(tmp_path, LABELS, (64,))
    assert section.many and section.names == LABELS
    [(_, t4), _] = anatomy.anatomy_sentences(section)
    assert "30 of 30 cards" in t4[0] and re.search(r"\(\d\.\d+–2\.\d+ µs to issue", t4[0])  # noqa: RUF001
    table = anatomy_tables.parts(section)
    assert len(table.rows) == 2 and table.rows[0][0].title == "30 cards"
    assert "Smallest to largest card of each label" in " ".join(table.notes)
    issue = section.rows("t4")["issue_us"]
    bar = anatomy_figures.draw_anatomy(section).axes[0].patches[0]
    assert bar.get_width() == pytest.approx(issue.median())
    ladder = anatomy_figures.draw_ladder(section)
    assert len(ladder.axes) == 2
    paid = anatomy_figures.draw_break_even(comparison, "native-driver")
    assert "median over the cards of a label" in written(paid)
    assert anatomy.break_even_sentences(comparison, "native-driver") == []
    text = anatomy.alternatives(section, comparison, "native-driver", [])
    assert text["break_even"].endswith("costs. t4: 10 to 12 at N = 64. h100: 4 to 5 at N = 64.")

    assert len(sections.one_off(comparison).rows) == 60
    monkeypatch.setattr(sections, "MAX_ROWS", 50)
    costs = sections.one_off(comparison)
    capture = number(ModeModel().once_us(64)[0])
    assert [row[:4] for row in texts(costs)] == [[label, "native-driver", "64", capture] for label in LABELS]
    assert [row[-1] for row in texts(costs)] == ["10 to 12", "4 to 5"]
    assert costs.notes == ["60 rows are too many to list: smallest to largest card of each label."]


def test_no_results_are_drawn_as_such(tmp_path: Path) -> None:
    section, comparison, _ = load(tmp_path)
    assert section.names == [] and section.at is None
    for figure in (
        anatomy_figures.draw_anatomy(section),
        anatomy_figures.draw_ladder(section),
        anatomy_figures.draw_break_even(comparison, "native-driver"),
    ):
        assert written(figure) == NO_RESULTS


def test_the_page_has_the_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)

    def loaded(record: dict[str, Any], raw: pd.DataFrame) -> None:
        raw.loc[(raw["mode"] == "loop") & (raw["repetition"] == 0), "gpu_us"] = np.nan

    write_modes(tmp_path / "results", (512,), label="h100", card=1, hostname="<b>", edit=loaded)
    write_modes(tmp_path / "results", (512,), label="h100", card=1, hostname="b", run=1, edit=loaded)
    write_sweep(tmp_path / "results", (512,), label="t4", format=2)
    shown = render(tmp_path, LABELS, (512,))
    headings = ["anatomy", "ladder", "break-even", "placements", "disturbed"]
    found = [attributes.get("id") for name, attributes in shown.tags if name in ("h2", "h3")]
    assert [heading for heading in found if heading in headings] == headings
    assert {"anatomy", "ladder", "one-off", "spread-of-placements", "disturbed"} <= set(shown.tables)
    assert "h100 on <b>: a node of tiny differs by" in shown.text
    assert (
        shown.text.count("Of t4 only loop and replay have been measured; on a machine with that card: make report") == 1
    )
    assert shown.tables["anatomy"][1][0].startswith("h100 on <b> *")
    assert not shown.all("b") and "no GPU time (6 repetitions)" in shown.text
    assert (tmp_path / "reports" / "figures" / "break_even.png").exists()


def test_another_launch_path_alone_has_no_anatomy(tmp_path: Path) -> None:
    write_job(tmp_path, 8, launch_paths=("cuda-python",), model=CostModel())
    section, comparison, _ = load(tmp_path)
    assert section.names == []
    assert written(anatomy_figures.draw_break_even(comparison, "cuda-python")) != NO_RESULTS
