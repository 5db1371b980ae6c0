"""The agent: keep a session with the server, bring this node to the desired state, and report.

While the server is out of reach everything that runs goes on; while the agent is, too. What is
true lies on disk (spools, locks, shim.json) and at the server; the agent itself remembers nothing
that it could not find out again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence

import structlog

from muster import wire
from muster.launch import lifeline
from muster_agent.bundles import BundleCache
from muster_agent.chores import Chores
from muster_agent.client import (
    ControlPlane,
    RequestRefused,
    ServerUnreachable,
    Session,
    SessionSuperseded,
    persistently,
)
from muster_agent.departure import Departure, Tenancy, until
from muster_agent.housekeeping import Housekeeping
from muster_agent.jobs.allocations import Allocation
from muster_agent.machine import Machine
from muster_agent.models import ModelCache
from muster_agent.node.joining import CannotJoin, introduce, take_credential
from muster_agent.outputs.keeper import OutputsReporter, is_all_reported
from muster_agent.outputs.storage import is_within
from muster_agent.plan import (
    Action,
    DeclareLost,
    Forget,
    GiveShards,
    Kill,
    Prepare,
    Profile,
    Settle,
    StartAllocation,
    Stop,
    TakeStacks,
    plan,
)
from muster_agent.polling import AssignmentsPoll
from muster_agent.preparing import Preparation, settle
from muster_agent.settings import AgentSettings
from muster_agent.tunnels import CannotOpen, Job
from muster_agent.uploads import Uploader

log = structlog.get_logger("muster.agent")

PLAN_INTERVAL_S = 0.1
NAME_TAKEN_PAUSE_S = 3.0
SHUTDOWN_UPLOAD_S = 10.0
OUTPUTS_WAIT_S = 60.0
"""A pilot that leaves waits so long at most for the files of its jobs to be kept."""
TOLD_TO_END = "the node's agent was told to end"
SIGNAL_LOOKS = 5
"""Number of looks, each after TELL_AGAIN_S, at whether the shims got the agent's signal too."""
CREATE_RETRY_S = 5.0
TELL_AGAIN_S = 0.1
MEMORY_WAIT_S = 3.0
"""Seconds that the end of a job waits for the memory of its devices before it is reported."""
MEMORY_LOOK_S = 0.2


