"""What config.yaml may say: the model, its defaults, its schema, and one readable line per mistake.

Imported by the Snakefile, so by every job: it may import nothing heavy and asks no device. Single values are
checked by `Rule` annotations; pydantic supplies the structure and the JSON schema, never the wording.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import core_schema

from launchbench.config.messages import escaped, refusal, shown
from launchbench.config.names import NO_SITES
from launchbench.config.rules import Problem, Rule, choice, flag, problems_error, several, text, whole
from launchbench.config.slurm import SlurmRequest
from launchbench.config.yaml_file import read_yaml
from launchbench.errors import LaunchbenchError
from launchbench.results.lengths_words import MAX_LAUNCH_COUNT as MAX_LENGTHS_COUNT
from launchbench.results.protocol import KERNELS, LAUNCH_PATHS, MAX_LAUNCH_COUNT, Kernel, LaunchPath

Cards = Literal["visible", "listed", "none"]
VirtualResults = Literal["refuse", "allow"]
Extra = Literal["pointers", "lengths", "decode"]

MAX_PROBLEMS = 50
SETTINGS_VARIABLE = "LAUNCHBENCH_SETTINGS"
"""Environment variable that hands a whole configuration, as JSON, to a command."""


def _parse_pattern(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise ValueError
    if not value.isprintable():
        # "\b" in double quotes is a backspace, and would silently match no card.
        raise ValueError(r" (no control characters; write it in single quotes, as in '\bT4\b')")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(value, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise ValueError(f" ({error})") from None
    return str(value)


def _parse_folder(value: object) -> str:
    # Braces would be wildcards to Snakemake; "~" and "$" are expanded by shells only; "-b" is an option to commands.
    if not isinstance(value, str) or not re.fullmatch("[^{}~$][^{}]{0,199}", value):
        raise ValueError
    path = os.path.normpath(value)  # also of "./-b"
    if not value.isprintable() or value.isspace() or path.startswith("-"):
        raise ValueError
    return path


_CHARACTERS = "out of a-z, 0-9, dot, underscore and hyphen, a letter or digit first (not na, nan, none, null{})"
_SITE = text(
    "[a-z0-9][a-z0-9._-]{0,63}",
    f"no value (the host name) or 1 to 64 characters {_CHARACTERS.format(', published')}",
    NO_SITES,
)
_LABEL = text("[a-z0-9][a-z0-9._-]{0,31}", f"a label of 1 to 32 characters {_CHARACTERS.format('')}")
_CAPABILITY = text(r"[1-9][0-9]?\.(0|[1-9][0-9]?)", 'a string "major.minor", for example "7.5"')
_ARCHITECTURE = text("sm_([5-9][0-9]|1[0-9]{2})[af]?", "an architecture such as sm_90, never native")
_SHORT_STRING = core_schema.str_schema(min_length=1, max_length=200)
_PATTERN = Rule("a regular expression of 1 to 200 characters", _parse_pattern, _SHORT_STRING)
_FOLDER = Rule(
    "a folder path of 1 to 200 printable characters, without braces, not starting with ~, $ or -",
    _parse_folder,
    _SHORT_STRING,
)
_COUNTS = several(whole(1, MAX_LAUNCH_COUNT), f"whole numbers from 1 to {MAX_LAUNCH_COUNT}", "[8, 64, 512, 4096]")
_PATHS = several(choice(LAUNCH_PATHS), "launch paths", "[native-driver, cuda-python]")
_KERNELS = several(choice(KERNELS), "kernels", "[tiny, empty]")
_EXTRAS = several(choice(get_args(Extra)), "extra jobs", "[pointers]", least=0)
_ARCHITECTURES = several(_ARCHITECTURE, "architectures", "[sm_80, sm_90]")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GpuType(_Strict):
    """What identifies a card of this type."""

    name: Annotated[str, _PATTERN] = Field(
        description="regular expression looked for in the card's name, in any case; "
        "a MIG slice is matched only by one with MIG in it"
    )
    compute_capability: Annotated[str, _CAPABILITY] = Field(description='"major.minor", a string')

    def matches(self, name: str, compute_capability: tuple[int, int]) -> bool:
        """Whether a card of this name and compute capability (major, minor) is of this type.

        A MIG slice is not the full card, although its name begins with the card's.
        """
        if re.search(r"\bMIG \d+g\.", name) and "mig" not in self.name.lower():
            return False
        same_capability = self.compute_capability == "{}.{}".format(*compute_capability)
        return same_capability and re.search(self.name, name, re.IGNORECASE) is not None


class Config(_Strict):
    """What launchbench measures. Every key may be left out."""

    site: Annotated[str, _SITE] | None = Field(
        None,
        description="folder under results_dir that the results of this machine or cluster are filed in; "
        "null = made from the host name",
    )
    cards: Annotated[Cards, choice(get_args(Cards))] = Field(
        "visible",
        description="which cards this run may measure: visible = those CUDA shows here; "
        "listed = every label under slurm (under gpus where that has none), for a cluster; "
        "none = only render from results",
    )
    launch_counts: Annotated[tuple[int, ...], _COUNTS] = Field(
        (8, 64, 512, 4096), description="N: launches per loop, and kernel nodes per graph; distinct"
    )
    launch_paths: Annotated[tuple[LaunchPath, ...], _PATHS] = Field(
        ("native-driver", "cuda-python"),
        description="who issues the N launches: native-driver = cuLaunchKernel in a native loop; "
        "native-runtime = <<<>>> in a native loop; cuda-bindings = cuLaunchKernel of cuda.bindings in a Python loop; "
        "cuda-python = cuda.core.launch in a Python loop; cupy, numba, triton and torch, where they are installed, the "
        "last three with kernels of their own; distinct",
    )
    kernels: Annotated[tuple[Kernel, ...], _KERNELS] = Field(
        ("tiny", "empty"),
        description="what is launched: tiny = d[0] += 1.0f; empty = control with no memory access; distinct",
    )
    extras: Annotated[tuple[Extra, ...], _EXTRAS] = Field(
        (),
        description="what else is done once on each card: pointers = replays after a free, compute-sanitizer, cures; "
        "lengths = kernels of chosen lengths, by both clocks; "
        "decode = a transformer's decode step, eager and as a graph, where PyTorch is installed",
    )
    trials: Annotated[int, whole(1, 1000)] = Field(
        3, description="fresh processes for each card and N, each a job of its own"
    )
    placements: Annotated[int, whole(1, 100_000)] = Field(
        700,
        description="places of the buffer that the replay of tiny is timed at, on the first native launch path (the "
        "first path where none is native); every other launch path and kernel has full_placements of them",
    )
    full_placements: Annotated[int, whole(1, 100_000)] = Field(
        25, description="how many of them get every mode, not the replays alone; at most placements"
    )
    pool_mib: Annotated[int, whole(1, 65_536)] = Field(
        512, description="device memory that the placements are drawn from, in MiB"
    )
    repetitions: Annotated[int, whole(1, 100_000)] = Field(
        3, description="timed repetitions of every mode at each placement that has it"
    )
    warmup_rounds: Annotated[int, whole(1, 10_000)] = Field(
        5, description="untimed rounds of all modes at the first placement; each of the others has one"
    )
    warmup_ms: Annotated[int, whole(0, 60_000)] = Field(
        200, description="the untimed rounds go on for at least this long, in milliseconds"
    )
    cure_repetitions: Annotated[int, whole(1, 100_000)] = Field(
        50, description="extras: pointers alone: timed repetitions of every cure at each N"
    )
    length_repetitions: Annotated[int, whole(1, 100_000)] = Field(
        20, description="extras: lengths alone: timed repetitions of loop and of replay at each N and kernel length"
    )
    architectures: Annotated[tuple[str, ...], _ARCHITECTURES] = Field(
        ("sm_75", "sm_80", "sm_90"),
        description="machine code built into one binary for all cards; PTX of the newest is added; distinct",
    )
    gpus: dict[Annotated[str, _LABEL], GpuType] = Field(
        {
            "t4": GpuType(name=r"\bT4\b", compute_capability="7.5"),
            "a100": GpuType(name=r"\bA100\b", compute_capability="8.0"),
            "h100": GpuType(name=r"\bH100\b", compute_capability="9.0"),
            "h200": GpuType(name=r"\bH200\b", compute_capability="9.0"),
        },
        min_length=1,
        description="GPU types to compare: label -> what identifies the card",
    )
    slurm: dict[Annotated[str, _LABEL], SlurmRequest] = Field(
        {}, description="how a SLURM cluster is asked for each label; set by profiles/slurm/cluster.yaml"
    )
    results_dir: Annotated[str, _FOLDER] = Field(
        "results", description="measured data, committed; never an output of a rule"
    )
    reports_dir: Annotated[str, _FOLDER] = Field("reports", description="rendered; can be made again")
    build_dir: Annotated[str, _FOLDER] = Field(
        "build", description="scratch: binaries, receipts, tables; may be deleted at any time"
    )
    published: Annotated[bool, flag()] = Field(
        True,
        description="whether the report shows what others have published (results_dir/published/*.csv), apart from "
        "the results",
    )
    virtual_results: Annotated[VirtualResults, choice(get_args(VirtualResults))] = Field(
        "refuse",
        description="what becomes of a simulated GPU, as the tests have one: refuse = it is not measured; "
        "allow = it is, into a results_dir apart from the folder results",
    )

    @model_validator(mode="after")
    def _check_together(self, info: ValidationInfo) -> Self:
        problems: list[Problem] = []
        # Of two keys that do not go together the one is told that was set in the source that goes before the other.
        rank = (info.context or {}).get("rank", lambda _: 0)
        # The results must survive when what can be made again is deleted, whatever links there are.
        folders = {key: getattr(self, key) for key in ("results_dir", "reports_dir", "build_dir")}
        real = {key: Path(os.path.realpath(folder)) for key, folder in folders.items()}
        for key, folder in folders.items():
            if Path(os.path.realpath(".")).is_relative_to(real[key]):
                expected = "a folder that neither is nor holds the working directory"
                problems.append(((key,), f"got {shown(folder)}", expected))
        for other, key in [] if problems else combinations(folders, 2):
            if real[key].is_relative_to(real[other]) or real[other].is_relative_to(real[key]):
                told, against = (other, key) if rank((other,)) > rank((key,)) else (key, other)
                expected = f"a folder apart from {against} {shown(folders[against])}, not inside or around it"
                problems.append(((told,), f"got {shown(folders[told])}", expected))
        if self.virtual_results == "allow" and real["results_dir"].is_relative_to(os.path.realpath("results")):
            expected = "refuse, or a results_dir apart from 'results', where only measured results lie"
            problems.append((("virtual_results",), "got 'allow'", expected))
        if self.full_placements > self.placements:
            if rank(("placements",)) > rank(("full_placements",)):
                expected = f"at least full_placements, which is {self.full_placements}"
                problems.append((("placements",), f"got {self.placements}", expected))
            else:
                expected = f"at most placements, which is {self.placements}"
                problems.append((("full_placements",), f"got {self.full_placements}", expected))
        if "lengths" in self.extras and min(self.launch_counts) > MAX_LENGTHS_COUNT:
            expected = f"also one of at most {MAX_LENGTHS_COUNT}, which extras: [lengths] needs"
            problems.append((("launch_counts",), f"got {shown(list(self.launch_counts))}", expected))
        for label in (label for label in self.slurm if label not in self.gpus):
            problems.append((("slurm", label), "got a label that gpus has not", f"one of {', '.join(self.gpus)}"))
        types: dict[GpuType, str] = {}
        for label, gpu in self.gpus.items():
            if types.setdefault(gpu, label) != label:
                clause = f"got the same name and compute_capability as {types[gpu]}"
                problems.append((("gpus", label), clause, "a type that no other label has"))
        if problems:
            raise problems_error(problems)
        return self

    def label_for(self, name: str, compute_capability: tuple[int, int]) -> str | None:
        """The label of a card of this name and compute capability (major, minor); None if it has no entry.

        Raises:
            LaunchbenchError: The card matches several labels.
        """
        labels = [label for label, gpu in self.gpus.items() if gpu.matches(name, compute_capability)]
        if len(labels) > 1:
            matched = f"the card {shown(name)} matches {', '.join(labels)}"
            raise refusal("gpus", matched, "one label; narrow the names")
        return labels[0] if labels else None


def load(
    mapping: Mapping[str, Any] | None,
    source: str = "config.yaml",
    origin: Callable[[tuple[Any, ...]], str] | None = None,
    rank: Callable[[tuple[Any, ...]], int] | None = None,
    untyped: Callable[[tuple[Any, ...]], bool] = lambda place: False,
) -> Config:
    """Validates what was read from a configuration file; None, an empty file, means the defaults.

    Args:
        mapping: what was read.
        source: where from, for messages.
        origin: where the value at a key path comes from, if it was put together from several sources.
        rank: the larger, the later that source goes before the others; by default 0 for what is left out.
        untyped: whether what lies at a key path comes from where numbers may arrive as strings, as from ``--config``.

    Raises:
        LaunchbenchError: One line per problem: file, key, value, what was expected.
    """
    if mapping is not None and not isinstance(mapping, Mapping):
        raise refusal(source, f"got {shown(mapping)}", "lines of the form 'key: value'")
    found: list[Problem] = []
    known = _known(Config, mapping or {}, (), found)
    if isinstance(known.get("gpus"), Mapping):
        gpus = known["gpus"].items()
        known["gpus"] = {label: _known(GpuType, gpu, ("gpus", label), found) for label, gpu in gpus}
    if isinstance(known.get("slurm"), Mapping):
        asked = known["slurm"].items()
        known["slurm"] = {label: _known(SlurmRequest, one or {}, ("slurm", label), found) for label, one in asked}
    try:
        config = Config.model_validate(known, context={"rank": rank or (lambda place: int(place[0] in known))})
        found += [problem for problem in _quoted(known, config.model_dump(), ()) if not untyped(problem[0])]
        if not found:
            return config
    except ValidationError as error:
        found += [problem for one in error.errors(include_url=False) for problem in _problems(one)]
    lines = [
        f"{origin(place) if origin else source}: {_path(place)}: {clause}; expected {expected}"
        for place, clause, expected in found
    ]
    if len(lines) > MAX_PROBLEMS:
        lines[MAX_PROBLEMS:] = [f"{source}: {len(lines) - MAX_PROBLEMS} more problems"]
    raise LaunchbenchError("\n".join(map(escaped, lines)))


def _known(model: type[BaseModel], given: Any, place: tuple[Any, ...], found: list[Problem]) -> Any:
    """The entries whose keys the model has; pydantic could not name every key that it has not."""
    if not isinstance(given, Mapping):
        return given
    keys = list(model.model_fields)
    for key in (key for key in given if key not in keys):
        near = difflib.get_close_matches(key[:40] if isinstance(key, str) else "", keys, n=1)
        advice = f"a valid key; did you mean {near[0]!r}?" if near else f"one of {', '.join(keys)}"
        found.append(((*place, key), "got an unknown key", advice))
    return {key: value for key, value in given.items() if key in keys}


def _quoted(given: Any, kept: Any, place: tuple[Any, ...]) -> list[Problem]:
    """Strings that were taken for a number or a flag."""
    if isinstance(kept, Mapping) and isinstance(given, Mapping):
        return [problem for key in given for problem in _quoted(given[key], kept[key], (*place, key))]
    if isinstance(kept, tuple) and isinstance(given, list | tuple):
        pairs = enumerate(zip(given, kept, strict=True))
        return [problem for index, pair in pairs for problem in _quoted(*pair, (*place, index))]
    if isinstance(given, str) and not isinstance(kept, str):
        return [(place, f"got {shown(given)}", f"the same without quotes: {given}")]
    return []


def _problems(error: Any) -> list[Problem]:
    """One error of pydantic in our words; those of a `Rule` are so already."""
    place, value = error["loc"], error["input"]
    if error["type"] == "launchbench":
        place = (*place[:-2], value) if place[-1:] == ("[key]",) else place
        return [((*place, *rest), clause, expected) for rest, clause, expected in error["ctx"]["problems"]]
    if error["type"] == "missing":
        return [(place, "got nothing", f"the keys {' and '.join(GpuType.model_fields)}")]
    if place[0] == "slurm":
        content = "labels, each with keys such as" if len(place) == 1 else "keys such as"
        return [(place, f"got {shown(value)}", f"a mapping of {content} partition and gpu_model")]
    content = "at least one label, each with" if len(place) == 1 else "the keys"
    return [(place, f"got {shown(value)}", f"a mapping of {content} name and compute_capability")]


def _path(place: tuple[Any, ...]) -> str:
    plain = re.compile("[A-Za-z0-9_-]{1,60}")
    parts = (f".{p}" if isinstance(p, str) and plain.fullmatch(p) else f"[{shown(p)}]" for p in place)
    return "".join(parts).removeprefix(".")


def read(path: Path) -> Config:
    """Reads and validates a configuration file outside Snakemake; raises as `read_yaml` and `load`."""
    return load(read_yaml(path), str(path))


def schema_json() -> str:
    """The JSON schema of the configuration, as kept in workflow/schemas/config.schema.json."""
    return json.dumps(Config.model_json_schema(), indent=2) + "\n"
