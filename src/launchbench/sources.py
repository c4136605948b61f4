"""Which modules decide which product: Snakemake sees a rule's command, not the code behind it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> tuple[str, ...]:
    return tuple(
        sorted(
            path.relative_to(PACKAGE).as_posix()
            for path in (PACKAGE / name).rglob("*")
            if path.suffix in (".py", ".j2") and not path.name.startswith(".")
        )
    )


MEASURING_MODULES = (
    "measure/driver.py",
    "measure/job.py",
    "measure/native.py",
    "measure/timing.py",
    "results/protocol.py",
)
"""A change here makes a new measurement necessary."""

AGGREGATING_MODULES = (*_folder("aggregate"), *_folder("results"), "wording.py")
"""A change here makes the tables anew."""

REPORTING_MODULES = (*_folder("report"), "wording.py")
"""A change here renders the report anew."""


def sources(*modules: str) -> list[str]:
    """Files of the running package, relative to the working folder where they lie in it."""
    here = Path.cwd().resolve()
    paths = (PACKAGE / module for module in modules)
    return [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths]
