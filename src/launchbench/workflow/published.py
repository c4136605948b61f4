"""Whether published figures make a new report necessary. Light to import: every job parses the Snakefile."""

from __future__ import annotations

import hashlib
from pathlib import Path

from launchbench.config.model import Config
from launchbench.results.layout import published_files


def published_identity(config: Config) -> str:
    """Identity of the names and contents of the files of published figures; ``off`` where they are not shown.

    A parameter of the report alone and no input: a clone's files may have any time, also one in the future.
    """
    if not config.published:
        return "off"
    identity = hashlib.sha256()
    for path in published_files(Path(config.results_dir)):
        # Of anything but a file the report says what is wrong; reading a pipe would never end.
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
        identity.update(f"{path.name!r} {content}\n".encode("ascii", "backslashreplace"))
    return identity.hexdigest()[:16]
