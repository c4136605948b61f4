"""Runs and times a decode step with PyTorch on the card that was chosen. It files nothing."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from launchbench.decode.model import Decoder, Shape
from launchbench.decode.nodes import Counted, count_nodes
from launchbench.decode.parts import Piece, by_turns, parts_of
from launchbench.decode_step import GraphedStep
from launchbench.errors import LaunchbenchError
from launchbench.measure.timing import without_garbage_collection
from launchbench.results.decode import DecodeProtocol, StepPart, Torch

PART_REPETITIONS = 9
PART_REPLAYS = 10

NEEDED_SHARE = 0.8
"""A point that needs more than this share of the free memory is left out."""


class UnfitError(Exception):
    """A point that cannot be timed here, and why."""


def torch_facts() -> Torch:
    """The PyTorch of this process."""
    return Torch(
        version=str(torch.__version__),
        cuda=torch.version.cuda,
        cudnn=torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        architectures=list(torch.cuda.get_arch_list()),
        matmul_precision=torch.get_float32_matmul_precision(),
    )


def settle_on(index: int, uuid: str) -> str:
    """Make the card PyTorch's current one; why it cannot run there, or nothing.

    Args:
        index: CUDA's, in this process: PyTorch counts alike.
        uuid: of the card, which PyTorch's device of this index has to have.
    """
    try:
        if index >= torch.cuda.device_count():
            return f"PyTorch {torch.__version__} does not show this card"
        known = getattr(torch.cuda.get_device_properties(index), "uuid", None)
        if known is not None and _digits(str(known)) != _digits(uuid):
            return f"PyTorch's device {index} is another card: {known}"
        torch.cuda.set_device(index)
        (torch.ones(1, device="cuda") + 1).item()  # a card that it has no code for fails here
    except RuntimeError as error:
        return f"PyTorch {torch.__version__} cannot run on this card: {' '.join(str(error).split())[:300]}"
    return ""


def _digits(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-").replace("-", "")


class Bench:
    """One batch and width: the model on the card, its captured step, and the check of one against the other.

    Raises:
        UnfitError: it needs more memory than there is, or eager and graph disagree.
        LaunchbenchError: PyTorch failed in another way.
    """

    def __init__(self, protocol: DecodeProtocol, batch: int, width: int, seed: int) -> None:
        heads = width // protocol.head_width
        self.shape = Shape(protocol.layers, width, heads, protocol.context, protocol.vocabulary, batch)
        self.protocol = protocol
        _check_memory(self.shape)
        with torch.device("cuda"):
            self.model = Decoder(self.shape, seed).eval()
            self.token = torch.zeros(batch, 1, dtype=torch.long)
        self.counted = Counted()
        graph = _kept_graph(self.counted)
        self.graphed = GraphedStep(self.model.step, self.token, graph=graph)
        if graph is not None:
            self.counted = count_nodes(graph.raw_cuda_graph())
        self.largest_difference = self.largest_logit = float("nan")

    def check(self) -> None:
        """Compare the logits of both over some tokens; each begins a sequence of its own.

        Raises:
            UnfitError: they differ by more than the tolerance, or are no numbers.
        """
        generator = torch.Generator("cpu").manual_seed(1)
        size = (self.protocol.checked_tokens, self.shape.batch, 1)
        tokens = torch.randint(self.shape.vocabulary, size, generator=generator).to("cuda")
        self.model.restart()
        expected = [self.model.step(token) for token in tokens]
        self.model.restart()
        got = [self.graphed(token).clone() for token in tokens]
        pairs = list(zip(expected, got, strict=True))
        self.largest_difference = max(float((one - other).abs().max()) for one, other in pairs)
        self.largest_logit = max(float(one.abs().max()) for one in expected)
        tolerated = self.protocol.tolerance * self.largest_logit
        if not self.largest_difference <= tolerated:  # nan too
            told = f"logits of eager and graph differ by {self.largest_difference:.3g}"
            raise UnfitError(f"{told}, more than the {tolerated:.3g} tolerated")

    def interval(self, mode: str, begun_ns: int) -> dict[str, float]:
        """Times of ``protocol.tokens`` steps in a row."""
        step: Callable[[Tensor], Tensor] = self.graphed if mode == "graph" else self.model.step
        return timed(lambda: step(self.token), self.protocol.tokens, begun_ns)

    def rows(self, rng: np.random.Generator, begun_ns: int) -> list[dict[str, Any]]:
        """All repetitions, as in ``decode_columns.DECODE_REPETITIONS``."""
        modes = ("eager", "graph")
        rows: list[dict[str, Any]] = []
        deadline_ns = time.perf_counter_ns() + round(self.protocol.limit_s * 1e9)
        with without_garbage_collection():
            for repetition in range(-self.protocol.warmup_rounds, self.protocol.repetitions):
                if repetition >= self.protocol.least_repetitions and time.perf_counter_ns() > deadline_ns:
                    break
                for order, at in enumerate(rng.permutation(len(modes))):
                    times = self.interval(modes[at], begun_ns)
                    if repetition >= 0:
                        place = {"batch": self.shape.batch, "width": self.shape.width, "mode": modes[at]}
                        counts = {"repetition": repetition, "order": order, "tokens": self.protocol.tokens}
                        rows.append({**place, **counts, **times})
        return rows

    def parts(self) -> list[StepPart]:
        """The step's operations by kind: issued by turns and in a row of their kind, and as a graph of each kind."""
        parts = parts_of(self.model)
        with without_garbage_collection():
            among = _issued_by_turns(parts)
            return [self._part(name, partial(_all, pieces), among[name]) for name, pieces in parts.items()]

    def _part(self, name: str, part: Callable[[], None], among_us: float) -> StepPart:
        for _ in range(2):
            part()
        samples = [timed(part, 1, 0)["issue_us"] for _ in range(PART_REPETITIONS)]
        counted, device_us = Counted(launches=0), 0.0
        if name != "views":
            graph = _kept_graph(counted)
            if graph is None:
                raise LaunchbenchError(f"decode: {counted.reason}")
            with torch.cuda.graph(graph):
                part()
            counted = count_nodes(graph.raw_cuda_graph())
            graph.replay()
            replays = [timed(graph.replay, PART_REPLAYS, 0)["gpu_us"] for _ in range(PART_REPETITIONS)]
            device_us = float(np.median(replays)) / PART_REPLAYS
        return StepPart(
            name=name,
            launches=counted.launches or 0,
            host_us=among_us,
            alone_us=float(np.median(samples)),
            device_us=device_us,
        )


