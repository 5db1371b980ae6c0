"""Forking: a new experiment made from the document, the code and, if wanted, a checkpoint of another."""

from __future__ import annotations

import json

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow, TrialRow, UserRow
from muster_server.schemas.base import Page
from muster_server.schemas.experiments import ExperimentIn
from muster_server.schemas.operations import ChildOut, CodeVersionIn, ForkIn, ParentOut

from ..core.callers import Caller, note
from ..core.lookup import get_experiment
from ..core.paging import read_page_of_tuples
from ..documents import resolve
from .operations import require_managed
from .submission import Submission, create_experiment


def fork_experiment(
    session: Session,
    experiment_id: int,
    body: ForkIn,
    caller: Caller,
    *,
    idempotency_key: str | None = None,
) -> Submission:
    """Make a new experiment of the caller's own. The source may be anybody's, in any state.

    Raises NotFound, and what create_experiment raises.
    """
    source = get_experiment(session, experiment_id)
    require_managed(source, "forked")
    made = create_experiment(
        session,
        as_submission(session, source, body),
        user_id=caller.principal.user_id,
        user_name=caller.principal.name,
        role=caller.principal.role,
        now=caller.now,
        idempotency_key=idempotency_key,
        parent=source,
    )
    if made.is_new:
        note(session, "experiments.forked", made.experiment_id, caller, {"from": experiment_id})
    return made


def as_submission(session: Session, source: ExperimentRow, body: ForkIn) -> ExperimentIn:
    """Return the submission for a fork: the source's document and code, with the requested
    changes."""
    if body.document is None:
        overrides = [*source.overrides, *_renamed_source(session, source), *body.overrides]
        document = source.document
    else:
        document, overrides = body.document, [*body.overrides]
        if document == source.document:
            overrides = [*_renamed_source(session, source), *overrides]
    if body.from_ is not None:
        section = body.from_.model_dump(exclude_none=True)
        if not section.keys() & {"checkpoint", "trial", "experiment"}:
            section["experiment"] = source.id
        overrides.append(f"from={json.dumps(section)}")
    blob, left_out, version = body.blob_sha256, body.left_out, body.code_version
    if blob is None and source.blob_sha256 is not None:
        config = resolve(document, overrides).config
        installed = config and config.code and config.code.installed
        if config is None or (config.trainer is None and not installed):
            blob, left_out = source.blob_sha256, source.left_out
            version = (
                CodeVersionIn.model_validate(source.code_version) if source.code_version else None
            )
    return ExperimentIn(
        document=document,
        overrides=overrides,
        blob_sha256=blob,
        left_out=left_out,
        code_version=version,
    )


def _renamed_source(session: Session, source: ExperimentRow) -> list[str]:
    """Return the override that keeps the meaning of a stored `from.trial`, if one is needed.

    Documents once named a trial by its id, which is no number that people see. Resolved then, the
    configuration still holds that id as a number; today it holds an address such as "36.2".
    """
    section = source.config.from_
    trial_id: object = section.trial if section is not None else None
    if section is None or not isinstance(trial_id, int):
        return []
    written = resolve(source.document, source.overrides).config
    if written is None or written.from_ is None or written.from_.trial is None:
        return []
    trial = session.get(TrialRow, trial_id)
    named = (
        {"trial": trial.address, "pick": section.pick}
        if trial is not None
        else {"checkpoint": section.checkpoint}
    )
    return [f"from={json.dumps({**named, 'load': section.load})}"]


def parent_out(session: Session, experiment: ExperimentRow) -> ParentOut | None:
    """Return the experiment that this one was forked from; None if it is not a fork."""
    if experiment.source is None:
        return None
    parent = session.get(ExperimentRow, experiment.source["experiment_id"])
    kept = {name: experiment.source.get(name) for name in ParentOut.model_fields}
    exists = parent is not None and parent.deleting_at is None
    return ParentOut.model_validate({**kept, "exists": exists})


def num_children(session: Session, experiment_id: int) -> int:
    return (
        session.scalar(
            select(func.count())
            .select_from(ExperimentRow)
            .where(ExperimentRow.parent_id == experiment_id, ExperimentRow.deleting_at.is_(None))
        )
        or 0
    )


def list_children(
    session: Session, experiment_id: int, *, cursor: str | None, limit: int
) -> Page[ChildOut]:
    """Return the experiments forked from this one, newest first. Raises NotFound."""
    get_experiment(session, experiment_id)
    query = (
        select(ExperimentRow, UserRow.username)
        .outerjoin(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where(ExperimentRow.parent_id == experiment_id, ExperimentRow.deleting_at.is_(None))
    )
    rows, following = read_page_of_tuples(
        session, query, ExperimentRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = [
        ChildOut.from_row(row, owner=owner, step=(row.source or {}).get("step"))
        for row, owner in rows
    ]
    return Page(items=items, next=following)
