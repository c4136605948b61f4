"""Fabricated results with all modes where a real job has them, and the reasons where it has not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from launchbench.measure.modes import modes_of
from tests.unit.fabricate import LAUNCH_COUNTS, CostModel, Edit, write_job


@dataclass(frozen=True)
class ModeModel(CostModel):
    """As ``CostModel``; ``dependent`` multiplies a launch or node with programmatic edges, ``floor`` is an increment.

    ``floor`` holds for memory, a register takes a tenth. A native loop goes at the pace of the slower side.
    """

    dependent: float = 0.8
    floor: float = 0.3

    def mode_us(self, mode: str, n: int, launch_path: str, kernel: str, placement: int) -> float:
        """GPU time of one execution in any mode."""
        if mode == "loop" and launch_path == "native-driver":
            return super().mode_us(mode, n, launch_path, kernel, placement) + n * max(0.0, self.pace - self.issue)
        if mode.endswith("-dependent"):
            return self.dependent * super().mode_us(mode.removesuffix("-dependent"), n, launch_path, kernel, placement)
        if mode.startswith("fused"):
            return 2 + n * self.floor * (0.1 if mode == "fused-register" else 1.0)
        return super().mode_us(mode, n, launch_path, kernel, placement)


def write_modes(
    results_dir: Path,
    launch_counts: Iterable[int] = LAUNCH_COUNTS,
    *,
    trials: int = 3,
    capability: tuple[int, int] = (9, 0),
    model: ModeModel | None = None,
    edit: Edit | None = None,
    **options: Any,
) -> None:
    """As many jobs as trials for each N; options as in :func:`write_job`."""
    model = model or ModeModel()
    options = {"model": model, "launch_paths": ("native-driver",), **options}
    for n in launch_counts:
        of_kernel = {kernel: modes_of("native-driver", kernel, n, capability) for kernel in ("tiny", "empty")}
        more = [mode for mode, why in of_kernel["tiny"].items() if not why and mode not in ("loop", "replay")]

        def real(record: dict[str, Any], raw: pd.DataFrame, of_kernel: Any = of_kernel) -> pd.DataFrame:
            for block in record["blocks"]:
                own = of_kernel[block["kernel"]] if block["launch_path"] == "native-driver" else {}
                block["not_timed"] = {mode: why for mode, why in own.items() if why}
            native = (raw["launch_path"] == "native-driver") & raw["mode"].isin(("loop", "loop-dependent"))
            raw.loc[native, "issue_us"] *= model.issue / max(model.issue, model.pace)
            changed = edit(record, raw) if edit else None
            raw = raw if changed is None else changed
            return raw[(raw["kernel"] == "tiny") | ~raw["mode"].str.startswith("fused")]

        for trial in range(1, trials + 1):
            write_job(results_dir, n, trial=trial, modes=more, edit=real, **options)
