"""Verdicts of B against A, and what is said of them as a whole. It reads no file and renders nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import launchbench
from launchbench.aggregate import trials
from launchbench.aggregate.trials import TOO_FEW_TRIALS
from launchbench.aggregate.verdict import SAME_WITHIN, verdict
from launchbench.compare.facets import differences
from launchbench.compare.model import (
    WORDS,
    BrokenFile,
    Comparison,
    Difference,
    Figure,
    Row,
    SideSummary,
    Word,
)
from launchbench.compare.pairing import Pair, Sample, pairs
from launchbench.compare.side import Side
from launchbench.report.explain import HOST_BOUND
from launchbench.wording import plural, several, span

CLOCK = "GPU time between two CUDA events on the stream"
MISSING_A, MISSING_B = "not in A", "not in B"

_UNITS = {"loop": "us per launch", "loop-dependent": "us per launch", "queued": "us per launch"}
_ISSUED_MODES = ("loop", "loop-dependent")
"""Those in which the device can wait for the next launch: behind a gate it does not."""


def compare(before: Side, after: Side) -> Comparison:
    """Every cell of A and B with its verdict."""
    found = list(pairs(before, after))
    rows = [_row(pair) for pair in found]
    counts: dict[Word, int] = dict.fromkeys(WORDS, 0)
    counts.update(Counter(row.verdict for row in rows))
    return Comparison(
        launchbench=launchbench.__version__,
        clock=CLOCK,
        same_within=SAME_WITHIN,
        simulated=any(row.simulated for row in rows),
        before=_summary_of(before),
        after=_summary_of(after),
        summary=_summary(rows),
        counts=counts,
        differences=_differences(found, before, after),
        rows=rows,
    )


def _row(pair: Pair) -> Row:
    word, reason, ratio = _verdict(pair)
    figures = [_figure(sample) for sample in (pair.before, pair.after)]
    label, simulated = pair.label
    launch_path, kernel, launch_count, mode = pair.key
    default = "us per increment" if mode.startswith("fused") else "us per node"
    return Row(
        label=label,
        simulated=simulated,
        card_before=pair.card_before,
        card_after=pair.card_after,
        launch_path=launch_path,
        kernel=kernel,
        launch_count=launch_count,
        mode=mode,
        unit=_UNITS.get(mode, default),
        verdict=word,
        reason=reason,
        ratio=ratio[0],
        ratio_low=ratio[1],
        ratio_high=ratio[2],
        before=figures[0],
        after=figures[1],
        host_bound=mode in _ISSUED_MODES
        and any(figure is not None and (figure.issue_share or 0) >= HOST_BOUND for figure in figures),
    )


Ends = tuple[float | None, float | None, float | None]


def _verdict(pair: Pair) -> tuple[Word, str, Ends]:
    nothing: Ends = (None, None, None)
    if pair.obstacle:
        return "not comparable", pair.obstacle, nothing
    if pair.before is None or pair.after is None:
        where = MISSING_A if pair.before is None else MISSING_B
        return "missing", f"{where}: {pair.gap}" if pair.gap else where, nothing
    found = verdict(pair.before.per_us, pair.after.per_us)
    value = found.ratio.value if math.isfinite(found.ratio.value) else None
    reason = found.reason
    if reason == TOO_FEW_TRIALS:
        reason += f": A has {len(pair.before.per_us)}, B has {len(pair.after.per_us)}"
    return found.word, reason, (value, found.ratio.low, found.ratio.high)


def _figure(sample: Sample | None) -> Figure | None:
    if sample is None or not sample.per_us:
        return None
    estimate = trials.single(trials.mean([sample.per_us]), len(sample.per_us))
    return Figure(
        value_us=estimate.value,
        low_us=estimate.low,
        high_us=estimate.high,
        trials=len(sample.per_us),
        issue_share=sample.issue_share,
    )


def _differences(found: Sequence[Pair], before: Side, after: Side) -> list[Difference]:
    """Of the jobs whose figures stand opposite each other."""
    runs: dict[str, tuple[set[str], set[str]]] = {}
    for pair in found:
        if pair.before and pair.after:
            own = runs.setdefault(pair.label[0], (set(), set()))
            own[0].update(pair.before.runs)
            own[1].update(pair.after.runs)
    by_label = []
    for label, (old, new) in runs.items():
        known = [
            [side.facets[run] for run in sorted(names) if run in side.facets]
            for side, names in ((before, old), (after, new))
        ]
        if known[0] and known[1]:
            by_label.append((label, known[0], known[1]))
    return differences(by_label)


def _summary_of(side: Side) -> SideSummary:
    return SideSummary(
        path=side.name,
        cards=len(side.trials[["label", "gpu_uuid"]].drop_duplicates()),
        jobs=side.trials["run_id"].nunique(),
        broken=[BrokenFile(file=file, reason=reason) for file, reason in side.broken],
    )


def _summary(rows: Sequence[Row]) -> list[str]:
    """Sentences from the verdicts: how many of each, where something changed, and whose it is."""
    decided = [row for row in rows if row.verdict in ("same", "faster", "slower")]
    open_rows = [row for row in rows if row.verdict == "cannot tell"]
    if not decided and not open_rows:
        said = ["Nothing can be compared."]
    else:
        words = [f"{sum(row.verdict == word for row in decided)} {word}" for word in ("same", "faster", "slower")]
        total = plural(len(decided) + len(open_rows), "cell")
        said = [f"B against A, {total} compared: {', '.join(words)}, {len(open_rows)} cannot tell."]
    for word in ("slower", "faster"):
        own = [row for row in decided if row.verdict == word]
        if own:
            said.append(f"{word.capitalize()}: {_by_mode(own)}.")
    changed = [row for row in decided if row.host_bound and row.verdict != "same"]
    if changed:
        are = "is a loop" if len(changed) == 1 else "are loops"
        said.append(
            f"{plural(len(changed), 'cell')} of these {are} in which issuing takes as long as the device is busy: "
            "that difference is the host's."
        )
    left = [(sum(row.verdict == word for row in rows), word) for word in ("not comparable", "missing")]
    told = [f"{plural(count, 'cell')} {word}" for count, word in left if count]
    if told:
        said.append(f"{several(told)}.")
    return said


def _by_mode(rows: Sequence[Row]) -> str:
    parts = []
    for mode in dict.fromkeys(row.mode for row in rows):
        own = [row for row in rows if row.mode == mode]
        counts = sorted({row.launch_count for row in own})
        ends = f"N = {counts[0]:,}" + (f" to {counts[-1]:,}" if len(counts) > 1 else "")
        percent = [100 * abs(row.ratio - 1) for row in own if row.ratio is not None]
        parts.append(f"{mode} in {plural(len(own), 'cell')} ({ends}) by {span(percent, 2)} %")
    return "; ".join(parts)
