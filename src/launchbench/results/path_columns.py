"""Columns of the table of launch paths that could not be measured; as ``columns``, light to import."""

from __future__ import annotations

from launchbench.results.columns import IDENTITY, Column
from launchbench.results.protocol import KERNELS, LAUNCH_PATHS, MAX_LAUNCH_COUNT

UNMEASURED: tuple[Column, ...] = (
    *(column for column in IDENTITY if column.name != "protocol_hash"),
    Column("trial", "int", "number of this fresh process among those of its cell, from 1", minimum=1),
    Column("launch_path", "str", "launch path that was asked for", choices=LAUNCH_PATHS),
    Column("kernel", "str", "kernel; empty where it is all of them", choices=("", *KERNELS)),
    Column("launch_count", "int", "N", minimum=1, maximum=MAX_LAUNCH_COUNT),
    Column("reason", "str", "why it could not be measured there"),
)
"""One row per job and launch path, or launch path and kernel, that its record states as not measured."""
