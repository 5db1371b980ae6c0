"""The loop that asks for pilots, and the worker that speaks with batch systems.

Deciding takes milliseconds and is part of every pass. Batch systems may take seconds or not answer at all,
so a thread of its own speaks with them, and writes down what it is about to do before it does it.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import update
from sqlalchemy.orm import Session

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.leases import Lease, LeaseLost, require
from muster_server.db.models import PilotRow
from muster_server.domain.messages import Message
from muster_server.domain.providers import (
    Pilot,
    PilotChange,
    PilotState,
    ProviderOptions,
    follow,
    plan_pilots,
    why_keep_off,
)
from muster_server.domain.scheduling.resources import Owner
from muster_server.domain.scheduling.views import QueuedTrial
from muster_server.services.core.writes import Outdated
from muster_server.services.providers import applying
from muster_server.services.providers.loading import (
    ANY_PROVIDER,
    ProviderSnapshot,
    load_providers,
)
from muster_server.services.providers.management import drop_if_empty

from .base import Loop
from .batch_systems import choosing
from .batch_systems.base import (
    BatchSystem,
    BatchSystemUnreachable,
    Listing,
    PilotJob,
    SubmissionRefused,
    SubmitsMany,
)

log = structlog.get_logger(__name__)

LOOK_SOON_S = 5.0
LOOK_S = 30.0
"""How often a batch system is asked for its jobs, with one question for all pilots: while something is
awaited of it, and otherwise. Sites ban those who ask more often."""
SUBMIT_AT_ONCE = 16
CANCEL_AGAIN_S = 30.0
REST_S = 1.0


@dataclass(frozen=True, kw_only=True)
class AskForPilots:
    pool: str
    num: int
    owner: Owner | None = None
    """The one attempt that they are for; None for any."""


@dataclass(frozen=True, kw_only=True)
class CancelPilot:
    pilot_id: str
    before: PilotState


class ProviderLoop(Loop[list[ProviderSnapshot], AskForPilots | CancelPilot]):
    name = "providers"
    occasion = ANY_PROVIDER

    def __init__(self, database: Database, waiting: Callable[[], Sequence[QueuedTrial]]) -> None:
        """Create the loop; `waiting` returns the trials that the last pass of the scheduler left
        waiting."""
        super().__init__(database)
        self._waiting = waiting
        self.told: Mapping[int, Message] = {}
        """Trial → what the provider of its pool does for it."""

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> list[ProviderSnapshot]:
        return load_providers(session, self._waiting(), now=now)

    def rest(self) -> None:
        self.told = {}

    def decide(
        self, snapshot: list[ProviderSnapshot], *, now: dt.datetime
    ) -> Sequence[AskForPilots | CancelPilot]:
        told: dict[int, Message] = {}
        decisions: list[AskForPilots | CancelPilot] = []
        for one in snapshot:
            plan = plan_pilots(one.provider, one.gangs, one.pilots, now=now)
            told |= {**plan.told, **one.held}
            decisions += [
                AskForPilots(pool=one.pool, num=num, owner=owner)
                for owner, num in plan.owners.items()
            ]
            if plan.submit and not plan.owners:
                decisions.append(AskForPilots(pool=one.pool, num=plan.submit))
            states = {pilot.id: pilot.state for pilot in one.pilots}
            decisions += [
                CancelPilot(pilot_id=id_, before=states[id_])
                for id_ in plan.cancel
                if states[id_] is not PilotState.SUBMITTING
            ]
        self.told = told
        return decisions

    def apply(
        self,
        session: Session,
        decision: AskForPilots | CancelPilot,
        *,
        lease: Lease,
        now: dt.datetime,
    ) -> None:
        match decision:
            case AskForPilots():
                applying.ask_for_pilots(
                    session, decision.pool, decision.num, decision.owner, now=now
                )
            case CancelPilot():
                applying.cancel(session, decision.pilot_id, decision.before, now=now)

    def describe(self, decision: AskForPilots | CancelPilot) -> tuple[Hashable, str]:
        match decision:
            case AskForPilots():
                subject = f"pool:{decision.pool}"
                if decision.owner is not None:
                    subject += f":{decision.owner[0]}"
                return subject, f"{decision.num} pilots are asked for"
            case CancelPilot():
                return f"pilot:{decision.pilot_id}", "nothing waits for it"


class PilotWorker:
    """Speaks with batch systems for the controller that leads. Not thread-safe: one thread calls
    `run_once`."""

    def __init__(
        self,
        database: Database,
        lease: Callable[[], Lease | None],
        *,
        system_of: Callable[[ProviderOptions], BatchSystem] = choosing.system_of,
    ) -> None:
        """Create the worker; `lease` returns the controller's present lease, None while it does not
        lead."""
        self._database = database
        self._lease = lease
        self._system_of = system_of
        self._looked_at: dict[str, dt.datetime] = {}

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set. What goes wrong is logged, and tried again."""
        while not stop.wait(REST_S):
            try:
                self.run_once(clock.now())
            except LeaseLost:
                continue
            except Exception:
                log.exception("providers_failed")

    def run_once(self, now: dt.datetime) -> None:
        """Look after every provider once. Raises LeaseLost if another process leads."""
        if self._lease() is None:
            return
        with self._database.read() as session:
            found = load_providers(session, now=clock.now())
        for one in found:
            self._look_after(one, self._system_of(one.options), now)

    def _look_after(self, one: ProviderSnapshot, system: BatchSystem, now: dt.datetime) -> None:
        if not one.provider.max_pilots and not one.pilots:
            self._write(lambda s: drop_if_empty(s, one.pool))
            return
        if self._is_due(one, now):
            self._looked_at[one.pool] = now
            listing: Listing | None = None
            problem = notice = ""
            try:
                listing = system.look(one.pilots)
                notice = listing.notice
            except BatchSystemUnreachable as error:
                log.warning("engine_unreachable", pool=one.pool, error=str(error))
                problem = str(error)
            self._write(
                lambda s: applying.note_listed(s, one.pool, problem, notice=notice, now=now)
            )
            for pilot in one.pilots:
                self._follow(pilot, listing, now)
            self._write(lambda s: applying.note_success(s, one.pool, now=now))
            self._cancel(one, system, listing, now)
        wanted = [pilot for pilot in one.pilots if pilot.state is PilotState.WANTED]
        if isinstance(system, SubmitsMany) and len(wanted) > 1:
            self._submit_many(one, wanted[:SUBMIT_AT_ONCE], system, now)
            return
        for pilot in wanted[:SUBMIT_AT_ONCE]:
            if not self._submit(one, pilot, system, now):
                break

    def _is_due(self, one: ProviderSnapshot, now: dt.datetime) -> bool:
        asked = [pilot for pilot in one.pilots if pilot.state is not PilotState.WANTED]
        if not asked:
            return False
        is_awaited = any(pilot.state is not PilotState.UP or not pilot.is_heard for pilot in asked)
        at = self._looked_at.get(one.pool)
        every_s = LOOK_SOON_S if is_awaited else LOOK_S
        return at is None or not 0 <= (now - at).total_seconds() < every_s

    def _follow(self, pilot: Pilot, listing: Listing | None, now: dt.datetime) -> None:
        seen = listing.jobs.get(pilot.id) if listing is not None else None
        is_listed = listing is not None and pilot.id in listing.absent
        change = follow(pilot, seen, is_listed=is_listed, now=now)
        if change is not None:
            self._apply(change, now)
        elif (why := why_keep_off(pilot, seen)) is not None:
            self._write(lambda s: applying.keep_off(s, pilot.id, why, now=now))

    def _apply(self, change: PilotChange, now: dt.datetime) -> None:
        log.info(
            "pilot",
            id=change.pilot_id,
            before=change.before,
            after=change.after,
            reason=change.reason,
        )
        self._write(lambda s: applying.apply_change(s, change, now=now))

    def _cancel(
        self, one: ProviderSnapshot, system: BatchSystem, listing: Listing | None, now: dt.datetime
    ) -> None:
        refs = {}
        for pilot in one.pilots:
            seen = listing.jobs.get(pilot.id) if listing is not None else None
            ref = pilot.ref or (seen.ref if seen is not None else "")
            if pilot.state is PilotState.ENDING and ref and not (seen and seen.state == "ended"):
                refs[pilot.id] = ref
        again = now - dt.timedelta(seconds=CANCEL_AGAIN_S)
        if not refs:
            return
        due: list[str] = []

        def note(session: Session) -> None:
            due[:] = session.scalars(
                update(PilotRow)
                .where(
                    PilotRow.id.in_(refs),
                    PilotRow.acted_at.is_(None) | (PilotRow.acted_at <= again),
                )
                .values(acted_at=now)
                .returning(PilotRow.id)
            ).all()

        self._write(note)
        try:
            system.cancel([refs[id_] for id_ in due])
        except BatchSystemUnreachable as error:
            log.warning("not_canceled", pool=one.pool, error=str(error))

    def _submit(
        self, one: ProviderSnapshot, pilot: Pilot, system: BatchSystem, now: dt.datetime
    ) -> bool:
        """Submit a pilot; return whether to go on with the next."""
        job = self._begin(one, pilot, now)
        if job is None:
            return True
        try:
            ref = system.submit(job)
        except SubmissionRefused as error:
            self._refuse(job, str(error), now)
            return False
        except BatchSystemUnreachable as error:
            self._note_unanswered(one, [job], error, now)
            return False
        self._note_submitted(job, ref, now)
        return True

    def _submit_many(
        self, one: ProviderSnapshot, pilots: Sequence[Pilot], system: SubmitsMany, now: dt.datetime
    ) -> None:
        jobs = [job for pilot in pilots if (job := self._begin(one, pilot, now)) is not None]
        if not jobs:
            return
        try:
            submitted = system.submit_many(jobs)
        except BatchSystemUnreachable as error:
            self._note_unanswered(one, jobs, error, now)
            return
        refused = [job for job in jobs if job.id not in submitted.refs]
        for job in jobs:
            if job.id in submitted.refs:
                self._note_submitted(job, submitted.refs[job.id], now)
        # One request was refused, however many pilots it was for.
        for job in refused:
            self._refuse(job, submitted.refusal, now, is_failure=job is refused[0])

    def _begin(self, one: ProviderSnapshot, pilot: Pilot, now: dt.datetime) -> PilotJob | None:
        """Write down that a pilot is about to be submitted; None if it is not wanted any more."""
        secrets: list[str] = []

        def begin(session: Session) -> None:
            secrets[:] = [applying.begin_submission(session, pilot.id, now=now)]

        if not self._write(begin):
            return None
        return PilotJob(
            id=pilot.id,
            pool=one.pool,
            join_token=secrets[0],
            slots=one.provider.slots,
            slot_type=one.slot_type,
            walltime_s=round(one.provider.walltime_s),
            idle_s=one.idle_s,
            once=pilot.owner is not None,
        )

    def _refuse(
        self, job: PilotJob, reason: str, now: dt.datetime, *, is_failure: bool = True
    ) -> None:
        refusal = PilotChange(
            pilot_id=job.id,
            before=PilotState.SUBMITTING,
            after=PilotState.ENDED,
            reason=reason,
            is_failure=is_failure,
        )
        self._apply(refusal, now)

    def _note_unanswered(
        self, one: ProviderSnapshot, jobs: Sequence[PilotJob], error: Exception, now: dt.datetime
    ) -> None:
        # They may have been submitted: the next look finds them by their name.
        log.warning("submission_unanswered", pilots=[job.id for job in jobs], error=str(error))
        problem = str(error)
        self._write(lambda s: applying.note_listed(s, one.pool, problem, now=now))

    def _note_submitted(self, job: PilotJob, ref: str, now: dt.datetime) -> None:
        log.info("pilot_submitted", id=job.id, pool=job.pool, job=ref)
        self._write(lambda s: applying.note_submitted(s, job.id, ref, now=now))

    def _write(self, work: Callable[[Session], None]) -> bool:
        """Write while we lead; return False if something else had changed first."""
        lease = self._lease()
        if lease is None:
            raise LeaseLost("this controller does not lead any more")
        try:
            with self._database.transaction() as session:
                require(session, lease)
                work(session)
        except Outdated as error:
            log.debug("pilot_outdated", why=str(error))
            return False
        return True
