"""As much of Triton as the adapter calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import stand_in
import torch

__version__ = "3.8.0"


class JITFunction:
    def __init__(self, function: Callable[..., None]) -> None:
        source = inspect.getsource(function)  # as the real one does
        self._name = "tiny" if "tl.store(d, tl.load(d) + 1.0)" in source else "empty"

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        assert grid == (1,)

        def run(value: Any, num_warps: int) -> None:
            assert num_warps == 1
            stand_in.launch(self._name, torch.cuda.current[-1], value.data_ptr())

        return run


def jit(function: Callable[..., None]) -> JITFunction:
    return JITFunction(function)
