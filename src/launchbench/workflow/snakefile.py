"""What the Snakefile asks of the package, so that rule files hold rules only. Light to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from launchbench.config.messages import escaped
from launchbench.config.model import SETTINGS_VARIABLE, Config, load
from launchbench.config.yaml_file import read_yaml
from launchbench.errors import LaunchbenchError

P = ParamSpec("P")
T = TypeVar("T")


def or_exit(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The function's result; a :class:`LaunchbenchError` ends Snakemake with its lines and no traceback."""
    try:
        return function(*arguments, **named)
    except LaunchbenchError as error:
        for line in str(error).split("\n"):
            print(f"launchbench: {escaped(line)}", file=sys.stderr)
        raise SystemExit(1) from None


def settings(config: Mapping[str, Any], config_files: Sequence[str | Path]) -> Config:
    """The validated configuration that Snakemake has merged from its files and ``--config``.

    Args:
        config: Snakemake's ``config``.
        config_files: the files it came from; read again, since Snakemake lets a repeated key win silently.

    Raises:
        LaunchbenchError: one line per problem.
    """
    for path in config_files:
        read_yaml(Path(path))
    return load(config, str(config_files[-1]) if config_files else "--config")


def hand_to_commands(config: Config) -> None:
    """Set what the commands of all rules find in their environment.

    The configuration goes there, so that ``--config key=value`` reaches the commands, and is no parameter of a
    rule, because only what decides a product may trigger its rule again. ``python`` in a rule has to be the one
    that runs Snakemake, also where its environment is not activated.
    """
    os.environ[SETTINGS_VARIABLE] = config.model_dump_json()
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
