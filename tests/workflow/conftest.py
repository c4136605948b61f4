"""A copy of the project as a fresh clone would be, and the real Snakemake run in it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config.yaml", "requirements-nvcc.lock", "workflow", "profiles", "src/graphs.cu")


@dataclass(frozen=True)
class Run:
    """One finished Snakemake call."""

    status: int
    text: str


@dataclass(frozen=True)
class Clone:
    """A project folder without build, .snakemake or results."""

    path: Path

    def snakemake(self, *arguments: str, cores: int = 1, **environment: str) -> Run:
        """Run `snakemake` in the clone; standard output and error together."""
        command = [sys.executable, "-m", "snakemake", "--cores", str(cores), *arguments]
        done = subprocess.run(
            command,
            cwd=self.path,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return Run(done.returncode, done.stdout)

    def planned(self, *arguments: str, **environment: str) -> set[str]:
        """Rules that a dry run would start, without `all`."""
        run = self.snakemake("-n", "--quiet", "rules", *arguments, **environment)
        assert run.status == 0, run.text
        shown = self.snakemake("-n", *arguments, **environment).text
        known = ("build", "measure", "aggregate", "report")
        return {name for name in known if f"\n{name} " in shown}

    @property
    def page(self) -> str:
        """The rendered report."""
        return (self.path / "reports" / "comparison.html").read_text(encoding="utf-8")

    def results(self) -> dict[str, str]:
        """Relative path -> checksum of every file under results/."""
        root = self.path / "results"
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in root.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def make_clone(tmp_path: Path) -> Callable[[], Clone]:
    """Makes a clone in a folder of its own; its path has a space in it."""

    def make() -> Clone:
        clone = tmp_path / "a clone"
        for part in PARTS:
            source, target = PROJECT / part, clone / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)
        (clone / "results").mkdir()
        return Clone(clone)

    return make
