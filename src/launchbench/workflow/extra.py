"""Which extra jobs of a kind a run has to do, one a card; as ``plan``, light to import, and nothing here writes."""

from __future__ import annotations

import json
from pathlib import Path

from launchbench.results.layout import find_files, job_kind
from launchbench.workflow.plan import Plan


class ExtraPlan:
    """Receipts and cached files of the jobs of one kind in one run."""

    def __init__(self, plan: Plan, kind: str) -> None:
        """For one run.

        Args:
            plan: of that run.
            kind: one of ``config.model.Extra``.
        """
        self._plan = plan
        self._kind = kind

    def cards(self) -> list[tuple[str, str]]:
        """(label, card) of each job, sorted.

        Raises:
            LaunchbenchError: the visible cards cannot be found out.
        """
        if self._kind not in self._plan.config.extras:
            return []
        pairs = sorted(self._plan.cards())
        return [pair for pair in pairs if pair[1] != "any" or self._plan.again() or not self._is_stored(*pair)]

    def receipts(self) -> list[str]:
        """Receipts of all jobs."""
        return [self.receipt(*pair) for pair in self.cards()]

    def receipt(self, label: str, card: str) -> str:
        """Path of the receipt that says the job has been done; as ``Plan.receipt`` counts those that were lost."""
        lost = sum(not self._plan.is_kept(path) for path in self._receipts(label, card))
        return str(self._folder(label, card) / f"{self._kind}.{lost}.json")

    def cached(self) -> str:
        """Identity of the results of this kind that no job of this run can add to."""
        own = set(self.cards())
        found = (path for path in find_files(self._plan.results) if job_kind(path) == self._kind)
        return self._plan.identity(path for path in found if not self._belongs(path, own))

    def protocol(self, *names: str) -> str:
        """What decides a job, as text: a change of these settings does it again, any other does not."""
        return json.dumps({name: getattr(self._plan.config, name) for name in names})

    def _folder(self, label: str, card: str) -> Path:
        return Path(self._plan.config.build_dir) / "cells" / self._plan.site / label / card

    def _receipts(self, label: str, card: str) -> list[Path]:
        return list(self._folder(label, card).glob(f"{self._kind}.*.json"))

    def _is_stored(self, label: str, card: str) -> bool:
        """Whether a card of this label has a result, and no receipt says whose: what a queue did is done once."""
        if any(self._plan.is_kept(path) for path in self._receipts(label, card)):
            return False
        folder = self._plan.results / self._plan.site / label
        return any(job_kind(path) == self._kind for path in folder.glob("*/*.json"))

    def _belongs(self, path: Path, own: set[tuple[str, str]]) -> bool:
        site, label, card = path.parts[-4:-1]
        return site == self._plan.site and any((label, name) in own for name in (card, "any"))