class Agent:
    def __init__(
        self,
        settings: AgentSettings,
        *,
        plane: ControlPlane | None = None,
        machine: Machine | None = None,
    ) -> None:
        """Create the agent; `plane` and `machine` default to the server of the settings and this
        computer."""
        self._settings = settings
        self._plane = plane or ControlPlane(
            settings.server_url,
            verify=str(settings.ca_file) if settings.ca_file else True,
            # A proxy for the internet must not see traffic that stays on this machine.
            trust_env=not settings.is_server_on_this_machine,
        )
        self._machine = machine or Machine(settings)
        self._bundles = BundleCache(
            settings.home / "bundles", limit_bytes=settings.bundle_cache_bytes
        )
        self._preparation = Preparation(
            machine=self._machine,
            plane=self._plane,
            bundles=self._bundles,
            models=ModelCache(settings.home / "models", limit_bytes=settings.models_cache_bytes),
            session=self._present_session,
            is_wanted=self._is_wanted,
            is_leaving=lambda: self._is_leaving,
        )
        self._instance_id = uuid.uuid4().hex
        self._allocations = {a.allocation_id: a for a in self._machine.recover()}
        self._desired: dict[str, wire.Assignment] | None = None
        self._forget: set[str] = set()
        self._disputed: set[str] = set()
        self._outputs = self._machine.keep_outputs(self._is_running)
        self._housekeeping = Housekeeping(self._machine, is_kept=self._is_kept)
        self._deadline_boot_s = 0.0
        self._lease_s = 0.0
        self._renewing: set[str] = set()
        """Allocations whose shims have not answered to the last end of the lease yet."""
        self._poll = AssignmentsPoll(self._plane)
        self._wake = asyncio.Event()
        self._beat_soon = asyncio.Event()
        """Ends the pause before the next heartbeat."""
        self._told_at = 0.0
        """When the problems of the last heartbeat that has arrived were found, by the boot clock."""
        self._is_leaving = False
        self._is_gone = False
        """The server is told that this node is gone: what it refuses from now on is no failure."""
        self._retry_create_at = 0.0
        self._session: Session | None = None
        self._departure = Departure(settings, self._plane, lambda: self._session)
        self._num_finished = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises CannotJoin."""
        await self._housekeeping.end_orphans()  # Before reporting what runs here.
        sessions = asyncio.create_task(self._sessions())
        stopped = asyncio.create_task(stop.wait())
        departed = asyncio.create_task(self._departure.is_due(self._tenancy))
        housekeeping = [asyncio.create_task(self._housekeeping.run())]
        if self._outputs is not None:
            housekeeping.append(asyncio.create_task(self._outputs.run()))
        try:
            await asyncio.wait({sessions, stopped, departed}, return_when=asyncio.FIRST_COMPLETED)
            if not sessions.done():
                is_told = stopped.done()
                await self._leave(TOLD_TO_END if is_told else departed.result())
        finally:
            stopped.cancel()
            departed.cancel()
            sessions.cancel()
            for task in housekeeping:
                task.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(
                stopped, departed, *housekeeping, *self._tasks, return_exceptions=True
            )
            with contextlib.suppress(asyncio.CancelledError):
                await sessions
            await self._plane.close()
            self._machine.close()

    def _is_kept(self, allocation_id: str) -> bool:
        """Return whether an allocation's processes are supervised or about to be cleaned up by
        another task."""
        allocation = self._allocations.get(allocation_id)
        return allocation is not None and (
            allocation.is_busy or not allocation.has_ended or allocation.liveness() != "dead"
        )

    # ------------------------------------------------------------ the session

    async def _sessions(self) -> None:
        while not self._is_gone:
            session = await self._register()
            is_refused = False
            try:
                chores = Chores(
                    self._plane,
                    session,
                    machine=self._machine,
                    bundles=self._bundles,
                    in_use=self._is_in_use,
                    job_of=self._job_of,
                    has_tunnels=self._settings.tunnels,
                )
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._heartbeats(session))
                    group.create_task(self._follow(session, chores))
                    chores.start(group)
                    if self._outputs is not None:
                        reporter = OutputsReporter(
                            self._plane, session, self._outputs, is_in_use=self._has_trial
                        )
                        group.create_task(reporter.run())
                    group.create_task(self._reconcile(session, group))
            except* SessionSuperseded:
                log.warning("session_superseded", epoch=session.epoch)
            except* RequestRefused as errors:
                # Most likely the credential was revoked; registering reports that, or repairs it.
                log.warning("session_refused", error=str(errors.exceptions[0]))
                is_refused = True
            # Not above: there the end of this task would become a group of exceptions, and a failure.
            if is_refused and not self._is_gone:
                await asyncio.sleep(NAME_TAKEN_PAUSE_S)

    async def _register(self) -> Session:
        inventory = await asyncio.to_thread(self._machine.inventory)
        while True:
            request = wire.RegisterRequest(
                protocol_version=wire.PROTOCOL_VERSION,
                name=self._settings.name,
                pool=self._settings.pool,
                labels=self._settings.labels,
                boot_id=self._machine.boot_id(),
                instance_id=self._instance_id,
                inventory=inventory,
                running=[a.describe() for a in self._allocations.values()],
                pilot=self._departure.facts(),
            )
            asked_at = self._machine.boot_clock()
            try:
                reply = await introduce(self._plane, self._settings, request)
            except SessionSuperseded as error:
                log.warning("registration_superseded", error=str(error))
            except RequestRefused as error:
                # 409: another live session of this name. After a crash it is this node's own old
                # session, which ends with its lease.
                if error.status != 409:
                    raise CannotJoin(f"the server refused this agent: {error}") from error
                log.warning("name_taken", name=self._settings.name, error=error.message)
            else:
                break
            await asyncio.sleep(NAME_TAKEN_PAUSE_S)
        return self._open_session(reply, asked_at)

    def _open_session(self, reply: wire.RegisterReply, asked_at: float) -> Session:
        for ack in reply.adopt:
            if ack.allocation_id in self._allocations:
                self._allocations[ack.allocation_id].accept(ack)
        self._forget = set(reply.forget)
        self._desired = None
        self._lease_s = reply.lease_s
        self._deadline_boot_s = asked_at + reply.lease_s
        log.info(
            "registered",
            node_id=reply.node_id,
            epoch=reply.session_epoch,
            adopted=len(reply.adopt),
            forgotten=len(reply.forget),
        )
        self._session = Session(
            node_id=reply.node_id,
            epoch=reply.session_epoch,
            heartbeat_s=reply.heartbeat_s,
            lease_s=reply.lease_s,
            deadline_boot_s=self._deadline_boot_s,
        )
        return self._session

    async def _heartbeats(self, session: Session) -> None:
        heartbeat_s = session.heartbeat_s
        is_away = False
        self._renew()
        while True:
            await self._machine.read_devices()
            asked_at = self._machine.boot_clock()
            self._beat_soon.clear()
            try:
                # Forgotten allocations stay in the list until they are dead and deleted.
                reply = await self._plane.lease(
                    wire.LeaseRequest(
                        node_id=session.node_id,
                        session_epoch=session.epoch,
                        usage=self._machine.usage(),
                        running=list(self._allocations),
                        accepts_credential=True,
                        clock=self._machine.clock_reading(),
                        problems=await self._problems(),
                    )
                )
            except ServerUnreachable as error:
                log.warning("heartbeat_failed", error=str(error))
                is_away = True
                await asyncio.sleep(min(heartbeat_s, 2.0))
                continue
            if is_away:
                is_away = False
                self._poll.ask_anew()
            if reply.server_time_ms is not None:
                self._machine.note_server_time(reply.server_time_ms, sent_boot_s=asked_at)
            heartbeat_s = reply.heartbeat_s
            self._poll.expect(reply.assignments_index)
            if reply.credential:
                self._take_credential(reply.credential)
            # Counted from before the request: the lease of a slow answer may have expired on its
            # way.
            self._deadline_boot_s = asked_at + reply.lease_s
            self._told_at = asked_at
            self._renew()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(heartbeat_s):
                    await self._beat_soon.wait()

    async def _problems(self) -> list[wire.NodeProblem] | None:
        problems = self._housekeeping.problems
        if of_slots := await asyncio.to_thread(self._slot_problems):
            problems = [*of_slots, *(problems or ())]
        if self._is_leaving and not self._settings.is_pilot:
            # Nothing new is placed here until the next agent says otherwise.
            return [*(problems or ()), wire.leaving_problem(TOLD_TO_END)]
        return problems

    def _slot_problems(self) -> list[wire.NodeProblem]:
        """Return what keeps new work off single slots now. Blocks."""
        holders = {
            allocation_id: a.spec.slots
            for allocation_id, a in list(self._allocations.items())
            if a.spec.slot_type != "cpu" and not (a.has_ended or a.is_end_reported)
        }
        return self._machine.slot_problems(holders)

    async def _release(self, allocation: Allocation) -> None:
        """Wait until the memory of a job's devices is free, before the server hears of its end and gives
        its slots to others; if that takes long, until the server knows that they are to wait."""
        slots = allocation.spec.slots if allocation.spec.slot_type != "cpu" else []
        deadline = time.monotonic() + MEMORY_WAIT_S
        is_free = not slots
        while not is_free and time.monotonic() < deadline:
            await self._machine.read_devices()
            await asyncio.to_thread(self._slot_problems)
            is_free = not self._machine.waits_for_memory(slots)
            if not is_free:
                await asyncio.sleep(MEMORY_LOOK_S)
        if is_free:
            return
        log.warning("device_memory_left", allocation_id=allocation.allocation_id, slots=slots)
        began = self._machine.boot_clock()
        self._beat_soon.set()
        while self._told_at < began:  # noqa: ASYNC110
            await asyncio.sleep(TELL_AGAIN_S)

    def _take_credential(self, credential: str) -> None:
        try:
            take_credential(self._plane, self._settings, credential)
        except OSError as error:  # The current credential stays valid until another one is used.
            log.warning("credential_not_kept", error=str(error))
        else:
            log.info("credential_replaced")

    def _renew(self) -> None:
        """Begin to send the new end of the lease to the shims that kill their workers when it
        expires. No heartbeat waits for the answer of a shim."""
        for allocation in self._allocations.values():
            if (
                allocation.spec.on_disconnect == "stop"
                and allocation.liveness() == "alive"
                and allocation.allocation_id not in self._renewing
            ):
                self._renewing.add(allocation.allocation_id)
                self._start_task(self._renew_one(allocation))

    async def _renew_one(self, allocation: Allocation) -> None:
        try:
            await allocation.command("renew", deadline_boot_s=self._deadline_boot_s)
        finally:
            self._renewing.discard(allocation.allocation_id)

    async def _follow(self, session: Session, chores: Chores) -> None:
        """Keep `_desired` in step with the server."""
        index: int | None = None
        while True:
            reply = await persistently(
                lambda known=index: self._poll.ask(session, known),  # type: ignore[misc]
                what="assignments",
            )
            if index is not None and reply.index < index:
                # The database is an older one: its view of this node must be compared.
                raise SessionSuperseded("the server's numbers went backwards")
            self._desired = {a.spec.allocation_id: a for a in reply.assignments}
            self._forget.clear()
            self._wake.set()
            chores.want(reply)
            if index is not None and reply.index != index:
                await asyncio.sleep(0.02)  # A burst of changes becomes one answer.
            index = reply.index

    def _is_in_use(self, path: str) -> bool:
        """Return whether an allocation on this node uses a path of the storage.

        An allocation whose end has been reported to the server does not count: the server may ask
        for the deletion at once.
        """
        specs = [
            a.spec for a in self._allocations.values() if not (a.has_ended or a.is_end_reported)
        ]
        paths = [p for s in specs for p in (s.checkpoint_dir, s.resume_from, s.weights_from) if p]
        return any(is_within(used, path) for used in paths)

    def _is_running(self, allocation_id: str) -> bool:
        """Return whether an allocation is on this node and has not ended."""
        allocation = self._allocations.get(allocation_id)
        return allocation is not None and not (
            allocation.has_ended and allocation.liveness() in ("dead", "rebooted")
        )

    def _has_trial(self, trial_id: int) -> bool:
        """Return whether an allocation of a trial is on this node."""
        return any(a.spec.trial_id == trial_id for a in self._allocations.values())

    # ------------------------------------------------------------ from wanted to done

    async def _reconcile(self, session: Session, group: asyncio.TaskGroup) -> None:
        """Plan and act, and make sure that every allocation has a task that sends its reports."""
        uploading: set[str] = set()
        num_unprepared = 0

        async def upload(allocation: Allocation) -> None:
            try:
                await Uploader(allocation, self._plane, session, release=self._release).run()
            finally:
                uploading.discard(allocation.allocation_id)

        while True:
            for action in plan(self._desired, [a.local() for a in self._allocations.values()]):
                self._act(action)
            for allocation_id in self._forget & self._allocations.keys():
                if not self._allocations[allocation_id].is_busy:
                    self._act(Forget(allocation_id=allocation_id))
            for allocation in list(self._allocations.values()):
                if allocation.is_delivered or allocation.allocation_id in uploading:
                    continue
                if allocation.is_being_deleted:
                    continue
                if allocation.allocation_id not in self._forget:
                    uploading.add(allocation.allocation_id)
                    allocation.uploads = group.create_task(upload(allocation))
            states = [a.observed for a in self._allocations.values()]
            if states.count("PREPARE_FAILED") > num_unprepared:
                self._housekeeping.check_soon()  # What blocked it may also block the next one.
            num_unprepared = states.count("PREPARE_FAILED")
            self._machine.keep_warm(self._allocations.values())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PLAN_INTERVAL_S):
                    await self._wake.wait()
            self._wake.clear()

    def _act(self, action: Action) -> None:
        """Start an action. The allocation is busy, and not planned for, until it is done."""
        if self._is_leaving and isinstance(action, Prepare | StartAllocation | Stop):
            return  # What runs is told to stop by `_leave`, which knows how long it may take.
        match action:
            case Prepare(assignment=assignment) | Settle(assignment=assignment):
                was_here = self._machine.was_here(assignment.spec.allocation_id)
                if was_here:
                    self._dispute(assignment.spec.allocation_id)
                allocation = self._add(assignment.spec)
                if allocation is None:
                    return
                if was_here:
                    work: Awaitable[None] = settle(
                        allocation, "it ran on this node before", cause="shim_lost"
                    )
                elif isinstance(action, Prepare):
                    work = self._preparation.prepare(allocation)
                else:
                    work = settle(allocation, action.reason)
            case StartAllocation(
                allocation_id=allocation_id, rendezvous=rendezvous, addresses=addresses
            ):
                allocation = self._allocations[allocation_id]
                work = self._tell(
                    allocation,
                    "start",
                    rendezvous=_plain(rendezvous),
                    addresses=dict(addresses),
                    deadline_boot_s=self._deadline_boot_s,
                )
            case Stop(allocation_id=allocation_id, reason=reason, kind=kind, grace_s=grace_s):
                allocation = self._allocations[allocation_id]
                work = self._tell(allocation, "stop", reason=reason, kind=kind, grace_s=grace_s)
            case Kill(allocation_id=allocation_id, reason=reason):
                allocation = self._allocations[allocation_id]
                work = self._tell(allocation, "kill", reason=reason)
            case TakeStacks(allocation_id=allocation_id, no=no):
                allocation = self._allocations[allocation_id]
                work = self._tell(allocation, "stacks", no=no)
            case Profile(allocation_id=allocation_id, order=order):
                allocation = self._allocations[allocation_id]
                work = self._tell(allocation, "profile", order=_plain(order))
            case GiveShards(allocation_id=allocation_id, orders=orders):
                allocation = self._allocations[allocation_id]
                work = self._tell(allocation, "shards", orders=_plain(orders))
            case DeclareLost(allocation_id=allocation_id, cause=cause, reason=reason):
                allocation = self._allocations[allocation_id]
                work = allocation.declare_lost(cause, reason, timeout_s=self._settings.kill_wait_s)
            case Forget(allocation_id=allocation_id):
                allocation = self._allocations[allocation_id]
                work = self._remove(allocation)
        log.info(
            type(action).__name__.lower(),
            allocation_id=allocation.allocation_id,
            reason=action.reason,
        )
        allocation.is_busy = True

        async def do() -> None:
            try:
                await work
            except Exception:
                log.exception("action_failed", allocation_id=allocation.allocation_id)
                await asyncio.sleep(1.0)
            finally:
                allocation.is_busy = False
                self._wake.set()

        self._start_task(do())

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        """Do `work` in the background, until this agent ends at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _job_of(self, allocation_id: str) -> Job:
        allocation = self._allocations.get(allocation_id)
        if allocation is None:
            raise CannotOpen("The job does not run on this node any more.")
        return await allocation.job()

    def _add(self, spec: wire.AllocationSpec) -> Allocation | None:
        """Return the new allocation; None if its folder cannot be created, which is tried again
        later."""
        if time.monotonic() < self._retry_create_at:
            return None
        try:
            allocation = self._machine.create(spec)
        except (OSError, ValueError) as error:
            self._retry_create_at = time.monotonic() + CREATE_RETRY_S
            log.error("allocation_not_created", allocation_id=spec.allocation_id, error=str(error))
            return None
        self._allocations[spec.allocation_id] = allocation
        self._machine.hold(spec)
        return allocation

    def _present_session(self) -> Session:
        assert self._session is not None, "nothing is prepared before the first session"
        return self._session

    def _is_wanted(self, allocation_id: str) -> bool:
        """Return whether the server still wants an allocation to run; True while it is unheard."""
        if self._desired is None:
            return True
        wanted = self._desired.get(allocation_id)
        return wanted is not None and wanted.desired not in ("stop", "kill")

    def _dispute(self, allocation_id: str) -> None:
        """Handle a request for an allocation that ran here and was forgotten: the server's database
        is an older one. Registering again lets the server compare. If it still asks after that,
        the allocation is reported as never begun."""
        if allocation_id not in self._disputed:
            self._disputed.add(allocation_id)
            log.warning("allocation_was_here", allocation_id=allocation_id)
            raise SessionSuperseded(f"{allocation_id} ran here before and was forgotten")

    async def _tell(self, allocation: Allocation, command: str, **fields: object) -> None:
        if not await allocation.command(command, **fields):
            await asyncio.sleep(0.5)  # Planned again, unless the shim turns out to be dead.

    async def _tell_end(self, allocation: Allocation, command: str, **fields: object) -> None:
        """Tell a shim to end, which may be starting at this moment."""
        while not allocation.has_ended and not await allocation.command(command, **fields):  # noqa: ASYNC110
            await asyncio.sleep(TELL_AGAIN_S)

    async def _remove(self, allocation: Allocation) -> None:
        survivors = 0
        if not allocation.has_ended or allocation.liveness() in ("alive", "starting"):
            survivors = await allocation.end_everything(timeout_s=self._settings.kill_wait_s)
        if survivors:
            log.error("unkillable", allocation_id=allocation.allocation_id, num_processes=survivors)
            return  # The folder stays, so that this is tried again.
        allocation.is_being_deleted = True
        if allocation.uploads is not None:
            # The allocation must have ended, not only been asked to, before its files are deleted.
            allocation.uploads.cancel()
            await asyncio.wait([allocation.uploads])
        await asyncio.to_thread(self._machine.forget, allocation)
        self._allocations.pop(allocation.allocation_id, None)
        self._num_finished += 1

    # ------------------------------------------------------------ leaving

    def _tenancy(self) -> Tenancy:
        """Return what runs here, as far as a pilot asks."""
        open_ = [a for a in self._allocations.values() if not (a.has_ended and a.is_delivered)]
        running = [a for a in open_ if not a.has_ended]
        return Tenancy(
            num_open=len(open_),
            num_finished=self._num_finished + sum(a.has_ended for a in self._allocations.values()),
            longest_grace_s=max((a.spec.stop_grace_s for a in running), default=0.0),
        )

    async def _leave(self, reason: str) -> None:
        """End or keep allocations when the agent ends in an orderly way: keep them by default.

        Under a lifeline everything is about to end anyway, so it is killed at once, and charged to nobody
        if this agent was told to end rather than cut off. Otherwise what ends with the agent, as with a
        pilot or where a signal went to all processes, is announced first: then its trials go on elsewhere
        at nobody's expense. At last the node of a pilot is gone.
        """
        has_lifeline = lifeline.lifeline_fd() is not None
        is_pilot = self._settings.is_pilot
        told_at_s = time.time()
        running = [a for a in self._allocations.values() if not a.has_ended]
        is_for_all = reason == TOLD_TO_END and not has_lifeline and await self._is_for_all(running)
        if not (has_lifeline or self._settings.stop_allocations or is_pilot or is_for_all):
            return
        if is_for_all:
            self._departure.hurry(told_at_s=told_at_s)
        self._is_leaving = True
        is_announced = (
            bool(running and not has_lifeline)
            and (await self._departure.announce("draining", reason)) is not None
        )
        command = "kill" if has_lifeline else "stop"
        grace_s = 0.0
        for allocation in running:
            allowed_s = self._departure.grace_s(allocation.spec.stop_grace_s)
            grace_s = max(grace_s, allowed_s)
            fields: dict[str, object] = {"by_node": True}
            if has_lifeline and not lifeline.is_cut():
                fields["told_at_ms"] = round(1000 * told_at_s)
            if is_announced:
                fields = {"kind": "drain", "grace_s": allowed_s}
            self._start_task(self._tell_end(allocation, command, reason=reason, **fields))
        patience_s = self._settings.kill_wait_s + (0.0 if has_lifeline else grace_s)

        def are(over: Callable[[Allocation], bool]) -> Callable[[], bool]:
            # Allocations that the server no longer wants are deleted meanwhile without a report.
            # Actions on the others are completed.
            return lambda: all(
                a.allocation_id not in self._allocations or (over(a) and not a.is_busy)
                for a in running
            )

        await until(are(lambda a: a.has_ended), timeout_s=patience_s)
        if not has_lifeline:
            # Nobody comes back to a pilot's home: while the server is away, it stays as long as it may.
            last_word_s = self._departure.last_word_s() if is_pilot else 0.0
            upload_s = max(SHUTDOWN_UPLOAD_S, last_word_s)
            await until(are(lambda a: a.is_delivered), timeout_s=upload_s)
        if is_pilot:
            if self._outputs is not None and not has_lifeline:
                # Nobody comes back to this home: what its jobs wrote is kept now or never.
                wait_s = self._departure.grace_s(OUTPUTS_WAIT_S)
                await until(lambda: is_all_reported(self._settings.home), timeout_s=wait_s)
            self._is_gone = True
            await self._departure.announce("gone", reason)

    async def _is_for_all(self, running: Sequence[Allocation]) -> bool:
        """Return whether the shims were told to end too, so that nothing outlives this agent."""
        for _ in range(SIGNAL_LOOKS):
            if any(await asyncio.gather(*(a.is_signalled() for a in running))):
                return True
            await asyncio.sleep(TELL_AGAIN_S if running else 0.0)
        return False


def _plain(message: wire.Rendezvous | wire.ProfileOrder | wire.ShardOrders | None) -> object:
    return None if message is None else json.loads(wire.dump(message))
