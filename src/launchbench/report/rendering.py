"""The environment that pages are rendered in: everything is escaped, and what a page lacks is an error."""

from __future__ import annotations

import base64
import hashlib

import jinja2
from markupsafe import Markup


def environment(package: str = "launchbench.report") -> jinja2.Environment:
    """Templates of a package, and those of the report, whose look and tables every page has."""
    packages = dict.fromkeys((package, "launchbench.report"))
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    script = "".join(made.get_template(f"{part}.js.j2").render() for part in ("sort", "figures"))
    made.globals["script"] = Markup(script)
    made.globals["policy"] = _policy(script)
    return made


def _policy(script: str) -> str:
    """What a browser may do with a page: show it and run this script, and fetch nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = {"style-src": "'unsafe-inline'", "img-src": "data:", "script-src": f"'sha256-{digest}'"}
    return "; ".join(["default-src 'none'", *(f"{what} {where}" for what, where in allowed.items())])
