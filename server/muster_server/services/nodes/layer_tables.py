"""The layers of models for the planner: asked of a node, which lists them from the model itself.

A node does it in a short process that holds no slot, and the answer is kept by everything it follows
from. For code of one's own that runs the code: whoever asks must be allowed to submit it, or it is
that of a trial, which was submitted.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.orm import Session

from muster import __version__
from muster.document.experiment import ExperimentConfig
from muster.document.train_config import ConfigError, TrainConfig, configure
from muster.document.trainer_settings import OWN_FUNCTION
from muster.wire import (
    DESCRIBES,
    DESCRIPTION_TIMEOUT_S,
    MAX_TABLE_BYTES,
    CodeSpec,
    Description,
    DescriptionReply,
    DescriptionResult,
    LayerTable,
    dump,
    load,
)
from muster_server.db.models import LayerTableRow, NodeRow, PoolRow
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.domain.messages import Message
from muster_server.domain.scheduling.resources import is_isolated
from muster_server.domain.states import NodeState

from ..core.assignments import bump_assignments

MODEL_SETTINGS = ("model", "data", "width", "depth", "heads", "context", "patch", "dropout")
"""Fields of TrainConfig that a model follows from, …"""
OWN_SETTINGS = ("model", "data", "context")
"""… and those that one of the user's own does."""
ANSWER_TIMEOUT_S = DESCRIPTION_TIMEOUT_S + 30.0
"""A node that has not answered by then is not waited for."""
RETRY_S = 30.0
"""What failed is tried again after this long."""
CHANGING_S = 600.0
"""How long an answer about code that is installed on nodes holds: it may change there."""
MAX_OPEN = 16
"""Models that may be listed at once; others wait."""
MAX_ROWS = 500
MAX_MESSAGE_CHARS = 500


