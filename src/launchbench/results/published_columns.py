"""Columns of published figures, and which of our columns each of their quantities may stand beside. Light to import."""

from __future__ import annotations

from dataclasses import dataclass

from launchbench.results.columns import Column
from launchbench.results.protocol import MAX_LAUNCH_COUNT

CLOCKS = ("host", "events", "not stated")
ISSUERS = ("native", "python")


@dataclass(frozen=True)
class Quantity:
    """What a published figure may be of.

    ``by_events`` and ``by_host`` name what of our summary it may stand beside, by the clock it was taken with.
    ``figure`` is the one that plots it, "" where none does; ``mode`` and ``per_item`` say which time there, and
    whether it has to be multiplied by N.
    """

    unit: str
    meaning: str
    by_events: str
    by_host: str
    figure: str = ""
    mode: str = ""
    per_item: bool = False

    def beside(self, clock: str) -> str:
        """What of our summary it may stand beside."""
        names = {"events": [self.by_events], "host": [self.by_host]}.get(clock, [self.by_events, self.by_host])
        return " or ".join(dict.fromkeys(names))


QUANTITIES = {
    "loop": Quantity("us", "stream loop of N launches until all have run", "loop_us", "loop_total_us", "times", "loop"),
    "loop_per_launch": Quantity(
        "us per launch", "the same divided by N", "loop_us / N", "loop_total_us / N", "times", "loop", True
    ),
    "replay": Quantity("us", "one replay of a graph of N nodes", "replay_us", "replay_total_us", "times", "replay"),
    "replay_per_node": Quantity(
        "us per node", "the same divided by N", "replay_us / N", "replay_total_us / N", "times", "replay", True
    ),
    "graph_launch": Quantity("us", "host time of one graph launch call", "replay_issue_us", "replay_issue_us"),
    "speedup": Quantity("ratio", "loop by replay, of the same N", "speedup", "speedup", "speedup", "loop"),
}
"""Anything else means something that is not measured here, and is refused."""

UNITS = tuple(dict.fromkeys(quantity.unit for quantity in QUANTITIES.values()))

PUBLISHED: tuple[Column, ...] = (
    Column(
        "quantity",
        "str",
        "what kind of time it is: " + "; ".join(f"{name} = {kind.meaning}" for name, kind in QUANTITIES.items()),
        choices=tuple(QUANTITIES),
    ),
    Column("clock", "str", "what it was timed by", choices=CLOCKS),
    Column("issued_by", "str", "a native or a Python loop", choices=ISSUERS),
    Column(
        "launch_count",
        "int",
        "N; empty where the source gives none, and then no figure shows it",
        nullable=True,
        minimum=1,
        maximum=MAX_LAUNCH_COUNT,
    ),
    Column("value", "float", "the figure, above 0", unit="see unit", minimum=0),
    Column("unit", "str", "unit of the value; each quantity has one", choices=UNITS),
    Column("gpu", "str", "the GPU as the source names it; never empty"),
    Column("host", "str", "its host's CPU; empty = not stated"),
    Column("driver", "str", "NVIDIA driver; empty = not stated"),
    Column("cuda", "str", "CUDA toolkit; empty = not stated"),
    Column("measured", "str", "what exactly was timed; never empty"),
    Column("caveat", "str", "why it is not like for like with ours; never empty"),
    Column("source_title", "str", "title of the source; never empty"),
    Column("source_url", "str", "its address; never empty, a link where it begins with http:// or https://"),
    Column("source_date", "str", "when it was published, YYYY, YYYY-MM or YYYY-MM-DD; empty = not stated"),
)
"""One row a figure that somebody else measured; the CSVs under ``results/published/``."""
