"""Kernels of chosen lengths on a virtual card, against its cost model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from launchbench.measure.lengths import LONGEST_MS, NOTHING_REPETITIONS
from tests.conftest import ROOT
from tests.virtual_gpu import H100, Fault, VirtualGpu


def spun(virtual_gpu: VirtualGpu, binaries: Path, *arguments: Any, faults: list[Fault] | None = None) -> Any:
    environment = virtual_gpu.environment([H100], faults or [], modelled_clock=True)
    command = [sys.executable, "-m", "tests.virtual_gpu.spun", str(binaries), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def test_short_kernels_wait_for_the_host_and_long_ones_for_the_device(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    done = spun(virtual_gpu, binaries, 3, 8, 64, "--", 0.0, 1.0, 50.0, 2000.0)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["cycles_per_us"] == pytest.approx(1500, rel=1e-4)
    assert seen["expected_count"] == seen["observed_count"] > 0
    assert seen["left_out"] == [[64, 2000.0]] and 64 * 2000.0 > LONGEST_MS * 1e3 >= 8 * 2000.0
    rows = pd.DataFrame(seen["rows"])
    nothing = rows[rows["mode"] == "nothing"]
    assert len(nothing) == NOTHING_REPETITIONS
    assert nothing["gpu_us"].to_numpy() == pytest.approx(H100.event_us, rel=1e-4)
    timed = rows[rows["mode"] != "nothing"]
    assert set(timed.groupby(["launch_count", "kernel_us", "mode"]).size()) == {3}
    card = H100
    for row in timed.itertuples():
        n, length = row.launch_count, row.cycles / 1500
        assert length == pytest.approx(row.kernel_us, abs=1e-3)
        pace = card.pace_us + length
        if row.mode == "loop":
            truth = max(n * card.issue_us + max(card.event_us, pace), card.issue_us + n * pace)
            # Without a synchronize the host's clock reads the time of issuing, however long the kernels are.
            assert row.issue_us == pytest.approx(n * card.issue_us, rel=1e-6)
        else:
            truth = card.graph_launch_us + card.graph_fixed_us + n * (card.node_us + length)
            assert row.issue_us == pytest.approx(card.graph_launch_us, rel=1e-6)
        assert row.gpu_us == pytest.approx(truth, rel=1e-4), row
        assert row.total_us == pytest.approx(row.gpu_us + card.sync_us, rel=1e-3)
    medians = timed.groupby(["launch_count", "kernel_us", "mode"])["gpu_us"].median().unstack()
    speedup = medians["loop"] / medians["replay"]
    assert speedup[64, 0.0] > 3 and speedup[64, 50.0] < 1.1 and speedup[8, 2000.0] < 1.01


def test_events_that_lie_end_it_in_one_line(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    done = spun(virtual_gpu, binaries, 1, 8, "--", 1.0, faults=[Fault("cuEventElapsedTime", value=0.0)])
    assert done.returncode == 1
    assert "spin of 1200000 cycles took 0.0 us" in done.stderr.splitlines()[-1]
