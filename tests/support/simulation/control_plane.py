"""The server's side: one database, the API, and controllers that die, freeze and come back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from greenlet import getcurrent, greenlet
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from muster import wire
from muster_agent.client import RequestRefused, ServerUnreachable, SessionSuperseded
from muster_server.db.engine import Database
from muster_server.db.models import NodeRow
from muster_server.errors import MusterError, NotSignedIn
from muster_server.loops.runner import Controller
from muster_server.security.principal import Principal
from muster_server.services.core import liveness
from muster_server.services.core.accounts import identity
from muster_server.services.nodes import assignments, leases, records, registration
from muster_server.services.nodes.assignments import AssignmentsCall
from muster_server.services.nodes.leases import LeaseCall
from muster_server.services.nodes.records import RecordsCall
from muster_server.services.nodes.registration import RegisterCall
from muster_server.services.nodes.sessions import Fence
from muster_server.settings import Settings

from .clock import HostClock
from .network import Respond

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")

HINT_DELAY_S = 0.2
POLL_S = 12.0
MAX_WAIT_S = 25.0


class Killed(BaseException):
    """The process that was doing this is no more."""


class SimulatedDatabase(Database):
    """The one durable thing. Between two transactions anything may happen to its user."""

    world: World | None = None
    is_away = False
    """Nobody reaches it; what it holds, it keeps."""

    def connect_raw(self) -> Any:
        """The SQLite connection that everything in this process shares."""
        return self.engine.raw_connection().driver_connection

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        if self.world is not None:
            self.world.before_transaction()
        self._refuse_while_away()
        with super().transaction() as session:
            yield session
        if self.world is not None:
            self.world.after_transaction()

    @contextmanager
    def read(self) -> Iterator[Session]:
        if self.world is not None:
            self.world.before_transaction()
        self._refuse_while_away()
        with super().read() as session:
            yield session

    def _refuse_while_away(self) -> None:
        if self.is_away:
            # As the driver says it: `db.failures` tells by this that it is not a mistake.
            raise OperationalError("", None, psycopg.OperationalError("it is away"))


class ApiServer:
    """What agents call. Runs every request in a transaction of its own, as the routes do."""

    def __init__(
        self, world: World, database: SimulatedDatabase, settings: Settings, index: int
    ) -> None:
        self.world = world
        self.database = database
        self.name = f"api-{index + 1}"
        self.settings = settings.model_copy(update={"server_name": self.name})
        self.clock = HostClock(world.loop.time)
        self.is_up = True
        self.is_frozen = False
        self._held: list[Callable[[], None]] = []
        """Requests that arrived while it was frozen."""
        self._started_at = self.clock.wall()
        self._polls: dict[str, list[_LongPoll]] = {}
        world.loop.call_later(0.0, self._stamp)

    @property
    def is_serving(self) -> bool:
        return self.is_up and not self.is_frozen and not self.database.is_away

    def _stamp(self) -> None:
        """As the real one does, by the way that heartbeats take."""
        if self.is_serving:
            with self.database.transaction() as session:
                liveness.server_hears(
                    session, self.name, started_at=self._started_at, now=self.clock.wall()
                )
        self.world.loop.call_later(self.settings.heartbeat_s, self._stamp)

    def crash(self) -> None:
        """Whoever waits for an answer sees the connection end."""
        self.is_up = False
        for polls in self._polls.values():
            for poll in polls:
                poll.respond(ServerUnreachable("connection reset"))
                poll.close()
        self._polls.clear()

    def start(self) -> None:
        self.is_up = True
        self._started_at = self.clock.wall()

    def freeze(self) -> None:
        """It answers nothing, and what arrives waits."""
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        held, self._held = self._held, []
        for take in held:
            take()
        for node_id in list(self._polls):
            self.hear(frozenset([f"assignments:{node_id}"]))

    def answer(self, respond: Respond, do: Callable[[Session], Any]) -> None:
        """Answer with the result of `do`, or with the error its caller would see."""
        if not self.is_up:
            respond(ServerUnreachable("connection refused"))
            return
        if self.is_frozen:
            self._held.append(lambda: self.answer(respond, do))
            return
        respond(self._outcome(do))

    def _outcome(self, do: Callable[[Session], Any]) -> Any:
        try:
            with self.database.transaction() as session:
                return do(session)
        except MusterError as error:
            return _as_seen_by_client(error)
        except OperationalError:
            return ServerUnreachable("503 database.unavailable")
        except Exception as error:  # the route would answer 500, for ever
            self.world.violation(f"the API failed: {type(error).__name__}: {error}")
            return ServerUnreachable("500 internal error")

    # ---- the agents' routes

    def register(self, respond: Respond, request: wire.RegisterRequest, token: str) -> None:
        def do(session: Session) -> wire.RegisterReply:
            call = RegisterCall(principal=self._caller(session, token), request=request)
            now = self.clock.wall()
            return _only(registration.register(session, [call], settings=self.settings, now=now))

        self.answer(respond, do)

    def lease(self, respond: Respond, request: wire.LeaseRequest, token: str) -> None:
        def do(session: Session) -> wire.LeaseReply:
            call = LeaseCall(agent=self._caller(session, token), request=request)
            now = self.clock.wall()
            return _only(leases.renew(session, [call], settings=self.settings, now=now))

        self.answer(respond, do)

    def _caller(self, session: Session, token: str) -> Principal:
        found = identity.principal_of_bearer(session, token, now=self.clock.wall())
        if found is None:
            raise NotSignedIn("auth.not_signed_in", "Not valid here.")
        return found

    def records(self, respond: Respond, allocation_id: str, request: wire.RecordsRequest) -> None:
        def do(session: Session) -> wire.RecordsReply:
            agent = _agent_of(session, request.node_id)
            call = RecordsCall(agent=agent, allocation_id=allocation_id, request=request)
            return _only(records.store(session, [call], now=self.clock.wall())).reply

        self.answer(respond, do)

    def logs(self, respond: Respond, allocation_id: str, fence: Fence, **fields: Any) -> None:
        self.answer(
            respond,
            lambda session: records.append_log(
                session, allocation_id, fence, now=self.clock.wall(), **fields
            ),
        )

    def assignments(self, respond: Respond, fence: Fence, index: int | None) -> None:
        """A long poll, unless `index` is None or not the present one."""
        if not self.is_up:
            respond(ServerUnreachable("connection refused"))
            return
        if self.is_frozen:
            self._held.append(lambda: self.assignments(respond, fence, index))
            return
        poll = _LongPoll(self, respond, fence, index)
        self._polls.setdefault(fence.node_id, []).append(poll)
        poll.look()

    def hear(self, topics: frozenset[str]) -> None:
        """A hint of some process that committed something."""
        if self.is_frozen:
            return
        for topic in sorted(topics):
            if topic.startswith("assignments:"):
                for poll in list(self._polls.get(topic.removeprefix("assignments:"), ())):
                    poll.look()

    def forget(self, poll: _LongPoll) -> None:
        polls = self._polls.get(poll.fence.node_id, [])
        if poll in polls:
            polls.remove(poll)


class _LongPoll:
    """A waiting request for a node's desired set."""

    def __init__(
        self, server: ApiServer, respond: Respond, fence: Fence, index: int | None
    ) -> None:
        self.server = server
        self.respond = respond
        self.fence = fence
        self.index = index
        loop = server.world.loop
        self._gives_up_at_s = loop.time() + (0.0 if index is None else MAX_WAIT_S)
        self._timer = loop.call_later(0.0, lambda: None)

    def look(self) -> None:
        """Answer if there is something new, or if it is time; else look again later."""
        self._timer.cancel()
        loop = self.server.world.loop
        if self.server.is_frozen:
            return  # it looks again when the server goes on
        left_s = self._gives_up_at_s - loop.time()
        try:
            with self.server.database.read() as session:
                call = AssignmentsCall(
                    agent=_agent_of(session, self.fence.node_id),
                    fence=self.fence,
                    unless=self.index if left_s > 1e-6 else None,
                )
                text = _only(assignments.answer(session, [call]))
            if text is None:
                self._timer = loop.call_later(min(left_s, POLL_S), self.look)
                return
            answer: Any = wire.loads(wire.AssignmentsReply, text)
        except MusterError as error:
            answer = _as_seen_by_client(error)
        except OperationalError:
            answer = ServerUnreachable("503 database.unavailable")
        self.server.forget(self)
        self.respond(answer)

    def close(self) -> None:
        self._timer.cancel()


