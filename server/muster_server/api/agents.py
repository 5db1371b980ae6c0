"""What agents call, under /agent/v1; the messages are those of muster.wire."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from muster.wire import (
    RECORD_TYPES,
    AssignmentsReply,
    DeletionsReply,
    DeletionsRequest,
    DescriptionReply,
    DescriptionRequest,
    LeaseReply,
    LeaseRequest,
    LeaveReply,
    LeaveRequest,
    LogsReply,
    NumberedRecord,
    OutputsReply,
    OutputsRequest,
    PreflightReply,
    PreflightRequest,
    RecordsReply,
    RecordsRequest,
    RegisterReply,
    RegisterRequest,
    SecretsReply,
    SecretsRequest,
    WorkFoldersReply,
    WorkFoldersRequest,
)
from muster_server import clock
from muster_server.errors import Forbidden, TooLarge
from muster_server.live.polls import PollWatch
from muster_server.security.principal import Principal
from muster_server.services.core.accounts import identity
from muster_server.services.nodes import chores, leaving, records, registration, secrets
from muster_server.services.nodes.assignments import AssignmentsCall
from muster_server.services.nodes.leases import LeaseCall
from muster_server.services.nodes.records import RecordsCall
from muster_server.services.nodes.registration import RegisterCall
from muster_server.services.nodes.sessions import Fence
from muster_server.telemetry.process import ServerTelemetry

from .agent_calls import AgentCalls
from .http.deps import Agent, Config, Db
from .http.errors import ERROR_RESPONSES
from .http.parameters import GUARDS
from .http.wire_route import WireRoute, is_json, read_by

router = APIRouter(
    prefix="/agent/v1",
    tags=["agents"],
    route_class=WireRoute,
    dependencies=GUARDS,
    responses=ERROR_RESPONSES,
    generate_unique_id_function=attrgetter("name"),
)

MAX_WAIT_S = 30.0
MAX_ASKED_WAIT_S = 60.0
IS_THERE_S = 5.0
"""How often is asked whether the agent of a waiting poll is still connected."""
MAX_LOG_BYTES = 1_048_576

AllocationId = Annotated[str, Path(max_length=64)]


@router.post("/register")
async def agent_register(
    http: Request, database: Db, agent: Agent, request: RegisterRequest
) -> RegisterReply:
    """Join with a join token, or start a new session with the node's credential."""

    def note_clone(node_id: str) -> None:
        with database.transaction() as session:
            registration.note_clone(session, node_id, clock.now())

    try:
        return await calls_of(http).register(RegisterCall(principal=agent, request=request))
    except registration.Cloned as refused:
        await run_in_threadpool(note_clone, refused.node_id)
        raise


# ---------------------------------------------------------------- leases

_LEASE: Final = msgspec.json.Decoder(LeaseRequest)


def _read_lease(http: Request, body: bytes) -> dict[str, Any] | None:
    try:
        return {"request": _LEASE.decode(body)} if is_json(http) else None
    except msgspec.DecodeError:
        return None


@router.post("/lease")
@read_by(_read_lease)
async def agent_lease(http: Request, agent: Agent, request: LeaseRequest) -> LeaseReply:
    """Heartbeat. 410: register again."""
    require_self(agent, request.node_id)
    return await calls_of(http).renew(LeaseCall(agent=agent, request=request))


