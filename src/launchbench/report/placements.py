"""The marks of the figure of placements, from the table of repetitions: a median for each placement of each trial."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from launchbench.report.comparison import Comparison, read_repetitions
from launchbench.results.protocol import COMPARED_MODES

_READ = {"run_id", "launch_path", "kernel", "launch_count", "attempt", "mode", "placement", "repetition", "replays"}
_READ |= {"gpu_us", "flag"}


def points(comparison: Comparison, tables_dir: Path, launch_path: str) -> pd.DataFrame | None:
    """Marks of the compared cards; None with many cards, whose repetitions are too many to be worth reading.

    Raises:
        LaunchbenchError: the repetitions of a card are missing or are not what ``columns`` describes.
    """
    if comparison.many or comparison.compared.empty:
        return None
    rows = comparison.rows(launch_path)
    drawn = {"launch_path": [launch_path], "kernel": ["tiny"], "mode": COMPARED_MODES}
    tidy = read_repetitions(tables_dir, comparison.compared, _READ, drawn)
    return marks(tidy, rows)


def marks(tidy: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each mark.

    Args:
        tidy: repetitions, these columns of ``columns.TIDY`` or more: those of ``_READ``.
        rows: those of the summary whose jobs are drawn, with ``card_name``.

    Returns:
        ``card_name``, ``launch_count``, ``mode``, ``trial`` (position of the job among those of its row, from 0) and
        ``trials``; ``place``, where in its trial from 0 to 1; ``each_us``, per launch or node, of one execution; and
        ``used``. A job with several placements has the median of each, one with a single placement its repetitions.
    """
    jobs = rows[["runs", "card_name", "launch_path", "kernel"]].assign(run_id=rows["runs"].str.split(" "))
    jobs["trials"] = jobs["run_id"].str.len()
    jobs = jobs.explode("run_id")
    jobs["trial"] = jobs.groupby(["runs", "launch_path", "kernel"]).cumcount()
    own = tidy[tidy["mode"].isin(COMPARED_MODES)].merge(
        jobs.drop(columns="runs"), on=["run_id", "launch_path", "kernel"], how="inner"
    )
    own["each_us"] = own["gpu_us"] / own["launch_count"] / own["replays"].clip(lower=1)
    own["used"] = own["flag"] == ""
    job = ["card_name", "launch_count", "mode", "trial", "trials", "run_id"]
    single = own.groupby("run_id")["placement"].transform("nunique") == 1
    several = own[~single & own["used"]].groupby([*job, "attempt", "placement"], sort=True)["each_us"].median()
    placed = several.reset_index().rename(columns={"placement": "number"}).assign(used=True)
    repeated = own[single].rename(columns={"repetition": "number"})
    names = [*job, "number", "each_us", "used"]
    found = pd.concat([placed[names], repeated[names]], ignore_index=True)
    last = found.groupby(job)["number"].transform("max").clip(lower=1)
    return found.assign(place=found["number"] / last).drop(columns=["number", "run_id"])
