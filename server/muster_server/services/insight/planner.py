"""Planning a document: memory, bytes and time of its training under each strategy."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.document.strategy_rules import Shape
from muster.document.train_config import TrainConfig
from muster.wire import LayerTable
from muster_server.db.models import (
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    ScalingReportRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.insight.cost_model.collectives import link_bytes
from muster_server.domain.insight.cost_model.fitting import Transfer
from muster_server.domain.insight.cost_model.steps import StepModel, fit_steps, predict
from muster_server.domain.insight.planner.choice import (
    StrategyOption,
    advise,
    alternatives,
    candidate,
)
from muster_server.domain.insight.planner.memory import PlannedTraining
from muster_server.domain.insight.planner.remarks import About, remarks_on
from muster_server.domain.insight.planner.traffic import bubble_share
from muster_server.domain.messages import AnyMessage, Message, Rendered
from muster_server.domain.states import NodeState
from muster_server.schemas.analysis.planner import (
    MemoryOut,
    PlanIn,
    PlannedStrategyOut,
    PlannedTrafficOut,
    PlanOut,
    PlanRemarkOut,
    TrialPlanOut,
)
from muster_server.schemas.analysis.scaling import ScalingEstimateOut
from muster_server.schemas.base import parts_out

from ..core.lookup import get_experiment, get_trial
from ..documents import resolve
from ..experiments.submission import invalid_document
from ..nodes import layer_tables
from ..nodes.layer_tables import LayerTableAnswer, Question, Unknown
from .performance import trial_performance
from .scaling import stored_points

MEASURED_ROWS = 200
REPORTS_MAX = 50
"""Finished scaling reports that are looked through, newest first."""


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """What is planned: what the built-in trainer makes of a document, and the layers of its model."""

    training: TrainConfig
    question: Question
    answer: LayerTableAnswer


def plan(session: Session, body: PlanIn, *, now: dt.datetime) -> tuple[PlanOut, Question | None]:
    """Return what training a document will need, and the question to a node that the plan still
    depends on (None if there is none).

    Raises InvalidRequest for a document that cannot work.
    """
    resolved = resolve(body.document, body.overrides)
    if resolved.config is None:
        raise invalid_document(resolved.problems)
    config = resolved.config
    slot_bytes, source = _slot_memory(session, config)
    if body.slot_memory_bytes is not None:
        slot_bytes, source = body.slot_memory_bytes, "as given"
    try:
        subject = _subject(session, config, _constants(config), body.blob_sha256, now=now)
    except Unknown as error:
        return _unknown(
            config, LayerTableAnswer(table=None, reason=error.reason), slot_bytes, source
        ), None
    answer, training = subject.answer, subject.training
    if answer.table is None:
        out = _unknown(config, answer, slot_bytes, source)
        return out, subject.question if answer.is_to_be_asked else None
    job = job_of(training, answer.table, slots=config.resources.slots)
    jobs = alternatives(job)
    slot_type = config.resources.slot_type
    shape = _shape_of(training)
    found = [candidate(j, slot_bytes=slot_bytes, shape=shape, slot_type=slot_type) for j in jobs]
    figures = _Figures(session, config, training)
    steps = [_step(figures.of(j.options.kind), j, c) for j, c in zip(jobs, found, strict=True)]
    timed = [
        replace(c, step_s=s.value / 1e3 if s is not None else None)
        for c, s in zip(found, steps, strict=True)
    ]
    advice = advise(timed, job, slot_bytes=slot_bytes)
    out = PlanOut(
        known=True,
        is_pending=False,
        reason="",
        reason_parts=[],
        num_params=job.model.num_params,
        flops_per_sample=job.model.flops,
        slots=job.slots,
        global_batch=job.batch_size * job.slots * job.options.accumulate,
        slot_memory_bytes=slot_bytes,
        slot_memory_source=source,
        strategies=[
            _strategy_out(c, s, is_chosen=i == 0)
            for i, (c, s) in enumerate(zip(timed, steps, strict=True))
        ],
        recommended=advice.kind,
        recommended_batch_size=advice.batch_size,
        recommendation=advice.reason,
        time_source=figures.source(job.options.kind),
    )
    return out, None


def of_trial(
    session: Session, trial_id: int, *, now: dt.datetime
) -> tuple[TrialPlanOut, Question | None]:
    """Return the plan for a trial beside the measurements of its ranks over the newest rows of the
    current attempt, and the question to a node that the plan still depends on (None if there is
    none).

    Raises NotFound.
    """
    trial = get_trial(session, trial_id)
    experiment = get_experiment(session, trial.experiment_id)
    config = experiment.config
    expected: dict[str, Any] = dict.fromkeys(("memory", "bytes_per_step", "step_ms"))
    reason: AnyMessage | None = None
    is_pending, time_source = False, ""
    wanted, job = None, None
    try:
        subject = _subject(session, config, trial.hparams, experiment.blob_sha256, now=now)
    except Unknown as error:
        reason = error.reason
    else:
        answer, training = subject.answer, subject.training
        reason, is_pending = answer.reason, answer.is_pending
        wanted = subject.question if answer.is_to_be_asked else None
        if answer.table is not None:
            job = job_of(training, answer.table, slots=config.resources.slots)
            slot_type = config.resources.slot_type
            shape = _shape_of(training)
            found = candidate(job, slot_bytes=None, shape=shape, slot_type=slot_type)
            figures = _Figures(session, config, training)
            time_source = figures.source(job.options.kind)
            step = _step(figures.of(job.options.kind), job, found)
            planned = _strategy_out(found, step, is_chosen=True)
            expected = {
                "memory": planned.memory,
                "bytes_per_step": sum(t.num_bytes for t in planned.traffic),
                "step_ms": planned.step_ms,
            }
            reason = Rendered(found.problem) if found.problem else None
    measured = _measured(session, trial)
    remarks = (
        () if job is None else remarks_on(_pairs(expected, measured), job, measured["num_rows"])
    )
    out = TrialPlanOut(
        trial_id=trial_id,
        known=reason is None,
        is_pending=is_pending,
        reason=reason.english if reason is not None else "",
        reason_parts=parts_out(reason),
        strategy=config.strategy.kind if config.trainer is not None else "",
        time_source=time_source,
        remarks=[
            PlanRemarkOut(
                about=r.about, ratio=r.ratio, text=r.text.english, parts=parts_out(r.text)
            )
            for r in remarks
        ],
        **expected,
        **measured,
    )
    return out, wanted


def _pairs(
    expected: Mapping[str, Any], measured: Mapping[str, Any]
) -> dict[About, tuple[float, float]]:
    """(expected, measured) of what has both."""
    memory, step = expected["memory"], expected["step_ms"]
    both: dict[About, tuple[float | None, float | None]] = {
        "memory": (memory.total if memory else None, measured["measured_memory_bytes"]),
        "bytes": (expected["bytes_per_step"], measured["measured_bytes_per_step"]),
        "step": (step.value if step else None, measured["measured_step_ms"]),
    }
    return {k: (e, m) for k, (e, m) in both.items() if e is not None and m}


def _measured(session: Session, trial: TrialRow) -> dict[str, Any]:
    latest = session.scalars(
        select(WorkerRow.latest).where(
            WorkerRow.trial_id == trial.id, WorkerRow.attempt_no == trial.attempt_no
        )
    ).all()

    def most(name: str) -> float | None:
        values = [v for row in latest if isinstance(v := row.get(name), int | float)]
        return max(values, default=None)

    found = trial_performance(session, trial.id, attempt_no=None, num_rows=MEASURED_ROWS)
    sent: dict[int, float] = {}
    for traffic in found.traffic:
        for rank in traffic.ranks:
            sent[rank] = sent.get(rank, 0.0) + traffic.num_bytes
    return {
        "measured_memory_bytes": most("memory/peak_bytes"),
        "measured_rss_bytes": most("memory/rss_peak_bytes"),
        "measured_bytes_per_step": max(sent.values(), default=None),
        "measured_step_ms": max((r.step_ms for r in found.ranks), default=None),
        "num_rows": min((r.num_rows for r in found.ranks), default=0),
    }


def _subject(
    session: Session,
    config: ExperimentConfig,
    hparams: Mapping[str, Any],
    blob_sha256: str | None,
    *,
    now: dt.datetime,
) -> _Subject:
    """Raises Unknown."""
    training = layer_tables.training_of(config, hparams)
    if training.finds_batch_size:
        raise Unknown(Message("plan.batch_auto"))
    question = layer_tables.question_of(config, training, blob_sha256=blob_sha256)
    answer = layer_tables.look_up(session, question, now=now)
    return _Subject(training=training, question=question, answer=answer)


def job_of(training: TrainConfig, table: LayerTable, *, slots: int) -> PlannedTraining:
    """Return the facts about a training that the strategies' formulas need."""
    return PlannedTraining(
        model=table,
        options=training.strategy,
        slots=slots,
        batch_size=training.batch_size,
        optimizer=training.optimizer,
        momentum=training.momentum,
    )


