"""What the renderings of a comparison have in common: figures, reasons and differences as text."""

from __future__ import annotations

from collections.abc import Iterable

from launchbench.compare.model import Comparison, Difference, Figure, Row
from launchbench.wording import UNKNOWN, number, one_line, plural, several, shortened, with_interval

NOTHING_DIFFERS = "nothing differs that the records know"
SIMULATED = "SIMULATED GPU: some or all figures come from a simulated GPU. They are not measurements."
HOST_NOTE = (
    "h: issuing takes as long as the device is busy, so the host sets the pace of this loop, and a difference is "
    "the host's, not the card's."
)
TOO_WIDE = "the interval of the ratio holds 1 and reaches out of the band of the same: more trials narrow it"
MAX_VALUES = 4
MAX_VALUE = 40


def figure(side: Figure | None) -> str:
    """``0.784 [0.781-0.787]``, in microseconds."""
    return UNKNOWN if side is None else with_interval(side.value_us, side.low_us, side.high_us)


def short_figure(side: Figure | None) -> str:
    """``0.7842 ± 0.0031``: a t interval is symmetric."""
    if side is None:
        return UNKNOWN
    if side.low_us is None or side.high_us is None:
        return number(side.value_us, 4)
    digits = number(side.value_us, 4)
    decimals = len(digits.partition(".")[2])
    return f"{digits} ± {(side.high_us - side.low_us) / 2:.{decimals}f}"


def ratio(row: Row) -> str:
    """``1.030 [1.021-1.039]``."""
    return with_interval(row.ratio, row.ratio_low, row.ratio_high, 4)


def verdict(row: Row) -> str:
    """The word, with a mark where the host decides."""
    marked = row.host_bound and row.verdict in ("faster", "slower", "cannot tell")
    return f"{row.verdict} (h)" if marked else row.verdict


def cards(row: Row) -> str:
    """The card, or both where they are two."""
    names = [name or UNKNOWN for name in (row.card_before, row.card_after)]
    return names[0] if names[0] == names[1] else f"{names[0]} against {names[1]}"


def values(found: Iterable[str], longest: int = MAX_VALUE) -> str:
    """Values of one side, cut where they are many or long."""
    known = [shortened(one_line(value), longest) or "not known" for value in found]
    if len(known) > MAX_VALUES:
        return f"{', '.join(known[: MAX_VALUES - 1])} and {len(known) - MAX_VALUES + 1} more"
    return several(known)


def difference(found: Difference, longest: int = MAX_VALUE) -> str:
    """``driver version: 580.1 -> 590.2``."""
    whose = f"{', '.join(map(shortened, found.labels))}: " if found.labels else ""
    return f"{whose}{found.field}: {values(found.before, longest)} -> {values(found.after, longest)}"


def side_lines(comparison: Comparison) -> list[str]:
    """What A and B are."""
    return [
        f"{word}: {shortened(one_line(side.path), 70)} ({plural(side.cards, 'card')}, {plural(side.jobs, 'job')})"
        for word, side in (("A", comparison.before), ("B", comparison.after))
    ]


def without_verdict(comparison: Comparison) -> list[str]:
    """Why cells have none, those with the same reason together."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in comparison.rows:
        if row.reason:
            # Each open interval has a width of its own, which the table shows.
            reason = TOO_WIDE if row.ratio_low is not None else row.reason
            groups.setdefault((row.label, row.verdict, reason), []).append(row)
    return [f"{word}: {shortened(label)}, {_cells(rows)}: {reason}" for (label, word, reason), rows in groups.items()]


def broken(comparison: Comparison) -> list[str]:
    """Files that cannot be used."""
    sides = (("A", comparison.before), ("B", comparison.after))
    return [f"{word}: {one.file}: {one.reason}" for word, side in sides for one in side.broken]


def explanation(comparison: Comparison) -> str:
    """What figures and verdicts mean."""
    percent = f"{100 * comparison.same_within:g} %"
    return (
        f"{comparison.clock}, per launch, node or increment, in us: mean over trials and its 95 % interval. "
        f"Ratio: B divided by A. same: its interval lies within 1 ± {percent}; faster, slower: another interval that "
        "leaves out 1; cannot tell: any other."
    )


def _cells(rows: list[Row]) -> str:
    paths = list(dict.fromkeys(row.launch_path for row in rows))
    kernels = list(dict.fromkeys(row.kernel for row in rows))
    modes = list(dict.fromkeys(row.mode for row in rows))
    counts = sorted({row.launch_count for row in rows})
    which = f"{several(paths)}, {several(kernels)}, {several(modes)}, N = {several(f'{count:,}' for count in counts)}"
    named = list(dict.fromkeys(cards(row) for row in rows if row.card_before or row.card_after))
    whose = f"card {several(named)}, " if 0 < len(named) <= MAX_VALUES else ""
    return f"{whose}{plural(len(rows), 'cell')} of {which}"
