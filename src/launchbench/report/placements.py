"""Where the buffer lies: marks of the figure from the table of repetitions, and the sentences.

A node is timed behind a gate, without the host's launch of the graph in the interval, wherever that was done at every
cell that is set side by side; elsewhere by plain replays, which is said.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from launchbench.aggregate.cells import SAME_CELL
from launchbench.report.anatomy import Section, headline
from launchbench.report.comparison import Comparison, read_repetitions
from launchbench.wording import number, plural, several, span

GATED, PLAIN = "replay-queued", "replay"
DRAWN_MODES = ("loop", PLAIN, GATED)

_READ = {"run_id", "launch_path", "kernel", "launch_count", "attempt", "mode", "placement", "repetition", "replays"}
_READ |= {"gpu_us", "flag"}


def points(comparison: Comparison, tables_dir: Path, launch_path: str) -> pd.DataFrame | None:
    """Marks of the compared cards; None with many cards, whose repetitions are too many to be worth reading.

    Raises:
        LaunchbenchError: the repetitions of a card are missing or are not what ``columns`` describes.
    """
    if comparison.many or comparison.compared.empty:
        return None
    rows = comparison.rows(launch_path)
    drawn = {"launch_path": [launch_path], "kernel": ["tiny"], "mode": DRAWN_MODES}
    tidy = read_repetitions(tables_dir, comparison.compared, _READ, drawn)
    return marks(tidy, rows)


def marks(tidy: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each mark.

    Args:
        tidy: repetitions, these columns of ``columns.TIDY`` or more: those of ``_READ``.
        rows: those of the summary whose jobs are drawn, with ``card_name``.

    Returns:
        ``card_name``, ``launch_count``, ``mode`` (the loop, and one mode of replay for each card and N), ``trial``
        (position of the job among those of its row, from 0) and ``trials``; ``place``, where in its trial from 0 to
        1; ``each_us``, per launch or node, of one execution; and ``used``. A job with several placements has the
        median of each, one with a single placement its repetitions.
    """
    jobs = rows[["runs", "card_name", "launch_path", "kernel"]].assign(run_id=rows["runs"].str.split(" "))
    jobs["trials"] = jobs["run_id"].str.len()
    jobs = jobs.explode("run_id")
    jobs["trial"] = jobs.groupby(["runs", "launch_path", "kernel"]).cumcount()
    own = tidy[tidy["mode"].isin(DRAWN_MODES)].merge(
        jobs.drop(columns="runs"), on=["run_id", "launch_path", "kernel"], how="inner"
    )
    own["each_us"] = own["gpu_us"] / own["launch_count"] / own["replays"].clip(lower=1)
    own["used"] = own["flag"] == ""
    own = _one_replay(own)
    job = ["card_name", "launch_count", "mode", "trial", "trials", "run_id"]
    single = own.groupby("run_id")["placement"].transform("nunique") == 1
    placed_of = own[~single & own["used"]].groupby([*job, "attempt", "placement"], sort=True)["each_us"].median()
    placed = placed_of.reset_index().rename(columns={"placement": "number"}).assign(used=True)
    repeated = own[single].rename(columns={"repetition": "number"})
    names = [*job, "number", "each_us", "used"]
    found = pd.concat([placed[names], repeated[names]], ignore_index=True)
    last = found.groupby(job)["number"].transform("max").clip(lower=1)
    return found.assign(place=found["number"] / last).drop(columns=["number", "run_id"])


def _one_replay(own: pd.DataFrame) -> pd.DataFrame:
    """With one mode of replay: the gated one by card and N, where all jobs have it."""
    used = own[own["used"] & own["each_us"].notna()]
    cell = ["card_name", "launch_count"]
    jobs = {mode: used[used["mode"] == mode].groupby(cell)["run_id"].nunique() for mode in (PLAIN, GATED)}
    gated = jobs[GATED].reindex(jobs[PLAIN].index, fill_value=0) >= jobs[PLAIN]
    is_gated = gated.reindex(pd.MultiIndex.from_frame(own[cell]), fill_value=False).to_numpy(bool)
    return own[own["mode"] != np.where(is_gated, PLAIN, GATED)]


