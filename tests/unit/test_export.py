"""What ``export`` writes is what the tables hold, and it replaces nothing but what it wrote itself."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from launchbench.__main__ import main
from launchbench.aggregate.write import write_tables
from launchbench.errors import LaunchbenchError
from launchbench.export import summary as summaries
from launchbench.export.command import MANIFEST, export
from launchbench.export.readme import OWN
from launchbench.report.comparison import read_repetitions, read_table
from launchbench.results import columns, tables
from launchbench.results.parquet import parse_parquet
from tests.unit.fabricate import write_job

SMALL: dict[str, Any] = {
    "repetitions": 2,
    "placements": 2,
    "full_placements": 1,
    "launch_paths": ("native-driver",),
    "kernels": ("tiny",),
}
HOSTILE = "A|B\n<script>alert(1)</script> `x` [y](z) *w* \\| & ü"


def without_events(_: dict[str, Any], raw: pd.DataFrame) -> pd.DataFrame:
    raw["gpu_us"] = np.nan
    return raw


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A card with three trials at N = 8 and a job at 64 that has no GPU time; a simulated one of a hostile name."""
    base = tmp_path_factory.mktemp("tables")
    for trial in (1, 2, 3):
        write_job(base / "results", 8, card=0, trial=trial, run=trial, **SMALL)
    write_job(base / "results", 64, card=0, edit=without_events, run=9, **SMALL)

    def renamed(record: dict[str, Any], _: pd.DataFrame) -> None:
        record["device"]["name"] = HOSTILE

    write_job(base / "results", 8, card=1, virtual=True, edit=renamed, **SMALL)
    write_tables(base / "results", base / "tables", base / "cache", ["t4", "b200"], (8, 64))
    export(base / "tables", base / "out", ["t4"])
    return base


@pytest.fixture
def study(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path = Path("out")) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def again(force: bool = False) -> int:
    return export(Path("tables"), Path("out"), ["t4"], force)


def test_every_table_is_there_twice_and_is_the_table(study: Path) -> None:
    names = sorted(path.stem for path in Path("tables").glob("*.csv"))
    assert "summary" in names
    for name in names:
        table = tables.TABLES[name][1]
        assert Path(f"out/{name}.csv").read_bytes() == Path(f"tables/{name}.csv").read_bytes()
        found = parse_parquet(Path(f"out/{name}.parquet").read_bytes(), table, name)
        pd.testing.assert_frame_equal(found, read_table(Path("tables"), name), check_exact=True)
        schema = pq.read_schema(f"out/{name}.parquet")
        assert [field.metadata[b"unit"].decode() for field in schema] == [column.unit for column in table]
    assert pq.read_schema("out/summary.parquet").field("loop_us").metadata[b"unit"] == b"us"


def test_the_repetitions_of_every_card_too(study: Path) -> None:
    cards = read_table(Path("tables"), "summary")[["site", "label", "card"]].drop_duplicates()
    assert len(cards) == 2
    for number, key in enumerate(cards.itertuples(index=False)):
        place = f"tidy/{key.site}/{key.label}/{key.card}"
        repetitions = read_repetitions(Path("tables"), cards.iloc[[number]])
        assert Path(f"out/{place}.parquet").read_bytes() == Path(f"tables/{place}.parquet").read_bytes()
        with Path(f"out/{place}.csv").open("rb") as stream:
            found = tables.parse_csv(stream, columns.TIDY, place)
        pd.testing.assert_frame_equal(found, repetitions, check_exact=True)


def test_the_schema_is_the_committed_one(study: Path) -> None:
    committed = Path(__file__).parents[2] / "workflow/schemas/tables.json"
    assert Path("out/schema.json").read_bytes() == committed.read_bytes()


def test_the_summary_as_json_has_no_nan_and_says_why(study: Path) -> None:
    text = Path("out/summary.json").read_text()
    document = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    pytest.importorskip("jsonschema").validate(document, json.loads(summaries.summary_schema()))
    assert (document["format"], document["simulated"]) == ("launchbench-summary/1", True)
    assert document["units"]["loop_us"] == "us"
    table = read_table(Path("tables"), "summary")
    for cell, row in zip(document["cells"], table.to_dict("records"), strict=True):
        for column in columns.SUMMARY:
            if cell[column.name] is not None:
                assert cell[column.name] == row[column.name]
        assert {name for name, value in cell.items() if value is None} == cell["unavailable"].keys()
        assert all(cell["unavailable"].values())
    timed, untimed, simulated = document["cells"]
    assert (timed["launch_count"], timed["trials"], timed["unavailable"]) == (8, 3, {})
    assert untimed["loop_us"] is None and "no GPU time" in untimed["unavailable"]["loop_us"]
    assert untimed["unavailable"]["speedup_low"] == untimed["unavailable"]["loop_us"] == untimed["flags"]
    assert simulated["unavailable"]["speedup_low"] == simulated["interval_reason"] != ""
    assert [cell["virtual"] for cell in document["cells"]] == [False, False, True]
    assert [gap["label"] for gap in document["gaps"] if gap["launch_count"] is None] == ["b200"]


