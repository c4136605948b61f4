"""Whether a launch path can be measured here: its framework is loaded and tried before anything is timed.

A framework that is missing, does not fit, launches elsewhere or fails while it is timed is a stated gap, and the job
goes on. What fails on the paths of launchbench's own, or takes the context with it, is an error of the job.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import call, naming
from launchbench.measure.graphs import Costs, MovableGraph
from launchbench.measure.paths.adapter import Adapter, Ground, MakeLoop
from launchbench.measure.timing import Counter
from launchbench.results.protocol import FRAMEWORK_PATHS
from launchbench.wording import one_line, shortened

if TYPE_CHECKING:
    from cuda.core import Stream

MAX_REASON = 300
TRIED = 3
"""Launches of the loop and of the graph that try a framework."""

NEEDS = {"cupy": ("cupy",), "numba": ("numba",), "triton": ("triton", "torch"), "torch": ("torch",)}
"""Modules that each framework's path imports."""


@dataclass(frozen=True)
class Prepared:
    """A path that has been tried.

    Attributes:
        make_loop: binds its launches; None on launchbench's own paths, and where nothing can be launched.
        versions: of the framework.
        reasons: kernel -> why it cannot be measured on this path.
    """

    make_loop: MakeLoop | None = None
    versions: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def missing_modules(launch_path: str) -> list[str]:
    """Modules that a path needs and that are not installed; nothing is imported."""
    return [name for name in NEEDS.get(launch_path, ()) if importlib.util.find_spec(name) is None]


def prepare(launch_path: str, kernels: Sequence[str], ground: Ground, stream: Stream, address: int) -> Prepared:
    """Load the framework of a path, and launch and replay each kernel by it, counted.

    Args:
        launch_path: one of ``protocol.LAUNCH_PATHS``.
        kernels: to try.
        ground: where it launches.
        stream: the same stream.
        address: of a float that may be written.

    Raises:
        LaunchbenchError: a CUDA call of launchbench's own failed, as after an error that the context does not survive.
    """
    if launch_path not in FRAMEWORK_PATHS:
        return Prepared()
    own = call("cuCtxGetCurrent")
    try:
        module: Any = importlib.import_module(f"launchbench.measure.paths.with_{launch_path}")
        adapter: Adapter = module.prepare(ground)
    except Exception as error:
        return Prepared(reasons=dict.fromkeys(kernels, _reason(error)))
    finally:
        _own_context(own)
    reasons = {}
    for kernel in kernels:
        why = adapter.without.get(kernel)
        if not why and (failed := _tried(adapter.make_loop, kernel, stream, address)):
            # A release that does not fit another one imports well, and fails here.
            versions = {**adapter.versions, "numpy": numpy.__version__}
            why = f"{failed} ({', '.join(f'{name} {number}' for name, number in versions.items())})"
        _own_context(own)
        if why:
            reasons[kernel] = why
    return Prepared(adapter.make_loop, adapter.versions, reasons)


@contextmanager
def stating(launch_path: str, kernel: str, reasons: dict[str, str], stream: Stream) -> Iterator[None]:
    """What goes wrong inside becomes the kernel's reason, where the path is a framework's and the context survives it.

    Args:
        launch_path: that is timed inside.
        kernel: that is timed inside.
        reasons: kernel -> why it cannot be measured; gets the one of this kernel.
        stream: of the measurement, in the current context.

    Raises:
        Exception: whatever was raised inside, in the other cases.
    """
    if launch_path not in FRAMEWORK_PATHS:
        yield
        return
    own = call("cuCtxGetCurrent")
    try:
        yield
    except Exception as error:
        if not _survived(own, stream):
            raise
        reasons[kernel] = f"failed while it was timed: {_reason(error).removesuffix(': nothing was written')}"


def _survived(own: Any, stream: Stream) -> bool:
    """Whether context and stream can be used on; the stream cannot while it is being captured."""
    try:
        _own_context(own)
        with naming("cuStreamSynchronize"):
            stream.sync()
    except LaunchbenchError:
        return False
    return True


def _own_context(own: Any) -> None:
    """Whatever a framework has done must have left the context usable, and is not to have changed the current one."""
    call("cuCtxSetCurrent", own)
    call("cuCtxSynchronize")


def _tried(make_loop: MakeLoop, kernel: str, stream: Stream, address: int) -> str:
    """Why the kernel cannot be measured; empty where loop, capture and replay have counted as they should."""
    counter = Counter(address, int(stream.handle), 0 if kernel == "empty" else 1)
    try:
        loop = make_loop(kernel, address, TRIED)
        counter.before(TRIED)
        loop.run()
    except Exception as error:
        return _reason(error)
    if wrong := _miscounted(counter, "loop"):
        return wrong
    try:
        graph = MovableGraph(stream, loop, Costs())
    except LaunchbenchError as error:
        return f"cannot be captured on the stream of the measurement: {_reason(error)}"
    with graph:
        if wrong := _miscounted(counter, "capture"):
            return wrong
        counter.before(TRIED)
        graph.replay().run()
        return _miscounted(counter, "replay")


def _miscounted(counter: Counter, what: str) -> str:
    counter.settle()
    if counter.observed == counter.expected:
        return ""
    return f"after the {what} the buffer has counted {counter.observed}, not {counter.expected}: not on our stream"


def _reason(error: Exception) -> str:
    text = str(error)
    if not isinstance(error, ImportError | LaunchbenchError):
        text = f"{type(error).__name__}: {text}"
    return shortened(one_line(text), MAX_REASON)