@router.post("/leave")
def agent_leave(database: Db, agent: Agent, request: LeaveRequest) -> LeaveReply:
    """A step in which a pilot leaves the cluster. Safe to repeat."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        identity.confirm_agent(session, agent)
        return leaving.leave(session, request, now=clock.now())


# ---------------------------------------------------------------- assignments

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_WHOLE = re.compile(r"-?[0-9]{1,15}\Z")
_SECONDS = re.compile(r"[0-9]{1,2}(\.[0-9]{1,6})?\Z")
_POLL: Final = {"node_id": _ID, "session_epoch": _WHOLE, "index": _WHOLE, "wait": _SECONDS}


def _read_poll(http: Request, body: bytes) -> dict[str, Any] | None:
    query = http.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=len(_POLL))
    except ValueError:
        return None
    values = dict(pairs)
    is_plain = (
        len(pairs) == len(_POLL)
        and values.keys() == _POLL.keys()
        and all(pattern.match(values[name]) for name, pattern in _POLL.items())
        and float(values["wait"]) <= MAX_ASKED_WAIT_S
    )
    if not is_plain:
        return None
    return {
        "node_id": values["node_id"],
        "session_epoch": int(values["session_epoch"]),
        "index": int(values["index"]),
        "wait": float(values["wait"]),
    }


@router.get("/assignments", response_model=AssignmentsReply)
@read_by(_read_poll)
async def agent_assignments(
    http: Request,
    agent: Agent,
    node_id: Annotated[str, Query(max_length=64)],
    session_epoch: int,
    index: int = -1,
    wait: Annotated[float, Query(ge=0, le=MAX_ASKED_WAIT_S)] = 25.0,
) -> Response:
    """The complete set this node should have. Waits while `index` is still its number."""
    require_self(agent, node_id)
    reply = await _follow(http, agent, Fence(node_id, session_epoch), index=index, wait_s=wait)
    return Response(reply, media_type="application/json")


async def _follow(
    http: Request, agent: Principal, fence: Fence, *, index: int, wait_s: float
) -> bytes:
    """Return a wire.AssignmentsReply as JSON."""
    deadline = time.monotonic() + min(wait_s, MAX_WAIT_S)
    polls: PollWatch = http.app.state.polls
    calls = calls_of(http)
    with polls.listen(fence, index) as listener:
        must_look = True
        while (left := deadline - time.monotonic()) > 0:
            if must_look:
                listener.take()
                reply = await calls.answer(AssignmentsCall(agent=agent, fence=fence, unless=index))
                if reply is not None:
                    return reply
            if await http.is_disconnected():
                break
            must_look = await listener.wait(min(left, IS_THERE_S))
    reply = await calls.answer(AssignmentsCall(agent=agent, fence=fence, unless=None))
    assert reply is not None
    return reply


# ---------------------------------------------------------------- records


@dataclass(frozen=True)
class _Numbered:
    """wire.NumberedRecord whose record has not been told apart from the other kinds."""

    seq: int
    at_ms: int
    record: dict[str, Any]


@dataclass(frozen=True)
class _Records:
    """wire.RecordsRequest of such."""

    node_id: str
    session_epoch: int
    attempt_no: int
    records: list[_Numbered]


_RECORDS: Final = msgspec.json.Decoder(_Records)


def _read_records(http: Request, body: bytes) -> dict[str, Any] | None:
    allocation_id = http.path_params["allocation_id"]
    if not is_json(http) or not _ID.match(allocation_id):
        return None
    try:
        plain = _RECORDS.decode(body)
        request = RecordsRequest(
            node_id=plain.node_id,
            session_epoch=plain.session_epoch,
            attempt_no=plain.attempt_no,
            records=[
                NumberedRecord(
                    seq=numbered.seq,
                    at_ms=numbered.at_ms,
                    record=msgspec.convert(numbered.record, RECORD_TYPES[numbered.record["type"]]),
                )
                for numbered in plain.records
            ],
        )
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return {"allocation_id": allocation_id, "request": request}


@router.post("/allocations/{allocation_id}/records")
@read_by(_read_records)
async def agent_records(
    http: Request, agent: Agent, allocation_id: AllocationId, request: RecordsRequest
) -> RecordsReply:
    """Numbered records, in order. What the reply acknowledges is durable. 404: forget it."""
    require_self(agent, request.node_id)
    call = RecordsCall(agent=agent, allocation_id=allocation_id, request=request)
    stored = await calls_of(http).store(call)
    telemetry: ServerTelemetry = http.app.state.telemetry
    size = http.headers.get("content-length", "")
    telemetry.took_records(stored.new, int(size) if size.isdigit() else 0)
    return stored.reply


# ---------------------------------------------------------------- logs and chores


@router.post("/allocations/{allocation_id}/logs/{local_rank}/{stream}")
async def agent_logs(
    http: Request,
    agent: Agent,
    allocation_id: AllocationId,
    local_rank: Annotated[int, Path(ge=-1, le=4096)],
    stream: Literal["stdout", "stderr"],
    offset: Annotated[int, Query(ge=0)],
    attempt_no: int,
    node_id: Annotated[str, Query(max_length=64)],
    session_epoch: int,
) -> LogsReply:
    """Raw log bytes from `offset` on, at most 1 MiB. The reply says where to go on."""
    require_self(agent, node_id)
    data = await read_body(http, MAX_LOG_BYTES, "agent.log_too_large")

    def store(session: Session) -> int:
        identity.confirm_agent(session, agent)
        return records.append_log(
            session,
            allocation_id,
            Fence(node_id, session_epoch),
            attempt_no=attempt_no,
            local_rank=local_rank,
            stream=stream,
            offset=offset,
            data=data,
            now=clock.now(),
        )

    next_offset = await calls_of(http).write(store)
    telemetry: ServerTelemetry = http.app.state.telemetry
    telemetry.took_log(max(0, next_offset - offset))
    return LogsReply(next_offset=next_offset)


@router.post("/preflights")
def agent_preflights(database: Db, agent: Agent, request: PreflightRequest) -> PreflightReply:
    """Record the progress of a stage of a preflight on this node."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return chores.take_preflight(session, request, now=clock.now())


