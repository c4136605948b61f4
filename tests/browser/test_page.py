"""The page in a real browser: nothing fails, nothing is fetched, tables sort, it fits every screen and paper."""

from __future__ import annotations

import base64
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Browser

pytestmark = pytest.mark.browser

COLUMN = """
const table = document.getElementById('table-' + arguments[0]).closest('table');
const heads = [...table.tHead.rows[0].cells];
const at = heads.findIndex((head) => head.textContent.startsWith(arguments[1]));
if (arguments[2] !== 'read') {
  const button = heads[at].querySelector('button');
  if (arguments[2] === 'click') button.click();
  else button.focus();
}
return [heads[at].getAttribute('aria-sort'), heads.filter((head) => head.hasAttribute('aria-sort')).length,
        [...table.tBodies[0].rows].map((row) => [row.cells[at].textContent.trim(), row.cells[at].dataset.value])];
"""


def column(browser: Browser, table: str, head: str, do: str = "read") -> tuple[str | None, int, list[list[Any]]]:
    state, marked, cells = browser.run(COLUMN, table, head, do)
    return state, marked, cells


def numbers(cells: list[list[Any]]) -> list[float]:
    return [float(value) for _, value in cells if value is not None]


def test_nothing_fails_and_nothing_is_fetched(browser: Browser, page: Path) -> None:
    browser.show(page)
    assert browser.log("browser") == []
    assert browser.requests() == [page.as_uri()]
    assert browser.run("return document.compatMode") == "CSS1Compat"
    assert browser.run("return document.scripts.length") == 1
    assert page.stat().st_size < 3_000_000


def test_a_click_sorts_by_value(browser: Browser, page: Path) -> None:
    browser.show(page)
    state, _, before = column(browser, "summary", "loop, µs")
    texts = [text for text, _ in before]
    assert state is None and numbers(before) != sorted(numbers(before))
    state, marked, rising = column(browser, "summary", "loop, µs", "click")
    assert (state, marked) == ("ascending", 1)
    assert numbers(rising) == sorted(numbers(before)) and sorted(text for text, _ in rising) == sorted(texts)
    # What is printed would sort otherwise: it has separators, intervals and fewer digits.
    assert [text for text, _ in rising] != sorted(texts)
    state, _, falling = column(browser, "summary", "loop, µs", "click")
    assert state == "descending" and numbers(falling) == sorted(numbers(before), reverse=True)
    state, marked, words = column(browser, "summary", "launch path", "click")
    assert (state, marked) == ("ascending", 1)
    assert [text for text, _ in words] == sorted(text for text, _ in words)


def test_what_has_no_value_stays_last(browser: Browser, page: Path) -> None:
    browser.show(page)
    for direction in ("ascending", "descending"):
        state, _, cells = column(browser, "anatomy", "device: queued", "click")
        known = [value is not None for _, value in cells]
        assert state == direction and False in known and known == sorted(known, reverse=True)


def test_the_keyboard_sorts_and_its_focus_is_seen(browser: Browser, page: Path) -> None:
    browser.show(page)
    column(browser, "summary", "speed-up", "focus")
    browser.press("Tab", 9)
    shown = "const s = getComputedStyle(document.activeElement); return [s.outlineStyle, parseFloat(s.outlineWidth)]"
    style, width = browser.run(shown)
    assert browser.run("return document.activeElement.tagName") == "BUTTON" and style == "solid" and width >= 2
    head = browser.run("return document.activeElement.textContent")
    browser.press("Enter", 13, "\r")
    assert column(browser, "summary", head)[0] == "ascending"
    assert browser.run("return [...document.querySelectorAll('.scroll')].every((region) => region.tabIndex === 0)")


def test_without_the_script_tables_are_as_they_were(browser: Browser, page: Path) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.show(page)
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.run("return document.querySelectorAll('thead button').length") == 0
    assert len(column(browser, "summary", "loop, µs")[2]) > 10


def test_every_link_leads_somewhere(browser: Browser, page: Path) -> None:
    browser.show(page)
    dead = "return [...document.links].map((link) => link.getAttribute('href'))"
    targets = browser.run(dead)
    inside = {target[1:] for target in targets if target.startswith("#")}
    assert len(inside) > 20
    known = set(browser.run("return [...document.querySelectorAll('[id]')].map((element) => element.id)"))
    assert inside <= known
    assert browser.run("return document.querySelectorAll('[id]').length") == len(known)
    files = [link for link in browser.run("return [...document.links].map((link) => link.href)") if "#" not in link]
    local = [link for link in files if link.startswith("file:")]
    missing = [link for link in local if not Path(re.sub("^file://", "", link)).exists()]
    assert not missing and {".json", ".csv", ".svg", ".png"} <= {Path(link).suffix for link in local}
    assert all(link.startswith(("file:", "https://", "http://")) for link in files)


