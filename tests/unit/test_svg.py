"""Figures in pages: marks tell their value, and several figures do not get in each other's way."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np

from launchbench.report.drawing import files_of, styled
from launchbench.report.svg import inline, tell

EVIL = "<script>alert(\"x\")</script> & 'µ'"


def drawn(rasterized: bool = False) -> bytes:
    with styled():
        figure, axes = plt.subplots()
        axes.set_title(EVIL)
        [line] = axes.plot([1, 2, 3, 4], [1.0, np.nan, 3.0, 2.0], marker="o", rasterized=rasterized)
        tell(line, ["first", "not drawn", EVIL, "last"])
        tell(axes.bar([1], [2.0], hatch="//")[0], ["a bar"])
        return files_of(figure)["svg"]


def titles(svg: bytes | str) -> list[tuple[str, str]]:
    parents = ElementTree.fromstring(svg).iter()
    pairs = [(parent, child) for parent in parents for child in parent if child.tag.endswith("title")]
    return [(parent.tag.rpartition("}")[2], str(child.text)) for parent, child in pairs]


def test_every_mark_that_is_drawn_tells_its_own_value() -> None:
    told = [("use", "first"), ("use", EVIL), ("use", "last"), ("g", "a bar")]
    assert sorted(titles(drawn())) == sorted(told) and drawn() == drawn()


def test_a_picture_of_many_marks_tells_none_of_them() -> None:
    svg = drawn(rasterized=True)
    assert [text for _, text in titles(svg)] == ["a bar"]
    assert b"data:image/png;base64," in svg and svg == drawn(rasterized=True)


def test_a_figure_in_a_page_is_one_image_with_a_text() -> None:
    text = inline(drawn(), "speedup", f"what it shows: {EVIL}")
    assert text.startswith("<svg") and "<script" not in text and "<style" not in text and "http" not in text
    root = ElementTree.fromstring(text.replace("xlink:href", "href"))
    assert (root.get("role"), root.get("aria-label")) == ("img", f"what it shows: {EVIL}")
    assert root.get("viewBox") and root.get("width") is None
    names = [name for element in root.iter() if (name := element.get("id"))]
    assert len(names) == len(set(names)) and all(name.startswith("speedup-") for name in names)
    references = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
    assert len(references) > 5 and set(references) <= set(names)
