"""The native loop that points the nodes of an executable graph at another buffer, with no Python between the calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import check

CALL = "cuGraphExecKernelNodeSetParams"


def load(library: Path) -> Any:
    """The loop of ``liblaunchloops.so``.

    Raises:
        LaunchbenchError: the library is missing, for another machine, or without this loop.
    """
    try:
        loop = ctypes.CDLL(str(library.resolve())).launchbench_set_nodes
    except (OSError, AttributeError) as error:
        raise LaunchbenchError(escaped(f"{library}: cannot be loaded: {error}")) from error
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint]
    loop.restype = ctypes.c_int
    return loop


def node_setter(loop: Any, executable: int, nodes: Sequence[int], function: int) -> Callable[[int], None]:
    """A function that points all nodes at the buffer of an address; handles are addresses as integers.

    Args:
        loop: as :func:`load` gives it.
        executable: the graph to change.
        nodes: kernel nodes of the graph that it was made from.
        function: the kernel that all of them launch.
    """
    array = (ctypes.c_void_p * len(nodes))(*nodes)
    return lambda address: check(CALL, int(loop(executable, array, function, address, len(nodes))))
