"""Configured folders that something else is in the way of, and products that are folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launchbench.__main__ import main
from launchbench.config.folders import check_folders
from launchbench.config.model import SETTINGS_VARIABLE, Config
from launchbench.errors import LaunchbenchError
from launchbench.workflow.snakefile import settings
from tests.unit.fabricate import write_job


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SETTINGS_VARIABLE, raising=False)
    Path("config.yaml").touch()


def touch(name: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).touch()


FOLDER, FILE = "expected a folder there, or none yet", "expected a file there, or none yet"


@pytest.mark.parametrize(
    ("make", "given", "said"),
    [
        (lambda: touch("build"), {}, [f"build_dir: got 'build', which is a file; {FOLDER}"]),
        (lambda: touch("reports"), {}, [f"reports_dir: got 'reports', which is a file; {FOLDER}"]),
        (lambda: touch("results"), {}, [f"results_dir: got 'results', which is a file; {FOLDER}"]),
        (
            lambda: None,
            {"reports_dir": "config.yaml"},
            [f"reports_dir: got 'config.yaml', which is a file; {FOLDER}"],
        ),
        (
            lambda: touch("a/b"),
            {"build_dir": "a/b/c/d"},
            [f"build_dir: got 'a/b/c/d', where 'a/b' is a file; {FOLDER}"],
        ),
        (
            lambda: Path("build").symlink_to("nowhere"),
            {},
            [f"build_dir: got 'build', which is a link that leads nowhere; {FOLDER}"],
        ),
        (
            lambda: [touch("build/tables"), touch("reports/figures")],
            {},
            [
                f"reports_dir: got 'reports', where 'reports/figures' is a file; {FOLDER}",
                f"build_dir: got 'build', where 'build/tables' is a file; {FOLDER}",
            ],
        ),
        (
            lambda: [Path(name).mkdir(parents=True) for name in ("reports/comparison.html", "build/tables/gaps.csv")],
            {},
            [
                f"reports_dir: got 'reports', where 'reports/comparison.html' is a folder; {FILE}",
                f"build_dir: got 'build', where 'build/tables/gaps.csv' is a folder; {FILE}",
            ],
        ),
    ],
)
def test_what_is_in_the_way_is_named(make: Callable[[], object], given: dict[str, Any], said: list[str]) -> None:
    make()
    config = Config.model_validate(given)
    with pytest.raises(LaunchbenchError) as caught:
        check_folders(config, lambda place: f"source of {place[0]}")
    assert str(caught.value).split("\n") == [f"source of {line.split(':')[0]}: {line}" for line in said]
    # Before Snakemake has any rule, and before a command does anything.
    with pytest.raises(LaunchbenchError, match=said[0].split("'")[0]):
        settings(given, ["config.yaml"], [], given)
    Path("own.yaml").write_text("".join(f"{key}: {value}\n" for key, value in given.items()))
    assert main(["aggregate", "--config", "own.yaml", "--out", "out"]) == 1
    assert not Path("out").exists()


def test_what_is_there_or_can_be_made_is_fine() -> None:
    check_folders(Config(), lambda _: "")
    check_folders(Config(results_dir="/nowhere/deep", reports_dir="a/b", build_dir="../c"), lambda _: "")
    for name in ("reports/comparison.html", "build/tables/gaps.csv", "build/cuda/graphs", "results/x/y/z.csv"):
        touch(name)
    Path("elsewhere").mkdir()
    Path("linked").symlink_to("elsewhere")
    Path("build/cuda/.tmp-launchbench-x7").mkdir()  # of a build that goes on, or was killed
    check_folders(Config(results_dir="linked"), lambda _: "")
    check_folders(Config(), lambda _: "")


def test_results_that_are_not_there_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.yaml").write_text("results_dir: reslts\n")
    assert main(["aggregate", "--config", "own.yaml", "--out", "out"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "launchbench: results_dir: reslts does not exist: no results to join"
    Path("reslts").mkdir()
    assert main(["aggregate", "--config", "own.yaml", "--out", "out"]) == 0
    assert "does not exist" not in capsys.readouterr().err


@pytest.mark.parametrize("command", [["measure", "--launch-count", "8"], ["pointers"], ["lengths"], ["decode"]])
def test_nothing_is_measured_that_cannot_be_filed(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.yaml").write_text("results_dir: /proc/launchbench\n")  # where not even root may
    assert main([*command, "--label", "t4", "--config", "own.yaml"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("launchbench: /proc: cannot be written: ")
    assert line.endswith("; expected a folder to write to")


@pytest.mark.parametrize("out", ["results", "results/here", "."])
def test_tables_are_never_written_among_the_results(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A site may be named tidy, as a folder of the tables is, which is replaced as a whole."""
    record = write_job(Path("results"), 8, site="tidy")
    Path("own.yaml").write_text("{}\n")
    assert main(["aggregate", "--config", "own.yaml", "--out", out]) == 1
    expected = "expected a folder apart from results_dir 'results', not inside or around it"
    assert capsys.readouterr().err == f"launchbench: --out: got {out!r}; {expected}\n"
    assert record.exists() and record.with_suffix(".csv").exists()


@pytest.mark.parametrize("command", [["measure", "--launch-count", "8"], ["pointers"]])
@pytest.mark.parametrize("site", ["../../evil", ".hidden", "a b", "A", ""])
def test_a_site_that_is_no_folder_name_is_refused_before_anything(
    command: list[str], site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.yaml").write_text("{}\n")
    more = ["--label", "t4", f"--site={site}", "--config", "own.yaml"]
    assert main([*command, *more]) == 1
    assert capsys.readouterr().err.startswith(f"launchbench: --site: got {site!r}; expected 1 to 64 characters")
    assert not Path("results").exists()
