"""Snakemake and its jobs many times, without the seconds that each takes to import what it needs.

One process imports, and forks a process for every run, which then is as one that was started in the folder: the same
command line, working directory and environment, and the package of the clone. Commands of launchbench that the run
starts are forked as well, by a process of the run's own: ``sys.executable`` of a run is a program that asks for it.
A run and all that it starts are one process group. What has to be there when Python starts, such as PYTHONHASHSEED,
needs a process of its own.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import importlib
import marshal
import os
import runpy
import secrets
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from tests.traced import LIBRARIES
from tests.virtual_gpu.jobs import become_as_started, end_with
from tests.workflow.ask import ASKED, ask

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 300
_MAX_BYTES = 1 << 17
_LINGER_MS = 5


class Running:
    """A run that was started; what it writes, standard output and error together, is read from ``stdout``."""

    def __init__(self, connection: socket.socket, stdout: IO[str]) -> None:
        self.stdout = stdout
        self.returncode: int | None = None
        self._connection = connection
        self.pid = int(connection.recv(64))
        """Of the run and its process group."""

    def wait(self) -> int:
        """Exit status, or the signal that ended it with a minus, once nothing of the run is left."""
        if self.returncode is None:
            self.returncode = int(self._connection.recv(64))
            self._connection.close()
        return self.returncode

    def communicate(self) -> str:
        """What was not read yet, once the run has ended."""
        with self.stdout:
            text = self.stdout.read()
        self.wait()
        return text


class Forks:
    """Runs Snakemake as long as this process lives.

    Args:
        libraries: LD_LIBRARY_PATH and LD_PRELOAD of all runs, which the loader reads when a process starts.
    """

    def __init__(self, libraries: Mapping[str, str]) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        self._folder = Path(tempfile.mkdtemp(prefix="launchbench-"))
        self._name = _new_name()
        python = self._folder / "python"
        real = shlex.quote(sys.executable)
        python.write_text(f'#!/bin/sh\nexec {real} -IS {shlex.quote(ask.__code__.co_filename)} {real} "$@"\n')
        python.chmod(0o755)
        command = [sys.executable, "-m", "tests.workflow.forked", self._name, str(python)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env={**environment, **libraries}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        atexit.register(self._end)
        assert self._process.stdout and self._process.stdout.readline() == b"ready\n"

    def _end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, folder: Path, environment: Mapping[str, str], *arguments: str) -> Running:
        """Start ``snakemake <arguments>`` in a folder."""
        reading, writing = os.pipe()
        with Path(os.devnull).open() as nothing:
            handles = [nothing.fileno(), writing, writing]
            connection = ask(self._name, str(folder), dict(environment), list(arguments), handles)
        os.close(writing)
        return Running(connection, os.fdopen(reading, encoding="utf-8"))


@functools.cache
def forks(libraries: str, preload: str) -> Forks:
    """Those of this process."""
    return Forks({"LD_LIBRARY_PATH": libraries, "LD_PRELOAD": preload})


def kill_group(leader: int) -> None:
    """End all processes of a session that a process has begun, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


# ---------------------------------------------------------------- in the processes that fork


def _new_name() -> str:
    return f"launchbench-{os.getpid()}-{secrets.token_hex(8)}"


def _listen(name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{name}")
    listener.listen(32)
    return listener


def _serve(listener: socket.socket, become: Callable[[Any], None], owner: IO[bytes] | None = None) -> bool:
    """Answer every request with the process that was forked for it, and with its exit status.

    Returns:
        True in each of those processes; False when ``owner``, whose processes are groups of their own, is at its end.
    """
    while True:
        readable, _, _ = select.select([listener, owner] if owner else [listener], [], [])
        if listener not in readable:
            return False
        connection, _ = listener.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not os.fork():
            listener.close()
            _attend(connection, become, leads=owner is not None)
            return True
        connection.close()


def _attend(connection: socket.socket, become: Callable[[Any], None], leads: bool) -> None:
    """Fork the process that was asked for, in which this returns, and wait for it."""
    message, ancillary, _, _ = connection.recvmsg(_MAX_BYTES, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    handles = array.array("i")
    handles.frombytes(ancillary[0][2])
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        if leads:
            os.setsid()
        os.close(reading)
        os.close(writing)
        connection.close()
        for number, handle in enumerate(handles):
            os.dup2(handle, number)
            os.close(handle)
        become(marshal.loads(message))
        return
    os.close(writing)
    os.read(reading, 1)  # until it leads its group
    for handle in handles:
        os.close(handle)
    with contextlib.suppress(OSError):
        connection.send(str(child).encode())
    end = functools.partial(kill_group, child) if leads else functools.partial(os.kill, child, signal.SIGKILL)
    asking = select.poll()
    asking.register(connection, select.POLLIN)
    deadline = time.monotonic() + LIMIT_S
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if asking.poll(_LINGER_MS) or time.monotonic() > deadline:  # who has asked is gone
            end()
            ended = os.waitpid(child, 0)
            break
    if leads:
        end()
    with contextlib.suppress(OSError):
        connection.send(str(os.waitstatus_to_exitcode(ended[1])).encode())
    os._exit(0)


def _become_run(request: Any, python: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    become_as_started(request)
    sys.argv = ["snakemake", *request["arguments"]]
    sys.executable = python
    os.environ[ASKED] = name = _new_name()
    commands = _listen(name)
    with contextlib.suppress(Exception):  # what is wrong with it is for the run to say
        importlib.import_module("launchbench.__main__")
    if os.fork():
        commands.close()
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)
    _serve(commands, become_as_started)
    end_with(functools.partial(runpy.run_module, "launchbench", run_name="__main__", alter_sys=True))


def _main() -> None:
    name, python = sys.argv[1:]
    from snakemake import cli, report  # noqa: F401

    cli.get_argument_parser()  # imports the plugins
    for library in ("pynvml", *LIBRARIES):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    gc.freeze()  # else every collection of a run goes through all that is imported
    assert "launchbench" not in sys.modules, "that of the clone is to be used"
    listener = _listen(name)
    print("ready", flush=True)
    if _serve(listener, functools.partial(_become_run, python=python), sys.stdin.buffer):
        end_with(lambda: cli.main(sys.argv[1:]))


if __name__ == "__main__":
    _main()
