"""What the report and its figures compare: the rows chosen from the tables, and a name for every card.

It chooses and names; it computes no statistic and pools nothing.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.aggregate.cells import SAME_CELL, current
from launchbench.aggregate.identity import moments
from launchbench.aggregate.write import card_file
from launchbench.config.messages import escaped
from launchbench.errors import LaunchbenchError
from launchbench.results import columns, tables
from launchbench.results.parquet import parse_parquet
from launchbench.results.protocol import COMPARED_MODES, LAUNCH_PATHS, QUEUE_DEPTH
from launchbench.wording import shortened

CARD_KEY = ["site", "label", "card", "hostname", "driver_version", "nvcc", "virtual"]
"""What makes a card in the report: the same GPU in another host or under another driver is another one."""

HEADLINE_COUNT = 512
MANY_CARDS = 8
"""Beyond this many cards figures and sentences are a label's, not a card's."""

MAX_LISTED = 400
"""Beyond this many rows the summary is told per label."""

SIMULATED = "simulated"

_TELLING = (
    ("card", ""),
    ("site", "at "),
    ("hostname", "on "),
    ("driver_version", "driver "),
    ("nvcc", "nvcc "),
)


@dataclass(frozen=True)
class Comparison:
    """Rows of the tables with the column ``card_name`` added.

    ``compared`` has the summary rows with valid samples that were timed under the newest protocol of their card,
    launch path and kernel.
    """

    summary: pd.DataFrame
    compared: pd.DataFrame
    trials: pd.DataFrame
    """Rows of loop and replay only."""
    fits: pd.DataFrame
    gaps: pd.DataFrame
    labels: tuple[tuple[str, bool], ...]
    """(label, simulated), first as configured, then whatever else was measured."""
    launch_counts: tuple[int, ...]

    @functools.cached_property
    def cards(self) -> list[str]:
        """Names of the cards with anything to compare, labels in their order."""
        rank = {label: position for position, label in enumerate(self.labels)}
        rows = self.compared[["label", "virtual", "card_name"]].drop_duplicates()
        keys = rows.itertuples(index=False, name=None)
        return [name for _, name in sorted((rank[label, virtual], name) for label, virtual, name in keys)]

    @functools.cached_property
    def many(self) -> bool:
        """Whether there are too many cards to tell each one's story."""
        return len(self.cards) > MANY_CARDS

    @property
    def listed(self) -> bool:
        """Whether the page has every row of the summary, with its files, for others to lead to."""
        return len(self.summary) <= MAX_LISTED

    @functools.cached_property
    def simulated(self) -> bool:
        """Whether any row comes from a simulated GPU."""
        return bool(self.summary["virtual"].any())

    @functools.cached_property
    def compared_trials(self) -> pd.DataFrame:
        """Rows of the trials behind ``compared``."""
        cells = pd.MultiIndex.from_frame(self.compared[SAME_CELL])
        return current(self.trials[pd.MultiIndex.from_frame(self.trials[SAME_CELL]).isin(cells)])

    @functools.cached_property
    def launch_paths(self) -> list[str]:
        """Launch paths with anything to compare, in the order of ``LAUNCH_PATHS``."""
        measured = set(self.compared["launch_path"])
        return [path for path in LAUNCH_PATHS if path in measured]

    @functools.cached_property
    def swept_paths(self) -> list[str]:
        """Those of ``launch_paths`` that are told one by one: with several N, or all where none has several.

        A path with one N has nothing over N; its figures stand among the launch paths.
        """
        counts = self.compared.groupby("launch_path")["launch_count"].nunique()
        return [path for path in self.launch_paths if counts[path] > 1] or self.launch_paths

    def rows(self, launch_path: str, kernel: str = "tiny", **equal: Any) -> pd.DataFrame:
        """Compared rows of a launch path and kernel, by N."""
        keep = (self.compared["launch_path"] == launch_path) & (self.compared["kernel"] == kernel)
        for name, value in equal.items():
            keep &= self.compared[name] == value
        return self.compared[keep].sort_values(["card_name", "launch_count"], kind="stable")

    def headline_count(self, launch_path: str) -> int | None:
        """The N that one sentence is about: 512, else the largest that the queue holds, else the smallest."""
        counts = sorted(map(int, set(self.rows(launch_path)["launch_count"])))
        if HEADLINE_COUNT in counts or not counts:
            return HEADLINE_COUNT if counts else None
        return max((count for count in counts if count <= QUEUE_DEPTH), default=counts[0])


