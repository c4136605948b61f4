"""All figures of a page, drawn in several processes at once."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from matplotlib.figure import Figure

from launchbench.errors import LaunchbenchError
from launchbench.report.drawing import files_of, styled

Drawings = Mapping[str, Callable[[], Figure]]
"""Name of a figure -> draws it."""

_drawings: Drawings = {}
_PR_SET_PDEATHSIG = 1  # prctl(2)


def draw(drawings: Drawings, processes: int = 1) -> dict[str, dict[str, bytes]]:
    """Name -> suffix -> content of the file.

    Args:
        drawings: what to draw; the ones that take longest first.
        processes: at most so many at once; where processes cannot be forked safely, one.

    Raises:
        LaunchbenchError: a process was ended from outside.
    """
    if processes < 2 or sys.platform != "linux":
        _keep(drawings)
        return dict(map(_draw, drawings))
    fork = multiprocessing.get_context("fork")  # what is drawn lies in memory already, and is much larger than files
    try:
        with ProcessPoolExecutor(processes, fork, _begin, (drawings,)) as pool:
            return dict(pool.map(_draw, drawings))
    except BrokenProcessPool as error:
        raise LaunchbenchError("report: a process that drew figures was ended; is there too little memory?") from error


def _begin(drawings: Drawings) -> None:
    """In a process of the pool, which would wait for work for ever where this one is ended by a signal."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _keep(drawings)


def _keep(drawings: Drawings) -> None:
    global _drawings
    _drawings = drawings


def _draw(name: str) -> tuple[str, dict[str, bytes]]:
    with styled():
        return name, files_of(_drawings[name]())
