"""The sections about the two clocks and about kernel length: sentences made from each card's own rows.

They may not state an effect, a number or a cause that the rows do not carry: a card with other outcomes gets other
sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from launchbench.aggregate.lengths_model import HELPS
from launchbench.report import lengths_tables
from launchbench.report.cells import Row, Table, any_simulated, label_name
from launchbench.report.comparison import HEADLINE_COUNT, MANY_CARDS
from launchbench.report.extra import Files, broken, newest, read_named, unmeasured
from launchbench.results.lengths import LENGTHS_VERSION
from launchbench.results.lengths_words import CROSSOVER_VERDICTS
from launchbench.wording import number, plural, several, span, with_interval

SAME = 1.25
"""Times that differ by less than this factor are told as about the same."""

_OLDER = (
    "timed under version {} of the protocol of kernel lengths, with graphs that cuda.core made: its replays are not "
    f"like for like with those of version {LENGTHS_VERSION}"
)

Story = list[tuple[str, list[str]]]
"""Card or label -> its sentences."""


@dataclass(frozen=True)
class Section:
    """What the template and the figure show."""

    clocks: Story
    lengths: Story
    missing: list[str]
    """Labels that nobody has measured."""
    clock_table: Table
    model_table: Table
    length_table: Table
    crossover_table: Table
    broken: Table
    simulated: bool
    cells: pd.DataFrame
    """Rows of ``lengths.csv`` that count, with ``card_name``."""
    models: pd.DataFrame
    crossovers: pd.DataFrame
    elsewhere: tuple[str, ...] = ()
    """Names of the series of other figures, whose styles these have here too."""

    @property
    def many(self) -> bool:
        """Whether there are too many cards to tell each one's story."""
        return self.models["card_name"].nunique() > MANY_CARDS


def section(
    tables_dir: Path,
    config_labels: Sequence[str],
    files: Files,
    beside: pd.DataFrame | None = None,
    elsewhere: Sequence[str] = (),
) -> Section:
    """The sections, from ``length_models.csv``, ``lengths.csv``, ``crossovers.csv`` and ``lengths_gaps.csv``.

    ``beside`` is that of ``read_named``, ``elsewhere`` that of the section.

    Raises:
        LaunchbenchError: a table is missing or is not what its columns say.
    """
    every = read_named(tables_dir, beside, "length_models", "lengths", "crossovers")
    models, cells, crossovers = map(newest, every)
    tell = models["card_name"].nunique() <= MANY_CARDS
    counted = _counted(crossovers, models)
    return Section(
        clocks=_stories(models, cells, clock_story) if tell else _of_labels(models, _counted_clocks(cells)),
        lengths=_stories(models, cells, _lengths_of(crossovers)) if tell else _of_labels(models, counted),
        missing=unmeasured(every[0], config_labels),
        clock_table=lengths_tables.clock_table(cells),
        model_table=lengths_tables.model_table(models, files),
        length_table=lengths_tables.length_table(cells),
        crossover_table=lengths_tables.crossover_table(crossovers),
        broken=broken(tables_dir, "lengths", files),
        simulated=any_simulated(every[0]),
        cells=cells,
        models=models,
        crossovers=crossovers,
        elsewhere=tuple(elsewhere),
    )


def _stories(models: pd.DataFrame, cells: pd.DataFrame, story: Callable[[Row, list[Row]], list[str]]) -> Story:
    own = {str(card): rows.to_dict("records") for card, rows in cells.groupby("card_name")}
    return [
        (str(row["card_name"]), story(row, own.get(str(row["card_name"]), []))) for row in models.to_dict("records")
    ]


def _of_labels(models: pd.DataFrame, counted: Callable[[str, bool], list[str]]) -> Story:
    keys = sorted(set(models[["label", "virtual"]].itertuples(index=False, name=None)))
    return [(label_name(label, virtual), counted(label, virtual)) for label, virtual in keys]


