"""Which code made a result: checksums, the commit, and a build that is not the one it says it is."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import launchbench
from launchbench import sources
from launchbench.errors import LaunchbenchError
from launchbench.measure import provenance
from launchbench.measure.provenance import COMMIT_VARIABLE, code, read_manifest, software
from launchbench.sources import AGGREGATING_MODULES, LENGTHS_MODULES, MEASURING_MODULES, PACKAGE, REPORTING_MODULES

PRODUCTS = {"graphs.fatbin": b"fat", "liblaunchloops.so": b"loops"}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest() -> dict[str, Any]:
    return {
        "nvcc": {"version": "13.0.88", "path": "/usr/bin/nvcc"},
        "host_compiler": {"name": "g++", "version": "13.2.0"},
        "flags": ["-O2", "-gencode=arch=compute_75,code=sm_75"],
        "architectures": ["sm_75"],
        "source": {"path": "src/graphs.cu", "sha256": sha(b"source")},
        "products": {name: {"sha256": sha(data), "size_bytes": 1} for name, data in PRODUCTS.items()},
    }


@pytest.fixture
def binaries(tmp_path: Path) -> Path:
    """The products of a build."""
    folder = tmp_path / "cuda"
    folder.mkdir()
    (folder / "build.json").write_text(json.dumps(manifest()))
    for name, data in PRODUCTS.items():
        (folder / name).write_bytes(data)
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package outside any checkout."""
    folder = tmp_path / "checkout" / "src" / "launchbench"
    shutil.copytree(sources.PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder.parent / "graphs.cu").write_bytes(b"source")
    monkeypatch.setattr(provenance, "PACKAGE", folder)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    return folder


@pytest.fixture
def checkout(package: Path) -> Path:
    """The same, committed."""
    root = package.parents[1]
    (root / "README").write_bytes(b"")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "all")
    return root


# --- the commit


def test_a_clean_checkout(binaries: Path, checkout: Path) -> None:
    found = code(binaries)
    assert (found.commit, found.modified) == (git(checkout, "rev-parse", "HEAD"), False)
    assert found.commit is not None and len(found.commit) == 40


@pytest.mark.parametrize(
    ("change", "modified"),
    [
        (lambda root: (root / "src/launchbench/measure/timing.py").write_text("changed"), True),
        (lambda root: (root / "src/launchbench/report/page.py").unlink(), True),
        (lambda root: (root / "src/graphs.cu").write_text("changed"), True),
        (lambda root: (root / "README").write_text("changed"), False),
        (lambda root: (root / "src/launchbench/new.py").write_text("new"), False),
        (lambda root: git(root, "commit", "--quiet", "--allow-empty", "-m", "empty"), False),
    ],
    ids=["measuring code", "other code", "kernels", "no code", "untracked", "empty commit"],
)
def test_whether_code_was_modified(
    binaries: Path, checkout: Path, change: Callable[[Path], object], modified: bool
) -> None:
    change(checkout)
    assert code(binaries).modified is modified


def test_the_folder_that_it_is_started_in_does_not_matter(
    binaries: Path, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = code(binaries)
    monkeypatch.chdir(tmp_path)
    assert code(binaries) == expected


def test_outside_a_checkout(binaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (code(binaries).commit, code(binaries).modified) == (None, None)
    monkeypatch.setenv(COMMIT_VARIABLE, "a" * 40)
    assert (code(binaries).commit, code(binaries).modified) == ("a" * 40, None)


def test_a_checkout_knows_its_commit_better_than_a_variable(
    binaries: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMMIT_VARIABLE, "a" * 40)
    assert code(binaries).commit == git(checkout, "rev-parse", "HEAD")


def test_without_git(binaries: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(binaries))
    assert (code(binaries).commit, code(binaries).modified) == (None, None)


def test_a_checkout_without_a_commit(binaries: Path, package: Path) -> None:
    git(package.parents[1], "init", "--quiet")
    assert code(binaries).commit is None


# --- checksums


def test_checksums_are_those_of_the_files(binaries: Path) -> None:
    found = code(binaries)
    assert found.graphs_cu_sha256 == sha(b"source")
    assert found.fatbin_sha256 == sha(b"fat")
    assert found.library_sha256 == sha(b"loops")


def test_the_code_that_measures_has_a_checksum_and_no_other(binaries: Path, package: Path) -> None:
    before = code(binaries).package_sha256
    seen = {before}
    for module in sorted(package.rglob("*.py")):
        original = module.read_bytes()
        module.write_bytes(original + b"\n# changed")
        after = code(binaries).package_sha256
        name = module.relative_to(package).as_posix()
        assert (after != before) == (name in MEASURING_MODULES), name
        seen.add(after)
        module.write_bytes(original)
    assert len(seen) == 1 + len(MEASURING_MODULES)
    assert code(binaries).package_sha256 == before


NOT_TIMED = {"cards", "extra", "host", "lock", "nvml", "progress", "provenance"}
"""Modules of ``measure`` that choose, describe or guard and touch nothing that is timed."""


def imported(module: str, seen: set[str]) -> set[str]:
    """Modules of ``launchbench.measure`` that this one imports, and those that they import."""
    for node in ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if names == ["launchbench.measure"] and isinstance(node, ast.ImportFrom):
            names = [f"launchbench.measure.{alias.name}" for alias in node.names]
        for name in (name for name in names if name.startswith("launchbench.measure.")):
            path = name.removeprefix("launchbench.").replace(".", "/") + ".py"
            if path not in seen and path.split("/")[-1].removesuffix(".py") not in NOT_TIMED:
                seen.add(path)
                imported(path, seen)
    return seen


def test_whatever_a_launch_job_times_with_decides_it() -> None:
    job = "measure/job.py"
    assert imported(job, {job}) <= set(MEASURING_MODULES)
    assert "measure/kernels.py" in set(MEASURING_MODULES) & set(LENGTHS_MODULES)


@pytest.mark.parametrize("product", list(PRODUCTS))
@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "not described"])
def test_a_product_that_is_not_the_one_described(binaries: Path, product: str, damage: str) -> None:
    path = binaries / product
    if damage == "missing":
        path.unlink()
    elif damage == "not described":
        described = manifest()
        del described["products"][product]
        (binaries / "build.json").write_text(json.dumps(described))
    else:
        path.write_bytes(path.read_bytes() + b"x" if damage == "changed" else b"")
    with pytest.raises(LaunchbenchError) as caught:
        code(binaries)
    assert str(caught.value) == (
        f"{path}: No such file or directory; `launchbench build` makes it"
        if damage == "missing"
        else f"{path}: is not the file that build.json describes; `launchbench build` makes both"
    )


