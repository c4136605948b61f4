"""What a job could not measure of its launch paths, as its record has it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class PathGaps:
    """``paths``: launch path -> why; ``kernels``: launch path with some kernels -> each other kernel -> why."""

    paths: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, launch_path: str, reasons: Mapping[str, str], kernels: Sequence[str], subject: str) -> None:
        """Take up the reasons of a path, kernel by kernel, and say them.

        Args:
            launch_path: the path.
            reasons: kernel -> why it cannot be measured.
            kernels: all that were asked for.
            subject: what the line begins with.
        """
        if not reasons:
            return
        if len(reasons) == len(kernels):
            self.paths[launch_path] = "; ".join(dict.fromkeys(reasons.values()))
            told = [f"launch path {launch_path}: not measured: {self.paths[launch_path]}"]
        else:
            self.kernels[launch_path] = dict(reasons)
            told = [f"launch path {launch_path}, kernel {name}: not measured: {why}" for name, why in reasons.items()]
        for line in told:
            print(f"{subject}: {line}", file=sys.stderr, flush=True)

    def told(self) -> str:
        """All paths that could not be measured, in one line."""
        return "; ".join(f"{path}: {why}" for path, why in self.paths.items())
