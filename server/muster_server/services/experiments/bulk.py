"""One operation on many experiments, in two steps.

The preview answers with the exact experiments and a digest of them; doing it needs that digest,
and is refused when the filter selects others by then. So what is touched is what was looked at. A
selection beyond the bound is refused, never cut. Each experiment is done in a transaction of its
own and has an outcome of its own; one that cannot be done keeps none of the others back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.models import ExperimentRow, ProjectRow, UserRow
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, MusterError
from muster_server.schemas.operations import BulkIn, BulkItem, BulkOut, BulkPreviewOut, ContinueIn

from ..core import idempotency
from ..core.callers import Caller
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from . import continuing, deletion, operations
from .filters import ExperimentFilter, conditions
from .operations import ExperimentOperation, Labels
from .unsaved import unsaved_work

MAX_SELECTED = 1000

_PLAIN: dict[str, ExperimentOperation] = {
    "pause": operations.PAUSE,
    "resume": operations.RESUME,
    "stop": operations.STOP,
    "kill": operations.KILL,
    "archive": operations.ARCHIVE,
    "unarchive": operations.UNARCHIVE,
}


def preview(session: Session, body: BulkIn, caller: Caller) -> BulkPreviewOut:
    """Return what a bulk action would change in which experiments. Raises InvalidRequest."""
    ids = _select(session, body)
    items = [_foresee(session, body, id_, caller) for id_ in ids]
    changed = [i.id for i in items if i.outcome == "changes"]
    ends = body.action in ("pause", "stop", "kill")
    return BulkPreviewOut(
        action=body.action,
        digest=_digest(body, ids),
        num=len(items),
        num_changes=sum(i.outcome == "changes" for i in items),
        num_refused=sum(i.outcome == "refused" for i in items),
        items=items,
        freed=deletion.freed_by(session, changed) if body.action == "delete" else None,
        unsaved=unsaved_work(session, changed, caller.now) if ends else None,
    )


def perform(
    database: Database, body: BulkIn, caller: Caller, *, idempotency_key: str | None = None
) -> BulkOut:
    """Do it. Raises InvalidRequest, and Conflict when the selection is not the previewed one."""
    if body.digest is None:
        raise _invalid("digest", "is missing", "preview it first, and send the digest back")
    user_id = caller.principal.user_id
    request = {"operation": "bulk", "body": body.model_dump(mode="json")}
    with database.transaction() as session:
        earlier = idempotency.claim(session, user_id, idempotency_key, request, caller.now)
        if earlier is not None and earlier.answer is not None:
            return BulkOut.model_validate(earlier.answer)
        ids = _select(session, body)
        if _digest(body, ids) != body.digest:
            raise Conflict(
                "bulk.selection_changed",
                f"The selection has changed since the preview: now it has {len(ids):,} experiments.",
                hint="Preview it again.",
            )
    items = [_do(database, body, id_, caller) for id_ in ids]
    answer = BulkOut(
        action=body.action,
        digest=body.digest,
        num_changed=sum(i.outcome == "changes" for i in items),
        num_unchanged=sum(i.outcome == "unchanged" for i in items),
        num_refused=sum(i.outcome == "refused" for i in items),
        items=items,
    )
    with database.transaction() as session:
        idempotency.settle(session, user_id, idempotency_key, answer=answer.model_dump(mode="json"))
    return answer


# ---------------------------------------------------------------- the selection


def _select(session: Session, body: BulkIn) -> list[int]:
    """Return the ids it is about, ascending. Ids that are listed but do not exist are among
    them."""
    if (body.filter is None) == (body.ids is None):
        raise _invalid("filter", "and ids: give one of the two")
    if body.action != "label" and (body.set_labels or body.remove_labels):
        raise _invalid("set_labels", f"has no effect with {body.action}", "leave it out")
    if body.action == "label" and not (body.set_labels or body.remove_labels):
        raise _invalid("set_labels", "or remove_labels must name a label")
    if body.ids is not None:
        return _bounded(sorted(set(body.ids)), len(set(body.ids)))
    assert body.filter is not None
    given = body.filter
    filters = ExperimentFilter(
        states=[str(state) for state in given.state],
        project=given.project,
        labels=given.label,
        owner=given.owner,
        text=given.q,
        archived=given.archived,
        where=given.where,
    )
    if filters.selects_everything:
        raise _invalid("filter", "selects every experiment", "give at least one condition, or ids")
    query = (
        select(ExperimentRow.id)
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
        .outerjoin(UserRow, UserRow.id == ExperimentRow.owner_id)
    )
    query = query.where(*conditions(filters))
    num = session.scalar(select(func.count()).select_from(query.subquery())) or 0
    return _bounded(
        list(session.scalars(query.order_by(ExperimentRow.id).limit(MAX_SELECTED + 1))), num
    )


def _bounded(ids: list[int], num: int) -> list[int]:
    if num > MAX_SELECTED:
        raise InvalidRequest(
            "bulk.too_many",
            f"{num:,} experiments are selected; at most {MAX_SELECTED:,} can be done at once.",
            hint="Narrow the selection, and repeat for the others.",
        )
    return ids


def _digest(body: BulkIn, ids: Sequence[int]) -> str:
    what: dict[str, Any] = body.model_dump(mode="json", exclude={"digest", "filter", "ids"})
    return hashlib.sha256(json.dumps([what, list(ids)], sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------- one of them


def _foresee(session: Session, body: BulkIn, experiment_id: int, caller: Caller) -> BulkItem:
    name, state = "", ""
    try:
        experiment = get_experiment(session, experiment_id)
        name, state = experiment.name, experiment.state
        require_charge(session, caller.principal, experiment)
        changes = _check(session, body, experiment)
    except MusterError as error:
        return _refused(experiment_id, name, state, error)
    return _item(experiment_id, name, state, changes=changes)


def _check(session: Session, body: BulkIn, experiment: ExperimentRow) -> bool:
    if body.action == "delete":
        return deletion.check(session, experiment)
    if body.action == "continue":
        return continuing.check(session, experiment)
    return _operation(body).check(session, experiment)


def _do(database: Database, body: BulkIn, experiment_id: int, caller: Caller) -> BulkItem:
    name, state = "", ""
    try:
        with database.transaction() as session:
            experiment = get_experiment(session, experiment_id)
            name, state = experiment.name, experiment.state
            changes = _apply(session, body, experiment_id, caller)
            session.flush()
            if body.action != "delete":
                state = get_experiment(session, experiment_id).state
    except MusterError as error:
        return _refused(experiment_id, name, state, error)
    return _item(experiment_id, name, state, changes=changes)


def _apply(session: Session, body: BulkIn, experiment_id: int, caller: Caller) -> bool:
    if body.action == "delete":
        deletion.begin(session, experiment_id, caller, keep_files=body.keep_files)
        return True
    if body.action == "continue":
        continuing.continue_experiment(session, experiment_id, ContinueIn(), caller)
        return True
    return operations.run(session, _operation(body), experiment_id, caller)


def _operation(body: BulkIn) -> ExperimentOperation:
    if body.action == "label":
        labels = Labels(set=body.set_labels, remove=frozenset(body.remove_labels))
        return operations.label(labels)
    return _PLAIN[body.action]


def _item(experiment_id: int, name: str, state: str, *, changes: bool) -> BulkItem:
    return BulkItem(
        id=experiment_id,
        name=name,
        state=state,
        outcome="changes" if changes else "unchanged",
        code=None,
        message="",
    )


def _refused(experiment_id: int, name: str, state: str, error: MusterError) -> BulkItem:
    return BulkItem(
        id=experiment_id,
        name=name,
        state=state,
        outcome="refused",
        code=error.code,
        message=error.message,
    )


def _invalid(path: str, message: str, hint: str | None = None) -> InvalidRequest:
    return InvalidRequest(
        "bulk.invalid",
        "The bulk operation cannot work as sent.",
        fields=[FieldProblem(path, message, hint)],
    )
