"""Rules that move an alias when an experiment has ended, and versions that a node makes into a file.

The controller applies both: a rule looks at the checkpoints, registers the best one if the alias should
move to it, and moves the alias once that version is ready. Each step is written down, so whoever leads
next goes on from there.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import exists, or_, select
from sqlalchemy.orm import Session

from muster.wire import decode_number
from muster_models.domain.registry.promotion import (
    AliasHolder,
    Goal,
    PromotionCandidate,
    PromotionDecision,
    decide_promotion,
)
from muster_models.schemas.registry import ModelPromotionOut, PromotionIn, VersionIn
from muster_server.db.engine import touch
from muster_server.db.models import (
    CheckpointRow,
    ExperimentRow,
    ExportRow,
    ModelAliasRow,
    ModelPromotionRow,
    ModelRow,
    ModelVersionRow,
    TrialRow,
)
from muster_server.domain.states import TERMINAL_EXPERIMENT
from muster_server.errors import FieldProblem, InvalidRequest, MusterError, NotFound
from muster_server.schemas.base import Page
from muster_server.security.principal import Principal
from muster_server.services.checkpoints import exports
from muster_server.services.core.callers import Caller
from muster_server.services.core.events import add_event
from muster_server.services.core.lookup import get_experiment
from muster_server.services.core.ownership import require_charge
from muster_server.services.core.paging import read_page
from muster_server.services.core.writes import Outdated
from muster_server.settings import Settings

from . import aliases, within_jobs
from .models import find_model, record, require_model
from .places import MODEL_FILE
from .registration import add_version, checkpoint_draft, fail_version, settle_model

AT_ONCE = 50
"""Rules, and versions, that one pass looks at; the others follow in the next one."""
ASK_AGAIN = dt.timedelta(minutes=1)
"""How long after an attempt a node is asked again whose export has expired."""
_TOKEN = re.compile(r"token:\d+ \((.*)\)")


# ---------------------------------------------------------------- for people


def add_rule(session: Session, name: str, body: PromotionIn, caller: Caller) -> ModelPromotionOut:
    """Add a rule, or replace that of the same experiment and alias. One of an experiment that has
    ended is applied at once. Raises NotFound, Forbidden and InvalidRequest."""
    experiment = get_experiment(session, body.experiment_id, lock=True)
    model = find_model(session, name, lock=True)
    require_model(session, caller.principal, model)
    # The rule will register a checkpoint of it, which is then kept.
    require_charge(session, caller.principal, experiment)
    if body.alias in aliases.RESERVED:
        raise InvalidRequest(
            "models.reserved_alias",
            f"{body.alias!r} is no alias: the newest version is the one with the highest number.",
            fields=[FieldProblem("alias", "must be another name, such as candidate")],
        )
    metric = body.metric or experiment.metric_name
    goal = body.goal or (experiment.metric_goal if metric == experiment.metric_name else None)
    if metric is None:
        raise InvalidRequest(
            "models.no_metric",
            f"Experiment {experiment.id} has no search metric.",
            fields=[FieldProblem("metric", "is needed, and goal with it")],
        )
    if goal is None:
        raise InvalidRequest(
            "models.no_goal",
            f"Whether higher or lower values of {metric} are better is not known.",
            fields=[FieldProblem("goal", "must be min or max")],
        )
    row = session.scalar(
        select(ModelPromotionRow).where(
            ModelPromotionRow.model_id == model.id,
            ModelPromotionRow.experiment_id == experiment.id,
            ModelPromotionRow.alias == body.alias,
        )
    )
    if row is None:
        row = ModelPromotionRow(model_id=model.id, experiment_id=experiment.id, alias=body.alias)
        session.add(row)
    row.metric, row.goal, row.state, row.version_id = metric, goal, "waiting", None
    row.message = f"waits for the end of experiment {experiment.id}"
    row.created_at, row.created_by, row.decided_at = caller.now, caller.principal.actor, None
    session.flush()
    detail = {"experiment": experiment.id, "alias": body.alias, "metric": metric, "goal": goal}
    record(session, caller, "models.promotion_added", model, detail)
    touch(session, "loops")
    return _out(session, row)


def list_rules(
    session: Session, name: str, *, cursor: str | None, limit: int
) -> Page[ModelPromotionOut]:
    """Return one page of a model's rules, newest first. Raises NotFound."""
    model = find_model(session, name)
    query = select(ModelPromotionRow).where(ModelPromotionRow.model_id == model.id)
    rows, following = read_page(
        session, query, ModelPromotionRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    return Page(items=[_out(session, row) for row in rows], next=following)


def delete_rule(session: Session, name: str, rule_id: int, caller: Caller) -> None:
    """Raises NotFound and Forbidden."""
    model = find_model(session, name, lock=True)
    require_model(session, caller.principal, model)
    row = session.get(ModelPromotionRow, rule_id)
    if row is None or row.model_id != model.id:
        raise NotFound("models.no_promotion", f"Model {name} has no rule {rule_id}.")
    detail = {"experiment": row.experiment_id, "alias": row.alias}
    record(session, caller, "models.promotion_deleted", model, detail)
    session.delete(row)


def _out(session: Session, row: ModelPromotionRow) -> ModelPromotionOut:
    version = session.get(ModelVersionRow, row.version_id) if row.version_id else None
    return ModelPromotionOut.from_row(row, version=version.number if version else None)


# ---------------------------------------------------------------- for the controller


@dataclass(frozen=True, kw_only=True)
class PromotionCase:
    """A rule whose experiment has ended, and what it is decided on."""

    rule_id: int
    model: str
    alias: str
    metric: str
    goal: Goal
    candidates: Sequence[PromotionCandidate]
    holder: AliasHolder | None


@dataclass(frozen=True, kw_only=True)
class PromotionStep:
    case: PromotionCase
    decision: PromotionDecision


@dataclass(frozen=True, kw_only=True)
class MadeVersion:
    """A version that waits for a node, or whose node has reported."""

    version_id: int
    export_state: str
    """pending | done | failed, or gone when it has expired; collected for one of outputs."""


ANY_UNFINISHED = or_(
    exists().where(ModelPromotionRow.state == "waiting"),
    exists().where(ModelVersionRow.state == "making"),
)
"""Whether a rule waits, or a version is being made."""


def load_cases(session: Session) -> list[PromotionCase]:
    """Return the rules to decide now: of ended experiments, without a version that is being made."""
    rows = session.execute(
        select(ModelPromotionRow, ModelRow.name)
        .join(ModelRow, ModelRow.id == ModelPromotionRow.model_id)
        .join(ExperimentRow, ExperimentRow.id == ModelPromotionRow.experiment_id)
        .outerjoin(ModelVersionRow, ModelVersionRow.id == ModelPromotionRow.version_id)
        .where(
            ModelPromotionRow.state == "waiting",
            ExperimentRow.state.in_(TERMINAL_EXPERIMENT),
            ExperimentRow.deleting_at.is_(None),
            ModelVersionRow.state.is_distinct_from("making"),
        )
        .order_by(ModelPromotionRow.id)
        .limit(AT_ONCE)
    ).all()
    return [
        PromotionCase(
            rule_id=row.id,
            model=name,
            alias=row.alias,
            metric=row.metric,
            goal="max" if row.goal == "max" else "min",
            candidates=_candidates(session, row),
            holder=_holder(session, row),
        )
        for row, name in rows
    ]


def load_made(session: Session, now: dt.datetime) -> list[MadeVersion]:
    """Return the versions that are being made, of which something is to be done."""
    rows = session.execute(
        select(ModelVersionRow.id, ModelVersionRow.checkpoint_id, ModelVersionRow.updated_at)
        .where(ModelVersionRow.state == "making", ModelVersionRow.source != "outputs")
        .order_by(ModelVersionRow.updated_at, ModelVersionRow.id)
        .limit(AT_ONCE)
    ).all()
    found = []
    for version_id, checkpoint_id, updated_at in rows:
        export = _newest_export(session, checkpoint_id)
        state = export.state if export is not None else "gone"
        is_asked = state == "gone" and updated_at > now - ASK_AGAIN
        if state != "pending" and not is_asked:
            found.append(MadeVersion(version_id=version_id, export_state=state))
    collected = within_jobs.load_collected(session, limit=AT_ONCE)
    return found + [MadeVersion(version_id=n, export_state="collected") for n in collected]


def decide(cases: Sequence[PromotionCase]) -> list[PromotionStep]:
    return [
        PromotionStep(
            case=case,
            decision=decide_promotion(
                case.candidates, case.holder, metric=case.metric, goal=case.goal
            ),
        )
        for case in cases
    ]


def apply_promotion(
    session: Session, step: PromotionStep, *, settings: Settings, now: dt.datetime
) -> None:
    """Carry out a decision: register what the alias should move to, move it, or write down why not.

    Raises Outdated if the rule was changed meanwhile.
    """
    rule = session.get(ModelPromotionRow, step.case.rule_id)
    if rule is None or rule.state != "waiting":
        raise Outdated(f"rule {step.case.rule_id} was decided or deleted")
    # The order in which registration locks them.
    experiment = get_experiment(session, rule.experiment_id, lock=True)
    model = find_model(session, step.case.model, lock=True)
    before, holder = step.case.holder, _holder(session, rule)
    has_moved = (before and before.number) != (holder and holder.number)
    if experiment.state not in TERMINAL_EXPERIMENT or has_moved:
        raise Outdated(f"experiment {experiment.id} or alias {rule.alias} changed")
    decision, caller = step.decision, _on_behalf(rule.created_by, now)
    if decision.outcome != "move":
        state = "kept" if decision.outcome == "keep" else "refused"
        _close(session, model, rule, state, decision.reason, now)
        return
    assert decision.candidate is not None, "an alias moves to something"
    checkpoint_id = decision.candidate.checkpoint_id
    version = session.scalar(
        select(ModelVersionRow)
        .where(
            ModelVersionRow.model_id == model.id,
            ModelVersionRow.checkpoint_id == checkpoint_id,
            # One that failed before this rule may succeed now; its own is not tried for ever.
            (ModelVersionRow.state != "failed") | (ModelVersionRow.id == rule.version_id),
        )
        .order_by(ModelVersionRow.number.desc())
        .limit(1)
    )
    if version is None:
        try:
            # A savepoint: what could not be registered leaves nothing behind.
            with session.begin_nested():
                draft, _ = checkpoint_draft(
                    session, checkpoint_id, VersionIn(checkpoint_id=checkpoint_id), caller
                )
                version = add_version(session, model, draft, caller, settings=settings)
        except MusterError as error:
            _close(session, model, rule, "refused", f"{decision.reason}, but {error.message}", now)
            return
    rule.version_id = version.id
    if version.state == "making":
        rule.message = f"{decision.reason}; version {version.number} is being made"
        touch(session, f"model:{model.name}")
    elif version.state == "failed":
        reason = f"version {version.number} could not be made: {version.message}"
        _close(session, model, rule, "refused", reason, now)
    else:
        by = f"rule {rule.id} of {rule.created_by}"
        aliases.move(session, model, rule.alias, version, caller, by=by, reason=decision.reason)
        _close(session, model, rule, "moved", decision.reason, now)


def apply_made(
    session: Session, made: MadeVersion, *, settings: Settings, now: dt.datetime
) -> None:
    """Settle a version whose node has reported, or ask a node again where the export has expired.

    Raises Outdated if that was done meanwhile.
    """
    if made.export_state == "collected":
        within_jobs.settle(session, made.version_id, now=now)
        return
    version = session.get(ModelVersionRow, made.version_id, with_for_update=True)
    if version is None or version.state != "making":
        raise Outdated(f"version {made.version_id} is made or deleted")
    assert version.checkpoint_id is not None, "only a checkpoint is made into a file"
    export = _newest_export(session, version.checkpoint_id)
    model = session.get_one(ModelRow, version.model_id)
    if export is None:
        caller = _on_behalf(version.created_by, now)
        version.updated_at = now  # The others of a long list come first next time.
        try:
            exports.request(session, version.checkpoint_id, caller, settings=settings)
            version.message = ""
        except MusterError as error:
            version.message = error.message
    elif export.state == "done":
        settle_model(
            session,
            version,
            sha256=export.sha256,
            size_bytes=export.size_bytes or 0,
            path=export.file_name or MODEL_FILE,
            now=now,
        )
    elif export.state == "failed":
        fail_version(session, model, version, export.message, now=now)
    else:
        raise Outdated(f"version {version.id} waits for a node")
    touch(session, "models", f"model:{model.name}", "loops")


def _close(
    session: Session,
    model: ModelRow,
    rule: ModelPromotionRow,
    state: str,
    reason: str,
    now: dt.datetime,
) -> None:
    rule.state, rule.message, rule.decided_at = state, reason, now
    did = {"moved": "moved", "kept": "stays where it is", "refused": "was not moved"}[state]
    add_event(
        session,
        "model.promotion",
        f"Alias {rule.alias} of model {model.name} {did}: {reason}.",
        now=now,
        level="warning" if state == "refused" else "info",
        experiment_id=rule.experiment_id,
        data={"model": model.name, "alias": rule.alias, "state": state},
    )
    touch(session, "models", f"model:{model.name}", f"experiment:{rule.experiment_id}")


def _candidates(session: Session, rule: ModelPromotionRow) -> list[PromotionCandidate]:
    rows = session.execute(
        select(CheckpointRow.id, CheckpointRow.step, CheckpointRow.metrics, TrialRow.no)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(TrialRow.experiment_id == rule.experiment_id, CheckpointRow.state == "complete")
        .order_by(CheckpointRow.id)
    )
    return [
        PromotionCandidate(
            checkpoint_id=row.id,
            trial_no=row.no,
            step=row.step,
            value=decode_number(row.metrics[rule.metric]) if rule.metric in row.metrics else None,
        )
        for row in rows
    ]


def _holder(session: Session, rule: ModelPromotionRow) -> AliasHolder | None:
    version = session.scalar(
        select(ModelVersionRow)
        .join(ModelAliasRow, ModelAliasRow.version_id == ModelVersionRow.id)
        .where(ModelAliasRow.model_id == rule.model_id, ModelAliasRow.name == rule.alias)
    )
    if version is None:
        return None
    has_value = rule.metric in version.metrics
    return AliasHolder(
        number=version.number,
        checkpoint_id=version.checkpoint_id,
        value=decode_number(version.metrics[rule.metric]) if has_value else None,
    )


def _newest_export(session: Session, checkpoint_id: int | None) -> ExportRow | None:
    return session.scalar(
        select(ExportRow)
        .where(ExportRow.checkpoint_id == checkpoint_id)
        .order_by(ExportRow.id.desc())
        .limit(1)
    )


def _on_behalf(actor: str, now: dt.datetime) -> Caller:
    """Return the caller for what the controller does about a rule or version of somebody, who was
    allowed to ask for it."""
    found = _TOKEN.fullmatch(actor)
    name = found[1] if found else actor.removeprefix("user:")
    return Caller(principal=Principal(kind="user", name=name, role="admin"), now=now)