def node_rows(section: Section) -> pd.DataFrame:
    """Rows of ``section.modes`` that say what a node takes, one for each cell; ``mode`` tells by which replay.

    For a name and N it is the same mode for all cards and both kernels: figures that are set against each other.
    """
    known = section.modes[section.modes["gpu_us"].notna()]
    plain, gated = (known[known["mode"] == mode] for mode in (PLAIN, GATED))
    has = plain[SAME_CELL].merge(gated[SAME_CELL].assign(gated=True), on=SAME_CELL, how="left")["gated"].notna()
    every = has.set_axis(plain.index).groupby([plain["name"], plain["launch_count"]]).transform("all")
    side = ["name", "launch_count"]
    chosen = plain.loc[every, side].drop_duplicates()
    return pd.concat([gated.merge(chosen, on=side), plain[~every]], ignore_index=True)


def plain_note(rows: pd.DataFrame) -> str:
    """Which of the rows of :func:`node_rows` are of plain replays; empty where none is."""
    plain = rows[rows["mode"] == PLAIN]
    if plain.empty:
        return ""
    where = ""
    if len(plain) < len(rows):
        own = plain.groupby("name", sort=False)["launch_count"].unique().items()
        where = " " + several(f"{name} at N = {', '.join(f'{at:,}' for at in sorted(counts))}" for name, counts in own)
        where += ":"
    return (
        f"Not timed behind a gate:{where} these are plain replays, whose times hold what the host takes to launch the "
        "graph, so they spread with the host too."
    )


def placement_sentences(section: Section) -> list[str]:
    """How far placements lie apart, for tiny and for the control, and what that means for one buffer."""
    told = []
    rows = node_rows(section)
    for name in section.names:
        both = [_spread(rows[(rows["name"] == name) & (rows["kernel"] == of)], section, of) for of in ("tiny", "empty")]
        if tiny := both[0]:
            told.append(f"{name}: {tiny[0]}{f'; {both[1][0]}' if both[1] else ''}. {_one_buffer(tiny, both[1])}")
    return told


def _spread(rows: pd.DataFrame, section: Section, kernel: str) -> tuple[str, float, float] | None:
    own = headline(rows[rows["spread_percent"].notna()], section.at)
    if own.empty:
        return None
    what = "a node of tiny" if kernel == "tiny" else "one of the control"
    spread = span(own["spread_percent"], 2)
    over = plural(int(own["placements"].sum()), "placement")
    text = f"{what} differs by {spread} % over {over}"
    if kernel == "tiny":
        by = "plain replays" if own["mode"].iloc[0] == PLAIN else "timed behind a gate"
        text += f" at N = {own['launch_count'].iloc[0]:,} ({by})"
    return text, float(own["spread_percent"].max()), float(off_by(own).max())


def off_by(modes: pd.DataFrame) -> pd.Series[float]:
    """By how many percent a single placement can be off the mean."""
    high = modes["placement_high_us"] / modes["gpu_us"] - 1
    low = 1 - modes["placement_low_us"] / modes["gpu_us"]
    return 100 * pd.concat([high, low], axis=1).max(axis=1)


def _one_buffer(tiny: tuple[str, float, float], control: tuple[str, float, float] | None) -> str:
    off = f"a benchmark with one buffer can be off the mean by {number(tiny[2], 2)} %, however often it repeats"
    if control is not None and tiny[1] <= control[1]:
        return "That is no more than the control's, so where the buffer lies does not show here."
    return f"So {off}."


def alternative(comparison: Comparison, points: pd.DataFrame | None, launch_path: str) -> str:
    """What the figure of placements shows; ``points`` has its marks."""
    title = "Every placement of the buffer, loop in µs per launch and a node in µs, by N, card and trial."
    if points is None or points.empty:
        return f"{title} {'Figures of the cards of each label.' if comparison.many else 'No results yet.'}"
    left_out = int((~points["used"]).sum())
    at = comparison.headline_count(launch_path)
    here = points[points["used"] & (points["launch_count"] == at)]
    told = []
    for card in comparison.cards:
        own = here[here["card_name"] == card]
        loop, node = (span(own.loc[(own["mode"] == "loop") == of, "each_us"]) for of in (True, False))
        by = "replay" if (own["mode"] == PLAIN).any() else "node behind a gate"
        if len(own):
            told.append(f"{card} loop {loop}, {by} {node}")
    flagged = f" {plural(left_out, 'flagged timing')} drawn hollow." if left_out else ""
    return f"{title} {launch_path}, smallest to largest at N = {at:,}: {'; '.join(told)}.{flagged}"