def _counted(crossovers: pd.DataFrame, models: pd.DataFrame) -> Callable[[str, bool], list[str]]:
    def told(label: str, virtual: bool) -> list[str]:
        own = crossovers[(crossovers["label"] == label) & (crossovers["virtual"] == virtual)]
        lines = []
        for count, group in own.groupby("launch_count"):
            seen = group["verdict"].value_counts().reindex(CROSSOVER_VERDICTS).dropna().astype(int)
            words = several(f"{verdict} on {cards}" for verdict, cards in seen.items())
            until = span(group["helps_until_us"])
            lines.append(f"N = {count:,}, {plural(len(group), 'card')}: {words}; the graph helps up to {until} µs.")
        cards = models[(models["label"] == label) & (models["virtual"] == virtual)]
        for version, group in cards[cards["version"] < LENGTHS_VERSION].groupby("version"):
            lines.append(f"Of {plural(len(group), 'card')}: {_OLDER.format(version)}.")
        return lines

    return told


def _counted_clocks(cells: pd.DataFrame) -> Callable[[str, bool], list[str]]:
    def told(label: str, virtual: bool) -> list[str]:
        own = cells[(cells["label"] == label) & (cells["virtual"] == virtual) & (cells["repetitions_used"] > 0)]
        lines = []
        for pace in ("host", "device"):
            group = own[own["pace"] == pace]
            if len(group):
                share = span(100 * group["loop_issue_us"] / group["loop_us"])
                lines.append(
                    f"{plural(len(group), 'cell')} at the pace of the {pace}: the host's clock without a synchronize "
                    f"reads {share} % of the GPU time."
                )
        return lines

    return told


# ---------------------------------------------------------------- two clocks


def clock_story(model: Row, cells: list[Row]) -> list[str]:
    """What each clock says of one card's loops, and which question it answers."""
    used = [cell for cell in cells if cell["repetitions_used"]]
    if not used:
        return ["No repetition can be used, so the clocks cannot be compared.", *_events(model, used)]
    own = at_headline(used)
    ends = [own[0], own[-1]] if len(own) > 1 else own
    return [*map(_clock, ends), *_issuing(own), *_questions(used), *_events(model, used)]


def at_headline(used: list[Row]) -> list[Row]:
    """The cells of the N that sentences are about, 512 or else the largest, by kernel length."""
    counts = {cell["launch_count"] for cell in used}
    at = HEADLINE_COUNT if HEADLINE_COUNT in counts else max(counts)
    return sorted((cell for cell in used if cell["launch_count"] == at), key=lambda cell: float(cell["kernel_us"]))


def _clock(cell: Row) -> str:
    issue, gpu, total = cell["loop_issue_us"], cell["loop_us"], cell["loop_total_us"]
    text = (
        f"{kernels(cell)}: without a synchronize the host's clock reads {number(issue, 4)} µs, with it "
        f"{number(total, 4)} µs; the events read {number(gpu, 4)} µs, in which the kernels alone take "
        f"{cell['work_us']:,g} µs. "
    )
    if cell["pace"] == "device":
        return text + (
            f"The device sets the pace: when the last call returned, the host was {number(cell['ahead'])} launches "
            f"ahead, so its clock without a synchronize reads {number(100 * issue / gpu, 2)} % of the GPU time."
        )
    if cell["pace"] == "host":
        return text + (
            "The host sets the pace: the device waits for launches, and the GPU time is that of issuing "
            f"({number(100 * issue / gpu, 2)} % of it)."
        )
    return text + f"Whose pace it is cannot be told: {cell['pace_reason']}."


def kernels(cell: Row) -> str:
    """``N = 512, kernels of 50 µs``."""
    return f"N = {cell['launch_count']:,}, kernels of {cell['kernel_us']:,g} µs"


