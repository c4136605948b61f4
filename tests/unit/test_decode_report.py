"""Sentences, tables and the figure about the decode step: other outcomes, other words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib import pyplot as plt

from launchbench.aggregate.decode import write_decode_tables
from launchbench.report import decode_figure, drawing
from launchbench.report.decode import Section, alternative, section
from launchbench.report.drawing import NO_RESULTS, styled
from tests.unit.fabricate_decode import write_decode_job
from tests.unit.test_report import render as render_page


def made(base: Path, labels: Sequence[str] = ("t4",)) -> Section:
    write_decode_tables(base / "results", base / "tables")
    return section(base / "tables", labels, lambda file: [(Path(file).name, file)])


def told(base: Path, **job: Any) -> list[str]:
    write_decode_job(base / "results", **job)
    [(_, sentences)] = made(base).stories
    return sentences


def test_the_step_its_prediction_and_where_the_graph_stops_helping(tmp_path: Path) -> None:
    step, pace, predicted, bare, until = told(tmp_path)
    assert step.startswith("At batch 1, width 512: 480 launches a token, counted in the captured graph; a token takes ")
    assert "4,000 [3,998" in step and "µs eagerly and 1,000 [" in step and "a speed-up of 4.00 [4.00" in step
    assert step.endswith("The logits of both differ by 0.0000010 at most.")
    assert pace.startswith("Issuing takes 95 % of the eager step's GPU time, so the host sets its pace: the card waits")
    assert "eager 4,400 µs (issuing 4,400, executing 1,430), graph 950.0 µs, speed-up 4.63." in predicted
    assert predicted.endswith(
        "That is 10 % too high for the eager step, 5.0 % too low for the replay and 16 % too high for the speed-up: "
        "both times within 15 %."
    )
    assert bare.startswith("From the launch costs of run n0000512-t1-x alone") and "60 % and 24 % of what" in bare
    assert until.startswith("Width 512: the graph helps up to batch 8 (speed-up 3.20 [")
    assert "from batch 64 on no longer (1.01" in until


def test_a_host_that_changed_its_pace_is_told_of(tmp_path: Path) -> None:
    restless = told(tmp_path / "restless", times={(1, 512): (7000.0, 1000.0), (1, 1024): (13000.0, 1500.0)})
    assert any(
        "480 launches took the host " in one and "the host itself was faster or slower" in one for one in restless
    )
    calm = told(tmp_path / "calm", times={(1, 512): (7000.0, 1000.0), (1, 1024): (7700.0, 1500.0)})
    assert not any("faster or slower" in one for one in calm)


def test_a_prediction_that_missed_says_by_what(tmp_path: Path) -> None:
    slow = told(tmp_path / "graph", times={(1, 512): (4400.0, 1500.0)})
    assert "Why 37 % too low for the replay: in the step kernels take longer" in slow[3]
    fast = told(tmp_path / "fast", times={(1, 512): (4400.0, 700.0)})
    assert "36 % too high for the replay: in the step kernels take less" in fast[3] and "within 15 %" not in fast[2]
    eager = told(tmp_path / "eager", times={(1, 512): (6000.0, 950.0)})
    assert "Why 27 % too low for the eager step: in the step the host needs more" in eager[3]

    def ahead(_: dict[str, Any], rows: pd.DataFrame) -> None:
        rows.loc[rows["mode"] == "eager", "issue_us"] *= 0.5

    other = told(tmp_path / "pace", times={(1, 512): (6000.0, 950.0)}, edit=ahead)
    assert other[1].endswith("so the device sets its pace.")
    assert "the host was predicted to set the pace, and the device does" in other[3]


def test_no_prediction_is_said_with_its_reason(tmp_path: Path) -> None:
    def unpredicted(record: dict[str, Any], _: pd.DataFrame) -> None:
        record["prediction"], record["prediction_reason"] = None, "not counted: PyTorch 2.0 does not keep graphs"
        for point in record["points"]:
            point |= {"launches": None, "nodes": {}, "launches_reason": "not counted: PyTorch 2.0 does not keep graphs"}

    step, _, predicted, *_ = told(tmp_path / "none", edit=unpredicted)
    assert predicted == "No prediction: not counted: PyTorch 2.0 does not keep graphs."
    assert "launches not counted: PyTorch 2.0 does not keep graphs; a token takes" in step
    bare = told(tmp_path / "unstored", stored=False)[3]
    assert bare.startswith("No prediction from launch costs alone: no launch job on this card and host is among")


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ((1.0, 1.0, 1.0), "the graph does not help, not even at batch 1 (speed-up 1.00"),
        ((3.0, 2.0, 1.5), "the graph still helps at the largest batch told, 64 (speed-up 1.50"),
        ((3.0, 1.0, 2.0), "it helps at batch 1, no longer helps at batch 8 and helps at batch 64"),
    ],
)
def test_other_outcomes_other_words(tmp_path: Path, gains: tuple[float, ...], words: str) -> None:
    times = {(batch, 512): (gain * 1000.0, 1000.0) for batch, gain in zip((1, 8, 64), gains, strict=True)}
    assert words in told(tmp_path, times=times)[-1]


def test_what_cannot_be_told_is_not_told(tmp_path: Path) -> None:
    def full(record: dict[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
        point = record["points"].pop()
        record["left_out"] = [{"batch": point["batch"], "width": point["width"], "reason": "needs 9.0 GiB"}]
        return rows[rows["batch"] != point["batch"]]

    assert told(tmp_path / "left", edit=full)[-1].endswith(" (batch 256 cannot be told).")
    few = told(tmp_path / "few", repetitions=2)
    assert few[-1] == "Width 512: whether the graph helps cannot be told: no interval."

    def lying(_: dict[str, Any], rows: pd.DataFrame) -> None:
        rows["gpu_us"] = 1e9

    nothing = told(tmp_path / "lies", edit=lying)
    assert "no repetition can be used: eager: GPU time longer than the host saw" in nothing[0]
    assert nothing[1].endswith("There is no measurement to set it against.")


def test_not_run_and_not_measured_are_two_things(tmp_path: Path) -> None:
    write_decode_job(tmp_path / "results", not_run="PyTorch is not installed")
    found = made(tmp_path, ["t4", "h100"])
    [(_, sentences)] = found.stories
    assert sentences == ["Not run: PyTorch is not installed."] and found.missing == ["h100"]
    [row] = found.prediction_table.rows
    assert row[-2].text == "not run: PyTorch is not installed" and len(row) == len(found.prediction_table.head)
    assert found.point_table.rows == [] and alternative(found).endswith("No results yet.")
    with styled():
        figure = decode_figure.draw_decode(found)
    assert figure.texts[0].get_text() == NO_RESULTS
    plt.close(figure)


def test_tables_that_do_not_fit_together_still_make_a_section(tmp_path: Path) -> None:
    write_decode_job(tmp_path / "results")
    made(tmp_path)
    path = tmp_path / "tables" / "decode.csv"
    header = path.read_text().splitlines(keepends=True)[0]
    zero = pd.read_csv(path, dtype=str).head(1).assign(eager_us="0.0", graph_us="0.0")
    zero.to_csv(path, index=False)
    [(_, sentences)] = section(tmp_path / "tables", ["t4"], lambda file: [(file, file)]).stories
    assert sentences[1].startswith("Issuing takes \N{EN DASH} % of")
    path.write_text(header)
    found = section(tmp_path / "tables", ["t4"], lambda file: [(file, file)])
    assert found.stories[0][1] == ["decode.csv has no row of this run."] and len(found.prediction_table.rows) == 1


def test_many_cards_are_told_by_label(tmp_path: Path) -> None:
    for card in range(8):
        write_decode_job(tmp_path / "results", card=card, times={(1, 512): (4000.0 + card, 1000.0)}, repetitions=6)
    write_decode_job(tmp_path / "results", card=8, not_run="no")
    [(label, sentences)] = made(tmp_path).stories
    assert (label, sentences[0]) == ("t4", "9 cards, not run on 1.")
    assert sentences[1].startswith("Width 512, batch 1: the graph's speed-up is 4.0")


def test_tables_hold_what_the_sentences_say(tmp_path: Path) -> None:
    write_decode_job(tmp_path / "results")
    found = made(tmp_path)
    [row] = found.prediction_table.rows
    texts = [cell.text for cell in row]
    assert texts[1:3] == ["480", "4,400"] and texts[4] == "+10" and texts[5] == "950.0" and texts[8] == "4.63"
    assert texts[11:13] == ["2,400 / 240.0", "2.99.0"] and [word for word, _ in row[-1].links] == ["CSV", "record"]
    assert [len(one) for one in found.point_table.rows] == [len(found.point_table.head)] * 4
    assert [one[8].text for one in found.point_table.rows] == ["helps", "helps", "no longer helps", "no longer helps"]


def test_the_figure_has_a_line_for_each_width_and_a_panel_for_each_card(tmp_path: Path) -> None:
    times = {(batch, width): (4000.0, 1000.0 * batch) for width in (512, 1024) for batch in (1, 2, 4)}
    for card in (0, 1):
        write_decode_job(tmp_path / "results", card=card, times=times, virtual=card == 1)
    found = made(tmp_path)
    with styled():
        figure = decode_figure.draw_decode(found)
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert len(axes.containers) == 2
        line = axes.containers[0].lines[0]
        assert list(line.get_xdata()) == [1, 2, 4] and list(line.get_ydata()) == pytest.approx([4, 2, 1], rel=5e-3)
    assert [text.get_text() for text in figure.legends[0].texts] == ["width 512", "width 1,024", "no gain (1)"]
    assert any("SIMULATED" in text.get_text() for text in figure.texts)
    plt.close(figure)
    assert ", width 512: 4.00 at batch 1 to 1.00 at batch 4" in alternative(found)


def test_a_mark_is_hollow_where_the_host_was_slow(tmp_path: Path) -> None:
    times = {(1, 512): (7000.0, 1000.0), (8, 512): (7000.0, 3000.0), (1, 1024): (13000.0, 1500.0)}
    times |= {(8, 1024): (7100.0, 5000.0), (64, 1024): (30000.0, 29000.0)}
    write_decode_job(tmp_path / "results", times=times)
    found = made(tmp_path)
    with styled():
        figure = decode_figure.draw_decode(found)
        svg = drawing.files_of(figure)["svg"].decode()
    [hollow] = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert list(hollow.get_xdata()) == [1] and list(hollow.get_ydata()) == pytest.approx([13 / 1.5], rel=1e-2)
    told = re.findall(r"<title>(.*?)</title>", svg)
    assert len(told) == 5 and [one for one in told if one.endswith("; the host was slower than elsewhere")] == told[-1:]
    assert "width 1,024, batch 1: speed-up 8.6" in told[-1]
    assert alternative(found).endswith("Hollow, since the host was slower than elsewhere: 1 mark.")


def test_the_page_has_the_section_and_the_files(tmp_path: Path) -> None:
    path = write_decode_job(tmp_path / "results", label="h200")
    page = render_page(tmp_path, ["h200", "t4"])
    assert '<h2 id="decode">The decode step</h2>' in page.source
    assert "t4: not measured yet; on a machine with that card, and with PyTorch installed" in page.text
    assert "from batch 64 on no longer" in page.text and path.name in page.source
    assert len(page.tables["decode"]) == 5 and len(page.tables["decode-prediction"]) == 2
    assert "Speed-up of the decode step by graph replay over eager PyTorch" in str(page.all("svg"))
