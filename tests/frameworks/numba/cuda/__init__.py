"""As much of numba.cuda as the adapter calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import stand_in


class Stream:
    def __init__(self, handle: int) -> None:
        self.handle = handle


class Array:
    def __init__(self, address: int) -> None:
        self.address = address


def external_stream(ptr: int) -> Stream:
    return Stream(ptr)


def as_cuda_array(obj: Any, sync: bool = True) -> Array:
    assert sync is False
    return Array(stand_in.described(obj.__cuda_array_interface__))


class Dispatcher:
    def __init__(self, function: Callable[..., None]) -> None:
        assert not function.__annotations__
        d = [0.0]
        function(d)  # the Python of a kernel runs as it is
        self._name = {0.0: "empty", 1.0: "tiny"}[d[0]]

    def __getitem__(self, configuration: tuple[int, int, Stream]) -> Callable[[Array], None]:
        grid, block, stream = configuration
        assert grid == block == 1
        warnings.warn("Grid size 1 will likely result in GPU under-utilization", stacklevel=2)
        return lambda array: stand_in.launch(self._name, stream.handle, array.address)


def jit(function: Callable[..., None]) -> Dispatcher:
    return Dispatcher(function)
