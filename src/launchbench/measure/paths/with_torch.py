"""PyTorch: an in-place addition, so a kernel of its own."""

from __future__ import annotations

from typing import Any

from launchbench.measure.paths.adapter import Adapter, FloatAt, Ground, loop_of
from launchbench.measure.timing import Loop

NO_EMPTY = "PyTorch has no operation that launches an empty kernel"


def prepare(ground: Ground) -> Adapter:
    """The addition on our stream; anything may be raised that PyTorch raises."""
    import torch

    stream = torch_stream(ground)

    def make_loop(_kernel: str, address: int, launch_count: int) -> Loop:
        value = tensor_at(address, ground)

        def issue() -> None:
            with torch.cuda.stream(stream):
                for _ in range(launch_count):
                    value.add_(1.0)

        return loop_of("torch", issue)

    return Adapter(make_loop, {"torch": str(torch.__version__)}, {"empty": NO_EMPTY})


def torch_stream(ground: Ground) -> Any:
    """Our stream as PyTorch's, its device the current one of PyTorch."""
    import torch

    torch.cuda.set_device(ground.device_index)
    return torch.cuda.ExternalStream(ground.stream, device=ground.device_index)


def tensor_at(address: int, ground: Ground) -> Any:
    """One float32 as a tensor, without a copy.

    Raises:
        RuntimeError: PyTorch has made a copy.
    """
    import torch

    value = torch.as_tensor(FloatAt(address), device=f"cuda:{ground.device_index}")
    if value.data_ptr() != address:
        raise RuntimeError(f"the tensor lies at {value.data_ptr():#x}, not at {address:#x}")
    return value
