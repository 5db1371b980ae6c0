"""What agents call thousands of times a minute, each call as one of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy.orm import Session

from muster.wire import LeaseReply, RegisterReply
from muster_server import clock, parts
from muster_server.db.batching import Batcher, Handler, Reply, Request
from muster_server.errors import MusterError
from muster_server.services.nodes import assignments, leases, records, registration
from muster_server.services.nodes.assignments import AssignmentsCall
from muster_server.services.nodes.leases import LeaseCall
from muster_server.services.nodes.records import RecordsCall, StoredRecords
from muster_server.services.nodes.registration import RegisterCall
from muster_server.settings import Settings


class AgentCalls:
    """Submits calls of agents, and serves batches of them. Lives as long as the process."""

    def __init__(self, *, writes: Batcher, reads: Batcher, settings: Settings) -> None:
        self._writes = writes
        self._reads = reads
        self._settings = settings

    async def register(self, call: RegisterCall) -> RegisterReply:
        return await self._writes.submit(self._register, call)

    async def renew(self, call: LeaseCall) -> LeaseReply:
        return await self._writes.submit(self._renew, call, key=call.request.node_id)

    async def store(self, call: RecordsCall) -> StoredRecords:
        return await self._writes.submit(
            self._store, call, key=call.allocation_id, shares_rows=call.shares_rows
        )

    async def answer(self, call: AssignmentsCall) -> bytes | None:
        return await self._reads.submit(assignments.answer, call)

    async def share(self, handler: Handler[Request, Reply], request: Request) -> Reply:
        """Return the reply of a handler, which locks trials in the order in which they are asked for."""
        return await self._writes.submit(handler, request, shares_rows=True)

    async def write(self, work: Callable[[Session], Reply]) -> Reply:
        """Return what `work` returns, in a transaction that others may share."""
        return await self._writes.run(work)

    def _register(
        self, session: Session, calls: Sequence[RegisterCall]
    ) -> Sequence[RegisterReply | MusterError]:
        return registration.register(session, calls, settings=self._settings, now=clock.now())

    def _renew(
        self, session: Session, calls: Sequence[LeaseCall]
    ) -> Sequence[LeaseReply | MusterError]:
        return leases.renew(session, calls, settings=self._settings, now=clock.now())

    def _store(
        self, session: Session, calls: Sequence[RecordsCall]
    ) -> Sequence[StoredRecords | MusterError]:
        now = clock.now()
        replies = records.store(session, calls, now=now)
        for part in parts.installed():
            replies = [
                one if isinstance(one, MusterError) else part.answered(session, call, one, now)
                for call, one in zip(calls, replies, strict=True)
            ]
        return replies
