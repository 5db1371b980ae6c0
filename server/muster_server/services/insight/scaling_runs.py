"""What a run measured, as the cost model takes it."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.insight.cost_model.collectives import BACKENDS, KINDS, moved_as
from muster_server.domain.insight.cost_model.fitting import Transfer
from muster_server.domain.insight.cost_model.steps import MeasuredRun
from muster_server.domain.insight.step_traffic import KindTraffic
from muster_server.domain.insight.steps import RankSteps

from .performance import trial_performance

_TIMED = re.compile(r"network/(?P<kind>[a-z_]+)/(?P<bytes>\d{1,12})/ms", re.ASCII)


def run_of(
    session: Session, experiment: ExperimentRow, trial: TrialRow, *, num_rows: int
) -> MeasuredRun | None:
    """Means over the newest `num_rows` rows of each worker of a trial's current attempt; None when
    it measured no steps or says nothing of its samples."""
    found = trial_performance(session, trial.id, attempt_no=None, num_rows=num_rows)
    ranks = found.ranks
    if not ranks:
        return None
    step_s = statistics.fmean(r.step_ms for r in ranks) / 1e3
    size = found.num_ranks
    samples = _samples_per_step(experiment, trial, found.figures, step_s)
    if samples is None or step_s <= 0:
        return None
    exposed = _mean(ranks, "comm/exposed_ms")
    backend = BACKENDS.get(experiment.config.resources.slot_type, "nccl")
    waits = [min(r.wait_ms or 0.0, r.parts.get("comm/exposed_ms", 0.0)) for r in ranks]
    return MeasuredRun(
        size=size,
        samples=samples / size,
        step_s=step_s,
        compute_s=_mean(ranks, "time/forward_ms", "time/backward_ms"),
        optimizer_s=_mean(ranks, "time/optimizer_ms"),
        data_s=_mean(ranks, "time/data_wait_ms", "time/host_to_device_ms"),
        exposed_s=exposed,
        hidden_s=statistics.fmean(r.overlapped_ms or 0.0 for r in ranks) / 1e3,
        wait_s=statistics.fmean(waits) / 1e3,
        other_s=_mean(
            ranks, "time/no_grad_ms", "time/checkpoint_ms", "time/other_ms", "pipeline/bubble_ms"
        ),
        transfers=tuple(t for of in found.traffic if (t := transfer_of(of, backend=backend))),
        num_steps=min(r.num_rows for r in ranks),
        timed=timed(trial.summary, size=size, backend=backend),
        link_mbit_per_s=_told(trial.summary, "network/link_mbit_per_s"),
        is_loopback=_told(trial.summary, "network/is_loopback") is not None,
        mtu_bytes=_told(trial.summary, "network/mtu_bytes"),
    )


def _told(summary: Mapping[str, Any], name: str) -> float | None:
    """Return a positive value that a worker reported of its network; None without one."""
    value = summary.get(name, {}).get("last")
    return float(value) if isinstance(value, int | float) and value > 0 else None


def timed(summary: Mapping[str, Any], *, size: int, backend: str) -> tuple[Transfer, ...]:
    """Return the network timings of the workers, found by the trainer's metric names such as
    "network/all_gather/65536/ms"."""
    found = []
    for name, entry in summary.items():
        match = _TIMED.fullmatch(name)
        if match is None or match["kind"] not in KINDS:
            continue
        kind, value = moved_as(match["kind"], backend), entry.get("last")
        if isinstance(value, int | float) and value > 0 and size > 1:
            found.append(
                Transfer(
                    kind=kind, size=size, count=1.0, num_bytes=float(match["bytes"]),
                    transfer_s=value / 1e3,
                )
            )  # fmt: skip
    return tuple(found)


def transfer_of(traffic: KindTraffic, *, backend: str) -> Transfer | None:
    """Return the traffic as the cost model counts it; None if the model has no formula for it."""
    if traffic.kind not in KINDS or len(traffic.ranks) < 2:
        return None
    moved_ms = traffic.transfer_ms if traffic.transfer_ms is not None else traffic.time_ms
    if moved_ms is None:
        return None
    return Transfer(
        kind=moved_as(traffic.kind, backend),
        size=len(traffic.ranks),
        count=traffic.count,
        num_bytes=traffic.num_bytes,
        transfer_s=moved_ms / 1e3,
    )


def _mean(ranks: list[RankSteps], *parts: str) -> float:
    return statistics.fmean(sum(r.parts.get(p, 0.0) for p in parts) for r in ranks) / 1e3


def _samples_per_step(
    experiment: ExperimentRow, trial: TrialRow, figures: Mapping[str, float], step_s: float
) -> float | None:
    """Return the number of samples per step of all workers together; None if it is unknown.

    For the built-in trainer it follows from the document, for a script from the throughput it
    reports.
    """
    config = experiment.config
    if config.trainer is not None:
        batch = trial.hparams.get("batch_size", config.trainer.batch_size)
        whole: float = batch * config.resources.slots * config.strategy.accumulate
        return whole
    rate = figures.get("throughput/samples_per_s")
    return None if rate is None else rate * step_s
