"""Cells, receipts and what decides whether Snakemake does something again. No pandas, no driver."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launchbench.config.model import SETTINGS_VARIABLE, Config
from launchbench.config.names import host_slug
from launchbench.errors import LaunchbenchError
from launchbench.measure.job import write_receipt
from launchbench.results.layout import cell_of_name, run_prefix
from launchbench.results.protocol import Protocol
from launchbench.workflow import plan
from launchbench.workflow.plan import CARDS_VARIABLE, PROBE_TIMEOUT_VARIABLE, Cell, Plan, probe_cards
from tests.unit.fabricate import uuid, write_job, write_sweep

CARD = uuid(0)[4:12]
OTHER_CARD = uuid(1)[4:12]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder of its own, and one visible card that is a T4."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CARDS_VARIABLE, json.dumps([["t4", CARD]]))
    monkeypatch.delenv(SETTINGS_VARIABLE, raising=False)


def a_plan(**settings: Any) -> Plan:
    return Plan(Config.model_validate({"site": "lab", "launch_counts": [8, 64], "trials": 1} | settings))


def stored(record: Path, settings: dict[str, Any], trial: int = 1) -> Path:
    """The record of a result of this trial, measured by the protocol of these settings; both files get new names."""
    told = json.loads(record.read_text())
    protocol = json.loads(a_plan(**settings).protocol())
    told["protocol"] = {name: value for name, value in protocol.items() if name in Protocol.model_fields}
    numbers = cell_of_name(record.name)
    assert numbers
    name = f"{run_prefix(numbers[0], trial)}{record.parent.name}-x.json"
    record.with_suffix(".csv").rename(record.with_name(name).with_suffix(".csv"))
    record.unlink()
    record.with_name(name).write_text(json.dumps(told))
    return record.with_name(name)


def test_a_gap_that_a_record_states_is_no_reason_to_measure_again(tmp_path: Path) -> None:
    settings = {"launch_paths": ["native-driver", "numba", "torch"], "cards": "listed", "slurm": {"t4": {}}}
    record = stored(write_job(tmp_path / "results", 8, launch_paths=["native-driver", "torch"]), settings)
    for gaps, cells in (({}, 2), ({"paths_not_measured": {"numba": "not here"}}, 1)):
        told = json.loads(record.read_text())
        record.write_text(json.dumps(told | gaps))
        assert len(a_plan(**settings).cells()) == cells
    gone = ("torch", "empty")
    told["blocks"] = [block for block in told["blocks"] if (block["launch_path"], block["kernel"]) != gone]
    for kernels, cells in (({}, 2), ({"torch": {"empty": "none"}}, 1)):
        record.write_text(json.dumps(told | gaps | {"kernels_not_measured": kernels}))
        assert len(a_plan(**settings).cells()) == cells


# --- cells


def test_the_cells_of_the_visible_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CARDS_VARIABLE, json.dumps([["t4", "bbbb"], ["h100", "cccc"], ["t4", "aaaa"]]))
    assert a_plan(launch_counts=[64, 8]).cells() == [
        Cell("h100", "cccc", 8, 1),
        Cell("h100", "cccc", 64, 1),
        Cell("t4", "aaaa", 8, 1),
        Cell("t4", "aaaa", 64, 1),
        Cell("t4", "bbbb", 8, 1),
        Cell("t4", "bbbb", 64, 1),
    ]


def test_each_trial_is_a_cell_of_its_own() -> None:
    cells = a_plan(trials=2).cells()
    assert cells == [Cell("t4", CARD, count, trial) for count in (8, 64) for trial in (1, 2)]
    receipts = [f"{FOLDER}/n{count}.t{trial}.0.json" for count in (8, 64) for trial in (1, 2)]
    assert a_plan(trials=2).all_receipts() == receipts
    assert len(Plan(Config(site="lab")).cells()) == 4 * 3


def test_the_cells_of_the_listed_labels_need_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CARDS_VARIABLE, "broken, and not looked at")
    cells = a_plan(cards="listed", launch_counts=[8]).cells()
    assert cells == [Cell(label, "any", 8, 1) for label in ("a100", "h100", "h200", "t4")]
    cells = a_plan(cards="listed", launch_counts=[8], slurm={"t4": {}, "a100": {}}).cells()
    assert cells == [Cell("a100", "any", 8, 1), Cell("t4", "any", 8, 1)]


def test_a_listed_label_with_a_stored_result_is_measured_again_only_when_asked(tmp_path: Path) -> None:
    def cells(again: bool = False, **settings: Any) -> list[Cell]:
        config = {"site": "lab", "launch_counts": [8, 64], "cards": "listed", "slurm": {"t4": {}}, "trials": 1}
        return Plan(Config.model_validate(config | settings), again=lambda: again).cells()

    both = [Cell("t4", "any", 8, 1), Cell("t4", "any", 64, 1)]
    assert cells() == both
    record = stored(write_job(tmp_path / "results", 8, card=3), {})
    assert cells() == both[1:]
    assert cells(again=True) == both
    # Of another place, of another protocol, with less than is wanted.
    assert cells(site="elsewhere") == both
    assert cells(repetitions=51) == cells(placements=601) == cells(full_placements=26) == cells(pool_mib=1) == both
    assert cells(launch_paths=["native-runtime"]) == both
    assert cells(kernels=["tiny"]) == both[1:]
    # Without the fields that it does not use, as records written before there were any.
    told = json.loads(record.read_text())
    told["protocol"] = {name: value for name, value in told["protocol"].items() if value is not None}
    record.write_text(json.dumps(told))
    assert cells() == both[1:]
    # Not whole.
    text = record.with_suffix(".csv").read_text()
    record.with_suffix(".csv").write_text(text[:-5])
    assert cells() == both
    record.with_suffix(".csv").write_text(text)
    assert cells() == both[1:]
    record.write_text("{")
    assert cells() == both


def test_a_result_of_one_trial_does_not_stand_for_another(tmp_path: Path) -> None:
    listed = {"cards": "listed", "slurm": {"t4": {}}, "launch_counts": [8], "trials": 2}
    both = [Cell("t4", "any", 8, 1), Cell("t4", "any", 8, 2)]
    assert a_plan(**listed).cells() == both
    stored(write_job(tmp_path / "results", 8, card=3), listed)
    assert a_plan(**listed).cells() == both[1:]
    stored(write_job(tmp_path / "results", 8, card=4), listed, trial=11)
    assert a_plan(**listed).cells() == both[1:]
    stored(write_job(tmp_path / "results", 8, card=4), listed, trial=2)
    assert a_plan(**listed).cells() == []


def test_what_a_trial_beyond_those_of_the_run_adds_is_noticed(tmp_path: Path) -> None:
    before = a_plan(trials=2).cached()
    stored(write_job(tmp_path / "results", 8, repetitions=1), {}, trial=2)
    assert a_plan(trials=2).cached() == before != a_plan(trials=1).cached()


@pytest.mark.parametrize("name", ["n8-01234567-x.json", "n0000008-mig-01234567-x.json", "n8-t1-01234567-x.csv"])
def test_a_name_that_tells_no_trial_is_of_the_first(name: str) -> None:
    assert cell_of_name(name) == (8, 1)


def test_names_tell_n_and_trial() -> None:
    assert cell_of_name(f"{run_prefix(512, 12)}01234567-x.json") == (512, 12)
    assert [cell_of_name(name) for name in ("n8", "x8-a", "n-a", "nx-a", "n²-a", "pointers-a")] == [None] * 6


def test_a_listed_cell_stays_one_of_the_run_once_it_has_a_receipt(tmp_path: Path) -> None:
    plan = a_plan(cards="listed", slurm={"t4": {}})
    before = (plan.all_receipts(), plan.cached())
    record = stored(write_job(tmp_path / "results", 8, card=3), {})
    write_receipt(Path(plan.receipt(Cell("t4", "any", 8, 1))), record, tmp_path / "results")
    assert (plan.all_receipts(), plan.cached()) == before
    # Without it, the result is one of those that no job of this run adds to.
    shutil.rmtree(tmp_path / "build")
    assert plan.all_receipts() == before[0][1:]
    assert plan.cached() != before[1]


def test_what_a_label_asks_the_cluster_for() -> None:
    plan = a_plan(cards="listed", slurm={"t4": {"gpu_model": "t4", "time_minutes": 7}})
    asked = plan.requests("t4")
    assert (asked["gpu"], asked["gpu_model"], asked["runtime"]) == (1, "t4", 7)
    assert plan.requests("a100")["gpu"] == 1


def test_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CARDS_VARIABLE, "broken, and not looked at")
    nothing = a_plan(cards="none")
    assert (nothing.cells(), nothing.all_receipts()) == ([], [])


def test_the_site_is_the_host_name_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan.platform, "node", lambda: "GPU-Node_7.example.org")
    assert a_plan(site=None).site == host_slug("GPU-Node_7.example.org") == "gpu-node_7.example.org"
    assert a_plan().site == "lab"


# --- asking for the cards

PROGRAM = """#!/bin/sh
printf '%s\\n' "$*" >>{folder}/calls
printf '%s' "${settings}" >{folder}/settings
cat {folder}/out
cat {folder}/err >&2
exit {status}
"""


def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str = "", err: str = "", status: int = 0) -> Path:
    """A machine with a driver, where ``python -m launchbench probe`` is this program; returns its log."""
    folder = tmp_path / "probe"
    folder.mkdir()
    (folder / "out").write_text(out)
    (folder / "err").write_text(err)
    program = folder / "python"
    program.write_text(PROGRAM.format(folder=folder, status=status, settings=SETTINGS_VARIABLE))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: {"libcuda.so.1": object()}[name])
    # Set before it is deleted, so that the value that the probe leaves is removed at the end.
    monkeypatch.setenv(CARDS_VARIABLE, "")
    monkeypatch.delenv(CARDS_VARIABLE)
    return folder


def test_one_probe_for_all_processes_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [{"label": "t4", "card": "aaaa", "name": "x"}, {"label": "h100", "card": "bbbb", "name": "y"}]
    folder = driver(tmp_path, monkeypatch, json.dumps(cards))
    config = Config(site="lab", repetitions=7)
    assert probe_cards(config) == [("t4", "aaaa"), ("h100", "bbbb")]
    assert probe_cards(config) == [("t4", "aaaa"), ("h100", "bbbb")]
    assert (folder / "calls").read_text() == "-m launchbench probe\n"
    assert Config.model_validate_json((folder / "settings").read_text()) == config
    # What a job of this run finds.
    assert json.loads(os.environ[CARDS_VARIABLE]) == [["t4", "aaaa"], ["h100", "bbbb"]]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("libcuda.so.1: cannot open shared object file: No such file or directory", ""),
        ("/lib/libcuda.so.1: file too short", "no driver is used: libcuda.so.1 cannot be loaded: {}"),
        ("libnvidia-a.so: cannot open shared object file", "no driver is used: libcuda.so.1 cannot be loaded: {}"),
    ],
)
def test_no_driver_is_no_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: str, told: str
) -> None:
    folder = driver(tmp_path, monkeypatch, "not asked")

    def missing(name: str) -> None:
        raise OSError(error)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert probe_cards(Config()) == []
    assert capsys.readouterr().err == (f"launchbench: {told.format(error)}\n" if told else "")
    assert not (folder / "calls").exists()
    assert a_plan().all_receipts() == []


@pytest.mark.parametrize(
    "said",
    [
        "CUDA_ERROR_NO_DEVICE (100); no visible GPU (CUDA_VISIBLE_DEVICES='')",
        "CUDA_ERROR_STUB_LIBRARY (34); the libcuda.so.1 that was found is a toolkit's stub",
    ],
)
def test_no_visible_card_is_no_card_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    line = f"launchbench: cuInit failed: {said}\n"
    driver(tmp_path, monkeypatch, err=line, status=1)
    assert probe_cards(Config()) == []
    assert capsys.readouterr().err == line


def test_what_else_a_probe_prints_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = json.dumps([{"label": "t4", "card": "aaaa"}])
    folder = driver(tmp_path, monkeypatch, err="x")
    (folder / "out").write_bytes(b"welcome to \xff\n" + cards.encode() + b"\n")
    (folder / "err").write_bytes(b"vGPU \xff\xfe\n")
    assert probe_cards(Config()) == [("t4", "aaaa")]


@pytest.mark.parametrize("out", ["", "welcome", "[1]", "null", '[{"label": "t4"}]'])
def test_a_probe_that_prints_no_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    driver(tmp_path, monkeypatch, out)
    with pytest.raises(LaunchbenchError, match=r"^`launchbench probe` printed .* instead of a list of cards; `make"):
        probe_cards(Config())


@pytest.mark.parametrize(
    ("err", "status", "message"),
    [
        ("launchbench: gpus: one\nlaunchbench: gpus: two\n", 1, "gpus: one\ngpus: two"),
        ("launchbench: cuInit failed: CUDA_ERROR_UNKNOWN (999)\n", 1, "cuInit failed: CUDA_ERROR_UNKNOWN (999)"),
        ("", 139, "probe ended with status 139"),
    ],
)
def test_a_probe_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, err: str, status: int, message: str
) -> None:
    driver(tmp_path, monkeypatch, err=err, status=status)
    with pytest.raises(LaunchbenchError) as caught:
        probe_cards(Config())
    assert str(caught.value) == f"{message}; `make report-cached` renders the report without asking the card"
    assert CARDS_VARIABLE not in os.environ


def test_a_driver_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(tmp_path, monkeypatch)
    Path(sys.executable).write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(plan, "PROBE_TIMEOUT_S", 0.2)
    with pytest.raises(LaunchbenchError, match=r"^the NVIDIA driver did not answer within 0\.2 s; `make"):
        probe_cards(Config())


def test_how_long_a_driver_may_take_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(tmp_path, monkeypatch, "[]")
    monkeypatch.setenv(PROBE_TIMEOUT_VARIABLE, "7")
    seen: list[object] = []
    run = plan.run
    monkeypatch.setattr(plan, "run", lambda *a, **more: seen.append(a[1]) or run(*a, **more))
    assert probe_cards(Config()) == []
    assert seen == [7]


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "1e3", "x\n", "9" * 40])
def test_a_time_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    driver(tmp_path, monkeypatch)
    monkeypatch.setenv(PROBE_TIMEOUT_VARIABLE, value)
    with pytest.raises(LaunchbenchError) as caught:
        probe_cards(Config())
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(f"{PROBE_TIMEOUT_VARIABLE}: got ")


@pytest.mark.parametrize("value", ["", "x", "5", "[5]", '["abc"]', '[["t4"]]', '{"t4\\n": 1}'])
def test_a_variable_that_somebody_else_has_set(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(CARDS_VARIABLE, value)
    with pytest.raises(LaunchbenchError) as caught:
        a_plan().cells()
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(f"{CARDS_VARIABLE}: got ")


# --- receipts

FOLDER = f"build/cells/lab/t4/{CARD}"


def measured(count: int, receipt: str | None = None, run: int = 0) -> Path:
    """A measurement that has been filed together with its receipt; returns its record."""
    record = write_job(Path("results"), count, repetitions=1, run=run)
    write_receipt(Path(receipt or f"{FOLDER}/n{count}.t1.0.json"), record, Path("results"))
    return record


def test_receipts_have_names_of_their_cell() -> None:
    assert a_plan().all_receipts() == [f"{FOLDER}/n8.t1.0.json", f"{FOLDER}/n64.t1.0.json"]
    assert a_plan(build_dir="scratch", site="x").receipt(Cell("h100", "any", 512, 1)) == (
        "scratch/cells/x/h100/any/n512.t1.0.json"
    )


def test_a_receipt_whose_result_is_there_counts() -> None:
    measured(8)
    assert a_plan().receipt(Cell("t4", CARD, 8, 1)) == f"{FOLDER}/n8.t1.0.json"


@pytest.mark.parametrize("suffix", [".json", ".csv"])
@pytest.mark.parametrize("damage", ["deleted", "cut", "empty"])
def test_a_receipt_whose_result_is_lost_is_followed_by_another(suffix: str, damage: str) -> None:
    """Again and again, and for this cell only; what is lost stays as it is."""
    cell = Cell("t4", CARD, 8, 1)
    other = measured(64)
    for generation in range(3):
        name = f"{FOLDER}/n8.t1.{generation}.json"
        path = measured(8, name, run=generation).with_suffix(suffix)
        assert a_plan().receipt(cell) == name
        if damage == "deleted":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1] if damage == "cut" else b"")
        following = f"{FOLDER}/n8.t1.{generation + 1}.json"
        # The same each time it is asked for: before, while and after the cell is measured anew.
        assert a_plan().receipt(cell) == a_plan().receipt(cell) == following
        assert a_plan().all_receipts() == [following, f"{FOLDER}/n64.t1.0.json"]
    assert other.exists()
    assert sorted(path.name for path in Path(FOLDER).iterdir()) == [
        "n64.t1.0.json",
        "n8.t1.0.json",
        "n8.t1.1.json",
        "n8.t1.2.json",
    ]


def test_a_result_that_comes_back_counts_again() -> None:
    record = measured(8)
    record.rename("away.json")
    assert a_plan().receipt(Cell("t4", CARD, 8, 1)).endswith("n8.t1.1.json")
    Path("away.json").rename(record)
    assert a_plan().receipt(Cell("t4", CARD, 8, 1)).endswith("n8.t1.0.json")


BROKEN: list[bytes] = [
    b"",
    b"{",
    b"\xff\xfe",
    b"null",
    b"[]",
    b"5",
    b'"x"',
    b"{}",
    b'{"record": "x"}',
    b'{"size_bytes": null}',
    b'{"size_bytes": {}}',
    b'{"size_bytes": []}',
    b'{"size_bytes": ["lab"]}',
    b'{"size_bytes": {"lab/missing.json": 5}}',
    b'{"size_bytes": {"\\u0000": 5}}',
    b'{"size_bytes": {"' + b"x" * 5000 + b'": 5}}',
    b'{"size_bytes": {"x": ' + b"9" * 6000 + b"}}",
    b'{"size_bytes": ' + b"[" * 200_000,
    b"[" * 200_000,
]


@pytest.mark.parametrize("content", BROKEN, ids=lambda content: content[:24].decode(errors="replace"))
def test_a_broken_receipt_does_not_count(content: bytes) -> None:
    path = Path(FOLDER) / "n8.t1.0.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert a_plan().receipt(Cell("t4", CARD, 8, 1)) == f"{FOLDER}/n8.t1.1.json"


def test_a_folder_in_place_of_a_receipt_does_not_count() -> None:
    (Path(FOLDER) / "n8.t1.0.json").mkdir(parents=True)
    assert a_plan().receipt(Cell("t4", CARD, 8, 1)) == f"{FOLDER}/n8.t1.1.json"


def test_a_pipe_in_place_of_a_receipt_or_a_record_is_not_read() -> None:
    """Reading one would never end; the answer is asked of another process, so that a hang is a failure."""
    place = Path(FOLDER) / "n8.t1.0.json"
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    os.mkfifo(place.with_name("pointers.0.json"))
    record = Path("results/lab/t4/01234567/n0000008-01234567-x.json")
    record.parent.mkdir(parents=True)
    os.mkfifo(record)
    code = (
        "from launchbench.config.model import Config\n"
        "from launchbench.workflow.plan import Cell, Plan\n"
        "from launchbench.workflow.extra import ExtraPlan\n"
        "plan = Plan(Config(site='lab', launch_counts=(8,)))\n"
        f"print(plan.receipt(Cell('t4', '{CARD}', 8, 1)), ExtraPlan(plan, 'pointers').receipt('t4', '{CARD}'))\n"
        "print(len(Plan(Config(site='lab', launch_counts=(8,), cards='listed', trials=2)).cells()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [f"{FOLDER}/n8.t1.1.json", f"{FOLDER}/pointers.1.json", "8"], done.stderr


def test_an_n_or_a_trial_that_begins_like_another_is_another() -> None:
    measured(8)
    for path in Path("results").rglob("*.csv"):
        path.unlink()
    assert a_plan().receipt(Cell("t4", CARD, 80, 1)) == f"{FOLDER}/n80.t1.0.json"
    assert a_plan().receipt(Cell("t4", CARD, 8, 2)) == f"{FOLDER}/n8.t2.0.json"
    assert a_plan().receipt(Cell("t4", CARD, 8, 11)) == f"{FOLDER}/n8.t11.0.json"


def test_receipts_that_tell_no_trial_do_not_count() -> None:
    record = measured(8, f"{FOLDER}/n8.0.json")
    assert a_plan().receipt(Cell("t4", CARD, 8, 1)) == f"{FOLDER}/n8.t1.0.json"
    record.unlink()
    assert a_plan().receipt(Cell("t4", CARD, 8, 1)) == f"{FOLDER}/n8.t1.0.json"


# --- results that are there already


def test_a_new_result_of_an_own_cell_changes_nothing() -> None:
    """Else a run would have something to do after it has just ended."""
    write_job(Path("results"), 8, site="other", repetitions=1)
    before = a_plan().cached()
    write_sweep(Path("results"), (8, 64), repetitions=1)
    write_job(Path("results"), 8, run=1, repetitions=1)
    assert a_plan().cached() == before


def test_with_listed_labels_any_card_is_an_own_one() -> None:
    before = a_plan(cards="listed").cached()
    write_job(Path("results"), 8, label="h100", card=5, repetitions=1)
    assert a_plan(cards="listed").cached() == before
    assert a_plan().cached() != before


@pytest.mark.parametrize(
    "job",
    [
        {"launch_count": 8, "site": "other"},
        {"launch_count": 8, "label": "h100"},
        {"launch_count": 8, "card": 1},
        {"launch_count": 512},
    ],
    ids=["site", "label", "card", "N"],
)
def test_any_other_result_is_noticed(job: dict[str, Any]) -> None:
    before = a_plan().cached()
    record = write_job(Path("results"), repetitions=1, **job)
    added = a_plan().cached()
    assert added != before
    assert a_plan().cached() == added
    record.with_suffix(".csv").write_bytes(b"edited")
    edited = a_plan().cached()
    assert edited not in (before, added)
    record.unlink()
    record.with_suffix(".csv").unlink()
    assert a_plan().cached() == before


def test_without_cells_every_result_is_noticed() -> None:
    nothing = a_plan(cards="none").cached()
    write_job(Path("results"), 8, repetitions=1)
    assert a_plan(cards="none").cached() != nothing


def test_only_files_of_results_are_noticed() -> None:
    folder = write_job(Path("results"), 8, site="other", repetitions=1).parent
    before = a_plan().cached()
    for name in (".tmp-x.json", ".hidden.csv", "notes.txt"):
        (folder / name).write_bytes(b"x")
    Path("results/.cache/a/b").mkdir(parents=True)
    Path("results/.cache/a/b/x.json").write_bytes(b"x")
    assert a_plan().cached() == before
    # A result at another depth is a gap, which the tables have to name.
    (folder.parent / "x.json").write_bytes(b"x")
    assert a_plan().cached() != before


@pytest.mark.parametrize("name", ["n.csv", "n-x.csv", "nx.csv", "x.csv", "n²-x.csv", "n8", "n8-a\nb.csv", "{x}.csv"])
def test_odd_names_are_noticed_too(name: str) -> None:
    before = a_plan().cached()
    folder = Path("results/lab/h100/x")
    folder.mkdir(parents=True)
    (folder / name).write_bytes(b"x")
    assert (a_plan().cached() != before) == name.endswith(".csv")


def test_links_that_lead_nowhere_and_names_that_are_no_text() -> None:
    folder = Path("results/other/t4/x")
    folder.mkdir(parents=True)
    seen = {a_plan().cached()}
    (folder / "a.json").symlink_to("nowhere")
    seen.add(a_plan().cached())
    (folder / "b.json").symlink_to("b.json")
    seen.add(a_plan().cached())
    (folder / os.fsdecode(b"c\xff.json")).write_bytes(b"x")
    seen.add(a_plan().cached())
    (folder / "d.json").mkdir()
    seen.add(a_plan().cached())
    assert len(seen) == 5


def test_links_to_folders_are_noticed_and_not_followed() -> None:
    write_job(Path("elsewhere"), 8, site="other", repetitions=1)
    Path("results").mkdir()
    without = a_plan().cached()
    Path("results/other").symlink_to(Path("elsewhere/other").absolute())
    linked = a_plan().cached()
    assert linked != without
    write_job(Path("elsewhere"), 64, site="other", repetitions=1)
    assert a_plan().cached() == linked


# --- what decides


def test_what_decides_a_measurement_is_pinned() -> None:
    assert json.loads(a_plan().protocol()) == {
        "version": 5,
        "placements": 700,
        "full_placements": 25,
        "pool_mib": 512,
        "repetitions": 3,
        "warmup_rounds": 5,
        "warmup_ms": 200,
        "launch_paths": ["native-driver", "cuda-python"],
        "kernels": ["tiny", "empty"],
    }


CHANGES: dict[str, Any] = {
    "site": "elsewhere",
    "cards": "none",
    "launch_counts": [8, 64, 512],
    "launch_paths": ["native-driver"],
    "kernels": ["tiny"],
    "extras": [],
    "trials": 2,
    "placements": 601,
    "full_placements": 26,
    "pool_mib": 513,
    "repetitions": 51,
    "cure_repetitions": 51,
    "length_repetitions": 21,
    "warmup_rounds": 6,
    "warmup_ms": 201,
    "architectures": ["sm_90"],
    "gpus": {"t4": {"name": "T4", "compute_capability": "7.5"}},
    "slurm": {"t4": {"partition": "gpu"}},
    "results_dir": "other-results",
    "reports_dir": "other-reports",
    "build_dir": "other-build",
    "virtual_results": "allow",
    "published": False,
}
DECIDES_MEASURING = {"launch_paths", "kernels", "repetitions", "warmup_rounds", "warmup_ms"}
DECIDES_MEASURING |= {"placements", "full_placements", "pool_mib"}
DECIDES_COMPARING = {"launch_counts", "gpus"}


@pytest.mark.parametrize("key", list(Config.model_fields))
def test_a_change_matters_exactly_where_it_decides(key: str) -> None:
    """Every key there is: a new one has to be put into one of the sets, or be in neither on purpose."""
    together = {"results_dir": "other-results"} if key == "virtual_results" else {}
    changed = a_plan(**together, **{key: CHANGES[key]})
    assert (changed.protocol() != a_plan().protocol()) == (key in DECIDES_MEASURING)
    assert (changed.compared() != a_plan().compared()) == (key in DECIDES_COMPARING)


def test_what_a_gpu_is_recognised_by_does_not_decide_what_is_compared() -> None:
    narrower = {label: gpu.model_dump() | {"name": f"{gpu.name}."} for label, gpu in Config().gpus.items()}
    assert a_plan(gpus=narrower).compared() == a_plan().compared()


def test_the_compiler_is_looked_for_where_the_build_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "toolkit_identity", lambda wheels, lock: f"{wheels} {lock}")
    assert a_plan(build_dir="scratch").nvcc_identity() == "scratch/nvcc requirements-nvcc.lock"


SCRIPT = """
from launchbench.config.model import Config
from launchbench.workflow.plan import Plan
import sys
plan = Plan(Config(site="lab", launch_counts=(8, 64)))
print(plan.all_receipts(), plan.cached(), plan.protocol(), plan.compared(), plan.cells())
heavy = {"pandas", "numpy", "cuda", "pynvml", "pandera", "matplotlib"} & set(sys.modules)
print(sorted(heavy))
"""


def test_the_plan_is_the_same_in_every_process_and_imports_nothing_heavy() -> None:
    write_job(Path("results"), 8, site="other", repetitions=1)
    measured(64)
    said = set()
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(done.stdout)
    [text] = said
    assert text.splitlines()[-1] == "[]"
    assert f"{FOLDER}/n64.t1.0.json" in text
