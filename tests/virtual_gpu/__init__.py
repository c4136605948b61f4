"""A simulated NVIDIA GPU: a C library that answers as the CUDA driver and as NVML. ``README.md`` describes it.

``compile_library`` makes it, ``environment`` gives the variables under which a process runs on it, and a `Card`
knows what the analysis of its measurements must find.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "LAUNCHBENCH_VIRTUAL_GPU"
"""The environment variable that the library reads."""

SOURCES = Path(__file__).resolve().parent
NAME = "launchbench virtual"
"""What the name of every card begins with."""

_CUDA = "libcuda.so.1"
_NVML = "libnvidia-ml.so.1"
_FOREIGN = ("CUDA_", "LAUNCHBENCH_")


@dataclass(frozen=True)
class Card:
    """A GPU, or a MIG slice if it has a ``parent``, with its cost model. Times are microseconds.

    Names may hold any byte as ``\\xNN`` (a backslash, x and two hex digits). ``None`` leaves the default.
    """

    name: str = f"{NAME} T4"
    nvml_name: str | None = None
    uuid: str | None = None
    parent: str | None = None
    pci: str | None = None
    compute_capability: str = "7.5"
    processors: int = 40
    memory_mb: float = 16384
    used_mb: float | None = None
    queue_depth: int = 1024
    issue_us: float = 4.5
    issue_ex_us: float = 5.5
    pace_us: float = 1.5
    event_us: float = 1.0
    sync_us: float = 2.0
    capture_us: float = 1.0
    instantiate_us: float = 100.0
    instantiate_node_us: float = 2.0
    upload_us: float = 20.0
    upload_node_us: float = 0.5
    graph_launch_us: float = 3.0
    graph_launch_node_us: float = 0.0
    graph_fixed_us: float = 4.0
    node_us: float = 0.5
    dependent_pace_us: float = 1.25
    dependent_node_us: float = 0.375
    fused_memory_us: float = 0.25
    fused_register_us: float = 0.00390625
    graph_node_bytes: float = 1024
    levels_us: tuple[float, ...] = (0.2,)
    page_bytes: int = 4096
    noise: float = 0.0
    cold_factor: float = 1.0
    cold_bursts: int = 0
    sm_clock_mhz: float | None = None
    max_sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    utilization: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    vbios: str | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    reasons: int | None = None

    def kernel_us(self, kernel: str, address: int) -> float:
        """Device time that one launch adds: for ``tiny`` one of ``levels_us``, chosen by the page of its address."""
        if kernel != "tiny":
            return 0.0
        page = address // self.page_bytes
        mixed = (page ^ (page >> 15)) * 0x9E3779B97F4A7C15 % 2**64
        return self.levels_us[(mixed >> 33) % len(self.levels_us)]

    def loop_us(self, launch_count: int, kernel: str = "empty", address: int = 0, *, python: bool = False) -> float:
        """Between two events around a loop of launches; ``python`` means ``cuLaunchKernelEx`` as ``cuda.core`` does."""
        issue = self.issue_ex_us if python else self.issue_us
        pace = self.pace_us + self.kernel_us(kernel, address)
        return max(launch_count * issue + max(self.event_us, pace), issue + launch_count * pace)

    def loop_total_us(
        self, launch_count: int, kernel: str = "empty", address: int = 0, *, python: bool = False
    ) -> float:
        """By the host clock, from before the first launch until the synchronize returned."""
        return self.loop_us(launch_count, kernel, address, python=python) + self.sync_us

    def replay_us(self, launch_count: int, kernel: str = "empty", address: int = 0) -> float:
        """Between two events around one replay of a graph with so many nodes."""
        host = self.graph_launch_us + self.graph_launch_node_us * launch_count
        device = self.graph_fixed_us + launch_count * (self.node_us + self.kernel_us(kernel, address))
        return host + max(self.event_us, device)

    def replay_total_us(self, launch_count: int, kernel: str = "empty", address: int = 0) -> float:
        """By the host clock, from before the launch of the graph until the synchronize returned."""
        return self.replay_us(launch_count, kernel, address) + self.sync_us

    def mode_us(self, mode: str, launch_count: int, kernel: str, address: int) -> float:
        """Between the two events around one interval of a mode of ``launchbench.results.protocol.PlacedMode``."""
        level = self.kernel_us(kernel, address)
        if mode == "loop":
            return self.loop_us(launch_count, kernel, address)
        if mode == "queued":
            return launch_count * (self.pace_us + level)
        if mode == "loop-dependent":
            pace = self.dependent_pace_us + level
            return max(
                launch_count * self.issue_ex_us + max(self.event_us, pace), self.issue_ex_us + launch_count * pace
            )
        if mode.startswith("fused"):
            each = self.fused_memory_us if mode == "fused-memory" else self.fused_register_us
            return self.issue_us + max(self.event_us, self.pace_us + launch_count * each)
        if mode == "replay-dependent":
            device = self.graph_fixed_us + launch_count * (self.dependent_node_us + level)
            return self.graph_launch_us + max(self.event_us, device)
        if mode == "replay-queued":
            return max(self.event_us, self.graph_fixed_us + launch_count * (self.node_us + level))
        return self.replay_us(launch_count, kernel, address)

    def once_us(self, launch_count: int) -> tuple[float, float, float]:
        """By the host clock: capture, instantiation, upload."""
        return (
            self.capture_us * launch_count,
            self.instantiate_us + self.instantiate_node_us * launch_count,
            self.upload_us + self.upload_node_us * launch_count + self.sync_us,
        )


T4 = Card()
A100 = Card(
    name=f"{NAME} A100",
    compute_capability="8.0",
    processors=108,
    memory_mb=40960,
    issue_us=3.5,
    issue_ex_us=4.5,
    pace_us=1.25,
    graph_fixed_us=3.5,
    node_us=0.75,
    levels_us=(0.25,),
)
H100 = Card(
    name=f"{NAME} H100",
    compute_capability="9.0",
    processors=132,
    memory_mb=81559,
    issue_us=3.0,
    issue_ex_us=4.0,
    pace_us=1.75,
    graph_fixed_us=3.0,
    node_us=0.5,
    levels_us=(0.21875, 0.25, 0.3125, 0.34375),
)


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at a function of CUDA or NVML, named without its version suffix.

    Attributes:
        call: the function, or ``*`` for all of them.
        result: what it returns; 0 with ``value``, ``hang`` or ``missing``.
        start: the first call of it that fails, counted from 1 in each process.
        count: how many calls fail; ``None`` is all from then on.
        card: index in ``cards``: only while that card is the current one, or asked about; ``None`` is any.
        sticky: after that every call on the card fails with this result, and NVML says that the card is lost.
        hang: the call never returns.
        missing: the driver does not have the function.
        value: what ``cuEventElapsedTime`` says instead of the truth, in milliseconds.
    """

    call: str
    result: int = 0
    start: int = 1
    count: int | None = None
    card: int | None = None
    sticky: bool = False
    hang: bool = False
    missing: bool = False
    value: float | None = None

    def __post_init__(self) -> None:
        """A fault that can never happen would make a test pass that tests nothing."""
        if self.call != "*" and not self.missing and self.call not in known_calls():
            raise ValueError(f"the virtual GPU has no function {self.call!r}")


