"""The table of protocols: what each of their hashes on the page stands for, from the newest record that has it.

It reads one record for each job whose protocols are not known yet, and computes no statistic.
"""

from __future__ import annotations

from pathlib import Path

from launchbench.errors import LaunchbenchError
from launchbench.report.cells import RAW_DATA, Cell, Links, Table, count, cut, heads, kernel_name
from launchbench.report.cells import path_name as path_words
from launchbench.report.comparison import Comparison
from launchbench.results.files import read_record
from launchbench.results.protocol import KERNELS, LAUNCH_PATHS, Protocol
from launchbench.wording import UNKNOWN

MAX_ROWS = 60


def protocol_anchor(protocol_hash: str) -> str:
    """Where the row of a protocol is on the page."""
    return f"protocol-{protocol_hash}"


def protocols(comparison: Comparison, results_dir: Path, links: Links) -> Table:
    """A row for each hash of the summary; a dash where no record of it can be read."""
    newest = comparison.summary.sort_values(["started_utc", "run_id"]).drop_duplicates("protocol_hash", keep="last")
    path_rank, kernel_rank = ({name: rank for rank, name in enumerate(names)} for names in (LAUNCH_PATHS, KERNELS))
    rows = sorted(
        newest.to_dict("records"),
        key=lambda row: (path_rank[row["launch_path"]], kernel_rank[row["kernel"]], row["protocol_hash"]),
    )
    read: dict[str, Protocol | None] = {}
    body = []
    for row in rows[:MAX_ROWS]:
        run, text = row["run_id"], row["protocol_hash"]
        if run not in read:
            read[run] = _protocol(results_dir / row["site"] / row["label"] / row["card"] / f"{run}.json")
        body.append(
            [
                Cell(text, heading="row", anchor=protocol_anchor(text)),
                Cell(path_words(row["launch_path"])),
                Cell(kernel_name(row["kernel"])),
                *_fields(read[run], row["launch_path"], row["kernel"], text),
                Cell("", links=[link for link in links({**row, "runs": run}) if link[0] == "record"]),
            ]
        )
    head = heads(
        *("protocol", "launch path", "kernel"),
        ("version", "meaning of the timed intervals"),
        ("placements", "places of the buffer that a replay is timed at, in each trial"),
        ("in every mode", "how many of them"),
        ("repetitions", "timed, of every mode at each placement that has it"),
        ("warm-up rounds", "untimed, at the first placement"),
        ("warm-up, ms", "or for at least this long"),
        RAW_DATA,
    )
    caption = (
        "How each row was timed. Rows of different protocols are never averaged. From version 3 on tiny is timed at "
        "all placements on one launch path of a job, the first native one; every other block has the fewer of "
        "\N{LEFT DOUBLE QUOTATION MARK}in every mode\N{RIGHT DOUBLE QUOTATION MARK}."
    )
    notes = cut(len(rows), MAX_ROWS, "summary.csv")
    return Table("protocols", caption, head, body, notes=notes)


def _protocol(path: Path) -> Protocol | None:
    try:
        return read_record(path).protocol
    except LaunchbenchError:
        return None


def _fields(protocol: Protocol | None, launch_path: str, kernel: str, expected: str) -> list[Cell]:
    if protocol is None or protocol.block_hash(launch_path, kernel) != expected:
        return [Cell(UNKNOWN, "no record of it can be read", kind="missing")] * 6
    numbers = (protocol.version, protocol.placements or 1, protocol.full_placements, protocol.repetitions)
    more = (protocol.warmup_rounds, protocol.warmup_ms)
    return [Cell("all", kind="number") if one is None else count(one) for one in (*numbers, *more)]