def load(tables_dir: Path, config_labels: Sequence[str], launch_counts: Sequence[int]) -> Comparison:
    """Read ``summary.csv``, ``trials.csv``, ``fits.csv`` and ``gaps.csv``.

    Raises:
        LaunchbenchError: a table is missing, is not what ``columns`` describes, or is of other results than the rest.
    """
    names = ("summary", "trials", "fits", "gaps")
    # With a thousand cards the other modes of trials.csv would be most of what is read.
    only = {"trials": [f",{mode}," for mode in COMPARED_MODES]}
    summary, trials, fits, gaps = (read_table(tables_dir, name, only.get(name, ())) for name in names)
    known = set(summary[CARD_KEY].itertuples(index=False, name=None))
    for name, frame in (("trials", trials), ("fits", fits)):
        for key in frame[CARD_KEY].drop_duplicates().itertuples(index=False, name=None):
            if key not in known:
                card = f"label {key[1]!r}, card {key[2]!r}"
                reason = f"{card}: summary.csv has no such card; aggregate both"
                raise LaunchbenchError(f"{tables_dir / name}.csv: {reason}")
    return compare(summary, trials, fits, gaps, config_labels, launch_counts)


def read_table(tables_dir: Path, name: str, only: Sequence[str] = ()) -> pd.DataFrame:
    """One table that ``aggregate`` wrote.

    Args:
        tables_dir: where it wrote its tables.
        name: the table.
        only: lines that contain none of these are not looked at; all lines where nothing is given.

    Raises:
        LaunchbenchError: it is missing or is not what ``columns`` describes.
    """
    path = tables_dir / f"{name}.csv"
    data = _content(path, "aggregating the results makes it")
    if only:
        head, *lines = data.split(b"\n")
        words = [word.encode() for word in only]
        data = b"\n".join([head, *(line for line in lines if any(word in line for word in words)), b""])
    return tables.parse_csv(io.BytesIO(data), tables.TABLES[name][1], str(path))


def read_repetitions(
    tables_dir: Path,
    cards: pd.DataFrame,
    names: Collection[str] | None = None,
    only: Mapping[str, Collection[str]] | None = None,
) -> pd.DataFrame:
    """The repetitions of some cards.

    Args:
        tables_dir: where ``aggregate`` wrote its tables.
        cards: ``site``, ``label`` and ``card`` of each, at least one.
        names: columns of ``columns.TIDY`` to read; all where None.
        only: values that a row must have, by columns of text; all rows where None. Others are not looked at.

    Raises:
        LaunchbenchError: those of a card are missing, damaged or are not what ``columns`` describes.
    """
    keys = cards[["site", "label", "card"]].drop_duplicates().itertuples(index=False, name=None)
    files = [card_file(tables_dir / "tidy", *key) for key in keys]
    hint = "summary.csv has that card; aggregating the results makes both"
    read = [parse_parquet(_content(file, hint), columns.TIDY, str(file), names, only) for file in files]
    return pd.concat(read, ignore_index=True)


def _content(path: Path, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise LaunchbenchError(escaped(f"{path}: cannot be read: {reason}; {hint}")) from error


def compare(
    summary: pd.DataFrame,
    trials: pd.DataFrame,
    fits: pd.DataFrame,
    gaps: pd.DataFrame,
    config_labels: Sequence[str],
    launch_counts: Sequence[int],
) -> Comparison:
    """Choose and name the rows; arguments as the tables of ``aggregate``."""
    names = card_names(summary)
    summary = summary.merge(names, on=CARD_KEY, how="left")
    compared = _newest_protocol(summary[summary["speedup"].notna()])
    trials = trials[trials["mode"].isin(COMPARED_MODES)].merge(names, on=CARD_KEY, how="left")
    measured = set(summary[["label", "virtual"]].itertuples(index=False, name=None))
    ordered = [(label, False) for label in dict.fromkeys(config_labels)]
    counts = {*map(int, launch_counts), *map(int, summary["launch_count"])}
    return Comparison(
        summary=summary,
        compared=compared,
        trials=trials,
        fits=fits.merge(names, on=CARD_KEY, how="left"),
        gaps=gaps,
        labels=(*ordered, *sorted(measured - set(ordered))),
        launch_counts=tuple(sorted(counts)),
    )


def card_names(summary: pd.DataFrame) -> pd.DataFrame:
    """``CARD_KEY`` and ``card_name``: the label, and as much more as tells two cards of a label apart."""
    keys = summary[CARD_KEY].drop_duplicates().sort_values(CARD_KEY, kind="stable").reset_index(drop=True)
    name = keys["label"].astype("str")
    for part, prefix in _TELLING:
        group = keys[part].groupby([name, keys["virtual"]])
        differs = group.transform("nunique") > 1
        name = name.where(~differs, name + " " + prefix + keys[part].replace("", "unknown").astype("str"))
    name = name.map(shortened)
    name = name.where(~keys["virtual"], name + f" ({SIMULATED})")
    repeat = name.groupby(name).cumcount()
    name = name.where(repeat == 0, name + " #" + (repeat + 1).astype("str"))
    return keys.assign(card_name=name.astype("str"))


def _newest_protocol(rows: pd.DataFrame) -> pd.DataFrame:
    if rows.empty:
        return rows
    moment = moments(rows["started_utc"])
    latest = rows.assign(moment=moment).sort_values("moment", kind="stable", na_position="first")
    series = latest.groupby([*CARD_KEY, "launch_path", "kernel"], sort=False)
    newest = series["protocol_hash"].transform("last").reindex(rows.index)
    return rows[rows["protocol_hash"] == newest]
