"""Timing over placements, in every mode, against the cost model of a virtual card."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from launchbench.measure.modes import BATCH_NODES, GATED_COUNT, modes_of
from launchbench.measure.placements import ALIGNMENT_BYTES, ONE_OFF_SAMPLES, draw
from tests.conftest import ROOT
from tests.virtual_gpu import H100, T4, Card, Fault, VirtualGpu

LADDER = ("loop-dependent", "replay-dependent")


def placed(
    virtual_gpu: VirtualGpu, binaries: Path, card: Card, *arguments: Any, faults: list[Fault] | None = None
) -> dict[str, Any]:
    environment = virtual_gpu.environment([card], faults or [], modelled_clock=True)
    command = [sys.executable, "-m", "tests.virtual_gpu.placed", str(binaries), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize(("card", "kernel", "count"), [(H100, "tiny", 64), (T4, "tiny", 8), (H100, "empty", 600)])
def test_every_mode_says_what_the_model_says(
    virtual_gpu: VirtualGpu, binaries: Path, card: Card, kernel: str, count: int
) -> None:
    seen = placed(virtual_gpu, binaries, card, "native-driver", kernel, count, 6, 3, 2, 7)
    rows = pd.DataFrame(seen["rows"])
    timed = {mode for mode, reason in seen["modes"].items() if not reason}
    assert timed == set(rows["mode"]) and timed >= {"loop", "replay"}
    for row in rows.itertuples():
        address = seen["pool"] + row.offset_bytes
        truth = card.mode_us(row.mode, count, kernel, address)
        if row.mode == "replay-batch":
            # Back to back: the device is busy all the time, the host's part shows once.
            device = truth - card.graph_launch_us
            assert row.replays == BATCH_NODES // count
            truth = card.graph_launch_us + row.replays * max(device, card.graph_launch_us)
        assert row.gpu_us == pytest.approx(truth, rel=1e-5), row
    assert seen["expected"] == seen["observed"] and (seen["observed"] > 0) == (kernel == "tiny")
    assert seen["told"] == [1, 2, 3, 4, 5, 6] and seen["warmup_rounds_run"] == 2


def test_what_is_timed_where(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    one, again, other = (
        pd.DataFrame(placed(virtual_gpu, binaries, H100, "native-driver", "tiny", 8, 6, 2, 5, seed)["rows"])
        for seed in (1, 1, 2)
    )
    assert one.equals(again), "the seed decides everything"
    assert list(one["offset_bytes"]) != list(other["offset_bytes"])
    assert one["offset_bytes"].nunique() == 6 and (one["offset_bytes"] % ALIGNMENT_BYTES == 0).all()
    timed = one.groupby("placement")["mode"].agg(set)
    everything = set(modes_of("native-driver", "tiny", 8, (9, 0)))
    assert [set(modes) == everything for modes in timed] == [True, False, False, True, False, False]
    assert all(modes == {"replay", "replay-queued"} for modes in timed[[1, 2, 4, 5]])
    sizes = one.groupby(["placement", "mode"]).size()
    assert (sizes == 5).all()
    # The order is drawn in every repetition: each mode is first, and last, at some time.
    full = one[one["placement"].isin([0, 3])]
    orders = full.groupby(["placement", "repetition"])["mode"].agg(tuple)
    assert orders.nunique() >= 8
    assert (full.groupby(["placement", "repetition"])["order"].agg(sorted).map(tuple) == tuple(range(9))).all()


def test_what_a_graph_costs_once_is_sampled(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    costs = placed(virtual_gpu, binaries, H100, "native-driver", "tiny", 64, 4, 1, 1, 3)["costs"]
    capture, instantiate, upload = H100.once_us(64)
    for name, truth in (("capture_us", capture), ("instantiate_us", instantiate), ("upload_us", upload)):
        assert len(costs[name]) >= ONE_OFF_SAMPLES and costs[name] == pytest.approx([truth] * len(costs[name]))
    assert costs["first_replay_us"] == pytest.approx([costs["first_replay_us"][0]] * ONE_OFF_SAMPLES)
    # Each of the other placements is reached by a capture and an update.
    assert costs["recapture_us"] == pytest.approx([capture] * 3) and len(costs["update_us"]) == 3
    assert set(costs["graph_bytes"]) == {64 * H100.graph_node_bytes}


def test_the_first_graph_of_a_process_is_thrown_away(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    from dataclasses import replace

    cold = replace(H100, cold_factor=5.0, cold_bursts=3)
    seen = placed(virtual_gpu, binaries, cold, "native-driver", "tiny", 64, 2, 1, 1, 3)["costs"]
    assert seen["capture_us"] == pytest.approx([H100.once_us(64)[0]] * len(seen["capture_us"]))


def test_an_update_that_is_refused_makes_the_graph_anew(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    refused = [Fault("cuGraphExecUpdate", 910, start=2, count=1)]
    seen = placed(virtual_gpu, binaries, H100, "cuda-python", "tiny", 8, 5, 1, 2, 3, faults=refused)
    assert seen["costs"]["refused_updates"] == 1 and len(seen["costs"]["update_us"]) == 3
    assert seen["expected"] == seen["observed"]
    for row in pd.DataFrame(seen["rows"]).query("mode == 'replay'").itertuples():
        truth = H100.replay_us(8, "tiny", seen["pool"] + row.offset_bytes)
        assert row.gpu_us == pytest.approx(truth, rel=1e-5), "made anew outside of what is timed"
    # How often a sample of the one-off costs is taken does not depend on it.
    assert len(seen["costs"]["instantiate_us"]) == ONE_OFF_SAMPLES + 1


def test_a_gate_that_gives_up_leaves_no_figure(virtual_gpu: VirtualGpu, binaries: Path) -> None:
    """A queue that is shorter than thought: the host waits, and the launches are not all queued."""
    from dataclasses import replace

    short = replace(T4, queue_depth=40)
    rows = pd.DataFrame(placed(virtual_gpu, binaries, short, "native-driver", "tiny", 64, 2, 1, 2, 3)["rows"])
    assert rows.loc[rows["mode"] == "queued", "gpu_us"].isna().all()
    assert rows.loc[rows["mode"] != "queued", "gpu_us"].notna().all()


@pytest.mark.parametrize(
    ("path", "kernel", "count", "capability", "missing"),
    [
        ("native-driver", "tiny", 8, (9, 0), []),
        ("native-driver", "tiny", 8, (7, 5), LADDER),
        ("native-driver", "tiny", GATED_COUNT + 1, (10, 0), ["queued"]),
        ("native-driver", "empty", 4096, (8, 0), ["queued", *LADDER]),
        ("cuda-python", "tiny", 4096, (8, 0), []),
    ],
)
def test_a_mode_that_cannot_be_timed_has_its_reason(
    path: str, kernel: str, count: int, capability: tuple[int, int], missing: list[str]
) -> None:
    modes = modes_of(path, kernel, count, capability)
    assert [mode for mode, reason in modes.items() if reason] == list(missing)
    assert ("fused-memory" in modes) == (path == "native-driver" and kernel == "tiny")
    assert ("queued" in modes) == (path == "native-driver")
    assert all(f"{count:,}" in modes["queued"] for mode in missing if mode == "queued")


def test_placements_are_spread_over_the_pool() -> None:
    places = draw(np.random.default_rng(3), 64 << 20, 400, 25)
    offsets = np.array([place.offset_bytes for place in places])
    assert len(set(offsets)) == 400 and offsets.max() < 64 << 20
    assert np.histogram(offsets, 8, (0, 64 << 20))[0].min() > 25
    full = [place.number for place in places if place.full]
    assert len(full) == 25 and full[0] == 0 and set(np.diff(full)) == {16}
    assert len(draw(np.random.default_rng(3), 1024, 9, 9)) == 9, "more placements than places repeat some"