def _shape_of(training: TrainConfig) -> Shape:
    return Shape(model=training.model, depth=training.depth, heads=training.heads)


def _constants(config: ExperimentConfig) -> dict[str, Any]:
    """Hyperparameters with one value; of a space the document's own setting counts."""
    return {k: v for k, v in config.hyperparameters.items() if not isinstance(v, Mapping)}


def _slot_memory(session: Session, config: ExperimentConfig) -> tuple[int | None, str]:
    resources = config.resources
    query = (
        select(NodeRow.name, NodeRow.inventory, NodeSlotRow.device)
        .join(NodeSlotRow, NodeSlotRow.node_id == NodeRow.id)
        .where(
            NodeRow.pool == resources.pool,
            NodeRow.state != NodeState.REMOVED,
            NodeSlotRow.slot_type == resources.slot_type,
            NodeSlotRow.is_gone.is_(False),
        )
    )
    slots: dict[str, list[int]] = {}
    whole: dict[str, int] = {}
    for name, inventory, device in session.execute(query):
        slots.setdefault(name, []).append(int((device or {}).get("memory_bytes") or 0))
        whole[name] = int((inventory or {}).get("memory_bytes") or 0)
    if resources.slot_type == "cpu":  # the slots of a machine share its memory
        has = {name: whole[name] // len(found) for name, found in slots.items()}
    else:
        has = {name: min(found) for name, found in slots.items()}
    known = {name: size for name, size in has.items() if size > 0}
    if not known:
        return None, (
            f"no node of the pool {resources.pool} says what memory its {resources.slot_type} "
            "slots have"
        )
    least = min(known, key=lambda name: (known[name], name))
    how = "its memory over its slots" if resources.slot_type == "cpu" else "of its devices"
    return known[least], f"node {least}, {how}"


# ---------------------------------------------------------------- time


class _Figures:
    """Cost models from scaling reports of the same model on the same kind of slots: the newest of a
    strategy, which knows what its collectives cost besides their bytes, else the newest of any."""

    def __init__(self, session: Session, config: ExperimentConfig, training: TrainConfig) -> None:
        self._newest: dict[str, tuple[ScalingReportRow, ExperimentRow]] = {}
        """Strategy → report; "": of any."""
        self._fitted: dict[int, StepModel] = {}
        rows = session.execute(
            select(ScalingReportRow, ExperimentRow)
            .join(ExperimentRow, ExperimentRow.id == ScalingReportRow.experiment_id)
            .where(ScalingReportRow.state == "done", ExperimentRow.deleting_at.is_(None))
            .order_by(ScalingReportRow.id.desc())
            .limit(REPORTS_MAX)
        )
        for report, experiment in rows:
            if _is_alike(experiment.config, config, training):
                self._newest.setdefault(experiment.config.strategy.kind, (report, experiment))
                self._newest.setdefault("", (report, experiment))

    def of(self, kind: str) -> StepModel | None:
        found = self._newest.get(kind) or self._newest.get("")
        if found is None:
            return None
        report, _ = found
        if report.id not in self._fitted:
            runs = [p.run for p in stored_points(report) if p.run is not None]
            self._fitted[report.id] = fit_steps(runs)
        return self._fitted[report.id]

    def source(self, kind: str) -> str:
        """In a sentence, where its step times are from."""
        found = self._newest.get(kind) or self._newest.get("")
        if found is None:
            return (
                "No step-time estimate yet: there is no scaling report for this model on these slots. "
                "Create one with `muster scaling EXPERIMENT --slots 1,2`."
            )
        report, experiment = found
        theirs = experiment.config.strategy.kind
        num = sum(p.run is not None for p in stored_points(report))
        return (
            f"Step times are from scaling report {report.id} of experiment {experiment.id} ({theirs}, "
            f"{num} runs): its computing and its network, with the bytes of each strategy."
        )


def _is_alike(theirs: ExperimentConfig, config: ExperimentConfig, training: TrainConfig) -> bool:
    """Return whether another experiment's compute and network measurements apply to this
    document."""
    try:
        other = layer_tables.training_of(theirs, _constants(theirs))
    except Unknown:
        return False
    return (
        theirs.resources.pool == config.resources.pool
        and theirs.resources.slot_type == config.resources.slot_type
        and theirs.strategy.precision == config.strategy.precision
        and theirs.strategy.recompute == config.strategy.recompute
        and all(getattr(other, k) == getattr(training, k) for k in layer_tables.MODEL_SETTINGS)
    )


def _step(
    figures: StepModel | None, job: PlannedTraining, found: StrategyOption
) -> ScalingEstimateOut | None:
    if figures is None or found.memory is None:
        return None
    pattern = tuple(
        Transfer(kind=t.moved_as, size=t.size, count=t.count, num_bytes=t.num_bytes, transfer_s=0.0)
        for t in found.traffic
    )
    on_link = [link_bytes(t.moved_as, t.size, t.num_bytes) for t in found.traffic]
    could_hide = sum(n for n, t in zip(on_link, found.traffic, strict=True) if t.is_hidden)
    at = replace(
        figures,
        pattern=pattern,
        largest=job.slots,
        hidden_share=figures.hidden_share * could_hide / (sum(on_link) or 1.0),
    )
    samples = job.batch_size * job.options.accumulate
    prediction = predict(at, size=job.slots, samples=samples)
    if prediction is None:
        return None
    bubble_s = bubble_share(job) * prediction.compute_s
    low, high = prediction.step_s.low + bubble_s, prediction.step_s.high + bubble_s
    return ScalingEstimateOut(
        value=(prediction.step_s.value + bubble_s) * 1e3,
        low=None if math.isinf(low) else low * 1e3,
        high=None if math.isinf(high) else high * 1e3,
        n=prediction.step_s.n,
    )


# ---------------------------------------------------------------- answers


def _strategy_out(
    found: StrategyOption, step: ScalingEstimateOut | None, *, is_chosen: bool
) -> PlannedStrategyOut:
    memory = found.memory
    return PlannedStrategyOut.from_row(
        found,
        is_chosen=is_chosen,
        memory=None if memory is None else MemoryOut(**asdict(memory), total=memory.total),
        traffic=[PlannedTrafficOut.from_row(t) for t in found.traffic],
        step_ms=step,
    )


def _unknown(
    config: ExperimentConfig, answer: LayerTableAnswer, slot_bytes: int | None, source: str
) -> PlanOut:
    return PlanOut(
        known=False,
        is_pending=answer.is_pending,
        reason=answer.reason.english if answer.reason is not None else "",
        reason_parts=parts_out(answer.reason),
        num_params=None,
        flops_per_sample=None,
        slots=config.resources.slots,
        global_batch=None,
        slot_memory_bytes=slot_bytes,
        slot_memory_source=source,
        strategies=[],
        recommended=None,
        recommended_batch_size=None,
        recommendation="",
        time_source="",
    )
