"""What the Snakefile asks of the package: the configuration merged from several sources."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launchbench.config.model import Config
from launchbench.errors import LaunchbenchError
from launchbench.workflow.snakefile import CARDS_SETTING_VARIABLE, check_file, check_place, settings
from tests.unit.test_results import ordinary_user


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder of its own with a config.yaml, and no override from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(CARDS_SETTING_VARIABLE, raising=False)
    Path("config.yaml").write_text("repetitions: 5\ngpus: {t4: {name: T4, compute_capability: '7.5'}}\n")


def said(config: Mapping[str, Any], *named: Path, **given: Any) -> list[str]:
    """The lines of the refusal; as Snakemake calls it, which lists the named files first."""
    with pytest.raises(LaunchbenchError) as caught:
        settings(config, [*named, "config.yaml"], named, given)
    return str(caught.value).split("\n")


def merged(**given: Any) -> Config:
    return settings({"repetitions": 5, **given}, ["config.yaml"], [], given)


def test_what_snakemake_has_merged_is_what_counts() -> None:
    assert merged(repetitions="7").repetitions == 7
    assert merged(launch_counts=["8", "64"]).launch_counts == (8, 64)
    assert merged().repetitions == 5


def test_a_quoted_number_is_refused_in_a_file() -> None:
    more = Path("more.yaml").absolute()
    more.write_text('trials: "4"\nlaunch_counts: [8, "64"]\n')
    config = {"trials": "4", "launch_counts": ["16"], "repetitions": 5}
    assert said(config, more, launch_counts=["16"]) == [
        "more.yaml: trials: got '4'; expected the same without quotes: 4"
    ]


def test_files_are_read_strictly() -> None:
    more = Path("more.yaml").absolute()
    more.write_text("repetitions: 5\nrepetitions: 6\n")
    assert said({"repetitions": 6}, more) == [
        "more.yaml: line 2: got the key 'repetitions', already in line 1; expected each key once"
    ]


@pytest.mark.parametrize(
    ("content", "got"), [("", "no keys"), ("# trials: 5\n", "no keys"), ("42\n", "42"), ("- trials\n", "['trials']")]
)
def test_a_file_without_keys_is_refused_before_snakemake_reads_it(content: str, got: str) -> None:
    Path("config.yaml").write_text(content)
    with pytest.raises(LaunchbenchError) as caught:
        check_file(Path("config.yaml"))
    expected = "expected lines of the form 'key: value', or {} for all defaults"
    assert str(caught.value) == f"config.yaml: got {got}; {expected}"
    Path("config.yaml").write_text("{}\n")
    check_file(Path("config.yaml"))


def test_a_mistake_is_told_of_where_it_was_made(tmp_path_factory: pytest.TempPathFactory) -> None:
    near, far = Path("near.yaml").absolute(), tmp_path_factory.mktemp("far") / "far.yaml"
    near.write_text("warmup_ms: -1\nkernels: [full]\n")
    far.write_text("kernels: [void]\ngpus: {h100: {name: H100}}\n")
    config = {
        "repetitions": 0,
        "warmup_ms": -1,
        "kernels": ["void"],
        "sites": "x",
        "gpus": {"t4": {"name": "T4", "compute_capability": "75"}, "h100": {"name": "H100"}},
    }
    lines = said(config, near, far, sites="x", gpus={"t4": {"compute_capability": "75"}})
    assert [line.split(": ")[:2] for line in lines] == [
        ["--config", "sites"],
        [str(far), "kernels[0]"],
        ["config.yaml", "repetitions"],
        ["near.yaml", "warmup_ms"],
        ["--config", "gpus.t4.compute_capability"],
        [str(far), "gpus.h100.compute_capability"],
    ]


@pytest.mark.parametrize(
    ("file", "given", "line"),
    [
        (
            {"results_dir": "results", "build_dir": "build"},
            {"results_dir": "build/x"},
            "--config: results_dir: got 'build/x'; expected a folder apart from build_dir 'build', not inside or "
            "around it",
        ),
        (
            {"build_dir": "results/x"},
            {},
            "config.yaml: build_dir: got 'results/x'; expected a folder apart from results_dir 'results', not inside "
            "or around it",
        ),
        (
            {},
            {"results_dir": "build/x"},
            "--config: results_dir: got 'build/x'; expected a folder apart from build_dir 'build', not inside or "
            "around it",
        ),
        (
            {"placements": 600, "full_placements": 25},
            {"placements": 10},
            "--config: placements: got 10; expected at least full_placements, which is 25",
        ),
    ],
)
def test_of_two_keys_that_do_not_go_together_the_one_that_was_set_last_is_told(
    file: dict[str, Any], given: dict[str, Any], line: str
) -> None:
    Path("config.yaml").write_text(json.dumps(file))
    assert said({**file, **given}, **given) == [line]


def test_without_a_file_all_comes_from_the_command_line() -> None:
    with pytest.raises(LaunchbenchError, match=r"^--config: repetitions: got 0; expected"):
        settings({"repetitions": 0}, [], [], {"repetitions": 0})


def test_measuring_can_be_switched_off_whatever_the_configuration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CARDS_SETTING_VARIABLE, "none")
    assert (merged(cards="listed", repetitions=9).cards, merged(repetitions=9).repetitions) == ("none", 9)
    monkeypatch.setenv(CARDS_SETTING_VARIABLE, "")
    assert merged(cards="listed").cards == "listed"
    monkeypatch.setenv(CARDS_SETTING_VARIABLE, "all")
    assert said({"cards": "listed"}, cards="listed") == [
        "LAUNCHBENCH_CARDS: cards: got 'all'; expected one of visible, listed, none"
    ]


# --- the place


def refused(clone: Path) -> str:
    with pytest.raises(LaunchbenchError) as caught:
        check_place(clone)
    return str(caught.value)


def test_the_place_of_the_clone(tmp_path: Path) -> None:
    check_place(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    check_place(tmp_path / "link")
    assert refused(tmp_path / "a{b") == (
        f"{tmp_path}/a{{b: got braces in the path of this folder; expected a path without {{ and }}: rename or move it"
    )
    (tmp_path / "another one").mkdir()
    assert refused(tmp_path / "another one").endswith(
        f"; expected that of the Snakefile: --directory '{tmp_path}/another one'"
    )


def test_a_clone_that_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own an ordinary user cannot reach
        folder = Path(name).resolve()
        folder.chmod(0o555)
        monkeypatch.chdir(folder)
        with ordinary_user():
            assert refused(folder) == f"{folder}: cannot be written: Permission denied; expected a folder to write to"
        folder.chmod(0o755)
        monkeypatch.undo()
