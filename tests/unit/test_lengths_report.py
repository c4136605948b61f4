"""Sentences, tables and the figure about two clocks and kernel length: other outcomes, other words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from launchbench.aggregate.lengths import write_lengths_tables
from launchbench.errors import LaunchbenchError
from launchbench.report import lengths_figure
from launchbench.report.drawing import NO_RESULTS, styled, styles_of
from launchbench.report.drawn import draw
from launchbench.report.lengths import Section, alternative, section
from launchbench.report.lengths_panels import panels
from tests.unit.fabricate_lengths import Costs, write_lengths_job
from tests.unit.test_report import Page
from tests.unit.test_report import render as render_page

SLOW_DEVICE = Costs(issue=1.5, pace=2.5, node=2.4)


def made(base: Path, labels: Sequence[str] = ("t4",)) -> Section:
    write_lengths_tables(base / "results", base / "tables")
    return section(base / "tables", labels, lambda file: [(Path(file).name, file)])


def told(base: Path, **job: Any) -> tuple[str, str]:
    """Sentences of the two sections about one card."""
    write_lengths_job(base / "results", **job)
    found = made(base)
    [(_, clocks)], [(_, lengths)] = found.clocks, found.lengths
    return "\n".join(clocks), "\n".join(lengths)


# ---------------------------------------------------------------- two clocks


def test_which_clock_answers_which_question(tmp_path: Path) -> None:
    clocks, _ = told(tmp_path)
    short, long, issuing, questions, step, nothing = clocks.splitlines()
    assert short.startswith("N = 512, kernels of 0 µs: without a synchronize the host's clock reads 2,0")
    assert "The host sets the pace: the device waits for launches, and the GPU time is that of issuing" in short
    assert long.startswith("N = 512, kernels of 50 µs: ") and "in which the kernels alone take 25,600 µs" in long
    assert "The device sets the pace: when the last call returned, the host was 47" in long
    assert "its clock without a synchronize reads 7.7 % of the GPU time" in long
    assert "measures issuing alone, whatever the kernels do" in issuing
    assert "here 5.00 µs more than the GPU time" in questions
    assert step == "The smallest step between two GPU times is 0.0320 µs."
    assert nothing.startswith("Two events with nothing between them lie 1.60")
    assert "takes the host 6.6" in nothing and "a replay at N = 8 of 12.0 µs" in nothing


def test_a_slow_device_sets_the_pace_of_every_loop(tmp_path: Path) -> None:
    clocks, lengths = told(tmp_path, costs=SLOW_DEVICE)
    assert "The host sets the pace" not in clocks and clocks.count("The device sets the pace") == 2
    assert "issuing a launch takes the host" not in lengths
    assert "The device sets the loop's pace even with the shortest kernels, so what is left to save is 0.0" in lengths
    assert "N = 8: the graph does not help, not even with kernels of 0 µs: its speed-up is 0.97" in lengths
    assert "By the model it is 1.02 at no length." in lengths


def test_a_host_that_has_to_wait_is_not_told_as_issuing_alone(tmp_path: Path) -> None:
    def held_up(_: dict[str, Any], rows: pd.DataFrame) -> None:
        long = (rows["kernel_us"] >= 20) & (rows["mode"] == "loop")
        rows.loc[long, "issue_us"] = 0.8 * rows.loc[long, "gpu_us"]

    clocks, _ = told(tmp_path, edit=held_up)
    assert "issuing itself depends on the kernels here" in clocks and "issuing alone" not in clocks


def test_what_cannot_be_told_is_not_told(tmp_path: Path) -> None:
    clocks, lengths = told(tmp_path / "one", launch_counts=(1,), kernels_us=(5.0,), costs=Costs(noise=0, tick=1e-4))
    assert "Whose pace it is cannot be told: a single launch has no pace." in clocks
    assert "kernels of 5 µs" in clocks and clocks.count("without a synchronize the host's clock reads") == 1
    assert "issuing alone" not in clocks and "The model: between two nodes" in lengths
    equal = {"launch_counts": (8,), "kernels_us": (0.0,), "costs": Costs(noise=0, nothing=12, node=0.75, tick=1.5)}
    clocks, _ = told(tmp_path / "equal", **equal, edit=lambda _, rows: rows[rows["mode"] == "nothing"])
    assert "No repetition can be used, so the clocks cannot be compared." in clocks
    assert "No two short GPU times differ, so how finely the events resolve cannot be told." in clocks

    def hot(record: dict[str, Any], _: pd.DataFrame) -> None:
        record["before"]["throttle_reasons"] = ["hw_slowdown"]

    clocks, _ = told(tmp_path / "hot", launch_counts=(8,), edit=hot)
    assert "No event pair around nothing can be used." in clocks


# ---------------------------------------------------------------- kernel length


def test_until_which_length_the_graph_helps_and_why(tmp_path: Path) -> None:
    _, lengths = told(tmp_path)
    eight, _, many, model, why, missing = lengths.splitlines()
    assert eight.startswith("N = 8: the graph helps with kernels up to 50 µs (speed-up 1.02")
    assert "and from 200 µs on no longer (1.00" in eight and "By the model it is 1.02 at 6" in eight
    assert many.startswith("N = 512: the graph still helps with the longest kernels timed, 50 µs: its speed-up is 1.02")
    assert "issuing a launch takes the host 4.00 µs, between two queued launches the device needs 2.0" in model
    assert "between two nodes of a graph it needs 0.75" in model and "by less than 0.1 %" in model
    assert why.startswith(
        "By the model, with kernels shorter than 2.00 µs the host sets the loop's pace and the graph saves up to 3.25"
    )
    assert "what is left to save is 1.25 µs a kernel, however long that is: 1.3 % of kernels of 100 µs." in why
    assert missing == "Not timed, because the kernels alone take too long: 200 µs at N = 512."


def test_a_graph_that_saves_nothing(tmp_path: Path) -> None:
    _, lengths = told(tmp_path, costs=Costs(issue=1.5, pace=2.5, node=2.6))
    assert "N = 8: the graph does not help, not even with kernels of 0 µs: its speed-up is " in lengths
    assert "nothing is left to save, since a node costs the device no less than a queued launch." in lengths
    assert "what is left to save is" not in lengths


def test_one_repetition_tells_no_crossover(tmp_path: Path) -> None:
    _, lengths = told(tmp_path, repetitions=1)
    assert lengths.count("from which length on the graph no longer helps cannot be told: fewer than 6") == 3


def test_a_model_that_is_wrong_is_told_with_its_miss(tmp_path: Path) -> None:
    def odd(_: dict[str, Any], rows: pd.DataFrame) -> None:
        mine = (rows["launch_count"] == 64) & (rows["mode"] == "replay") & (rows["kernel_us"] == 1)
        rows.loc[mine, ["gpu_us", "total_us"]] *= 2

    _, lengths = told(tmp_path, edit=odd)
    assert "wrong model: it misses a cell by" in lengths and "within 10 %" not in lengths


def older(record: dict[str, Any], _: pd.DataFrame) -> None:
    record["protocol"]["version"] = 1


def test_graphs_of_an_older_protocol_are_marked(tmp_path: Path) -> None:
    write_lengths_job(tmp_path / "results", card=0, edit=older)
    write_lengths_job(tmp_path / "results", card=1)
    marks = ["timed under version 1" in " ".join(lines) for _, lines in made(tmp_path).lengths]
    assert marks == [True, False]
    write_lengths_job(tmp_path / "results", card=0, run=1)  # measured anew
    assert "timed under version" not in str(made(tmp_path).lengths)
    for card in range(9):
        write_lengths_job(tmp_path / "results", label="a100", card=10 + card, edit=older if card < 2 else None)
    assert "Of 2 cards: timed under version 1" in str(made(tmp_path).lengths)


def test_many_cards_are_told_per_label(tmp_path: Path) -> None:
    few: dict[str, Any] = {"launch_counts": (8,), "kernels_us": (0.0, 50.0, 200.0), "repetitions": 6}
    for card in range(9):
        costs = Costs(issue=1.5, pace=2.5, node=2.6) if card == 4 else None
        write_lengths_job(tmp_path / "results", card=card, costs=costs, **few)
    found = made(tmp_path)
    assert found.many
    [(label, lines)] = found.lengths
    assert label == "t4"
    assert lines == ["N = 8, 9 cards: reached on 8 and never-helps on 1; the graph helps up to 50.0 µs."]
    [(_, clocks)] = found.clocks
    assert clocks[0].startswith("8 cells at the pace of the host") and clocks[1].startswith("19 cells at the pace of")
    figure = lengths_figure.draw_kernel_length(found)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["t4", "no gain (1)"]
    plt.close(figure)


# ---------------------------------------------------------------- tables and figure


def test_the_tables(tmp_path: Path) -> None:
    path = write_lengths_job(tmp_path / "results")
    found = made(tmp_path, ["t4", "h100"])
    assert found.missing == ["h100"] and not found.simulated
    at = {(row[1].text, row[2].text): row for row in found.clock_table.rows}
    assert len(at) == 18
    row = at["64", "20"]
    assert row[3].text == "1,280" and row[4].text.startswith("255.9") and "[" in row[4].text
    assert row[8].text == "device" and at["8", "0"][8].text == "host"
    left_out = at["512", "200"]
    assert left_out[4].kind == "missing" and left_out[4].title.startswith("not timed: 512 kernels")
    by_cell = {(row[1].text, row[2].text): row for row in found.length_table.rows}
    assert by_cell["64", "20"][5].text.startswith("1.06") and by_cell["64", "20"][6].text == "1.06"
    assert by_cell["64", "20"][7].text == "10" and by_cell["512", "200"][8].text.startswith("not timed")
    [model] = found.model_table.rows
    assert model[1].text == "0.0320" and model[10].text == "within 10 % of every cell"
    stem = f"lab/t4/{path.parent.name}/{path.stem}"
    assert list(model[11].links) == [("CSV", f"{stem}.csv"), ("record", f"{stem}.json")]
    crossed = {row[1].text: [cell.text for cell in row[2:6]] for row in found.crossover_table.rows}
    assert crossed["64"] == ["reached", "50", "200", "200"]
    assert crossed["512"][0] == "not reached" and crossed["512"][3] == "50"


def test_the_figure_draws_what_the_tables_hold(tmp_path: Path) -> None:
    write_lengths_job(tmp_path / "results", launch_counts=(8, 64))
    write_lengths_job(tmp_path / "results", card=1, label="h100", launch_counts=(8, 64), costs=SLOW_DEVICE)
    found = made(tmp_path)
    figure = lengths_figure.draw_kernel_length(found)
    eight, many = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["N = 8", "N = 64"]
    assert eight.get_xscale() == "symlog" and eight.get_xlabel() == "kernel length (µs)"
    cells = found.cells[(found.cells["launch_count"] == 64) & (found.cells["card_name"] == "t4")]
    drawn = [container.lines[0] for container in many.containers]
    marks = next(line for line in drawn if np.allclose(line.get_ydata(), cells["speedup"]))
    assert list(np.asarray(marks.get_xdata())) == cells["kernel_us"].tolist()
    models = [line for line in many.lines if len(np.asarray(line.get_xdata())) > 50]
    assert len(models) == 2
    truth = next(line for line in models if line.get_color() == marks.get_color())
    x, y = (np.asarray(data, float) for data in (truth.get_xdata(), truth.get_ydata()))
    assert np.interp([0, 20, 200], x, y) == pytest.approx(
        [Costs().loop_us(64, k) / Costs().replay_us(64, k) for k in (0, 20, 200)], rel=5e-3
    )
    [named] = [text.get_text() for text in many.texts]
    assert "t4: from 200 µs on" in named and "h100: from " in named
    plt.close(figure)
    small = dataclasses.replace(found, cells=found.cells[found.cells["launch_count"] == 8])
    files = draw(lengths_figure.drawings(small))[lengths_figure.FIGURE]
    assert files == draw(lengths_figure.drawings(small))[lengths_figure.FIGURE] and files["png"][:4] == b"\x89PNG"


def test_the_text_alternative_has_the_ends_of_every_line(tmp_path: Path) -> None:
    write_lengths_job(tmp_path / "results", launch_counts=(8,))
    text = alternative(made(tmp_path))
    assert "t4 at N = 8 3.08 with kernels of 0 µs to 1.01 with kernels of 200 µs." in text
    assert alternative(made(tmp_path / "nothing")).endswith("No results yet.")


def test_nothing_measured_and_nothing_usable_are_drawn_as_such(tmp_path: Path) -> None:
    write_lengths_job(tmp_path / "results", launch_counts=(8,), edit=lambda _, rows: rows[rows["mode"] == "nothing"])
    for base in (tmp_path, tmp_path / "other"):
        figure = lengths_figure.draw_kernel_length(made(base))
        assert [text.get_text() for text in figure.texts] == [NO_RESULTS]
        plt.close(figure)


@pytest.mark.parametrize("name", ["x" * 200, "$N_A$ & <b>"])
def test_long_and_odd_names_fit_the_figure(tmp_path: Path, name: str) -> None:
    few: dict[str, Any] = {"launch_counts": (8,), "kernels_us": (0.0, 50.0)}
    for card, host in enumerate((name, "other")):
        write_lengths_job(tmp_path / "results", card=card, hostname=host, virtual=True, **few)
    with styled():
        figure = lengths_figure.draw_kernel_length(made(tmp_path))
        figure.draw_without_rendering()
        width, height = figure.canvas.get_width_height()
        for text in figure.axes[0].texts:
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= width and box.y1 <= height
        legend = figure.legends[0].get_window_extent()
        assert legend.x0 >= 0 and legend.x1 <= width
        assert any("NOT A MEASUREMENT" in text.get_text() for text in figure.texts)
        plt.close(figure)


def test_tables_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write_lengths_job(tmp_path / "results", launch_counts=(8,), kernels_us=(0.0,))
    made(tmp_path)
    path = tmp_path / "tables" / "crossovers.csv"
    path.write_text(path.read_text().replace("bench-host", "other-host"))
    with pytest.raises(LaunchbenchError, match=r"crossovers.csv: label 't4', card .*: length_models.csv has no such"):
        section(tmp_path / "tables", ["t4"], lambda _: [])


def test_broken_files_are_named(tmp_path: Path) -> None:
    path = write_lengths_job(tmp_path / "results", launch_counts=(8,), kernels_us=(0.0,))
    path.with_suffix(".csv").write_text("")
    found = made(tmp_path)
    assert found.missing == ["t4"] and found.clocks == [] and len(found.broken.rows) == 1
    assert "cut short: 0 of" in found.broken.rows[0][2].text


# ---------------------------------------------------------------- the page


def test_the_sections_of_the_page(tmp_path: Path) -> None:
    write_lengths_job(tmp_path / "results", launch_counts=(8, 64), virtual=True)
    page: Page = render_page(tmp_path, ["t4", "h100"], (8,))
    assert "Two clocks" in page.text and "Kernel length" in page.text
    assert "SIMULATED GPU: some or all figures" in page.text
    command = "make report SNAKEMAKE_FLAGS='--config extras=[lengths]'"
    told = f"t4, h100: not measured yet; on a machine with that card: {command}"
    assert told in page.text, "a simulated card is none"
    assert len(page.tables["clocks"]) == len(page.tables["lengths"]) == 1 + 12
    assert len(page.tables["crossovers"]) == 1 + 2 and len(page.tables["length-models"]) == 1 + 1
    [image] = [tag for tag in page.all("svg") if "against kernel length" in str(tag["aria-label"])]
    assert "t4 (simulated) at N = 8 3.08 with kernels of 0 µs" in str(image["aria-label"])
    links = {str(link["href"]) for link in page.all("a") if "lengths-" in str(link["href"])}
    [within] = [link for link in links if link.startswith("#run-lengths-")]
    assert within[1:] in [heading.get("id") for heading in page.all("th")], "where the files of the job are"
    assert len(links) == 3 and all(link.startswith("../results/lab/t4/") for link in links - {within})
    assert {f"../build/tables/{name}.csv" for name in ("lengths", "length_models", "crossovers", "lengths_gaps")} <= {
        link["href"] for link in page.all("a")
    }


def test_a_card_looks_as_in_the_other_figures(tmp_path: Path) -> None:
    for label in ("t4", "a100"):
        write_lengths_job(tmp_path / "results", label=label, card=len(label))
    found = made(tmp_path)
    with styled():
        alone = panels(found)
        beside = panels(dataclasses.replace(found, elsewhere=("h100", "t4")))
    assert alone and beside
    assert [*alone.styles] == ["a100", "t4"] and [*beside.styles] == ["t4", "a100"]
    expected = styles_of(["h100", "t4", "a100"])
    assert beside.styles == {name: expected[name] for name in ("t4", "a100")}
    plt.close("all")
