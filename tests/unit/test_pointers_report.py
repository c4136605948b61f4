"""Tables and sentences about baked-in pointers: other outcomes, other words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launchbench.aggregate.pointers import tabulate, write_pointers_tables
from launchbench.errors import LaunchbenchError
from launchbench.report.pointers import Section, section
from tests.unit.fabricate import uuid, write_sweep
from tests.unit.fabricate_pointers import APPLY_US, CAPTURE_US, D2, LOST, D, write_pointers_job
from tests.unit.test_report import Page
from tests.unit.test_report import render as render_page
from tests.unit.test_sanitizer import CLEAN, NEW

REPORTS = {
    **{name: CLEAN.replace("recycled", name) for name in ("control", "recycled", "victim")},
    "unowned": NEW,
    "unmapped": NEW.replace("unowned", "unmapped"),
}


def made(base: Path, labels: Sequence[str] = ("t4",)) -> Section:
    write_pointers_tables(base / "results", base / "tables")
    return section(base / "tables", labels, lambda file: [(Path(file).name, file)])


def told(base: Path, **job: Any) -> str:
    write_pointers_job(base / "results", **job)
    [(_, sentences)] = made(base).stories
    return "\n".join(sentences)


# ---------------------------------------------------------------- tables


def test_a_row_a_scenario(tmp_path: Path) -> None:
    path = write_pointers_job(tmp_path, reports=REPORTS)
    rows = tabulate(tmp_path).pointers.set_index("scenario")
    assert rows["outcome"].to_dict() == {
        "control": "captured-buffer-updated",
        "recycled": "d2-updated",
        "victim": "victim-corrupted",
        "unowned": "nothing-visible",
        "unmapped": "context-lost",
    }
    assert rows["sanitizer"].tolist() == ["clean", "clean", "clean", "errors", "errors"]
    assert rows.loc["victim", ["d_address", "d2_address", "victim_address"]].tolist() == [D, D2, D]
    assert (rows.loc["victim", "d2_value"], rows.loc["victim", "victim_value"]) == (0, 1)
    failed = rows.loc["unmapped", ["failed_call", "failed_code", "failed_name"]]
    assert failed.tolist() == ["cuStreamSynchronize", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"]
    unowned = rows.loc["unowned"]
    assert (unowned["access"], unowned["access_bytes"], unowned["kernel"]) == ("read", 4, "tiny(float *)")
    assert (unowned["source_line"], unowned["distance_bytes"], unowned["side"]) == ("graphs.cu:18", 1536, "before")
    assert unowned["host_frame"] == "cudaGraphLaunch" and unowned["sanitizer_errors"] == 2
    assert unowned["api_errors"] == "cudaStreamSynchronize: cudaErrorLaunchFailure (719)"
    assert unowned["sanitizer_file"] == f"lab/t4/{path.parent.name}/{path.stem}.sanitizer-unowned.txt"
    assert rows["failed_code"].isna().sum() == 4 and rows["distance_bytes"].isna().sum() == 3


def test_a_row_a_cure_and_count(tmp_path: Path) -> None:
    write_pointers_job(tmp_path, cures={"node-params": ("wrong-buffer", "the right buffer holds 0; expected 8")})
    rows = tabulate(tmp_path).cures.set_index(["cure", "launch_count"])
    update = rows.loc[("exec-update", 8)]
    assert (update["repetitions"], update["checked"], update["prepare_us"]) == (10, 16, CAPTURE_US)
    assert update["apply_us"] == pytest.approx(APPLY_US["exec-update"] * 1.0045)
    assert update["apply_low_us"] < update["apply_us"] < update["apply_high_us"]
    assert pd.isna(rows.loc[("fixed-buffer", 512), "prepare_us"])
    wrong = rows.loc[("node-params", 512)]
    assert (wrong["outcome"], wrong["repetitions"]) == ("wrong-buffer", 0) and pd.isna(wrong["total_us"])


def test_the_newest_job_of_a_card_counts(tmp_path: Path) -> None:
    for run in (0, 1):
        write_pointers_job(tmp_path / "results", run=run)
    write_pointers_job(tmp_path / "results", run=0, card=1)
    rows = tabulate(tmp_path / "results").pointers
    assert rows.groupby("run_id", sort=False)["superseded"].first().tolist().count(True) == 1
    assert len(made(tmp_path).stories) == 2


def test_a_broken_file_is_a_row_of_its_own_table(tmp_path: Path) -> None:
    path = write_pointers_job(tmp_path / "results", reports=REPORTS)
    write_pointers_job(tmp_path / "results", card=1)
    path.with_suffix(".csv").write_text("")
    gaps = tabulate(tmp_path / "results").gaps
    assert gaps["file"].tolist() == [path.with_suffix(".csv").relative_to(tmp_path / "results").as_posix()]
    broken = made(tmp_path).broken
    assert len(broken.rows) == 1 and "cut short: 0 of" in broken.rows[0][2].text


# ---------------------------------------------------------------- sentences


def test_what_one_h200_did(tmp_path: Path) -> None:
    text = told(tmp_path, reports=REPORTS)
    assert f"the allocator gave d2 the address of d again ({D}), so d2 holds 1 after the replay: by luck" in text
    assert f"the innocent buffer at the address of d ({D}) holds 1 after the replay" in text
    assert f"every call returned success and d2 ({D2}) still holds 0" in text
    assert "cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS (700), and no allocation succeeds after it" in text
    assert "of size 4 bytes” in tiny(float *) (graphs.cu:18), 1,536 bytes before the nearest" in text
    assert "launched by cudaGraphLaunch; then cudaStreamSynchronize returned cudaErrorLaunchFailure (719)" in text
    assert (
        "cannot see here: recycled address and innocent victim. The freed address belongs to a live allocation" in text
    )
    assert "in doubt" not in text


@pytest.mark.parametrize(
    ("scenario", "replay", "words"),
    [
        ("recycled", (D2, "", "value d2 0"), "every call returned success"),
        ("recycled", (D2, "", "value d2 1"), f"d2 holds 1 after the replay, although it lies at {D2} and d lay at {D}"),
        ("victim", (D2, "", "value d2 1\nvalue victim 0"), "although it lies at"),
        ("victim", (D2, "", "value d2 0\nvalue victim 1\naddress victim 0x7"), "the innocent buffer holds 1 after"),
        ("unowned", (D2, LOST, "call cuMemAlloc 700 X"), "the context is lost"),
        (
            "unowned",
            (D2, "call cuGraphLaunch 1 BAD", "value d2 0"),
            "cuGraphLaunch returned BAD (1); the context stayed",
        ),
        ("unmapped", (D2, "", "value d2 0"), "every call returned success"),
        ("unmapped", (D2, "", "value d2 5"), "cannot be told: d2 holds 5; expected 0 or 1"),
    ],
)
def test_another_card_gets_other_sentences(
    tmp_path: Path, scenario: str, replay: tuple[str, str, str], words: str
) -> None:
    text = told(tmp_path, reports=REPORTS, replays={scenario: replay})
    titles = {"recycled": "Recycled", "victim": "Innocent", "unowned": "Unowned", "unmapped": "Unmapped"}
    [line] = [line for line in text.splitlines() if line.startswith(titles[scenario])]
    assert words in line


def test_nothing_is_said_to_be_unseen_where_the_tool_saw_it_or_did_not_look(tmp_path: Path) -> None:
    seen = {**REPORTS, "recycled": NEW.replace("unowned", "recycled"), "victim": ""}
    text = told(tmp_path, reports=seen)
    assert "cannot see" not in text and "compute-sanitizer was not run" in text
    assert "cannot see here: innocent victim." in told(
        tmp_path / "other", reports={**REPORTS, "recycled": NEW.replace("unowned", "recycled")}
    )


def test_a_control_with_errors_casts_doubt(tmp_path: Path) -> None:
    text = told(tmp_path, reports={**REPORTS, "control": NEW.replace("unowned", "control")})
    assert "The tool reports errors in the control too, so its other reports are in doubt." in text


def test_a_missing_tool_is_said_once(tmp_path: Path) -> None:
    text = told(tmp_path, missing_tool="no compute-sanitizer; `pip install it`")
    assert text.count("was not run") == 1
    assert "In all of them: compute-sanitizer was not run: no compute-sanitizer; `pip install it`." in text


def test_what_the_cures_cost(tmp_path: Path) -> None:
    text = told(tmp_path)
    assert "in all 128 replays that were checked. Host time before the replay, at N = 512: a fixed buffer" in text
    costs = ("in place 2.01", "every node 25.1", "captured anew 340 µs (300 of", "instantiating anew 1,000 µs (300 of")
    order = [text.index(cost) for cost in costs]
    assert order == sorted(order)
    assert "updating then takes 40.2 µs where instantiating takes 703 µs" in text


def test_cures_that_did_not_work(tmp_path: Path) -> None:
    text = told(
        tmp_path,
        cures={
            "exec-update": ("failed", "cuGraphExecUpdate failed: X (910)"),
            "node-params": ("wrong-buffer", "the right buffer holds 0; expected 8"),
        },
    )
    assert "CuGraphExecUpdate with a graph captured anew at N = 8: failed (cuGraphExecUpdate failed: X (910))." in text
    assert "at N = 512: the replay wrote to the wrong buffer (the right buffer holds 0; expected 8)." in text
    assert "Both need a new capture" not in text and "in all 64 replays" in text


def test_many_cards_are_told_per_label(tmp_path: Path) -> None:
    for card in range(9):
        replays = {"recycled": (D2, "", "value d2 0")} if card == 4 else {}
        write_pointers_job(tmp_path / "results", card=card, replays=replays)
    [(name, sentences)] = made(tmp_path).stories
    assert name == "t4" and sentences[1] == (
        "Recycled address (d is freed, then d2 allocated), 9 cards: d2-updated on 8 and nothing-visible on 1; "
        "compute-sanitizer: not-run on 9."
    )


# ---------------------------------------------------------------- the page


def test_the_section_of_the_page(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", (8,), label="t4", repetitions=3)
    write_pointers_job(tmp_path / "results", reports=REPORTS)
    page: Page = render_page(tmp_path, ["t4", "h100"], (8,))
    assert (
        "Baked-in pointers" in page.text
        and "h100: not measured yet; on a machine with that card: make report" in page.text
    )
    command = "make report SNAKEMAKE_FLAGS='--config extras=[pointers]'"
    assert f"h100: not measured yet; on a machine with that card: {command}" in page.text
    rows = {row[1]: row for row in page.tables["pointers"][1:]}
    assert rows["victim"][2:7] == [D, D2, D, "0", "1"]
    assert rows["unowned"][9].startswith("2 errors: “Invalid __global__ read")
    links = [link["href"] for link in page.all("a") if "sanitizer-unowned" in str(link["href"])]
    assert len(links) == 1 and str(links[0]).startswith("../results/lab/t4/")
    assert len(page.tables["cures"]) == 1 + 8
    assert "SIMULATED" not in page.text


def test_a_card_bears_the_name_that_it_has_in_the_other_sections(tmp_path: Path) -> None:
    for card in (1, 2):
        write_sweep(tmp_path / "results", (8,), label="t4", repetitions=3, card=card)
    write_pointers_job(tmp_path / "results", card=2)
    page = render_page(tmp_path, ["t4"], (8,))
    name = f"t4 {uuid(2)[4:12]}"
    assert {row[0] for row in page.tables["summary"][1:]} == {f"t4 {uuid(1)[4:12]}", name}
    assert {row[0] for row in page.tables["pointers"][1:]} == {name}


def test_simulated_pointers_raise_the_banner(tmp_path: Path) -> None:
    write_pointers_job(tmp_path / "results", virtual=True)
    page = render_page(tmp_path, ["t4"], (8,))
    assert "SIMULATED GPU: some or all figures" in page.text
    assert "t4: not measured yet" in page.text, "a simulated card is no measurement of its label"


def test_tables_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write_pointers_job(tmp_path / "results")
    made(tmp_path)
    path = tmp_path / "tables" / "cures.csv"
    path.write_text(path.read_text().replace("bench-host", "other-host"))
    with pytest.raises(LaunchbenchError, match=r"cures.csv: label 't4', card .*: pointers.csv has no such card"):
        section(tmp_path / "tables", ["t4"], lambda _: [])
