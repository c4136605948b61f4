"""Finds compute-sanitizer and runs a program under it. What its output means is told by ``memcheck``."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launchbench.pointers.memcheck import ERROR_STATUS
from launchbench.programs import run

NAME = "compute-sanitizer"
PACKAGE = "nvidia-cuda-sanitizer-api"
"""The wheel that brings the tool."""

ANSWER_SECONDS = 60
"""How long ``--version`` may take; generous, because a cold network file system may hold the tool."""

RUN_SECONDS = 300
"""How long one scenario may take: it launches two kernels, yet the tool starts slowly on large machines."""

INSTALLATIONS = Path("/usr/local")


@dataclass(frozen=True)
class Tool:
    """A compute-sanitizer that answers, and the options of it that this project wants and it has."""

    path: Path
    version: str
    source: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class ToolRun:
    """One run: everything printed, and the exit status, None where it had to be ended."""

    output: bytes
    exit_status: int | None


def find_tool() -> Tool | str:
    """The first compute-sanitizer that answers: on PATH, in CUDA_HOME or CUDA_PATH, as a wheel, in /usr/local/cuda*.

    Returns:
        The tool, or in words why there is none.
    """
    passed_over = []
    for source, path in _candidates():
        answer = _examine(path, source)
        if isinstance(answer, Tool):
            return answer
        passed_over.append(answer)
    cure = f"`pip install {PACKAGE}` brings it"
    return "; ".join([*passed_over, f"no {NAME} on PATH, in CUDA_HOME or in this Python environment: {cure}"])


def _candidates() -> Iterator[tuple[str, Path]]:
    if on_path := shutil.which(NAME):
        yield "PATH", Path(on_path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield from (("CUDA_HOME", path) for path in _in_toolkit(Path(home)))
    for folder in dict.fromkeys([*site.getsitepackages(), site.getusersitepackages(), *sys.path]):
        for toolkit in sorted(Path(folder).glob("nvidia/*")) if folder else []:
            yield from (("environment", path) for path in _in_toolkit(toolkit))
    for toolkit in sorted(INSTALLATIONS.glob("cuda*"), reverse=True):
        yield from (("system", path) for path in _in_toolkit(toolkit))


def _in_toolkit(folder: Path) -> Iterator[Path]:
    for place in ("bin", NAME):
        if (folder / place / NAME).is_file():
            yield folder / place / NAME


def _examine(path: Path, source: str) -> Tool | str:
    answers = []
    for option in ("--version", "--help"):
        try:
            done = run(
                [str(path), option],
                ANSWER_SECONDS,
                patience_s=0,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            return f"{path} cannot be started ({error.strerror})"
        if done.exit_status is None:
            return f"{path} {option} did not answer within {ANSWER_SECONDS} s"
        answers.append(done.out)
    version = re.search(r"Version (\d[\w.]*)", answers[0])
    if not version:
        return f"{path} --version printed no version"
    return Tool(path, version[1], source, _options(answers[1]))


def _options(help_text: str) -> tuple[str, ...]:
    # The whole back trace: newer versions hide the frames of the runtime, and so the call that launched the graph.
    wanted = (("--backtrace-short", "no"), ("--launch-timeout", str(ANSWER_SECONDS)))
    given = [word for option in wanted if option[0] in help_text for word in option]
    return ("--tool", "memcheck", "--error-exitcode", str(ERROR_STATUS), *given)


def run_under(
    tool: Tool, program: Sequence[str], environment: Mapping[str, str], timeout_s: float = RUN_SECONDS
) -> ToolRun:
    """Run a program under the tool; its output goes to a file, so that nothing is lost when it has to be ended."""
    command = [str(tool.path), *tool.options, *program]
    with tempfile.TemporaryFile() as output:
        try:
            # What holds the card must not outlive this call: the tool starts the program, so the whole group ends.
            done = run(
                command,
                timeout_s,
                patience_s=0,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            return ToolRun(f"{tool.path} cannot be started ({error.strerror})\n".encode(), 127)
        output.seek(0)
        text = output.read()
    if done.exit_status is None:
        text += f"did not end within {timeout_s:g} s\n".encode()
    return ToolRun(text, done.exit_status)
