"""As much of cupy.cuda as the adapter calls."""

from __future__ import annotations

current = [0]


class Device:
    def __init__(self, device: int) -> None:
        assert device == 0

    def use(self) -> None:
        pass


class ExternalStream:
    def __init__(self, ptr: int, device_id: int = -1) -> None:
        assert device_id == 0
        self.ptr = ptr

    def __enter__(self) -> ExternalStream:
        current.append(self.ptr)
        return self

    def __exit__(self, *_: object) -> None:
        current.pop()


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        assert size == 4 and owner is not None and device_id == 0
        self.ptr = ptr


class MemoryPointer:
    def __init__(self, mem: UnownedMemory, offset: int) -> None:
        self.ptr = mem.ptr + offset
