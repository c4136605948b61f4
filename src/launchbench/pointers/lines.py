"""The lines in which a scenario says what it does, whether cuda-python runs it or the stand-alone program.

::

    device GPU-1906dacd-...             what it runs on
    step capture                        what comes next
    call cuGraphInstantiate 0 CUDA_SUCCESS
    address d2 0x7f2000000200
    value d2 1
    complete recycled 0                 the last line: scenario and exit status

Lines come one at a time, so what a process said before it died is not lost. Others, such as those of
compute-sanitizer, may stand between them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from launchbench.results.pointers import Call
from launchbench.results.pointers_words import STEPS

TOOL_PREFIX = "========="
"""What lines of compute-sanitizer begin with."""

_CALL = re.compile(r"call (\S+) ([0-9]{1,9}) (\S+)")
_ADDRESS = re.compile(r"address (\w+) (0x[0-9a-f]+)")
_VALUE = re.compile(r"value (\w+) (-?[0-9.]+(?:e[-+]?[0-9]+)?)")
_DEVICE = re.compile(r"device ((?:GPU|MIG)-[0-9a-f-]+)")
_COMPLETE = re.compile(r"complete (\w+) ([0-9]{1,9})")


@dataclass
class Lines:
    """What the lines say; ``complete`` holds scenario and exit status, if the last line is that one.

    ``went_on`` says that one such line was followed by others.
    """

    device_uuid: str | None = None
    calls: list[Call] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    complete: tuple[str, int] | None = None
    went_on: bool = False
    words: list[str] = field(default_factory=list)
    """Lines that are none of these, without the tool's."""


def read_lines(text: str) -> Lines:
    """Read them; anything that is not such a line is kept as words, and never an error."""
    seen, step = Lines(), STEPS[0]
    for line in (raw.strip() for raw in text.splitlines()):
        if not line or line.startswith(TOOL_PREFIX):
            continue
        seen.went_on = seen.went_on or seen.complete is not None
        seen.complete = None  # only the very last line says it
        if line.startswith("step ") and line[5:] in STEPS:
            step = line[5:]
        elif match := _CALL.fullmatch(line):
            call = Call.model_validate({"step": step, "call": match[1], "code": int(match[2]), "name": match[3]})
            seen.calls.append(call)
        elif match := _ADDRESS.fullmatch(line):
            seen.addresses[match[1]] = match[2]
        elif (match := _VALUE.fullmatch(line)) and (value := _finite(match[2])) is not None:
            seen.values[match[1]] = value
        elif match := _DEVICE.fullmatch(line):
            seen.device_uuid = match[1]
        elif match := _COMPLETE.fullmatch(line):
            seen.complete = match[1], int(match[2])
        else:
            seen.words.append(line)
    return seen


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
