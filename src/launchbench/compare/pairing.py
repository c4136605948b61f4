"""Which cells of A and B belong together, and why others do not. It decides no verdict and reads no file."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from launchbench.aggregate.cells import current
from launchbench.aggregate.trial_table import NOT_TIMED
from launchbench.compare.facets import Facets, other_hardware, other_protocol
from launchbench.compare.side import Side
from launchbench.config.messages import escaped
from launchbench.results.protocol import KERNELS, LAUNCH_PATHS, MODES
from launchbench.results.record import card_id
from launchbench.wording import plural, several, shortened

CellKey = tuple[str, str, int, str]
"""Launch path, kernel, N, mode."""
Label = tuple[str, bool]
"""Label, and whether its GPU is simulated."""

NO_SAMPLES = "no valid samples"
_SAMPLE = ("label", "virtual", "gpu_uuid", "launch_path", "kernel", "launch_count", "mode", "protocol_hash")
_ORIGIN = {"site": "site", "hostname": "host", "driver_version": "driver", "nvcc": "nvcc"}


@dataclass(frozen=True)
class Sample:
    """One cell and mode of one side, trials in their order.

    Times are of one launch or node. Without any, ``reason`` says why; ``origins`` are the sites, hosts, drivers
    and compilers it was measured with, of which a comparison bears one only.
    """

    per_us: tuple[float, ...]
    issue_share: float | None
    reason: str
    protocol_hash: str
    started_utc: str
    runs: frozenset[str]
    origins: frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Pair:
    """A cell and mode of both sides, or why they cannot be compared; a side that lacks it is None."""

    label: Label
    card_before: str
    card_after: str
    key: CellKey
    before: Sample | None
    after: Sample | None
    obstacle: str = ""
    gap: str = ""
    """Why the side that lacks the cell does, where its records say so."""


Cells = dict[CellKey, dict[str, Sample]]
"""Of one card: by protocol hash, since a card may have been measured under several."""


def pairs(before: Side, after: Side) -> Iterator[Pair]:
    """Every cell and mode that A or B has, by label, card, launch path, kernel, N and mode.

    A mode that neither side could time is none.
    """
    cells = [_cells(side) for side in (before, after)]
    gaps = [_gaps(side) for side in (before, after)]
    for label in sorted({*cells[0], *cells[1]}):
        a, b = (side.get(label, {}) for side in cells)
        matched, obstacle = _match(a, b)
        if obstacle:
            keys = _sorted({key for side in (a, b) for card in side.values() for key in card})
            yield from (Pair(label, "", "", key, None, None, obstacle) for key in keys)
            continue
        for old, new in matched:
            mine, other = a.get(old, {}), b.get(new, {})
            cards = tuple(card_id(uuid) if uuid else "" for uuid in (old, new))
            for key in _sorted({*mine, *other}):
                one, two, why = _choose(mine.get(key, {}), other.get(key, {}), before, after)
                if not (one and two and _untimed(one) and _untimed(two)):
                    lacking = (gaps[0], old) if one is None else (gaps[1], new)
                    known = [lacking[0].get((lacking[1], key[0], kernel), "") for kernel in ("", key[1])]
                    gap = next(filter(None, known), "") if one is None or two is None else ""
                    yield Pair(label, cards[0], cards[1], key, one, two, why, gap)


def _gaps(side: Side) -> dict[tuple[str, str, str], str]:
    """UUID, launch path and kernel ("" for all) -> why it could not be measured, in one line."""
    return {
        (facets.device.uuid, *what): escaped(why)
        for _, facets in sorted(side.facets.items())
        for what, why in facets.gaps.items()
    }


def _match(a: dict[str, Cells], b: dict[str, Cells]) -> tuple[list[tuple[str, str]], str]:
    """UUIDs of the cards that are compared, an empty one where a side has none; or why none can be matched."""
    common = sorted({*a} & {*b})
    if not common and len(a) == len(b) == 1:
        return [(next(iter(a)), next(iter(b)))], ""
    if a and b and not common:
        counts = f"{plural(len(a), 'card')} against {len(b)}, none the same"
        return [], f"{counts}; pass the folder of one card for each side"
    alone = [(uuid, "") for uuid in sorted({*a} - {*b})] + [("", uuid) for uuid in sorted({*b} - {*a})]
    return [(uuid, uuid) for uuid in common] + alone, ""


def _choose(
    mine: dict[str, Sample], other: dict[str, Sample], before: Side, after: Side
) -> tuple[Sample | None, Sample | None, str]:
    """The samples of a cell under the newest protocol that both sides have, and what is in the way."""
    if not mine or not other:
        return _newest(mine), _newest(other), ""
    shared = {name: sample for name, sample in other.items() if name in mine}
    if not shared:
        one, two = max(mine.values(), key=_moment), max(other.values(), key=_moment)
        facets = [_facets(side, sample) for side, sample in ((before, one), (after, two))]
        protocols = [known[0].protocol if known else None for known in facets]
        return one, two, other_protocol(protocols[0], protocols[1], (one.protocol_hash, two.protocol_hash))
    name = max(shared, key=lambda name: _moment(shared[name]))
    one, two = mine[name], other[name]
    return one, two, _obstacle(one, two, before, after)


def _obstacle(one: Sample, two: Sample, before: Side, after: Side) -> str:
    for word, sample in (("A", one), ("B", two)):
        if len(sample.origins) > 1:
            columns = zip(_ORIGIN.values(), zip(*sorted(sample.origins), strict=True), strict=True)
            several_of = [f"{name} {several(sorted(set(found)))}" for name, found in columns if len(set(found)) > 1]
            return f"{word} has it with {', '.join(map(shortened, several_of))}; pass a folder that holds one of them"
    if one.runs & two.runs:
        return "the same job lies on both sides"
    for old, new in product(_facets(before, one), _facets(after, two)):
        different = other_hardware(old.device, new.device)
        if different:
            return different
    empty = [f"{word}: {sample.reason}" for word, sample in (("A", one), ("B", two)) if not sample.per_us]
    return "; ".join(empty)


def _cells(side: Side) -> dict[Label, dict[str, Cells]]:
    """Samples by label, UUID, cell and protocol."""
    rows = side.trials[~side.trials["superseded"].astype(bool)]
    # What counts is settled among all modes of a job.
    counts = rows.index.isin(current(side.trials).index)
    groups: dict[tuple[Any, ...], list[dict[Hashable, Any]]] = {}
    for row in rows.assign(counts=counts).to_dict("records"):
        groups.setdefault(tuple(row[name] for name in _SAMPLE), []).append(row)
    found: dict[Label, dict[str, Cells]] = {}
    for (label, virtual, uuid, path, kernel, count, mode, protocol_hash), group in groups.items():
        card = found.setdefault((label, bool(virtual)), {}).setdefault(uuid, {})
        card.setdefault((path, kernel, count, mode), {})[protocol_hash] = _sample(group, protocol_hash)
    return found


def _sample(rows: list[dict[Hashable, Any]], protocol_hash: str) -> Sample:
    counted = [row for row in rows if row["counts"]]
    used = counted or rows
    shares = [row["issue_us"] / row["gpu_us"] for row in counted if row["gpu_us"] > 0]
    known = [share for share in shares if math.isfinite(share)]
    flags = "; ".join(dict.fromkeys(row["flags"] for row in rows if row["flags"]))
    reason = flags if flags.startswith(NOT_TIMED) else f"{NO_SAMPLES}: {flags}" if flags else NO_SAMPLES
    return Sample(
        per_us=tuple(row["gpu_us"] / row["launch_count"] for row in counted),
        issue_share=sum(known) / len(known) if known else None,
        reason="" if counted else reason,
        protocol_hash=protocol_hash,
        started_utc=max(row["started_utc"] for row in used),
        runs=frozenset(row["run_id"] for row in used),
        origins=frozenset(tuple(row[name] for name in _ORIGIN) for row in used),
    )


def _facets(side: Side, sample: Sample) -> list[Facets]:
    """Those of its jobs whose record is known."""
    return [side.facets[run] for run in sorted(sample.runs) if run in side.facets]


def _newest(samples: dict[str, Sample]) -> Sample | None:
    return max(samples.values(), key=_moment, default=None)


def _moment(sample: Sample) -> str:
    return sample.started_utc


def _untimed(sample: Sample) -> bool:
    return sample.reason.startswith(NOT_TIMED)


def _sorted(keys: set[CellKey]) -> list[CellKey]:
    order = [{name: at for at, name in enumerate(names)} for names in (LAUNCH_PATHS, KERNELS, MODES)]
    return sorted(keys, key=lambda key: (order[0][key[0]], order[1][key[1]], key[2], order[2][key[3]]))
