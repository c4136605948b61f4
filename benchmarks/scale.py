"""How do planning, aggregation and report grow with the number of cards?

Makes a study of simulated cards (4 N, 3 trials each, raw files of about the real size: 4,500 repetitions a job) in a
copy of the project and times each step in a process of its own: wall clock, processor time, and the largest resident
memory of it and its children.

    PYTHONPATH=src:. python benchmarks/scale.py --cards 10 100 1000 --work /tmp/scale --out scale.json

Nothing in it is a measurement of a card: every result is marked virtual, its card is called "Synthetic test card",
its site "simulated". K cards are K * 12 cells, one for each N and trial.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from tests.unit.fabricate import LAUNCH_COUNTS, CostModel, uuid, write_job, write_sweep
from tests.workflow.conftest import clone_into

from launchbench.measure.job import write_receipt
from launchbench.results.layout import cell_of_name

LABELS = ("t4", "a100", "h100", "h200")
SITE = "simulated"
TRIALS = 3
MODES = ("queued", "loop-dependent", "replay-dependent", "fused-memory", "fused-register")
TEMPLATES = 20
"""So many cards have times of their own; those of the others are repeated, under other names."""
BUILT = ("graphs", "graphs.fatbin", "liblaunchloops.so", "build.json")


@dataclass(frozen=True)
class Step:
    """One timed command."""

    cards: int
    step: str
    wall_s: float
    cpu_s: float
    peak_mb: float
    said: str


class Study:
    """A copy of the project with the results of so many simulated cards."""

    def __init__(self, root: Path, cards: int) -> None:
        self.root = root
        self.results = root / "simulated-results"
        self.cards = cards
        self.steps: list[Step] = []

    def make(self) -> None:
        """The project and the results of all cards."""
        clone_into(self.root)
        settings = yaml.safe_load((self.root / "config.yaml").read_text())
        settings |= {"site": SITE, "results_dir": "simulated-results", "virtual_results": "allow", "pool_mib": 64}
        (self.root / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
        for card in range(self.cards):
            self.add_card(card)

    def add_card(self, card: int) -> None:
        """File the results of one card."""
        if card >= TEMPLATES:
            repeat_card(self.results / SITE / LABELS[card % len(LABELS)], card % TEMPLATES, card)
        else:
            write_sweep(self.results, trials=TRIALS, **_default_study(card))

    def add_job(self, card: int, run: int) -> Path:
        """File one job of a card again, ``run`` hours later; the path of its record."""
        return write_job(self.results, LAUNCH_COUNTS[0], run=run, **_default_study(card))

    def time(self, step: str, *arguments: str, visible: int | None = None) -> str:
        """Run ``python -m ...`` in the study and keep what it took; what it wrote is returned.

        Args:
            step: name of the row.
            arguments: what comes after ``python -m``.
            visible: plan for these many cards; None where no card is visible.
        """
        pairs = [(LABELS[number % len(LABELS)], uuid(number)[4:12]) for number in range(visible or 0)]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root / "src"),
            "LAUNCHBENCH_VISIBLE_CARDS": json.dumps(pairs),
        }
        log = self.root / "step.log"
        begun = time.monotonic()
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=self.root,
                env=environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
        text = log.read_text()
        if status:
            sys.exit(f"{step}: status {status}\n{text[-3000:]}")
        said = "; ".join(line for line in text.splitlines() if line.startswith("aggregate: "))
        self.steps.append(Step(self.cards, step, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, said))
        print(f"{self.cards:>5} {step:<42} {wall:7.1f} s {used.ru_utime + used.ru_stime:7.1f} s CPU", file=sys.stderr)
        return text

    def planned(self, step: str, visible: int) -> int:
        """Time a dry run; the number of measurements it would start."""
        text = self.time(step, "snakemake", "-n", "--cores", "2", "--quiet", "rules", visible=visible)
        counts = re.findall(r"^measure +(\d+)$", text, re.MULTILINE)
        return int(counts[0]) if counts else 0

    def make_receipts(self) -> None:
        """What Snakemake would have kept, had every cell been measured by it."""
        results = self.results
        labels = {uuid(number)[4:12]: LABELS[number % len(LABELS)] for number in range(self.cards)}
        for name in BUILT:
            (self.root / "build" / "cuda").mkdir(parents=True, exist_ok=True)
            (self.root / "build" / "cuda" / name).write_bytes(b"simulated\n")
        for record in sorted(results.rglob("*.json")):
            card, cell = record.parent.name, cell_of_name(record.name)
            if card in labels and cell:
                folder = self.root / "build" / "cells" / SITE / labels[card] / card
                write_receipt(folder / f"n{cell[0]}.t{cell[1]}.0.json", record, results)
        # One card by Snakemake itself, the others in the same words.
        self.time("(make receipts)", "snakemake", "--touch", "--forceall", "--cores", "1", "--quiet", "all", visible=1)
        self.steps.pop()
        kept = self.root / ".snakemake" / "metadata"
        known = [path.read_text() for path in kept.iterdir()]
        model = next(text for text in known if json.loads(text)["rule"] == "measure")
        own = re.search(r"logs/measure/(\S+)/(\S+)/(\S+)/n(\d+)\.t(\d+)\.0\.log", model)
        for receipt in sorted((self.root / "build" / "cells").glob("*/*/*/*.json")):
            name = receipt.relative_to(self.root).as_posix()
            site, label, card, file = name.split("/")[2:]
            text = model.replace("/".join(own.group(1, 2, 3)), f"{site}/{label}/{card}")
            for flag, old, new in (("label", own[2], label), ("card", own[3], card)):
                text = text.replace(f"--{flag}={old} ", f"--{flag}={new} ")
            count, trial = re.fullmatch(r"n(\d+)\.t(\d+)\.0\.json", file).groups()
            text = text.replace(f"--launch-count={own[4]} ", f"--launch-count={count} ")
            text = text.replace(f"--trial={own[5]} ", f"--trial={trial} ")
            text = text.replace(f"/n{own[4]}.t{own[5]}.0.", f"/n{count}.t{trial}.0.")
            (kept / base64.urlsafe_b64encode(name.encode()).decode()).write_text(text)


def _default_study(card: int) -> dict[str, Any]:
    """What all jobs of a card have in common."""
    return {
        "card": card,
        "label": LABELS[card % len(LABELS)],
        "site": SITE,
        "placements": 700,
        "full_placements": 25,
        "other_placements": 25,
        "modes": MODES,
        "model": CostModel(issue=4 + card % 10 / 10, node=0.7 + card % 7 / 10),
        "virtual": True,
        "edit": _as_real,
    }


def _as_real(_: dict[str, Any], raw: pd.DataFrame) -> pd.DataFrame:
    """As many digits as the clocks and the places of a real card give."""
    return raw.assign(offset_bytes=raw["offset_bytes"] + 2**28, start_us=raw["start_us"] + 250_000).round(3)


def repeat_card(folder: Path, template: int, card: int) -> None:
    """File the results of a card again as those of another; ``folder`` is that of their label."""
    old, new = uuid(template), uuid(card)
    target = folder / new[4:12]
    target.mkdir()
    for record in sorted((folder / old[4:12]).glob("*.json")):
        run = record.stem.replace(old[4:12], new[4:12])
        text = record.read_text().replace(record.stem, run).replace(old, new)
        shutil.copyfile(record.with_suffix(".csv"), target / f"{run}.csv")
        (target / f"{run}.json").write_text(text)


def run(work: Path, cards: int) -> list[Step]:
    """All steps of one study, whose folder stays."""
    study = Study(work / str(cards), cards)
    study.make()
    expected = cards * len(LAUNCH_COUNTS) * TRIALS
    aggregate = ("launchbench", "aggregate")
    check(study.planned("plan, nothing measured", cards), expected)
    study.time("aggregate, cold", *aggregate)
    study.time("aggregate, nothing new", *aggregate)
    study.time("report", "launchbench", "report")
    study.add_card(cards)
    study.time("aggregate, one more card", *aggregate)
    study.time("report, one more card", "launchbench", "report")
    study.make_receipts()
    check(study.planned("plan, all measured", cards), 0)
    study.add_card(cards + 1)
    snakemake = ("snakemake", "--cores", "2", "--quiet", "all")
    study.time("one more card by snakemake, none visible", *snakemake)
    study.add_card(cards + 2)
    study.time("one more card by snakemake, all measured", *snakemake, visible=cards)
    return study.steps


def check(found: int, expected: int) -> None:
    """End where a plan is not the one that is to be timed."""
    if found != expected:
        sys.exit(f"the plan has {found} measurements; expected {expected}")


def table(steps: Sequence[Step], cards: Sequence[int]) -> str:
    """A row for each step; per number of cards wall clock, processor time and memory, last how the time grows.

    An exponent of 1 is linear: from the second largest number of cards to the largest, by processor time.
    """
    by = {(step.step, step.cards): step for step in steps}
    lines = ["| step | " + " | ".join(f"{count:,} cards" for count in cards) + " | exponent |"]
    lines.append("|---" * (len(cards) + 2) + "|")
    for name in dict.fromkeys(step.step for step in steps):
        own = [by[name, count] for count in cards]
        cells = [f"{one.wall_s:.1f} s, {one.cpu_s:.1f} s, {one.peak_mb:,.0f} MB" for one in own]
        exponent = ""
        if len(own) > 1:
            exponent = f"{math.log(own[-1].cpu_s / own[-2].cpu_s) / math.log(cards[-1] / cards[-2]):.2f}"
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {exponent} |")
    return "\n".join(lines)


def main() -> None:
    """Make and time the studies and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cards", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--work", type=Path, required=True, help="new folder; about 10 MB a card")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    parser.add_argument("--keep", action="store_true", help="leave the studies in the folder")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True)
    steps: list[Step] = []
    for cards in arguments.cards:
        steps += run(arguments.work, cards)
        if arguments.out:
            arguments.out.write_text(json.dumps([asdict(step) for step in steps], indent=1) + "\n")
    if not arguments.keep:
        shutil.rmtree(arguments.work)
    print("each: wall clock, processor time, largest resident memory")
    print(table(steps, arguments.cards))


if __name__ == "__main__":
    main()
