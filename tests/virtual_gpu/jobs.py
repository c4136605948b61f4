"""Many commands of launchbench on virtual cards, without the second that Python takes to import everything.

One process imports, and forks a process for every command: each still has a driver of its own, since the library is
loaded and reads its variable when a process first calls it.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn

from tests.traced import PROCESSES

ROOT = Path(__file__).resolve().parent.parent.parent
CLOCK = ROOT / "tests" / "virtual_gpu" / "clock" / "sitecustomize.py"
LINGER_S = 0.005


@dataclass(frozen=True)
class Done:
    """A command that has ended; status -9 when it had to be killed."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> list[str]:
        """The lines that tell an error."""
        return [line for line in self.err.splitlines() if line.startswith("launchbench: ")]


class Jobs:
    """Runs commands of launchbench, one after the other; use it as a context manager.

    Args:
        environment: of the process that imports; its LD_LIBRARY_PATH holds for all commands.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "tests.virtual_gpu.jobs"]
        library = Path(environment["LD_LIBRARY_PATH"].split(":")[0], "libcuda.so.1")
        environment = {**environment, "LD_PRELOAD": str(library)}  # for a modelled clock; too late once forked
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Jobs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout
        self._process.stdout.close()

    def run(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *arguments: str,
        timeout_s: float = 60,
        to_the_end: bool = False,
    ) -> Done:
        """Run ``launchbench <arguments>`` in a folder, which gets the files ``stdout`` and ``stderr``.

        Args:
            to_the_end: with the end of the interpreter, in which modules let go of what they hold.
        """
        assert self._process.stdin and self._process.stdout
        request = {
            "environment": dict(environment),
            "folder": str(folder),
            "arguments": arguments,
            "timeout": timeout_s,
            "to_the_end": to_the_end,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return Done(status, *((folder / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")))


def become_as_started(request: Mapping[str, Any]) -> None:
    """Make this process what ``python -m launchbench <arguments>`` would be in the folder and environment."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[0] = request["folder"]
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["launchbench", *request["arguments"]]
    if str(CLOCK.parent) in sys.path:
        runpy.run_path(str(CLOCK))


def end_with(run: Callable[[], Any]) -> NoReturn:
    """Run it and end this process as Python would with its result, but for the modules.

    Taking apart all that was imported before the fork would take longer than most jobs.
    """
    try:
        status = run()
    except SystemExit as ending:
        status = ending.code
    except Exception:
        traceback.print_exc()
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ctypes.CDLL(None).exit(int(status or 0))  # with what libraries do at the end of a process
    raise AssertionError("unreachable")


def _become(request: Mapping[str, Any]) -> Sequence[str]:
    os.chdir(request["folder"])
    for name, handle in (("stdout", 1), ("stderr", 2)):
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, handle)
        os.close(opened)
    become_as_started(request)
    if "coverage" in sys.modules and PROCESSES not in os.environ:
        sys.modules["coverage"].Coverage.current().stop()
    return [str(argument) for argument in request["arguments"]]


def _wait(child: int, timeout_s: float) -> int:
    deadline = time.monotonic() + timeout_s
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(LINGER_S)


def _serve(requests: IO[str], answers: IO[str]) -> None:
    import cuda.core
    import pynvml  # noqa: F401

    from launchbench.__main__ import main
    from launchbench.measure import job  # noqa: F401

    assert cuda.core
    gc.freeze()  # else every collection of a job, and its end, goes through all that is imported
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if not child:
            given = _become(request)
            if request["to_the_end"]:
                sys.exit(main(given))
            end_with(functools.partial(main, given))
        answers.write(f"{_wait(child, request['timeout'])}\n")
        answers.flush()


if __name__ == "__main__":
    # The commands' own output goes elsewhere: the answers have a handle of their own.
    _serve(sys.stdin, os.fdopen(os.dup(1), "w"))
