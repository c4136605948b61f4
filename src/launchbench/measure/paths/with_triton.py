"""Triton: kernels that it compiles itself, so other code; launched on PyTorch's current stream."""

from __future__ import annotations

from launchbench.measure.paths.adapter import Adapter, Ground, loop_of
from launchbench.measure.paths.with_torch import tensor_at, torch_stream
from launchbench.measure.timing import Loop


def prepare(ground: Ground) -> Adapter:
    """Its kernels, compiled at their first launch; anything may be raised that Triton or PyTorch raises."""
    import torch
    import triton

    from launchbench.measure.paths.triton_kernels import KERNELS

    stream = torch_stream(ground)

    def make_loop(kernel: str, address: int, launch_count: int) -> Loop:
        launch, value = KERNELS[kernel][(1,)], tensor_at(address, ground)

        def issue() -> None:
            with torch.cuda.stream(stream):
                for _ in range(launch_count):
                    launch(value, num_warps=1)

        return loop_of("triton", issue)

    return Adapter(make_loop, {"triton": str(triton.__version__), "torch": str(torch.__version__)}, {})
