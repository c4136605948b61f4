"""docs/exercises.md: its figures are those of the committed results, and its links lead somewhere."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from launchbench.schemas import GENERATED
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "exercises.md"
TIMES = "\N{MULTIPLICATION SIGN}"
RESULTS = ROOT / "results" / "reference" / "h200" / "1906dacd"


def medians(count: int) -> pd.DataFrame:
    """GPU, issue and total time by mode, of the native loop of tiny, as one file of the earliest study has them."""
    first = sorted(RESULTS.glob(f"n{count:07d}-1906dacd-20261130T0223*.csv"))
    rows = pd.concat(map(pd.read_csv, first))
    rows = rows[(rows["launch_path"] == "native-driver") & (rows["kernel"] == "tiny")]
    return rows.groupby("mode")[["gpu_us", "issue_us", "total_us"]].median()


@pytest.mark.parametrize("count", [8, 64, 512, 4096])
def test_its_table_over_n_is_that_of_the_committed_results(count: int) -> None:
    [row] = re.findall(rf"^\| {count:,} \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    told = [float(cell.replace(",", "")) for cell in row.split(" | ")]
    seen = medians(count)["gpu_us"]
    expected = [seen["loop"], seen["replay"], seen["loop"] / seen["replay"]]
    assert told == pytest.approx(expected, rel=2e-3)


def test_its_figures_of_the_two_clocks_are_too() -> None:
    loop = medians(512).loc["loop"]
    text = " ".join(PAGE.read_text().split())
    assert f"events {loop['gpu_us']:,.0f} µs, host without synchronize {loop['issue_us']:,.0f}" in text
    assert f"with it {loop['total_us']:,.0f} |" in text
    assert f"{loop['gpu_us'] / 512:.2f} µs per launch" in text and f"480 {TIMES} {loop['gpu_us'] / 512:.2f} µs" in text
    node = medians(512).loc["replay", "gpu_us"] / 512
    assert f"{node:.3f} µs per node" in text and f"480 {TIMES} {node:.3f} µs = {480 * node / 1e3:.2f} ms" in text
    assert f"= {480 * loop['gpu_us'] / 512 / 1e3:.1f} ms" in text
    few = medians(8).loc["loop"]
    assert f"issuing took {few['issue_us']:.1f} µs and the events read {few['gpu_us']:.1f}" in text


def test_its_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
    assert json.loads((ROOT / "workflow" / "schemas" / "lengths.schema.json").read_text())["title"] == "LengthsRecord"
    assert "workflow/schemas/lengths.schema.json" in GENERATED
