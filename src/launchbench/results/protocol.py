"""What exactly is timed: the parameters of a measurement and their identity.

This module measures nothing. Two rows may be averaged or compared only if their protocol hashes are equal.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

PROTOCOL_VERSION = 5
"""Raised whenever the meaning of a timed interval changes; old results then no longer mix with new ones.

1: one-off costs are those of the block's only graph. 2: of several, after one that is thrown away. 3: every
mode at many placements of the buffer, in a random order, with few repetitions at each. 4: the replay at each of
them behind a gate as well; native paths record the events and launch the graph from C too. 5: graphs are made through
the driver API, without the user object that ``cuda.core`` ties to them; only launches by ``cuda.core`` keep it.
"""

LaunchPath = Literal[
    "native-driver", "native-runtime", "cuda-bindings", "cuda-python", "cupy", "numba", "triton", "torch"
]
Kernel = Literal["tiny", "empty"]
Mode = Literal[
    "loop",
    "replay",
    "replay-batch",
    "replay-queued",
    "queued",
    "loop-dependent",
    "replay-dependent",
    "fused-memory",
    "fused-register",
]

LAUNCH_PATHS: tuple[str, ...] = get_args(LaunchPath)
FRAMEWORK_PATHS = ("cupy", "numba", "triton", "torch")
"""What need not be installed: where it is not, or cannot launch here, that is a stated gap."""

OTHER_CODE = ("numba", "triton", "torch")
"""Paths that launch kernels of their own making: what they do is the same, their machine code is not."""

KERNELS: tuple[str, ...] = get_args(Kernel)
MODES: tuple[str, ...] = get_args(Mode)
COMPARED_MODES = ("loop", "replay")
"""What every block has, and what the headline figures are made from; the other modes say where their time goes."""

MAX_LAUNCH_COUNT = 1_048_576
FLOAT32_EXACT_COUNT = 16_777_216
"""2**24: the largest count that adding 1.0f reaches in IEEE 754 binary32 (24-bit significand)."""

QUEUE_DEPTH = 1024
"""Pending launches after which issuing blocks on the device; about this on every card asked so far."""


class Protocol(BaseModel):
    """The parameters that every block of one job shares.

    From version 3 on ``tiny`` is timed at all placements on one launch path, the first native one (the first where
    none is native); every other block, which needs no more, at ``full_placements`` places, in every mode.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = Field(PROTOCOL_VERSION, description="meaning of the timed intervals")
    repetitions: int = Field(ge=1, description="timed repetitions of every mode, at each placement from version 3 on")
    warmup_rounds: int = Field(ge=1, description="untimed rounds of all modes before them")
    warmup_ms: int = Field(ge=0, description="the untimed rounds go on for at least this long")
    placements: int | None = Field(None, ge=1, description="places of the buffer; repetitions are of each")
    full_placements: int | None = Field(None, ge=1, description="how many of them get every mode")
    pool_mib: int | None = Field(None, ge=1, description="size of the allocation that they lie in")

    def block_hash(self, launch_path: str, kernel: str) -> str:
        """Identity of one block: 12 hex digits over these parameters, the launch path and the kernel.

        It does not depend on which other paths or kernels the same job measured, so adding one to the
        configuration leaves the rows of the others comparable.
        """
        identity = {**self.model_dump(exclude_none=True), "launch_path": launch_path, "kernel": kernel}
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]
