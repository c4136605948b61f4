"""`python` of the runs that are forked: ``-m launchbench`` is asked of a process of the run, all else is Python's.

Run by itself, with nothing of the project in its path: ask.py PYTHON ARGUMENTS
"""

from __future__ import annotations

import array
import marshal
import os
import signal
import socket
import sys

ASKED = "TESTS_COMMANDS_OF_RUN"
"""Variable of a run: the socket on which its commands are asked for."""


def ask(name: str, folder: str, environment: dict[str, str], arguments: list[str], handles: list[int]) -> socket.socket:
    """Ask for a process with these arguments and standard handles; its number and then its status can be received."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(f"\0{name}")
    request = {"folder": folder, "environment": environment, "arguments": arguments}
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handles))
    connection.sendmsg([marshal.dumps(request)], [rights])
    return connection


def _main() -> None:
    python, *arguments = sys.argv[1:]
    name = os.environ.get(ASKED)
    if name is None or arguments[:2] != ["-m", "launchbench"]:
        os.execv(python, [python, *arguments])
    folder = os.getcwd()  # noqa: PTH109 -- pathlib would take longer to import than all the rest
    connection = ask(name, folder, dict(os.environ), arguments[2:], [0, 1, 2])
    connection.recv(64)
    status = int(connection.recv(64))
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    _main()
