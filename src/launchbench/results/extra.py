"""What the records of all extra jobs have in common: an extra job is done once on each card, apart from any N.

Models only: nothing here asks a device or reads a file. A value that could not be had is ``None``; a reason says why.
Each kind has a format of its own, apart from that of launch records: no reader takes another's files.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from launchbench.results.record import Code, Device, DeviceState, Host, SafeName, Sha256, Slurm, Software, Utc, _Part


class TextFile(_Part):
    """A file beside the record that it vouches for."""

    file: SafeName
    sha256: Sha256
    size_bytes: int = Field(ge=0)


class TableFile(TextFile):
    """The CSV beside the record."""

    rows: int = Field(ge=0)


class ExtraRecord(_Part):
    """One job: one GPU."""

    format: str
    run_id: SafeName = Field(description="unique; also the stem of its files")
    site: SafeName
    label: SafeName
    started_utc: Utc
    finished_utc: Utc
    before: DeviceState
    after: DeviceState
    device: Device
    host: Host
    software: Software
    code: Code
    slurm: Slurm | None = None

    def to_json(self) -> str:
        """The record as it is written to disk: indented JSON with a final newline."""
        return self.model_dump_json(indent=1) + "\n"

    def table(self) -> TableFile:
        """The CSV that the record vouches for."""
        raise NotImplementedError

    def files(self) -> Sequence[TextFile]:
        """All files that the record vouches for."""
        return [self.table()]
