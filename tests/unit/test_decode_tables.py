"""From decode jobs to tables: times of a token, verdicts, misses of the prediction, gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

from launchbench.aggregate.decode import DecodeTables, tabulate, write_decode_tables
from launchbench.results.decode_columns import DECODE, DECODE_JOBS
from launchbench.results.files import read_results
from tests.unit.fabricate_decode import TIMES, write_decode_job


def tables(base: Path, **job: Any) -> DecodeTables:
    write_decode_job(base, **job)
    return tabulate(base)


def test_times_are_of_one_token(tmp_path: Path) -> None:
    made = tables(tmp_path)
    assert read_results(tmp_path) == ([], [])  # launch jobs are another kind
    rows = made.decode.set_index(["batch", "width"])
    assert list(rows.index) == list(TIMES) and made.decode_gaps.empty
    for key, (eager, graph) in TIMES.items():
        row = rows.loc[key]
        assert row["eager_us"] == pytest.approx(eager, rel=2e-3) and row["graph_us"] == pytest.approx(graph, rel=2e-3)
        assert row["speedup"] == pytest.approx(eager / graph, rel=3e-3)
        assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
        assert row["eager_issue_us"] == pytest.approx(0.95 * eager, rel=2e-3) and row["graph_issue_us"] == 5.0
        assert row["eager_total_us"] == pytest.approx(row["eager_us"] + 2)
    assert rows["verdict"].tolist() == ["helps", "helps", "no-help", "no-help"]
    assert set(rows["launches"]) == {480} and set(rows["nodes"]) == {482}


def test_the_prediction_is_set_against_the_measurement(tmp_path: Path) -> None:
    [job] = tables(tmp_path).decode_jobs.to_dict("records")
    assert (job["batch"], job["width"], job["launches"]) == (1, 512, 480)
    assert job["eager_miss_percent"] == pytest.approx(10, abs=0.3)
    assert job["graph_miss_percent"] == pytest.approx(-5, abs=0.3)
    assert job["predicted_speedup"] == pytest.approx(4400 / 950)
    assert job["speedup_miss_percent"] == pytest.approx(100 * (4400 / 950 / 4 - 1), abs=0.5)
    assert (job["bare_eager_us"], job["bare_graph_us"], job["stored_run"]) == (2400.0, 240.0, "n0000512-t1-x")


def test_without_a_prediction_the_reason_is_kept(tmp_path: Path) -> None:
    def unpredicted(record: dict[str, Any], _: pd.DataFrame) -> None:
        record["prediction"], record["prediction_reason"] = None, "not counted:\nold"
        for point in record["points"]:
            point |= {"launches": None, "nodes": {}, "launches_reason": "not counted: old"}

    made = tables(tmp_path, edit=unpredicted)
    [job] = made.decode_jobs.to_dict("records")
    assert job["stored_reason"] == "not counted: old" and pd.isna(job["predicted_eager_us"])
    assert pd.isna(job["eager_miss_percent"]) and made.decode["launches"].isna().all()
    assert set(made.decode["launches_reason"]) == {"not counted: old"}


def test_what_was_not_run_stands_aside_of_what_was(tmp_path: Path) -> None:
    write_decode_job(tmp_path)
    write_decode_job(tmp_path, run=1, not_run="PyTorch is not installed")
    write_decode_job(tmp_path, run=2, card=1, not_run="PyTorch is not installed")
    made = tabulate(tmp_path)
    assert made.decode_jobs["superseded"].tolist() == [False, True, False]
    assert not made.decode["superseded"].any() and len(made.decode) == len(TIMES)
    write_decode_job(tmp_path, run=3)
    made = tabulate(tmp_path)
    assert made.decode_jobs["superseded"].tolist() == [True, True, False, False]
    assert made.decode.groupby("run_id")["superseded"].all().tolist() == [True, False]


def test_a_repetition_is_left_out_with_both_its_modes(tmp_path: Path) -> None:
    def lying(_: dict[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
        rows.loc[0, "gpu_us"] = 1e9
        return rows.drop(index=3)  # the replay of repetition 1

    row = tables(tmp_path, edit=lying).decode.iloc[0]
    assert (row["repetitions_used"], row["repetitions_flagged"]) == (8, 2)
    assert "eager: GPU time longer than the host saw (1 repetition)" in row["flags"]
    assert "graph recorded 0 times (1 repetition)" in row["flags"]


def test_nothing_of_a_point_counts_where_the_card_throttled(tmp_path: Path) -> None:
    def hot(record: dict[str, Any], _: pd.DataFrame) -> None:
        after = record["points"][1]["after"]
        record["points"][1]["after"] = {**dict(after), "throttle_reasons": ["hw_slowdown"]}

    rows = tables(tmp_path, edit=hot).decode.set_index("batch")
    assert rows.loc[8, "verdict"] == "cannot-tell" and "hw_slowdown" in rows.loc[8, "flags"]
    assert pd.isna(rows.loc[8, "eager_us"]) and rows.loc[1, "verdict"] == "helps"


def test_a_point_that_was_left_out_says_why(tmp_path: Path) -> None:
    def full(record: dict[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
        point = record["points"].pop()
        record["left_out"] = [{"batch": point["batch"], "width": point["width"], "reason": "needs 9.0 GiB"}]
        return rows[rows["batch"] != point["batch"]]

    row = tables(tmp_path, edit=full).decode.iloc[-1]
    assert row["flags"] == "not timed: needs 9.0 GiB" and row["verdict"] == "cannot-tell"


def test_few_repetitions_carry_no_verdict(tmp_path: Path) -> None:
    rows = tables(tmp_path, repetitions=3).decode
    assert set(rows["verdict"]) == {"cannot-tell"} and rows["speedup"].notna().all()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"not_run": "no"}, "not_run: got a reason and results"),
        ({"points": []}, "points: got"),
        ({"torch": None}, "points: got none and no reason"),
    ],
)
def test_records_that_contradict_themselves_are_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    def edit(record: dict[str, Any], _: pd.DataFrame) -> None:
        record |= change

    with pytest.raises(ValidationError, match=told):
        write_decode_job(tmp_path, edit=edit)


def test_damaged_files_are_gaps_and_the_others_still_count(tmp_path: Path) -> None:
    for card in range(3):
        path = write_decode_job(tmp_path / "results", card=card)
        if card == 1:
            path.with_suffix(".csv").write_bytes(path.with_suffix(".csv").read_bytes()[:-100])
        if card == 2:
            path.write_text("{}")
    write_decode_tables(tmp_path / "results", tmp_path / "tables")
    gaps = pd.read_csv(tmp_path / "tables" / "decode_gaps.csv")
    assert sorted(reason.partition(":")[0] for reason in gaps["reason"]) == ["cut short", "format"]
    assert len(pd.read_csv(tmp_path / "tables" / "decode_jobs.csv")) == 1


def test_without_results_the_tables_are_empty_and_have_their_columns(tmp_path: Path) -> None:
    write_decode_tables(tmp_path / "none", tmp_path)
    for name, columns in (("decode", DECODE), ("decode_jobs", DECODE_JOBS)):
        frame = pd.read_csv(tmp_path / f"{name}.csv")
        assert frame.empty and list(frame) == [column.name for column in columns]
