"""The configuration: what is accepted, and the exact line that says why something is not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from launchbench.config.model import Config, GpuType, load, read, schema_json
from launchbench.config.names import host_slug, slug
from launchbench.config.yaml_file import MAX_FILE_BYTES, read_yaml
from launchbench.errors import LaunchbenchError

ROOT = Path(__file__).resolve().parents[2]
KEYS = (
    "site, cards, launch_counts, launch_paths, kernels, extras, trials, placements, full_placements, pool_mib, "
    "repetitions, warmup_rounds, warmup_ms, cure_repetitions, length_repetitions, "
    "architectures, gpus, slurm, results_dir, reports_dir, build_dir, published, virtual_results"
)
COUNT = "a whole number from 1 to 1048576"
LIST = "a list of at least one entry, for example"
CHARACTERS = "out of a-z, 0-9, dot, underscore and hyphen, a letter or digit first (not na, nan, none, null)"
SITE = f"no value (the host name) or 1 to 64 characters {CHARACTERS[:-1]}, published)"
LABEL = f"a label of 1 to 32 characters {CHARACTERS}"
REGEX = "a regular expression of 1 to 200 characters"
CAPABILITY = 'a string "major.minor", for example "7.5"'
FOLDER = "a folder path of 1 to 200 printable characters, without braces, not starting with ~, $ or -"
NOT_CWD = "a folder that neither is nor holds the working directory"
GPUS = "a mapping of at least one label, each with name and compute_capability"
GPU = "a mapping of the keys name and compute_capability"


def refused(mapping: Any) -> list[str]:
    """The lines of the error, less the file."""
    with pytest.raises(LaunchbenchError) as caught:
        load(mapping)
    lines = str(caught.value).split("\n")
    assert all(line.startswith("config.yaml: ") and line.isprintable() for line in lines)
    return [line.removeprefix("config.yaml: ") for line in lines]


def a_gpu(**changes: Any) -> dict[str, Any]:
    return {"name": r"\bL4\b", "compute_capability": "8.9"} | changes


def test_shipped_file_says_every_default_in_the_order_of_the_model() -> None:
    assert list(read_yaml(ROOT / "config.yaml")) == list(Config.model_fields) == KEYS.split(", ")
    assert read(ROOT / "config.yaml") == Config() == load({}) == load(None)


def test_shipped_file_has_a_comment_above_every_key() -> None:
    lines = (ROOT / "config.yaml").read_text(encoding="utf-8").splitlines()
    for key in Config.model_fields:
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{key}:"))
        assert lines[at - 1].startswith("# "), key


def test_schema_file_is_generated() -> None:
    kept = (ROOT / "workflow/schemas/config.schema.json").read_text(encoding="utf-8")
    assert kept == schema_json(), "python -m launchbench.config.model > workflow/schemas/config.schema.json"


def test_schema_carries_ranges_choices_and_descriptions() -> None:
    schema = json.loads(schema_json())
    entries = schema["properties"]
    assert entries["launch_counts"]["items"] == {"type": "integer", "minimum": 1, "maximum": 1_048_576}
    assert entries["launch_counts"]["minItems"] == 1
    assert entries["repetitions"]["maximum"] == 100_000
    assert entries["cards"]["enum"] == ["visible", "listed", "none"]
    assert schema["additionalProperties"] is False
    assert all(entry["description"] for entry in entries.values())


def test_defaults() -> None:
    config = load({})
    assert config.site is None
    assert config.cards == "visible"
    assert config.launch_counts == (8, 64, 512, 4096)
    assert config.launch_paths == ("native-driver", "cuda-python")
    assert config.kernels == ("tiny", "empty")
    assert (config.trials, config.placements, config.full_placements, config.pool_mib) == (3, 700, 25, 512)
    assert (config.repetitions, config.warmup_rounds, config.warmup_ms) == (3, 5, 200)
    assert config.cure_repetitions == 50
    assert config.architectures == ("sm_75", "sm_80", "sm_90")
    assert {label: gpu.compute_capability for label, gpu in config.gpus.items()} == {
        "t4": "7.5",
        "a100": "8.0",
        "h100": "9.0",
        "h200": "9.0",
    }
    assert (config.results_dir, config.reports_dir, config.build_dir) == ("results", "reports", "build")
    assert config.published is True
    assert config.virtual_results == "refuse"


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load({}).repetitions = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "given", "kept"),
    [
        ("launch_counts", [1, 1_048_576], (1, 1_048_576)),
        ("launch_counts", (3,), (3,)),
        ("launch_paths", ["native-runtime"], ("native-runtime",)),
        ("kernels", ["empty"], ("empty",)),
        ("extras", [], ()),
        ("extras", ["pointers"], ("pointers",)),
        ("extras", ["lengths", "pointers"], ("lengths", "pointers")),
        ("extras", ["decode"], ("decode",)),
        ("warmup_rounds", 10_000, 10_000),
        ("warmup_ms", 0, 0),
        ("architectures", ["sm_90a", "sm_120", "sm_103f"], ("sm_90a", "sm_120", "sm_103f")),
        ("architectures", ["sm_50", "sm_199"], ("sm_50", "sm_199")),
        ("cards", "none", "none"),
        ("cards", "listed", "listed"),
        ("published", False, False),
        ("site", "a", "a"),
        ("site", "my.lab_1-x" + "y" * 54, "my.lab_1-x" + "y" * 54),
        ("site", "12", "12"),
        ("results_dir", "./data//raw/", "data/raw"),
        ("results_dir", "../shared results", "../shared results"),
        ("results_dir", "..data", "..data"),
        ("results_dir", "results2", "results2"),
        ("build_dir", "/somewhere/scratch", "/somewhere/scratch"),
    ],
)
def test_accepted(key: str, given: Any, kept: Any) -> None:
    value = getattr(load({key: given}), key)
    assert value == kept
    assert type(value) is type(kept)


def test_accepts_what_snakemake_makes_of_a_json_file() -> None:
    mapping = OrderedDict(gpus=OrderedDict(l4=OrderedDict(a_gpu())), repetitions=7)
    assert load(mapping).gpus == {"l4": GpuType(name=r"\bL4\b", compute_capability="8.9")}


@pytest.mark.parametrize(
    ("value", "shown", "hint"),
    [
        (0, "0", ""),
        (-8, "-8", ""),
        (1_048_577, "1048577", ""),
        (True, "True", ""),
        (8.0, "8.0", " (write 8)"),
        (8.5, "8.5", ""),
        (0.0, "0.0", ""),
        (1000.0, "1000.0", " (write 1000)"),
        (float("nan"), "nan", ""),
        (float("inf"), "inf", ""),
        ("1e3", "'1e3'", ""),
        (" 8", "' 8'", ""),
        ("8\n", r"'8\n'", ""),
        ("+8", "'+8'", ""),
        ("08", "'08'", ""),
        ("1_000", "'1_000'", ""),
        ("८", "'८'", ""),
        ("²", "'²'", ""),
        ("", "''", ""),
        pytest.param("9" * 5000, f"'{'9' * 27}...{'9' * 28}'", "", id="many digits"),
        (None, "None", ""),
        ([8], "[8]", ""),
        pytest.param(10**5000, "a whole number of 16610 bits", "", id="huge"),
    ],
)
def test_whole_numbers_are_strict(value: Any, shown: str, hint: str) -> None:
    assert refused({"launch_counts": [8, value]}) == [f"launch_counts[1]: got {shown}; expected {COUNT}{hint}"]


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("trials", 1, 1000),
        ("placements", 1, 100_000),
        ("full_placements", 1, 100_000),
        ("pool_mib", 1, 65_536),
        ("repetitions", 1, 100_000),
        ("warmup_rounds", 1, 10_000),
        ("warmup_ms", 0, 60_000),
        ("cure_repetitions", 1, 100_000),
    ],
)
def test_bounds(key: str, low: int, high: int) -> None:
    together = {"placements": {"full_placements": 1}, "full_placements": {"placements": 100_000}}.get(key, {})
    assert getattr(load(together | {key: low}), key) == low
    assert getattr(load(together | {key: high}), key) == high
    for value in (low - 1, high + 1):
        assert refused({key: value}) == [f"{key}: got {value}; expected a whole number from {low} to {high}"]


def test_no_more_full_placements_than_placements() -> None:
    expected = "placements: got 10; expected at least full_placements, which is 25"
    assert refused({"placements": 10}) == [expected]
    expected = "full_placements: got 701; expected at most placements, which is 700"
    assert refused({"full_placements": 701}) == [expected]
    expected = "full_placements: got 25; expected at most placements, which is 10"
    assert refused({"placements": 10, "full_placements": 25}) == [expected]
    assert load({"placements": 10, "full_placements": 10}).full_placements == 10


EXAMPLES = {
    "launch_counts": "[8, 64, 512, 4096]",
    "launch_paths": "[native-driver, cuda-python]",
    "kernels": "[tiny, empty]",
    "architectures": "[sm_80, sm_90]",
}


@pytest.mark.parametrize(
    ("mapping", "place", "got", "kept"),
    [
        ({"launch_counts": [8, "4096"]}, "launch_counts[1]", "4096", (8, 4096)),
        ({"repetitions": "100000"}, "repetitions", "100000", 100_000),
        ({"warmup_ms": "0"}, "warmup_ms", "0", 0),
        ({"published": "false"}, "published", "false", False),
        ({"published": "True"}, "published", "True", True),
    ],
)
def test_a_quoted_number_or_flag_is_one_on_the_command_line_alone(
    mapping: dict[str, Any], place: str, got: str, kept: Any
) -> None:
    assert refused(mapping) == [f"{place}: got '{got}'; expected the same without quotes: {got}"]
    (key,) = mapping
    assert getattr(load(mapping, untyped=lambda _: True), key) == kept


def test_quoted_numbers_of_slurm_are_told_with_their_label() -> None:
    asked = {"slurm": {"h100": {"time_minutes": "30", "partition": "gpu"}}}
    assert refused(asked) == ["slurm.h100.time_minutes: got '30'; expected the same without quotes: 30"]


@pytest.mark.parametrize("key", list(EXAMPLES))
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([], "[]"),
        ((), "()"),
        (8, "8"),
        (None, "None"),
        ("tiny", "'tiny'"),
        ("[8, 64]", "'[8, 64]'"),
        ({}, "{}"),
    ],
)
def test_lists_are_lists_and_not_empty(key: str, value: Any, shown: str) -> None:
    assert refused({key: value}) == [f"{key}: got {shown}; expected {LIST} {EXAMPLES[key]}"]


@pytest.mark.parametrize(
    ("key", "values", "shown", "expected"),
    [
        ("launch_counts", [8, 8], "8", "whole numbers from 1 to 1048576"),
        ("launch_counts", [8, "8"], "'8'", "whole numbers from 1 to 1048576"),
        ("launch_paths", ["cuda-python"] * 2, "'cuda-python'", "launch paths"),
        ("kernels", ["tiny", "tiny"], "'tiny'", "kernels"),
        ("architectures", ["sm_90", "sm_90"], "'sm_90'", "architectures"),
    ],
)
def test_duplicates(key: str, values: list[Any], shown: str, expected: str) -> None:
    line = f"{key}[1]: got {shown}, which is a duplicate; expected distinct {expected}"
    assert refused({key: values}) == [line]


@pytest.mark.parametrize(
    ("mapping", "got", "expected"),
    [
        (
            {"launch_paths": ["driver"]},
            "launch_paths[0]: got 'driver'",
            "one of native-driver, native-runtime, cuda-bindings, cuda-python, cupy, numba, triton, torch",
        ),
        ({"extras": ["clocks"]}, "extras[0]: got 'clocks'", "one of pointers, lengths, decode"),
        ({"extras": "pointers"}, "extras: got 'pointers'", "a list, which may be empty, for example [pointers]"),
        ({"kernels": ["Tiny"]}, "kernels[0]: got 'Tiny'", "one of tiny, empty"),
        ({"cards": None}, "cards: got None", "one of visible, listed, none"),
        ({"cards": "all"}, "cards: got 'all'", "one of visible, listed, none"),
        (
            {"architectures": ["native"]},
            "architectures[0]: got 'native'",
            "an architecture such as sm_90, never native",
        ),
        (
            {"architectures": ["sm_9"]},
            "architectures[0]: got 'sm_9'",
            "an architecture such as sm_90, never native",
        ),
        (
            {"architectures": ["sm_999"]},
            "architectures[0]: got 'sm_999'",
            "an architecture such as sm_90, never native",
        ),
        (
            {"architectures": ["sm_90\n"]},
            "architectures[0]: got 'sm_90\\n'",
            "an architecture such as sm_90, never native",
        ),
        ({"architectures": [90]}, "architectures[0]: got 90", "an architecture such as sm_90, never native"),
        ({"site": ".."}, "site: got '..'", SITE),
        ({"site": "."}, "site: got '.'", SITE),
        ({"site": ""}, "site: got ''", SITE),
        ({"site": "a/b"}, "site: got 'a/b'", SITE),
        ({"site": "Lab"}, "site: got 'Lab'", SITE),
        ({"site": "lab\n"}, "site: got 'lab\\n'", SITE),
        ({"site": "x" * 65}, f"site: got '{'x' * 27}...{'x' * 28}'", SITE),
        ({"site": "null"}, "site: got 'null'", SITE),
        ({"site": False}, "site: got False", SITE),
        ({"site": 12}, "site: got 12", f'{SITE} (quote it: "12")'),
        ({"site": float("nan")}, "site: got nan", SITE),
        ({"gpus": {}}, "gpus: got {}", GPUS),
        ({"gpus": None}, "gpus: got None", GPUS),
        ({"gpus": ["t4"]}, "gpus: got ['t4']", GPUS),
        ({"gpus": {"l4": None}}, "gpus.l4: got None", GPU),
        ({"gpus": {"l4": "L4"}}, "gpus.l4: got 'L4'", GPU),
        (
            {"gpus": {"l4": {"name": "L4"}}},
            "gpus.l4.compute_capability: got nothing",
            "the keys name and compute_capability",
        ),
        ({"gpus": {"L4": a_gpu()}}, "gpus.L4: got 'L4'", LABEL),
        ({"gpus": {"x" * 33: a_gpu()}}, f"gpus.{'x' * 33}: got '{'x' * 33}'", LABEL),
        ({"gpus": {"../l4": a_gpu()}}, "gpus['../l4']: got '../l4'", LABEL),
        ({"gpus": {"[key]": a_gpu()}}, "gpus['[key]']: got '[key]'", LABEL),
        ({"gpus": {4090: a_gpu()}}, "gpus[4090]: got 4090", f'{LABEL} (quote it: "4090")'),
        ({"gpus": {None: a_gpu()}}, "gpus[None]: got None", LABEL),
        ({"gpus": {"l4": a_gpu(name="")}}, "gpus.l4.name: got ''", REGEX),
        ({"gpus": {"l4": a_gpu(name=4)}}, "gpus.l4.name: got 4", REGEX),
        (
            {"gpus": {"l4": a_gpu(name="(L4")}},
            "gpus.l4.name: got '(L4'",
            f"{REGEX} (missing ), unterminated subpattern at position 0)",
        ),
        (
            {"gpus": {"l4": a_gpu(name="[[L]4")}},
            "gpus.l4.name: got '[[L]4'",
            f"{REGEX} (Possible nested set at position 1)",
        ),
        (
            {"gpus": {"l4": a_gpu(name="L{9999999999999}")}},
            "gpus.l4.name: got 'L{9999999999999}'",
            f"{REGEX} (the repetition number is too large)",
        ),
        (
            {"gpus": {"l4": a_gpu(name="\bL4\b")}},
            "gpus.l4.name: got '\\x08L4\\x08'",
            f"{REGEX} (no control characters; write it in single quotes, as in '\\bT4\\b')",
        ),
        (
            {"gpus": {"l4": a_gpu(compute_capability=8.9)}},
            "gpus.l4.compute_capability: got 8.9",
            f'{CAPABILITY} (quote it: "8.9")',
        ),
        (
            {"gpus": {"l4": a_gpu(compute_capability=8)}},
            "gpus.l4.compute_capability: got 8",
            f'{CAPABILITY} (quote it: "8.0")',
        ),
        (
            {"gpus": {"l4": a_gpu(compute_capability="89")}},
            "gpus.l4.compute_capability: got '89'",
            CAPABILITY,
        ),
        (
            {"gpus": {"l4": a_gpu(compute_capability="8.09")}},
            "gpus.l4.compute_capability: got '8.09'",
            CAPABILITY,
        ),
        (
            {"gpus": {"a": a_gpu(), "b": a_gpu()}},
            "gpus.b: got the same name and compute_capability as a",
            "a type that no other label has",
        ),
        ({"build_dir": ""}, "build_dir: got ''", FOLDER),
        ({"build_dir": "  "}, "build_dir: got '  '", FOLDER),
        ({"build_dir": None}, "build_dir: got None", FOLDER),
        ({"build_dir": 5}, "build_dir: got 5", FOLDER),
        ({"build_dir": "a\0b"}, "build_dir: got 'a\\x00b'", FOLDER),
        ({"build_dir": "a\x1b[2Jb"}, "build_dir: got 'a\\x1b[2Jb'", FOLDER),
        ({"build_dir": "~/b"}, "build_dir: got '~/b'", FOLDER),
        ({"results_dir": "$SCRATCH/r"}, "results_dir: got '$SCRATCH/r'", FOLDER),
        ({"build_dir": "-b"}, "build_dir: got '-b'", FOLDER),
        ({"reports_dir": "-r/x"}, "reports_dir: got '-r/x'", FOLDER),
        ({"results_dir": "./-x"}, "results_dir: got './-x'", FOLDER),
        ({"build_dir": "b{n}"}, "build_dir: got 'b{n}'", FOLDER),
        ({"published": "no"}, "published: got 'no'", "true or false"),
        ({"published": 1}, "published: got 1", "true or false"),
        ({"published": None}, "published: got None", "true or false"),
        ({"site": "published"}, "site: got 'published'", SITE),
        ({"virtual_results": True}, "virtual_results: got True", "one of refuse, allow"),
        ({"build_dir": "b" * 201}, f"build_dir: got '{'b' * 27}...{'b' * 28}'", FOLDER),
    ],
)
def test_refused(mapping: dict[str, Any], got: str, expected: str) -> None:
    assert refused(mapping) == [f"{got}; expected {expected}"]


@pytest.mark.parametrize(
    ("changes", "got", "expected"),
    [
        ({"results_dir": "."}, "results_dir: got '.'", NOT_CWD),
        ({"results_dir": "results/.."}, "results_dir: got '.'", NOT_CWD),
        ({"build_dir": ".."}, "build_dir: got '..'", NOT_CWD),
        ({"reports_dir": "/"}, "reports_dir: got '/'", NOT_CWD),
        (
            {"build_dir": "results"},
            "build_dir: got 'results'",
            "a folder apart from results_dir 'results', not inside or around it",
        ),
        (
            {"build_dir": "results/tmp"},
            "build_dir: got 'results/tmp'",
            "a folder apart from results_dir 'results', not inside or around it",
        ),
        (
            {"results_dir": "build/results"},
            "results_dir: got 'build/results'",
            "a folder apart from build_dir 'build', not inside or around it",
        ),
        (
            {"results_dir": "reports/raw"},
            "results_dir: got 'reports/raw'",
            "a folder apart from reports_dir 'reports', not inside or around it",
        ),
        (
            {"build_dir": "./reports/"},
            "build_dir: got 'reports'",
            "a folder apart from reports_dir 'reports', not inside or around it",
        ),
    ],
)
def test_folders_that_endanger_the_results(changes: dict[str, str], got: str, expected: str) -> None:
    assert refused(changes) == [f"{got}; expected {expected}"]


def test_folders_are_compared_with_links_and_absolute_paths_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "scratch").symlink_to("results")
    for folder in ("scratch", "scratch/tmp", str(tmp_path / "results" / "tmp")):
        (line,) = refused({"build_dir": folder})
        assert line.startswith(f"build_dir: got '{folder}"[:40])
    (tmp_path / "loop").symlink_to("loop")
    assert load({"build_dir": "loop"}).build_dir == "loop"


@pytest.mark.parametrize("folder", ["results", "./results/", "results/simulated", "link", "link/simulated"])
def test_simulated_results_never_lie_among_measured_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "link").symlink_to("results")
    assert refused({"virtual_results": "allow", "results_dir": folder}) == [
        "virtual_results: got 'allow'; expected refuse, or a results_dir apart from 'results', "
        "where only measured results lie"
    ]
    assert load({"virtual_results": "refuse", "results_dir": folder}).virtual_results == "refuse"
    for apart in ("results2", "elsewhere/results", str(tmp_path / "simulated")):
        assert load({"virtual_results": "allow", "results_dir": apart}).virtual_results == "allow"


@pytest.mark.parametrize(
    ("mapping", "got", "expected"),
    [
        ({"repetition": 5}, "repetition: got an unknown key", "a valid key; did you mean 'repetitions'?"),
        (
            {"launch-counts": [8]},
            "launch-counts: got an unknown key",
            "a valid key; did you mean 'launch_counts'?",
        ),
        ({"ns": [8]}, "ns: got an unknown key", f"one of {KEYS}"),
        ({12: 1}, "[12]: got an unknown key", f"one of {KEYS}"),
        ({None: 1}, "[None]: got an unknown key", f"one of {KEYS}"),
        ({10**5000: 1}, "[a whole number of 16610 bits]: got an unknown key", f"one of {KEYS}"),
        ({"a\nb\x1b": 1}, "['a\\nb\\x1b']: got an unknown key", f"one of {KEYS}"),
        ({"\ud800": 1}, "['\\ud800']: got an unknown key", f"one of {KEYS}"),
        (
            {"gpus": {"l4": a_gpu(capability="8.9")}},
            "gpus.l4.capability: got an unknown key",
            "a valid key; did you mean 'compute_capability'?",
        ),
        ({"gpus": {"l4": a_gpu(x=1)}}, "gpus.l4.x: got an unknown key", "one of name, compute_capability"),
        (
            {"gpus": {"l4.v2": a_gpu(x=1)}},
            "gpus['l4.v2'].x: got an unknown key",
            "one of name, compute_capability",
        ),
    ],
)
def test_unknown_keys(mapping: dict[Any, Any], got: str, expected: str) -> None:
    assert refused(mapping) == [f"{got}; expected {expected}"]


def test_one_line_per_problem_all_at_once() -> None:
    mapping = {
        "repetition": 1,
        "launch_counts": [8, 8, 0],
        "site": "..",
        "gpus": {"l4": a_gpu(name="("), "T4": a_gpu(compute_capability=7.5)},
    }
    assert [line.split(":")[0] for line in refused(mapping)] == [
        "repetition",
        "site",
        "launch_counts[1]",
        "launch_counts[2]",
        "gpus.l4.name",
        "gpus.T4",
        "gpus.T4.compute_capability",
    ]


def test_many_problems_are_cut() -> None:
    lines = refused({"launch_counts": [0] * 1000})
    assert len(lines) == 51
    assert lines[-1] == "950 more problems"


@pytest.mark.parametrize(("value", "shown"), [([], "[]"), ("x", "'x'"), (3, "3"), (False, "False")])
def test_not_a_mapping(value: Any, shown: str) -> None:
    assert refused(value) == [f"got {shown}; expected lines of the form 'key: value'"]


def test_names_the_file_it_was_given() -> None:
    with pytest.raises(LaunchbenchError) as caught:
        load({"warmup_ms": -1}, "a\nb.yaml")
    assert str(caught.value) == r"a\nb.yaml: warmup_ms: got -1; expected a whole number from 0 to 60000"


def test_values_without_an_end_are_shown_short() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    laughs: Any = ["ha"] * 9
    for _ in range(60):
        laughs = OrderedDict(a=laughs, b=laughs)
    started = time.monotonic()
    for value in (deep, laughs, "x" * 10_000_000):
        for key in Config.model_fields:
            for line in refused({key: value}):
                assert len(line) < 350
    assert time.monotonic() - started < 10


def unreadable(path: Path) -> list[str]:
    with pytest.raises(LaunchbenchError) as caught:
        read(path)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{path}: ") and line.isprintable() for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


@pytest.mark.parametrize("content", ["", "# nothing\n", "---\n", "{}\n", "\ufeff# with a byte order mark\n"])
def test_an_empty_file_means_the_defaults(tmp_path: Path, content: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(content, encoding="utf-8")
    assert read(path) == Config()


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (
            "site: a\nrepetitions: 1\nsite: b\n",
            ["line 3: got the key 'site', already in line 1; expected each key once"],
        ),
        (
            "gpus:\n  t4: {name: a}\n  t4:\n",
            ["line 3: got the key 't4', already in line 2; expected each key once"],
        ),
        (
            'site: a\n"site": b\nsite: c\n',
            [
                "line 2: got the key 'site', already in line 1; expected each key once",
                "line 3: got the key 'site', already in line 1; expected each key once",
            ],
        ),
        (
            '{"site": "a",\n "site": "b"}',
            ["line 2: got the key 'site', already in line 1; expected each key once"],
        ),
        ("site: a: b\n", ["line 1, column 8: mapping values are not allowed here; expected valid YAML"]),
        ("site: 'a\n", ["line 2, column 1: found unexpected end of stream; expected valid YAML"]),
        (
            "site:\n\t- a\n",
            ["line 2, column 1: found character '\\t' that cannot start any token; expected valid YAML"],
        ),
        ("site: a\n---\nsite: b\n", ["line 2, column 1: but found another document; expected valid YAML"]),
        (
            "site: !!python/name:os.system x\n",
            [
                "line 1, column 7: could not determine a constructor for the tag "
                "'tag:yaml.org,2002:python/name:os.system'; expected valid YAML"
            ],
        ),
        (
            "a: &a {x: 1}\ngpus:\n  <<: *a\n",
            ["line 3: got a merge key '<<'; expected the values written out"],
        ),
        ("site: a\x07\n", ["special characters are not allowed; expected valid YAML"]),
        ("? [a]\n: b\n", ["line 1, column 3: found unhashable key; expected valid YAML"]),
        ("site: *nobody\n", ["line 1, column 7: found undefined alias 'nobody'; expected valid YAML"]),
        ("site: 2024-13-99\n", ["ValueError; expected valid YAML"]),
        ("repetitions: " + "9" * 5000, ["ValueError; expected valid YAML"]),
        ("site: !!bool x\n", ["KeyError; expected valid YAML"]),
        ("site: " + "[" * 20_000, ["RecursionError; expected valid YAML"]),
        (
            "trials: 010\nlaunch_counts: [8, 0x40, 1:30]\nslurm: {t4: {runtime: 1_0}}\nsite: 1:30.5\n",
            [
                f"{got}; expected a number in plain decimal digits, or text in quotes"
                for got in (
                    "line 1: trials: got 010, which YAML reads as 8",
                    "line 2: launch_counts[1]: got 0x40, which YAML reads as 64",
                    "line 2: launch_counts[2]: got 1:30, which YAML reads as 90",
                    "line 3: slurm.t4.runtime: got 1_0, which YAML reads as 10",
                    "line 4: site: got 1:30.5, which YAML reads as 90.5",
                )
            ],
        ),
        ("- a\n", ["got ['a']; expected lines of the form 'key: value'"]),
        ("repetitions: .nan\n", ["repetitions: got nan; expected a whole number from 1 to 100000"]),
        ("a\n" * (MAX_FILE_BYTES // 2 + 1), ["got a larger file; expected at most 65536 bytes"]),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: str, lines: list[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(content, encoding="utf-8")
    assert unreadable(path) == lines


def test_duplicate_in_one_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("gpus: {t4: {name: a, name: b}}\n", encoding="utf-8")
    assert unreadable(path) == ["line 1: got the key 'name', already in line 1; expected each key once"]


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes("site: a\n# caf\xe9\n".encode("latin-1"))
    assert unreadable(path) == ["line 2: got bytes that are not UTF-8; expected UTF-8 text"]


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    assert unreadable(tmp_path / "none.yaml") == ["No such file or directory; expected a readable file"]
    assert unreadable(tmp_path) == ["Is a directory; expected a readable file"]
    with pytest.raises(LaunchbenchError, match=r"^a\\x00b: embedded null byte; expected a readable file$"):
        read(Path("a\0b"))


def test_aliases_are_fine_and_cannot_explode(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("site: &s lab\ngpus: {l4: {name: *s, compute_capability: '8.9'}}\n", encoding="utf-8")
    assert read(path).gpus["l4"].name == "lab"
    laughs = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 40))
    path.write_text(f"x0: &x0 [ha]\n{laughs}site: *x39\n", encoding="utf-8")
    started = time.monotonic()
    assert re.fullmatch(r"site: got [\[\]., ]{60}; expected .*", unreadable(path)[-1])
    path.write_text("gpus: &g {l4: *g}\nkernels: &k [*k]\n", encoding="utf-8")
    assert [line.split(":")[0] for line in unreadable(path)][:2] == ["gpus.l4.l4", "kernels[0]"]
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("name", "capability", "label"),
    [
        ("Tesla T4", (7, 5), "t4"),
        ("tesla t4", (7, 5), "t4"),
        ("NVIDIA T400", (7, 5), None),
        ("NVIDIA A100-SXM4-80GB", (8, 0), "a100"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", (8, 0), None),
        ("NVIDIA H100 80GB HBM3", (9, 0), "h100"),
        ("NVIDIA H100 80GB HBM3", (9, 1), None),
        ("NVIDIA H200", (9, 0), "h200"),
        ("NVIDIA GH200 480GB", (9, 0), None),
        ("NVIDIA L4", (8, 9), None),
        ("", (0, 0), None),
    ],
)
def test_label_for(name: str, capability: tuple[int, int], label: str | None) -> None:
    assert load({}).label_for(name, capability) == label


def test_matches() -> None:
    assert GpuType(name="L4", compute_capability="12.10").matches("NVIDIA L40", (12, 10))
    assert not GpuType(name="L4", compute_capability="12.1").matches("NVIDIA L40", (12, 10))
    mig = GpuType(name=r"A100.*MIG 1g\.", compute_capability="8.0")
    assert mig.matches("NVIDIA A100-SXM4-40GB MIG 1g.5gb", (8, 0))
    assert not mig.matches("NVIDIA A100-SXM4-40GB", (8, 0))


def test_a_card_of_several_labels_is_an_error() -> None:
    config = load({"gpus": {"l4": a_gpu(), "any": a_gpu(name="NVIDIA"), "other": a_gpu(name="X")}})
    with pytest.raises(LaunchbenchError) as caught:
        config.label_for("NVIDIA L4\n", (8, 9))
    assert str(caught.value) == (r"gpus: the card 'NVIDIA L4\n' matches l4, any; expected one label; narrow the names")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm4-40gb-mig-1g.5gb"),
        ("NVIDIA GH200 480GB", "gh200-480gb"),
        ("Tesla V100-PCIE-16GB", "tesla-v100-pcie-16gb"),
        ("../..", "gpu"),
        ("../../etc/passwd", "etc-passwd"),
        ("", "gpu"),
        ("NVIDIA", "gpu"),
        ("NA", "gpu-na"),
        ("NVIDIA NaN", "gpu-nan"),
        ("<b>RTX</b>&amp;", "b-rtx-b-amp"),
        ("Карта", "gpu"),
        ("RTX™ 4090\x00\n", "rtx-4090"),
        ("x" * 200, "x" * 64),
        ("x" * 63 + " y", "x" * 63),
    ],
)
def test_slug(name: str, label: str) -> None:
    assert slug(name) == label


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("Node-01.Example.org", "node-01.example.org"),
        ("nvidia-dgx", "nvidia-dgx"),
        ("", "host"),
        ("null", "host-null"),
        ("published", "host-published"),
    ],
)
def test_host_slug(host: str, site: str) -> None:
    assert host_slug(host) == site


@pytest.mark.untraced
@given(st.one_of(st.text(), st.from_regex(r"(?i)(nvidia[ ._-]*)*[a-z. _/-]*")))
@example("nvidia-nvidia-null")
@example("nvidia" * 20)
@example("nvidia." + "-" * 70 + "x")
def test_slugs_are_always_safe_and_idempotent(name: str) -> None:
    for function in (slug, host_slug):
        label = function(name)
        assert re.fullmatch("[a-z0-9][a-z0-9._-]{0,63}", label)
        assert function(label) == label
        assert load({"site": label}).site == label


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl"]), max_size=5),
    st.sampled_from(
        ["tiny", "sm_90", "8", "visible", "native-driver", "results", "a/b", ".", "..", "/", "[key]", "7.5"]
    ),
)
KEY = st.one_of(
    st.sampled_from([*Config.model_fields, *GpuType.model_fields, "t4", "[key]"]),
    st.text(max_size=8),
    st.none(),
    st.integers(),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEY, inner, max_size=4),
    max_leaves=12,
)
NEARLY_GPU = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["T4", r"\bA\b", "("]) | st.text(),
        "compute_capability": st.sampled_from(["7.5", "9.0", 8.0]),
    }
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "site": st.sampled_from([None, "lab", ".."]),
        "cards": st.sampled_from(["visible", "listed", "none"]),
        "launch_counts": st.lists(st.sampled_from([1, "2", 3, "4096", 0]), min_size=1, max_size=3),
        "launch_paths": st.lists(st.sampled_from(["native-driver", "cuda-python"]), min_size=1, max_size=2),
        "repetitions": st.integers(0, 100_001),
        "gpus": st.dictionaries(st.sampled_from(["a", "b.c", "D"]), NEARLY_GPU, min_size=1, max_size=2),
        "results_dir": st.sampled_from(["results", "/data/results", "build/x"]),
        "build_dir": st.text(max_size=10) | st.just("scratch/build"),
    },
)


@pytest.mark.untraced
@settings(deadline=None, max_examples=400)
@given(st.one_of(NEARLY, st.dictionaries(KEY, JSON, max_size=5), JSON))
def test_any_input_gives_a_configuration_or_readable_lines(mapping: Any) -> None:
    try:
        config = load(mapping)
    except LaunchbenchError as error:
        for line in str(error).split("\n"):
            assert line.startswith("config.yaml: ")
            assert "; expected " in line or line.endswith(" more problems")
            assert line.isprintable()
            assert "pydantic" not in line
    else:
        assert load(config.model_dump()) == config
        assert load(json.loads(config.model_dump_json())) == config


@pytest.mark.untraced
@settings(deadline=None, max_examples=200)
@given(content=st.binary(max_size=200) | st.text("a:b-[]{}&*<!|>'\"?,#%@\n\t 1.~", max_size=60).map(str.encode))
def test_any_file_gives_a_configuration_or_readable_lines(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    try:
        read(path)
    except LaunchbenchError as error:
        for line in str(error).split("\n"):
            assert line.startswith(f"{path}: ")
            assert line.isprintable()


def test_imports_nothing_heavy() -> None:
    code = "import sys, launchbench.config; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pandas", "matplotlib", "seaborn", "scipy", "cuda", "pynvml", "snakemake"} & set(found)
