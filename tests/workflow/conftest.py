"""A copy of the project as a fresh clone would be, and the real Snakemake run in it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.workflow.forked import LIMIT_S, Running, forks, kill_group

PROJECT = Path(__file__).parents[2]
PARTS = (
    "Snakefile",
    "config.yaml",
    "requirements-nvcc.lock",
    "workflow",
    "profiles",
    "src/graphs.cu",
    "src/launchbench",
)
SHORT = {
    "trials": 1,
    "placements": 3,
    "full_placements": 2,
    "pool_mib": 1,
    "repetitions": 6,
    "warmup_rounds": 1,
    "warmup_ms": 0,
    "cure_repetitions": 12,
    "length_repetitions": 6,
    "extras": [],
}
"""Settings with which a job has little to do."""

TABLES = ("--until", "aggregate")
"""Up to the tables: the page takes longer than all the rest."""

READ_AT_START = {"HOME", "LC_ALL", "PYTHONHASHSEED", "TMPDIR"}
"""Variables that Python, or Snakemake while it is imported, reads once."""

RULES = ("build", "measure", "pointers", "lengths", "decode", "aggregate", "report")


@dataclass(frozen=True)
class Run:
    """One finished Snakemake call."""

    status: int
    text: str

    @property
    def said(self) -> list[str]:
        """The lines that launchbench itself has written."""
        return [line for line in self.text.splitlines() if line.startswith("launchbench: ")]

    def started(self, rule: str) -> int:
        """How many jobs of the rule the run, or the dry run, names in its table."""
        counts = [line.split() for line in self.text.splitlines() if line.startswith(f"{rule} ")]
        return next((int(words[1]) for words in counts if len(words) == 2 and words[1].isdigit()), 0)


@dataclass(frozen=True)
class Clone:
    """A project folder without .snakemake; ``environment`` is that of the processes that run in it."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def variables(self, **more: str) -> dict[str, str]:
        """The whole environment of a process in the clone, which uses the clone's own package."""
        # Tracing nearly doubles what a workflow costs, and what its commands do is covered without Snakemake.
        values = {name: value for name, value in self.environment.items() if not name.startswith("COVERAGE_")} | more
        values["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.path / "src"), values.get("PYTHONPATH")]))
        return values

    def snakemake(self, *arguments: str, cores: int | None = 1, anew: bool = False, **environment: str) -> Run:
        """Run `snakemake` in the clone, forked unless ``anew``; standard output and error together."""
        if anew or environment.keys() & READ_AT_START:
            with self.start_anew(*arguments, cores=cores, **environment) as process:
                text, _ = process.communicate(timeout=LIMIT_S)
                return Run(process.returncode, text)
        with self.start(*arguments, cores=cores, **environment) as running:
            text = running.communicate()
            return Run(running.wait(), text)

    @contextlib.contextmanager
    def start(self, *arguments: str, cores: int | None = 1, **environment: str) -> Iterator[Running]:
        """`snakemake` in the clone, in a process group of its own, of which nothing is left afterwards."""
        variables = self.variables(**environment)
        runs = forks(*(variables.get(name, "") for name in ("LD_LIBRARY_PATH", "LD_PRELOAD")))
        running = runs.start(self.path, variables, *limit(cores), *arguments)
        with running.stdout:
            try:
                yield running
            finally:
                if running.returncode is None:
                    kill_group(running.pid)
                    running.wait()

    @contextlib.contextmanager
    def start_anew(self, *arguments: str, cores: int | None = 1, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """The same as processes that are forked from nothing: each starts a Python of its own."""
        command = [sys.executable, "-m", "snakemake", *limit(cores), *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.path,
            env=self.variables(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=take_interrupts,
        )
        with process:
            try:
                yield process
            finally:
                kill_group(process.pid)

    def planned(self, *arguments: str, **environment: str) -> set[str]:
        """Rules that a dry run would start, without `all`."""
        run = self.snakemake("-n", *arguments, **environment)
        assert run.status == 0, run.text
        return {rule for rule in RULES if run.started(rule)}

    def configure(self, **settings: Any) -> None:
        """Change keys of config.yaml."""
        path = self.path / "config.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **settings}, sort_keys=False))

    @property
    def page(self) -> str:
        """The rendered report."""
        return (self.path / "reports" / "comparison.html").read_text(encoding="utf-8")

    def results(self, folder: str = "results") -> dict[str, str]:
        """Relative path -> checksum of every file under the results folder."""
        root = self.path / folder
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in root.rglob("*")
            if path.is_file()
        }

    def copy(self, path: Path) -> Clone:
        """The same clone with everything that a run has left in it, in another place, file times included."""
        shutil.copytree(self.path, path, symlinks=True)
        return Clone(path, self.environment)


def limit(cores: int | None) -> list[str]:
    return [] if cores is None else ["--cores", str(cores)]


def take_interrupts() -> None:
    """For a process to be: tests that run in the background have them ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def clone_into(path: Path, environment: Mapping[str, str] | None = None) -> Clone:
    """A fresh clone, without results."""
    for part in PARTS:
        source, target = PROJECT / part, path / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    (path / "results").mkdir()
    return Clone(path, dict(os.environ) if environment is None else environment)


@pytest.fixture
def make_clone(tmp_path: Path) -> Callable[[], Clone]:
    """Makes a clone in a folder of its own; its path has a space in it."""
    return lambda: clone_into(tmp_path / "a clone")
