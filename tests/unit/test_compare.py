"""Two sets of results against each other: what is compared, what is said of it, how the command ends."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launchbench.__main__ import main
from launchbench.aggregate.trials import TOO_FEW_TRIALS
from launchbench.compare.facets import other_hardware
from launchbench.compare.model import Comparison, Row
from launchbench.compare.page import page
from launchbench.compare.rows import compare
from launchbench.compare.side import read_sides
from launchbench.compare.text import WIDTH, markdown, text
from launchbench.results.record import Device
from tests.unit.fabricate import CostModel, uuid, write_sweep

COUNTS = (64, 512)
ONE = {"launch_paths": ("native-driver",), "kernels": ("tiny",)}
BASE = CostModel()
SLOWER_NODES = dataclasses.replace(BASE, node=1.03 * BASE.node, replay_fixed=1.03 * BASE.replay_fixed)


def before(folder: Path, counts: tuple[int, ...] = COUNTS, trials: int = 3, **options: Any) -> Path:
    write_sweep(folder, counts, trials, **{**ONE, **options})
    return folder


def after(folder: Path, counts: tuple[int, ...] = COUNTS, trials: int = 3, **options: Any) -> Path:
    """The same a day later: other noise, other jobs."""
    return before(folder, counts, trials, **{"run": 24, **options})


def compared(a: Path, b: Path) -> Comparison:
    return compare(*read_sides(a, b))


def words(rows: list[Row], mode: str) -> dict[int, str]:
    return {row.launch_count: row.verdict for row in rows if row.mode == mode}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- verdicts


def test_equal_cards_are_the_same_and_nothing_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = before(tmp_path / "a"), after(tmp_path / "b")
    every = "slower,faster,cannot-tell,not-comparable,missing"
    assert main(["compare", str(a), str(b), "--fail-on", every]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "B against A, 4 cells compared: 4 same, 0 faster, 0 slower, 0 cannot tell." in said.out
    assert "nothing differs that the records know" in said.out


def test_slower_nodes_are_slower_replays_and_the_same_loops(tmp_path: Path) -> None:
    found = compared(before(tmp_path / "a"), after(tmp_path / "b", model=SLOWER_NODES))
    assert words(found.rows, "replay") == dict.fromkeys(COUNTS, "slower")
    assert words(found.rows, "loop") == dict.fromkeys(COUNTS, "same")
    assert all(row.host_bound == (row.mode == "loop") for row in found.rows)
    (row,) = (row for row in found.rows if row.mode == "replay" and row.launch_count == 64)
    assert row.before and row.after and row.ratio and row.ratio_low and row.ratio_high
    assert row.ratio == pytest.approx(1.03, rel=0.005) and 1 < row.ratio_low < row.ratio < row.ratio_high
    assert row.before.value_us == pytest.approx(BASE.replay_us(64) / 64, rel=0.01)
    assert row.before.trials == 3 and row.unit == "us per node"
    assert found.summary[1].startswith("Slower: replay in 2 cells (N = 64 to 512) by 2.") and len(found.summary) == 2


def test_the_other_way_round_is_faster(tmp_path: Path) -> None:
    found = compared(before(tmp_path / "a", (64,), model=SLOWER_NODES), after(tmp_path / "b", (64,)))
    assert words(found.rows, "replay") == {64: "faster"}


def test_a_slower_host_is_said_to_be_the_host(tmp_path: Path) -> None:
    host = dataclasses.replace(BASE, issue=1.1 * BASE.issue)
    found = compared(before(tmp_path / "a"), after(tmp_path / "b", model=host, hostname="other"))
    assert words(found.rows, "loop") == dict.fromkeys(COUNTS, "slower")
    assert found.summary[-1].startswith("2 cells of these are loops in which issuing takes as long")
    assert "slower (h)" in text(found) and "h: issuing takes as long as" in text(found)


def test_a_loop_that_waits_for_the_device_is_not_told_as_the_hosts(tmp_path: Path) -> None:
    def device_bound(record: dict[str, Any], raw: pd.DataFrame) -> None:
        raw["issue_us"] = 0.5 * raw["gpu_us"]

    slow = dataclasses.replace(BASE, issue=1.1 * BASE.issue)
    found = compared(before(tmp_path / "a", edit=device_bound), after(tmp_path / "b", model=slow, edit=device_bound))
    assert words(found.rows, "loop") == dict.fromkeys(COUNTS, "slower")
    assert not any(row.host_bound for row in found.rows)
    assert not any("the host's" in line for line in (*found.summary, text(found)))


def test_one_trial_cannot_tell(tmp_path: Path) -> None:
    found = compared(before(tmp_path / "a", (64,)), after(tmp_path / "b", (64,), 1))
    assert found.counts["cannot tell"] == len(found.rows) == 2
    for row in found.rows:
        assert row.reason == f"{TOO_FEW_TRIALS}: A has 3, B has 1"
        assert row.ratio and row.ratio_low is None and row.after and row.after.low_us is None


def test_the_newest_job_of_a_trial_counts(tmp_path: Path) -> None:
    a, b = before(tmp_path / "a", (64,)), after(tmp_path / "b", (64,), model=SLOWER_NODES)
    after(b, (64,), run=48)
    assert compared(a, b).counts["same"] == 2


# --- what differs


def test_a_driver_update_is_named(tmp_path: Path) -> None:
    found = compared(before(tmp_path / "a", (64,)), after(tmp_path / "b", (64,), driver_version="590.00"))
    assert [vars(one) for one in found.differences] == [
        {"field": "driver version", "labels": [], "before": ["580.00"], "after": ["590.00"]}
    ]
    assert found.counts["same"] == 2
    assert "\n- driver version: 580.00 -> 590.00\n" in text(found)


def test_host_compiler_flags_code_and_card_are_named_and_compared(tmp_path: Path) -> None:
    def other(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["software"] |= {"nvcc": "13.1", "build_flags": ["-O3", "-arch=sm_75"]}
        record["code"]["package_sha256"] = "f" * 64
        record["host"]["affinity"] = [0, 1, 2, 5]

    found = compared(
        before(tmp_path / "a", (64,)),
        after(tmp_path / "b", (64,), card=1, hostname="other", cpu_model="New CPU", site="attic", edit=other),
    )
    assert found.counts["same"] == 2
    told = {one.field: (one.before, one.after) for one in found.differences}
    assert told.pop("measuring modules")[1] == ["f" * 12]
    assert told == {
        "host": (["bench-host"], ["other"]),
        "host CPU": (["Synthetic CPU"], ["New CPU"]),
        "nvcc": (["13.0"], ["13.1"]),
        "build flags": ([""], ["-O3 -arch=sm_75"]),
        "GPU UUID": ([uuid(0)], [uuid(1)]),
        "site": (["lab"], ["attic"]),
        "CPUs a job may run on": (["0-3"], ["0-2, 5"]),
    }


def test_what_differs_for_one_label_alone_names_it(tmp_path: Path) -> None:
    a, b = before(tmp_path / "a", (64,)), after(tmp_path / "b", (64,))
    before(a, (64,), label="h100", card=1)
    after(b, (64,), label="h100", card=1, driver_version="590.00")
    found = compared(a, b)
    assert [(one.field, one.labels) for one in found.differences] == [("driver version", ["h100"])]
    assert "- h100: driver version: 580.00 -> 590.00" in text(found)


# --- what cannot be compared


def test_another_protocol(tmp_path: Path) -> None:
    found = compared(before(tmp_path / "a", trials=1), after(tmp_path / "b", trials=1, repetitions=5))
    assert found.counts["not comparable"] == len(found.rows) == 4
    assert all(row.reason.startswith("different protocol: ") for row in found.rows)
    assert found.rows[0].reason.endswith(" (repetitions 4 against 5)")
    assert found.rows[0].ratio is None and found.summary[0] == "Nothing can be compared."


def test_of_several_protocols_the_one_that_both_sides_have_is_compared(tmp_path: Path) -> None:
    a, b = before(tmp_path / "a", (64,)), after(tmp_path / "b", (64,))
    after(b, (64,), run=48, repetitions=5, model=SLOWER_NODES)
    assert compared(a, b).counts["same"] == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "Another card"}, "different hardware: GPU Synthetic test card against Another card"),
        ({"compute_capability": "9.0"}, "different hardware: compute capability 7.5 against 9.0"),
        ({"memory_total_bytes": 32 * 2**30}, "different hardware: memory 16 GiB against 32 GiB"),
        ({"power_limit_w": 400.0}, "different hardware: power limit 300 W against 400 W"),
        (
            {"kind": "mig", "parent_name": "Synthetic test card"},
            "different hardware: GPU Synthetic test card against "
            "Synthetic test card (MIG slice of Synthetic test card)",
        ),
        ({"name": "NVIDIA Synthetic test card", "memory_total_bytes": 15 * 2**30}, ""),
        ({"power_limit_w": None}, ""),
    ],
    ids=["name", "capability", "memory", "power limit", "slice", "same variant", "power limit not known"],
)
def test_hardware_variants(change: dict[str, Any], reason: str) -> None:
    card = {
        "name": "Synthetic test card",
        "uuid": uuid(0),
        "compute_capability": "7.5",
        "memory_total_bytes": 16 * 2**30,
        "power_limit_w": 300.0,
        "virtual": False,
    }
    assert other_hardware(Device.model_validate(card), Device.model_validate(card | change)) == reason


def test_another_variant_of_the_hardware(tmp_path: Path) -> None:
    a, b = before(tmp_path / "a", (64,), 1), after(tmp_path / "b", (64,), 1, device_name="Synthetic PCIe card")
    expected = "different hardware: GPU Synthetic test card against Synthetic PCIe card"
    assert {(row.verdict, row.reason) for row in compared(a, b).rows} == {("not comparable", expected)}


def test_a_variant_that_one_trial_alone_has(tmp_path: Path) -> None:
    def limited(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["device"]["power_limit_w"] = 400.0 if record["trial"] == 2 else 300.0

    found = compared(before(tmp_path / "a", (64,), edit=limited), after(tmp_path / "b", (64,), edit=limited))
    assert {row.reason for row in found.rows} == {"different hardware: power limit 300 W against 400 W"}


def test_a_side_without_valid_samples(tmp_path: Path) -> None:
    def miscounted(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["blocks"][0]["observed_count"] += 1

    found = compared(before(tmp_path / "a", (64,)), after(tmp_path / "b", (64,), edit=miscounted))
    assert [row.verdict for row in found.rows] == ["not comparable"] * 2
    assert all(row.reason.startswith("B: no valid samples: ") and row.after is None for row in found.rows)
    assert all(row.before and row.before.trials == 3 for row in found.rows)


def test_a_mode_that_one_side_could_not_time_is_told_and_one_that_neither_could_is_not(tmp_path: Path) -> None:
    def cannot(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["blocks"][0]["not_timed"] = {"replay-dependent": "needs sm_90", "queued": "needs a gate"}

    found = compared(
        before(tmp_path / "a", (64,), modes=("queued",), edit=cannot), after(tmp_path / "b", (64,), edit=cannot)
    )
    (row,) = (row for row in found.rows if row.mode not in ("loop", "replay"))
    assert (row.mode, row.verdict, row.reason) == ("queued", "not comparable", "B: not timed: needs a gate")


def test_one_side_with_two_drivers(tmp_path: Path) -> None:
    a, b = before(tmp_path / "a", (64,), 1), after(tmp_path / "b", (64,), 1)
    after(b, (64,), 1, run=48, driver_version="590.00")
    expected = "B has it with driver 580.00 and 590.00; pass a folder that holds one of them"
    assert {(row.verdict, row.reason) for row in compared(a, b).rows} == {("not comparable", expected)}


def test_a_copy_is_not_compared_with_itself(tmp_path: Path) -> None:
    a = before(tmp_path / "a", (64,), 1)
    shutil.copytree(a, tmp_path / "b")
    assert {row.reason for row in compared(a, tmp_path / "b").rows} == {"the same job lies on both sides"}


# --- what is missing, and which cards belong together


def test_missing_cells_and_labels(tmp_path: Path) -> None:
    a, b = before(tmp_path / "a", (8, 64)), after(tmp_path / "b", (64, 512))
    before(a, (64,), 1, label="h100", card=1)
    found = compared(a, b)
    missing = {(row.label, row.launch_count, row.mode): row.reason for row in found.rows if row.verdict == "missing"}
    assert missing == {
        ("t4", 8, "loop"): "not in B",
        ("t4", 8, "replay"): "not in B",
        ("t4", 512, "loop"): "not in A",
        ("t4", 512, "replay"): "not in A",
        ("h100", 64, "loop"): "not in B",
        ("h100", 64, "replay"): "not in B",
    }
    assert found.counts == {
        "same": 2, "faster": 0, "slower": 0, "cannot tell": 0, "not comparable": 0, "missing": 6
    }  # fmt: skip
    assert found.summary[-1] == "6 cells missing."


def test_a_launch_path_that_one_side_cannot_take_is_missing_with_its_reason(tmp_path: Path) -> None:
    def without(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["paths_not_measured"] = {"cupy": "not installed"}
        record["kernels_not_measured"] = {"cuda-python": {"empty": "has no name"}}

    def with_cupy(record: dict[str, Any], raw: pd.DataFrame) -> None:
        record["frameworks"] = {"cupy": "13.6"}

    more = {"launch_paths": ("native-driver", "cuda-python", "cupy"), "kernels": ("tiny", "empty"), "edit": with_cupy}
    found = compared(before(tmp_path / "a", (8,), 1, **more), after(tmp_path / "b", (8,), 1, edit=without))
    reasons = {(row.launch_path, row.kernel): row.reason for row in found.rows if row.verdict == "missing"}
    assert reasons == {
        ("native-driver", "empty"): "not in B",
        ("cuda-python", "tiny"): "not in B",
        ("cuda-python", "empty"): "not in B: has no name",
        ("cupy", "tiny"): "not in B: not installed",
        ("cupy", "empty"): "not in B: not installed",
    }
    assert [(one.field, one.before, one.after) for one in found.differences] == [("cupy", ["13.6"], [""])]


def test_the_same_cards_are_compared_card_by_card(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for card in (0, 1):
        before(a, (64,), card=card)
        after(b, (64,), card=card, model=SLOWER_NODES if card else None)
    after(b, (64,), card=2)
    found = compared(a, b)
    verdicts = {(row.card_before, row.card_after, row.mode): row.verdict for row in found.rows}
    cards = [uuid(number)[4:12] for number in range(3)]
    assert verdicts == {
        (cards[0], cards[0], "loop"): "same",
        (cards[0], cards[0], "replay"): "same",
        (cards[1], cards[1], "loop"): "same",
        (cards[1], cards[1], "replay"): "slower",
        ("", cards[2], "loop"): "missing",
        ("", cards[2], "replay"): "missing",
    }


def test_other_cards_of_a_label_cannot_be_matched(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for card in range(5):
        (before if card < 2 else after)(a if card < 2 else b, (64,), 1, card=card)
    expected = "2 cards against 3, none the same; pass the folder of one card for each side"
    assert {(row.verdict, row.reason) for row in compared(a, b).rows} == {("not comparable", expected)}
    one = [folder / "lab" / "t4" / uuid(card)[4:12] for folder, card in ((a, 0), (b, 3))]
    assert compared(*one).counts["cannot tell"] == 2


@pytest.mark.parametrize("part", [(), ("lab",), ("lab", "t4"), ("lab", "t4", uuid(0)[4:12])])
def test_a_part_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: tuple[str, ...]) -> None:
    """Also from inside it, and where the folder of another label lies beside."""
    a, b = before(tmp_path / "a", (64,), 1), after(tmp_path / "b", (64,), 1)
    before(a, (64,), 1, label="h100", card=1)
    monkeypatch.chdir(a.joinpath(*part))
    found = compared(Path(), b.joinpath(*part))
    labels = {"h100", "t4"} if len(part) < 2 else {"t4"}
    assert {row.label for row in found.rows} == labels and found.counts["cannot tell"] == 2


# --- simulated cards


def test_simulated_cards_are_compared_under_a_banner_and_never_with_real_ones(tmp_path: Path) -> None:
    a, b = (make(tmp_path / name, (64,), virtual=True) for make, name in ((before, "a"), (after, "b")))
    found = compared(a, b)
    assert found.simulated and found.counts["same"] == 2
    for rendered in (text(found), markdown(found), page(found)):
        assert rendered.count("SIMULATED GPU: some or all figures come from a simulated GPU.") == 1
    assert text(found).splitlines()[1].startswith("SIMULATED GPU")
    real = after(tmp_path / "real", (64,), 1)
    assert compared(a, real).counts["missing"] == 4
    assert "SIMULATED" not in text(compared(real, before(tmp_path / "other", (64,), 1)))


# --- mistakes and damage


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["compare", *map(str, arguments)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err.removeprefix("launchbench: ").strip()


def test_what_cannot_be_a_side(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    before(Path("a"), (64,), 1)
    Path("empty").mkdir()
    Path("link").symlink_to("a")
    Path("file").write_text("x")
    assert refused(capsys, "a", "gone") == "B: got gone, which does not exist; expected a folder of results"
    assert refused(capsys, "file", "a") == "A: got file, which is a file; expected a folder of results"
    assert refused(capsys, "a", "a/") == "B: got a, which is the same folder as A; expected other results"
    assert refused(capsys, "a", "link") == "B: got link, which is the same folder as A; expected other results"
    Path("linked").mkdir()
    Path("linked/site").symlink_to("../a/lab")
    nothing, expected = "which holds no launch results", "expected a folder of <site>/<label>/<card>, or one in it"
    assert refused(capsys, "a", "empty") == f"B: got empty, {nothing}; {expected}"
    hint = "site: a link to a folder, which is not followed; put the folder itself here"
    assert refused(capsys, "a", "linked") == f"B: got linked, {nothing} ({hint}); {expected}"
    long = "x" * 5000
    assert refused(capsys, "a", long) == f"B: got {long}, which does not exist; expected a folder of results"
    for path in Path("a").rglob("*.csv"):
        path.write_bytes(b"")
    assert refused(capsys, "a", "empty").startswith(
        "A: none of the results can be used (1 file); the first is a/lab/t4/"
    )


def test_mistaken_options(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    before(Path("a"), (64,), 1)
    after(Path("b"), (64,), 1)
    files = tree(tmp_path)
    choices = "faster, slower, cannot-tell, not-comparable, missing"
    assert refused(capsys, "a", "b", "--fail-on", "slower,worse") == (
        f"--fail-on: got 'worse'; expected one or more of {choices}"
    )
    inside = "which lies in B; expected a file apart from the results"
    assert refused(capsys, "a", "b", "--json", "b/lab/x.json") == f"--json: got 'b/lab/x.json', {inside}"
    assert refused(capsys, "a", "b", "--html", ".") == "--html: got '.', which is a folder; expected a file to write"
    assert refused(capsys, "a", "b", "--html", "x" * 300).endswith("cannot be written: File name too long")
    twice = refused(capsys, "a", "b", "--html", "x", "--json", "./x")
    assert twice == "--html: got 'x', as --json did; expected another file for each"
    assert tree(tmp_path) == files


def test_broken_files_are_told_and_the_rest_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = before(tmp_path / "a", (8, 64)), after(tmp_path / "b", (8, 64))
    cut, empty, *_ = sorted((b / "lab" / "t4" / uuid(0)[4:12]).glob("n0000008*.csv"))
    cut.write_bytes(cut.read_bytes()[:-40])
    empty.with_suffix(".json").write_bytes(b"")
    (b / "lab" / "stray.json").write_text("{}")
    assert main(["compare", str(a), str(b)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found = compared(a, b)
    assert {Path(one.file).name: one.reason.split(":")[0] for one in found.after.broken} == {
        cut.name: "cut short",
        empty.with_suffix(".json").name: "empty; expected a launchbench-record/3 record",
        "stray.json": "not at the place of a result, so it is not read",
    }
    assert words(found.rows, "replay") == {8: "cannot tell", 64: "same"}
    assert "Files that cannot be used:\n- B: " in said.out and " ".join(said.out.split()).count("cut short: ") == 1
    assert "cut short" in markdown(found) and "cut short" in page(found)


# --- what is written


def test_every_rendering_and_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = before(tmp_path / "a"), after(tmp_path / "b", (512,), model=SLOWER_NODES, driver_version="590.00")
    files = tree(tmp_path)
    out = tmp_path / "out"
    command = ["compare", str(a), str(b), "--json", str(out / "c.json"), "--html", str(out / "c.html")]
    command += ["--markdown", str(out / "c.md")]
    assert main([*command, "--fail-on", "slower", "--fail-on", "cannot-tell, missing"]) == 2
    assert capsys.readouterr().out.endswith("\nFails, as --fail-on asks: 1 slower and 2 missing.\n")
    assert main([*command, "--fail-on", "faster,not-comparable"]) == 0
    assert {path: data for path, data in tree(tmp_path).items() if not path.startswith(str(out))} == files
    assert sorted(path.name for path in out.iterdir()) == ["c.html", "c.json", "c.md"]
    kept = (out / "c.json").read_text()
    again = Comparison.model_validate_json(kept)
    assert again.to_json() == kept and again == compared(a, b)
    json.loads(kept, parse_constant=pytest.fail)
    assert json.loads(kept)["format"] == "launchbench-comparison/1"
    told = (out / "c.md").read_text()
    assert told.count("\n| t4 |") == 4 and "- driver version: 580.00 -&gt; 590.00" in told
    assert (out / "c.html").read_text().count("slower</td>") == 1


def test_names_of_any_kind_are_text_and_fit(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>|`*"
    options = {
        "label": "l" * 128,
        "hostname": evil + "h" * 200,
        "cpu_model": "\x1b[31m\nCPU|",
        "device_name": "d" * 200,
    }
    found = compared(
        before(tmp_path / "a", (64,), **options),
        after(
            tmp_path / evil.replace("/", "_") / ("b" * 200), (64,), **{**options, "hostname": evil, "cpu_model": None}
        ),
    )
    assert found.counts["same"] == 2
    plain = text(found)
    assert all(len(line) <= WIDTH for line in plain.splitlines())
    assert "\x1b" not in plain and "host CPU: \\x1b[31m\\nCPU| -> not known" in plain
    html = page(found)
    assert html.count("<script") == 1 and "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in html
    assert "http:" not in html and "https:" not in html and "src=" not in html and "url(" not in html
    told = markdown(found)
    assert "<script" not in told and "\\|\\`\\*" in told
    columns = {line.replace("\\|", "").count("|") for line in told.splitlines() if line.startswith("|")}
    assert columns == {12}


def test_the_terminal_need_not_know_every_sign(tmp_path: Path) -> None:
    a, b = before(tmp_path / "a", (64,)), after(tmp_path / "b", (64,))
    command = [sys.executable, "-m", "launchbench", "compare", str(a), str(b)]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"") and b" \\xb1 " in done.stdout
