"""Snakemake many times, without the second and a half that it takes to import itself.

One process imports, and forks a process for every run, which then is as one that was started in the folder: the same
command line, working directory and environment, and the package of the clone. What has to be there when Python
starts, such as PYTHONHASHSEED, needs a process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 300


class Forks:
    """Runs Snakemake, one run after the other, as long as this process lives.

    Args:
        libraries: LD_LIBRARY_PATH of all runs, which the loader reads when a process starts.
    """

    def __init__(self, libraries: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        environment["LD_LIBRARY_PATH"] = libraries
        command = [sys.executable, "-m", "tests.workflow.forked"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

        atexit.register(self._end)

    def _end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)

    def run(self, folder: Path, environment: Mapping[str, str], output: Path, *arguments: str) -> int:
        """Run ``snakemake <arguments>`` in a folder; ``output`` gets what it writes. Its exit status, -9 if killed."""
        assert self._process.stdin and self._process.stdout
        request = {"folder": str(folder), "environment": dict(environment), "output": str(output)}
        self._process.stdin.write(json.dumps({**request, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@functools.cache
def forks(libraries: str) -> Forks:
    """Those of this process."""
    return Forks(libraries)


def kill_group(leader: int) -> None:
    """End all processes of a session that a process has begun, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _become(request: Mapping[str, Any]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    written = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for handle, opened in ((0, os.open(os.devnull, os.O_RDONLY)), (1, written), (2, written)):
        os.dup2(opened, handle)
    os.environ.clear()
    os.environ.update(request["environment"])
    # What Python does when it starts a module.
    sys.path[0] = request["folder"]
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["snakemake", *request["arguments"]]


def _wait(child: int) -> int:
    deadline = time.monotonic() + LIMIT_S
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            kill_group(child)
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            kill_group(child)
        time.sleep(0.01)


def _serve(requests: IO[str], answers: IO[str]) -> None:
    from snakemake import cli, report  # noqa: F401

    cli.get_argument_parser()  # imports the plugins
    gc.freeze()  # else every collection of a run goes through all that is imported
    assert "launchbench" not in sys.modules, "that of the clone is to be used"
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _become(request)
            sys.exit(cli.main(request["arguments"]))
        answers.write(f"{_wait(child)}\n")
        answers.flush()


if __name__ == "__main__":
    # What the runs write goes elsewhere: the answers have a handle of their own.
    _serve(sys.stdin, os.fdopen(os.dup(1), "w"))
