"""Which modules decide which product: Snakemake sees a rule's command, not the code behind it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

MEASURING_MODULES = ("driver.py", "job.py", "measure.py", "native.py", "protocol.py")
"""A change here makes a new measurement necessary."""

AGGREGATING_MODULES = (
    "aggregate.py",
    "columns.py",
    "flags.py",
    "gaps.py",
    "record.py",
    "results.py",
    "stats.py",
    "summarise.py",
    "tables.py",
    "wording.py",
)
"""A change here makes the tables anew."""

REPORTING_MODULES = (
    "cells.py",
    "comparison.py",
    "explain.py",
    "figures.py",
    "origins.py",
    "report.py",
    "sections.py",
    "sidebyside.py",
    "templates/comparison.css.j2",
    "templates/comparison.html.j2",
    "wording.py",
)
"""A change here renders the report anew."""


def sources(*modules: str) -> list[str]:
    """Files of the running package, relative to the working folder where they lie in it."""
    here = Path.cwd().resolve()
    paths = (PACKAGE / module for module in modules)
    return [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths]
