"""The page: what it says, what it links to, and that it needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd
import pytest

from launchbench.aggregate.decode import write_decode_tables
from launchbench.aggregate.join import aggregate
from launchbench.aggregate.lengths import write_lengths_tables
from launchbench.aggregate.pointers import write_pointers_tables
from launchbench.aggregate.trials import ALL_EQUAL
from launchbench.aggregate.write import write_tables
from launchbench.errors import LaunchbenchError
from launchbench.report import comparison, sections
from launchbench.report import page as report
from launchbench.report.comparison import load
from launchbench.results.failures import Failure
from launchbench.wording import number, one_line, several, shortened, span, whole, with_interval
from tests.unit.fabricate import CostModel, uuid, write_four_cards, write_job, write_sweep
from tests.unit.undrawn import draw_nothing

LABELS = ["t4", "a100", "h100", "h200"]
COUNTS = (8, 64, 512, 4096)
VOID = {"meta", "link", "img", "br", "hr"}


@dataclass
class Page(HTMLParser):
    """Text, tables and attributes of a page; checks that every element is closed."""

    source: str
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    text: str = ""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    _rows: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.source)
        self.close()
        assert self.stack == []
        self.text = " ".join(self.text.split())
        for rows in self.tables.values():
            rows[:] = [[" ".join(cell.split()) for cell in row] for row in rows]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "caption":
            self._rows = self.tables.setdefault(str(dict(attrs)["id"]).removeprefix("table-"), [])
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"style", "script", "svg"} & set(self.stack):
            return
        self.text += data
        if {"td", "th"} & set(self.stack):
            self._rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def render(
    base: Path,
    labels: list[str] | None = None,
    counts: tuple[int, ...] = COUNTS,
    results: Path | None = None,
    failures: list[Failure] | None = None,
) -> Page:
    results = results or base / "results"
    build = base / "build"
    wanted = LABELS if labels is None else labels
    write_tables(results, build / "tables", build / "cache", wanted, counts, failures or [])
    write_pointers_tables(results, build / "tables")
    write_lengths_tables(results, build / "tables")
    write_decode_tables(results, build / "tables")
    path = report.render(base / "build" / "tables", results, base / "reports", labels or LABELS, counts)
    assert path == base / "reports" / "comparison.html"
    return Page(path.read_text(encoding="utf-8"))


def load_rows(base: Path) -> pd.DataFrame:
    """Native rows of tiny in the summary."""
    rows = aggregate(base / "results", [], COUNTS).summary
    return rows[(rows["launch_path"] == "native-driver") & (rows["kernel"] == "tiny")]


@pytest.fixture
def drawn() -> None:
    """For tests that need the figures themselves; the others run with one small drawing for all."""


@pytest.fixture(autouse=True)
def _quick_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "drawn" not in request.fixturenames:
        draw_nothing(monkeypatch)


@pytest.fixture(scope="module")
def four_cards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    base = tmp_path_factory.mktemp("four")
    write_four_cards(base / "results", trials=3)
    return base, render(base)


# --- what it says


def test_devices_stand_side_by_side_with_their_figures(four_cards: tuple[Path, Page]) -> None:
    _, page = four_cards
    table = page.tables["devices-native-driver"]
    assert table[0] == ["N", "measure", *LABELS]
    assert table[1][:2] == ["N = 8", "loop, µs per launch"]
    at_512 = table.index(next(row for row in table if row[0] == "N = 512"))
    loop, replay, speedup, pays = (row[-4:] for row in table[at_512 : at_512 + 4])
    for column, (issue, node) in enumerate(((5.5, 1.9), (4.9, 1.2), (4.4, 0.9), (4.2, 0.75))):
        model = CostModel(issue=issue, node=node)
        got = [float(re.split(r"[ \[–]", row[column])[0]) for row in (loop, replay, speedup, pays)]  # noqa: RUF001
        assert all("[" in row[column] for row in (loop, replay, speedup))
        times = model.loop_us(512), model.replay_us(512)
        assert got[:3] == pytest.approx([times[0] / 512, times[1] / 512, times[0] / times[1]], rel=0.01)
        assert got[3] == np.ceil(sum(model.once_us(512)) / (times[0] - times[1]))
    assert re.fullmatch(r"\d\.\d\d \[\d\.\d\d–\d\.\d\d\]", loop[0])  # noqa: RUF001


def test_the_short_answer_states_the_figures(four_cards: tuple[Path, Page]) -> None:
    _, page = four_cards
    native = r"h200: at N = 512 a stream launch from a native loop of cuLaunchKernel costs 4\.2\d µs on this host"
    assert re.search(native, page.text)
    assert re.search(r"a replay 0\.76\d µs per node; the graph is 5\.5\d \[", page.text)
    assert "Replays until capture, instantiation and upload are paid for: 17" in page.text
    python = page.text.index("What a Python user pays")
    assert re.search(
        r"h200: at N = 512 a stream launch from a Python loop of cuda.core.launch costs 5\.\d+", page.text[python:]
    )


def test_the_explanation_follows_from_the_fits(four_cards: tuple[Path, Page]) -> None:
    _, page = four_cards
    text = page.text[page.text.index("What depends on N") :]
    assert re.search(r"h200: Loop time grows by 4\.2\d \[4\.1\d–4\.2\d\] µs with every launch; [23]\.\d+ \[", text)  # noqa: RUF001
    assert re.search(
        r"Replay time grows by 0\.75\d \[.*?\] µs with every node; [56]\.\d\d \[.*?\] µs, handing over", text
    )
    assert re.search(r"the ratio of the slopes,? (is )?5\.[56]\d", text)


def test_every_configured_label_is_there_and_says_how_to_fill_it(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", label="h200")
    page = render(tmp_path)
    assert page.tables["devices-native-driver"][0][2:] == ["h200", "t4", "a100", "h100"]
    first = page.tables["devices-native-driver"][1]
    assert re.match(r"\d", first[2])
    assert first[3:6] == ["not measured yet; on a machine with that card: make report"] * 3
    assert [row[0] for row in page.tables["gaps"][1:]] == ["a100", "h100", "t4"]


def test_a_column_says_why_its_measurement_failed(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", label="h200")
    failures = [
        Failure(
            site="lab",
            label="h100",
            card="any",
            launch_count=count,
            reason="SLURM job 7 was cancelled before it ran",
            failed_utc="2026-12-31T00:00:00Z",
        )
        for count in COUNTS
    ]
    page = render(tmp_path, failures=failures)
    told = "the last attempt failed: SLURM job 7 was cancelled before it ran"
    assert f"not measured yet; {told}" in page.tables["devices-native-driver"][1]
    assert [row[4] for row in page.tables["gaps"][1:] if row[0] == "h100"] == [told] * len(COUNTS)


def test_a_reason_belongs_to_its_n_and_card(tmp_path: Path) -> None:
    """A simulated card of the label was measured at one N and failed at the other."""
    write_job(tmp_path / "results", COUNTS[0], label="h100", virtual=True)
    failure = Failure(
        site="lab",
        label="h100",
        card=uuid(0)[4:12],
        launch_count=COUNTS[1],
        reason="out of memory",
        failed_utc="2026-12-31T00:00:00Z",
    )
    page = render(tmp_path, ["h100"], COUNTS[:2], failures=[failure])
    head, first, *_ = page.tables["devices-native-driver"]
    assert head[2:] == ["h100 (simulated)", "h100"]
    assert first[3] == "not measured yet; on a machine with that card: make report"
    told = [(row[3], row[4]) for row in page.tables["gaps"][1:]]
    assert (f"{COUNTS[1]:,}", "the last attempt, on a simulated GPU, failed: out of memory") in told
    # One of a job whose card nobody knows is told with its N.
    page = render(tmp_path, ["h100"], COUNTS[:2], failures=[failure.model_copy(update={"site": "zoo", "card": "any"})])
    first = page.tables["devices-native-driver"][1]
    assert first[3] == f"not measured yet; the last attempt failed: at N = {COUNTS[1]:,}: out of memory"


def test_a_label_outside_the_configuration_has_a_column_too(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", label="b200")
    assert render(tmp_path).tables["devices-native-driver"][0][2:] == ["b200", *LABELS]


def test_measured_labels_come_first_and_each_half_keeps_its_order(tmp_path: Path) -> None:
    """On a phone the table shows one column beside the headings."""
    write_job(tmp_path / "results", 64, label="h100", card=1)
    write_job(tmp_path / "results", 64, label="a100", card=2, launch_paths=["native-driver"])
    tables = render(tmp_path).tables
    assert tables["devices-native-driver"][0][2:] == ["a100", "h100", "t4", "h200"]
    assert tables["devices-cuda-python"][0][2:] == ["h100", "t4", "a100", "h200"]


@pytest.mark.parametrize("label_count", [0, 4])
@pytest.mark.usefixtures("drawn")
def test_no_results_at_all(tmp_path: Path, label_count: int) -> None:
    page = render(tmp_path, LABELS[:label_count] or ["only"])
    assert "No usable results yet by this launch path." in page.text
    assert "not measured yet; on a machine with that card: make report" in page.text
    assert all("No results yet." in str(image["aria-label"]) for image in page.all("svg"))


def test_a_python_loop_alone_is_not_told_as_the_native_answer(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", launch_paths=["cuda-python"])
    page = render(tmp_path, ["t4"])
    native, python = page.text.split("What a Python user pays", 1)
    assert "No usable results yet by this launch path" in native
    assert "t4: at N = 512" in python
    assert page.tables["devices-native-driver"][1][2] == "not measured on this launch path"


def test_updates_that_the_driver_refused_are_told(tmp_path: Path) -> None:
    def refused(record: dict[str, Any], _: pd.DataFrame) -> None:
        block = record["blocks"][0]
        block["update_us"], block["refused_updates"] = [], 3

    write_job(tmp_path / "results", 64, edit=refused)
    page = render(tmp_path, ["t4"])
    html = (tmp_path / "reports" / "comparison.html").read_text(encoding="utf-8")
    assert (
        "The driver refused 3 updates (910): a graph was made anew instead, and none of them is a sample." in page.text
    )
    assert 'title="the driver refused 3 updates (910): a graph was made anew instead"' in html


def test_one_off_costs_come_with_the_range_of_their_samples(tmp_path: Path) -> None:
    def one_sample(record: dict[str, Any], _: pd.DataFrame) -> None:
        record["blocks"][0]["capture_us"] = [123.0]
        for name in ("instantiate_us", "upload_us", "first_replay_us"):
            record["blocks"][0][name] = [100.0]
        for name in ("recapture_us", "update_us", "graph_bytes"):
            record["blocks"][0][name] = []

    write_job(tmp_path / "results", 64)
    write_job(tmp_path / "results", 512, edit=one_sample)
    rows = {tuple(row[1:3]): row for row in render(tmp_path, ["t4"]).tables["one-off"]}
    assert rows["native-driver", "64"][3:10] == [
        "228 [171\N{EN DASH}342]",
        "584 [438\N{EN DASH}876]",
        "107 [80\N{EN DASH}160]",
        "50.0 [37.5\N{EN DASH}75.0]",
        "228 [171\N{EN DASH}342]",
        "57.0 [42.8\N{EN DASH}85.5]",
        "256",
    ]
    assert rows["native-driver", "512"][3:10] == ["123", "100", "100", "100", *["\N{EN DASH}"] * 3]


def test_graphs_that_do_not_help_are_told_so(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", model=CostModel(issue=0.7, node=0.75, loop_fixed=1.0))
    page = render(tmp_path, ["t4"])
    assert "the graph does not help: its speed-up is 0.9" in page.text
    assert "They are never paid for at N = 8" in page.text
    assert "so a graph has nothing to save" in page.text
    assert "times as fast as the loop" not in page.text.split("What a Python user pays")[0]
    assert "never" in [row[-1] for row in page.tables["one-off"]]


def test_a_wrong_model_is_not_explained_by_its_slope(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", model=CostModel(past_depth_issue=1.2))
    text = render(tmp_path, ["t4"]).text
    assert "Loop time is no straight line over N (a straight line is the wrong model" in text
    assert "past the queue's depth" in text
    assert "Loop time grows by" not in text


def test_a_device_that_sets_the_pace_is_told_apart_from_a_host(tmp_path: Path) -> None:
    def edit(_: dict[str, Any], raw: pd.DataFrame) -> None:
        raw.loc[raw["mode"] == "loop", "issue_us"] /= 2

    write_job(tmp_path / "results", 512, edit=edit)
    assert "µs after the last launch: it sets the pace" in render(tmp_path, ["t4"], (512,)).text


def test_issuing_that_sets_the_pace_is_told(four_cards: tuple[Path, Page]) -> None:
    assert "Issuing sets the pace: the device waits for the host" in four_cards[1].text


def test_different_hosts_are_not_told_as_different_gpus(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", label="t4", card=0, cpu_model="Slow CPU")
    write_sweep(tmp_path / "results", label="h200", card=1, hostname="b", cpu_model="Fast CPU")
    text = render(tmp_path).text
    assert "The loops were issued by 2 hosts (Fast CPU, 8 CPUs, 4 usable and Slow CPU, 8 CPUs, 4 usable)" in text


def test_hosts_of_one_name_and_model_differ_by_their_number_of_cpus(tmp_path: Path) -> None:
    def larger(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["host"]["cpu_count"] = 32

    write_sweep(tmp_path / "results", label="t4", card=0)
    write_sweep(tmp_path / "results", label="h200", card=1, edit=larger)
    text = render(tmp_path).text
    assert (
        "The loops were issued by 2 hosts (Synthetic CPU, 32 CPUs, 4 usable and Synthetic CPU, 8 CPUs, 4 usable)"
        in text
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"affinity": [3]}, "8 CPUs, 1 usable"),
        ({"affinity": None}, "8 CPUs"),
        ({"cpu_quota_cpus": 0.05}, "8 CPUs, 4 usable, time of 0.05"),
        ({"governor": "powersave"}, "8 CPUs, 4 usable, governor powersave"),
    ],
)
def test_what_a_job_may_use_of_a_host_tells_hosts_apart(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    write_sweep(tmp_path / "results", label="t4", card=0)
    write_sweep(tmp_path / "results", label="h200", card=1, edit=lambda record, _: record["host"].update(change))
    page = render(tmp_path)
    assert "The loops were issued by 2 hosts (" in page.text and f"Synthetic CPU, {told}" in page.text
    (quotas,) = (row for row in page.tables["origins"] if row[0] == "host: quota of CPU time, CPUs")
    assert sorted(quotas[1:]) == sorted(["\N{EN DASH}", str(change.get("cpu_quota_cpus", "\N{EN DASH}"))])


def test_different_protocols_are_not_like_for_like(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", label="t4", card=0)
    write_sweep(tmp_path / "results", label="h200", card=1, repetitions=3)
    text = render(tmp_path).text
    assert "These rows were timed under 2 protocols (the table of protocols says what differs)" in text


def test_a_range_over_cards_says_where_it_is_one_over_protocols(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", label="t4", card=0)
    write_sweep(tmp_path / "results", label="t4", card=1)
    write_sweep(tmp_path / "results", label="h200", card=2)
    write_sweep(tmp_path / "results", label="h200", card=3, repetitions=3)
    rows = render(tmp_path).tables["devices-native-driver"]
    figures = [row[2:4] if row[0].startswith("N =") else row[1:3] for row in rows[1:21]]
    assert all(not t4.endswith("(2 protocols)") and h200.endswith("(2 protocols)") for t4, h200 in figures), figures


def test_an_older_protocol_of_a_card_is_listed_but_not_compared(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", model=CostModel(issue=9))
    write_sweep(tmp_path / "results", run=1, repetitions=3)
    page = render(tmp_path, ["t4"])
    notes = [row[14] for row in page.tables["summary"][1:]]
    assert sum("older protocol" in note for note in notes) == 16
    assert re.search(r"costs 4\.5\d µs", page.text)
    assert "costs 9.0" not in page.text
    assert "1 card compared, from 4 runs" in page.text


def test_flags_and_reasons_are_shown(tmp_path: Path) -> None:
    def edit(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["blocks"][2]["observed_count"] = 1
        raw.loc[0, "gpu_us"] = np.nan

    write_job(tmp_path / "results", 512, edit=edit)
    page = render(tmp_path, ["t4"], (512,))
    rows = {(row[1], row[2]): row for row in page.tables["summary"][1:]}
    told = ["1 trial, 4 placements, 15 repetitions, 1 left out", "loop: no GPU time (1 repetition)"]
    assert rows["native-driver", "tiny"][13:15] == told
    wrong = rows["cuda-python", "tiny"]
    assert wrong[4:13] == ["–"] * 9  # noqa: RUF001
    assert wrong[14].startswith("wrong count: 1 seen")
    assert "no valid samples (cuda-python, tiny): wrong count" in page.text


def test_a_card_whose_every_repetition_is_flagged_is_not_called_unmeasured(tmp_path: Path) -> None:
    def edit(record: dict[str, Any], raw: pd.DataFrame) -> None:
        for block in record["blocks"]:
            block["observed_count"] = 1

    write_job(tmp_path / "results", 512, edit=edit)
    page = render(tmp_path, ["t4", "a100"], (512,))
    cells = [cell for row in page.tables["devices-native-driver"] for cell in row]
    assert sum("measured, but no repetition can be used: wrong count" in cell for cell in cells) == 1
    assert sum("not measured yet" in cell for cell in cells) == 1


def test_unknown_values_carry_their_reason(four_cards: tuple[Path, Page]) -> None:
    _, page = four_cards
    titles = {cell.get("title") for cell in page.all("td") if cell.get("class") == "missing"}
    assert "not supported by this card" in titles
    assert "not shown to virtual machines" in titles
    origins = {row[0]: row[1:] for row in page.tables["origins"]}
    assert origins["GPU: vbios version"] == ["–"] * 4  # noqa: RUF001
    assert origins["host: CPUs it may run on"] == ["0-3"] * 4
    assert origins["before and after: clock events"] == ["gpu_idle → gpu_idle"] * 4


def test_watts_are_rounded_and_the_exact_value_is_the_title(tmp_path: Path) -> None:
    def edit(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["device"] |= {"power_limit_w": 1234.567, "power_limit_default_w": 700.0}
        record["blocks"][0]["before"]["power_w"] = 70.1234
        record["blocks"][-1]["after"]["power_w"] = 699.96

    write_job(tmp_path / "results", 64, edit=edit)
    page = render(tmp_path, ["t4"], (64,))
    origins = {row[0]: row[1] for row in page.tables["origins"]}
    assert origins["GPU: power limit, W"] == "1,234.6"
    assert origins["GPU: power limit default, W"] == "700"
    assert origins["before and after: power, W"] == "70.1 → 700"
    assert "1234.567" in {cell.get("title") for cell in page.all("td")}


def test_an_interval_that_is_missing_says_why(tmp_path: Path) -> None:
    """For want of trials once, at the top; any other reason at the figure."""
    write_sweep(tmp_path / "results", (8, 64), trials=3, model=CostModel(noise=0.0, process=0.0))
    write_job(tmp_path / "results", 512)
    page = render(tmp_path, ["t4"])
    titles = {cell.get("title") or "" for cell in page.all("td")}
    assert {title for title in titles if title.startswith("no interval")} == {f"no interval: {ALL_EQUAL}"}
    assert "Cells with fewer than 3 trials have none: 4 cells of t4." in page.text


def test_without_trials_no_figure_has_an_interval(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", format=2)
    page = render(tmp_path, ["t4"])
    assert "No figure has an interval: every cell has fewer than 3 trials" in page.text
    figures = [cell for row in page.tables["devices-native-driver"][1:] for cell in row if re.match(r"\d", cell)]
    assert len(figures) > 20 and not any("[" in cell for cell in figures)
    assert page.tables["summary"][1][13] == "1 trial, 1 placement, 50 repetitions"


def test_an_n_without_results_is_one_row_beside_those_that_have_some(tmp_path: Path) -> None:
    write_job(tmp_path / "results", 512, label="t4", launch_paths=["native-driver"], kernels=["tiny"])
    head, *rows = render(tmp_path, ["t4", "h100"], (8, 512)).tables["devices-native-driver"]
    assert head[2:] == ["t4", "h100"]
    assert rows[0][:2] == ["N = 8", "not measured at this N"] and rows[0][-1].startswith("not measured yet")
    assert rows[1][0] == "N = 512" and [row[-1] for row in rows if row[0] == "cards"] == ["1"]
    assert len(rows) == 1 + 5 + 4


def test_break_even_comes_with_its_interval(tmp_path: Path) -> None:
    model = CostModel(issue=0.76, node=0.75, loop_fixed=6.0, process=0.004)
    write_sweep(tmp_path / "results", (64,), trials=3, model=model, launch_paths=["native-driver"])
    rows = load_rows(tmp_path)
    low, value, high = (rows[f"break_even_replays{end}"].iloc[0] for end in ("_low", "", "_high"))
    assert low < value < high == np.inf
    page = render(tmp_path, ["t4"], (64,))
    told = f"{value:,.0f} [{low:,.0f}\N{EN DASH}never]"
    assert page.tables["one-off"][1][-1] == told and told in page.text.split("N launches of a kernel")[0]


def test_older_runs_are_counted_and_linked(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", (64,), trials=3)
    write_job(tmp_path / "results", 64, trial=2, run=1, model=CostModel(issue=9))
    write_job(tmp_path / "results", 64, trial=3, run=1, model=CostModel(issue=9))
    page = render(tmp_path, ["t4"], (64,))
    assert "2 older runs of the same trial" in page.text
    assert len(page.tables["summary"]) == 1 + 4
    native = next(row for row in page.tables["superseded"] if row[1:3] == ["native-driver", "tiny"])
    assert native[4] == "2" and re.match(r"4\.5\d\N{EN DASH}9\.0\d$", native[5])
    addresses = [str(link["href"]) for link in page.all("a")]
    for file in (tmp_path / "results").rglob("n*.*"):
        assert any(address.endswith(file.name) for address in addresses)


def test_a_simulated_gpu_is_unmissable(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", label="t4")
    write_sweep(tmp_path / "results", label="h200", card=1, virtual=True)
    page = render(tmp_path)
    assert page.text.index("SIMULATED GPU: some or all figures on this page") < page.text.index("Short answer")
    head = page.tables["devices-native-driver"][0]
    assert head[2:] == ["t4", "h200 (simulated)", "a100", "h100", "h200"]
    assert page.tables["devices-native-driver"][1][6].startswith("not measured yet")
    holding = [name for name, rows in page.tables.items() if any("(simulated)" in cell for row in rows for cell in row)]
    assert len(holding) >= 5
    assert page.source.count("This table holds rows of a SIMULATED GPU") == len(holding)


def test_a_measurement_has_no_such_banner(four_cards: tuple[Path, Page]) -> None:
    assert "simulated" not in four_cards[1].text.lower()


# --- what it links to


def _resolved(page: Page, folder: Path) -> list[Path]:
    """Files that the page links to; every link within the page leads to a place on it."""
    addresses = [str(link["href"]) for link in page.all("a")]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {address for address in addresses if address.startswith("#")} <= {f"#{name}" for name in ids}
    addresses = [address for address in addresses if not address.startswith("#")]
    parts = [urlsplit(address) for address in addresses]
    assert all(re.fullmatch(r"[A-Za-z0-9%/._~-]+", address) for address in addresses)
    assert all(not (part.scheme or part.netloc or part.query or part.fragment) for part in parts)
    return [Path(os.path.normpath(folder / unquote(part.path))) for part in parts]


def test_every_link_leads_to_a_file(four_cards: tuple[Path, Page]) -> None:
    base, page = four_cards
    files = _resolved(page, base / "reports")
    tables = base / "build" / "tables"
    assert all(file.is_file() for file in files if file != tables / "tidy")
    raw = {file for file in (base / "results").rglob("*") if file.is_file()}
    assert raw <= set(files)
    assert {
        tables / name for name in ("tidy", "summary.csv", "modes.csv", "trials.csv", "fits.csv", "gaps.csv")
    } <= set(files)
    assert (tables / "tidy").is_dir()


@pytest.mark.parametrize("site", ["lab", "my lab #1", "50% & <b>", "ü?x=1", 'quo"te', "a:b"])
def test_links_survive_odd_folders(tmp_path: Path, site: str) -> None:
    results = tmp_path / "elsewhere" / "some where" / "results"
    write_sweep(results)
    (results / "lab").rename(results / site)
    base = tmp_path / "project"
    page = render(base, ["t4"], results=results)
    files = _resolved(page, base / "reports")
    assert all(file.exists() for file in files)
    assert {file for file in results.rglob("*") if file.is_file()} <= set(files)


@pytest.mark.untraced
def test_a_relative_folder_gives_the_same_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sweep(tmp_path / "results")
    first = render(tmp_path).source
    monkeypatch.chdir(tmp_path)
    assert render(Path()).source == first


def test_a_file_that_is_gone_is_named_without_a_link(tmp_path: Path) -> None:
    records = write_sweep(tmp_path / "results")
    render(tmp_path, ["t4"])
    records[0].unlink()
    page = report.render(tmp_path / "build" / "tables", tmp_path / "results", tmp_path / "reports", ["t4"], COUNTS)
    text = page.read_text()
    assert "record (missing)" in text
    assert records[0].name not in text


def test_gaps_link_to_the_broken_file(tmp_path: Path) -> None:
    records = write_sweep(tmp_path / "results")
    records[1].with_suffix(".csv").write_bytes(b"")
    page = render(tmp_path, ["t4"])
    assert any("empty (zero bytes)" in cell for row in page.tables["gaps"] for cell in row)
    assert records[1].with_suffix(".csv") in _resolved(page, tmp_path / "reports")
    assert str(tmp_path) not in page.source


# --- that it needs nothing else


def test_the_page_is_self_contained(four_cards: tuple[Path, Page]) -> None:
    _, page = four_cards
    assert not re.search(r"https?:|@import|url\((?!#)|@font-face|<iframe|<object|<img| src=", page.source)
    assert not page.all("img") and page.all("script") == [{}]
    script = page.source.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = [str(meta["content"]) for meta in page.all("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'; ") and policy.endswith(f"script-src 'sha256-{digest}'")
    links = [use["xlink:href"] for use in [*page.all("use"), *page.all("image")]]
    assert all(str(link).startswith(("#", "data:image/png;base64,")) for link in links)
    assert len(page.source) < 1_500_000


def test_images_have_a_text_that_carries_the_message(four_cards: tuple[Path, Page]) -> None:
    told = [str(image["aria-label"]) for image in four_cards[1].all("svg") if image["role"] == "img"]
    speedup, times, paths, paid, placements, lengths, clocks, decode = told
    assert paths.startswith("Launch paths at N = 512, smallest to largest over the cards: native-driver ")
    assert re.search(r"h200 3\.0\d at N = 8 to 5\.5\d at N = 4,096", speedup)
    assert re.search(r"h200 loop 36\.\d µs at N = 8 to 17,\d00 µs at N = 4,096, replay 1[12]\.\d µs", times)
    assert re.search(r"at N = 512: .*h200 loop 4\.1\d–4\.2\d, replay 0\.74\d–0\.78\d\.$", placements)  # noqa: RUF001
    assert "h200: Replays until capture, instantiation and upload are paid for: " in paid
    assert lengths.endswith("one panel per N. No results yet.")
    assert clocks.endswith("by events over kernel length. No results yet.")
    assert decode.endswith("a line for each width. No results yet.")


def test_tables_are_readable_without_seeing_them(four_cards: tuple[Path, Page]) -> None:
    _, page = four_cards
    assert len(page.all("caption")) == len(page.all("table")) >= 6
    assert all(heading.get("scope") in ("col", "row") for heading in page.all("th"))
    names = [str(caption["id"]) for caption in page.all("caption")]
    assert len(names) == len(set(names))
    regions = [div for div in page.all("div") if div.get("role") == "region"]
    assert sorted(str(region["aria-labelledby"]) for region in regions) == sorted(names)
    assert page.all("html")[0]["lang"] == "en"


def test_headings_do_not_skip_a_level(four_cards: tuple[Path, Page]) -> None:
    levels = [int(tag[1]) for tag, _ in four_cards[1].tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img src=x>', "NA", "", "显卡 µ", "x" * 200, "{{ 7*7 }}"]
)
def test_names_are_text(tmp_path: Path, name: str) -> None:
    options = {"device_name": name, "cpu_model": name, "driver_version": name}
    write_sweep(tmp_path / "results", (8, 64), hostname=name, **options)
    write_sweep(tmp_path / "results", (8, 64), hostname="other", run=1, **options)
    page = render(tmp_path, ["t4"], (8, 64))
    assert page.all("script") == [{}] and not page.all("img")
    assert len(page.all("svg")) == 8
    assert "49" not in page.tables["origins"][0]
    origins = {row[0]: row[1:] for row in page.tables["origins"]}
    assert origins["GPU: name"] == [shortened(name, 80)] * 2


@pytest.mark.untraced
@pytest.mark.usefixtures("drawn")
def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for place in ("one", "other"):
        for card, label in enumerate(LABELS[:2]):
            write_sweep(tmp_path / place / "results", (8, 64), label=label, card=card)
        render(tmp_path / place)
        reports = tmp_path / place / "reports"
        contents.append({path.relative_to(reports): path.read_bytes() for path in reports.rglob("*.*")})
    assert contents[0] == contents[1]
    assert len(contents[0]) == 2 + 2 * len(report.FIGURES)


def test_missing_tables_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(LaunchbenchError, match=r"summary\.csv: cannot be read: .*; aggregating the results makes it"):
        report.render(tmp_path, tmp_path, tmp_path / "reports", LABELS, COUNTS)
    assert not (tmp_path / "reports").exists()


# --- many


def test_many_cards_are_told_per_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MAX_ROWS", 40)
    monkeypatch.setattr(comparison, "MAX_LISTED", 40)
    for card in range(12):
        model = CostModel(issue=9.0 if card == 5 else 4.5)
        write_sweep(tmp_path / "results", (8, 64), label=LABELS[card % 2], card=card, repetitions=2, model=model)
    page = render(tmp_path, counts=(8, 64))
    assert "12 cards compared, from 24 runs" in page.text
    assert "t4: over 6 cards at N = 64" in page.text
    assert "a100: over 6 cards, loop time grows by" in page.text
    assert "96 rows are too many to list one by one" in page.text
    summary = page.tables["summary"]
    assert len(summary) == 1 + 2 * 2 * 2 * 2
    a100 = next(row for row in summary if row[:4] == ["a100", "native-driver", "tiny", "64"])
    assert a100[4] == "6"
    outlier = load(tmp_path / "build" / "tables", LABELS, (8, 64)).compared
    name = outlier.loc[outlier["loop_us_per_launch"] > 8, "card_name"].iloc[0]
    assert a100[-1].startswith(f"{name} (loop ")
    assert "Only the first 40 of 96 rows are shown; all are in fits.csv." in page.text
    assert len(page.tables["origins"]) == 13


# --- numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.5234, "4.52"),
        (9.996, "10.0"),
        (99.96, "100"),
        (20046.5, "20,000"),
        (0.7531, "0.753"),
        (0.0, "0.00"),
        (-0.0001234, "−0.000123"),  # noqa: RUF001
        (None, "–"),  # noqa: RUF001
        (float("nan"), "–"),  # noqa: RUF001
        (float("inf"), "∞"),
    ],
)
def test_numbers_have_three_significant_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_wording() -> None:
    assert with_interval(4.5234, 4.5, 4.556) == "4.52 [4.50–4.56]"  # noqa: RUF001
    assert with_interval(4.5234, float("nan"), float("nan")) == "4.52"
    assert with_interval(1234.5, 1230.2, 1238.9, 4) == "1,234 [1,230–1,239]"  # noqa: RUF001
    assert span([2.0, None, float("nan"), 1.0]) == "1.00–2.00"  # noqa: RUF001
    assert span([1.0, 1.0001]) == "1.00"
    assert span([]) == "–"  # noqa: RUF001
    assert [several(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert (whole(12345.0), whole(float("inf")), whole(float("nan"))) == ("12,345", "∞", "–")  # noqa: RUF001
    assert one_line("a\tb\r\nc\u202ed") == "a b  c d"
    assert len(shortened("x" * 500)) == 47