@pytest.mark.parametrize(
    ("column", "value", "more", "said"),
    [
        ("break_even_replays", np.inf, {}, summaries.NEVER),
        ("break_even_replays_high", np.inf, {}, summaries.PERHAPS_NEVER),
        ("update_us", np.nan, {"flags": "throttled"}, summaries.NO_ONE_OFF),
        ("graph_bytes", np.nan, {}, summaries.NO_ONE_OFF),
        ("break_even_replays", np.nan, {}, f"capture, instantiate or upload: {summaries.NO_ONE_OFF}"),
        ("speedup_low", np.nan, {"interval_reason": "one trial"}, "one trial"),
        ("loop_high_us", np.nan, {"loop_us": np.nan, "flags": "throttled", "interval_reason": "x"}, "throttled"),
        ("loop_us", np.nan, {}, summaries.NO_SAMPLE),
        ("cpu_model", "", {}, summaries.NOT_RECORDED),
    ],
)
def test_why_a_number_is_null(study: Path, column: str, value: Any, more: dict[str, Any], said: str) -> None:
    table = read_table(Path("tables"), "summary").head(1).assign(**{column: value, **more})
    (cell,) = json.loads(summaries.summary_json(table, read_table(Path("tables"), "gaps")))["cells"]
    assert (cell[column], cell["unavailable"][column]) == (None, said)


def test_the_markdown_table_has_the_numbers_and_breaks_at_no_name(study: Path) -> None:
    lines = Path("out/summary.md").read_text().splitlines()
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
    assert {len(row) for row in rows} == {5}
    simulated, timed = sorted(rows[2:], key=lambda row: "script" not in row[0])
    summary = read_table(Path("tables"), "summary")
    real = summary[(summary["launch_count"] == 8) & ~summary["virtual"]].iloc[0]
    assert [cell.strip() for cell in timed[1:4]] == [
        "8",
        f"{real['loop_us_per_launch']:.2f}",
        f"{real['replay_us_per_node']:.2f}",
    ]
    assert timed[4].strip() == f"{real['speedup']:.2f} [{real['speedup_low']:.2f}\N{EN DASH}{real['speedup_high']:.2f}]"
    assert "simulated" in simulated[0] and "simulated" not in timed[0]
    assert "[" not in simulated[4]
    assert "&lt;script&gt;" in simulated[0] and "\\[y\\]" in simulated[0] and "<" not in simulated[0]
    assert any(line.startswith("**Rows marked as simulated") for line in lines)


def test_every_launch_path_and_the_spread_of_cards(tmp_path: Path) -> None:
    small = SMALL | {"launch_paths": ("native-driver", "cuda-python", "torch")}
    for card, trial in ((0, 1), (1, 1), (1, 2)):
        write_job(tmp_path / "results", 8, card=card, trial=trial, run=trial, **small)
    write_tables(tmp_path / "results", tmp_path / "tables", tmp_path / "cache", ["t4"], (8,))
    export(tmp_path / "tables", tmp_path / "out", ["t4"])
    text = (tmp_path / "out/summary.md").read_text()
    heads = [line for line in text.splitlines() if line.startswith("Launches by")]
    assert heads == [
        "Launches by `native-driver` of the kernel `tiny`:",
        "Launches by `cuda-python` of the kernel `tiny`:",
        f"Launches by `torch` of a kernel of its own, {OWN}:",
    ]
    assert text.count("| 8 |") == 2 * 3
    spread = pd.read_csv(tmp_path / "out/spread.csv")
    assert set(spread["launch_path"]) == {"native-driver", "cuda-python", "torch"}
    assert set(spread["cards"]) == {2} and set(spread["processes"]) == {3}
    assert len(parse_parquet((tmp_path / "out/spread.parquet").read_bytes(), columns.SPREAD, "spread")) == len(spread)


def test_without_a_simulated_card_nothing_speaks_of_one(study: Path) -> None:
    shutil.rmtree(next(path for path in Path("results/lab/t4").iterdir() if "script" in _text(path)))
    write_tables(Path("results"), Path("tables"), Path("cache"), ["t4"], (8, 64))
    again()
    assert "simulated" not in Path("out/summary.md").read_text()
    assert json.loads(Path("out/summary.json").read_text())["simulated"] is False


def _text(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("*.json"))


def test_without_results_there_is_an_export_that_says_so(tmp_path: Path) -> None:
    write_tables(tmp_path / "none", tmp_path / "tables", tmp_path / "cache", [], (8,))
    export(tmp_path / "tables", tmp_path / "out", [])
    assert (tmp_path / "out/summary.md").read_text() == "Nothing was measured.\n"
    assert json.loads((tmp_path / "out/summary.json").read_text())["cells"] == []
    assert not (tmp_path / "out/tidy").exists()


# --- what is replaced


def test_the_same_again_and_what_others_put_there_stays(study: Path) -> None:
    Path("out/mine.csv").write_text("mine")
    Path("out/tidy/mine").mkdir()
    before = contents()
    assert again() == len(before) - 1
    assert contents() == before
    assert Path("out/tidy/mine").is_dir()


