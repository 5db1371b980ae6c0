"""The controller process: one leader runs the loops, any number of others stand by.

Nothing is kept in memory that matters: killed at any moment, the next leader goes on from the
tables. Hints (topic "loops") only make it react sooner than its interval.
"""

from __future__ import annotations

import datetime as dt
import functools
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import structlog
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from muster.launch import lifeline, traces
from muster_server import clock, longlived, parts
from muster_server.db.deleting import delete_all
from muster_server.db.engine import Database
from muster_server.db.failures import is_unavailable, is_undefined
from muster_server.db.leases import (
    Lease,
    LeaseLost,
    acquire,
    holder_of,
    note_passes,
    release,
    require,
    stamp,
)
from muster_server.db.tables import SchemaMismatch, require_tables
from muster_server.domain.lifecycle import LifecyclePolicy
from muster_server.live.publisher import Publisher
from muster_server.live.waker import HintWaker
from muster_server.security.encryption import key_ring_or_none
from muster_server.services.core.liveness import CONTROLLER_LEASE
from muster_server.services.core.retention import delete_expired
from muster_server.services.experiments import deletion
from muster_server.services.lifecycle import load_lifecycle_snapshot
from muster_server.services.scheduling.snapshot import scheduler_policy
from muster_server.services.secrets import audit_seals
from muster_server.settings import Settings
from muster_server.telemetry.process import ControllerTelemetry

from . import leader as holders
from .base import Pass
from .batch_systems import choosing
from .budgets import BudgetLoop
from .cleaning import CleaningLoop
from .dependencies import DependencyLoop
from .diagnoses import DiagnosisLoop
from .guards import GuardLoop
from .heartbeats import Sightings
from .lifecycle import LifecycleLoop, lifecycle_policy
from .maintenance import MaintenanceLoop, ReservationLoop
from .providers import PilotWorker, ProviderLoop
from .scaling import ScalingLoop
from .scheduler import SchedulerLoop
from .schedules import ScheduleLoop
from .search import RoomLoop, SearchLoop
from .stuck import StuckLoop

log = structlog.get_logger(__name__)

MAX_ROUNDS = 25
"""Number of rounds in a row without checking the lease; the rest is left to the next tick."""
CLEAR_S = 0.5
"""Seconds that one tick deletes rows of deleted objects; the rest is left to the next ticks."""
RETENTION_EVERY = dt.timedelta(hours=1)
SEAL_EVERY = dt.timedelta(seconds=10)
"""How often records of the audit trail are sealed."""