def _all(pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        piece()


def _issued_by_turns(parts: Mapping[str, Sequence[Piece]]) -> dict[str, float]:
    """Kind -> host time of issuing all its pieces among those of the other kinds, in microseconds; medians."""
    samples: dict[str, list[float]] = {name: [] for name in parts}
    turns = list(by_turns(parts))
    for repetition in range(2 + PART_REPETITIONS):
        took_ns = dict.fromkeys(parts, 0)
        torch.cuda.synchronize()
        for name, piece in turns:
            start_ns = time.perf_counter_ns()
            piece()
            took_ns[name] += time.perf_counter_ns() - start_ns
        for name, sample in samples.items():
            if repetition >= 2:  # the first two warm up
                sample.append(took_ns[name] / 1e3)
    return {name: float(np.median(sample)) for name, sample in samples.items()}


def timed(work: Callable[[], object], times: int, begun_ns: int) -> dict[str, float]:
    """Do it so often between two events; ``start_us``, ``gpu_us``, ``issue_us`` and ``total_us`` of all together."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.record()
    start_ns = time.perf_counter_ns()
    for _ in range(times):
        work()
    issued_ns = time.perf_counter_ns()
    last.record()
    torch.cuda.synchronize()
    done_ns = time.perf_counter_ns()
    return {
        "start_us": (start_ns - begun_ns) / 1e3,
        "gpu_us": 1e3 * first.elapsed_time(last),
        "issue_us": (issued_ns - start_ns) / 1e3,
        "total_us": (done_ns - start_ns) / 1e3,
    }


def release() -> None:
    """Give the memory of the last point back to the card."""
    gc.collect()
    torch.cuda.empty_cache()


def _kept_graph(counted: Counted) -> torch.cuda.CUDAGraph | None:
    """A graph whose nodes can be asked for after the capture; None, and why, where PyTorch has none."""
    if not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph"):
        counted.reason = f"not counted: PyTorch {torch.__version__} does not keep captured graphs; 2.8 or newer does"
        return None
    return torch.cuda.CUDAGraph(keep_graph=True)


def needed_bytes(shape: Shape) -> int:
    """Parameters and KV cache, in float32."""
    parameters = shape.layers * 12 * shape.width**2 + (2 * shape.vocabulary + shape.context) * shape.width
    return 4 * (parameters + 2 * shape.layers * shape.batch * shape.context * shape.width)


def _check_memory(shape: Shape) -> None:
    free, _ = torch.cuda.mem_get_info()
    needed = needed_bytes(shape)
    if needed > NEEDED_SHARE * free:
        raise UnfitError(f"needs {needed / 2**30:.1f} GiB; {free / 2**30:.1f} GiB of the card's memory are free")
