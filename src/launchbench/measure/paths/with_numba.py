"""Numba: kernels that it compiles itself, so other code."""

from __future__ import annotations

import importlib
import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from launchbench.measure.paths.adapter import Adapter, FloatAt, Ground, loop_of
from launchbench.measure.timing import Loop


def prepare(ground: Ground) -> Adapter:
    """Its kernels, compiled at their first launch; anything may be raised that Numba raises."""
    import numba
    from numba import cuda

    stream = cuda.external_stream(ground.stream)
    one = np.float32(1)

    def tiny(d: Any) -> None:
        d[0] += one

    def empty(d: Any) -> None:
        pass

    with warnings.catch_warnings():  # that one block will not fill the card
        warnings.simplefilter("ignore")
        # Without annotations: Numba may take those for types.
        for function in (tiny, empty):
            function.__annotations__ = {}
        kernels = {function.__name__: cuda.jit(function)[1, 1, stream] for function in (tiny, empty)}

    def make_loop(kernel: str, address: int, launch_count: int) -> Loop:
        launch, array = kernels[kernel], cuda.as_cuda_array(FloatAt(address), sync=False)

        def issue() -> None:
            for _ in range(launch_count):
                launch(array)

        return loop_of("numba", issue)

    versions = {"numba": str(numba.__version__)}
    with suppress(ImportError, AttributeError):  # where numba.cuda is a package of its own
        versions["numba-cuda"] = str(importlib.import_module("numba_cuda").__version__)
    return Adapter(make_loop, versions, {})