# --- the manifest


def without(*path: str) -> bytes:
    made = manifest()
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return json.dumps(made).encode()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, without("nvcc", "version"), without("flags"),
     without("host_compiler"), without("source", "sha256"), without("products", "graphs.fatbin", "sha256"),
     json.dumps(manifest() | {"architectures": "sm_75"}).encode(), json.dumps(manifest() | {"flags": [1]}).encode()],
    ids=lambda content: content[:20].decode(errors="replace"),
)  # fmt: skip
def test_what_is_no_manifest(binaries: Path, content: bytes) -> None:
    (binaries / "build.json").write_bytes(content)
    for function in (read_manifest, code, software):
        with pytest.raises(LaunchbenchError) as caught:
            function(binaries)
        expected = f"{binaries}/build.json: not a build manifest; `launchbench build` makes it"
        assert str(caught.value) == expected


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(LaunchbenchError) as caught:
        read_manifest(tmp_path / "odd\nname")
    assert str(caught.value) == (
        rf"{tmp_path}/odd\nname/build.json: No such file or directory; `launchbench build` makes it"
    )


def test_the_manifest_of_a_build_is_read(binaries: Path) -> None:
    found = read_manifest(binaries)
    assert (found.nvcc.version, found.architectures) == ("13.0.88", ["sm_75"])


# --- software


def test_versions(binaries: Path) -> None:
    found = software(binaries)
    assert (found.launchbench, found.python) == (launchbench.__version__, platform.python_version())
    assert found.numpy == np.__version__
    assert (found.nvcc, found.host_compiler) == ("13.0.88", "g++ 13.2.0")
    assert found.build_flags == ["-O2", "-gencode=arch=compute_75,code=sm_75"]
    assert found.cuda_bindings[0].isdigit() and found.cuda_core[0].isdigit()


def test_a_package_that_is_not_installed(binaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        if package.startswith("cuda"):
            raise provenance.PackageNotFoundError(package)
        return "1.2.3"

    monkeypatch.setattr(provenance, "version", missing)
    found = software(binaries)
    assert (found.cuda_bindings, found.cuda_core, found.numpy) == ("unknown", "unknown", "1.2.3")


# --- which module decides what


@pytest.mark.parametrize("modules", [MEASURING_MODULES, AGGREGATING_MODULES, REPORTING_MODULES])
def test_the_modules_are_files_of_the_package(modules: tuple[str, ...]) -> None:
    assert [module for module in modules if not (sources.PACKAGE / module).is_file()] == []
    assert len(set(modules)) == len(modules)


def test_the_digest_is_of_contents_and_not_of_times(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PACKAGE", package)
    module = package / "wording.py"
    before = sources.digest("wording.py", "errors.py")
    os.utime(module, (2_000_000_000, 2_000_000_000))
    assert sources.digest("wording.py", "errors.py") == before
    assert sources.digest("errors.py", "wording.py") != before
    module.write_bytes(module.read_bytes() + b"# changed")
    assert sources.digest("wording.py", "errors.py") != before


def test_the_digest_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "graphs.cu"
    assert sources.file_digest(str(path)) == "missing"
    path.write_bytes(b"abc")
    assert sources.file_digest(str(path)) == "ba7816bf8f01cfea"
