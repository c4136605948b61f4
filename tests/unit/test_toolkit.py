from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launchbench.build import toolkit
from launchbench.build.toolkit import fetch_wheels, find_toolkit, pinned_version, toolkit_identity
from launchbench.errors import LaunchbenchError

ROOT = Path(__file__).parents[2]
BESIDE_NVCC = ("nvvm/bin/cicc", "include/cuda_runtime.h", "include/crt/host_config.h", "lib/libcudart_static.a")


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def nvcc(path: Path, version: str) -> Path:
    return script(path, f"echo 'Cuda compilation tools, release {version[:4]}, V{version}'")


def wheels(directory: Path, version: str) -> Path:
    for part in BESIDE_NVCC:
        (directory / "nvidia/cu13" / part).parent.mkdir(parents=True, exist_ok=True)
        (directory / "nvidia/cu13" / part).touch()
    return nvcc(directory / "nvidia/cu13/bin/nvcc", version)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any nvcc: PATH is the folder `bin`, the Python environment has none."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(toolkit, "_nvcc_of_pathfinder", lambda: None)
    monkeypatch.setattr(toolkit, "INSTALLATIONS", tmp_path / "usr/local")
    monkeypatch.setattr(toolkit, "installed_series", lambda: 13)
    return tmp_path


@pytest.fixture
def lock(bare: Path) -> Path:
    path = bare / "requirements-nvcc.lock"
    path.write_text("nvidia-cuda-crt==13.0.77 \\\n    --hash=sha256:aa\nnvidia-cuda-nvcc==13.0.88 \\\n")
    return path


def test_places_are_asked_in_order(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    assert find_toolkit(bare / "wheels") is None
    wheels(bare / "wheels", "13.0.1")
    steps.append(find_toolkit(bare / "wheels"))
    for release in ("9.2", "12.9", "12.10"):
        nvcc(bare / f"usr/local/cuda-{release}/bin/nvcc", f"{release}.1")
    steps.append(find_toolkit(bare / "wheels"))
    of_system = nvcc(bare / "opt/cuda/bin/nvcc", "13.0.6")
    monkeypatch.setattr(toolkit, "_nvcc_of_pathfinder", lambda: of_system)
    steps.append(find_toolkit(bare / "wheels"))
    in_environment = nvcc(bare / "conda/bin/nvcc", "13.0.7")
    monkeypatch.setattr(toolkit, "_nvcc_of_pathfinder", lambda: in_environment)
    monkeypatch.setenv("CONDA_PREFIX", str(bare / "conda"))
    steps.append(find_toolkit(bare / "wheels"))
    in_site_packages = nvcc(bare / "site-packages/bin/nvcc", "13.0.2")
    monkeypatch.setattr(toolkit, "_nvcc_of_pathfinder", lambda: in_site_packages)
    monkeypatch.setattr("site.getsitepackages", lambda: [str(bare / "site-packages")])
    steps.append(find_toolkit(bare / "wheels"))
    nvcc(bare / "path/bin/nvcc", "13.0.3")
    monkeypatch.setenv("CUDA_PATH", str(bare / "path"))
    steps.append(find_toolkit(bare / "wheels"))
    nvcc(bare / "home/bin/nvcc", "13.0.4")
    monkeypatch.setenv("CUDA_HOME", str(bare / "home"))
    steps.append(find_toolkit(bare / "wheels"))
    nvcc(bare / "bin/nvcc", "13.0.5")
    steps.append(find_toolkit(bare / "wheels"))

    assert [(step.version, step.source) for step in steps if step] == [
        ("13.0.1", "wheels"),
        ("12.10.1", "system"),
        ("13.0.6", "system"),
        ("13.0.7", "environment"),
        ("13.0.2", "environment"),
        ("13.0.3", "CUDA_HOME"),
        ("13.0.4", "CUDA_HOME"),
        ("13.0.5", "PATH"),
    ]
    assert steps[-1] and steps[-1].nvcc == bare / "bin/nvcc"
    assert steps[-1].library_dirs == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "no "),
        ("exit 3", "ended with exit status 3"),
        ("kill -9 $$", "ended with exit status -9"),
        ("echo release 13.0", "printed no version"),
        ("printf '\\377\\376'", "printed no version"),
    ],
)
def test_a_broken_cuda_home_is_passed_over_with_its_reason(
    body: str | None,
    reason: str,
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(bare / "home"))
    if body is not None:
        script(bare / "home/bin/nvcc", body)
    wheels(bare / "wheels", "13.0.88")
    found = find_toolkit(bare / "wheels")
    assert found and found.source == "wheels"
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"launchbench: CUDA_HOME={bare / 'home'}: ")
    assert reason in told[0]


