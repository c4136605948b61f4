"""Cards of one type against each other."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import pandas as pd
import pytest

from launchbench.aggregate.spread import APART, FEW_PROCESSES, NO_SPREAD, NOT_APART, spread
from launchbench.report.between import cards_of_a_type

PAIR = (("aa", 4.0), ("bb", 5.0))


def row(card: str, loop: float, replay: float = 0.5, **more: Any) -> list[dict[str, Any]]:
    """The two rows of one process, microseconds per launch and node."""
    fixed = {"label": "h200", "gpu_name": "NVIDIA H200", "gpu_uuid": f"GPU-{card}", "card": card, "hostname": "one"}
    fixed |= {"cpu_model": "Xeon", "driver_version": "580", "nvcc": "13.0.88", "protocol_hash": "aa", "virtual": False}
    fixed |= {"launch_path": "native-driver", "kernel": "tiny", "launch_count": 512, "superseded": False}
    fixed |= more
    sides = (("loop", loop), ("replay", replay), ("queued", loop))
    return [{"mode": mode, "gpu_us": each * fixed["launch_count"], **fixed} for mode, each in sides]


def found(*rows: list[dict[str, Any]]) -> pd.DataFrame:
    return spread(pd.DataFrame([*chain(*rows)])).set_index("mode")


def test_smallest_and_largest_card_and_how_far_apart() -> None:
    table = found(row("aa", 4.0, 0.50), row("bb", 5.0, 0.52), row("cc", 4.4, 0.51, hostname="two"))
    loop = table.loc["loop"]
    assert (loop["cards"], loop["hosts"], loop["processes"]) == (3, 2, 3)
    assert (loop["smallest_card"], loop["smallest_us"], loop["largest_card"], loop["largest_us"]) == ("aa", 4, "bb", 5)
    assert loop["median_us"] == 4.4
    assert loop["spread_percent"] == pytest.approx(100 / 4.4)
    assert table.loc["replay"]["spread_percent"] == pytest.approx(100 * 0.02 / 0.51)
    assert set(table["verdict"]) == {FEW_PROCESSES}


@pytest.mark.parametrize(
    "more",
    [
        {"driver_version": "590"},
        {"nvcc": "12.9.86"},
        {"cpu_model": "EPYC"},
        {"protocol_hash": "bb"},
        {"gpu_name": "NVIDIA H200 NVL"},
        {"virtual": True},
        {"launch_count": 8},
        {"kernel": "empty"},
        {"superseded": True},
        {"gpu_us": math.nan},
        {"card": "aa", "gpu_uuid": "GPU-aa"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_only_what_is_alike_is_pooled(more: dict[str, Any]) -> None:
    assert found(row("aa", 4.0), [one | more for one in row("bb", 5.0)]).empty


def test_unknown_is_alike_with_unknown() -> None:
    assert len(found(row("aa", 4.0, cpu_model=None), row("bb", 5.0, cpu_model=None))) == 2


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((4.0, 4.1, 3.9), (5.0, 5.1, 4.9), APART),
        ((4.0, 4.6, 3.6), (4.2, 4.7, 3.7), NOT_APART),
        ((4.0, 4.0, 4.0), (5.0, 5.0, 5.0), NO_SPREAD),
        ((4.0, 4.1, 3.9), (5.0, 5.1), FEW_PROCESSES),
    ],
)
def test_cards_differ_only_by_more_than_processes_on_one_do(
    first: tuple[float, ...], second: tuple[float, ...], verdict: str
) -> None:
    loop = found(*(row("aa", us) for us in first), *(row("bb", us) for us in second)).loc["loop"]
    assert (loop["verdict"], loop["cards"], loop["processes"]) == (verdict, 2, len(first) + len(second))
    assert loop["smallest_us"] == pytest.approx(sum(first) / len(first))


def test_nothing_measured() -> None:
    assert list(spread(pd.DataFrame(row("aa", 4.0)).iloc[:0]).columns)[-2:] == ["spread_percent", "verdict"]


def test_the_page_shows_the_types_in_its_order_with_both_cards() -> None:
    rows = [row(card, us, **more) for more in ({}, {"launch_count": 8}, {"label": "a100"}) for card, us in PAIR]
    rows += [row(card, us, label="h200", virtual=True) for card, us in PAIR]
    table = cards_of_a_type(spread(pd.DataFrame([*chain(*rows)])), (("h200", False), ("a100", False), ("h200", True)))
    assert [[cell.text for cell in line[:5]] for line in table.rows[:3]] == [
        ["h200", "native-driver", "tiny", "loop", "8"],
        ["h200", "native-driver", "tiny", "loop", "512"],
        ["h200", "native-driver", "tiny", "replay", "8"],
    ]
    assert [line[0].text for line in table.rows[4::2]] == ["a100", "h200 (simulated)"]
    assert table.simulated
    told = [cell.text for cell in table.rows[0]][5:]
    assert told == ["2", "1", "2", "4.50", "4.00", "5.00", "22 %", FEW_PROCESSES]
    assert [table.rows[0][at].title for at in (9, 10)] == ["card aa", "card bb"]
