"""The table of cards of one type against each other. It computes no statistic."""

from __future__ import annotations

import pandas as pd

from launchbench.report.cells import (
    Cell,
    Table,
    any_simulated,
    count,
    cut,
    heads,
    kernel_name,
    label_name,
    path_name,
    quantity,
)
from launchbench.results.protocol import LAUNCH_PATHS
from launchbench.wording import number

MAX_ROWS = 200


def cards_of_a_type(spread: pd.DataFrame, labels: tuple[tuple[str, bool], ...]) -> Table:
    """How far apart identical cards are, a row for each type, launch path, kernel, N and mode.

    Args:
        spread: rows of ``columns.SPREAD``.
        labels: (label, simulated) in the order of the page.
    """
    rank = {label: position for position, label in enumerate(labels)}
    ordered = spread.assign(
        label_rank=[
            rank[label, bool(virtual)] for label, virtual in zip(spread["label"], spread["virtual"], strict=True)
        ],
        path_rank=spread["launch_path"].map({path: position for position, path in enumerate(LAUNCH_PATHS)}),
        control=spread["kernel"] == "empty",
    ).sort_values(["label_rank", "path_rank", "control", "mode", "launch_count"], kind="stable")
    body = [
        [
            Cell(label_name(row["label"], row["virtual"]), f"{row['gpu_name']}, {row['cpu_model']}", "row"),
            *map(
                Cell,
                (path_name(row["launch_path"]), kernel_name(row["kernel"]), row["mode"]),
            ),
            *(count(row[name]) for name in ("launch_count", "cards", "hosts", "processes")),
            quantity(row["median_us"]),
            quantity(row["smallest_us"], title=f"card {row['smallest_card']}"),
            quantity(row["largest_us"], title=f"card {row['largest_card']}"),
            quantity(row["spread_percent"], f"{number(row['spread_percent'], 2)} %"),
            Cell(row["verdict"]),
        ]
        for row in ordered.head(MAX_ROWS).to_dict("records")
    ]
    head = heads(
        *("label", "launch path", "kernel", "mode", "N", "cards"),
        ("host names", "two hosts of the same name, as virtual machines often have, count once"),
        ("processes", "trials of all cards together"),
        ("median card, µs", "per launch of the loop, per node of the replay"),
        ("smallest, µs", "the card with the smallest mean of its processes"),
        ("largest, µs", "the card with the largest mean"),
        ("spread", "(largest - smallest) / median"),
        ("verdict", "analysis of variance of the processes, at the 5 % level"),
    )
    caption = "Cards of one type, in hosts with the same CPU, under the same driver, compiler and protocol."
    return Table("between", caption, head, body, any_simulated(spread), cut(len(spread), MAX_ROWS, "spread.csv"))
