"""The Makefile on a stand-in for Python that writes down how it was called, and the files it installs from."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-cuda12.lock", "requirements-dev.lock", "requirements-nvcc.lock")
TOOLS = ("cat", "cksum", "cp", "echo", "grep", "make", "mkdir", "mv", "rm", "sed", "sh")

FAKE_PYTHON = """#!/bin/sh
case "$*" in
  *"-m venv"*)
    echo "venv" >> "$LOG"
    mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
  *"pip install"*)
    echo "pip $*" >> "$LOG"
    echo "environment ${PYTHONPATH-} ${PIP_USER-} ${PIP_TARGET-} ${PIP_REQUIRE_VIRTUALENV-} ${VIRTUAL_ENV-}" >> "$LOG"
    case "$*" in *"-r requirements"*) [ ! -e fail ] || exit 1;; esac ;;
  *src/launchbench/series.py*) echo "series $*" >> "$LOG"; echo "${FITTING:-$4}" ;;
  *"-m snakemake"*) shift 2; echo "snakemake $*${LAUNCHBENCH_CARDS:+ (cards: $LAUNCHBENCH_CARDS)}" >> "$LOG" ;;
  *version_info*"print"*|*"print"*version_info*) echo "(3, 12)" ;;
esac
"""

Make = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in LOCKS[:3]:
        (folder / name).write_text(f"# {name}\nsetuptools==1 \\\n    --hash=sha256:aa\nx==1 \\\n    --hash=sha256:bb\n")
    return folder


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Runs make in a folder, with the tools it needs, the fake `python3` and nothing else on PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"needs {name}")
        (tools / name).symlink_to(found)
    (tools / "python3").write_text(FAKE_PYTHON)
    (tools / "python3").chmod(0o755)

    def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "log").write_text("")
        environment = {"PATH": str(tools), "LOG": str(tmp_path / "log"), **variables}
        done = subprocess.run(
            [str(tools / "make"), *arguments], cwd=folder, env=environment, capture_output=True, text=True
        )
        done.stdout += "".join(f"LOG {line}\n" for line in (tmp_path / "log").read_text().splitlines())
        return done

    return run


def logged(done: subprocess.CompletedProcess[str], word: str) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith(f"LOG {word}")]


def installed_anew(done: subprocess.CompletedProcess[str]) -> tuple[bool, bool]:
    """Whether an environment was made, and whether something was installed into it."""
    assert done.returncode == 0, done.stderr
    return bool(logged(done, "venv")), bool(logged(done, "pip"))


def test_help_is_the_default_and_names_what_can_be_made(clone: Path, make: Make) -> None:
    done = make(clone)
    assert done.returncode == 0
    for target in ("report", "report-cached", "doctor", "test", "lint", "lock", "clean"):
        assert re.search(rf"^make {target}  +\w", done.stdout, re.MULTILINE)
    assert not (clone / ".venv").exists()


def test_installs_once_with_hashes_and_says_so(clone: Path, make: Make) -> None:
    first = make(clone, "install")
    assert installed_anew(first) == (True, True)
    assert "about a minute" in first.stdout
    calls = logged(first, "pip")
    assert [re.sub(r"^.*--no-build-isolation ", "", call) for call in calls] == [
        "--quiet --require-hashes -r .venv/build-backend.lock",
        "--require-hashes -r requirements.lock",
        "--quiet --no-deps -e .",
    ]
    assert (clone / ".venv/build-backend.lock").read_text() == "setuptools==1 \\\n    --hash=sha256:aa\n"
    for path in clone.glob("*.*"):
        path.touch()
    second = make(clone, "install")
    assert installed_anew(second) == (False, False)
    assert second.stdout.splitlines() == logged(second, "series")


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_a_changed_content_is_installed_into_the_same_environment(name: str, clone: Path, make: Make) -> None:
    make(clone, "install")
    with (clone / name).open("a") as file:
        file.write("# changed\n")
    assert installed_anew(make(clone, "install")) == (False, True)
    assert installed_anew(make(clone, "install")) == (False, False)


def test_the_developers_installation_serves_users_too(clone: Path, make: Make) -> None:
    make(clone, "install-dev")
    assert installed_anew(make(clone, "install")) == (False, False)
    assert installed_anew(make(clone, "install-dev")) == (False, False)


def test_the_users_installation_does_not_serve_developers(clone: Path, make: Make) -> None:
    make(clone, "install")
    assert installed_anew(make(clone, "install-dev")) == (False, True)


def locks(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lock files that were installed."""
    assert done.returncode == 0, done.stderr
    return [call.rpartition("-r ")[2] for call in logged(done, "pip") if "-r requirements" in call]


def test_the_driver_chooses_the_series_and_a_word_overrules_it(clone: Path, make: Make) -> None:
    assert locks(make(clone, "install", FITTING="12")) == ["requirements-cuda12.lock"]
    assert locks(make(clone, "install", FITTING="12")) == []
    assert locks(make(clone, "install", "CUDA=13", FITTING="12")) == ["requirements.lock"]
    assert locks(make(clone, "install", FITTING="13")) == []
    again = make(clone, "install", "CUDA=12")
    assert locks(again) == ["requirements-cuda12.lock"]
    assert not logged(again, "venv") and not logged(again, "series")


