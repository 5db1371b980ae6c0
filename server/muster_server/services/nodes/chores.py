"""Results of short jobs that agents carry out besides their allocations.

All raise Superseded for an older session of the node.
"""

from __future__ import annotations

import datetime as dt

from sqlalchemy.orm import Session

from muster.wire import (
    DeletionsReply,
    DeletionsRequest,
    DescriptionReply,
    DescriptionRequest,
    ExportReply,
    ExportRequest,
    OutputsReply,
    OutputsRequest,
    PreflightReply,
    PreflightRequest,
    WorkFoldersReply,
    WorkFoldersRequest,
)
from muster_server.settings import Settings

from ..checkpoints import exports, file_deletions
from ..outputs import adopting, folders, manifests
from . import layer_tables, preflights
from .sessions import require_session


def take_preflight(
    session: Session, request: PreflightRequest, *, now: dt.datetime
) -> PreflightReply:
    """Take how a stage of a preflight went on a node."""
    require_session(session, request.node_id, request.session_epoch)
    taken = preflights.take_report(session, request.node_id, request.report, now)
    return PreflightReply(taken=taken)


def take_deletions(
    session: Session, request: DeletionsRequest, *, now: dt.datetime
) -> DeletionsReply:
    """Take how deletions of files went that a node was asked for."""
    node = require_session(session, request.node_id, request.session_epoch)
    return file_deletions.take_results(session, node, request, now=now)


def take_export(session: Session, request: ExportRequest, *, now: dt.datetime) -> ExportReply:
    """Take how the export of a model went that a node was asked for."""
    node = require_session(session, request.node_id, request.session_epoch)
    return exports.take_result(session, node, request.result, now=now)


def take_description(
    session: Session, request: DescriptionRequest, *, now: dt.datetime
) -> DescriptionReply:
    """Take the layers of a model that a node was asked for."""
    require_session(session, request.node_id, request.session_epoch)
    return layer_tables.take_result(session, request.node_id, request.result, now=now)


def take_outputs(session: Session, request: OutputsRequest, *, now: dt.datetime) -> OutputsReply:
    """Take a manifest of what a trial wrote on a node. Raises InvalidRequest and TooLarge."""
    node = require_session(session, request.node_id, request.session_epoch)
    adopting.take(session, node, request, now=now)
    taken = manifests.take(session, node, request, now=now)
    adopting.tell_if_none(session, request, now=now)
    return OutputsReply(taken=taken)


def take_work_folders(
    session: Session, request: WorkFoldersRequest, *, settings: Settings, now: dt.datetime
) -> WorkFoldersReply:
    """Take which work folders lie on a node, and return which of them may go."""
    node = require_session(session, request.node_id, request.session_epoch)
    return folders.judge(session, node, request, settings=settings, now=now)
