"""Which modules decide which product: Snakemake sees a rule's command, not the code behind it."""

from __future__ import annotations

import hashlib
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
    "measure/blocks.py",
    "measure/driver.py",
    "measure/gate.py",
    "measure/graphs.py",
    "measure/job.py",
    "measure/kernels.py",
    "measure/modes.py",
    "measure/native.py",
    *_folder("measure/paths"),
    "measure/placements.py",
    "measure/timing.py",
    "results/protocol.py",
)
"""A change here makes a new measurement necessary."""

POINTERS_MODULES = (*_folder("pointers"), "measure/driver.py", "measure/native.py")
"""A change here makes the pointers jobs necessary anew."""

LENGTHS_MODULES = (
    "measure/driver.py",
    "measure/graphs.py",
    "measure/kernels.py",
    "measure/lengths.py",
    "measure/lengths_job.py",
    "measure/native.py",
    "measure/timing.py",
    "results/lengths_words.py",
)
"""A change here makes the lengths jobs necessary anew."""

DECODE_MODULES = (*_folder("decode"), "measure/driver.py", "results/decode_words.py")
"""A change here makes the decode jobs necessary anew."""

AGGREGATING_MODULES = (
    *_folder("aggregate"),
    *_folder("results"),
    "config/messages.py",
    "pointers/outcome.py",
    "wording.py",
)
"""A change here makes the tables anew."""

REPORTING_MODULES = (
    *_folder("report"),
    "aggregate/spread.py",
    "results/published.py",
    "results/published_columns.py",
    "wording.py",
)
"""A change here renders the report anew."""


def digest(*modules: str) -> str:
    """Identity of the contents of modules of the running package: 16 hex digits.

    A parameter of a rule and no input: a clone's files may have any time, also one in the future.
    """
    identity = hashlib.sha256()
    for module in modules:
        identity.update(f"{module}\n".encode() + (PACKAGE / module).read_bytes())
    return identity.hexdigest()[:16]


def file_digest(name: str) -> str:
    """Identity of the contents of one file, ``missing`` where there is none: the rule then says so."""
    path = Path(name)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing"
