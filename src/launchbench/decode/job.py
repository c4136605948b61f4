"""The decode job of one card: choose it, run the step if PyTorch can, predict, check, time, file everything."""

from __future__ import annotations

import platform
import secrets
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from launchbench.config.model import Config
from launchbench.decode import unable
from launchbench.decode.predict import predict
from launchbench.decode.stored import stored_costs
from launchbench.errors import LaunchbenchError
from launchbench.measure import nvml, provenance
from launchbench.measure.cards import Card, choose, told_if_simulated, visible_cards
from launchbench.measure.extra import Request, shared_fields
from launchbench.measure.host import cpu_cores
from launchbench.measure.job import strangers_on
from launchbench.measure.kernels import become_current
from launchbench.measure.lock import card_lock, core_lock
from launchbench.results import flags
from launchbench.results.decode import DecodePoint, DecodeProtocol, LeftOutPoint, Prediction, Torch
from launchbench.results.decode_columns import DECODE_REPETITIONS
from launchbench.results.decode_files import DECODE
from launchbench.results.decode_words import KIND
from launchbench.results.extra_files import write_repetitions
from launchbench.results.record import DeviceState, utc_text
from launchbench.sources import DECODE_MODULES

if TYPE_CHECKING:
    from launchbench.decode.bench import Bench

PROTOCOL = DecodeProtocol(
    layers=28,
    head_width=64,
    context=256,
    vocabulary=1024,
    points=[(batch, width) for width in (512, 1024, 2048) for batch in (1, 8, 64, 256)],
    tokens=4,
    checked_tokens=8,
    tolerance=1e-4,
    warmup_rounds=3,
    repetitions=40,
    least_repetitions=7,
    limit_s=4.0,
)
"""Twelve points of at most some seconds each; the first one has the launches that the exercise sheet counts."""


@dataclass
class _Ran:
    """What came of it."""

    not_run: str | None = None
    torch: Torch | None = None
    points: list[DecodePoint] = field(default_factory=list)
    left_out: list[LeftOutPoint] = field(default_factory=list)
    prediction: Prediction | None = None
    prediction_reason: str | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)


def run(request: Request, config: Config) -> Path:
    """Do it and file the result. Where PyTorch cannot run on the card, the record says why and nothing fails.

    Returns:
        Path of the new record.

    Raises:
        LaunchbenchError: no driver, not the card that was asked for, a CUDA call failed, eager and graph disagree at
            the first point, or the results cannot be written; nothing is written then.
    """
    cards = visible_cards()
    provenance.read_manifest(request.binaries)
    card = choose(cards, config, request.label, request.card)
    with (
        told_if_simulated(card),
        card_lock(card.uuid),
        core_lock(cpu_cores()),
        nvml.session(card.uuid) as session,
    ):
        started = datetime.now(UTC)
        strangers = strangers_on(card, session, request.label, config)
        become_current(card)
        session.learn_own_pid(strangers)
        seed = secrets.randbits(53)
        before = session.state()
        try:
            ran = _run(card, session, Path(config.results_dir), seed)
        except RuntimeError as error:  # what PyTorch raises, errors of CUDA among them
            raise LaunchbenchError(f"decode: PyTorch failed: {' '.join(str(error).split())[:400]}") from error
        fields: dict[str, Any] = {
            **shared_fields(KIND, request, card, session, started, DECODE_MODULES),
            "before": before,
            "after": session.state(),
            "not_run": ran.not_run,
            "seed": seed,
            "torch": ran.torch,
            "points": ran.points,
            "left_out": ran.left_out,
            "prediction": ran.prediction,
            "prediction_reason": ran.prediction_reason,
            "protocol": PROTOCOL,
        }
    rows = pd.DataFrame(ran.rows, columns=[column.name for column in DECODE_REPETITIONS])
    return write_repetitions(DECODE, Path(config.results_dir), fields, rows)


def _run(card: Card, session: nvml.Nvml, results_dir: Path, seed: int) -> _Ran:
    reason = unable() or ("a simulated GPU runs no kernels of PyTorch" if card.is_virtual else "")
    if not reason:
        from launchbench.decode import bench

        reason = bench.settle_on(card.index, card.uuid)
    if reason:
        _tell(f"not run: {reason}")
        return _Ran(not_run=reason)
    import torch

    ran = _Ran(torch=bench.torch_facts())
    rng, begun_ns = np.random.default_rng(seed), time.perf_counter_ns()
    with torch.no_grad():
        for batch, width in PROTOCOL.points:
            try:
                made = bench.Bench(PROTOCOL, batch, width, seed)
                made.check()
                if (batch, width) == PROTOCOL.points[0]:
                    _predict(ran, made, card, results_dir)
                before = session.state()
                rows = made.rows(rng, begun_ns)
            except (bench.UnfitError, torch.cuda.OutOfMemoryError) as error:
                text = " ".join(str(error).split())[:300]
                if (batch, width) == PROTOCOL.points[0]:
                    raise LaunchbenchError(f"decode: {text}: nothing was written") from error
                ran.left_out.append(LeftOutPoint(batch=batch, width=width, reason=text))
                _tell(f"batch {batch}, width {width}: left out: {text}")
            else:
                ran.points.append(_point(made, before, session.state()))
                ran.rows += rows
                _say(ran.points[-1], rows)
                del made
            bench.release()
    return ran


def _point(made: Bench, before: DeviceState, after: DeviceState) -> DecodePoint:
    return DecodePoint(
        batch=made.shape.batch,
        width=made.shape.width,
        launches=made.counted.launches,
        nodes=made.counted.nodes,
        launches_reason=made.counted.reason,
        largest_difference=made.largest_difference,
        largest_logit=made.largest_logit,
        before=before,
        after=after,
    )


def _predict(ran: _Ran, made: Bench, card: Card, results_dir: Path) -> None:
    """From the step's parts, which are timed here, and from what launch jobs on this card have stored."""
    if made.counted.launches is None:
        ran.prediction_reason = made.counted.reason
        return
    stored = stored_costs(results_dir, card.uuid, platform.node() or "unknown")
    known = None if isinstance(stored, str) else stored
    ran.prediction_reason = stored if isinstance(stored, str) else None
    parts = made.parts()
    made.model.restart()
    found = predict(made.counted.launches, parts, known)
    ran.prediction = Prediction(
        made_utc=utc_text(datetime.now(UTC)),
        launches=made.counted.launches,
        parts=parts,
        stored=known,
        **vars(found),
    )
    _tell(
        f"predicted before it is timed: eager {found.eager_us:.0f} us, graph {found.graph_us:.0f} us, speed-up "
        f"{found.eager_us / found.graph_us:.2f}, {made.counted.launches} launches"
    )


def _say(point: DecodePoint, rows: list[dict[str, Any]]) -> None:
    frame = pd.DataFrame(rows)
    for reason, count in pd.Series(flags.row_reasons(frame)).value_counts().items():
        if reason:
            _tell(f"warning: {count} of {len(frame)} timings will not be used: {reason}")
    for reason in flags.state_reasons(point.before, point.after):
        _tell(f"warning: nothing at batch {point.batch}, width {point.width} will be used: {reason}")
    eager, graph = (
        (frame.loc[frame["mode"] == mode, "gpu_us"] / frame["tokens"]).median() for mode in ("eager", "graph")
    )
    _tell(
        f"batch {point.batch}, width {point.width}: {point.launches or 'uncounted'} launches, eager {eager:.0f} us, "
        f"graph {graph:.0f} us a token, speed-up {eager / graph:.2f}"
    )


def _tell(line: str) -> None:
    print(f"decode: {line}", file=sys.stderr, flush=True)