def _issuing(own: list[Row]) -> list[str]:
    """Whether issuing takes as long whatever the kernels do."""
    issues, gpus = ([float(cell[name]) for cell in own] for name in ("loop_issue_us", "loop_us"))
    if len(own) < 2 or min(issues) <= 0 or max(gpus) < SAME * min(gpus):
        return []
    what = (
        f"At N = {own[0]['launch_count']:,} issuing took {span(issues)} µs while the GPU time went {_ends(gpus)} µs: "
    )
    if max(issues) < SAME * min(issues):
        return [what + "the host's clock without a synchronize measures issuing alone, whatever the kernels do."]
    return [what + "issuing itself depends on the kernels here, as where the host has to wait for room in the queue."]


def _ends(values: list[float]) -> str:
    return f"from {number(values[0])} to {number(values[-1])}"


def _questions(used: list[Row]) -> list[str]:
    late = [float(cell["loop_total_us"] - cell["loop_us"]) for cell in used]
    return [
        "So what the device needs is told by the events; what the launches cost the CPU's thread by the host's clock "
        "without a synchronize; how long a program waits for the result by the host's clock with it, here "
        f"{span(late)} µs more than the GPU time."
    ]


def _events(model: Row, used: list[Row]) -> list[str]:
    told = []
    if math.isnan(model["event_resolution_us"]):
        told.append("No two short GPU times differ, so how finely the events resolve cannot be told.")
    else:
        told.append(f"The smallest step between two GPU times is {number(model['event_resolution_us'])} µs.")
    if not model["nothing_used"]:
        return [*told, "No event pair around nothing can be used."]
    nothing, low, high = (model[f"nothing{end}_us"] for end in ("", "_low", "_high"))
    text = f"Two events with nothing between them lie {with_interval(nothing, low, high)} µs apart"
    if used:
        shortest = min(used, key=lambda cell: float(cell["replay_us"]))
        share = 100 * nothing / shortest["replay_us"]
        text += (
            f", {number(share, 2)} % of the shortest time measured here, a replay at N = "
            f"{shortest['launch_count']:,} of {number(shortest['replay_us'])} µs"
        )
    host = f"Recording the second and synchronizing takes the host {number(model['nothing_total_us'])} µs."
    return [*told, f"{text}. {host}"]


# ---------------------------------------------------------------- kernel length


def _lengths_of(crossovers: pd.DataFrame) -> Callable[[Row, list[Row]], list[str]]:
    own = {str(card): rows.to_dict("records") for card, rows in crossovers.groupby("card_name")}
    return lambda model, cells: length_story(model, cells, own.get(str(model["card_name"]), []))


def length_story(model: Row, cells: list[Row], crossovers: list[Row]) -> list[str]:
    """Until which length the graph helps on one card, and why."""
    by_cell = {(cell["launch_count"], cell["kernel_us"]): cell for cell in cells}
    told = [_crossover(row, by_cell) for row in sorted(crossovers, key=lambda row: int(row["launch_count"]))]
    told += _model(model)
    if model["version"] < LENGTHS_VERSION:
        told.append(f"This card was {_OLDER.format(model['version'])}.")
    missing = [cell for cell in cells if cell["flags"].startswith("not timed")]
    if missing:
        counts = several(f"{c['kernel_us']:,g} µs at N = {c['launch_count']:,}" for c in missing)
        told.append(f"Not timed, because the kernels alone take too long: {counts}.")
    return told


def _crossover(row: Row, cells: dict[tuple[int, float], Row]) -> str:
    count = row["launch_count"]
    name = f"N = {count:,}: "
    model = row["model_us"]
    at = f"at {number(model)} µs" if model else "at no length"
    by_model = "" if math.isnan(model) else f" By the model it is {HELPS} {at}."
    if row["verdict"] == "cannot-tell":
        return f"{name}from which length on the graph no longer helps cannot be told: {row['reason']}."
    if row["verdict"] == "never-helps":
        cell = cells[count, row["no_help_from_us"]]
        return (
            f"{name}the graph does not help, not even with kernels of {row['no_help_from_us']:,g} µs: "
            f"its speed-up is {speedup(cell)}.{by_model}"
        )
    last = cells[count, row["helps_until_us"]]
    if row["verdict"] == "not-reached":
        return (
            f"{name}the graph still helps with the longest kernels timed, {row['helps_until_us']:,g} µs: its "
            f"speed-up is {speedup(last)}.{by_model}"
        )
    first = cells[count, row["no_help_from_us"]]
    return (
        f"{name}the graph helps with kernels up to {row['helps_until_us']:,g} µs (speed-up {speedup(last)}) and "
        f"from {row['no_help_from_us']:,g} µs on no longer ({speedup(first)}).{by_model}"
    )


