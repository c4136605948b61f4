"""The committed schemas and column lists, all generated from the code that validates."""

from __future__ import annotations

from pathlib import Path

from launchbench.compare.model import comparison_schema
from launchbench.config.messages import escaped
from launchbench.config.model import schema_json
from launchbench.errors import LaunchbenchError
from launchbench.export.summary import summary_schema
from launchbench.results.decode import decode_schema
from launchbench.results.files import write_atomically
from launchbench.results.lengths import lengths_schema
from launchbench.results.pointers import pointers_schema
from launchbench.results.record import record_schema
from launchbench.results.tables import columns_markdown, tables_schema

GENERATED = {
    "workflow/schemas/config.schema.json": schema_json,
    "workflow/schemas/record.schema.json": record_schema,
    "workflow/schemas/pointers.schema.json": pointers_schema,
    "workflow/schemas/lengths.schema.json": lengths_schema,
    "workflow/schemas/comparison.schema.json": comparison_schema,
    "workflow/schemas/decode.schema.json": decode_schema,
    "workflow/schemas/summary.schema.json": summary_schema,
    "workflow/schemas/tables.json": tables_schema,
    "docs/columns.md": columns_markdown,
}
"""File, relative to the project -> function that returns its text."""


def write_generated(project: Path) -> None:
    """Write all of them.

    Raises:
        LaunchbenchError: not the root of a project, or a folder cannot be written; nothing is made elsewhere.
    """
    for folder in (project, *((project / name).parent for name in GENERATED)):
        if not folder.is_dir():
            raise LaunchbenchError(escaped(f"--project: {folder}: no such folder; expected the root of the project"))
    for name, text in GENERATED.items():
        write_atomically(project / name, text().encode())
