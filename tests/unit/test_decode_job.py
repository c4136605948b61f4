"""The decode job: on a virtual card, where it is not run; its order with a bench that is made up; stored costs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml

import launchbench.decode
from launchbench.decode import job, nodes
from launchbench.decode.predict import predict
from launchbench.decode.stored import stored_costs
from launchbench.errors import LaunchbenchError
from launchbench.measure.cards import Card
from launchbench.results.decode import StepPart, StoredCosts, Torch
from launchbench.results.decode_files import DECODE
from launchbench.results.extra_files import files_of, read_extras
from launchbench.results.record import DeviceState
from tests.unit.fabricate import CostModel, uuid, write_job
from tests.virtual_gpu import H100, VirtualGpu
from tests.virtual_gpu.jobs import Jobs

UUID = "GPU-12345678-1234-1234-1234-123456789abc"
CARD = replace(H100, uuid=UUID)


def test_without_pytorch_the_job_ends_well_and_says_so(virtual_gpu: VirtualGpu, binaries: Path, tmp_path: Path) -> None:
    settings = {"site": "lab", "results_dir": "sim", "virtual_results": "allow"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    environment = virtual_gpu.environment([CARD], [])
    named = ("--label", "h100", "--receipt", "receipt.json", "--binaries", str(binaries))
    with Jobs(environment) as jobs:
        ended = jobs.run(environment, tmp_path, "decode", *named)
    assert ended.status == 0 and ended.said == [], ended.err
    [result], problems = read_extras(DECODE, tmp_path / "sim")
    record = result.record
    assert problems == [] and record.not_run and record.not_run.startswith("PyTorch ")
    assert f"decode: not run: {record.not_run}" in ended.err.splitlines()
    assert record.device.uuid == UUID and record.device.virtual and record.points == [] and result.table.empty
    assert record.protocol == job.PROTOCOL
    sizes = json.loads((tmp_path / "receipt.json").read_text())["size_bytes"]
    assert set(sizes) == {str(file.relative_to(tmp_path / "sim")) for file in files_of(DECODE, result.path)}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            "OSError('libcudart.so.13: cannot open\\nshared object file')",
            "OSError: libcudart.so.13: cannot open shared ",
        ),
        ("AttributeError('_ARRAY_API not found')", "AttributeError: _ARRAY_API not found"),
    ],
)
def test_a_pytorch_that_cannot_be_loaded_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: str, told: str
) -> None:
    (tmp_path / "torch.py").write_text(f"raise {error}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert launchbench.decode.unable().startswith(f"PyTorch cannot be loaded: {told}")


# ---------------------------------------------------------------- the order of things


class Unfit(Exception):
    pass


class Full(RuntimeError):
    pass


class FakeBench:
    """Notes what is asked of it, in ``log``."""

    log: list[Any] = []  # noqa: RUF012
    unfit: tuple[int, int] | None = None

    def __init__(self, protocol: Any, batch: int, width: int, seed: int) -> None:
        if (batch, width) == (256, 2048):
            raise Full("CUDA out of memory.\nTried")
        self.shape = SimpleNamespace(batch=batch, width=width)
        self.counted = SimpleNamespace(launches=480, nodes={"kernel": 480}, reason=None)
        self.largest_difference, self.largest_logit = 0.0, 1.0
        self.model = SimpleNamespace(restart=lambda: self.log.append("restart"))

    def check(self) -> None:
        self.log.append("check")
        if (self.shape.batch, self.shape.width) == self.unfit:
            raise Unfit("logits of eager and graph differ")

    def parts(self) -> list[StepPart]:
        self.log.append("parts")
        return [StepPart(name="all", launches=240, host_us=2000, alone_us=1500, device_us=500)]

    def rows(self, rng: Any, begun_ns: int) -> list[dict[str, Any]]:
        self.log.append("rows")
        place = {"batch": self.shape.batch, "width": self.shape.width, "repetition": 0, "tokens": 4, "start_us": 0.0}
        return [
            {**place, "mode": mode, "order": order, "gpu_us": 400.0, "issue_us": 300.0, "total_us": 410.0}
            for order, mode in enumerate(("eager", "graph"))
        ]


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeBench]]:
    torch = ModuleType("torch")
    torch.no_grad = contextlib.nullcontext  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(OutOfMemoryError=Full)  # type: ignore[attr-defined]
    bench = ModuleType("launchbench.decode.bench")
    facts = Torch(version="2.99", architectures=[])
    functions = {"settle_on": lambda *_: "", "torch_facts": lambda: facts, "release": lambda: None}
    vars(bench).update(Bench=FakeBench, UnfitError=Unfit, **functions)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "launchbench.decode.bench", bench)
    monkeypatch.setattr(launchbench.decode, "bench", bench, raising=False)
    monkeypatch.setattr(job, "unable", lambda: "")
    monkeypatch.setattr(FakeBench, "log", [])
    monkeypatch.setattr(FakeBench, "unfit", None)
    yield FakeBench


def ran(base: Path) -> Any:
    card = Card(0, "Some card", uuid(0), (9, 0), "0000:01:00.0", 100)
    session = SimpleNamespace(state=lambda: DeviceState(taken_utc="2026-01-01T00:00:00.000000Z"))
    return job._run(card, session, base, 7)  # type: ignore[arg-type]


def test_the_step_is_checked_then_predicted_then_timed(faked: type[FakeBench], tmp_path: Path) -> None:
    done = ran(tmp_path)
    assert faked.log[:6] == ["check", "parts", "restart", "rows", "check", "rows"]
    assert faked.log.count("parts") == 1 and len(done.rows) == 2 * len(done.points)
    assert done.prediction.eager_us == 4000 and done.prediction.graph_us == 1000
    assert done.prediction.stored is None and "no launch job" in done.prediction_reason
    assert [(one.batch, one.width, one.reason) for one in done.left_out] == [(256, 2048, "CUDA out of memory. Tried")]
    assert len(done.points) == len(job.PROTOCOL.points) - 1


def test_a_point_whose_logits_differ_is_not_timed(faked: type[FakeBench], tmp_path: Path) -> None:
    faked.unfit = (64, 512)
    done = ran(tmp_path)
    assert [(one.batch, one.width) for one in done.left_out] == [(64, 512), (256, 2048)]
    assert {(row["batch"], row["width"]) for row in done.rows} == {(one.batch, one.width) for one in done.points}


def test_a_first_point_whose_logits_differ_ends_the_job(faked: type[FakeBench], tmp_path: Path) -> None:
    faked.unfit = job.PROTOCOL.points[0]
    with pytest.raises(LaunchbenchError, match=r"^decode: logits .* differ: nothing was written$"):
        ran(tmp_path)
    assert faked.log == ["check"]


def test_the_sweep_is_bounded() -> None:
    points = job.PROTOCOL.points
    assert points[0] == (1, 512) and len(points) == len(set(points)) == 12 and job.PROTOCOL.limit_s <= 5
    assert all(width % job.PROTOCOL.head_width == 0 for _, width in points)


def test_launches_are_the_kernel_nodes_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings.driver import CUgraphNodeType

    kernel, copy = CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL, CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY
    kinds = [kernel, copy, kernel, kernel]

    def call(name: str, what: Any, most: int = 0) -> Any:
        if name == "cuGraphNodeGetType":
            return kinds[what]
        assert (name, int(what)) == ("cuGraphGetNodes", 4711)
        return list(range(most)), len(kinds)

    monkeypatch.setattr(nodes, "call", call)
    assert nodes.count_nodes(4711) == nodes.Counted(3, {"kernel": 3, "memcpy": 1})
    kinds.clear()
    assert nodes.count_nodes(4711) == nodes.Counted(0, {})


# ---------------------------------------------------------------- the prediction


PARTS = [
    StepPart(name="one", launches=100, host_us=900.0, alone_us=800.0, device_us=200.0),
    StepPart(name="two", launches=300, host_us=1500.0, alone_us=1200.0, device_us=400.0),
    StepPart(name="views", launches=0, host_us=240.0, alone_us=200.0, device_us=0.0),
]
STORED = StoredCosts(
    run_id="x",
    launch_path="cuda-python",
    kernel="empty",
    launch_count=512,
    issue_us=5,
    node_us=0.5,
    queued_us=1.75,
)


def test_the_prediction_is_the_sum_of_the_parts_at_the_pace_of_the_slower() -> None:
    found = predict(480, PARTS, STORED)  # 480 launches, 400 of them in parts
    assert found.host_us == pytest.approx(1.2 * 2640) and found.graph_us == pytest.approx(1.2 * 600)
    assert found.device_us == pytest.approx(720 + 480 * 1.25) and found.eager_us == found.host_us
    assert (found.bare_eager_us, found.bare_graph_us) == (2400, 240)
    slow = [part.model_copy(update={"device_us": 20 * part.device_us}) for part in PARTS]
    assert predict(480, slow, STORED).eager_us == pytest.approx(14_400 + 600)


def test_without_stored_costs_a_queued_launch_costs_what_a_node_does() -> None:
    found = predict(400, PARTS, None)
    assert found.device_us == found.graph_us == 600
    assert found.bare_eager_us is found.bare_graph_us is None
    with pytest.raises(ValueError, match="no launch"):
        predict(400, PARTS[2:], None)


def test_stored_costs_are_those_of_the_newest_job_of_this_card_and_host(tmp_path: Path) -> None:
    for run in (0, 1):
        write_job(tmp_path, 512, run=run, modes=["queued"])
    write_job(tmp_path, 64, run=2)
    write_job(tmp_path, 512, run=3, card=1)
    write_job(tmp_path, 512, run=4, hostname="other")
    write_job(tmp_path, 4096, run=5)
    costs = stored_costs(tmp_path, uuid(0), "bench-host")
    assert isinstance(costs, StoredCosts)
    assert (costs.launch_path, costs.kernel, costs.launch_count) == ("cuda-python", "empty", 512)
    record = next(path for path in tmp_path.rglob(f"{costs.run_id}.json"))
    assert json.loads(record.read_text())["started_utc"].startswith("2026-01-02T04:")
    assert costs.issue_us > 4 * costs.node_us > 0
    # The device's pace is that of the one path with all modes, whoever issues: the host's is of a Python program.
    raw = pd.read_csv(record.with_suffix(".csv"))
    raw = raw[raw["kernel"] == "empty"]
    loop = raw[(raw["launch_path"] == "cuda-python") & (raw["mode"] == "loop")]
    assert costs.issue_us == pytest.approx((loop["issue_us"] / 512).median())
    native = raw[raw["launch_path"] == "native-driver"].groupby("mode")["gpu_us"].median() / 512
    assert (costs.node_us, costs.queued_us) == pytest.approx((native["replay"], native["queued"]))


def test_why_there_are_no_stored_costs(tmp_path: Path) -> None:
    nothing = "no launch job with N up to 512 on this card and host is among the results"
    assert stored_costs(tmp_path, uuid(0), "bench-host") == nothing
    path = write_job(tmp_path, 512, model=CostModel())
    assert stored_costs(tmp_path, uuid(0), "elsewhere") == nothing
    path.with_suffix(".csv").write_text("cut")
    told = stored_costs(tmp_path, uuid(0), "bench-host")
    assert told == "no repetition of the launch jobs on this card and host can be used"
