"""A comparison as plain text of 100 columns, for a terminal, and as Markdown, for a pull request."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Sequence

from launchbench.compare import wording
from launchbench.compare.model import Comparison, Row
from launchbench.wording import in_markdown, shortened

WIDTH = 100

_HEAD = ("N", "mode", "A, us", "B, us", "B / A", "verdict")


def text(comparison: Comparison) -> str:
    """Lines of at most ``WIDTH`` characters, with a final newline."""
    lines = ["=" * WIDTH, *_wrapped(wording.SIMULATED), "=" * WIDTH, ""] if comparison.simulated else []
    lines += itertools.chain.from_iterable(map(_wrapped, [*wording.side_lines(comparison), "", *comparison.summary]))
    lines += ["", "What differs between A and B:"]
    found = [wording.difference(one) for one in comparison.differences] or [wording.NOTHING_DIFFERS]
    lines += _items(found)
    shown = [row for row in comparison.rows if row.verdict not in ("missing", "not comparable")]
    if shown:
        lines += ["", *_wrapped(wording.explanation(comparison))]
    groups = itertools.groupby(shown, key=lambda row: (row.label, wording.cards(row), row.launch_path, row.kernel))
    for (label, cards, launch_path, kernel), rows in groups:
        lines += ["", *_wrapped(f"{shortened(label)}, card {cards}, {launch_path}, {kernel}"), *_table(list(rows))]
    if any(wording.verdict(row) != row.verdict for row in shown):
        lines += ["", *_wrapped(wording.HOST_NOTE)]
    for title, items in (
        ("Without a verdict:", wording.without_verdict(comparison)),
        ("Files that cannot be used:", wording.broken(comparison)),
    ):
        if items:
            lines += ["", title, *_items(items)]
    return "\n".join(lines) + "\n"


def markdown(comparison: Comparison) -> str:
    """A heading, the summary, what differs, a table of every cell, and what cannot be used."""
    lines = ["# launchbench compare", ""]
    if comparison.simulated:
        lines += [f"> **{wording.SIMULATED}**", ""]
    lines += [f"- {in_markdown(line)}" for line in wording.side_lines(comparison)]
    lines += ["", *(f"**{in_markdown(line)}**  " for line in comparison.summary)]
    lines += ["", "## What differs between A and B", ""]
    found = [wording.difference(one) for one in comparison.differences] or [wording.NOTHING_DIFFERS]
    lines += [f"- {in_markdown(one)}" for one in found]
    lines += ["", "## Cells", "", in_markdown(wording.explanation(comparison)), ""]
    if any(wording.verdict(row) != row.verdict for row in comparison.rows):
        lines += [in_markdown(wording.HOST_NOTE), ""]
    head = ("label", "card", "launch path", "kernel", *_HEAD, "reason")
    lines += [_markdown_row(head), _markdown_row(["---"] * len(head))]
    for row in comparison.rows:
        who = (shortened(row.label), wording.cards(row), row.launch_path, row.kernel, f"{row.launch_count:,}", row.mode)
        figures = (wording.figure(row.before), wording.figure(row.after), wording.ratio(row))
        lines.append(_markdown_row(map(in_markdown, (*who, *figures, wording.verdict(row), row.reason))))
    files = wording.broken(comparison)
    if files:
        lines += ["", "## Files that cannot be used", "", *(f"- {in_markdown(line)}" for line in files)]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Row]) -> list[str]:
    body = [
        (
            f"{row.launch_count:,}",
            row.mode,
            wording.short_figure(row.before),
            wording.short_figure(row.after),
            wording.ratio(row),
            wording.verdict(row),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(_HEAD, *body, strict=True)]
    right = (True, False, True, True, True, False)
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (_HEAD, *body)
    ]


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, break_on_hyphens=False) or [""]


def _items(lines: Iterable[str]) -> list[str]:
    wrapped = (
        textwrap.wrap(line, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        for line in lines
    )
    return list(itertools.chain.from_iterable(wrapped))


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