class Controller:
    """The loops under one leader lease. Not thread-safe: one thread calls `tick`."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        policy: LifecyclePolicy | None = None,
        holder: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        telemetry: ControllerTelemetry | None = None,
    ) -> None:
        """Create the controller; `monotonic` is a clock that nobody can set, in seconds."""
        self.database = database
        self.holder = holder or holders.own_name()
        self.lease: Lease | None = None
        self.telemetry = telemetry or ControllerTelemetry()
        self._ttl = dt.timedelta(seconds=settings.controller_lease_s)
        self._monotonic = monotonic
        policy = policy or lifecycle_policy(settings)
        sightings = Sightings(monotonic)
        scheduler = SchedulerLoop(database, scheduler_policy(settings), lambda: providers.told)
        providers = ProviderLoop(database, lambda: scheduler.waiting)
        silence_ended_at = functools.partial(
            sightings.silence_ended_at, away_after_s=policy.away_after_s
        )
        self._search = SearchLoop(database)
        self._loops: tuple[Pass, ...] = (
            GuardLoop(database, silence_ended_at=silence_ended_at),
            LifecycleLoop(database, policy, sightings),
            self._search,
            BudgetLoop(database),
            DependencyLoop(database),
            MaintenanceLoop(database),
            ReservationLoop(database),
            ScheduleLoop(database),
            scheduler,
            providers,
            CleaningLoop(database),
            DiagnosisLoop(database),
            *(loop for part in parts.installed() for loop in part.loops(database, settings)),
            ScalingLoop(database),
            StuckLoop(
                database,
                after_s=settings.stuck_after_s,
                silence_ended_at=silence_ended_at,
            ),
        )
        self._occasions = select(
            *(loop.occasion.label(loop.name) for loop in self._loops if loop.occasion is not None)
        )
        self._rooms = RoomLoop(database, monotonic)
        self._retained_at: dt.datetime | None = None
        self._settings = settings
        self._sealed_at: dt.datetime | None = None
        self._passed_at: dt.datetime | None = None
        self._failing_loop = ""
        self._is_ready = False
        """What a leader reads has been read once."""
        self._leader = self._watched = ""
        self._scheduler = scheduler
        self._others_stamp: tuple[int, dt.datetime] | None = None
        self._others_stamp_at = 0.0

    def tick(self, clock_now: Callable[[], dt.datetime] = clock.now) -> bool:
        """Lead if possible, and work until nothing is left to decide. Return False if another
        process leads."""
        for _ in range(MAX_ROUNDS):
            now = clock_now()
            if not self._lead(now):
                self._stand_by(now)
                return False
            assert self.lease is not None
            try:
                with traces.span("pass"):
                    num = self._passes(self.lease, now)
            except LeaseLost:
                log.warning("leadership_lost", holder=self.holder, epoch=self.lease.epoch)
                self.lease = None
                return False
            self._passed_at, self._failing_loop = now, ""
            if num == 0:
                break
        self._scheduler.settle()
        deletion.clear(self.database, for_s=CLEAR_S)
        self._retain(clock_now())
        self._seal(clock_now())
        return True

    def _stand_by(self, now: dt.datetime) -> None:
        """Read once what a leader reads: putting the statements together anew would take longer than
        the first pass does otherwise."""
        if self._is_ready:
            return
        with self.database.read() as session:
            session.execute(self._occasions)
            load_lifecycle_snapshot(session, leader_since=now, now=now)
            self._scheduler.prepare(session, now=now)
        self._is_ready = True
        log.info("standing_by", leader=self._leader)

    def watch_leader(self, on_end: Callable[[], None]) -> None:
        """Call `on_end` from another thread when the leader found by the last tick ends, as soon as that
        can be known."""
        if self._leader != self._watched:
            self._watched = self._leader
            holders.watch(self._leader, on_end)

    def _passes(self, lease: Lease, now: dt.datetime) -> int:
        """Work through every loop that has an occasion once; return how many decisions took effect."""
        self._failing_loop = "occasions"  # and then each loop, unless all of them end well
        with self.database.read() as session:
            occasions = session.execute(self._occasions).one()._mapping
        total = 0
        for loop in self._loops:
            self._failing_loop = loop.name
            if not occasions.get(loop.name, True):
                loop.rest()
                continue
            with traces.span(loop.name), self.telemetry.timed(loop.name) as count:
                num = loop.run(lease=lease, now=now)
                count(num)
            total += num
        self._failing_loop = "rooms"
        # Only when nothing is left to decide: whoever leads next then finds as much room.
        return total or self._rooms.run(now)

    def resign(self) -> None:
        """Let a follower take over at once instead of after the lease has expired."""
        if self.lease is not None:
            with self.database.transaction() as session:
                release(session, self.lease, now=clock.now())
            self.lease = None

    def close(self) -> None:
        """End what works beside the loops."""
        self._search.worker.close()

    def _lead(self, now: dt.datetime) -> bool:
        with self.database.transaction() as session:
            lease = acquire(
                session,
                name=CONTROLLER_LEASE,
                holder=self.holder,
                ttl=self._ttl,
                now=now,
                is_abandoned=self.lease is None and self._is_abandoned(session),
            )
            if lease is not None:
                if self.lease is None or self.lease.epoch != lease.epoch:
                    self._passed_at, self._failing_loop = None, ""
                note_passes(
                    session, lease, passed_at=self._passed_at, failing_loop=self._failing_loop
                )
        if lease is not None and (self.lease is None or self.lease.epoch != lease.epoch):
            log.info("leading", holder=self.holder, epoch=lease.epoch)
        elif lease is None and self.lease is not None:
            log.warning("leadership_lost", holder=self.holder, epoch=self.lease.epoch)
        self.lease = lease
        return lease is not None

    def _is_abandoned(self, session: Session) -> bool:
        """Return whether the leader has ended for certain, or has not renewed its lease for longer
        than that holds, whatever the clocks of the two machines show."""
        leader = holder_of(session, CONTROLLER_LEASE)
        self._leader = leader or ""
        if leader is not None and holders.has_ended(leader):
            return True
        now_stamp, at = stamp(session, CONTROLLER_LEASE), self._monotonic()
        if now_stamp != self._others_stamp:
            self._others_stamp, self._others_stamp_at = now_stamp, at
        return now_stamp is not None and at - self._others_stamp_at > self._ttl.total_seconds()

    def _retain(self, now: dt.datetime) -> None:
        if self._retained_at is None or now - self._retained_at >= RETENTION_EVERY:
            delete_all(
                self.database,
                lambda session, limit: delete_expired(session, now, limit),
                budget_s=CLEAR_S,
            )
            self._retained_at = now

    def _seal(self, now: dt.datetime) -> None:
        lease = self.lease
        if lease is not None and (self._sealed_at is None or now - self._sealed_at >= SEAL_EVERY):
            with self.database.read() as session:
                is_due = audit_seals.count_unsealed(session) > 0
            if is_due:
                with suppress(LeaseLost), self.database.transaction() as session:
                    require(session, lease)
                    keys = key_ring_or_none(self._settings)  # they may be replaced meanwhile
                    audit_seals.seal_records(session, keys=keys, now=now)
            self._sealed_at = now


def run_until(
    controller: Controller, stop: threading.Event, waker: HintWaker, *, interval_s: float
) -> None:
    """Tick until `stop` is set. A database that is away is waited for; anything else that goes
    wrong is logged, and the next tick tries again. Raises SchemaMismatch when the database does not
    have this version's tables: at the start, or after something looked for one in vain."""
    has_tables = False
    while not stop.is_set():
        try:
            if not has_tables:
                require_tables(controller.database)
                has_tables = True
            is_leading = controller.tick()
            controller.telemetry.ticked(is_leading=is_leading)
            if not is_leading:
                controller.watch_leader(waker.wake)
        except SchemaMismatch:
            raise
        except Exception as error:
            if is_unavailable(error):
                controller.telemetry.tick_failed("database")
                log.warning("database_unavailable", error=str(error).splitlines()[0])
            else:
                controller.telemetry.tick_failed("other")
                log.exception("tick_failed")
                has_tables = not is_undefined(error)
        if not stop.is_set():
            waker.wait(interval_s)
    try:
        controller.resign()
    except DBAPIError:
        log.info("lease_left_to_expire")


