"""A comparison as one HTML page in the look of the report, without any other file."""

from __future__ import annotations

from launchbench.compare import wording
from launchbench.compare.model import Comparison, Row
from launchbench.report.cells import Cell, Table, heads
from launchbench.report.rendering import environment
from launchbench.wording import shortened

MAX_ROWS = 5000
MAX_VALUE = 200


def page(comparison: Comparison) -> str:
    """The page; texts of records and paths are escaped."""
    shown = comparison.rows[:MAX_ROWS]
    cut = len(comparison.rows) - len(shown)
    return (
        environment("launchbench.compare")
        .get_template("compare.html.j2")
        .render(
            simulated=wording.SIMULATED if comparison.simulated else "",
            sides=wording.side_lines(comparison),
            summary=comparison.summary,
            differences=_differences(comparison),
            nothing=wording.NOTHING_DIFFERS,
            explanation=wording.explanation(comparison),
            host_note=wording.HOST_NOTE if any(wording.verdict(row) != row.verdict for row in shown) else "",
            cells=_cells(shown, [f"The last {cut:,} rows are left out; the JSON has all."] if cut else []),
            broken=wording.broken(comparison),
        )
    )


def _differences(comparison: Comparison) -> Table:
    rows = [
        [
            Cell(one.field, heading="row"),
            Cell(", ".join(map(shortened, one.labels)) or "all"),
            Cell(wording.values(one.before, MAX_VALUE), kind="prose"),
            Cell(wording.values(one.after, MAX_VALUE), kind="prose"),
        ]
        for one in comparison.differences
    ]
    head = heads("what", "labels", "A", "B")
    return Table("differences", "As the records of the compared jobs say.", head, rows)


def _cells(rows: list[Row], notes: list[str]) -> Table:
    body = [
        [
            Cell(shortened(row.label), "a simulated GPU" if row.simulated else "", "row"),
            Cell(wording.cards(row)),
            Cell(row.launch_path),
            Cell(row.kernel),
            Cell(f"{row.launch_count:,}"),
            Cell(row.mode),
            _figure(row, "before"),
            _figure(row, "after"),
            Cell(wording.ratio(row), kind="number"),
            Cell(wording.verdict(row)),
            Cell(row.reason, kind="prose"),
        ]
        for row in rows
    ]
    head = heads(
        "label",
        "card",
        "launch path",
        "kernel",
        "N",
        "mode",
        ("A, µs", "per launch, node or increment [95 % interval over trials]"),
        ("B, µs", "per launch, node or increment [95 % interval over trials]"),
        ("B / A", "[95 % interval]"),
        "verdict",
        "why there is none",
    )
    return Table("cells", "Every cell of A and B.", head, body, any(row.simulated for row in rows), notes)


def _figure(row: Row, name: str) -> Cell:
    side = row.before if name == "before" else row.after
    if side is None:
        return Cell(wording.figure(side), row.reason, kind="missing")
    return Cell(wording.figure(side), f"{row.unit}, {side.trials} trials", kind="number")
