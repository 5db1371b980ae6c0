"""What can be done with experiments: submit, change, stop, archive, delete."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import (
    BlobRow,
    EventRow,
    ExperimentRow,
    IdempotencyRow,
    MetricBatchRow,
    ProjectRow,
    SearchEventRow,
    TrialRow,
)
from muster_server.domain.search import Searcher, Started, action_to_json, event_to_json
from muster_server.domain.states import TERMINAL_EXPERIMENT, TERMINAL_TRIAL, ExperimentState
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.experiments import ExperimentIn, ExperimentPatch

from . import blobs
from .documents import Resolved, check_entry_file, resolve, search_spec
from .events import add_event
from .search import carry_out

MAX_LABELS = 64


@dataclass(frozen=True)
class Submission:
    experiment_id: int
    is_new: bool
    """False: a repetition, answered with what the first request made."""


def resolve_submission(session: Session, body: ExperimentIn) -> Resolved:
    """The document of a submission, checked together with its code bundle."""
    resolved = resolve(body.document, body.overrides)
    if resolved.config is None:
        return resolved
    problem = _check_code(session, resolved.config, body.blob_sha256)
    return Resolved(problems=(problem,)) if problem else resolved


def create_experiment(
    session: Session,
    body: ExperimentIn,
    *,
    user_id: int | None,
    user_name: str,
    now: dt.datetime,
    idempotency_key: str | None = None,
) -> Submission:
    """Store a submission with its first trials.

    With an idempotency key, a repetition of the same request returns the first one's experiment.
    Raises InvalidRequest with every problem found, and Conflict when the key was used for
    something else.
    """
    if user_id is not None and idempotency_key is not None:
        earlier = _claim_key(session, user_id, idempotency_key, body, now)
        if earlier is not None:
            return Submission(earlier, is_new=False)
    resolved = resolve_submission(session, body)
    if resolved.config is None:
        raise InvalidRequest(
            "experiments.invalid_document",
            "The experiment document cannot work as written.",
            hint="`muster validate` checks a document without submitting it.",
            fields=resolved.problems,
        )
    experiment = _insert(session, body, resolved.config, user_id, user_name, now)
    if user_id is not None and idempotency_key is not None:
        session.execute(
            update(IdempotencyRow)
            .where(IdempotencyRow.user_id == user_id, IdempotencyRow.key == idempotency_key)
            .values(experiment_id=experiment.id)
        )
    return Submission(experiment.id, is_new=True)


def get_experiment(session: Session, experiment_id: int, *, lock: bool = False) -> ExperimentRow:
    """Raises NotFound."""
    row = session.get(ExperimentRow, experiment_id, with_for_update=True if lock else None)
    if row is None:
        raise NotFound("experiments.not_found", f"There is no experiment {experiment_id}.")
    return row


def update_experiment(
    session: Session, experiment_id: int, patch: ExperimentPatch, now: dt.datetime
) -> None:
    """Change what a user may change. Priority moves queued trials in the queue."""
    experiment = get_experiment(session, experiment_id, lock=True)
    if patch.labels is not None and len(patch.labels) > MAX_LABELS:
        raise InvalidRequest(
            "experiments.too_many_labels",
            f"An experiment has at most {MAX_LABELS} labels, {len(patch.labels)} were given.",
            fields=[FieldProblem("labels", f"must have at most {MAX_LABELS} entries")],
        )
    if patch.name is not None:
        experiment.name = patch.name
    if patch.notes is not None:
        experiment.notes = patch.notes
    if patch.labels is not None:
        experiment.labels = dict(patch.labels)
    if patch.priority is not None and patch.priority != experiment.priority:
        add_event(
            session,
            "experiment.priority_changed",
            f"Priority changed from {experiment.priority} to {patch.priority}.",
            now=now,
            experiment_id=experiment_id,
        )
        experiment.priority = patch.priority
        touch(session, "loops", "cluster")
    touch(session, "experiments", f"experiment:{experiment_id}")


def stop_experiment(
    session: Session, experiment_id: int, *, user_name: str, now: dt.datetime
) -> None:
    """Ask for everything of it to stop. Asked again, or after its end, nothing changes."""
    # Trials before the experiment: the order in which everybody locks them.
    session.execute(
        update(TrialRow)
        .where(
            TrialRow.experiment_id == experiment_id,
            TrialRow.state.not_in(TERMINAL_TRIAL),
            TrialRow.desired != "stop",
        )
        .values(desired="stop", reason=f"Stopped by {user_name}.")
        .execution_options(synchronize_session=False)
    )
    experiment = get_experiment(session, experiment_id, lock=True)
    if experiment.state in TERMINAL_EXPERIMENT or experiment.desired == "stop":
        return
    experiment.desired = "stop"
    experiment.reason = f"Stop requested by {user_name}."
    if experiment.search_state is not None:
        searcher = Searcher.from_state(experiment.search_state)
        searcher.close(f"stopped by {user_name}")
        experiment.search_state = searcher.state()
    add_event(
        session,
        "experiment.stop_requested",
        experiment.reason,
        now=now,
        experiment_id=experiment_id,
    )
    touch(session, "experiments", f"experiment:{experiment_id}", "cluster", "loops")


def set_archived(session: Session, experiment_id: int, archived: bool, now: dt.datetime) -> None:
    """Hide it from lists, or show it again. Raises Conflict while it runs."""
    experiment = get_experiment(session, experiment_id, lock=True)
    if archived:
        _require_ended(experiment, "archived")
    if (experiment.archived_at is not None) == archived:
        return
    experiment.archived_at = now if archived else None
    touch(session, "experiments", f"experiment:{experiment_id}")


def delete_experiment(session: Session, experiment_id: int) -> None:
    """Remove it with everything it recorded, for good. Raises Conflict while it runs.

    Checkpoint files on the nodes and the code bundle, which others may share, are left.
    """
    experiment = get_experiment(session, experiment_id, lock=True)
    _require_ended(experiment, "deleted")
    trials = select(TrialRow.id).where(TrialRow.experiment_id == experiment_id)
    # These two have no foreign key, so nothing cascades to them.
    session.execute(delete(MetricBatchRow).where(MetricBatchRow.trial_id.in_(trials)))
    session.execute(
        delete(EventRow).where(
            or_(EventRow.experiment_id == experiment_id, EventRow.trial_id.in_(trials))
        )
    )
    session.execute(delete(ExperimentRow).where(ExperimentRow.id == experiment_id))
    touch(session, "experiments", f"experiment:{experiment_id}")


def _require_ended(experiment: ExperimentRow, verb: str) -> None:
    if experiment.state not in TERMINAL_EXPERIMENT:
        raise Conflict(
            "experiments.not_ended",
            f"Experiment {experiment.id} is {experiment.state}; only one that has ended can be {verb}.",
            hint="Stop it first.",
        )


def _claim_key(
    session: Session, user_id: int, key: str, body: ExperimentIn, now: dt.datetime
) -> int | None:
    """Take the key for this request; the earlier experiment when it was taken for the same one."""
    request_hash = hashlib.sha256(
        json.dumps(body.model_dump(mode="json"), sort_keys=True).encode()
    ).hexdigest()
    try:
        with session.begin_nested():
            session.add(
                IdempotencyRow(user_id=user_id, key=key, request_hash=request_hash, created_at=now)
            )
        return None
    except IntegrityError:
        row = session.get_one(IdempotencyRow, (user_id, key), populate_existing=True)
    if row.request_hash != request_hash:
        raise Conflict(
            "request.idempotency_key_reused",
            "This Idempotency-Key was used for a different submission.",
            hint="Use a new key for a new submission.",
        )
    if row.experiment_id is None or session.get(ExperimentRow, row.experiment_id) is None:
        raise Conflict(
            "request.idempotency_key_reused",
            "This Idempotency-Key belongs to an experiment that was deleted.",
            hint="Use a new key to submit it again.",
        )
    return row.experiment_id


def _insert(
    session: Session,
    body: ExperimentIn,
    config: dict[str, Any],
    user_id: int | None,
    user_name: str,
    now: dt.datetime,
) -> ExperimentRow:
    searcher = Searcher(search_spec(config))
    actions = searcher.apply(Started())
    experiment = ExperimentRow(
        project_id=_project_id(session, config["project"], now),
        owner_id=user_id,
        name=config["name"],
        labels=config["labels"],
        notes=config["notes"],
        state=ExperimentState.QUEUED,
        document=body.document,
        config=config,
        blob_sha256=body.blob_sha256,
        priority=config["resources"]["priority"],
        slots_per_trial=config["resources"]["slots"],
        search_state=searcher.state(),
        search_seq=1,
        metric_name=config["search"]["metric"],
        metric_goal=config["search"]["goal"],
        created_at=now,
    )
    session.add(experiment)
    session.flush()
    session.add(
        SearchEventRow(
            experiment_id=experiment.id,
            seq=1,
            key=Started().key,
            event=event_to_json(Started()),
            actions=[action_to_json(action) for action in actions],
            at=now,
        )
    )
    add_event(
        session,
        "experiment.created",
        f"Submitted by {user_name}.",
        now=now,
        experiment_id=experiment.id,
    )
    carry_out(session, experiment, actions, now)
    return experiment


def _project_id(session: Session, name: str, now: dt.datetime) -> int:
    query = select(ProjectRow.id).where(ProjectRow.name == name)
    found = session.scalar(query)
    if found is not None:
        return found
    try:
        with session.begin_nested():
            project = ProjectRow(name=name, created_at=now)
            session.add(project)
        return project.id
    except IntegrityError:
        return session.scalars(query).one()


def _check_code(
    session: Session, config: dict[str, Any], blob_sha256: str | None
) -> FieldProblem | None:
    code, entrypoint = config["code"] or {}, config["entrypoint"] or []
    if blob_sha256 is None:
        needs_bundle = (
            bool(entrypoint)
            and entrypoint[0] != "-m"
            and not entrypoint[0].startswith("/")
            and code.get("installed") is None
        )
        if needs_bundle:
            return FieldProblem(
                "code",
                "no code was uploaded for the entry point",
                "submit with `muster submit`, which uploads code.path; or use "
                "code: {installed: /folder}, or the built-in trainer",
            )
        return None
    if config["trainer"] is not None or code.get("installed") is not None:
        return FieldProblem(
            "blob_sha256",
            "a code bundle has no effect with the built-in trainer or installed code",
            "submit without it",
        )
    if session.get(BlobRow, blob_sha256) is None:
        return FieldProblem(
            "blob_sha256", "no such bundle was uploaded", "PUT /api/v1/blobs/{sha256} first"
        )
    names = [member.name for member in blobs.list_members(session, blob_sha256)]
    return check_entry_file(config, names)
