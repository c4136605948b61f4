"""The environment that pages are rendered in: everything is escaped, and what a page lacks is an error."""

from __future__ import annotations

import jinja2


def environment(package: str = "launchbench.report") -> jinja2.Environment:
    """Templates of a package, and those of the report, whose look and tables every page has."""
    packages = dict.fromkeys((package, "launchbench.report"))
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
