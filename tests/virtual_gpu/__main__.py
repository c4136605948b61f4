"""Run a command on virtual cards: ``python -m tests.virtual_gpu [--card T4] ... -- command``."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from tests.virtual_gpu import A100, H100, T4, VirtualGpu, compile_library

CARDS = {"T4": T4, "A100": A100, "H100": H100}


def main() -> None:
    """Replace this process by the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.virtual_gpu", description=__doc__)
    parser.add_argument("--card", choices=CARDS, action="append", help="a card, in CUDA's order; repeatable (T4)")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / f"launchbench-virtual-gpu-{os.getuid()}"
    gpu = VirtualGpu(compile_library(folder))
    environment = gpu.environment([CARDS[name] for name in arguments.card or ["T4"]])
    os.execvpe(arguments.command[0], arguments.command, environment)


if __name__ == "__main__":
    main()