def test_a_figure_leads_to_its_row_and_that_to_files_and_protocol(browser: Browser, page: Path) -> None:
    browser.show(page)
    [target] = browser.run(
        "const cell = document.querySelector('#table-devices-native-driver').closest('table')"
        ".querySelector('td.number a'); cell.click(); return [location.hash.slice(1)]"
    )
    row = "const row = document.getElementById(arguments[0]).closest('tr'); return [...row.querySelectorAll('a')].map("
    links = browser.run(f"{row}(link) => [link.textContent, link.getAttribute('href')])", target)
    words = {re.sub(r" \d+$", "", word) for word, _ in links}
    assert {"CSV", "record"} <= words
    [protocol] = [href for _, href in links if href.startswith("#protocol-")]
    told = browser.run("return document.getElementById(arguments[0]).closest('tr').textContent", protocol[1:])
    assert protocol[len("#protocol-") :] in told and "native-driver" in told


CONTRAST = """
const channel = (value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
const light = (color) => {
  const [r, g, b] = color.match(/[\\d.]+/g).map(Number);
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (!/rgba\\(.*, 0\\)/.test(color)) return color;
  }
};
const worst = {};
for (const kind of ['p', 'li', 'caption', 'th', 'td', 'td.missing', 'a', 'code', '.interval', '.soft', 'figcaption']) {
  for (const element of [...document.querySelectorAll('main ' + kind)].slice(0, 200)) {
    const pair = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
    worst[kind] = Math.min(worst[kind] ?? 99, (pair[0] + 0.05) / (pair[1] + 0.05));
  }
}
return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color, worst];
"""


def test_light_and_dark(browser: Browser, page: Path) -> None:
    grounds = {}
    for scheme in ("light", "dark"):
        browser.show(page, scheme=scheme)
        ground, ink, worst = browser.run(CONTRAST)
        grounds[scheme] = (ground, ink)
        # 4.5 : 1 is what WCAG asks of text.
        assert len(worst) == 11 and min(worst.values()) >= 4.5, (scheme, worst)
        filters = browser.run("return getComputedStyle(document.querySelector('.drawing')).filter")
        assert (filters == "none") == (scheme == "light")
    assert grounds["light"][0] == "rgb(255, 255, 255)" and grounds["dark"] != grounds["light"]


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_nothing_is_wider_than_the_screen(browser: Browser, page: Path, width: int) -> None:
    browser.show(page, width)
    assert browser.run("return [innerWidth, document.scrollingElement.scrollWidth]") == [width, width]
    figures = browser.run(
        "return [...document.querySelectorAll('.drawing')].map((frame) => frame.getBoundingClientRect().right)"
    )
    assert max(figures) <= width


def test_every_figure_has_a_text_and_marks_that_tell_their_value(browser: Browser, page: Path) -> None:
    browser.show(page)
    figures = browser.run(
        "return [...document.querySelectorAll('figure svg[role=img]')].map((figure) => "
        "[figure.getAttribute('aria-label'), [...figure.querySelectorAll('title')].map((title) => title.textContent)])"
    )
    assert len(figures) == browser.run("return document.querySelectorAll('figure').length") == 10
    assert all(len(text) > 80 and re.search(r"\d", text) for text, _ in figures)
    assert sum(bool(titles) for _, titles in figures) == 9  # the marks of placements are too many to point at
    told = [title for _, titles in figures for title in titles]
    assert any(re.fullmatch(r"h200, native-driver, N = 512: speed-up [\d.]+ \[[\d.]+–[\d.]+\]", one) for one in told)  # noqa: RUF001


