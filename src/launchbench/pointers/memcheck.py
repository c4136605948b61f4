"""What compute-sanitizer's memcheck printed, field by field, and what may be concluded from it.

The layout is that of NVIDIA's manual, "Understanding Memcheck Errors", in its forms from 2021 to 2026: versions differ
in whether they name the source line, the nearest allocation and the frames. A field that is not printed is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from launchbench.pointers.lines import TOOL_PREFIX, Lines
from launchbench.results.pointers import AccessError
from launchbench.results.pointers_words import Verdict

ERROR_STATUS = 86
"""What the tool is told to end with when it has found an error; the program itself never does."""

_SUMMARY = re.compile(r"ERROR SUMMARY: ([\d,]+) errors?\b(.*)")
_ACCESS = re.compile(r"Invalid (__\w+__) (read|write|atomic)(?: of size ([\d,]+)(?: bytes?)?)?.*")
_API = re.compile(r'Program hit (\S+) \(error ([0-9]{1,9})\)(?: due to "[^"]*")? on CUDA API call to (\w+).*')
_API_OLD = re.compile(r"Program hit error ([0-9]{1,9}) on CUDA API call to (\w+).*")
_ADDRESS = re.compile(r"(?:Address|Access (?:at|to)) (0x[0-9a-f]+)\b.*")
_NEAREST = re.compile(
    r"and is (?:(inside)|([\d,]+) bytes? (before|after)) the nearest allocation at (0x[0-9a-f]+)"
    r"(?: of size ([\d,]+) bytes?)?.*"
)
_AT_NEW = re.compile(r"at (.+?)(?:\+|:)0x[0-9a-f]+(?: in (.+:\d+))?")
_AT_OLD = re.compile(r"at 0x[0-9a-f]+ in (?:(.+?:\d+):)?(.+)")
_FRAME = re.compile(r"Host Frame: ?(.*)")
_FILE = re.compile(r"^.*:\d+:")
_PLACE = re.compile(r"(?: in \S+:\d+)?(?: \[0x[0-9a-f]+\])?(?: in \S+)?$")

_UNSUPPORTED = re.compile(r".*\b(?:not |un)supported\b", re.IGNORECASE)
"""The tool says that it cannot work here."""


@dataclass(frozen=True)
class Report:
    """The tool's lines, read.

    Attributes:
        errors: what it reports.
        error_count: of its summary, the largest where it printed several; None without any.
        words: lines that are part of no error, among them a summary that says more than a number.
        zero_and_more: whether one summary says that there is no error, and another that there are.
    """

    errors: tuple[AccessError, ...]
    error_count: int | None
    words: tuple[str, ...]
    zero_and_more: bool = False


def read_report(text: str) -> Report:
    """Read everything that tool and program printed; garbage gives an empty report."""
    errors: list[AccessError] = []
    words: list[str] = []
    counts: list[int] = []
    for block in _blocks(text):
        head = block[0]
        if summary := _SUMMARY.fullmatch(head):
            counts += [] if (count := _number(summary[1])) is None else [count]
            words += [head] if summary[2].strip() or count is None else []
        elif error := _error(block):
            errors.append(error)
        elif head != "COMPUTE-SANITIZER":
            words += block
    contradicts = 0 in counts and any(counts)
    return Report(tuple(errors), max(counts, default=None), tuple(words), contradicts)


def _blocks(text: str) -> Iterable[list[str]]:
    """Each unindented line of the tool with the indented ones that follow it."""
    block: list[str] = []
    for raw in text.splitlines():
        if not raw.startswith(TOOL_PREFIX):
            continue
        line = raw.removeprefix(TOOL_PREFIX)
        if line.startswith("     ") and block:
            block.append(line.strip())
            continue
        if block:
            yield block
        block = [line.strip()] if line.strip() else []
    if block:
        yield block


def _error(block: list[str]) -> AccessError | None:
    head = block[0]
    # "Leaked 4 bytes at ...", "Malloc/Free error ..." and whatever else the tool reports with a back trace.
    traced = any(line.startswith(("Saved host backtrace", "Host Frame")) for line in block)
    if not (traced or head.startswith(("Invalid ", "Program hit "))):
        return None
    fields: dict[str, Any] = {"kind": head, "host_frames": _host_frames(block)}
    if access := _ACCESS.fullmatch(head):
        fields |= {"space": access[1], "access": access[2], "size_bytes": _number(access[3])}
    if api := _API.fullmatch(head):
        fields |= {"api_name": api[1], "api_code": int(api[2]), "api_call": api[3]}
    elif api := _API_OLD.fullmatch(head):
        fields |= {"api_code": int(api[1]), "api_call": api[2]}
    for line in block[1:]:
        if (place := _AT_OLD.fullmatch(line)) and "kernel" not in fields:
            fields |= {"source_line": _base(place[1]), "kernel": place[2]}
        elif (place := _AT_NEW.fullmatch(line)) and "kernel" not in fields:
            fields |= {"kernel": place[1], "source_line": _base(place[2])}
        elif address := _ADDRESS.fullmatch(line):
            fields["address"] = address[1]
        elif nearest := _NEAREST.fullmatch(line):
            fields |= {
                "side": nearest[1] or nearest[3],
                "distance_bytes": 0 if nearest[1] else _number(nearest[2]),
                "nearest_address": nearest[4],
                "nearest_size_bytes": _number(nearest[5]),
            }
    return AccessError.model_validate(fields)


def _host_frames(block: list[str]) -> list[str]:
    """Names of functions; a frame without one is left out."""
    found = (frame[1] for line in block if (frame := _FRAME.fullmatch(line)))
    names = (_FILE.sub("", _PLACE.sub("", frame)).strip() for frame in found)
    return [name for name in names if name and not name.startswith(("[", "libcudart_static_"))]


def _base(place: str | None) -> str | None:
    """Without the folder, which is the building machine's."""
    return place.rpartition("/")[2] if place else None