def test_an_nvcc_that_may_not_be_executed_is_passed_over(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nvcc(bare / "home/bin/nvcc", "13.0.88").chmod(0o644)
    monkeypatch.setenv("CUDA_HOME", str(bare / "home"))
    assert find_toolkit(bare / "wheels") is None
    assert "cannot be started (Permission denied)" in capfd.readouterr().err


def test_a_broken_cuda_home_is_not_mentioned_where_path_has_nvcc(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nvcc(bare / "bin/nvcc", "12.9.41")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    found = find_toolkit(bare / "wheels")
    assert found and (found.version, found.source) == ("12.9.41", "PATH")
    assert capfd.readouterr().err == ""


def test_an_nvcc_of_the_series_is_preferred_to_a_newer_one(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(toolkit, "installed_series", lambda: 12)
    nvcc(bare / "bin/nvcc", "13.0.88")
    nvcc(bare / "usr/local/cuda/bin/nvcc", "13.1.1")
    only_newer = find_toolkit(bare / "wheels")
    assert only_newer and only_newer.version == "13.0.88"
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 1
    assert "PATH: nvcc 13.0.88 is newer than series 12 of the CUDA packages here" in told[0]
    nvcc(bare / "usr/local/cuda-12.4/bin/nvcc", "12.4.131")
    fitting = find_toolkit(bare / "wheels")
    assert fitting and (fitting.version, fitting.source) == ("12.4.131", "system")


def test_without_cuda_packages_the_first_nvcc_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "installed_series", lambda: None)
    nvcc(bare / "bin/nvcc", "14.0.1")
    nvcc(bare / "usr/local/cuda-12.4/bin/nvcc", "12.4.131")
    found = find_toolkit(bare / "wheels")
    assert found and found.version == "14.0.1"


def test_wheels_bring_their_folders(bare: Path) -> None:
    wheels(bare / "wheels", "13.0.88")
    found = find_toolkit(bare / "wheels")
    assert found
    assert found.include_dirs == (bare / "wheels/nvidia/cu13/include",)
    assert found.library_dirs == (bare / "wheels/nvidia/cu13/lib",)


@pytest.mark.parametrize("part", BESIDE_NVCC)
def test_an_environment_with_a_part_of_the_wheels_is_passed_over(
    part: str, bare: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    incomplete = wheels(bare / "site-packages", "13.4.9")
    (bare / "site-packages/nvidia/cu13" / part).unlink()
    monkeypatch.setattr(toolkit, "_nvcc_of_pathfinder", lambda: incomplete)
    assert find_toolkit(bare / "wheels") is None
    assert f"has no {part} beside it" in capfd.readouterr().err


def fake_python(path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """Stands in for `python -m pip install ... --target T ...`; `body` may use $target."""
    find_target = 'for word; do [ "$previous" = --target ] && target=$word; previous=$word; done\n'
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/bin:/bin")
    monkeypatch.setattr(toolkit.sys, "executable", str(script(path, find_target + body)))
    return path


def test_fetched_wheels_are_complete_and_change_no_identity(
    bare: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wheels(bare / "template", pinned_version(lock))
    directory = bare / "a folder/wheels"
    before = toolkit_identity(directory, lock)
    for variable in ("PIP_TARGET", "PIP_PREFIX", "PIP_CONSTRAINT"):
        monkeypatch.setenv(variable, "/elsewhere")
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    fake_python(
        bare / "python",
        monkeypatch,
        f'echo "$@" > {bare}/arguments; env > {bare}/environment; echo downloading\n'
        f'cp -r {bare}/template/nvidia "$target"',
    )
    fetched = fetch_wheels(directory, lock)

    assert fetched == find_toolkit(directory)
    assert (fetched.version, fetched.source) == ("13.0.88", "wheels")
    assert fetched.nvcc == directory / "nvidia/cu13/bin/nvcc"
    assert toolkit_identity(directory, lock) == before == "nvcc 13.0.88"
    assert [path.name for path in directory.parent.iterdir()] == ["wheels"]
    arguments = (bare / "arguments").read_text()
    assert arguments.startswith("-m pip install ")
    assert "--require-hashes --no-deps" in arguments
    environment = (bare / "environment").read_text().splitlines()
    assert {"PIP_USER=0", "PIP_REQUIRE_VIRTUALENV=0"} <= set(environment)
    assert not [line for line in environment if line.endswith("=/elsewhere")]
    assert "downloading" in capfd.readouterr().err


def test_fetching_replaces_older_wheels(bare: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels(bare / "template", "13.0.88")
    wheels(bare / "wheels", "13.0.48")
    (bare / "wheels/left-over").touch()
    fake_python(bare / "python", monkeypatch, f'cp -r {bare}/template/nvidia "$target"')
    assert fetch_wheels(bare / "wheels", lock).version == "13.0.88"
    assert not (bare / "wheels/left-over").exists()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "echo 'WARNING: Retrying' >&2; echo 'ERROR: No matching distribution found for x==1.' >&2; exit 1",
            "(No matching distribution found for x==1)",
        ),
        ("echo '/venv/bin/python: No module named pip' >&2; exit 1", "(/venv/bin/python: No module named pip)"),
        ('mkdir -p "$target/nvidia/cu13/bin"; kill -9 $$', "(pip said nothing)"),
        ("exit 0", "hold no nvcc"),
    ],
)
def test_a_failed_fetch_is_one_line_and_leaves_nothing(
    body: str, reason: str, bare: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_python(bare / "python", monkeypatch, body)
    with pytest.raises(LaunchbenchError) as raised:
        fetch_wheels(bare / "build/wheels", lock)
    message = str(raised.value)
    assert reason in message
    assert "\n" not in message
    assert list((bare / "build").iterdir()) == []
    if "hold no nvcc" not in reason:
        for place in ("PATH", "CUDA_HOME or CUDA_PATH", "Python environment"):
            assert place in message


def test_a_fetched_nvcc_that_does_not_run_is_not_accepted(
    bare: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(wheels(bare / "template", "13.0.88"), "exit 126")
    fake_python(bare / "python", monkeypatch, f'cp -r {bare}/template/nvidia "$target"')
    with pytest.raises(LaunchbenchError, match=r"does not work: .*exit status 126"):
        fetch_wheels(bare / "wheels", lock)
    assert not (bare / "wheels").exists()


def test_identity_comes_from_the_nvcc_that_is_there(bare: Path, lock: Path) -> None:
    nvcc(bare / "bin/nvcc", "13.4.92")
    assert toolkit_identity(bare / "wheels", lock) == "nvcc 13.4.92"


def test_a_lock_without_nvcc_is_named(bare: Path) -> None:
    with pytest.raises(LaunchbenchError, match=r"gone\.lock: cannot be read \(No such file or directory\)"):
        toolkit_identity(bare / "wheels", bare / "gone.lock")
    (bare / "other.lock").write_text("# nvidia-cuda-nvcc==13.0.88\nnvidia-nvvm==13.0.88\n")
    with pytest.raises(LaunchbenchError, match=r"other\.lock: no line nvidia-cuda-nvcc==VERSION"):
        toolkit_identity(bare / "wheels", bare / "other.lock")


def test_the_shipped_lock_pins_the_first_series_of_cuda_13() -> None:
    assert pinned_version(ROOT / "requirements-nvcc.lock").startswith("13.0.")


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, launchbench.build.toolkit; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "launchbench" in loaded
    assert not loaded & {"cuda", "numpy", "pandas", "pydantic", "pynvml", "matplotlib", "snakemake"}
