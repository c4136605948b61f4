"""YAML read strictly: no key twice, no merge keys, bounded size, one readable line per mistake."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from launchbench.config.messages import refusal, shown
from launchbench.errors import LaunchbenchError

MAX_FILE_BYTES = 65_536

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_UNLIKELY = re.compile(r"[-+]?0[0-9bx_].*|.*[:_].*")
"""Numbers that YAML 1.1 has beside decimal ones: 010 (8), 0x10 (16), 1_0 (10) and 1:30 (90)."""


class _Loader(yaml.SafeLoader):
    """Also notes keys that occur twice, of which YAML would silently keep the last."""

    def __init__(self, content: str) -> None:
        super().__init__(content)
        self.problems: list[tuple[str, str]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first: dict[Any, int] = {}
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge":
                # A few that refer to each other would be expanded for ever.
                self.problems.append((f"line {line}: got a merge key '<<'", "the values written out"))
                return {}
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in first:
                    again = f"line {line}: got the key {shown(key)}, already in line {first[key]}"
                    self.problems.append((again, "each key once"))
                first.setdefault(key, line)
        return super().construct_mapping(node, deep)

    def note_numbers(self, node: yaml.Node, place: str, seen: set[int]) -> None:
        """Note numbers that are not what they look like; what anchors repeat only once."""
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self.note_numbers(key, place, seen)
                name = key.value if isinstance(key, yaml.ScalarNode) else "?"
                self.note_numbers(value, f"{place}.{name}" if place else name, seen)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self.note_numbers(value, f"{place}[{index}]", seen)
        elif isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and _UNLIKELY.fullmatch(node.value):
            means = shown(self.construct_object(node))
            got = f"line {node.start_mark.line + 1}: {place[:60]}: got {node.value[:60]}, which YAML reads as {means}"
            self.problems.append((got, "a number in plain decimal digits, or text in quotes"))


def read_yaml(path: Path) -> Any:
    """What a YAML file holds, read strictly: a key that occurs twice is an error.

    Snakemake reads configuration files itself and keeps the last of two equal keys: call this before it does.

    Raises:
        LaunchbenchError: One line per problem: file, line, what was expected.
    """
    source = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise refusal(source, getattr(error, "strerror", None) or str(error), "a readable file") from None
    if len(raw) > MAX_FILE_BYTES:
        raise refusal(source, "got a larger file", f"at most {MAX_FILE_BYTES} bytes")
    try:
        loader = _Loader(raw.decode("utf-8-sig"))
        node = loader.get_single_node()
        mapping = None if node is None else loader.construct_document(node)
        if node is not None and not loader.problems:
            loader.note_numbers(node, "", set())
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise refusal(source, f"line {line}: got bytes that are not UTF-8", "UTF-8 text") from None
    # PyYAML lets through what its constructors stumble over: ValueError, KeyError, RecursionError and others.
    except Exception as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or type(error).__name__
        raise refusal(source, f"{where}{what}") from None
    if loader.problems:
        raise LaunchbenchError("\n".join(str(refusal(source, *problem)) for problem in loader.problems))
    return mapping