class Unknown(ValueError):
    """What a training takes cannot be said beforehand; `reason` is a sentence."""

    def __init__(self, reason: Message) -> None:
        super().__init__(reason.english)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which model, and where its code is."""

    settings: Mapping[str, Any]
    code: CodeSpec
    python: str | None
    environment: Mapping[str, str]
    pool: str
    isolation: str = "none"
    """Weakest level of isolation at which code of the user may run."""

    @property
    def is_own(self) -> bool:
        """Whether code of the user runs to answer it."""
        return self.code.kind != "none"

    @property
    def key(self) -> str:
        whole = [__version__, self.settings, asdict(self.code), self.python, self.environment]
        text = json.dumps([*whole, self.pool if self.is_own else ""], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class LayerTableAnswer:
    table: LayerTable | None
    reason: Message | None
    """Why there is no table; None where there is one."""
    is_pending: bool = False
    """It comes soon: ask again."""
    is_to_be_asked: bool = False
    """`ask` should be called for that."""


# ---------------------------------------------------------------- what is asked


def training_of(config: ExperimentConfig, hparams: Mapping[str, Any]) -> TrainConfig:
    """Return the built-in trainer's configuration for a resolved document and a trial's
    hyperparameters. Raises Unknown."""
    if config.trainer is None:
        raise Unknown(Message("plan.script"))
    try:
        return configure(config, hparams, slots=config.resources.slots)
    except ConfigError as error:
        raise Unknown(Message("plan.config", message=str(error))) from error


def question_of(
    config: ExperimentConfig, training: TrainConfig, *, blob_sha256: str | None
) -> Question:
    """Raises Unknown where the code is missing."""
    is_own = any(OWN_FUNCTION.fullmatch(name) for name in (training.model, training.data))
    names = OWN_SETTINGS if OWN_FUNCTION.fullmatch(training.model) else MODEL_SETTINGS
    return Question(
        settings={name: getattr(training, name) for name in names},
        code=_code(config, blob_sha256) if is_own else CodeSpec(kind="none"),
        # An interpreter in an image is not on the node.
        python=config.environment.python if config.environment.image is None else None,
        environment=config.environment.variables if is_own else {},
        pool=config.resources.pool,
        isolation=config.resources.isolation,
    )


def _code(config: ExperimentConfig, blob_sha256: str | None) -> CodeSpec:
    if blob_sha256 is not None:
        return CodeSpec(kind="bundle", sha256=blob_sha256)
    installed = config.code.installed if config.code is not None else None
    if installed is None:
        raise Unknown(Message("plan.no_code"))
    return CodeSpec(kind="installed", path=installed)


def look_up(session: Session, question: Question, *, now: dt.datetime) -> LayerTableAnswer:
    """Return the table if it is there, else why not."""
    row = _find(session, question)
    if row is not None:
        settled = _settled(session, row, question, now=now)
        if settled is not None:
            return settled
    nodes = _able_nodes(session, question)
    if not nodes:
        return LayerTableAnswer(table=None, reason=_why_none(session, question))
    reason = _listing(_next(nodes, row).name)
    return LayerTableAnswer(table=None, reason=reason, is_pending=True, is_to_be_asked=True)


def ask(session: Session, question: Question, *, now: dt.datetime) -> None:
    """Have a node list the layers, where `look_up` says so. Harmless to repeat."""
    nodes = _able_nodes(session, question)
    num_open = select(func.count()).where(
        LayerTableRow.state == "wanted", LayerTableRow.key != question.key
    )
    if not nodes or (session.scalar(num_open) or 0) >= MAX_OPEN:
        return
    wanted = {
        "state": "wanted",
        "question": {
            "settings": dict(question.settings),
            "code": asdict(question.code),
            "python": question.python,
            "environment": dict(question.environment),
        },
        "layers": None,
        "message": "",
        "asked_at": now,
        "ended_at": None,
    }
    row = _find(session, question, lock=True)
    if row is not None and _settled(session, row, question, now=now) is not None:
        return
    node = _next(nodes, row)
    named = {**wanted, "node_id": node.id, "node_name": node.name}
    if row is None:
        session.execute(insert_or_ignore(session, LayerTableRow), {"key": question.key, **named})
        _trim(session)
    else:
        for name, value in named.items():
            setattr(row, name, value)
    session.flush()
    bump_assignments(session, [node.id])


def _find(session: Session, question: Question, *, lock: bool = False) -> LayerTableRow | None:
    query = select(LayerTableRow).where(LayerTableRow.key == question.key)
    return session.scalar(query.with_for_update() if lock else query)


def _settled(
    session: Session, row: LayerTableRow, question: Question, *, now: dt.datetime
) -> LayerTableAnswer | None:
    """Return the answer that a row gives; None if the node must be asked again."""
    age_s = (now - (row.ended_at or row.asked_at)).total_seconds()
    if row.state == "wanted":
        node = session.get(NodeRow, row.node_id)
        if age_s > ANSWER_TIMEOUT_S or node is None or node.state != NodeState.ONLINE:
            return None
        return LayerTableAnswer(table=None, reason=_listing(row.node_name), is_pending=True)
    if row.state == "failed":
        return None if age_s > RETRY_S else LayerTableAnswer(table=None, reason=_failed(row))
    if question.code.kind == "installed" and age_s > CHANGING_S:
        return None
    if row.state == "refused":
        # Of a bundle, too: what it imports may have been installed meanwhile.
        return None if age_s > CHANGING_S else LayerTableAnswer(table=None, reason=_refused(row))
    assert row.layers is not None, "it is done"
    return LayerTableAnswer(table=load(LayerTable, row.layers), reason=None)


def _able_nodes(session: Session, question: Question) -> list[NodeRow]:
    """Return the nodes that can be asked, by name: those of the document's pool that isolate code
    of the user as the document and the pool require; for what comes with the trainer, where there
    is none, any other."""
    online = select(NodeRow).where(NodeRow.state == NodeState.ONLINE).order_by(NodeRow.name)
    able = [n for n in session.scalars(online) if DESCRIBES in (n.inventory.get("chores") or ())]
    of_pool = [n for n in able if n.pool == question.pool]
    if question.is_own:
        return [node for node in of_pool if _is_isolated(session, node, question)]
    return of_pool or able


def _is_isolated(session: Session, node: NodeRow, question: Question) -> bool:
    pool = session.get(PoolRow, node.pool)
    if pool is not None and pool.requires_containers:
        return False  # The agent lists layers with its own Python, in no container.
    levels = (question.isolation, pool.min_isolation if pool is not None else "none")
    return all(is_isolated(node.inventory.get("isolation", "none"), level) for level in levels)


def _next(nodes: list[NodeRow], row: LayerTableRow | None) -> NodeRow:
    """Return the one after the one that was asked last."""
    before = row.node_name if row is not None else ""
    return next((n for n in nodes if n.name > before), nodes[0])


def _trim(session: Session) -> None:
    newest = (
        select(LayerTableRow.id).order_by(LayerTableRow.asked_at.desc(), LayerTableRow.id.desc())
    ).limit(MAX_ROWS)
    session.execute(
        delete(LayerTableRow)
        .where(LayerTableRow.id.not_in(newest))
        .execution_options(synchronize_session=False)
    )


# ---------------------------------------------------------------- why there is none


def _why_none(session: Session, question: Question) -> Message:
    pool = question.pool
    online = select(NodeRow).where(NodeRow.state == NodeState.ONLINE)
    if question.is_own:
        online = online.where(NodeRow.pool == pool)
    able = [n for n in session.scalars(online) if DESCRIBES in (n.inventory.get("chores") or ())]
    row = session.get(PoolRow, pool)
    if able and row is not None and row.requires_containers:
        return Message("plan.containers", pool=pool)
    if able:
        return Message("plan.too_weak", pool=pool)
    if session.scalar(online.limit(1)):
        return Message("plan.old_agents", pool=pool)
    return Message("plan.no_node", pool=pool)


def _listing(node: str) -> Message:
    return Message("plan.listing", node=node)


def _failed(row: LayerTableRow) -> Message:
    return Message("plan.listing_failed", node=row.node_name, message=row.message, seconds=RETRY_S)


def _refused(row: LayerTableRow) -> Message:
    return Message("plan.refused", message=row.message)


# ---------------------------------------------------------------- what agents hear and say

_NODES_ASKED = select(LayerTableRow.node_id).where(
    LayerTableRow.state == "wanted", LayerTableRow.node_id.in_(bindparam("ids", expanding=True))
)


def nodes_asked(session: Session, node_ids: Sequence[str]) -> set[str]:
    """Return those of these nodes that are asked to list layers now."""
    return set(session.scalars(_NODES_ASKED, {"ids": list(node_ids)}))


def wanted_of(session: Session, node_id: str) -> list[Description]:
    """Return the models whose layers this node should list now, the one asked for last first:
    somebody who edits a document waits for it."""
    rows = session.scalars(
        select(LayerTableRow)
        .where(LayerTableRow.state == "wanted", LayerTableRow.node_id == node_id)
        .order_by(LayerTableRow.asked_at.desc(), LayerTableRow.id.desc())
        .limit(MAX_OPEN)
    )
    return [load(Description, {"id": row.id, **row.question}) for row in rows]


def take_result(
    session: Session, node_id: str, result: DescriptionResult, *, now: dt.datetime
) -> DescriptionReply:
    """Store the answer of a node. Given twice, or to a question that is closed, it changes nothing."""
    row = session.get(LayerTableRow, result.id, with_for_update=True)
    if row is None or row.state != "wanted" or row.node_id != node_id:
        return DescriptionReply(taken=False)
    row.ended_at = now
    row.state, row.message = result.outcome, result.message[:MAX_MESSAGE_CHARS]
    if result.outcome == "done":
        text = dump(result.table)
        if result.table is None or len(text) > MAX_TABLE_BYTES:
            row.state = "refused"
            row.message = f"its table has {len(text):,} bytes, and {MAX_TABLE_BYTES:,} are kept"
        else:
            row.layers = json.loads(text)
    session.flush()
    bump_assignments(session, [node_id])
    return DescriptionReply(taken=True)