def test_without_a_driver_the_series_stays_as_it_is(clone: Path, make: Make) -> None:
    assert logged(make(clone, "install"), "series") == ["LOG series -I -S src/launchbench/series.py 13"]
    make(clone, "install", "CUDA=12")
    later = make(clone, "install")
    assert logged(later, "series") == ["LOG series -I -S src/launchbench/series.py 12"]
    assert locks(later) == []


def test_developers_get_series_12_on_top(clone: Path, make: Make) -> None:
    assert locks(make(clone, "install-dev", "CUDA=12")) == ["requirements-dev.lock", "requirements-cuda12.lock"]
    for target in ("install", "install-dev"):
        assert locks(make(clone, target, "CUDA=12")) == []
    assert locks(make(clone, "install-dev", "CUDA=13")) == ["requirements-dev.lock"]


def test_an_unknown_series_is_one_line(clone: Path, make: Make) -> None:
    done = make(clone, "report", "CUDA=12.4")
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert told == ["launchbench: CUDA=12.4: expected 12 or 13"]
    assert not (clone / ".venv").exists()


def test_a_variable_of_the_cluster_chooses_nothing(clone: Path, make: Make) -> None:
    assert locks(make(clone, "install", CUDA="/opt/cuda-12.4")) == ["requirements.lock"]


def test_an_interrupted_installation_is_begun_anew(clone: Path, make: Make) -> None:
    (clone / "fail").touch()
    assert make(clone, "install").returncode != 0
    assert make(clone, "report").returncode != 0
    (clone / "fail").unlink()
    assert installed_anew(make(clone, "install")) == (True, True)


def test_an_interrupted_update_is_begun_anew(clone: Path, make: Make) -> None:
    make(clone, "install")
    (clone / "fail").touch()
    assert make(clone, "install-dev").returncode != 0
    (clone / "fail").unlink()
    assert installed_anew(make(clone, "install")) == (True, True)


def test_a_moved_clone_is_linked_anew(clone: Path, make: Make) -> None:
    make(clone, "install")
    moved = clone.rename(clone.parent / "another name")
    assert installed_anew(make(moved, "install")) == (False, True)


def test_an_environment_whose_python_is_gone_is_made_anew(clone: Path, make: Make) -> None:
    make(clone, "install")
    (clone / ".venv/bin/python").unlink()
    assert installed_anew(make(clone, "install")) == (True, True)


