"""Renders the tables into ``comparison.html``, one page that needs nothing else, and its figures.

It computes no statistic and measures nothing. The page has no time of its making: the same tables give the
same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from launchbench.aggregate.spread import spread
from launchbench.report import (
    anatomy,
    anatomy_figures,
    anatomy_tables,
    answer,
    clocks_figure,
    decode,
    decode_figure,
    explain,
    figures,
    lengths,
    lengths_figure,
    paths,
    paths_figure,
    placements,
    sections,
)
from launchbench.report.between import cards_of_a_type
from launchbench.report.cells import Link, Row, path_name
from launchbench.report.comparison import SIMULATED, Comparison, load, read_table
from launchbench.report.drawn import Drawings, draw
from launchbench.report.origins import origins
from launchbench.report.pointers import section
from launchbench.report.protocols import protocols
from launchbench.report.published import marks, table, told
from launchbench.report.rendering import environment
from launchbench.report.sidebyside import (
    COMMAND,
    DECODE_COMMAND,
    LENGTHS_COMMAND,
    POINTERS_COMMAND,
    left_out,
    side_by_side,
)
from launchbench.report.svg import inline
from launchbench.results import columns, tables
from launchbench.results.files import write_atomically
from launchbench.results.published import NO_FIGURES, read_published
from launchbench.wording import plural, several

PAGE = "comparison.html"
PRIMARY = "native-driver"
"""The launch path of the headline: what the launches cost when no interpreter issues them."""

TABLES = (
    *("summary", "modes", "anatomy", "trials", "unmeasured", "fits", "gaps"),
    *("pointers", "cures", "pointers_gaps"),
    *("lengths", "length_models", "crossovers", "lengths_gaps"),
    *("decode", "decode_jobs", "decode_gaps"),
)
"""What the page links to, beside the folder of all repetitions."""

FIGURES = (
    *("speedup", "times", "placements"),
    *anatomy_figures.FIGURES,
    *(paths_figure.FIGURE, lengths_figure.FIGURE, clocks_figure.FIGURE, decode_figure.FIGURE),
)

CONTENTS = {
    "answer": "Short answer",
    "devices": "Devices side by side",
    "explanation": "What depends on N",
    "anatomy": "Anatomy of a launch",
    "paths": "Launch paths",
    "ladder": "The ladder below the loop",
    "break-even": "When a graph has paid for itself",
    "placements": "Where the buffer lies",
    "lengths": "Kernel length",
    "pointers": "Baked-in pointers",
    "clocks": "Two clocks",
    "decode": "The decode step",
    "summary": "All figures",
    "published": "Published figures",
    "gaps": "What is missing",
    "origin": "How each number came about",
    "data": "Data",
}
"""Sections of the page, by their place on it."""

ANSWERS = {
    "native-driver": "Launches from a native loop",
    "native-runtime": "Launches from a native loop with <<<>>>",
    "cuda-bindings": "Launches from a Python loop of cuda.bindings, arguments packed beforehand",
    "cuda-python": "What a Python user pays: launches from a Python loop",
    "cupy": "Launches by CuPy",
    "numba": "Launches by Numba: its own kernel, not the same code",
    "triton": "Launches by Triton: its own kernel, not the same code",
    "torch": "In-place additions by PyTorch: its own kernel, not the same code",
}


# Cells are looked at one by one, which takes twice as long where Arrow holds the text.
@pd.option_context("mode.string_storage", "python")
def render(
    tables_dir: Path,
    results_dir: Path,
    reports_dir: Path,
    config_labels: Sequence[str],
    launch_counts: Sequence[int],
    with_published: bool = True,
    processes: int = 1,
) -> Path:
    """Write ``comparison.html``, ``spread.csv``, ``figures/*.svg`` and ``figures/*.png`` under ``reports_dir``.

    Args:
        tables_dir: where ``aggregate`` wrote its tables.
        results_dir: raw results, which the page links to.
        reports_dir: is made when it does not exist.
        config_labels: GPU labels that each get a column, in this order.
        launch_counts: values of N that each get rows.
        with_published: whether to show what others have published, from the same results folder.
        processes: that draw figures at once.

    Returns:
        The path of the page.

    Raises:
        LaunchbenchError: a table is missing or not what ``columns`` says, a file of published figures is broken, or
            nothing can be written.
    """
    comparison = load(tables_dir, config_labels, launch_counts)
    path = PRIMARY if PRIMARY in comparison.launch_paths else next(iter(comparison.launch_paths), PRIMARY)
    points = placements.points(comparison, tables_dir, path)
    files_of = _Files(results_dir, reports_dir)
    series = figures.series_names(comparison)
    spun = lengths.section(tables_dir, config_labels, files_of.of_file, comparison.summary, series)
    decoded = decode.section(tables_dir, config_labels, files_of.of_file, comparison.summary)
    others = read_published(results_dir) if with_published else NO_FIGURES
    measured = sorted(set(comparison.compared["launch_count"]))
    overlay = {name: marks(others, name, comparison.swept_paths, measured) for name in ("speedup", "times")}
    consists = anatomy.section(tables_dir, comparison)
    paid = anatomy.break_even_sentences(comparison, path)
    launched = paths.section(comparison, read_table(tables_dir, "unmeasured"))
    drawings: Drawings = {
        **figures.drawings(comparison, points, path, overlay, placements.node_rows(consists)),
        **anatomy_figures.drawings(consists, comparison, path),
        **lengths_figure.drawings(spun),
        **clocks_figure.drawings(spun),
        **decode_figure.drawings(decoded),
        **paths_figure.drawings(comparison, launched.at),
    }
    drawn = draw(drawings, processes)
    for name, files in drawn.items():
        for suffix, data in files.items():
            write_atomically(reports_dir / "figures" / f"{name}.{suffix}", data)
    pooled = tables.validate(spread(comparison.compared_trials), columns.SPREAD, "spread")
    text = pooled.to_csv(index=False, lineterminator="\n")
    write_atomically(reports_dir / "spread.csv", text.encode())
    pointers = section(tables_dir, config_labels, files_of.of_file, comparison.summary)
    alternatives = {
        "speedup": explain.alt_speedup(comparison) + told(overlay["speedup"]),
        "times": explain.alt_times(comparison) + told(overlay["times"], "µs"),
        "placements": placements.alternative(comparison, points, path),
        **anatomy.alternatives(consists, comparison, path, paid),
        lengths_figure.FIGURE: lengths.alternative(spun),
        clocks_figure.FIGURE: lengths.clocks_alternative(spun),
        decode_figure.FIGURE: decode.alternative(decoded),
        paths_figure.FIGURE: paths.alternative(comparison, launched),
    }
    page = (
        environment()
        .get_template("comparison.html.j2")
        .render(
            simulated=comparison.simulated or pointers.simulated or spun.simulated or decoded.simulated,
            pointers=pointers,
            pointers_command=POINTERS_COMMAND,
            paths=launched,
            lengths=spun,
            lengths_command=LENGTHS_COMMAND,
            decode=decoded,
            decode_command=DECODE_COMMAND,
            simulated_word=SIMULATED,
            opening=answer.answer(comparison, path, spun.crossovers, decoded.points),
            contents={place: title for place, title in CONTENTS.items() if place != "published" or len(others)},
            answers=_answers(comparison),
            figures={name: Markup(inline(drawn[name]["svg"], name, alternatives[name])) for name in FIGURES},
            many=comparison.many,
            placements_path=path,
            intervals=explain.intervals(comparison),
            summary=sections.summary(comparison, files_of.of_runs),
            command=COMMAND,
            anatomy=consists,
            anatomy_told=anatomy.anatomy_sentences(consists),
            anatomy_parts=anatomy_tables.parts(consists),
            ladder_told=anatomy.ladder_sentences(consists),
            ladder=anatomy_tables.ladder(consists),
            break_even_told=paid,
            placements_told=placements.placement_sentences(consists),
            placements_table=anatomy_tables.placements(consists),
            placements_plain=placements.plain_note(placements.node_rows(consists)),
            disturbed=anatomy_tables.disturbed(comparison),
            one_off=sections.one_off(comparison),
            fits=sections.fit_lines(comparison),
            published=table(others),
            overlaid=[name for name, shown in overlay.items() if shown],
            between=cards_of_a_type(pooled, comparison.labels),
            gaps=sections.gaps(comparison, files_of.of_file),
            superseded=sections.superseded(comparison, files_of.of_runs),
            superseded_count=sections.superseded_runs(comparison),
            origins=origins(comparison, results_dir),
            protocols=protocols(comparison, results_dir, files_of.of_runs),
            tables=[(name, files_of.link(tables_dir / name)) for name in ("tidy", *(f"{name}.csv" for name in TABLES))],
            untold_paths=several(
                path_name(path) for path in comparison.launch_paths if path not in comparison.swept_paths
            ),
            runs=plural(comparison.compared_trials["run_id"].nunique(), "run"),
            cards=plural(len(comparison.cards), "card"),
        )
    )
    target = reports_dir / PAGE
    write_atomically(target, page.encode())
    return target


def _answers(comparison: Comparison) -> list[dict[str, object]]:
    """One section per launch path that is measured; the primary one always."""
    paths = [PRIMARY, *(path for path in comparison.swept_paths if path != PRIMARY)]
    made: list[dict[str, object]] = []
    warned: set[str] = set()
    for path in paths:
        warnings = [warning for warning in explain.not_alike(comparison, path) if warning not in warned]
        warned.update(warnings)
        devices = side_by_side(comparison, path)
        made.append(
            {
                "path": path,
                "title": ANSWERS[path],
                "short": explain.short_answer(comparison, path),
                "table": devices,
                "left_out": left_out(devices),
                "warnings": warnings,
                "clocks": explain.clocks(comparison, path),
                "fits": explain.fits(comparison, path),
            }
        )
    return made


class _Files:
    """Addresses of files relative to the page, percent-encoded; a file that is gone gets none."""

    def __init__(self, results_dir: Path, reports_dir: Path) -> None:
        self._results = results_dir
        self._reports = reports_dir

    def link(self, path: Path) -> str:
        relative = os.path.relpath(path.absolute(), self._reports.absolute())
        return quote(Path(relative).as_posix(), safe="/") if path.exists() else ""

    def of_runs(self, row: Row) -> list[Link]:
        """CSV and record of each job of the row, numbered where there are several."""
        folder = self._results / row["site"] / row["label"] / row["card"]
        runs = str(row["runs"] if "runs" in row else row["run_id"]).split(" ")
        return [
            (f"{text} {position}" if len(runs) > 1 else text, self.link(folder / f"{run}.{suffix}"))
            for position, run in enumerate(runs, 1)
            for text, suffix in (("CSV", "csv"), ("record", "json"))
        ]

    def of_file(self, file: str) -> list[Link]:
        return [(Path(file).name, self.link(self._results / file))]
