"""The summary as a Markdown table, for a README."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from launchbench.report.comparison import Comparison
from launchbench.results.protocol import OTHER_CODE
from launchbench.wording import in_markdown, number, one_line, with_interval

KERNEL = "tiny"
SIMULATED = "Rows marked as simulated are of no card: they come from a simulated GPU."
NOTHING = "Nothing was measured."
OWN = "not the same code as elsewhere and not to be compared with it"

_HEAD = ("GPU", "N", "loop, us per launch", "replay, us per node", "speed-up [95 % interval]")
_RIGHT = ("---", "---:", "---:", "---:", "---:")


def summary_markdown(comparison: Comparison) -> str:
    """A table for each launch path that was measured, a row for each card and N, with what to know of it."""
    measured = [(path, comparison.rows(path, KERNEL)) for path in comparison.launch_paths]
    measured = [(path, rows) for path, rows in measured if len(rows)]
    if not measured:
        return f"{NOTHING}\n"
    lines = [
        "A stream loop of N launches against one replay of the same N as a CUDA graph, GPU time by events. The loop is",
        "the work of GPU and host together.",
    ]
    if comparison.simulated:
        lines += ["", f"**{SIMULATED}**"]
    for path, rows in measured:
        whose = f"a kernel of its own, {OWN}" if path in OTHER_CODE else f"the kernel `{KERNEL}`"
        lines += ["", f"Launches by `{path}` of {whose}:", "", _line(_HEAD), _line(_RIGHT)]
        lines += [_line(_cells(row)) for row in rows.to_dict("records")]
    return "\n".join(lines) + "\n"


def _cells(row: dict[Hashable, Any]) -> list[str]:
    gpu = f"{row['card_name']}: {row['gpu_name']}, host {row['hostname']}"
    return [
        in_markdown(one_line(gpu)),
        f"{row['launch_count']:,}",
        number(row["loop_us_per_launch"]),
        number(row["replay_us_per_node"]),
        with_interval(row["speedup"], row["speedup_low"], row["speedup_high"]),
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
