"""The frameworks of launch paths that need not be there: whether they are installed, and fit what is beside them.

None is imported, let alone tried: that takes seconds and a card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version

from packaging.requirements import InvalidRequirement, Requirement

from launchbench.config.model import Config
from launchbench.doctor.finding import Finding
from launchbench.measure.paths.prepare import NEEDS, missing_modules
from launchbench.results.protocol import FRAMEWORK_PATHS


def launch_paths(config: Config) -> Iterator[Finding]:
    """Which frameworks are here, and what speaks against those that are asked for."""
    missing = {path: missing_modules(path) for path in FRAMEWORK_PATHS}
    have = [path for path, names in missing.items() if not names]
    brought_by = packages_distributions() if have else {}
    wanted = [path for path in config.launch_paths if missing.get(path)]
    if wanted:
        lacking = "; ".join(f"{path} (needs {', '.join(missing[path])})" for path in wanted)
        do = "install them into this environment, or take them out of launch_paths"
        yield Finding("warn", "launch paths", f"asked for and not installed: {lacking}", do)
    for path in have:
        packages = dict.fromkeys(name for module in NEEDS[path] for name in brought_by.get(module, ()) if name)
        for says in unmet(tuple(packages)):
            do = "it may import and yet fail at its first launch; install releases that fit"
            yield Finding("warn", "launch paths", f"{path}: {says}", do)
    if not wanted:
        told = ", ".join(f"{path}{_versions(path, brought_by)}" for path in have) or "none"
        only = "whether one launches here, measuring tells; " if have else ""
        missed = "each that is missing is a gap only where it is asked for"
        yield Finding("ok", "launch paths", f"frameworks installed: {told}; {only}{missed}")


def unmet(packages: Sequence[str]) -> Iterator[str]:
    """Installed releases that are not what these packages declare to need, each in words.

    What is not installed at all is left out: distributions other than wheels have it under other names.
    """
    for package in packages:
        for line in requires(package) or ():
            try:
                wanted = Requirement(line)
            except InvalidRequirement:
                continue
            if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
                continue
            with suppress(PackageNotFoundError):
                found = version(wanted.name)
                if not wanted.specifier.contains(found, prereleases=True):
                    asks = f"{package} {version(package)} asks for {wanted.name}{wanted.specifier}"
                    yield f"{asks}; {found} is installed"


def _versions(path: str, brought_by: Mapping[str, Sequence[str]]) -> str:
    found = [version(name) for name in brought_by.get(NEEDS[path][0], ()) if name]
    return f" {', '.join(dict.fromkeys(found))}" if found else ""
