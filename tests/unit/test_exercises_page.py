"""docs/exercises.md and README.md: their figures are those of the committed results, and links lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from launchbench.aggregate.trials import trial_figure
from launchbench.schemas import GENERATED
from tests.conftest import ROOT

PAGE, README = ROOT / "docs" / "exercises.md", ROOT / "README.md"
TIMES = "\N{MULTIPLICATION SIGN}"
RESULTS = ROOT / "results" / "reference" / "h200" / "ae870f63"
EXTRAS = RESULTS.with_name("3da7b47d")


def each_trial(count: int, mode: str, clock: str = "gpu_us", path: str = "native-driver") -> list[float]:
    """Figures of the three trials of tiny, in microseconds of a whole loop or replay."""
    figures = []
    for file in sorted(RESULTS.glob(f"n{count:07d}-t*.csv")):
        rows = pd.read_csv(file)
        rows = rows[(rows["launch_path"] == path) & (rows["kernel"] == "tiny") & (rows["mode"] == mode)]
        if len(rows):
            figures.append(trial_figure(rows[clock], rows["placement"]))
    assert len(figures) == 3
    return figures


def of_trials(count: int, mode: str, clock: str = "gpu_us", path: str = "native-driver") -> float:
    """Their mean."""
    return float(np.mean(each_trial(count, mode, clock, path)))


@pytest.mark.parametrize("page", [PAGE, README], ids=["exercises", "readme"])
@pytest.mark.parametrize("count", [8, 64, 512, 4096])
def test_its_table_over_n_is_that_of_the_committed_results(page: Path, count: int) -> None:
    [row] = re.findall(rf"^\| {count:,} \| (.*) \|$", page.read_text(), re.MULTILINE)
    told = [float(cell.split(" ")[0].replace(",", "")) for cell in row.split(" | ")]
    loop, replay = of_trials(count, "loop"), of_trials(count, "replay")
    if page == README:
        loop, replay = loop / count, replay / count
    ratios = np.divide(each_trial(count, "loop"), each_trial(count, "replay"))
    expected = [loop, replay, np.exp(np.log(ratios).mean())]
    assert told[:3] == pytest.approx(expected, rel=6e-3)


def test_its_figures_of_the_two_clocks_are_too() -> None:
    gpu, issue, total = (of_trials(512, "loop", clock) for clock in ("gpu_us", "issue_us", "total_us"))
    text = " ".join(PAGE.read_text().split())
    assert f"events {gpu:,.0f} µs, host without synchronize {issue:,.0f}, with it {total:,.0f} |" in text
    assert f"{gpu / 512:.2f} µs per launch" in text and f"480 {TIMES} {gpu / 512:.2f} µs" in text
    node = of_trials(512, "replay") / 512
    assert f"{node:.3f} µs per node" in text and f"480 {TIMES} {node:.3f} µs = {480 * node / 1e3:.2f} ms" in text
    assert f"= {480 * gpu / 512 / 1e3:.1f} ms" in text
    assert f"PyTorch {of_trials(512, 'loop', path='torch') / 512:.2f} µs" in text
    few = [of_trials(8, "loop", clock) for clock in ("issue_us", "gpu_us")]
    assert f"issuing took {few[0]:.1f} µs and the events read {few[1]:.1f}" in text


def test_its_figures_of_the_decode_step_are_too() -> None:
    [path] = EXTRAS.glob("decode-*.json")
    record = json.loads(path.read_text())
    rows = pd.read_csv(path.with_suffix(".csv"))
    first = rows[(rows["batch"] == 1) & (rows["width"] == 512)]
    eager, graph = ((first[first["mode"] == mode]["gpu_us"] / 4).median() for mode in ("eager", "graph"))
    text = " ".join(PAGE.read_text().split())
    assert (
        f"{record['points'][0]['launches']} launches, eager {eager:,.0f} µs a token, replayed {graph:,.0f} µs" in text
    )
    found = record["prediction"]
    assert f"predicted were {found['eager_us']:,.0f} and {found['graph_us']:,.0f} µs" in text
    missed = [100 * (told / seen - 1) for told, seen in ((found["eager_us"], eager), (found["graph_us"], graph))]
    assert f"{missed[0]:.1f} % more and {-missed[1]:.1f} % less" in text


@pytest.mark.parametrize("page", [PAGE, README], ids=["exercises", "readme"])
def test_its_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
    assert json.loads((ROOT / "workflow" / "schemas" / "lengths.schema.json").read_text())["title"] == "LengthsRecord"
    assert "workflow/schemas/lengths.schema.json" in GENERATED
