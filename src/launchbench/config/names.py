"""Names that are safe as a folder, a label and a table cell."""

from __future__ import annotations

import re

from launchbench.config.messages import refusal, shown
from launchbench.results.layout import PUBLISHED

MISSING_VALUE_WORDS = frozenset({"na", "nan", "none", "null"})
"""Not used as names: table readers take them for an empty cell, and ``--config site=null`` is a string."""


NO_SITES = MISSING_VALUE_WORDS | {PUBLISHED}
"""Not used as a site either: published figures lie beside the folders of the sites."""


def site_name(given: str | None) -> str | None:
    """A site given on the command line, which becomes a folder; None where none is given.

    Raises:
        LaunchbenchError: it is no such name.
    """
    if given is not None and (given == PUBLISHED or not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", given)):
        expected = "1 to 64 characters out of a-z, 0-9, dot, underscore and hyphen, a letter or digit first"
        expected += f"; not {PUBLISHED}" if given == PUBLISHED else ""
        raise refusal("--site", f"got {shown(given)}", expected)
    return given


def slug(name: str) -> str:
    """A label for a card that no entry of gpus matches: "NVIDIA GeForce RTX 4090" -> "geforce-rtx-4090".

    Always [a-z0-9][a-z0-9._-]{0,63}, whatever the name, and unchanged when applied again.
    """
    return _safe_name(re.sub("^(nvidia([._-]+|$))+", "", _safe_name(name, "gpu")), "gpu")


def host_slug(hostname: str) -> str:
    """The default site, made from the host name by the rules of `slug`."""
    return _safe_name(hostname, "host", NO_SITES)


def _safe_name(name: str, fallback: str, unsafe: frozenset[str] = MISSING_VALUE_WORDS) -> str:
    safe = re.sub("[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:64].rstrip("-._")
    return f"{fallback}-{safe}" if safe in unsafe else safe or fallback
