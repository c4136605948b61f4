"""Values and refusals in one printable line, whatever they contain. Light to import."""

from __future__ import annotations

import reprlib

from launchbench.errors import LaunchbenchError


class _Shortened(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, 60, 60

    # What Snakemake makes of a JSON file; the general fallback would write it out in full first.
    repr_OrderedDict = reprlib.Repr.repr_dict

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write out whole numbers of several thousand digits.
        return repr(x) if x.bit_length() <= 128 else f"a whole number of {x.bit_length()} bits"


def escaped(text: str) -> str:
    """The text with every control character written out."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(value: object) -> str:
    """The value as Python writes it, in at most 60 printable characters."""
    text = escaped(_Shortened().repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def refusal(source: str, what: str, expected: str = "valid YAML") -> LaunchbenchError:
    """One line: where, what was found, what was expected."""
    return LaunchbenchError(escaped(f"{source}: {what}; expected {expected}"))
