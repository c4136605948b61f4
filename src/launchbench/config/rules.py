"""Rules for single values of a configuration: what is kept of a value, or what was expected. Light to import."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from launchbench.config.messages import shown
from launchbench.config.names import MISSING_VALUE_WORDS

Problem = tuple[tuple[Any, ...], str, str]
"""Key path from where it was found, what was got, what was expected."""


def problems_error(problems: list[Problem]) -> PydanticCustomError:
    """What a validator raises to say these problems."""
    return PydanticCustomError("launchbench", "not a valid configuration", {"problems": problems})


@dataclass(frozen=True, eq=False)
class Rule:
    """Annotation of a field: turns the value given into the value kept, or says what was expected.

    Args:
        expected: What a valid value is, for people.
        parse: Returns the value kept; raises ValueError, its text an extra hint, when it is not valid.
        schema: The kept value's type, from which the JSON schema is made.
    """

    expected: str
    parse: Callable[[Any], Any]
    schema: CoreSchema

    def check(self, value: object) -> Any:
        """The value kept, or an error that carries the problems."""
        try:
            return self.parse(value)
        except PydanticCustomError:
            raise
        except ValueError as hint:
            raise problems_error([((), f"got {shown(value)}", f"{self.expected}{hint}")]) from None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.check, self.schema)


def whole(low: int, high: int) -> Rule:
    """A whole number; decimal digits as a string too, which is what ``--config a=[1,4]`` gives."""

    def parse(value: object) -> int:
        if isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,9}", value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return int(value)
        is_round = isinstance(value, float) and value.is_integer() and low <= value <= high
        raise ValueError(f" (write {value:.0f})" if is_round else "")

    return Rule(f"a whole number from {low} to {high}", parse, core_schema.int_schema(ge=low, le=high))


def flag() -> Rule:
    """Either of true and false; the words as strings too, which is what ``--config key=false`` gives."""

    def parse(value: object) -> bool:
        known = {"true": True, "false": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in known:
            return known[value.lower()]
        raise ValueError

    return Rule("true or false", parse, core_schema.bool_schema())


def choice(words: tuple[str, ...]) -> Rule:
    """One of the given words."""

    def parse(value: object) -> str:
        if isinstance(value, str) and value in words:
            return str(value)
        raise ValueError

    return Rule(f"one of {', '.join(words)}", parse, core_schema.literal_schema(list(words)))


def text(pattern: str, expected: str, never: frozenset[str] = MISSING_VALUE_WORDS) -> Rule:
    """A string that matches the pattern as a whole and is none of the words, by default those for a missing value."""

    def parse(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value) and value not in never:
            return str(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
            quoted = next((q for q in (f"{value}", f"{value}.0") if re.fullmatch(pattern, q)), "")
            raise ValueError(f' (quote it: "{quoted}")' if quoted else "")
        raise ValueError

    return Rule(expected, parse, core_schema.str_schema(pattern=f"^{pattern}$"))


def several(entry: Rule, entries: str, example: str, least: int = 1) -> Rule:
    """A list of at least so many entries, all distinct after parsing: "8" and 8 are duplicates."""

    def parse(values: object) -> tuple[Any, ...]:
        if not isinstance(values, list | tuple) or len(values) < least:
            raise ValueError
        kept: list[Any] = []
        problems: list[Problem] = []
        seen = set()
        for index, value in enumerate(values):
            try:
                kept.append(entry.parse(value))
            except ValueError as hint:
                problems.append(((index,), f"got {shown(value)}", f"{entry.expected}{hint}"))
                continue
            if kept[-1] in seen:
                clause = f"got {shown(value)}, which is a duplicate"
                problems.append(((index,), clause, f"distinct {entries}"))
            seen.add(kept[-1])
        if problems:
            raise problems_error(problems)
        return tuple(kept)

    schema = core_schema.tuple_schema([entry.schema], variadic_item_index=0, min_length=least)
    few = "a list, which may be empty" if least == 0 else "a list of at least one entry"
    return Rule(f"{few}, for example {example}", parse, schema)