def test_settings_for_other_projects_stay_outside(clone: Path, make: Make) -> None:
    foreign = dict.fromkeys(("PYTHONPATH", "PIP_TARGET", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV", "PIP_USER"), "1")
    assert set(logged(make(clone, "install", **foreign), "environment")) == {"LOG environment  0   "}


def test_snakemake_gets_one_core_and_the_flags(clone: Path, make: Make) -> None:
    assert logged(make(clone, "report", "SNAKEMAKE_FLAGS=--dry-run -p"), "snakemake") == [
        "LOG snakemake --cores 1 --dry-run -p"
    ]


def test_from_the_cache_nothing_is_measured_whatever_the_flags_say(clone: Path, make: Make) -> None:
    cached = make(clone, "report-cached", "SNAKEMAKE_FLAGS=--config cards=visible repetitions=9")
    assert logged(cached, "snakemake") == ["LOG snakemake --cores 1 --config cards=visible repetitions=9 (cards: none)"]


@pytest.mark.parametrize(
    ("body", "named", "expected"),
    [
        (None, "", "no Python 3.11 or newer among: python3, python3.11 to python3.14; name one with PYTHON="),
        (None, "/no/such/python", "no Python 3.11 or newer among: /no/such/python; name one with PYTHON="),
        ('case "$*" in *ensurepip*) exit 1;; esac', "", "python3 lacks the modules venv and ensurepip"),
    ],
)
def test_without_a_python_there_is_one_clear_line(
    body: str | None, named: str, expected: str, clone: Path, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "tools/python3").unlink()
    if body is not None:
        (tmp_path / "tools/python3").write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "tools/python3").chmod(0o755)
    done = make(clone, "report", f"PYTHON={named}")
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(told) == 1
    assert told[0].startswith(f"launchbench: {expected}")
    assert not (clone / ".venv").exists()


def test_clean_never_touches_results(clone: Path, make: Make) -> None:
    for name in ("results/site/n8.csv", "reports/comparison.html", "reports/.gitkeep", "build/cuda/graphs"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()
    assert make(clone, "clean").returncode == 0
    left = {str(path.relative_to(clone)) for path in clone.rglob("*") if path.is_file()}
    assert left == {"Makefile", "pyproject.toml", *LOCKS[:3], "results/site/n8.csv", "reports/.gitkeep"}


def test_what_a_run_makes_is_no_change_to_commit(tmp_path: Path) -> None:
    """Results are: they are meant to be committed."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    (documented,) = re.findall(r"`snakemake --report (\S+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    shutil.copy(ROOT / ".gitignore", tmp_path)
    made = (documented, "report.html", "report.zip", "reports/comparison.html", "reports/incomplete/figures/x.svg")
    made += ("build/tables/gaps.csv", ".snakemake/log/x.log", ".venv/bin/python", "results/a/b/c/.tmp-n8.csv-12")
    for name in (*made, "results/a/b/c/n8.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run([git, "init", "-q"], cwd=tmp_path, check=True)
    status = [git, "status", "--porcelain", "--untracked-files=all"]
    changes = subprocess.run(status, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert changes.splitlines() == ["?? .gitignore", "?? results/a/b/c/n8.csv"]


def test_no_setting_of_git_changes_line_ends(tmp_path: Path) -> None:
    """Sources and results are compared by checksums."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    kept = {"results/a/b/c/n8.csv": b"1\r\n2\n", "src/graphs.cu": b"1\n2\n", "Makefile": b"1:\n\t2\n"}
    shutil.copy(ROOT / ".gitattributes", tmp_path)
    for name, data in kept.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    ours = [git, "-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "core.autocrlf=true"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["rm", "-q", "-r", "--cached", "."]):
        subprocess.run([*ours, *arguments], cwd=tmp_path, check=True, capture_output=True)
    for name in kept:
        (tmp_path / name).unlink()
    subprocess.run([*ours, "reset", "-q", "--hard"], cwd=tmp_path, check=True)
    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept


def pins(name: str) -> set[str]:
    text = (ROOT / name).read_text()
    return {line.rstrip(" \\") for line in text.splitlines() if re.match(r"[a-z0-9]", line)}


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_a_hash_and_no_lock_an_address(name: str) -> None:
    text = (ROOT / name).read_text()
    requirements = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(requirements) == len(pins(name)) > 0
    for requirement in requirements:
        assert re.match(r"[a-z0-9.\-]+==\S+ (; .+ )?\\\n    --hash=sha256:[0-9a-f]{64}\b", requirement)
    assert not re.search(r"://|--(extra-)?index-url|--find-links|-e |@", text)


def test_developers_have_every_release_of_the_users() -> None:
    assert pins("requirements.lock") < pins("requirements-dev.lock")


def test_the_locks_of_the_series_differ_in_cuda_python_alone() -> None:
    thirteen, twelve = pins("requirements.lock"), pins("requirements-cuda12.lock")
    for pinned, series in ((thirteen - twelve, "13"), (twelve - thirteen, "12.9")):
        assert {re.sub(rf"=={series}[.].*", "", pin) for pin in pinned} == {"cuda-bindings", "cuda-python"}


def test_locks_hold_what_the_project_asks_for() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    asked = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    tested = project["project"]["optional-dependencies"]["test"]

    def names(requirements: list[str] | set[str]) -> set[str]:
        return {re.split(r"[^A-Za-z0-9._-]", entry)[0].lower() for entry in requirements}

    assert names(asked) <= {entry.partition("==")[0] for entry in pins("requirements.lock")}
    assert names(tested) <= {entry.partition("==")[0] for entry in pins("requirements-dev.lock")}
    assert project["build-system"]["requires"] == project["dependency-groups"]["build"]


def test_nvcc_and_its_parts_are_of_one_series() -> None:
    assert {re.sub(r"==13\.0\.\d+$", "", pin) for pin in pins("requirements-nvcc.lock")} == {
        f"nvidia-{part}" for part in ("cuda-nvcc", "nvvm", "cuda-crt", "cuda-runtime", "cuda-cccl")
    }


def test_the_shipped_environments_ask_for_the_same_packages() -> None:
    yaml = pytest.importorskip("yaml")
    shared = yaml.safe_load((ROOT / "workflow/envs/launchbench.yaml").read_text())["dependencies"]
    with (ROOT / "pyproject.toml").open("rb") as file:
        asked = tomllib.load(file)["project"]["dependencies"]
    in_conda = {"matplotlib": "matplotlib-base", "pandera[pandas]": "pandera"}
    for requirement in asked:
        name, bounds = re.fullmatch(r"([\w\-\[\]]+)([^;]*).*", requirement).groups()  # type: ignore[union-attr]
        if name != "snakemake":
            assert f"{in_conda.get(name, name)}{bounds}" in shared


def test_users_install_nothing_that_only_the_tests_import() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        asked = tomllib.load(file)["project"]["dependencies"]
    imported_as = {
        "cuda-python": "cuda.bindings",
        "cuda-core": "cuda.core",
        "cuda-pathfinder": "cuda.pathfinder",
        "nvidia-ml-py": "pynvml",
        "pyyaml": "yaml",
    }
    for_snakemake = {"snakemake", "pygments"}
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/launchbench").rglob("*.py"))
    names = {re.split(r"[^A-Za-z0-9._-]", requirement)[0] for requirement in asked} - for_snakemake
    modules = {imported_as.get(name, name) for name in names}
    assert {name for name in modules if not re.search(rf"^\s*(from|import) {re.escape(name)}\b", code, re.M)} == set()
