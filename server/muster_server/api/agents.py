"""What agents call, under /agent/v1; the messages are those of muster.wire."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from muster.wire import (
    AssignmentsReply,
    DeletionsReply,
    DeletionsRequest,
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
from muster_server.db.together import Together
from muster_server.errors import Forbidden, TooLarge
from muster_server.live.polls import PollWatch
from muster_server.security.principal import Principal
from muster_server.services import agents, identity, records, registration
from muster_server.services.agents import Fence
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
        return await _writes(http).do(register)
    except registration.Cloned as refused:
        await run_in_threadpool(note_clone, refused.node_id)
        raise


@router.post("/lease", operation_id="agent_lease")
async def agent_lease(
    http: Request, agent: Agent, settings: Config, request: LeaseRequest
) -> LeaseReply:
    """Heartbeat. 410: register again."""
    _require_self(agent, request.node_id)

    def renew(session: Session) -> LeaseReply:
        identity.confirm_agent(session, agent)
        return agents.renew_lease(session, agent, request, settings=settings, now=clock.now())

    return await _writes(http).do(renew)


@router.get("/assignments", operation_id="agent_assignments")
async def agent_assignments(
    http: Request,
    agent: Agent,
    node_id: Annotated[str, Query(max_length=64)],
    session_epoch: int,
    index: int = -1,
    wait: Annotated[float, Query(ge=0, le=60)] = 25.0,
) -> AssignmentsReply:
    """The complete set this node should have. Waits while `index` is still its number."""
    _require_self(agent, node_id)
    fence = Fence(node_id, session_epoch)
    deadline = time.monotonic() + min(wait, MAX_WAIT_S)

    def answer(session: Session, *, unless: int | None) -> AssignmentsReply | None:
        return agents.answer_poll(session, agent, fence, unless=unless)

    polls: PollWatch = http.app.state.polls
    reads: Together = http.app.state.reads
    with polls.listen(fence, index) as listener:
        must_look = True
        while (left := deadline - time.monotonic()) > 0:
            if must_look:
                listener.take()
                reply = await reads.do(partial(answer, unless=index))
                if reply is not None:
                    return reply
            if await http.is_disconnected():
                break
            must_look = await listener.wait(min(left, IS_THERE_S))
    reply = await reads.do(partial(answer, unless=None))
    assert reply is not None
    return reply


@router.post("/allocations/{allocation_id}/records", operation_id="agent_records")
async def agent_records(
    http: Request, agent: Agent, allocation_id: AllocationId, request: RecordsRequest
) -> RecordsReply:
    """Numbered records, in order. What the reply acknowledges is durable. 404: forget it."""
    _require_self(agent, request.node_id)

    def store(session: Session) -> tuple[RecordsReply, list[NumberedRecord]]:
        applied: list[NumberedRecord] = []
        identity.confirm_agent(session, agent)
        reply = records.apply_records(
            session, allocation_id, request, now=clock.now(), applied=applied
        )
        return reply, applied

    reply, applied = await _writes(http).do(store)
    telemetry: ServerTelemetry = http.app.state.telemetry
    size = http.headers.get("content-length", "")
    telemetry.took_records(applied, int(size) if size.isdigit() else 0)
    return reply


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
    _require_self(agent, node_id)
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
    _require_self(agent, request.node_id)
    with database.transaction() as session:
        return agents.take_preflight(session, request, now=clock.now())


@router.post("/deletions", operation_id="agent_deletions")
def agent_deletions(database: Db, agent: Agent, request: DeletionsRequest) -> DeletionsReply:
    """How the deletions of files went that the node was asked for."""
    _require_self(agent, request.node_id)
    with database.transaction() as session:
        return agents.take_deletions(session, request, now=clock.now())


def _writes(http: Request) -> Together:
    writes: Together = http.app.state.writes
    return writes


def _require_self(agent: Principal, node_id: str) -> None:
    if agent.node_id != node_id:
        raise Forbidden("auth.forbidden", "This credential belongs to another node.")
