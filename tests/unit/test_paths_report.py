"""The section on launch paths: its table, sentences and figure, with gaps and other code apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from launchbench.aggregate.join import aggregate
from launchbench.report import figures, paths, paths_figure
from launchbench.report.comparison import Comparison, compare
from launchbench.results.protocol import LAUNCH_PATHS, OTHER_CODE
from launchbench.wording import number
from tests.unit.fabricate import CostModel, write_job
from tests.unit.test_path_gaps import stating
from tests.unit.test_report import render

COUNTS = (64, 512)
FACTORS = {"cuda-bindings": 1.1, "cuda-python": 1.4, "cupy": 1.6, "numba": 3.0, "triton": 2.5, "torch": 2.0}
GAPS = stating({"numba": "No module named 'numba'"}, {"torch": {"empty": "no empty kernel"}})


def write_paths(folder: Path, measured: tuple[str, ...], edit: Any = None, **options: Any) -> None:
    """Three trials of each N, each path a factor dearer in the loop than the native one."""

    def slower(record: dict[str, Any], raw: pd.DataFrame) -> pd.DataFrame:
        if edit:
            edit(record, raw)
        loops = raw["mode"] == "loop"
        for column in ("gpu_us", "issue_us", "total_us"):
            raw.loc[loops, column] *= raw.loc[loops, "launch_path"].map(FACTORS).fillna(1.0)
        gone = ("torch", "empty")
        record["blocks"] = [one for one in record["blocks"] if (one["launch_path"], one["kernel"]) != gone]
        return raw[(raw["launch_path"] != gone[0]) | (raw["kernel"] != gone[1])].reset_index(drop=True)

    for count in COUNTS:
        for trial in (1, 2, 3):
            model = options.get("model") or CostModel(python_factor=1.0)
            write_job(folder, count, trial=trial, launch_paths=measured, edit=slower, **{**options, "model": model})


def loaded(folder: Path) -> tuple[Comparison, pd.DataFrame]:
    made = aggregate(folder, ["t4"], COUNTS)
    return compare(made.summary, made.trials, made.fits, made.gaps, ["t4"], COUNTS), made.unmeasured


@pytest.fixture(autouse=True)
def no_figures_left() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture
def shown(tmp_path: Path) -> tuple[Comparison, paths.Section]:
    write_paths(tmp_path, ("native-driver", "cuda-bindings", "cuda-python", "triton", "torch"), GAPS)
    comparison, stated = loaded(tmp_path)
    return comparison, paths.section(comparison, stated)


def cells(section: paths.Section) -> dict[tuple[str, str], list[str]]:
    """(N, path) -> the texts that follow."""
    return {(row[1].text, row[2].text): [cell.text for cell in row[3:]] for row in section.table.rows}


def each(comparison: Comparison, path: str, column: str = "loop_us_per_launch") -> float:
    [row] = comparison.rows(path, launch_count=512).to_dict("records")
    return float(row[column])


def test_every_path_has_a_row_and_a_gap_has_its_reason(shown: tuple[Comparison, paths.Section]) -> None:
    comparison, section = shown
    told = cells(section)
    order = ["native-driver", "cuda-bindings", "cuda-python", "numba", "triton", "torch"]
    assert list(told) == [(count, path) for count in ("64", "512") for path in order]
    for (_, path), texts in told.items():
        assert texts[0] == ("own kernel: not the same code" if path in OTHER_CODE else "the same")
    loop, issue, node, control = told["512", "cuda-python"][1:]
    assert loop.startswith(number(each(comparison, "cuda-python"))) and "[" in loop
    assert issue == number(each(comparison, "cuda-python", "loop_issue_us") / 512)
    assert node.startswith(number(each(comparison, "cuda-python", "replay_us_per_node")))
    [empty] = comparison.rows("cuda-python", "empty", launch_count=512).to_dict("records")
    assert control.startswith(number(empty["loop_us_per_launch"]))
    assert told["512", "numba"][1:] == ["not measured: No module named 'numba'"]
    assert told["512", "torch"][-1] == "not measured: no empty kernel" and "[" in told["512", "torch"][1]
    assert {sum(cell.colspan for cell in row) for row in section.table.rows} == {len(section.table.head)}


def test_the_sentence_keeps_other_code_apart(shown: tuple[Comparison, paths.Section]) -> None:
    comparison, section = shown
    [sentence] = section.sentences
    native = each(comparison, "native-driver")
    assert sentence == (
        f"t4: at N = 512 the cheapest launch of the loop is by native-driver, {number(native)} µs. Python beside "
        f"native-driver, per launch: cuda-bindings {number(each(comparison, 'cuda-bindings') - native)} µs more and "
        f"cuda-python {number(each(comparison, 'cuda-python') - native)} µs more. With kernels of their own, not the "
        f"same code: triton {number(each(comparison, 'triton'))} µs and torch {number(each(comparison, 'torch'))} µs."
    )
    assert section.other_code


def test_other_code_is_never_the_cheapest(tmp_path: Path) -> None:
    write_paths(tmp_path, ("cuda-python", "triton"), lambda _, raw: raw.update(_halved(raw)))
    comparison, stated = loaded(tmp_path)
    assert each(comparison, "triton") < each(comparison, "cuda-python")
    [sentence] = paths.section(comparison, stated).sentences
    assert "the cheapest launch of the loop is by cuda-python" in sentence


def _halved(raw: pd.DataFrame) -> pd.DataFrame:
    own = (raw["launch_path"] == "triton") & (raw["mode"] == "loop")
    return raw.loc[own, ["gpu_us", "issue_us"]] / 10


def test_what_the_intervals_cannot_tell_apart_is_no_difference(tmp_path: Path) -> None:
    write_paths(tmp_path, ("native-driver", "native-runtime", "cupy"), model=CostModel(process=0.5, python_factor=1.0))
    comparison, stated = loaded(tmp_path)
    [sentence] = paths.section(comparison, stated).sentences
    assert re.search(r"per launch: the intervals cannot tell cupy at [0-9.]+ µs from it\.$", sentence)
    assert not paths.section(comparison, stated).other_code


def test_a_path_that_nothing_was_measured_beside_has_no_sentence(tmp_path: Path) -> None:
    comparison, stated = loaded(tmp_path)
    section = paths.section(comparison, stated)
    assert (section.at, list(section.sentences), list(section.table.rows)) == (None, [], [])
    assert paths.alternative(comparison, section) == "No results yet."
    assert len(paths_figure.draw_paths(comparison, None).axes) == 0


def test_many_cards_are_told_by_label(tmp_path: Path) -> None:
    for card in range(9):
        write_job(tmp_path, 512, card=card, launch_paths=["native-driver", "numba"], edit=stating({"cupy": "broken"}))
    comparison, stated = loaded(tmp_path)
    section = paths.section(comparison, stated)
    told = cells(section)
    assert list(told) == [("512", path) for path in ("native-driver", "cupy", "numba")]
    assert told["512", "cupy"][1:] == ["not measured on 9 cards: broken"]
    assert re.fullmatch("[0-9.]+\N{EN DASH}[0-9.]+", told["512", "native-driver"][1])
    assert section.sentences[0].startswith("t4: over 9 cards at N = 512, a launch of the loop costs by native-driver")
    figure = paths_figure.draw_paths(comparison, section.at)
    [container] = [one for one in figure.axes[0].containers if one[0].get_markerfacecolor() == "white"]
    low, high = np.sort(container[2][0].get_segments()[0][:, 0])
    values = comparison.rows("numba")["loop_us_per_launch"]
    assert (low, high) == pytest.approx((values.min(), values.max()))


def test_the_figure_draws_the_summary(shown: tuple[Comparison, paths.Section]) -> None:
    comparison, section = shown
    figure = paths_figure.draw_paths(comparison, section.at)
    loop, replay = figure.axes
    measured = [path for path in LAUNCH_PATHS if path in comparison.launch_paths]
    names = [text.get_text() for text in loop.get_yticklabels()]
    assert names == [f"{path} (own kernel)" if path in OTHER_CODE else path for path in measured]
    for axes, column in ((loop, "loop"), (replay, "replay")):
        for path, container in zip(measured, axes.containers, strict=True):
            [row] = comparison.rows(path, launch_count=512).to_dict("records")
            line, _, [bar] = container
            assert line.get_xdata()[0] == pytest.approx(row[f"{column}_us"] / 512)
            ends = np.sort(bar.get_segments()[0][:, 0]) * 512
            assert ends == pytest.approx([row[f"{column}_low_us"], row[f"{column}_high_us"]])
            assert (line.get_markerfacecolor() == "white") == (path in OTHER_CODE)
        assert axes.get_xlim()[0] == 0 and axes.get_xlim()[1] > 1.05 * max(
            line.get_xdata()[0] for line in axes.lines[:1]
        )
    assert paths.alternative(comparison, section).startswith("Launch paths at N = 512, of one card: native-driver ")


def test_many_paths_have_rows_of_panels(tmp_path: Path) -> None:
    write_paths(tmp_path, tuple(LAUNCH_PATHS))
    comparison, _ = loaded(tmp_path)
    figure = figures.draw_speedup(comparison)
    assert len(figure.axes) == len(LAUNCH_PATHS)
    assert len({round(axes.get_subplotspec().get_position(figure).y0, 3) for axes in figure.axes}) == 2
    assert figure.axes[-1].get_title() == "torch (own kernel)"


def test_the_page_has_the_section(tmp_path: Path) -> None:
    write_paths(tmp_path / "results", ("native-driver", "cuda-python", "torch"), GAPS)
    page = render(tmp_path, labels=["t4"], counts=COUNTS)
    assert page.tables["launch-paths"][0][:3] == ["card", "N", "launch path"]
    assert "launch path numba: not measured: No module named 'numba'" in page.text
    assert "not the same code, so their figures stand beside the others" in page.text
    assert "In-place additions by PyTorch: its own kernel, not the same code" in page.text
    assert any(row[1] == "torch (own kernel)" for row in page.tables["summary"])
    assert (tmp_path / "reports" / "figures" / "launch_paths.svg").stat().st_size > 1000


def test_a_path_with_one_n_is_told_among_the_paths_alone(tmp_path: Path) -> None:
    """Its dashes at every other N would only hide what is there."""
    for count in COUNTS:
        write_job(tmp_path / "results", count, launch_paths=["native-driver"])
    write_job(tmp_path / "results", 64, launch_paths=["cuda-bindings", "cupy"], run=90)
    comparison, _ = loaded(tmp_path / "results")
    assert comparison.launch_paths == ["native-driver", "cuda-bindings", "cupy"]
    assert comparison.swept_paths == ["native-driver"]
    page = render(tmp_path, ["t4"], COUNTS).text
    assert "At one N only: cuda-bindings and cupy." in page and "issued by cupy" not in page
