"""Which code and which software produce a measurement."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel

import launchbench
from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.results.record import Code, Software
from launchbench.sources import MEASURING_MODULES, PACKAGE

COMMIT_VARIABLE = "LAUNCHBENCH_COMMIT"
"""Names the commit where the package is not in a git checkout."""


class _Named(BaseModel):
    name: str
    version: str


class _Compiler(BaseModel):
    version: str


class _Source(BaseModel):
    sha256: str


class Manifest(BaseModel):
    """What ``launchbench build`` says of its products, as far as a measurement needs it."""

    nvcc: _Compiler
    host_compiler: _Named
    flags: list[str]
    architectures: list[str]
    source: _Source
    products: dict[str, _Source]


def read_manifest(binaries: Path) -> Manifest:
    """``build.json`` of the compiled products.

    Raises:
        LaunchbenchError: missing, or not what ``launchbench build`` writes.
    """
    path = binaries / "build.json"
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise _error(path, f"{error.strerror}; `launchbench build` makes it") from error
    except ValueError as error:
        raise _error(path, "not a build manifest; `launchbench build` makes it") from error


def code(binaries: Path, modules: Sequence[str] = MEASURING_MODULES) -> Code:
    """Checksums of the source, the loaded products and the measuring modules, and the git commit."""
    manifest = read_manifest(binaries)
    package = hashlib.sha256()
    for module in modules:
        package.update((PACKAGE / module).read_bytes())
    # A copy without its history can still say which commit it is.
    commit = escaped(_git("rev-parse", "HEAD") or os.environ.get(COMMIT_VARIABLE, "")) or None
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", str(PACKAGE.parent))
    return Code(
        graphs_cu_sha256=manifest.source.sha256,
        fatbin_sha256=_checked(binaries, manifest, "graphs.fatbin"),
        library_sha256=_checked(binaries, manifest, "liblaunchloops.so"),
        package_sha256=package.hexdigest(),
        commit=commit,
        modified=None if changes is None else bool(changes),
    )


def software(binaries: Path) -> Software:
    """Versions between Python and the device."""
    manifest = read_manifest(binaries)
    return Software(
        launchbench=launchbench.__version__,
        python=platform.python_version(),
        cuda_bindings=_version("cuda-bindings"),
        cuda_core=_version("cuda-core"),
        numpy=_version("numpy"),
        nvcc=manifest.nvcc.version,
        host_compiler=f"{manifest.host_compiler.name} {manifest.host_compiler.version}",
        build_flags=manifest.flags,
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _checked(binaries: Path, manifest: Manifest, product: str) -> str:
    path = binaries / product
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise _error(path, f"{error.strerror}; `launchbench build` makes it") from error
    if product not in manifest.products or found != manifest.products[product].sha256:
        raise _error(path, "is not the file that build.json describes; `launchbench build` makes both")
    return found


def _error(path: Path, reason: str) -> LaunchbenchError:
    return LaunchbenchError(escaped(f"{path}: {reason}"))


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(PACKAGE), *arguments], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()