def _only(outcomes: Sequence[T | MusterError]) -> T:
    """Return the one reply of a batch of one, or raise its error."""
    (outcome,) = outcomes
    if isinstance(outcome, MusterError):
        raise outcome
    return outcome


def _agent_of(session: Session, node_id: str) -> Principal:
    """The agent of a node that presents its credential."""
    present = session.scalar(select(NodeRow.credential_hash).where(NodeRow.id == node_id))
    return Principal(
        kind="agent", name=node_id, role="agent", node_id=node_id, credential_hash=present or ""
    )


def _as_seen_by_client(error: MusterError) -> Exception:
    """The same sorting as muster_agent.client does of status codes."""
    if error.status == 410:
        return SessionSuperseded(error.message)
    if error.status in (408, 425, 429) or error.status >= 500:
        return ServerUnreachable(f"{error.status} {error.code}: {error.message}")
    return RequestRefused(error.status, error.code, error.message)


class SimulatedController:
    """A controller process. Ticks run in a greenlet, which can be left waiting between two
    transactions, as the operating system may leave any process, and later goes on or is killed."""

    def __init__(self, world: World, index: int, rng: random.Random) -> None:
        self.world = world
        self.index = index
        self.clock = HostClock(world.loop.time)
        self.is_up = False
        self.num_lives = 0
        self._rng = rng
        self._controller: Controller | None = None
        self._work: greenlet | None = None
        """A tick that was left in the middle."""
        self._timer = world.loop.call_later(0.0, lambda: None)
        self._trouble: tuple[str, float, int] | None = None
        """("kill" or "freeze", for so long, after so many transactions)."""

    def start(self) -> None:
        self.num_lives += 1
        self.is_up = True
        self._trouble = None
        self._controller = Controller(
            self.world.database,
            self.world.settings,
            holder=f"controller-{self.index}.{self.num_lives}",
            monotonic=self.clock.boot_s,
        )
        self.world.trace(self.name, "starts")
        self._schedule(self._rng.uniform(0, 1))

    @property
    def name(self) -> str:
        return f"controller-{self.index}"

    def hear(self) -> None:
        """A hint: tick soon."""
        if self.is_up and self._work is None:
            loop = self.world.loop
            if self._timer.when() > loop.time() + HINT_DELAY_S:
                self._schedule(HINT_DELAY_S)

    def plan_trouble(self, kind: str, duration_s: float, num_transactions: int) -> None:
        """Die or freeze, when so many more transactions have been made."""
        if not self.is_up:
            return
        if kind == "kill" and num_transactions == 0:
            self.kill(duration_s)
        else:
            self._trouble = (kind, duration_s, num_transactions)

    def kill(self, down_s: float) -> None:
        self.is_up = False
        self._timer.cancel()
        self.world.trace(self.name, f"is killed, for {down_s:.1f} s")
        work, self._work = self._work, None
        if work is not None and work is not getcurrent():
            work.throw(Killed)
        self.world.loop.call_later(down_s, self._revive)

    def end(self) -> None:
        """The history is over."""
        self.is_up = False
        self._timer.cancel()
        work, self._work = self._work, None
        if work is not None:
            work.throw(Killed)

    def _revive(self) -> None:
        if not self.is_up:
            self.start()

    def _schedule(self, delay_s: float) -> None:
        self._timer.cancel()
        self._timer = self.world.loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        if self.is_up and self._work is None:
            self._work = greenlet(self._run)
            self._work.switch()

    def _run(self) -> None:
        assert self._controller is not None
        me = getcurrent()
        try:
            self._controller.tick(self.clock.wall)
        except Killed:
            return
        except OperationalError:
            self.world.trace(self.name, "finds no database")
        except Exception as error:
            self.world.violation(f"{self.name} failed: {type(error).__name__}: {error}")
        if self._work is me:
            self._work = None
            interval_s = self.world.settings.pass_interval_s
            self._schedule(interval_s * self._rng.uniform(0.8, 1.2))

    # ---- called by the database, in the greenlet of a tick

    @property
    def is_working(self) -> bool:
        return self._work is getcurrent()

    def before_transaction(self) -> None:
        """Where a tick may be interrupted."""
        pause_s = 0.0
        if self._trouble is not None:
            kind, duration_s, num_left = self._trouble
            if num_left > 0:
                self._trouble = (kind, duration_s, num_left - 1)
            else:
                self._trouble = None
                if kind == "kill":
                    self.kill(duration_s)
                    raise Killed
                pause_s = duration_s
                self.world.trace(self.name, f"freezes for {duration_s:.1f} s")
        elif self._rng.random() < self.world.interleaving:
            pause_s = self._rng.choice([0.0, 0.01, 0.1, 0.5])
        else:
            return
        work = getcurrent()
        self.world.loop.call_later(pause_s, self._go_on, work)
        outside = work.parent
        assert outside is not None
        outside.switch()

    def _go_on(self, work: greenlet) -> None:
        if self._work is not None and self._work is work:
            self._work.switch()
