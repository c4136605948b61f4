"""One measurement at a time on a card and on a CPU core: locks that the kernel releases when their holder ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from launchbench.config.messages import escaped, refusal, shown
from launchbench.errors import LaunchbenchError

# Not tempfile.gettempdir(): TMPDIR differs between users and jobs, and then they would not exclude each other.
LOCK_DIR = Path("/tmp")

LOCK_DIR_VARIABLE = "LAUNCHBENCH_LOCK_DIR"
"""Environment variable: another folder for the locks, local to the node and the same for all users and jobs of it."""

CORES_FILE = "launchbench-cpu-cores.lock"

WAIT_S = 3600.0


def lock_dir() -> Path:
    """The folder of the locks.

    Raises:
        LaunchbenchError: the variable names none by its whole path, so that jobs of different folders would not meet.
    """
    given = os.environ.get(LOCK_DIR_VARIABLE) or str(LOCK_DIR)
    folder = Path(given)
    if not folder.is_absolute():
        raise refusal(LOCK_DIR_VARIABLE, f"got {shown(given)}", "an absolute path, the same for all jobs of the node")
    return folder


@contextlib.contextmanager
def card_lock(uuid: str, timeout_s: float = WAIT_S, folder: Path | None = None) -> Iterator[None]:
    """Hold the card of this UUID for the ``with`` block; waits for its present holder.

    Args:
        uuid: of the GPU or MIG slice.
        timeout_s: how long to wait.
        folder: node-local, shared by all users; ``lock_dir()`` where it is None.

    Raises:
        LaunchbenchError: the lock file cannot be had, or its holder did not finish in time.
    """
    path = (folder or lock_dir()) / f"launchbench-{uuid}.lock"
    # Read-only: flock needs no write access.
    handle = _open(path, os.O_RDONLY, 0o644)
    try:
        _wait(
            lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB),
            path,
            timeout_s,
            waiting=f"waiting for another measurement on {uuid} to finish",
            failed=f"another measurement still holds this card after {timeout_s:.0f} s",
        )
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def core_lock(cores: Iterable[int], timeout_s: float = WAIT_S, folder: Path | None = None) -> Iterator[None]:
    """Hold all of these CPU cores for the ``with`` block; waits while another measurement holds one of them.

    Two measurements with one core in common would time each other, on whichever cards they are. A record lock on
    one byte for each core, of one file: all are taken or none, so that nobody waits for somebody who waits.

    Args:
        cores: numbers of the cores that this process may run on; nothing is held where there are none.
        timeout_s: how long to wait.
        folder: as for `card_lock`.

    Raises:
        LaunchbenchError: the lock file cannot be had, or the holder did not finish in time.
    """
    wanted = sorted(set(cores))
    if not wanted:
        yield
        return
    path = (folder or lock_dir()) / CORES_FILE
    handle = _open(path, os.O_RDWR, 0o666)

    def attempt() -> None:
        try:
            for core in wanted:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, core)
        except OSError:
            fcntl.lockf(handle, fcntl.LOCK_UN)
            raise

    try:
        _wait(
            attempt,
            path,
            timeout_s,
            waiting=f"waiting for another measurement on CPU cores {ranges(wanted)} to finish",
            failed=f"another measurement still holds some of the CPU cores {ranges(wanted)} after {timeout_s:.0f} s",
        )
        yield
    finally:
        os.close(handle)


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,8`` for 0, 1, 2, 3 and 8."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _wait(attempt: Callable[[], None], path: Path, timeout_s: float, *, waiting: str, failed: str) -> None:
    deadline = time.monotonic() + timeout_s
    told = False
    while True:
        try:
            return attempt()
        except (BlockingIOError, PermissionError):  # a record lock that is held may answer with either
            if time.monotonic() > deadline:
                raise _error(path, failed) from None
            if not told:
                told = True
                print(waiting, file=sys.stderr, flush=True)
            time.sleep(0.2)
        except OSError as error:
            raise _error(path, f"cannot be locked: {error.strerror}") from error


def _open(path: Path, access: int, mode: int) -> int:
    # Without O_CREAT where it exists: in a sticky folder Linux refuses O_CREAT on another user's file
    # (fs.protected_regular).
    # O_NONBLOCK: opening a pipe that somebody has put there must not wait for its writer.
    flags = access | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(10):
        try:
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, flags)
            with contextlib.suppress(FileExistsError):
                created = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
                os.fchmod(created, mode)  # whatever the umask: other users must be able to open it
                os.close(created)
        except OSError as error:
            raise _error(path, f"cannot be opened for locking: {error.strerror}") from error
    raise _error(path, "cannot be created")


def _error(path: Path, reason: str) -> LaunchbenchError:
    return LaunchbenchError(escaped(f"{path}: {reason}"))
