"""What the Snakefile asks of the package, so that rule files hold rules only. Light to import."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from launchbench.config.folders import check_folders, check_writable
from launchbench.config.messages import escaped, refusal, shown
from launchbench.config.model import SETTINGS_VARIABLE, Config, load
from launchbench.config.yaml_file import read_yaml
from launchbench.errors import LaunchbenchError
from launchbench.programs import end_by_interrupt

CARDS_SETTING_VARIABLE = "LAUNCHBENCH_CARDS"
"""Environment variable that goes before the key ``cards`` wherever that is set: ``make report-cached`` needs it."""

P = ParamSpec("P")
T = TypeVar("T")


def or_exit(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The function's result; a :class:`LaunchbenchError` or an interrupt ends Snakemake in lines, with no traceback."""
    try:
        return function(*arguments, **named)
    except LaunchbenchError as error:
        for line in str(error).split("\n"):
            print(f"launchbench: {escaped(line)}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:  # of which Snakemake prints a traceback while it reads a Snakefile
        end_by_interrupt()
        raise


def settings(
    config: Mapping[str, Any],
    workflow_files: Sequence[str | Path],
    named_files: Sequence[str | Path],
    given: Mapping[str, Any],
) -> Config:
    """The validated configuration that Snakemake has merged from its files and ``--config``.

    Args:
        config: Snakemake's ``config``.
        workflow_files: all files it came from; read again, since Snakemake lets a repeated key win silently.
        named_files: those of them that ``--configfile`` names, which go before the others.
        given: what ``--config`` sets, which goes before all files.

    Raises:
        LaunchbenchError: one line per problem, which names the source that the value comes from.
    """
    named = [Path(path) for path in named_files]
    files = [path for path in map(Path, workflow_files) if path not in named] + named
    sources: list[tuple[str, Any]] = [(str(path), read_yaml(path)) for path in map(_short, files)]
    sources.append(("--config", given))
    cards = os.environ.get(CARDS_SETTING_VARIABLE)
    if cards:
        sources.append((CARDS_SETTING_VARIABLE, {"cards": cards}))
        config = {**config, "cards": cards}

    def rank(place: tuple[Any, ...]) -> int:
        """1 for the first source; 0 where none has the key."""
        deepest = max(range(len(sources)), key=lambda at: (_depth(sources[at][1], place), at))
        return deepest + 1 if _depth(sources[deepest][1], place) else 0

    def origin(place: tuple[Any, ...]) -> str:
        return sources[max(0, rank(place) - 1)][0]

    checked = load(config, sources[0][0], origin, rank, untyped=lambda place: origin(place) == "--config")
    check_folders(checked, origin)
    return checked


def check_file(path: Path) -> None:
    """Refuse what Snakemake would end over without naming the file: no mapping, a repeated key, broken YAML.

    Raises:
        LaunchbenchError: one line per problem.
    """
    found = read_yaml(path)
    if not isinstance(found, Mapping):
        got = "no keys" if found is None else shown(found)
        raise refusal(str(path), f"got {got}", "lines of the form 'key: value', or {} for all defaults")


def check_place(clone: str | Path) -> None:
    """Whether Snakemake can work with this folder and was started in it.

    Args:
        clone: the folder of the Snakefile.

    Raises:
        LaunchbenchError: braces in its path, which Snakemake takes for wildcards; another working directory, to
            which the paths in rules would be relative; or no leave to write ``.snakemake``.
    """
    if "{" in str(clone) or "}" in str(clone):
        raise refusal(str(clone), "got braces in the path of this folder", "a path without { and }: rename or move it")
    if not Path.cwd().samefile(clone):
        expected = f"that of the Snakefile: --directory {shlex.quote(str(clone))}"
        raise refusal("working directory", f"got {shown(str(Path.cwd()))}", expected)
    check_writable(Path(".snakemake").absolute())


def _depth(mapping: Any, place: tuple[Any, ...]) -> int:
    """How many keys of the path the mapping has."""
    for depth, key in enumerate(place):
        if not isinstance(mapping, Mapping) or key not in mapping:
            return depth
        mapping = mapping[key]
    return len(place)


def _short(path: Path) -> Path:
    """Relative to the working directory where the file lies in it: Snakemake makes it absolute."""
    working_directory = Path.cwd()
    return path.relative_to(working_directory) if path.is_relative_to(working_directory) else path


def hand_to_commands(config: Config) -> None:
    """Set what the commands of all rules find in their environment.

    The configuration goes there, so that ``--config key=value`` reaches the commands, and is no parameter of a
    rule, because only what decides a product may trigger its rule again. ``python`` in a rule has to be the one
    that runs Snakemake, also where its environment is not activated.
    """
    os.environ[SETTINGS_VARIABLE] = config.model_dump_json()
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
