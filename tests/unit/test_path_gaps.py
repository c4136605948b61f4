"""Launch paths that a record states as not measured: the table and the gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.aggregate.join import Tables, aggregate
from launchbench.aggregate.write import write_tables
from launchbench.report.comparison import read_table
from tests.unit.fabricate import Edit, write_job

HERE = ["site", "label", "launch_path", "kernel", "launch_count", "trial", "reason"]


def stating(paths: dict[str, str] | None = None, kernels: dict[str, dict[str, str]] | None = None) -> Edit:
    """Let the record state these."""

    def edit(record: dict[str, Any], _raw: pd.DataFrame) -> None:
        record["paths_not_measured"], record["kernels_not_measured"] = paths or {}, kernels or {}

    return edit


def tables(folder: Path, *counts: int) -> Tables:
    return aggregate(folder, ["t4"], counts)


def told(made: Tables) -> list[str]:
    return [row["reason"] for row in made.gaps.to_dict("records") if "launch path" in row["reason"]]


def test_what_a_record_states_is_a_row_and_a_gap(tmp_path: Path) -> None:
    edit = stating({"numba": "No module named 'numba'"}, {"torch": {"empty": "no empty kernel"}})
    for count, trial in ((8, 1), (64, 1), (64, 2)):
        write_job(tmp_path, count, trial=trial, launch_paths=["native-driver", "torch"], edit=edit)
    made = tables(tmp_path, 8, 64)
    rows = made.unmeasured[HERE].to_dict("split")["data"]
    assert rows == [
        ["lab", "t4", path, kernel, count, trial, reason]
        for path, kernel, reason in (("numba", "", "No module named 'numba'"), ("torch", "empty", "no empty kernel"))
        for count, trial in ((8, 1), (64, 1), (64, 2))
    ]
    # Once a card, whatever the N and trial.
    assert told(made) == [
        "launch path numba: not measured: No module named 'numba'",
        "launch path torch, kernel empty: not measured: no empty kernel",
    ]
    gap = made.gaps[made.gaps["reason"].str.contains("numba")].iloc[0]
    assert gap["file"] == f"lab/t4/{gap['card']}/{made.unmeasured['run_id'].iloc[0]}.json"
    assert pd.isna(gap["launch_count"])


def test_a_gap_ends_where_a_newer_job_has_measured_the_path(tmp_path: Path) -> None:
    write_job(tmp_path, 8, edit=stating({"cupy": "broken"}))
    write_job(tmp_path, 64, edit=stating({"cupy": "broken"}))
    write_job(tmp_path, 8, run=1, launch_paths=["cupy"])
    assert told(tables(tmp_path, 8, 64)) == ["launch path cupy: not measured: broken"]
    write_job(tmp_path, 64, run=1, launch_paths=["cupy"])
    made = tables(tmp_path, 8, 64)
    assert told(made) == [] and len(made.unmeasured) == 2
    # What failed since is one again, with its newest reason.
    write_job(tmp_path, 64, run=2, edit=stating({"cupy": "broken again"}))
    assert told(tables(tmp_path, 8, 64)) == ["launch path cupy: not measured: broken again"]


def test_a_simulated_gpu_is_told(tmp_path: Path) -> None:
    write_job(tmp_path, 8, virtual=True, edit=stating({"numba": "none\r\nhere"}))
    assert told(tables(tmp_path, 8)) == ["launch path numba, on a simulated GPU: not measured: none  here"]


def test_without_statements_there_are_none(tmp_path: Path) -> None:
    write_job(tmp_path, 8, format=2)
    made = tables(tmp_path, 8)
    assert made.unmeasured.empty and told(made) == []


def test_the_written_tables_have_them_from_the_cache_too(tmp_path: Path) -> None:
    write_job(tmp_path / "results", 8, edit=stating({"numba": "none"}))
    for anew in (1, 0):
        done = write_tables(tmp_path / "results", tmp_path / "t", tmp_path / "cache", ["t4"], [8])
        assert done.anew == anew
        assert read_table(tmp_path / "t", "unmeasured")["reason"].tolist() == ["none"]
        assert "launch path numba: not measured: none" in read_table(tmp_path / "t", "gaps")["reason"].tolist()
