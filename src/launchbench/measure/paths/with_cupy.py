"""CuPy: ``RawModule`` of the fatbin that the native loops launch from, so the same code."""

from __future__ import annotations

import warnings

from launchbench.measure.paths.adapter import Adapter, Ground, loop_of
from launchbench.measure.timing import FLOAT_BYTES, Loop


def prepare(ground: Ground) -> Adapter:
    """The kernels as CuPy loads them; anything may be raised that CuPy raises."""
    import cupy

    device = ground.device_index
    cupy.cuda.Device(device).use()
    with warnings.catch_warnings():  # of the class that newer releases supersede and older ones have alone
        warnings.simplefilter("ignore")
        stream = cupy.cuda.ExternalStream(ground.stream, device)
    module = cupy.RawModule(path=str(ground.fatbin))
    kernels = {name: module.get_function(name) for name in ("tiny", "empty")}

    def make_loop(kernel: str, address: int, launch_count: int) -> Loop:
        memory = cupy.cuda.UnownedMemory(address, FLOAT_BYTES, ground, device)
        array = cupy.ndarray((1,), cupy.float32, cupy.cuda.MemoryPointer(memory, 0))
        launch, one, arguments = kernels[kernel], (1,), (array,)

        def issue() -> None:
            with stream:
                for _ in range(launch_count):
                    launch(one, one, arguments)

        return loop_of("cupy", issue)

    return Adapter(make_loop, {"cupy": cupy.__version__}, {})
