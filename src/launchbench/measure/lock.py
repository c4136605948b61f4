"""One measurement at a time on a card: an flock per UUID, released by the kernel when its holder ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError

# Not tempfile.gettempdir(): TMPDIR differs between users and jobs, and then they would not exclude each other.
LOCK_DIR = Path("/tmp")


@contextlib.contextmanager
def card_lock(uuid: str, timeout_s: float = 3600.0, folder: Path = LOCK_DIR) -> Iterator[None]:
    """Hold the card of this UUID for the ``with`` block; waits for its present holder.

    Args:
        uuid: of the GPU or MIG slice.
        timeout_s: how long to wait.
        folder: node-local, shared by all users.

    Raises:
        LaunchbenchError: the lock file cannot be had, or its holder did not finish in time.
    """
    path = folder / f"launchbench-{uuid}.lock"
    handle = _open(path)
    try:
        deadline = time.monotonic() + timeout_s
        waiting = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise _error(path, f"another measurement still holds this card after {timeout_s:.0f} s") from None
                if not waiting:
                    waiting = True
                    print(f"waiting for another measurement on {uuid} to finish", file=sys.stderr, flush=True)
                time.sleep(0.2)
            except OSError as error:
                raise _error(path, f"cannot be locked: {error.strerror}") from error
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    # Read-only and without O_CREAT where it exists: in a sticky folder Linux refuses O_CREAT on another
    # user's file (fs.protected_regular), and flock needs no write access.
    # O_NONBLOCK: opening a pipe that somebody has put there must not wait for its writer.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(10):
        try:
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, flags)
            with contextlib.suppress(FileExistsError):
                created = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
                os.fchmod(created, 0o644)  # whatever the umask: other users must be able to open it
                os.close(created)
        except OSError as error:
            raise _error(path, f"cannot be opened for locking: {error.strerror}") from error
    raise _error(path, "cannot be created")


def _error(path: Path, reason: str) -> LaunchbenchError:
    return LaunchbenchError(escaped(f"{path}: {reason}"))
