"""What does one new result cost: which jobs and cards are done again, and how long does it take?

Makes a study of simulated cards in a copy of the project, each with the default study (4 N, 3 trials, raw files of
the real size), has Snakemake make its report, files one more job of one card, and runs Snakemake again, as often as
it is told to. Ends with status 1 where more was done than that job makes necessary.

    PYTHONPATH=src:. python benchmarks/regenerate.py --cards 3 --work /tmp/regenerate

Nothing in it is a measurement of a card: every result is marked virtual.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from scale import Study
from tests.unit.fabricate import uuid

SNAKEMAKE = ("snakemake", "--cores", "2", "all")
EXPECTED = {"aggregate": 1, "report": 1, "all": 1}
AIM_S = 15

Files = dict[str, tuple[int, int]]
"""Name below the study's folder -> number and time of the file: a file that is written again has others."""


def files_of_cards(root: Path) -> dict[str, Files]:
    """What is kept of each card, by the card: its entry of the cache and its repetitions, as ``tidy`` shows them."""
    found = {}
    for link in sorted((root / "build" / "tables" / "tidy").glob("*/*/*.parquet")):
        slot = next(path for path in (root / "build" / "cache").rglob("*.parquet") if path.samefile(link))
        entry = slot.with_name(f"{slot.name.split('-')[0]}.json")
        found[link.stem] = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (link, entry)}
    return found


def jobs_of(text: str) -> dict[str, int]:
    """How many jobs of each rule Snakemake has counted before it started them; empty where nothing was to be done."""
    _, _, counted = text.partition("\nJob stats:\n")
    found = re.findall(r"^(\w+) +(\d+)$", counted.partition("\n\n")[0], re.MULTILINE)
    return {rule: int(count) for rule, count in found if rule != "total"}


def regenerate(study: Study, run: int) -> list[str]:
    """File one more job of card 0, the ``run``-th, and let Snakemake do what it makes necessary; what was wrong."""
    before = files_of_cards(study.root)
    newest = study.add_job(card=0, run=run)
    jobs = jobs_of(study.time("after one new result", *SNAKEMAKE))
    after = files_of_cards(study.root)
    changed = [card for card in after if after[card] != before.get(card)]
    own = uuid(0)[4:12]
    page = (study.root / "reports" / "comparison.html").read_text(encoding="utf-8")
    told = ", ".join(f"{count} {rule}" for rule, count in jobs.items())
    print(f"  jobs: {told}; cards whose tables were made anew: {len(changed)} of {len(after)}")
    wrong = [] if jobs == EXPECTED else [f"jobs: {jobs}; expected {EXPECTED}"]
    wrong += [] if changed == [own] else [f"tables made anew of {changed}; expected {[own]}"]
    return wrong + ([] if newest.stem in page else [f"the page has no link to {newest.name}"])


def main() -> None:
    """Make the study, then time and check each further result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cards", type=int, default=3)
    parser.add_argument("--results", type=int, default=3, help="new results, one after the other")
    parser.add_argument("--work", type=Path, required=True, help="new folder; about 10 MB a card")
    arguments = parser.parse_args()
    study = Study(arguments.work, arguments.cards)
    study.make()
    study.time("from results alone", *SNAKEMAKE)
    wrong = [line for run in range(1, arguments.results + 1) for line in regenerate(study, run)]
    again = jobs_of(study.time("nothing new", *SNAKEMAKE))
    wrong += [f"without a new result: {again}"] if again else []
    shutil.rmtree(arguments.work)
    for step in study.steps:
        print(f"{step.step:<22} {step.wall_s:6.1f} s wall clock, {step.cpu_s:6.1f} s processor, {step.peak_mb:4.0f} MB")
    slowest = max(step.wall_s for step in study.steps if step.step == "after one new result")
    print(f"slowest new result: {slowest:.1f} s wall clock; the aim is {AIM_S} s on two cores with nothing else to do")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
