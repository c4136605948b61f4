"""How often `launchbench compare` errs: simulated studies of one card against each other, by the command's functions.

    python benchmarks/verdict.py [--studies 200] [--trials 3] [--placements 700] [--seed 1]

Each study is compared with another of the same card, and with one of a card whose nodes take 3 % longer, where every
replay of N >= 64 should be slower and every loop, which the host decides, the same. Wrong is any other verdict but
"cannot tell"; for A against A the aim among replays of N >= 64 is at most 5 % wrong and at most 10 % "cannot tell".
The cost model is that of interval_coverage.py. Needs no card.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from interval_coverage import COUNTS, PLACEMENTS, Cell, draw_cell

from launchbench.compare.model import Row
from launchbench.compare.rows import compare
from launchbench.compare.side import Side, side_of

SLOWER = 1.03
AIMED_FROM = 64
WRONG_AT_MOST, OPEN_AT_MOST = 0.05, 0.10


def study_side(name: str, study: Mapping[int, Cell]) -> Side:
    """What the command would have read of a study: a row for each job and mode."""
    return side_of(name, _rows(name, study))


def _rows(name: str, study: Mapping[int, Cell]) -> Iterator[dict[str, object]]:
    for count, cell in study.items():
        for mode, figures in (("loop", cell.loop), ("replay", cell.replay)):
            for trial, gpu_us in enumerate(figures, 1):
                yield {
                    "site": "simulation",
                    "label": "model",
                    "card": "00000000",
                    "gpu_name": "cost model",
                    "gpu_uuid": "GPU-00000000-0000-0000-0000-000000000000",
                    "hostname": "none",
                    "cpu_model": "",
                    "driver_version": "none",
                    "nvcc": "none",
                    "protocol_hash": "0" * 12,
                    "virtual": True,
                    "run_id": f"{name}-{count}-{trial}",
                    "started_utc": "2026-01-01T00:00:00Z",
                    "trial": trial,
                    "launch_path": "native-driver",
                    "kernel": "tiny",
                    "launch_count": count,
                    "mode": mode,
                    "placements": PLACEMENTS,
                    "repetitions_used": 1,
                    "repetitions_flagged": 0,
                    "flags": "",
                    "gpu_us": gpu_us,
                    "placement_low_us": gpu_us,
                    "placement_high_us": gpu_us,
                    "issue_us": gpu_us if mode == "loop" else 3.0,
                    "total_us": gpu_us + 4.0,
                    "once_us": cell.once[trial - 1],
                    "superseded": False,
                }


def kind_of(row: Row) -> str:
    """Cells that have one aim."""
    if row.mode == "loop":
        return "loop, host-bound"
    return f"replay, N >= {AIMED_FROM}" if row.launch_count >= AIMED_FROM else f"replay, N < {AIMED_FROM}"


def expected(row: Row, node_factor: float) -> str | None:
    """The right verdict; None where the model leaves it open."""
    if row.mode == "loop" or node_factor == 1:
        return "same"
    return "slower" if row.launch_count >= AIMED_FROM else None


def main() -> None:
    """Print the shares of verdicts for each kind of cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--placements", type=int, default=700)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    said: dict[tuple[str, str], Counter[str]] = {}
    wrong: Counter[tuple[str, str]] = Counter()

    def draw(node_factor: float = 1.0) -> dict[int, Cell]:
        return {count: draw_cell(rng, count, given.trials, node_factor, given.placements) for count in COUNTS}

    for _ in range(given.studies):
        first = study_side("A", draw())
        for name, factor in (("A against A", 1.0), (f"nodes {SLOWER - 1:.0%} slower", SLOWER)):
            for row in compare(first, study_side("B", draw(factor))).rows:
                key = (name, kind_of(row))
                said.setdefault(key, Counter())[row.verdict] += 1
                right = expected(row, factor)
                wrong[key] += right is not None and row.verdict not in (right, "cannot tell")

    print(f"{given.studies} studies, {given.trials} trials, {given.placements} placements, seed {given.seed}")
    order = ("same", "faster", "slower", "cannot tell")
    print(f"{'compared':20}{'cells':20}{'number':>8}" + "".join(f"{word:>13}" for word in order) + f"{'wrong':>9}")
    for key, words in said.items():
        total = words.total()
        shares = "".join(f"{words[word] / total:13.1%}" for word in order)
        open_aim = key == (f"nodes {SLOWER - 1:.0%} slower", f"replay, N < {AIMED_FROM}")
        print(f"{key[0]:20}{key[1]:20}{total:8}{shares}" + (f"{'-':>9}" if open_aim else f"{wrong[key] / total:9.1%}"))
    aimed = f"replay, N >= {AIMED_FROM}"
    told, total = said["A against A", aimed], said["A against A", aimed].total()
    errors, unclear = wrong["A against A", aimed] / total, told["cannot tell"] / total
    met = errors <= WRONG_AT_MOST and unclear <= OPEN_AT_MOST
    print(
        f"A against A, {aimed}: {errors:.1%} wrong (aim: at most {WRONG_AT_MOST:.0%}), {unclear:.1%} cannot tell "
        f"(aim: at most {OPEN_AT_MOST:.0%}): {'met' if met else 'not met'}"
    )


if __name__ == "__main__":
    main()
