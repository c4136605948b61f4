"""Figures: what is drawn is what the tables hold, for none, few and many cards."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import seaborn as sns
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from PIL import Image

from launchbench.aggregate.join import aggregate
from launchbench.errors import LaunchbenchError
from launchbench.report import drawing, figures, sections
from launchbench.report.comparison import Comparison, compare
from launchbench.report.drawn import draw
from launchbench.report.placements import marks
from tests.unit.fabricate import CostModel, write_four_cards, write_job, write_sweep

LABELS = ["t4", "a100", "h100", "h200"]
COUNTS = (8, 64, 512, 4096)
SVG = "{http://www.w3.org/2000/svg}"

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def no_figures_left() -> Iterator[None]:
    yield
    plt.close("all")


def load(results: Path) -> tuple[Comparison, pd.DataFrame]:
    made = aggregate(results, LABELS, COUNTS)
    comparison = compare(made.summary, made.trials, made.fits, made.gaps, LABELS, COUNTS)
    return comparison, marks(made.tidy, comparison.rows("native-driver"))


def all_text(figure: Figure) -> str:
    figure.canvas.draw()
    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


def test_speedup_draws_the_summary_with_its_intervals(tmp_path: Path) -> None:
    write_four_cards(tmp_path, trials=3)
    comparison, _ = load(tmp_path)
    figure = figures.draw_speedup(comparison)
    assert [axes.get_title() for axes in figure.axes] == [
        "launches issued by native-driver",
        "launches issued by cuda-python",
    ]
    for axes, path in zip(figure.axes, ("native-driver", "cuda-python"), strict=True):
        assert len(axes.containers) == 4
        for container, card in zip(axes.containers, LABELS, strict=True):
            rows = comparison.rows(path, card_name=card)
            line, _, (bars,) = container
            np.testing.assert_array_equal(line.get_xdata(), rows["launch_count"])
            np.testing.assert_array_equal(line.get_ydata(), rows["speedup"])
            ends = np.array([segment[:, 1] for segment in bars.get_segments()])
            np.testing.assert_allclose(ends, rows[["speedup_low", "speedup_high"]])
        bottom, top = axes.get_ylim()
        assert bottom == 0
        tiny = comparison.compared[comparison.compared["kernel"] == "tiny"]
        assert top > tiny["speedup"].max()
        assert axes.get_xscale() == "log"
    text = all_text(figure)
    assert "speed-up" in text and "loop time / replay time" in text and "N (launches or nodes)" in text
    assert all(label in text for label in LABELS)


def test_cards_differ_in_more_than_colour(tmp_path: Path) -> None:
    write_four_cards(tmp_path)
    comparison, _ = load(tmp_path)
    lines = [container[0] for container in figures.draw_speedup(comparison).axes[0].containers]
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines}) == 4
    assert len({line.get_color() for line in lines}) == 4


def test_times_draw_marks_and_fitted_lines(tmp_path: Path) -> None:
    write_sweep(tmp_path, model=CostModel())
    comparison, _ = load(tmp_path)
    axes = figures.draw_times(comparison).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    loop, loop_line, replay, replay_line = axes.lines
    rows = comparison.rows("native-driver")
    np.testing.assert_array_equal(loop.get_ydata(), rows["loop_us"])
    np.testing.assert_array_equal(replay.get_ydata(), rows["replay_us"])
    assert to_rgba(replay.get_markerfacecolor()) == to_rgba("white")
    for line, fixed, each in ((loop_line, 3.0, 4.5), (replay_line, 6.0, 0.75)):
        n = np.asarray(line.get_xdata())
        np.testing.assert_allclose(np.asarray(line.get_ydata()), fixed + each * n, rtol=0.02)


@pytest.mark.parametrize(("counts", "at_least"), [((64,), 2), ((8, 64), 3), ((8, 4096), 3)])
def test_a_logarithmic_axis_has_plain_numbers(tmp_path: Path, counts: tuple[int, ...], at_least: int) -> None:
    write_sweep(tmp_path, counts)
    figure = figures.draw_times(load(tmp_path)[0])
    text = all_text(figure)
    assert "math" not in text and "$" not in text
    axes = figure.axes[0]
    low, high = axes.get_ylim()
    shown = [label for label in axes.get_yticklabels() if label.get_text() and low <= label.get_position()[1] <= high]
    assert len(shown) >= at_least


def test_no_line_where_there_is_no_fit(tmp_path: Path) -> None:
    write_sweep(tmp_path, (512,))
    comparison, _ = load(tmp_path)
    assert len(figures.draw_times(comparison).axes[0].lines) == 2


def test_what_was_measured_at_one_n_is_one_sentence_beside_the_fits(tmp_path: Path) -> None:
    write_sweep(tmp_path, (8, 64), label="t4", launch_paths=("native-driver",))
    write_job(tmp_path, 64, label="h100", card=1, launch_paths=("cuda-python", "triton"))
    made = sections.fit_lines(load(tmp_path)[0])
    assert {row[0].text for row in made.rows} == {"t4"} and len(made.rows) == 4
    write_job(tmp_path, 64, label="a100", card=2, edit=lambda _, raw: raw.assign(gpu_us=np.nan))
    more = sections.fit_lines(load(tmp_path)[0])
    assert more.notes[1] == "Nothing usable at any N, so without a line: native-driver and cuda-python on a100."
    assert made.notes == ["At one N only, so without a line: cuda-python and triton (own kernel) on h100."]


def test_repetitions_of_a_single_placement_are_drawn_and_flagged_ones_hollow(tmp_path: Path) -> None:
    def edit(_: dict[str, object], raw: pd.DataFrame) -> None:
        mine = (raw["launch_path"] == "native-driver") & (raw["kernel"] == "tiny") & (raw["mode"] == "loop")
        raw.loc[mine & (raw["repetition"] == 3), "gpu_us"] = np.nan
        raw.loc[mine & (raw["repetition"] == 4), "gpu_us"] = 1e9

    write_job(tmp_path, 64, format=2, edit=edit)
    comparison, points = load(tmp_path)
    loop, replay = figures.draw_placements(comparison, points, "native-driver").axes
    used, hollow = loop.lines
    assert len(used.get_ydata()) == 48
    expected = points[(points["mode"] == "loop") & points["used"]]["each_us"]
    np.testing.assert_array_equal(np.sort(np.asarray(used.get_ydata())), np.sort(expected))
    assert expected.median() == pytest.approx(CostModel().loop_us(64) / 64, rel=0.02)
    assert hollow.get_markerfacecolor() == "none"
    # The missing one cannot be drawn, the wild one sits on the edge instead of flattening the others.
    assert np.asarray(hollow.get_ydata()).tolist() == [loop.get_ylim()[1]]
    assert loop.get_ylim()[1] < 1.5 * expected.max()
    assert [len(line.get_ydata()) for line in replay.lines] == [48, 2]
    assert loop.get_ylabel() == "loop: µs per launch"
    assert replay.get_ylabel() == "replay: µs per node"


def test_every_placement_of_every_trial_is_one_mark(tmp_path: Path) -> None:
    model = CostModel(noise=0.0, process=0.0)
    write_sweep(tmp_path, (64,), trials=3, model=model, modes=("replay-batch",))
    comparison, points = load(tmp_path)
    loop, replay = figures.draw_placements(comparison, points, "native-driver").axes
    (line,), (placed,) = loop.lines, replay.lines
    assert len(line.get_ydata()) == 3 * 2
    levels = [model.replay_us(64, placement=at) / 64 for at in range(4)]
    np.testing.assert_allclose(np.asarray(placed.get_ydata(), dtype=float), levels * 3)
    # Trial after trial, each in the order of its placements, with a gap between.
    across = np.asarray(placed.get_xdata(), dtype=float)
    steps = np.diff(across)
    assert (steps > 0).all() and across[0] == pytest.approx(-0.4) and across[-1] < 0.4
    assert steps[:3] == pytest.approx([steps[0]] * 3)


def test_nodes_are_drawn_behind_a_gate_where_every_job_has_that(tmp_path: Path) -> None:
    def without(record: dict[str, object], raw: pd.DataFrame) -> pd.DataFrame:
        return raw[(raw["mode"] != "replay-queued") | (record["trial"] != 2)]

    write_sweep(tmp_path, (8,), trials=2, modes=("replay-queued",), label="t4")
    write_sweep(tmp_path, (8,), trials=2, modes=("replay-queued",), label="h100", card=1, edit=without)
    comparison, points = load(tmp_path)
    nodes = points[points["mode"] != "loop"]
    assert nodes.groupby("card_name")["mode"].unique().map(list).to_dict() == {
        "t4": ["replay-queued"],
        "h100": ["replay"],
    }
    assert nodes.groupby("card_name").size().to_dict() == {"t4": 8, "h100": 8}
    figure = figures.draw_placements(comparison, points, "native-driver")
    assert figure.axes[1].get_ylabel() == "replay: µs per node"
    assert "node: behind a gate; plain replays of h100" in all_text(figure)
    own = points[points["card_name"] == "t4"]
    figure = figures.draw_placements(comparison, own, "native-driver")
    assert figure.axes[1].get_ylabel() == "node behind a gate: µs"


def test_many_cards_are_told_per_label(tmp_path: Path) -> None:
    for card in range(12):
        model = CostModel(issue=4 + card / 10)
        write_sweep(tmp_path, (8, 64), label=LABELS[card % 2], card=card, repetitions=2, model=model)
    comparison, _ = load(tmp_path)
    assert comparison.many
    figure = figures.draw_speedup(comparison)
    first = figure.axes[0]
    # One line of medians per label, and the line of no gain.
    assert len(first.lines) == 3
    rows = comparison.rows("native-driver", label="t4")
    medians = rows.groupby("launch_count")["speedup"].median()
    drawn = first.lines[1]
    np.testing.assert_allclose(np.asarray(drawn.get_ydata(), dtype=float), medians)
    band = first.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((rows["speedup"].min(), rows["speedup"].max()))
    assert "12 cards" not in all_text(figure)
    assert "band: smallest to largest" in all_text(figure)
    assert len(figures.draw_placements(comparison, None, "native-driver").axes) == 4


def test_no_results_is_said(tmp_path: Path) -> None:
    comparison, points = load(tmp_path)
    for figure in (
        figures.draw_speedup(comparison),
        figures.draw_times(comparison),
        figures.draw_placements(comparison, points, "native-driver"),
    ):
        assert drawing.NO_RESULTS in all_text(figure)


def test_a_simulated_gpu_is_written_across_the_figure(tmp_path: Path) -> None:
    write_sweep(tmp_path, virtual=True)
    comparison, points = load(tmp_path)
    for figure in (
        figures.draw_speedup(comparison),
        figures.draw_times(comparison),
        figures.draw_placements(comparison, points, "native-driver"),
    ):
        assert "NOT A MEASUREMENT" in all_text(figure)


def test_a_measurement_is_not_called_simulated(tmp_path: Path) -> None:
    write_sweep(tmp_path)
    comparison, _ = load(tmp_path)
    assert "SIMULATED" not in all_text(figures.draw_speedup(comparison))


def test_files_are_whole_repeatable_and_need_no_font(tmp_path: Path) -> None:
    write_four_cards(tmp_path)
    comparison, points = load(tmp_path)
    drawn = draw(figures.drawings(comparison, points, "native-driver"))
    assert drawn == draw(figures.drawings(comparison, points, "native-driver"))
    assert sorted(drawn) == ["placements", "speedup", "times"]
    for files in drawn.values():
        root = ElementTree.fromstring(files["svg"])
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert "path" in tags
        assert not tags & {"text", "script", "image", "foreignObject"}
        assert b"<dc:date>" not in files["svg"]
        image = Image.open(io.BytesIO(files["png"]))
        assert image.width > 1200
        assert len(image.convert("L").histogram()) == 256


def test_drawing_leaves_the_callers_settings_alone(tmp_path: Path) -> None:
    write_sweep(tmp_path)
    comparison, points = load(tmp_path)
    before = dict(matplotlib.rcParams)
    draw(figures.drawings(comparison, points, "native-driver"))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", ["<script>", "$a$ $x_{$", "N" * 200, "_hidden", "a\\b{c}%"])
def test_any_host_name_can_be_drawn(tmp_path: Path, name: str) -> None:
    write_sweep(tmp_path, (8, 64), hostname=name)
    write_sweep(tmp_path, (8, 64), hostname="other", run=1)
    comparison, points = load(tmp_path)
    drawn = draw(figures.drawings(comparison, points, "native-driver"))
    for files in drawn.values():
        ElementTree.fromstring(files["svg"])


def test_legend_lies_below_the_panels(tmp_path: Path) -> None:
    write_four_cards(tmp_path)
    comparison, _ = load(tmp_path)
    for figure in (figures.draw_speedup(comparison), figures.draw_times(comparison)):
        figure.canvas.draw()
        (legend,) = figure.legends
        top = legend.get_window_extent().y1
        assert all(axes.get_tightbbox().y0 >= top - 1 for axes in figure.axes)


def test_many_marks_are_an_image_and_few_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sweep(tmp_path, (8, 64), placements=30, full_placements=2)
    comparison, points = load(tmp_path)
    drawn = []
    for most in (len(points), len(points) - 1):
        monkeypatch.setattr(figures, "MAX_MARKS", most)
        drawn.append(drawing.files_of(figures.draw_placements(comparison, points, "native-driver"))["svg"])
    few, many = (ElementTree.fromstring(svg) for svg in drawn)
    names = [{name: len(root.findall(f".//{SVG}{name}")) for name in ("image", "use")} for root in (few, many)]
    assert names[0]["image"] == 0 and names[1]["image"] == len(comparison.rows("native-driver")) * 2
    assert names[0]["use"] - names[1]["use"] == len(points)


def test_two_processes_draw_what_one_does(tmp_path: Path) -> None:
    write_sweep(tmp_path, (8, 64), trials=3)
    drawings = figures.drawings(*load(tmp_path), "native-driver")
    assert list(drawings) == ["placements", "times", "speedup"]
    assert draw(drawings, 2) == draw(drawings)


def test_a_drawing_process_that_is_ended_is_one_line() -> None:
    with pytest.raises(LaunchbenchError, match=r"^report: a process that drew figures was ended"):
        draw({"one": lambda: os._exit(9)}, 2)


def test_the_look_is_that_of_seaborn_which_is_not_loaded_for_it() -> None:
    with drawing.styled():
        ours = dict(matplotlib.rcParams)
    with plt.rc_context():
        matplotlib.rcdefaults()
        sns.set_theme(style="ticks")
        theirs = dict(matplotlib.rcParams)
    loaded_with_it = {"axes.prop_cycle", "image.cmap", "font.sans-serif", "backend", "backend_fallback"}
    differ = {name for name, value in theirs.items() if ours[name] != value} - loaded_with_it
    assert differ == {name for name in differ if name in drawing.OWN_STYLE}
    assert list(drawing.PALETTE) == sns.color_palette("colorblind", 10).as_hex()
    seen = "import sys, launchbench.report.page; print({'seaborn', 'scipy.stats'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "set()\n"
