"""A decode step as a CUDA graph with ``torch.cuda.graph``: short, to be read and copied.

An LLM makes a token by the same forward pass every time: hundreds of kernels, each of them short at batch 1, so
that launching them takes longer than running them. A graph launches all of them at once. It fits because nothing
about the pass changes but the numbers in its buffers; what does change has to change inside them.

    python -m launchbench.decode_step        (needs PyTorch with CUDA, and a card)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.cuda import CUDAGraph


class GraphedStep:
    """``step`` captured once for an input of one shape, then replayed for every input.

    Args:
        step: the forward pass. What it keeps (a KV cache) it must keep in place, in tensors that stay.
        example: an input of the shape and type of all that follow, on the card.
        warmup: calls before the capture.
        graph: to capture into; a new one where it is None.

    Raises:
        RuntimeError: of PyTorch, when ``step`` does what no capture allows: waiting for the card (``.item()``,
            printing a value) or making decisions on the host by what a tensor holds.
    """

    def __init__(
        self, step: Callable[[Tensor], Tensor], example: Tensor, warmup: int = 3, graph: CUDAGraph | None = None
    ) -> None:
        import torch

        # BAKED IN: every replay reads its input at the address that this tensor has now. It is the graph's for good.
        self.static_input = example.clone()

        # Warm-up on a side stream: libraries choose kernels and allocate workspaces at first use, which a capture
        # must not contain, and the capture itself runs on a stream of its own, not on the default one. It has a price:
        # a second stream with kernels makes the nodes of all graphs of the process dearer (H200: replays 13 % slower,
        # benchmarks/surroundings.py). What needs no side stream, as this step, may warm up on the current one.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmup):
                step(self.static_input)
        torch.cuda.current_stream().wait_stream(side)

        # Nothing runs here: launches are recorded, with the addresses of their arguments. BAKED IN: the parameters,
        # the KV cache, and every intermediate tensor, which lie in a memory pool that the graph keeps for itself.
        self.graph = graph or torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            # BAKED IN: the output appears at this address, and the next replay overwrites it.
            self.static_output = step(self.static_input)

    def __call__(self, value: Tensor) -> Tensor:
        """The output for this input; clone it to keep it beyond the next call."""
        # copy_ writes into the captured buffer. `self.static_input = value` would only give the name to another
        # tensor: the graph would go on reading the old address, and answer for the old input without any error.
        self.static_input.copy_(value)
        self.graph.replay()
        return self.static_output


def main() -> None:
    """Decode some tokens eagerly and by replay, and compare them."""
    from launchbench.decode import unable

    reason = unable()
    if reason:
        raise SystemExit(f"launchbench: the decode step is not run: {reason}")
    import torch

    from launchbench.decode.model import Decoder, Shape

    eager, graphed = (Decoder(Shape(), seed=0).to("cuda").eval() for _ in range(2))
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    with torch.no_grad():
        replay = GraphedStep(graphed.step, token)
        graphed.restart()
        for number in range(8):
            expected, got = eager.step(token), replay(token)
            apart = float((expected - got).abs().max())
            print(f"token {number}: logits differ by at most {apart:.2e}")
            token = expected.argmax(-1)


if __name__ == "__main__":
    main()
