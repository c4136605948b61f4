"""What the page opens with, for outcomes of every kind; and what its tables sort by."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from launchbench.report.answer import answer
from launchbench.report.cells import Cell, Table, count, quantity, row_anchor, spanned

NO_CROSSOVERS = pd.DataFrame(columns=["card_name", "virtual", "verdict", "helps_until_us", "no_help_from_us"])
NO_POINTS = pd.DataFrame(
    columns=["card_name", "virtual", "batch", "speedup", "repetitions_used", "launches", "eager_us", "eager_issue_us"]
)


def row(
    card: str, n: int, low: float, speedup: float, high: float, paid: float, virtual: bool = False
) -> dict[str, Any]:
    known = {"speedup": speedup, "speedup_low": low, "speedup_high": high, "break_even_replays": paid}
    known |= {"break_even_replays_low": math.nan, "break_even_replays_high": math.nan}
    return {"card_name": card, "launch_count": n, "virtual": virtual, "protocol_hash": "0a", **known}


def told(rows: list[dict[str, Any]], crossovers: pd.DataFrame = NO_CROSSOVERS, points: pd.DataFrame = NO_POINTS) -> str:
    frame = pd.DataFrame(rows, columns=list(row("", 0, 0, 0, 0, 0)))
    comparison: Any = SimpleNamespace(rows=lambda _: frame)
    return " ".join(text for text, _ in answer(comparison, "native-driver", crossovers, points))


def test_graphs_that_help_everywhere() -> None:
    rows = [row("h200", 8, 2.8, 3.0, 3.2, 4), row("h200", 512, 4.2, 4.9, 5.6, 2)]
    text = told(rows)
    assert text.startswith(
        "Graphs help. For kernels that do next to nothing, one graph replay is 3.00 to 4.90 times as "
    )
    assert "(N = 8 to 512, 1 card)." in text and text.endswith("has paid for being made after 2 to 4 replays.")


def test_rows_of_two_protocols_are_told_as_such() -> None:
    rows = [row("a", 8, 2.8, 3.0, 3.2, 4), row("b", 8, 2.8, 3.1, 3.2, 4) | {"protocol_hash": "0b"}]
    assert "(N = 8, 2 cards under 2 protocols, so not like for like)." in told(rows)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((2.0, 6.0), "reach from 2 to 6"),
        ((2.0, math.inf), "reach from 2 to never"),
        ((4.0, 4.0), "hold no other number"),
    ],
)
def test_break_even_is_told_with_what_its_intervals_reach(ends: tuple[float, float], words: str) -> None:
    one = row("h200", 8, 2.8, 3.0, 3.2, 4) | {"break_even_replays_low": ends[0], "break_even_replays_high": ends[1]}
    assert told([one]).endswith(f"after 4 replays; the intervals {words}.")


def test_graphs_that_help_nowhere_or_here_and_there() -> None:
    slow = row("a", 8, 0.5, 0.6, 0.7, math.inf)
    assert told([slow]).startswith("Graphs do not help. ") and "never pays for being made" in told([slow])
    mixed = told([slow, row("b", 8, 1.5, 1.6, 1.7, 3), row("c", 8, 0.9, 1.0, 1.1, math.inf)])
    assert mixed.startswith("Whether graphs help depends") and "faster in 1 of 3 cells and slower in 1." in mixed
    assert mixed.endswith("after 3 replays at best, in some cells never.")


def test_simulated_cards_are_told_only_where_there_is_no_other() -> None:
    real, virtual = row("t4", 8, 2.0, 2.1, 2.2, 1), row("x", 8, 9.0, 9.1, 9.2, 9, virtual=True)
    assert "9" not in told([real, virtual]) and "1 card)" in told([real, virtual])
    assert "9.10 times" in told([virtual]) and "1 simulated card)" in told([virtual])


def test_where_graphs_stop_helping_and_a_real_step() -> None:
    crossed = pd.DataFrame(
        [
            ("h200", False, "reached", 20.0, 50.0),
            ("t4", False, "reached", 10.0, 20.0),
            ("t4", False, "cannot-tell", np.nan, np.nan),
        ],
        columns=NO_CROSSOVERS.columns,
    )
    points = pd.DataFrame(
        [
            ("h200", False, 1, 6.19, 40, 459, 7000.0, 6990.0),
            ("h200", False, 256, 1.09, 40, 459, 9000.0, 7000.0),
            ("h200", False, 512, 9.0, 0, 459, 9000.0, 7000.0),
        ],
        columns=NO_POINTS.columns,
    )
    text = told([], crossed, points)
    assert "kernels of 10 to 20 µs, and no longer with 20 to 50 µs (2 cards, in 2 of 3 cases)." in text
    assert text.endswith("runs 6.19 times as fast at batch 1, and 1.09 times at batch 256 (1 card).")
    slowed = points.head(1).assign(speedup=11.0, eager_us=13000.0, eager_issue_us=12990.0)
    text = told([], points=pd.concat([points, slowed], ignore_index=True))
    assert text.endswith("(1 card); the host itself was faster or slower meanwhile, and the speed-ups vary with it.")
    assert told([]) == ""


@pytest.mark.parametrize(
    ("cell", "text", "exact"),
    [
        (quantity(1234.5678), "1,230", "1234.5678"),
        (quantity(math.inf, "never"), "never", "Infinity"),
        (quantity(math.nan), "–", None),  # noqa: RUF001
        (count(4096), "4,096", "4096.0"),
        (spanned([3.0, math.nan, 2.0]), "2.00–3.00", "2.0"),  # noqa: RUF001
        (quantity(np.float64(0.5)), "0.500", "0.5"),
    ],
)
def test_a_cell_shows_a_rounded_number_and_keeps_the_exact_one(cell: Cell, text: str, exact: str | None) -> None:
    assert cell.text == text and (cell.exact if cell.value is not None else None) == exact


def test_rows_that_belong_together_are_not_sorted_apart() -> None:
    plain = [[Cell("a"), Cell("b")]] * 3
    assert Table("t", "", [], plain).sortable and not Table("t", "", [], plain[:1]).sortable
    assert not Table("t", "", [], [[Cell("a", rowspan=2), Cell("b")], [Cell("c")]]).sortable


def test_rows_of_other_cells_have_other_places() -> None:
    one = {"card_name": "a", "launch_path": "x", "kernel": "tiny", "launch_count": 8, "protocol_hash": "0"}
    places = {
        row_anchor(one | change) for change in ({}, {"kernel": "empty"}, {"launch_count": 88}, {"card_name": "\ud800"})
    }
    assert len(places) == 4