def test_a_card_that_is_gone_goes_from_the_export_too(study: Path) -> None:
    before = contents()
    shutil.rmtree(next(path for path in Path("results/lab/t4").iterdir() if "script" in _text(path)))
    write_tables(Path("results"), Path("tables"), Path("cache"), ["t4"], (8, 64))
    again()
    gone = before.keys() - contents().keys()
    assert sorted(Path(name).suffix for name in gone) == [".csv", ".parquet"]
    assert contents()["summary.csv"] == Path("tables/summary.csv").read_bytes() != before["summary.csv"]


@pytest.mark.parametrize("name", ["summary.md", "tidy"])
def test_what_no_export_wrote_is_in_the_way(study: Path, name: str) -> None:
    Path("other").mkdir()
    Path("other", name).write_text("mine")
    with pytest.raises(LaunchbenchError, match=rf"^other/{name}: [^\n]+$") as caught:
        export(Path("tables"), Path("other"), [])
    assert name == "tidy" or str(caught.value).endswith("is not of an earlier export, and stays; --force replaces it")
    assert contents(Path("other")) == {name: b"mine"}
    assert [path.name for path in Path("other").iterdir()] == [name]
    if name == "summary.md":
        export(Path("tables"), Path("other"), ["t4"], force=True)
        assert contents(Path("other")) == contents()


def test_what_somebody_edited_is_in_the_way(study: Path) -> None:
    Path("out/summary.md").write_text("edited")
    before = contents()
    with pytest.raises(LaunchbenchError, match=r"^out/summary.md: was changed since .*; --force replaces it$"):
        again()
    assert contents() == before
    again(force=True)
    assert contents()["summary.md"] != b"edited"


def test_a_folder_is_in_the_way_whatever_is_forced(study: Path) -> None:
    Path("out/summary.md").unlink()
    Path("out/summary.md").mkdir()
    before = contents()
    with pytest.raises(LaunchbenchError, match=r"^out/summary.md: is a folder"):
        again(force=True)
    assert contents() == before


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "other/1", "files": {}}', None])
def test_a_list_that_is_none_stays(study: Path, text: str | None) -> None:
    listed = text if text is not None else json.dumps({"format": "launchbench-export/1", "files": {"../x": ["0"]}})
    Path("out", MANIFEST).write_text(listed)
    before = contents()
    with pytest.raises(LaunchbenchError, match=r"^out/export.json: not the list of an earlier export [^\n]+$"):
        again(force=True)
    assert contents() == before


def test_a_broken_table_leaves_the_export_as_it_was(study: Path) -> None:
    next(Path("tables/tidy").rglob("*.parquet")).write_bytes(b"PAR1")
    before = contents()
    with pytest.raises(LaunchbenchError, match=r"^tables/tidy/[^\n]+: not a Parquet table"):
        again()
    assert contents() == before
    assert not list(Path("out").glob(".*"))


def test_an_export_that_was_cut_off_is_repeated(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(Path("results"), 64, card=1, virtual=True, run=4, **SMALL)
    write_tables(Path("results"), Path("tables"), Path("cache"), ["t4"], (8, 64))
    replace, moved = Path.replace, []

    def stop(self: Path, target: Path) -> Path:
        moved.append(str(target))
        if target == Path("out/summary.md"):
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", stop)
        again()
    assert "out/summary.csv" in moved
    write_job(Path("results"), 64, card=1, virtual=True, trial=2, run=5, **SMALL)
    write_tables(Path("results"), Path("tables"), Path("cache"), ["t4"], (8, 64))
    again()
    assert contents()["summary.csv"] == Path("tables/summary.csv").read_bytes()


@pytest.mark.parametrize("site", ["..", "../.."])
def test_names_in_an_edited_summary_lead_nowhere_else(study: Path, site: str) -> None:
    path = Path("tables/summary.csv")
    path.write_text(re.sub(r"(?m)^lab,t4,", f"{site},t4,", path.read_text()))
    for name in ("trials", "fits"):
        other = Path(f"tables/{name}.csv")
        other.write_text(re.sub(r"(?m)^lab,t4,", f"{site},t4,", other.read_text()))
    with pytest.raises(LaunchbenchError, match=rf"^tables/summary.csv: got '{site}/t4/"):
        again()


def test_the_command(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.yaml").write_text("{}\n")
    assert main(["export", "--tables", "tables", "--out", "new"]) == 0
    assert capsys.readouterr().err == f"export: {len(contents(Path('new')))} files in new\n"
    for out, said in (
        ("results/x", "--out: got 'results/x'; expected a folder apart from results_dir"),
        ("tables", "--out: got 'tables'; expected a folder apart from --tables 'tables'"),
        ("config.yaml", "config.yaml: cannot be written: config.yaml is not a folder"),
    ):
        assert main(["export", "--tables", "tables", "--out", out]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"launchbench: {said}")
    assert main(["export", "--tables", "none", "--out", "new"]) == 1
    assert capsys.readouterr().err.startswith("launchbench: none/trials.csv: cannot be read: No such file")