@functools.cache
def known_calls() -> frozenset[str]:
    """All functions that are implemented, without version suffix."""
    entry = re.compile(r"^ *[A-Z]+_CALL\((cu[A-Z]\w+|nvml[A-Z]\w+)", re.MULTILINE)
    return frozenset(name for path in SOURCES.glob("*.c") for name in entry.findall(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Process:
    """Another process on a card, as NVML lists it from the ``start``-th query on; without ``memory_mb`` unsaid."""

    pid: int
    card: int = 0
    memory_mb: float | None = 500.0
    start: int = 1


@dataclass(frozen=True)
class Throttle:
    """Throttling after so many state queries of NVML: a clock event mask, and device times that grow by a factor.

    With ``until`` it has ended after so many.
    """

    after: int
    until: int | None = None
    mask: int = 0x20
    slowdown: float = 1.0
    sm_clock_mhz: float | None = None
    card: int | None = None


@dataclass(frozen=True)
class Machine:
    """Everything that the library can be told; the order of ``cards`` is CUDA's, NVML's is by PCI address."""

    cards: Sequence[Card] = field(default_factory=lambda: (T4,))
    faults: Sequence[Fault] = ()
    processes: Sequence[Process] = ()
    throttle: Throttle | None = None
    driver_version: str = "13.0"
    nvml_driver_version: str = "580.00.00"
    seed: int = 0
    spend: bool = True
    own_pid: int | None = None
    trace: Path | None = None

    def text(self) -> str:
        """In the format of the environment variable."""
        lines = _lines(self, skip=("cards", "faults", "processes", "throttle"))
        for name, parts in (("card", self.cards), ("fault", self.faults), ("process", self.processes)):
            for part in parts:
                lines += [f"[{name}]", *_lines(part)]
        if self.throttle:
            lines += ["[throttle]", *_lines(self.throttle)]
        return "\n".join(lines) + "\n"


_KEYS = {"start": "from", "after": "from"}
_ABSENT = {"memory_mb": "-1", "card": "-1"}


def _lines(part: object, skip: Sequence[str] = ()) -> list[str]:
    lines = []
    names = [one.name for one in dataclasses.fields(part)]  # type: ignore[arg-type]
    for name, value in ((name, getattr(part, name)) for name in names):
        if name in skip or (value is None and name not in _ABSENT):
            continue
        if value is None:
            text = _ABSENT[name]
        elif isinstance(value, bool):
            text = str(int(value))
        elif isinstance(value, tuple):
            text = ", ".join(map(repr, value))
        else:
            text = str(value)
        lines.append(f"{_KEYS.get(name, name)} = {text}")
    return lines


class CompileError(Exception):
    """There is no C compiler, or it refused."""


def compile_library(folder: Path) -> Path:
    """Compile the library into a folder below ``folder`` that is named after the sources, unless it is there.

    Returns:
        The folder for ``LD_LIBRARY_PATH``.

    Raises:
        CompileError: no C compiler (``CC``, else ``cc``), or it failed.
    """
    sources = sorted(path for path in SOURCES.glob("*.[ch]") if path.name != "check_abi.c")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not shutil.which(compiler[0]):
        raise CompileError(f"no C compiler {compiler[0]!r}")
    digest = hashlib.sha256(" ".join(compiler).encode())
    for path in sources:
        digest.update(path.read_bytes())
    final = folder / digest.hexdigest()[:16]
    if (final / _NVML).exists():
        return final
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=folder) as name:
        built = Path(name) / "built"
        built.mkdir()
        _compile(compiler, [path for path in sources if path.suffix == ".c"], built / _CUDA)
        # One library under both names, so that NVML knows what this process does on the card.
        (built / _NVML).symlink_to(_CUDA)
        try:
            built.rename(final)
        except OSError:
            if not (final / _NVML).exists():  # else another session was faster
                raise
    return final


def _compile(compiler: Sequence[str], sources: Iterable[Path], product: Path) -> None:
    command = [*compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-fPIC", "-shared"]
    command += ["-pthread", f"-Wl,-soname,{product.name}", "-o", str(product), *map(str, sources), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(f"{shlex.join(compiler)} failed:\n{done.stderr}")


class VirtualGpu:
    """The compiled library, and the environments of processes that run on it.

    Their locks lie in the folder ``locks``: simulated measurements need not wait for other ones of the machine.
    """

    def __init__(self, folder: Path, locks: Path | None = None) -> None:
        self.folder = folder
        self.locks = locks

    def environment(
        self,
        cards: Sequence[Card] = (T4,),
        faults: Sequence[Fault] = (),
        *,
        variables: Mapping[str, str] | None = None,
        modelled_clock: bool = False,
        **more: object,
    ) -> dict[str, str]:
        """The whole environment of a process on these cards, without ``CUDA_*`` and ``LAUNCHBENCH_*`` of this one.

        Args:
            cards: in CUDA's order.
            faults: what goes wrong.
            variables: set on top, such as ``CUDA_VISIBLE_DEVICES``.
            modelled_clock: Python's ``perf_counter_ns`` is the modelled host clock, and no call takes real time, so
                that host times are an exact function of the model too.
            more: other fields of `Machine`.
        """
        if modelled_clock:
            more["spend"] = False
        machine = Machine(cards=[_with_uuid(*one) for one in enumerate(cards)], faults=faults, **more)  # type: ignore[arg-type]
        values = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        before = values.get("LD_LIBRARY_PATH")
        values["LD_LIBRARY_PATH"] = f"{self.folder}:{before}" if before else str(self.folder)
        if modelled_clock:
            values["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCES / "clock"), values.get("PYTHONPATH")]))
            values["LD_PRELOAD"] = str(self.folder / _CUDA)
        if self.locks:
            values["LAUNCHBENCH_LOCK_DIR"] = str(self.locks)
        return {**values, VARIABLE: machine.text(), **(variables or {})}


def _with_uuid(index: int, card: Card) -> Card:
    """The card with a UUID that no other run of the tests on this machine has, which would wait for its lock."""
    if card.uuid is not None:
        return card
    digits = hashlib.sha256(
        f"{card.name} {index} {card.parent} {os.environ.get('PYTEST_XDIST_TESTRUNUID')}"
        f" {os.environ.get('PYTEST_XDIST_WORKER')}".encode()
    ).hexdigest()
    kind = "MIG" if card.parent else "GPU"
    uuid = f"{kind}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"
    return dataclasses.replace(card, uuid=uuid)


def read_trace(path: Path) -> dict[str, int]:
    """Functions that the processes with this ``trace`` called, without version suffix, and how often together."""
    calls: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, count = line.partition("\t")
        calls[name] = calls.get(name, 0) + int(count)
    return calls
