"""One measurement at a time on a card, between real processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbench.errors import LaunchbenchError
from launchbench.measure.lock import CORES_FILE, LOCK_DIR, card_lock, core_lock, lock_dir, ranges

pytestmark = pytest.mark.timeout(60)  # a lock that does not exclude leaves a process waiting for a line

UUID = "GPU-12345678-9abc-def0-1234-56789abcdef0"
NOBODY = 65534

HOLDER = """
import sys
from pathlib import Path
from launchbench.measure.lock import card_lock, core_lock
how = {"timeout_s": 60, "folder": Path(sys.argv[2])}
what = sys.argv[1]
with card_lock(what, **how) if what.startswith("GPU-") else core_lock(map(int, what.split(",")), **how):
    print("held", flush=True)
    sys.stdin.readline()
    print("done", flush=True)
"""


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Not root for a while: root may write and read everything."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that an ordinary user can reach, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="launchbench-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def holder(folder: Path, uuid: str = UUID) -> Iterator[subprocess.Popen[str]]:
    """Another process that asks for the lock, and ends after a line on its standard input."""
    command = [sys.executable, "-c", HOLDER, uuid, str(folder)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def finish(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def is_free(folder: Path, uuid: str = UUID) -> bool:
    try:
        with card_lock(uuid, timeout_s=-1, folder=folder):
            return True
    except LaunchbenchError:
        return False


def test_the_second_process_waits_until_the_first_has_ended(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        assert line(first) == "held\n"
        with holder(tmp_path) as second:
            assert second.stdout is not None and second.stderr is not None
            assert second.stderr.readline() == f"waiting for another measurement on {UUID} to finish\n"
            assert select.select([second.stdout], [], [], 0)[0] == []
            finish(first)
            assert line(first) == "done\n"
            assert line(second) == "held\n"
            finish(second)
            assert second.wait(timeout=30) == 0
            assert second.stderr.read() == ""  # told once


def test_another_card_is_not_waited_for(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        assert line(first) == "held\n"
        assert not is_free(tmp_path)
        assert is_free(tmp_path, UUID.replace("1", "2"))


def test_the_kernel_releases_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        assert line(first) == "held\n"
        assert not is_free(tmp_path)
        first.send_signal(signal.SIGKILL)
        assert first.wait(timeout=30) == -signal.SIGKILL
        assert is_free(tmp_path)


def test_the_lock_is_released_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), card_lock(UUID, folder=tmp_path):
        assert not is_free(tmp_path)
        raise ZeroDivisionError
    assert is_free(tmp_path)


def test_programs_that_a_holder_starts_do_not_keep_the_lock(tmp_path: Path) -> None:
    with card_lock(UUID, folder=tmp_path):
        child = subprocess.Popen(["sleep", "60"])
    try:
        assert is_free(tmp_path)
    finally:
        child.kill()
        child.wait()


def test_no_handle_is_left_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with card_lock(UUID, folder=tmp_path):
        assert not is_free(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208


def test_the_wait_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An hour, of which each look at the clock takes twenty minutes."""
    clock = iter(range(0, 1_000_000, 1200))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with card_lock(UUID, folder=tmp_path), pytest.raises(LaunchbenchError) as caught, card_lock(UUID, folder=tmp_path):
        pass
    path = tmp_path / f"launchbench-{UUID}.lock"
    assert str(caught.value) == f"{path}: another measurement still holds this card after 3600 s"
    assert capsys.readouterr().err == f"waiting for another measurement on {UUID} to finish\n"
    assert next(clock) == 7200  # began at 1200, still waited at 4800, gave up at 6000


# --- CPU cores


def test_measurements_with_a_core_in_common_exclude_each_other(tmp_path: Path) -> None:
    with holder(tmp_path, "0,1") as first:
        assert line(first) == "held\n"
        with holder(tmp_path, "2,3") as other:
            assert line(other) == "held\n"
            finish(other)
            assert line(other) == "done\n"
        with holder(tmp_path, "5,1,2") as second:
            assert second.stderr is not None
            assert second.stderr.readline() == "waiting for another measurement on CPU cores 1-2,5 to finish\n"
            with core_lock([2, 5], timeout_s=-1, folder=tmp_path):
                pass  # who waits holds nothing
            finish(first)
            assert line(second) == "held\n"
            with pytest.raises(LaunchbenchError) as caught, core_lock([5, 6], timeout_s=-1, folder=tmp_path):
                pass
            failed = "another measurement still holds some of the CPU cores 5-6 after -1 s"
            assert str(caught.value) == f"{tmp_path / CORES_FILE}: {failed}"


def test_the_kernel_releases_the_cores_of_a_killed_process(tmp_path: Path) -> None:
    with holder(tmp_path, "0") as first:
        assert line(first) == "held\n"
        first.send_signal(signal.SIGKILL)
        assert first.wait(timeout=30) == -signal.SIGKILL
        with core_lock([0], timeout_s=-1, folder=tmp_path):
            pass


