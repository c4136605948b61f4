"""Coverage where it tells something: tracing doubles what a test costs, and its cases run the same lines.

Of a parametrised test the first case is traced, of what is marked ``untraced`` nothing but its fixtures; so are the
processes that a test starts. What is reported as covered is covered, and may be a little less than what the tests run.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

PROCESSES = "COVERAGE_PROCESS_CONFIG"
"""Environment variable by which coverage traces processes too."""

LIBRARIES = ("cuda.core", "matplotlib.pyplot", "pandas", "pandera.pandas", "scipy.stats", "seaborn")
"""What the package imports and takes long to do so."""

_seen: set[str] = set()


def _wanted(item: pytest.Item) -> bool:
    function = item.nodeid.partition("[")[0]
    first = function not in _seen
    _seen.add(function)
    return first and item.get_closest_marker("untraced") is None


def _tracer() -> Any:
    """The running ``coverage.Coverage`` or None."""
    return "coverage" in sys.modules and sys.modules["coverage"].Coverage.current()


@contextlib.contextmanager
def _untraced(tracer: Any) -> Iterator[None]:
    processes = os.environ.pop(PROCESSES, None)
    tracer.stop()
    try:
        yield
    finally:
        tracer.start()
        if processes is not None:
            os.environ[PROCESSES] = processes


def untraced() -> contextlib.AbstractContextManager[None]:
    """For fixtures: what is done within runs lines that other tests cover."""
    tracer = _tracer()
    return _untraced(tracer) if tracer else contextlib.nullcontext()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the libraries; not in the process that only hands tests to workers."""
    tracer = _tracer()
    if tracer and (hasattr(session.config, "workerinput") or session.config.getoption("dist", "no") == "no"):
        with _untraced(tracer):
            for library in LIBRARIES:
                with contextlib.suppress(ImportError):
                    importlib.import_module(library)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    tracer = _tracer()
    with contextlib.nullcontext() if not tracer or _wanted(item) else _untraced(tracer):
        return (yield)
