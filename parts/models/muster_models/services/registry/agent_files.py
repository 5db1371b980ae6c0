"""Files of versions for the agents that run jobs which read them."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import (
    ModelFile,
    ModelFilesReply,
    ModelFilesRequest,
    ModelPartReply,
    ModelPartRequest,
)
from muster_server.db.models import (
    ExportRow,
    ModelFileRow,
    ModelRow,
    ModelUseRow,
    ModelVersionRow,
    NodeRow,
    TrialRow,
)
from muster_server.errors import NotFound
from muster_server.security.principal import Principal
from muster_server.services.checkpoints import exports
from muster_server.services.core.callers import Caller
from muster_server.services.nodes.sessions import require_allocation
from muster_server.settings import Settings

from . import fetching


def list_files(session: Session, allocation_id: str, request: ModelFilesRequest) -> ModelFilesReply:
    """Return the files of a version that an allocation of this node reads.

    Raises Superseded, NotFound and Conflict as `require_allocation` does, and NotFound for a version
    that the job does not read.
    """
    *_, version = _used(session, allocation_id, request)
    rows = session.scalars(
        select(ModelFileRow)
        .where(ModelFileRow.version_id == version.id)
        .order_by(ModelFileRow.path)
    ).all()
    return ModelFilesReply(
        files=[
            ModelFile(
                path=row.path,
                sha256=row.sha256,
                size_bytes=row.size_bytes,
                num_parts=fetching.num_parts(row),
            )
            for row in rows
        ],
        size_bytes=version.size_bytes,
    )


def request_part(
    session: Session,
    allocation_id: str,
    request: ModelPartRequest,
    *,
    settings: Settings,
    now: dt.datetime,
) -> ModelPartReply:
    """Have a part of a file read, or return what became of an earlier request. Raises as `list_files`
    and `fetching.request` do."""
    node, model, version = _used(session, allocation_id, request)
    file = fetching.file_of(session, model, version, request.path)
    if request.drops is not None:
        drop = session.get(ExportRow, request.drops)
        if drop is not None and drop.trial_id == version.trial_id and drop.state == "done":
            session.delete(drop)
            session.flush()
    if request.export_id is not None:
        export = exports.get_export(session, request.export_id)
        if export.trial_id != version.trial_id:
            raise NotFound("exports.not_found", f"There is no export {request.export_id}.")
        shown = fetching.shown(export)
    else:
        principal = Principal(kind="agent", name=node.name, role="agent", node_id=node.id)
        caller = Caller(principal=principal, now=now)
        shown = fetching.request(session, version, file, request.part, caller, settings=settings)
    return ModelPartReply(
        state=shown.state,
        waits_for=shown.waits_for,
        message=shown.message,
        sha256=shown.sha256,
        export_id=shown.export_id,
    )


def find_content(
    session: Session, allocation_id: str, request: ModelPartRequest
) -> fetching.Content:
    """Return the bytes of a part that is ready. Raises as `list_files` and `fetching.find_content`
    do."""
    _, model, version = _used(session, allocation_id, request)
    file = fetching.file_of(session, model, version, request.path)
    return fetching.find_content(session, file, export_id=request.export_id)


def _used(
    session: Session, allocation_id: str, request: ModelFilesRequest | ModelPartRequest
) -> tuple[NodeRow, ModelRow, ModelVersionRow]:
    node, allocation = require_allocation(
        session, allocation_id, request.node_id, request.session_epoch, request.attempt_no
    )
    found = session.execute(
        select(ModelRow, ModelVersionRow)
        .join(ModelVersionRow, ModelVersionRow.model_id == ModelRow.id)
        .join(ModelUseRow, ModelUseRow.version_id == ModelVersionRow.id)
        .join(TrialRow, TrialRow.experiment_id == ModelUseRow.experiment_id)
        .where(TrialRow.id == allocation.trial_id, ModelUseRow.name == request.name)
    ).one_or_none()
    if found is None:
        raise NotFound("models.not_used", f"This job reads no model {request.name[:64]!r}.")
    return node, found[0], found[1]
