"""What a scenario's replay did, told from its codes and values alone.

Buffers are zeroed before the replay and read after it; a replay of ``tiny`` adds 1 wherever it writes.
"""

from __future__ import annotations

from launchbench.pointers.lines import Lines
from launchbench.results.pointers import Call, Seen
from launchbench.results.pointers_words import Outcome

SETTING_UP = ("prepare", "capture", "first-replay", "free")
"""Steps whose calls must all succeed, else the scenario did not come about."""

PROBE = "probe"
"""Name of the address that the allocation after the replay gets, if the context still gives one."""


def judge(scenario: str, lines: Lines, exit_status: int | None, uuid: str) -> Seen:
    """The run with its outcome.

    Args:
        scenario: the one that was asked for.
        lines: what the process said.
        exit_status: of the process, negative for a signal, None where it is not known.
        uuid: of the card that it should have run on.
    """
    outcome, reason = _told(scenario, lines, exit_status)
    if lines.device_uuid and lines.device_uuid.partition("-")[2] != uuid.partition("-")[2]:
        outcome, reason = "cannot-tell", f"it ran on {lines.device_uuid}, not on {uuid}"
    return Seen(
        outcome=outcome,
        reason=reason,
        calls=lines.calls,
        addresses=lines.addresses,
        values=lines.values,
        device_uuid=lines.device_uuid,
        completed=lines.complete is not None,
        exit_status=exit_status,
    )


def first_failure(calls: list[Call], *steps: str) -> Call | None:
    """The first call of these steps that did not succeed."""
    return next((call for call in calls if call.code and call.step in steps), None)


def in_words(call: Call) -> str:
    """``cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)``."""
    return f"{call.call}: {call.name} ({call.code})"


def _told(scenario: str, lines: Lines, exit_status: int | None) -> tuple[Outcome, str | None]:
    failed = first_failure(lines.calls, *SETTING_UP)
    if failed:
        return "cannot-tell", f"the scenario did not come about: {in_words(failed)}"
    if lines.complete is None:
        status = "" if exit_status is None else f" with status {exit_status}"
        said = f": {lines.words[-1]}" if lines.words else ""
        return "cannot-tell", f"the process ended{status} before its last line{said}"
    if lines.complete != (scenario, 0) or exit_status not in (0, None):
        name, said_status = lines.complete
        return "cannot-tell", f"the process said '{name}, status {said_status}' and ended with status {exit_status}"
    if lines.values.get("captured") != 1.0:
        return "cannot-tell", f"the first replay left {lines.values.get('captured')} in d; expected 1"
    if first_failure(lines.calls, "replay", "after"):
        return ("error-reported" if PROBE in lines.addresses else "context-lost"), None
    return _by_values(scenario, lines.values)


def _by_values(scenario: str, values: dict[str, float]) -> tuple[Outcome, str | None]:
    wanted = {"control": ("d", "d2"), "victim": ("victim", "d2")}.get(scenario, ("d2",))
    before = {"d": 1.0}
    for name in wanted:
        if name not in values:
            return "cannot-tell", f"{name} was not read"
    changed = {name: values[name] - before.get(name, 0.0) for name in wanted}
    if strange := next((name for name, change in changed.items() if change not in (0.0, 1.0)), None):
        kept = before.get(strange, 0.0)
        return "cannot-tell", f"{strange} holds {values[strange]:g}; expected {kept:g} or {kept + 1:g}"
    written = [name for name in wanted if changed[name]]
    if len(written) > 1:
        return "cannot-tell", f"one replay of one node changed {' and '.join(written)}"
    if not written:
        return "nothing-visible", None
    words: dict[str, Outcome] = {"d": "captured-buffer-updated", "d2": "d2-updated", "victim": "victim-corrupted"}
    return words[written[0]], None
