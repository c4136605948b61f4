"""What a killed build leaves goes with the next one, and nothing else does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from launchbench.__main__ import main
from launchbench.build import toolkit
from launchbench.build.compile import TEMPORARY_PREFIX
from launchbench.build.temporary import remove_abandoned, temporary_folder
from launchbench.build.toolkit import Toolkit
from launchbench.config.model import SETTINGS_VARIABLE
from tests.unit.test_build import fake

__all__ = ["fake"]  # fixture

HOLD = """
import sys
from pathlib import Path
from launchbench.build.temporary import temporary_folder
with temporary_folder(Path(sys.argv[1]), ".tmp-nvcc-") as folder:
    (folder / "half").write_text("of a wheel")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_folder_stays_while_its_process_lives_and_goes_with_the_next_build_after_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        folder = Path(other.stdout.readline().strip())
        remove_abandoned(tmp_path, ".tmp-nvcc-")
        assert (folder / "half").exists()
        other.kill()
    assert (folder / "half").exists()
    remove_abandoned(tmp_path, ".tmp-nvcc-")
    assert list(tmp_path.iterdir()) == []


def test_only_folders_of_that_name_are_removed(tmp_path: Path) -> None:
    for name in (".tmp-nvcc-old", ".tmp-other", "nvcc"):
        (tmp_path / name).mkdir()
    (tmp_path / ".tmp-nvcc-file").touch()
    (tmp_path / ".tmp-nvcc-link").symlink_to(tmp_path / "nvcc")
    remove_abandoned(tmp_path, ".tmp-nvcc-")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".tmp-nvcc-file",
        ".tmp-nvcc-link",
        ".tmp-other",
        "nvcc",
    ]


def test_a_folder_that_was_moved_away_is_kept(tmp_path: Path) -> None:
    with temporary_folder(tmp_path, ".tmp-nvcc-") as folder:
        folder.rename(tmp_path / "nvcc")
    assert [path.name for path in tmp_path.iterdir()] == ["nvcc"]


def test_a_build_removes_what_killed_ones_left(
    tmp_path: Path, fake: Toolkit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("build/.tmp-nvcc-x7", f"build/cuda/{TEMPORARY_PREFIX}x7"):
        (tmp_path / name / "nvidia").mkdir(parents=True)
    (tmp_path / "source.cu").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(SETTINGS_VARIABLE, json.dumps({"architectures": ["sm_90"]}))
    monkeypatch.setattr(toolkit, "find_toolkit", lambda _: fake)
    assert main(["build", "--source", "source.cu"]) == 0, capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "build").iterdir()) == ["cuda"]
    assert not list((tmp_path / "build/cuda").glob(".*"))