def run(settings: Settings, telemetry: ControllerTelemetry | None = None) -> None:
    """The controller process: blocks until SIGTERM, SIGINT or the end of `muster up`.

    Raises SchemaMismatch when the database does not have this version's tables.
    """
    stop = threading.Event()
    redis_url = settings.resolved_redis_url()
    publisher = Publisher(redis_url) if redis_url is not None else None
    database = Database(settings.resolved_database_url(), on_commit=publisher)
    telemetry = telemetry or ControllerTelemetry()
    telemetry.watch_pool(database)
    waker = HintWaker(redis_url, "loops")

    def end(*_: object) -> None:
        stop.set()
        waker.wake()

    lifeline.watch(end)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
    longlived.settle()
    controller = Controller(database, settings, telemetry=telemetry)
    pilots = PilotWorker(
        database,
        lambda: controller.lease,
        system_of=functools.partial(choosing.system_of, kubeconfig=settings.kubeconfig),
    )
    threading.Thread(target=pilots.run, args=(stop,), name="pilots", daemon=True).start()
    for part in parts.installed():
        for name, work in part.workers(database, lambda: controller.lease, settings).items():
            threading.Thread(target=work, args=(stop,), name=name, daemon=True).start()
    try:
        run_until(
            controller,
            stop,
            waker,
            interval_s=settings.pass_interval_s,
        )
    finally:
        controller.close()
        waker.close()
        if publisher is not None:
            publisher.close()
        database.dispose()
