"""What SVG files of figures get that matplotlib does not write: the value of a mark, told where it is pointed at.

It also makes a figure part of a page. It knows no table and draws nothing.
"""

from __future__ import annotations

import functools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.lines import Line2D

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_TIP = "tip:"
SMALL = 500
"""Points: a figure that is less wide has one panel, and less of the page."""

_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def tell(artist: Artist, texts: Sequence[str]) -> None:
    """Keep what each mark of a line, or a bar as a whole, says when it is pointed at; :func:`told` writes it.

    Args:
        artist: a line with marks, or a patch.
        texts: one for each point of the line, those that are not drawn included; a single one for a patch. An
            empty one tells nothing.
    """
    shown = list(texts)
    if isinstance(artist, Line2D):
        drawn = np.isfinite(np.asarray(artist.get_xydata(), dtype=float)).all(axis=1)
        shown = [text for text, seen in zip(shown, drawn, strict=True) if seen]
    artist.set_gid(_TIP + json.dumps(shown))


def told(svg: bytes) -> bytes:
    """The file with a ``title`` in every mark that :func:`tell` was told of; where marks do not match, none."""
    _register()
    root = ET.fromstring(svg)
    number = 0
    for group in root.iter(f"{{{_SVG}}}g"):
        name = group.get("id", "")
        if not name.startswith(_TIP):
            continue
        number += 1
        group.set("id", f"told_{number}")
        texts = json.loads(name.removeprefix(_TIP))
        marks = list(group.iter(f"{{{_SVG}}}use")) or [group]
        if len(marks) == len(texts):
            for mark, text in zip(marks, texts, strict=True):
                if text:
                    title = ET.Element(f"{{{_SVG}}}title")
                    title.text = text
                    mark.insert(0, title)
    head = b'<?xml version="1.0" encoding="utf-8"?>\n'
    written: str = ET.tostring(root, encoding="unicode")
    return head + written.encode() + b"\n"


def inline(svg: bytes, name: str, alternative: str) -> str:
    """The figure as an element of a page: one image with a text, its identifiers apart from those of other figures.

    Args:
        svg: the file.
        name: of the figure, of letters and underscores.
        alternative: what it shows, for those who do not see it.
    """
    _register()
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                element.set(key, f"{name}-{value}")
            elif key == f"{{{_XLINK}}}href" and value.startswith("#"):
                element.set(key, f"#{name}-{value[1:]}")
            elif "url(#" in value:
                element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
    width = float(root.attrib.pop("width", "0").removesuffix("pt"))
    root.attrib.pop("height", None)
    if 0 < width < SMALL:
        root.set("class", "small")
    # What the removed style sheet said of every element.
    more = {"stroke-linejoin": "round", "stroke-linecap": "butt", "role": "img", "aria-label": alternative}
    root.attrib.update(more)
    text: str = ET.tostring(root, encoding="unicode")
    # HTML knows both namespaces by itself.
    return text.replace(f' xmlns="{_SVG}"', "", 1).replace(f' xmlns:xlink="{_XLINK}"', "", 1)


@functools.cache
def _register() -> None:
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