@pytest.mark.parametrize("umask", [0o077, 0])
def test_other_users_can_lock_cores_whatever_the_umask(public: Path, umask: int) -> None:
    """In a sticky folder, as /tmp: where Linux may refuse O_CREAT on another user's file."""
    public.chmod(0o1777)
    previous = os.umask(umask)
    try:
        with core_lock([0], folder=public):
            pass
    finally:
        os.umask(previous)
    assert stat.S_IMODE((public / CORES_FILE).stat().st_mode) == 0o666
    with ordinary_user(), core_lock([0], timeout_s=-1, folder=public):
        pass


def test_where_the_cores_are_not_known_nothing_is_held(tmp_path: Path) -> None:
    with core_lock([], folder=tmp_path / "missing"):
        pass


def test_numbers_are_told_as_ranges() -> None:
    assert [ranges(numbers) for numbers in ([], [7], [3, 1, 2, 9, 10, 12])] == ["", "7", "1-3,9-10,12"]


# --- the file


def why_not(folder: Path) -> str:
    with pytest.raises(LaunchbenchError) as caught, card_lock(UUID, timeout_s=0, folder=folder):
        pass
    message = str(caught.value)
    path = f"{folder}/launchbench-{UUID}.lock"
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


def test_the_folder_is_the_same_for_all_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/somewhere/else")
    monkeypatch.delenv("LAUNCHBENCH_LOCK_DIR", raising=False)
    assert Path("/tmp") == LOCK_DIR == lock_dir()


@pytest.mark.parametrize("named", ["locks", "~/locks", "./", "lo\ncks"])
def test_a_folder_that_depends_on_where_a_job_runs_excludes_nobody(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAUNCHBENCH_LOCK_DIR", named)
    for lock in (card_lock("GPU-1"), core_lock([0])):
        with pytest.raises(LaunchbenchError, match="expected an absolute path") as raised, lock:
            pass
        assert str(raised.value) == (
            f"LAUNCHBENCH_LOCK_DIR: got {named!r}; expected an absolute path, the same for all jobs of the node"
        )


def test_another_folder_can_be_named(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAUNCHBENCH_LOCK_DIR", str(public))
    with card_lock(UUID), core_lock([0]):
        assert not is_free(public)
    assert {path.name for path in public.iterdir()} == {CORES_FILE, f"launchbench-{UUID}.lock"}


@pytest.mark.parametrize("umask", [0o077, 0o022, 0])
def test_other_users_can_lock_the_file_whatever_the_umask(public: Path, umask: int) -> None:
    previous = os.umask(umask)
    try:
        with card_lock(UUID, folder=public):
            pass
    finally:
        os.umask(previous)
    [path] = public.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    with ordinary_user():
        assert is_free(public)
        with card_lock(UUID, folder=public):
            assert not is_free(public)


def test_a_lock_of_another_user_in_a_sticky_folder(public: Path) -> None:
    """As in /tmp: there Linux may refuse O_CREAT on another user's file."""
    public.chmod(0o1777)
    with ordinary_user(), card_lock(UUID, folder=public):
        pass
    [path] = public.iterdir()
    assert os.geteuid() != 0 or path.stat().st_uid == NOBODY
    with card_lock(UUID, folder=public):
        assert not is_free(public)


def test_a_file_that_is_left_over_is_used_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / f"launchbench-{UUID}.lock"
    path.write_bytes(b"left over")
    path.chmod(0o600)
    with card_lock(UUID, folder=tmp_path):
        assert not is_free(tmp_path)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"left over", 0o600)


def test_a_file_that_only_its_owner_may_read(public: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs two users, so root")
    path = public / f"launchbench-{UUID}.lock"
    path.touch(mode=0o600)
    with ordinary_user():
        assert why_not(public) == "cannot be opened for locking: Permission denied"


def test_a_folder_that_is_read_only(public: Path) -> None:
    public.chmod(0o555)
    with ordinary_user():
        assert why_not(public) == "cannot be opened for locking: Permission denied"
    assert list(public.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert why_not(tmp_path / "missing") == "cannot be opened for locking: No such file or directory"
    (tmp_path / "file").touch()
    assert why_not(tmp_path / "file") == "cannot be opened for locking: Not a directory"


@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_a_link_is_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / f"launchbench-{UUID}.lock").symlink_to(target)
    assert why_not(tmp_path) == "cannot be opened for locking: Too many levels of symbolic links"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.timeout(20)
def test_a_pipe_in_its_place_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"launchbench-{UUID}.lock")
    with card_lock(UUID, folder=tmp_path):
        assert not is_free(tmp_path)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_handle: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    assert why_not(tmp_path) == "cannot be locked: No locks available"


def test_a_file_that_vanishes_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody removes it between its creation and its opening: no endless loop."""
    close = os.close

    def close_and_remove(handle: int) -> None:
        close(handle)
        (tmp_path / f"launchbench-{UUID}.lock").unlink()

    monkeypatch.setattr(os, "close", close_and_remove)
    assert why_not(tmp_path) == "cannot be created"
