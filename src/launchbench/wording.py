"""Numbers as people read them: significant digits, intervals, one word for what is not known. Pure text."""

from __future__ import annotations

import math
from collections.abc import Iterable

_DASH, _MINUS, _INFINITY = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{INFINITY}"
UNKNOWN = _DASH
MAX_NAME = 48


def number(value: float | None, digits: int = 3) -> str:
    """The value with so many significant digits, never in exponents; thousands are set apart.

    A dash for None and NaN, the sign of infinity for infinity.
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return _INFINITY if value > 0 else _MINUS + _INFINITY
    return _fixed(value, _decimals(value, digits))


def whole(value: float) -> str:
    """A count kept as a float: ``1,234``, the sign of infinity, or a dash for NaN."""
    return f"{value:,.0f}" if math.isfinite(value) else number(value)


def with_interval(value: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """``4.52 [4.50-4.55]``, all in the precision of the value; without an interval only the value."""
    text = number(value, digits)
    if value is None or low is None or high is None or not all(map(math.isfinite, (value, low, high))):
        return text
    decimals = _decimals(value, digits)
    return f"{text} [{_fixed(low, decimals)}{_DASH}{_fixed(high, decimals)}]"


def span(values: Iterable[float | None], digits: int = 3) -> str:
    """``4.2-4.8``, smallest to largest known value; one number where both look the same."""
    known = sorted(value for value in values if value is not None and not math.isnan(value))
    if not known:
        return UNKNOWN
    low, high = number(known[0], digits), number(known[-1], digits)
    return low if low == high else f"{low}{_DASH}{high}"


def several(words: Iterable[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *head, tail = list(words) or [""]
    return f"{', '.join(head)} {last} {tail}" if head else tail


def plural(count: int, word: str) -> str:
    """``1 card``, ``2 cards``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def ranges(numbers: Iterable[int]) -> str:
    """``0-3, 8`` for 0, 1, 2, 3, 8."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def one_line(text: str) -> str:
    """The text with a space for every character that is not printable: a carriage return breaks a CSV."""
    return "".join(character if character.isprintable() else " " for character in text)


def in_markdown(text: str) -> str:
    """The text as it stands, whatever Markdown or HTML would make of it."""
    marked = "".join(f"\\{one}" if one in "\\`*_[]|#~!" else one for one in text)
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shortened(text: str, longest: int = MAX_NAME) -> str:
    """The text, cut in the middle when it is too long for a legend or a heading."""
    text = " ".join(text.split())
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"


def _decimals(value: float, digits: int) -> int:
    magnitude = 0 if value == 0 else math.floor(math.log10(abs(value)))
    decimals = digits - 1 - magnitude
    # 9.996 with three digits is 10.0, not 10.00.
    if value and math.floor(math.log10(abs(round(value, decimals)) or 1)) > magnitude:
        decimals -= 1
    return decimals


def _fixed(value: float, decimals: int) -> str:
    rounded = round(value, decimals)
    text = f"{rounded:,.{max(0, decimals)}f}"
    return text.replace("-", _MINUS) if rounded else text.lstrip("-")
