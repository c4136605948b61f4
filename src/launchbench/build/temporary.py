"""Folders in which something is made before it is moved into place; those of killed builds are cleared away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def temporary_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder in ``parent`` for the ``with`` block, gone after it unless it was moved elsewhere.

    Raises:
        OSError: it cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove the folders of :func:`temporary_folder` whose process is no more.

    One that is in use is locked, and stays, as does one of a file system that has no such locks.
    """
    for folder in parent.glob(f"{prefix}*"):
        if folder.is_dir() and not folder.is_symlink():
            with _locked(folder) as alone:
                if alone:
                    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether this process alone holds the folder; the kernel lets go of it when the process ends."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