@router.post("/allocations/{allocation_id}/secrets")
def agent_secrets(
    database: Db, config: Config, agent: Agent, allocation_id: AllocationId, request: SecretsRequest
) -> SecretsReply:
    """Values of the secrets that a job of this node names, asked for just before it starts. Each
    answer is in the audit trail."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        identity.confirm_agent(session, agent)
        return secrets.deliver_secrets(
            session, allocation_id, request, settings=config, now=clock.now()
        )


@router.post("/deletions")
def agent_deletions(database: Db, agent: Agent, request: DeletionsRequest) -> DeletionsReply:
    """Record the outcome of the file deletions that the node was asked for."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return chores.take_deletions(session, request, now=clock.now())


@router.post("/descriptions")
def agent_descriptions(database: Db, agent: Agent, request: DescriptionRequest) -> DescriptionReply:
    """The layers of a model that the node was asked for."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return chores.take_description(session, request, now=clock.now())


@router.post("/outputs")
def agent_outputs(database: Db, agent: Agent, request: OutputsRequest) -> OutputsReply:
    """Take a manifest of the files that a trial wrote on the node. Safe to repeat."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return chores.take_outputs(session, request, now=clock.now())


@router.post("/work-folders")
def agent_work_folders(
    database: Db, agent: Agent, settings: Config, request: WorkFoldersRequest
) -> WorkFoldersReply:
    """Take which work folders lie on the node. The reply names those that it may delete."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return chores.take_work_folders(session, request, settings=settings, now=clock.now())


def calls_of(http: Request) -> AgentCalls:
    calls: AgentCalls = http.app.state.agent_calls
    return calls


async def read_body(http: Request, max_bytes: int, code: str) -> bytes:
    """Return the body of a request. Raises TooLarge with this code."""
    data = bytearray()
    async for chunk in http.stream():
        data += chunk
        if len(data) > max_bytes:
            raise TooLarge(code, f"At most {max_bytes:,} bytes at a time.")
    return bytes(data)


def require_self(agent: Principal, node_id: str) -> None:
    if agent.node_id != node_id:
        raise Forbidden("auth.forbidden", "This credential belongs to another node.")
