"""Driver, cards, NVML, and whether the compiled kernels load. Each check runs in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from launchbench.config.model import Config
from launchbench.doctor.finding import Finding, Status, in_slurm_job
from launchbench.errors import LaunchbenchError
from launchbench.measure.cards import Card
from launchbench.series import broken_driver, driver_cuda_version, installed_series


def driver(_config: Config) -> Iterator[Finding]:
    """The driver, and the cuda-python that it can run."""
    newest = driver_cuda_version()
    if newest is None:
        yield Finding(
            _absent(),
            "driver",
            broken_driver() or "no NVIDIA driver (libcuda.so.1)",
            "nothing can be measured here; the report can be rendered from results",
        )
        return
    from launchbench.measure.driver import require_series

    try:
        require_series()
    except LaunchbenchError as error:
        yield Finding("fail", "driver", str(error))
        return
    yield Finding("ok", "driver", "runs CUDA up to {}.{}".format(*newest) + f", cuda-python {_bindings()} with it")


def cards(config: Config) -> Iterator[Finding]:
    """Every visible card: the label it matches, whether the build has code for it."""
    for card in _visible():
        if isinstance(card, Finding):
            yield card
            continue
        capability = "{}.{}".format(*card.compute_capability)
        told = f"{card.name} ({card.id}), compute capability {capability}"
        if card.is_virtual and config.virtual_results != "allow":
            yield Finding("fail", "card", told, "simulated, and virtual_results is 'refuse'")
            continue
        try:
            label = card.label(config)
        except LaunchbenchError as error:
            yield Finding("fail", "card", str(error))
            continue
        if label in config.gpus:
            yield Finding("ok", "card", f"{told}: {label}")
        else:
            do = f"it is measured as {label}; an entry under gpus gives it another label"
            yield Finding("warn", "card", f"{told}, matches no label", do)
        yield from _architecture(card, config)


def nvml(_config: Config) -> Iterator[Finding]:
    """What NVML does not tell, and which other processes are on the card."""
    from launchbench.measure.nvml import session

    for card in _visible():
        if isinstance(card, Finding):
            return
        with session(card.uuid) as told:
            facts, state = told.facts(), told.state()
        missing = {**facts["unavailable"], **state.unavailable}
        reasons = sorted(set(missing.values()))
        if facts["driver_version"] is None and len(reasons) == 1:
            do = "measuring works, but clocks, throttling and other processes stay unknown"
            yield Finding("warn", "NVML", f"{card.id}: {reasons[0]}", do)
            continue
        says = f"{card.id}: driver {facts['driver_version'] or 'unknown'}"
        if missing:
            says += f"; not told: {', '.join(sorted(missing))} ({'; '.join(reasons)})"
        if "other_processes" in missing:
            yield Finding("warn", "NVML", says, "nobody can tell whether the card is free")
        else:
            yield Finding("ok", "NVML", says)
        if state.other_processes:
            pids = ", ".join(str(process.pid) for process in state.other_processes)
            do = "end them or take another card: their work and the measured one take turns"
            yield Finding("warn", "processes", f"{card.id}: other processes on the card ({pids})", do)
        elif state.other_processes is not None:
            yield Finding("ok", "processes", f"{card.id}: no other process on the card")
        slowing = [
            reason for reason in state.throttle_reasons or [] if "slowdown" in reason or reason == "sw_power_cap"
        ]
        if slowing:
            yield Finding(
                "warn", "clocks", f"{card.id}: held back now ({', '.join(slowing)})", "let it cool, or see why"
            )


def kernels(config: Config) -> Iterator[Finding]:
    """Whether the driver takes the compiled kernels on every card; decided by loading them."""
    from launchbench.measure.job import load_on
    from launchbench.measure.lock import card_lock

    binaries = Path(config.build_dir) / "cuda"
    if not (binaries / "build.json").is_file():
        yield Finding("ok", "kernels", f"not compiled yet ({binaries}): `make report` does it where it is needed")
        return
    for card in _visible():
        if isinstance(card, Finding) or (card.is_virtual and config.virtual_results != "allow"):
            continue
        try:
            with card_lock(card.uuid, timeout_s=-1):
                load_on(card, binaries, config)
        except LaunchbenchError as error:
            status: Status = "warn" if "another measurement" in str(error) else "fail"
            yield Finding(status, "kernels", f"{card.id}: {error}")
        else:
            yield Finding("ok", "kernels", f"{card.id}: the kernels in {binaries} load")


def _absent() -> Status:
    return "fail" if in_slurm_job() else "warn"


def _bindings() -> str:
    from cuda.bindings import __version__

    return str(__version__)


def _visible() -> Iterator[Card | Finding]:
    """The visible cards, or what keeps them from being seen; nothing where `driver` says it."""
    newest, series = driver_cuda_version(), installed_series()
    if newest is None or series is None or newest[0] < series:
        return
    from launchbench.measure.cards import visible_cards
    from launchbench.measure.driver import DriverError

    try:
        yield from visible_cards()
    except DriverError as error:
        if error.code != 100:
            yield Finding("fail", "cards", str(error))
        elif in_slurm_job():
            yield Finding("fail", "cards", str(error), "ask for a GPU when submitting (--gpus, --gres)")
        else:
            yield Finding("warn", "cards", str(error), "nothing can be measured here")
    except LaunchbenchError as error:
        yield Finding("fail", "cards", str(error))


def _architecture(card: Card, config: Config) -> Iterator[Finding]:
    """Whether the configured machine code runs on the card: of the same major number and not newer, else from PTX."""
    have = card.compute_capability[0] * 10 + card.compute_capability[1]
    targets = [(int(name[3:].rstrip("af")), name[-1].isalpha()) for name in config.architectures]
    do = f"add sm_{have} to architectures"
    if any(built == have or (built // 10 == have // 10 and built < have and not special) for built, special in targets):
        return
    if have > max(built for built, _ in targets):
        says = f"{card.id}: no machine code for it, the driver compiles PTX"
        yield Finding("warn", "architectures", says, f"{do}, if nvcc knows it")
    else:
        yield Finding("fail", "architectures", f"{card.id}: {', '.join(config.architectures)} do not run on it", do)
