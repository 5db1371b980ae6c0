"""What agents call, under /agent/v1; the messages are those of muster.wire."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from muster.wire import (
    AssignmentsReply,
    DeletionsReply,
    DeletionsRequest,
    DescriptionReply,
    DescriptionRequest,
    LeaseReply,
    LeaseRequest,
    LogsReply,
    NumberedRecord,
    PreflightReply,
    PreflightRequest,
    RecordsReply,
    RecordsRequest,
    RegisterReply,
    RegisterRequest,
)
from muster_server import clock
from muster_server.db.together import Alone, Many, Together
from muster_server.errors import Forbidden, TooLarge
from muster_server.live.polls import PollWatch
from muster_server.security.principal import Principal
from muster_server.services import (
    agents,
    identity,
    many_leases,
    many_polls,
    many_records,
    records,
    registration,
)
from muster_server.services.agents import Fence
from muster_server.settings import Settings
from muster_server.telemetry.process import ServerTelemetry

from .deps import Agent, Config, Db
from .fast_json import FastJsonRoute

router = APIRouter(tags=["agents"], route_class=FastJsonRoute)

MAX_WAIT_S = 30.0
IS_THERE_S = 5.0
"""How often is asked whether the agent of a waiting poll is still connected."""
MAX_LOG_BYTES = 1_048_576

AllocationId = Annotated[str, Path(max_length=64)]


@router.post("/register", operation_id="agent_register")
async def agent_register(
    http: Request, database: Db, agent: Agent, settings: Config, request: RegisterRequest
) -> RegisterReply:
    """Join with a join token, or start a new session with the node's credential."""
    now = clock.now()

    def register(session: Session) -> RegisterReply:
        return registration.register(session, agent, request, settings=settings, now=now)

    def note_clone(node_id: str) -> None:
        with database.transaction() as session:
            registration.note_clone(session, node_id, now)

    try:
        return await _writes(http).do(
            register,
            many=http.app.state.register_many,
            item=registration.Joining(principal=agent, request=request),
        )
    except registration.Cloned as refused:
        await run_in_threadpool(note_clone, refused.node_id)
        raise


@router.post("/lease", operation_id="agent_lease")
async def agent_lease(http: Request, agent: Agent, request: LeaseRequest) -> LeaseReply:
    """Heartbeat. 410: register again."""
    return await renew(http, agent, request)


async def renew(http: Request, agent: Principal, request: LeaseRequest) -> LeaseReply:
    require_self(agent, request.node_id)
    settings: Settings = http.app.state.settings

    def renew_alone(session: Session) -> LeaseReply:
        identity.confirm_agent(session, agent)
        return agents.renew_lease(session, agent, request, settings=settings, now=clock.now())

    return await _writes(http).do(
        renew_alone,
        many=http.app.state.renew_many,
        item=many_leases.Beat(agent=agent, request=request),
    )


@router.get("/assignments", operation_id="agent_assignments", response_model=AssignmentsReply)
async def agent_assignments(
    http: Request,
    agent: Agent,
    node_id: Annotated[str, Query(max_length=64)],
    session_epoch: int,
    index: int = -1,
    wait: Annotated[float, Query(ge=0, le=60)] = 25.0,
) -> Response:
    """The complete set this node should have. Waits while `index` is still its number."""
    reply = await follow(http, agent, Fence(node_id, session_epoch), index=index, wait_s=wait)
    return Response(reply, media_type="application/json")


async def follow(
    http: Request, agent: Principal, fence: Fence, *, index: int, wait_s: float
) -> bytes:
    """wire.AssignmentsReply as JSON."""
    require_self(agent, fence.node_id)
    deadline = time.monotonic() + min(wait_s, MAX_WAIT_S)
    polls: PollWatch = http.app.state.polls
    with polls.listen(fence, index) as listener:
        must_look = True
        while (left := deadline - time.monotonic()) > 0:
            if must_look:
                listener.take()
                reply = await _look(http, agent, fence, unless=index)
                if reply is not None:
                    return reply
            if await http.is_disconnected():
                break
            must_look = await listener.wait(min(left, IS_THERE_S))
    reply = await _look(http, agent, fence, unless=None)
    assert reply is not None
    return reply


