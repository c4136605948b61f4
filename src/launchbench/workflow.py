"""What the Snakefile asks of the package, so that rule files hold rules only. Light to import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from launchbench.config import Config, load, read_yaml
from launchbench.errors import LaunchbenchError

P = ParamSpec("P")
T = TypeVar("T")


def or_exit(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The function's result; a :class:`LaunchbenchError` ends Snakemake with its lines and no traceback."""
    try:
        return function(*arguments, **named)
    except LaunchbenchError as error:
        for line in str(error).splitlines():
            print(f"launchbench: {line}", file=sys.stderr)
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
