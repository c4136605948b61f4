"""Launch paths that a job was asked for and could not measure, as its record states them, and the gaps they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from launchbench.aggregate.identity import identity, moments
from launchbench.results.files import Result
from launchbench.results.path_columns import UNMEASURED
from launchbench.wording import one_line

_CELL = ["site", "label", "card", "virtual", "launch_path", "kernel", "launch_count"]


def unmeasured(results: Sequence[Result]) -> pd.DataFrame:
    """The columns of ``path_columns.UNMEASURED``, sorted by card, path, kernel, N and time."""
    rows: list[dict[str, Any]] = []
    for result in results:
        record = result.record
        shared = {
            **identity(result),
            "trial": record.trial,
            "launch_count": record.launch_count,
        }
        told = [(path, "", why) for path, why in record.paths_not_measured.items()]
        for path, kernels in record.kernels_not_measured.items():
            told += [(path, kernel, why) for kernel, why in kernels.items()]
        rows += [
            {**shared, "launch_path": path, "kernel": kernel, "reason": one_line(why)} for path, kernel, why in told
        ]
    frame = pd.DataFrame(rows, columns=[column.name for column in UNMEASURED])
    return frame.sort_values([*_CELL, "started_utc", "run_id"], kind="stable", ignore_index=True)


def open_gaps(stated: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """The newest statement of each card, path, kernel and N, but for those that a newer result has made good.

    Args:
        stated: the columns of ``path_columns.UNMEASURED``.
        summary: the columns of ``columns.SUMMARY``.
    """
    if stated.empty:
        return stated
    moment = moments(stated["started_utc"])
    order = stated.assign(moment=moment).sort_values("moment", kind="stable", na_position="first")
    newest = order.drop_duplicates(_CELL, keep="last")
    usable = summary[summary["speedup"].notna()]
    made = usable.assign(made=moments(usable["started_utc"])).groupby(_CELL)["made"].max()
    any_kernel = usable.assign(made=moments(usable["started_utc"]), kernel="").groupby(_CELL)["made"].max()
    good = pd.concat([made, any_kernel])
    keys = pd.MultiIndex.from_frame(newest[_CELL])
    since = pd.Series(good.reindex(keys).array, index=newest.index)
    return newest[~(since > newest["moment"])].drop(columns="moment").sort_index()


def gap_rows(stated: pd.DataFrame, summary: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``columns.GAPS``: one for each card, path and reason, whatever the N; arguments as above."""
    rows = []
    for row in open_gaps(stated, summary).sort_values("launch_count", kind="stable").to_dict("records"):
        kernel = f", kernel {row['kernel']}" if row["kernel"] else ""
        simulated = ", on a simulated GPU" if row["virtual"] else ""
        rows.append(
            {
                **{name: row[name] for name in ("site", "label", "card")},
                "launch_count": None,
                "reason": f"launch path {row['launch_path']}{kernel}{simulated}: not measured: {row['reason']}",
                "file": f"{row['site']}/{row['label']}/{row['card']}/{row['run_id']}.json",
            }
        )
    told = {(row["site"], row["label"], row["card"], row["reason"]): row for row in reversed(rows)}
    return list(told.values())