async def _look(
    http: Request, agent: Principal, fence: Fence, *, unless: int | None
) -> bytes | None:
    def answer(session: Session) -> bytes | None:
        reply = agents.answer_poll(session, agent, fence, unless=unless)
        return msgspec.json.encode(reply) if reply is not None else None

    reads: Together = http.app.state.reads
    return await reads.do(
        answer,
        many=many_polls.answer,
        item=many_polls.Poll(agent=agent, fence=fence, unless=unless),
    )


@router.post("/allocations/{allocation_id}/records", operation_id="agent_records")
async def agent_records(
    http: Request, agent: Agent, allocation_id: AllocationId, request: RecordsRequest
) -> RecordsReply:
    """Numbered records, in order. What the reply acknowledges is durable. 404: forget it."""
    return await store(http, agent, allocation_id, request)


async def store(
    http: Request, agent: Principal, allocation_id: str, request: RecordsRequest
) -> RecordsReply:
    require_self(agent, request.node_id)

    def store_alone(session: Session) -> many_records.Stored:
        applied: list[NumberedRecord] = []
        identity.confirm_agent(session, agent)
        reply = records.apply_records(
            session, allocation_id, request, now=clock.now(), applied=applied
        )
        return reply, applied

    reply, applied = await _writes(http).do(
        store_alone,
        many=store_many,
        item=many_records.Sent(agent=agent, allocation_id=allocation_id, request=request),
    )
    telemetry: ServerTelemetry = http.app.state.telemetry
    size = http.headers.get("content-length", "")
    telemetry.took_records(applied, int(size) if size.isdigit() else 0)
    return reply


def store_many(
    session: Session, sent: Sequence[many_records.Sent]
) -> list[many_records.Stored | Alone]:
    return many_records.store(session, sent, now=clock.now())


def renewer(settings: Settings) -> Many:
    """Makes app.state.renew_many."""

    def renew_many(session: Session, beats: Sequence[many_leases.Beat]) -> list[LeaseReply | Alone]:
        return many_leases.renew(session, beats, settings=settings, now=clock.now())

    return renew_many


def registrar(settings: Settings) -> Many:
    """Makes app.state.register_many."""

    def register_many(
        session: Session, asked: Sequence[registration.Joining]
    ) -> list[RegisterReply]:
        return registration.register_many(session, asked, settings=settings, now=clock.now())

    return register_many


@router.post("/allocations/{allocation_id}/logs/{local_rank}/{stream}", operation_id="agent_logs")
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
    data = bytearray()
    async for chunk in http.stream():
        data += chunk
        if len(data) > MAX_LOG_BYTES:
            raise TooLarge("agent.log_too_large", f"At most {MAX_LOG_BYTES} bytes at a time.")

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
            data=bytes(data),
            now=clock.now(),
        )

    next_offset = await _writes(http).do(store)
    telemetry: ServerTelemetry = http.app.state.telemetry
    telemetry.took_log(max(0, next_offset - offset))
    return LogsReply(next_offset=next_offset)


@router.post("/preflights", operation_id="agent_preflights")
def agent_preflights(database: Db, agent: Agent, request: PreflightRequest) -> PreflightReply:
    """How a stage of a preflight went on this node."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return agents.take_preflight(session, request, now=clock.now())


@router.post("/deletions", operation_id="agent_deletions")
def agent_deletions(database: Db, agent: Agent, request: DeletionsRequest) -> DeletionsReply:
    """How the deletions of files went that the node was asked for."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return agents.take_deletions(session, request, now=clock.now())


@router.post("/descriptions", operation_id="agent_descriptions")
def agent_descriptions(database: Db, agent: Agent, request: DescriptionRequest) -> DescriptionReply:
    """The layers of a model that the node was asked for."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return agents.take_description(session, request, now=clock.now())


def _writes(http: Request) -> Together:
    writes: Together = http.app.state.writes
    return writes


def require_self(agent: Principal, node_id: str) -> None:
    if agent.node_id != node_id:
        raise Forbidden("auth.forbidden", "This credential belongs to another node.")
