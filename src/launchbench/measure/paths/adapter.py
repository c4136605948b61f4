"""What every adapter of a framework gets, gives and shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchbench.measure.timing import Loop

MakeLoop = Callable[[str, int, int], Loop]
"""From kernel, address of the float and N to the loop."""


@dataclass(frozen=True)
class Ground:
    """What the launches of a framework go to, all of it launchbench's own.

    Attributes:
        device_index: of the current device, whose primary context is current.
        stream: handle of the stream.
        fatbin: the compiled kernels.
    """

    device_index: int
    stream: int
    fatbin: Path


@dataclass(frozen=True)
class Adapter:
    """A framework that is ready to launch.

    Attributes:
        make_loop: binds its launches.
        versions: of it and of what it launches through, by package.
        without: kernel -> why it cannot launch that one.
    """

    make_loop: MakeLoop
    versions: dict[str, str]
    without: dict[str, str]


class FloatAt:
    """One float32 of device memory that nobody here owns, by the CUDA array interface (version 3)."""

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (1,),
            "strides": None,
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
        }


def loop_of(framework: str, issue: Callable[[], None]) -> Loop:
    """A loop whose errors, of whatever class the framework raises, are told like those of ``cuda.core``."""

    def run() -> None:
        try:
            issue()
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    return Loop(f"a launch by {framework}", run, lambda _: None)