def speedup(cell: Row) -> str:
    """Value and interval."""
    return with_interval(cell["speedup"], cell["speedup_low"], cell["speedup_high"], 4)


def _model(model: Row) -> list[str]:
    issue, pace, node = (float(model[name]) for name in ("issue_us", "pace_us", "node_us"))
    known = [
        f"{words} {number(value)} µs"
        for words, value in (
            ("issuing a launch takes the host", issue),
            ("between two queued launches the device needs", pace),
            ("between two nodes of a graph it needs", node),
        )
        if not math.isnan(value)
    ]
    told = [f"The model: {several(known)}, each without the kernel itself. {_trust(model)}"] if known else []
    if not known:
        return [f"The model: {model['verdict']}."]
    if math.isnan(pace) or math.isnan(node):
        return told
    if issue > pace:
        told.append(
            f"By the model, with kernels shorter than {number(issue - pace)} µs the host sets the loop's pace and the "
            f"graph saves up to {number(issue - node)} µs a launch; with longer ones the device does, and "
            f"{_left(pace, node)}"
        )
    else:
        told.append(f"The device sets the loop's pace even with the shortest kernels, so {_left(pace, node)}")
    return told


def _left(pace: float, node: float) -> str:
    if pace > node:
        return (
            f"what is left to save is {number(pace - node)} µs a kernel, however long that is: "
            f"{number(pace - node, 2)} % of kernels of 100 µs."
        )
    return "nothing is left to save, since a node costs the device no less than a queued launch."


def _trust(model: Row) -> str:
    sizes = {mode: float(model[f"largest_{mode}_residual_percent"]) for mode in ("loop", "replay")}
    words = {mode: "less than 0.1" if size < 0.1 else number(size, 2) for mode, size in sizes.items()}
    residuals = several(f"the {mode} by {word} %" for mode, word in words.items())
    return f"It misses {residuals} at most ({model['verdict']})."


def alternative(section: Section) -> str:
    """What the figure shows, for those who do not see it."""
    title = "Speed-up of graph replay over the stream loop against kernel length, one panel per N."
    return _from_end_to_end(section, title, " to ".join, lambda end: f"{number(end['speedup'])} with ")


def clocks_alternative(section: Section) -> str:
    """What the figure of the two clocks shows."""
    title = "Time of the loop per launch by the host's clock without a synchronize and by events over kernel length."

    def told(end: Row) -> str:
        issue, gpu = (number(end[name] / end["launch_count"]) for name in ("loop_issue_us", "loop_us"))
        return f"issue {issue} µs and events {gpu} µs with "

    return _from_end_to_end(section, title, lambda ends: ", ".join(dict.fromkeys(ends)), told)


def _from_end_to_end(section: Section, title: str, join: Callable[[list[str]], str], told: Callable[[Row], str]) -> str:
    """The shortest and the longest kernels of each card and N that were timed, after the title."""
    used = section.cells[section.cells["repetitions_used"] > 0]
    if used.empty:
        return f"{title} No results yet."
    each = []
    for (card, count), rows in used.groupby(["card_name", "launch_count"], sort=False):
        ordered = rows.sort_values("kernel_us").to_dict("records")
        ends = [f"{told(end)}kernels of {end['kernel_us']:,g} µs" for end in (ordered[0], ordered[-1])]
        each.append(f"{card} at N = {count:,} {join(ends)}")
    return f"{title} {'; '.join(each[: 3 * MANY_CARDS])}."