def _number(text: str | None) -> int | None:
    digits = text.replace(",", "") if text else ""
    # More digits are no size and no count of anything, and Python refuses thousands of them.
    return int(digits) if re.fullmatch("[0-9]{1,15}", digits) else None


def conclude(report: Report, program: Lines, scenario: str, tool_exit_status: int | None) -> tuple[Verdict, str | None]:
    """What the run shows, and why it is not more.

    Args:
        report: what the tool printed.
        program: what the program said meanwhile.
        scenario: the one that was asked for.
        tool_exit_status: None where it had to be ended.

    Returns:
        ``errors`` when the tool has reported any on a run that came to its end or accessed memory wrongly; ``clean``
        only where program, summary and exit statuses all say so and the tool has said nothing else; ``not-run`` where
        the program did not come to its end and the tool says why; else ``cannot-tell``. With a reason for all but the
        first two.
    """
    completed = program.complete == (scenario, 0)
    wrong_access = any(error.access for error in report.errors)
    if wrong_access or (completed and (report.errors or (report.error_count and not report.zero_and_more))):
        return "errors", None
    words = "; ".join(report.words) or (program.words[-1] if program.words else "")
    if tool_exit_status is None:
        return "cannot-tell", "; ".join(dict.fromkeys(filter(None, [words, *program.words[-1:]])))
    if program.went_on:
        return "cannot-tell", "; ".join(
            ["the program went on after it had said that it was at its end", *program.words[-1:]]
        )
    if not completed or any(map(_UNSUPPORTED.match, report.words)):
        return "not-run", _not_run(report, words, tool_exit_status)
    if report.zero_and_more:
        return "cannot-tell", f"the tool's summaries contradict each other: {report.error_count} errors, and none"
    if report.words:  # whatever it is, it is not what a run without an error prints
        return "cannot-tell", words
    if report.error_count is None:
        return "cannot-tell", words or "the tool printed no summary"
    if tool_exit_status:
        return "cannot-tell", words or f"the tool ended with status {tool_exit_status}, yet reports no error"
    return "clean", None


def _not_run(report: Report, words: str, status: int) -> str:
    if report.errors:
        words = "; ".join(filter(None, [*(error.kind for error in report.errors), words]))
    return words or f"the program never said that it had come to its end; the tool ended with status {status}"
