"""What the benchmarks compare, and how they count, can be seen without a card."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launchbench.config.model import Config
from launchbench.measure.cards import Card
from launchbench.measure.driver import NoDriverError


def test_every_part_covers_every_n_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    parts = importlib.import_module("native_against_program").PARTS
    assert {name: part.counts for name, part in parts.items()} == dict.fromkeys(
        ("loops", "control", "placements"), Config().launch_counts
    )


@pytest.mark.parametrize(("node_factor", "end"), [(1.0, "met"), (1.1, "not met")])
def test_the_verdicts_are_counted_through_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], node_factor: float, end: str
) -> None:
    """A cell whose studies differ in truth counts as wrong where the same card is compared with itself."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    benchmark, model = importlib.import_module("verdict"), importlib.import_module("interval_coverage")
    drawn: list[int] = []

    def draw(rng: object, count: int, trials: int, factor: float, placements: int) -> Any:
        drawn.append(placements)
        # Each study has four values of N; the first of three is A.
        other = 1.0 if (len(drawn) - 1) // 4 % 3 == 0 else node_factor
        figures = [1.0, 1.001, 1.002]
        return model.Cell(figures, [factor * other * count * one for one in figures], figures)

    monkeypatch.setattr(benchmark, "draw_cell", draw)
    monkeypatch.setattr(sys, "argv", ["verdict.py", "--studies", "2", "--placements", "7"])
    benchmark.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(drawn) == 2 * 3 * 4 and set(drawn) == {7}
    shares = {" ".join(line[:-6]): line[-6:] for line in lines[2:-1]}
    wrong = "0.0%" if end == "met" else "100.0%"
    same, slower = ("100.0%", "0.0%") if end == "met" else ("0.0%", "100.0%")
    assert shares["A against A replay, N >= 64"] == ["6", same, "0.0%", slower, "0.0%", wrong]
    assert shares["nodes 3% slower replay, N >= 64"] == ["6", "0.0%", "0.0%", "100.0%", "0.0%", "0.0%"]
    assert shares["nodes 3% slower loop, host-bound"] == ["8", "100.0%", "0.0%", "0.0%", "0.0%", "0.0%"]
    assert " ".join(lines[-1]).endswith(f"(aim: at most 10%): {end}")


def test_an_interrupted_run_keeps_what_it_has_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    benchmark = importlib.import_module("surroundings")
    answers = iter(['{"0": 1.5, "1": 1.75}', '{"0": 1.25}'])

    def process(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        for answer in answers:
            return subprocess.CompletedProcess(command, 0, answer, "")
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", process)
    monkeypatch.setattr(sys, "argv", ["surroundings.py", "--out", str(tmp_path / "out.json")])
    with pytest.raises(KeyboardInterrupt):
        benchmark.main()
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == [
        {"case": "written before a replay", "after": "0", "us": 1.5},
        {"case": "written before a replay", "after": "1", "us": 1.75},
        {"case": "non-blocking", "after": "0", "us": 1.25},
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_what_a_benchmark_lacks_is_one_line_and_a_simulated_card_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    block = importlib.import_module("block")
    with pytest.raises(SystemExit) as ended:
        block.process(tmp_path)
    assert ended.value.code == f"{tmp_path}: no graphs.fatbin there; `launchbench build` makes build/cuda"
    (tmp_path / "graphs.fatbin").touch()

    def none() -> None:
        raise NoDriverError

    monkeypatch.setattr("launchbench.measure.cards.visible_cards", none)
    with pytest.raises(SystemExit, match=r"^no NVIDIA driver on this machine"):
        block.process(tmp_path)
    card = Card(0, "launchbench virtual H100", "GPU-0", (9, 0), "0000:00:06.0", 132)
    monkeypatch.setattr("launchbench.measure.cards.visible_cards", lambda: [card])
    block.require(tmp_path)
    assert capsys.readouterr().err == f"{card.name}: a simulated GPU, its figures are no measurement\n"


def test_a_process_of_a_benchmark_that_fails_ends_it_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    block = importlib.import_module("block")
    with pytest.raises(SystemExit, match=r"^stopped: exit status 3 of .*'raise SystemExit\(3\)'$"):
        block.output_of([sys.executable, "-c", "raise SystemExit(3)"])