def test_paper_holds_all_of_it(browser: Browser, page: Path) -> None:
    browser.show(page)
    made = browser.command("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = base64.b64decode(made["data"])
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert pdf.startswith(b"%PDF-") and pages > 5
    # As on paper: A4 across, less its margins, at 96 dots per inch.
    browser.command("Emulation.setEmulatedMedia", {"media": "print"})
    browser.command(
        "Emulation.setDeviceMetricsOverride", {"width": 1031, "height": 700, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        cut = browser.run(
            "return [...document.querySelectorAll('table, .drawing')]"
            ".map((one) => [one.caption?.id, one.getBoundingClientRect().right]).filter(([, right]) => right > 1032)"
        )
        windows = browser.run(
            "return [...document.querySelectorAll('.scroll')].every((one) => one.scrollHeight <= one.clientHeight + 1)"
        )
        kept = browser.run(
            "const rule = (kind, name) => [...document.querySelectorAll(kind)].every((one) => "
            "getComputedStyle(one)[name] === 'avoid'); return ["
            "rule('figure', 'breakInside'), rule('tr', 'breakInside'), rule('li', 'breakInside'), "
            "rule('h2, h3, .note, caption', 'breakAfter'), rule('tbody tr:first-child', 'breakBefore')]"
        )
    finally:
        browser.command("Emulation.setEmulatedMedia", {"media": ""})
    assert cut == [] and windows and kept == [True] * 5


PANELS = """
const svg = document.getElementById(arguments[0] + '-figure_1').closest('svg');
const frame = svg.parentElement.getBoundingClientRect();
const panels = [...svg.querySelectorAll('[id*="axes_"]')];
return [svg.getAttribute('viewBox'), svg.querySelectorAll('.lent').length,
        panels.map((axes) => [...axes.children].find((child) => child.id.includes('patch_')).getBoundingClientRect())
              .map((box) => [box.left - frame.left, box.top - frame.top, box.right - frame.right, box.width])];
"""


def test_panels_stand_below_each_other_on_a_phone(browser: Browser, page: Path) -> None:
    browser.show(page, 1200)
    wide, lent, beside = browser.run(PANELS, "speedup")
    assert lent == 0 and beside[0][1] == pytest.approx(beside[1][1]) and beside[1][0] > beside[0][2]
    browser.show(page, 360)
    narrow, lent, below = browser.run(PANELS, "speedup")
    assert narrow != wide and lent == len(below) - 1, "each panel has the numbers of the axis that they shared"
    for upper, lower in itertools.pairwise(below):
        assert lower[1] > upper[1] + 100 and lower[0] == pytest.approx(upper[0], abs=1)
    assert all(box[0] > 0 and box[2] < 0 and box[3] > 200 for box in below)
    frames = browser.run(
        "return [...document.querySelectorAll('.drawing')].map((frame) => [frame.scrollWidth - frame.clientWidth, "
        "frame.querySelector('svg').getBoundingClientRect().height])"
    )
    assert len(frames) == 10 and all(over <= 0 and 60 < height < 2500 for over, height in frames), frames
    # Turned across, the phone shows the figure as it was drawn.
    size = {"width": 1000, "height": 500, "deviceScaleFactor": 1, "mobile": False}
    browser.command("Emulation.setDeviceMetricsOverride", size)
    assert browser.run(f"window.dispatchEvent(new Event('resize')); {PANELS}", "speedup")[:2] == [wide, 0]


def test_a_phone_shows_the_columns_with_figures(browser: Browser, page: Path) -> None:
    columns = (
        "return [...document.getElementById('table-devices-native-driver').closest('table').tHead.rows[0].cells]"
        ".filter((cell) => cell.offsetWidth).map((cell) => cell.textContent)"
    )
    note = (
        "return [...document.querySelectorAll('.narrow')].filter((one) => one.offsetWidth).map((one) => one.innerText)"
    )
    browser.show(page, 1200)
    assert browser.run(columns)[2:] == ["h200", "t4", "a100", "h100"] and browser.run(note) == []
    browser.show(page, 360)
    assert browser.run(columns)[2:] == ["h200", "t4"]
    first = browser.run(note)[0]
    assert first.startswith("a100 and h100: not measured yet") and first.endswith("make report")


def test_marks_tell_their_values_by_the_keyboard_and_by_touch(browser: Browser, page: Path) -> None:
    browser.show(page, 360)
    titles = browser.run(
        "const frame = document.getElementById('speedup-figure_1').closest('.drawing'); frame.focus();"
        "return [...frame.querySelectorAll('title')].map((title) => title.textContent)"
    )
    told = "return document.getElementById('speedup-figure_1').closest('figure').querySelector('.told').textContent"
    series = titles.index(next(one for one in titles if one.startswith("t4")))
    for key, expected in (
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowDown", series + 1),
        ("ArrowLeft", series),
        ("End", -1),
    ):
        browser.press(key, 0)
        assert browser.run(told) == titles[expected], key
    assert browser.run("return document.activeElement.querySelectorAll('.ring').length") == 1
    browser.press("Escape", 27)
    assert browser.run(told) == ""
    # A finger is wider than a mark.
    x, y = browser.run(
        "const mark = document.getElementById('speedup-figure_1').querySelectorAll('title')[1].parentNode;"
        "mark.scrollIntoView({block: 'center'}); const box = mark.getBoundingClientRect(); return [box.left, box.top]"
    )
    for kind in ("mousePressed", "mouseReleased"):
        event = {"type": kind, "x": x - 8, "y": y - 8, "button": "left", "clickCount": 1}
        browser.command("Input.dispatchMouseEvent", event)
    assert browser.run(told) == titles[1]
    assert browser.log("browser") == []
