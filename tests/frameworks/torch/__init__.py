"""As much of PyTorch as the adapters call."""

from __future__ import annotations

from typing import Any

import stand_in

from torch import cuda

__version__ = "2.14.1"


class Tensor:
    def __init__(self, address: int) -> None:
        self._address = address

    def data_ptr(self) -> int:
        return self._address + (512 if stand_in.FAULT == "copies" else 0)

    def add_(self, other: float) -> Tensor:
        assert other == 1.0
        stand_in.launch("tiny", cuda.current[-1], self._address)
        return self


def as_tensor(data: Any, device: str) -> Tensor:
    assert device == "cuda:0"
    return Tensor(stand_in.described(data.__cuda_array_interface__))
