"""The committed JSON schemas, all generated from the code that validates."""

from __future__ import annotations

from pathlib import Path

from launchbench.config import schema_json
from launchbench.record import record_schema
from launchbench.results import write_atomically
from launchbench.tables import tables_schema

SCHEMAS = {
    "config.schema.json": schema_json,
    "record.schema.json": record_schema,
    "tables.json": tables_schema,
}
"""File name -> function that returns its text."""


def write_schemas(folder: Path) -> None:
    """Write all schemas into a folder.

    Raises:
        LaunchbenchError: the folder cannot be written.
    """
    for name, text in SCHEMAS.items():
        write_atomically(folder / name, text().encode())
