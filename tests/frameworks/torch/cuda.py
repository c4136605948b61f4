"""As much of torch.cuda as the adapters call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

current = [0]


def set_device(device: int) -> None:
    assert device == 0


class ExternalStream:
    def __init__(self, stream_ptr: int, device: int | None = None) -> None:
        assert device == 0
        self.cuda_stream = stream_ptr


@contextlib.contextmanager
def stream(stream: ExternalStream) -> Iterator[None]:
    current.append(stream.cuda_stream)
    try:
        yield
    finally:
        current.pop()
