"""Programs that are run for a while: a signal that ends this process leaves nothing of them behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launchbench.programs import run
from tests.unit.test_sanitizer import script

STUBBORN = "trap '' INT TERM HUP; echo $$ >> {pids}; sleep 600 & echo $! >> {pids}; wait; wait; wait; sleep 600"

CALLS = {
    "scenario": "from launchbench.pointers import job; job._child('scenarios', 500)",
    "tool": """
from launchbench.pointers.sanitizer import Tool, run_under
run_under(Tool(Path('tool').resolve(), '1', 'PATH', ()), ['true'], dict(os.environ))""",
    "version": "from launchbench.pointers import sanitizer; sanitizer._examine(Path('tool').resolve(), 'PATH')",
    "probe": """
import ctypes
from launchbench.config.model import Config
from launchbench.workflow import plan
ctypes.CDLL = lambda _: None
plan.probe_cards(Config())""",
    "nvcc": """
from launchbench.build import compile, toolkit
compile._nvcc(toolkit.Toolkit(Path('tool').resolve(), '13.0', 'PATH'), [])""",
    "architectures": """
from launchbench.build import compile, toolkit
compile._known_architectures(toolkit.Toolkit(Path('tool').resolve(), '13.0', 'PATH'))""",
    "sacct": "from launchbench.workflow import reasons; reasons._ask([os.path.abspath('tool')])",
}


def alive(pids: Path) -> list[int]:
    found = []
    for pid in pids.read_text().split() if pids.exists() else ():
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            found += [int(pid)] if state != "Z" else []
    return found


def ended(code: str, number: signal.Signals, folder: Path, programs: int) -> int:
    """Exit status of Python on this code, signalled once so many programs say in ``pids`` that they run.

    None of them is left.
    """
    pids = folder / "pids"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=folder, stderr=subprocess.PIPE)

    def left(awaited: int, limit_s: float) -> int:
        deadline = time.monotonic() + limit_s
        while len(alive(pids)) != awaited and time.monotonic() < deadline:
            time.sleep(0.05)
        return len(alive(pids))

    try:
        assert left(programs, 60) == programs
        process.send_signal(number)
        process.communicate(timeout=60)
        assert left(0, 10) == 0
        return process.returncode
    finally:
        for pid in alive(pids):
            os.kill(pid, signal.SIGKILL)
        process.kill()


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("call", "number"),
    [
        *((call, signal.SIGTERM) for call in CALLS),
        *(("tool", number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)),
    ],
)
def test_a_process_that_is_ended_leaves_no_program_behind(tmp_path: Path, call: str, number: signal.Signals) -> None:
    pids = tmp_path / "pids"
    group = call in ("tool", "version", "nvcc", "architectures")
    script(tmp_path / "tool", STUBBORN.format(pids=pids) if group else f"echo $$ > {pids}; exec sleep 600")
    # Signals that these tests may ignore, as in the background of a shell.
    defaults = "[signal.signal(n, signal.default_int_handler if n == 2 else signal.SIG_DFL) for n in (1, 2, 3)]"
    setup = f"import os, signal, sys; from pathlib import Path; sys.executable = os.path.abspath('tool'); {defaults}"
    code = f"{setup}\n{CALLS[call]}"
    assert ended(code, number, tmp_path, 1 + group) == -number


@pytest.mark.parametrize("session", [True, False])
def test_a_program_can_be_ended_by_a_signal_that_this_process_ignores(session: bool) -> None:
    told = "import signal; print(*(signal.getsignal(n) is signal.SIG_IGN for n in (signal.SIGINT, signal.SIGHUP)))"
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        command = [sys.executable, "-c", told]
        done = run(command, first=signal.SIGINT, stdout=subprocess.PIPE, text=True, start_new_session=session)
        assert {signal.getsignal(number) for number in before} == {signal.SIG_IGN}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    # In the same session a terminal sends the signal to both.
    assert done.out.split() == [str(not session), "True"]


@pytest.mark.untraced
def test_processes_that_draw_end_with_the_one_that_asked(tmp_path: Path) -> None:
    code = """
import os, time
from launchbench.report.drawn import draw
def figure():
    with open("pids", "a") as pids: print(os.getpid(), file=pids)
    time.sleep(600)
draw({"a": figure, "b": figure}, 2)"""
    ended(code, signal.SIGTERM, tmp_path, 2)
