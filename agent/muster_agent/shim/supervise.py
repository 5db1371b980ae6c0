"""The life of one allocation: prepare, wait for the gang, run, end, and leave a record.

One coroutine goes through the states in order; commands, exits of children and the lease deadline
wake it. Whatever happens, it ends with an empty process tree and a terminal state record.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from muster import wire
from muster.launch import lifeline, reaping, site_signals
from muster.wire import LAUNCHER_LOCAL_RANK
from muster_agent.clock import boot_clock, unix_at_boot_ms, unix_ms
from muster_agent.environments.failures import BuildCanceled
from muster_agent.jobs.advice import port_in_use
from muster_agent.jobs.exits import (
    ExitEvidence,
    classify_exit,
    shown_command,
    without_launchers,
)
from muster_agent.jobs.folder import (
    AllocationFolder,
    remove_socket_dir,
)
from muster_agent.jobs.inputs import read_secrets, secrets_of_job
from muster_agent.jobs.launch import STEPS, attached, dump_prefix, is_built_in
from muster_agent.jobs.process import Identity, descendants, identify
from muster_agent.jobs.survivors import note
from muster_agent.outputs.work import OUTPUT_FOLDER
from muster_agent.plan import TERMINAL
from muster_agent.records.child_runs import ChildRuns
from muster_agent.records.logs import (
    LogFile,
    find_logs,
    free_past_limit,
    has_output,
    launcher_log,
    tail,
)
from muster_agent.records.masking import Mask
from muster_agent.records.points import NameRoutes, Route
from muster_agent.records.spool import HOLD_BYTES, RecordWriter, last_state
from muster_agent.shim.control import Commands, serve_commands
from muster_agent.shim.failures import PrepareFailed, cause_of
from muster_agent.shim.limits import disk_words
from muster_agent.shim.local_checkpoints import STORE_S, LocalCheckpoints, open_local
from muster_agent.shim.preparation.checks import Prepared, prepare
from muster_agent.shim.processes.exits import collect_ends, find_uncaught
from muster_agent.shim.processes.gang import Processes
from muster_agent.shim.processes.ports import NoPortFree, PortLease, holder_of, lease_port
from muster_agent.shim.processes.rendezvous import JOB_SOCKETS, make_socket_dir
from muster_agent.shim.processes.unmeasured import find_unmeasured
from muster_agent.shim.reporting.event_media import EventMediaTaker
from muster_agent.shim.reporting.event_values import EventValues
from muster_agent.shim.reporting.log_values import LogValues
from muster_agent.shim.reporting.media import MediaKeeper
from muster_agent.shim.reporting.profiling import Profiling
from muster_agent.shim.reporting.progress import Watching
from muster_agent.shim.reporting.reports import ReportServer
from muster_agent.shim.restarts import MemberRestarts
from muster_agent.shim.state import Standing, first_state
from muster_agent.shim.stopping import Stopping
from muster_agent.tracking.tracker import JobTracker

POLL_S = 0.1
UPKEEP_S = 5.0
DRAIN_TIMEOUT_S = 5.0
AGENT_WAIT_S = 5.0
"""Seconds that an agent is given to say what a signal to all processes of the node means: longer than it
waits for the server."""
UNCAUGHT_S = 10.0
"""Seconds before the end of a job in which a Python process that failed makes exit code 0 doubtful."""

log = logging.getLogger("muster.shim")


def run_shim(path: Path, *, secrets_fd: int | None = None) -> int:
    """Run the shim of the allocation in `path`. Return the process's exit code.

    secrets_fd: a pipe that holds the values of the job's secrets by variable, as JSON.
    """
    secrets = read_secrets(secrets_fd)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    folder = AllocationFolder.at(path)
    if folder.lock() is None:
        log.error("another shim or the agent holds this allocation")
        return 3
    state = last_state(folder.records)
    if state is not None and state.observed in TERMINAL:
        log.error("this allocation has ended already")
        return 3
    reaping.adopt()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    asyncio.run(Shim(folder, secrets).run())
    return 0


class Shim:
    def __init__(self, folder: AllocationFolder, secrets: Mapping[str, str]) -> None:
        """Create the shim; `secrets` are the values of the spec's secrets, kept in memory alone."""
        self.folder = folder
        self.secrets = secrets
        self.spec = folder.read_spec()
        self.options = folder.read_options()
        self.mask = Mask([*secrets.values(), self.options.tracking_token])
        self.commands = Commands(deadline_boot_s=self.options.deadline_boot_s)
        self.spool = RecordWriter(
            folder.records,
            limit_bytes=self.options.spool_limit_bytes,
            hold_bytes=HOLD_BYTES,
            mask=self.mask,
        )
        self.processes = Processes(
            self.spec,
            self.options,
            folder,
            on_end=self.commands.changed.set,
            record=self.spool.append,
        )
        self.workers = self.processes.workers
        self.media = MediaKeeper(
            record=self._on_report,
            uid=self.options.isolation.uid,
            min_free_bytes=self.options.min_disk_free_bytes,
            mask=self.mask,
        )
        self.names = NameRoutes()
        self.child_runs = ChildRuns(f"{self.spec.cluster_id}/{self.spec.trial_id}", self._on_report)
        self.reports = ReportServer(
            record=self._on_report,
            reported=lambda names: self.names.report(names, Route.PROCESS),
            captured_folder=lambda path: self.event_values.captures(path),
            child_run=self.child_runs.note,
            hello=self._on_hello,
            warn=self._warn,
            media=self.media,
            member=self.spec.member,
            rank_base=self.spec.rank_base,
            profiled=lambda rank, said: self.profiling.take(rank, said),
            uid=self.processes.confinement.uid,
        )
        self.stopping = Stopping(
            self.spec,
            self.commands,
            self.processes,
            self.reports,
            own_word=lambda: self._leave_word(site_signals.SHIM),
            is_signalled=lambda: self.is_signalled,
            work_dir=lambda: self.work_dir,
            tick=self._tick,
        )
        self.restarts = MemberRestarts(
            self.spec,
            self.commands,
            self.processes,
            is_signalled=lambda: self.is_signalled,
            tick=self._tick,
            warn=lambda text: self._warn(self.mask.text(text)),
        )
        self._take_metrics()
        self.watching = Watching(
            folder=folder.stacks,
            alive=self.workers.alive,
            reported=lambda: self.reports.progress,
            record=self.spool.append,
            launcher=lambda: identify(self.processes.launcher_pid()),
            # NCCL tells of all nodes: one of them asks.
            ras_port=lambda: (
                self.ras_lease.port if self.ras_lease and self.spec.node_rank == 0 else 0
            ),
        )
        self.profiling = Profiling(
            folder=folder.profiles,
            alive=self.workers.alive,
            reporting=lambda: (worker.rank for worker in self.reports.workers),
            push=self.reports.order_profile,
            record=self.spool.append,
        )
        self.socket_dir = make_socket_dir()
        self.report_socket = self.socket_dir / JOB_SOCKETS / "report"
        self.was_asked = False
        """Whether the end was requested while something could still be ended."""
        self.is_forced = False
        self.signalled_at_ms = 0
        """Unix time at which this process got a SIGTERM: so did all, as far as it knows. 0 for never."""
        self.word = ""
        """Word of muster.launch.site_signals that was left."""
        self.started_at = time.time()
        self.has_reported = False
        self.has_reported_failure = False
        self.port_holders: dict[int, str] = {}
        """Who held a port at the moment when the job could not have it."""
        self.work_dir = ""
        """Folder of the files that were sent; "" before they are there."""
        self.ras_lease: PortLease | None = None
        self.has_reported_near_limit = False
        self.has_told_unmeasured = False
        self.next_upkeep_at = 0.0
        self.local: LocalCheckpoints | None = None
        self.stop_until = 0.0
        """Monotonic time at which the grace of a stop ends; 0 before one."""
        self.standing = Standing(
            folder,
            self.spool,
            self.commands,
            first_state(
                self.socket_dir, self.processes.cgroup.path if self.processes.cgroup else None
            ),
        )

    def _take_metrics(self) -> None:
        """Create what finds metrics beside reports: MLflow's API, event files and the log."""
        self.tracker = JobTracker(
            self.spec,
            token=self.options.tracking_token,
            record=self._on_report,
            warn=self._warn,
            members=self.processes.members,
            names=self.names,
            child_runs=self.child_runs,
            uid=self.options.isolation.uid,
            min_free_bytes=self.options.min_disk_free_bytes,
        )
        self.commands.take_registration = self.tracker.take_registration
        self.event_values = EventValues(
            self.spec.config,
            child_runs=self.child_runs,
            place_of=self._place_of_process,
            names=self.names,
            record=self._on_report,
            say=self._say,
            media=EventMediaTaker(
                self.media,
                trial=f"{self.spec.cluster_id}/{self.spec.trial_id}",
                record=self._on_report,
            ),
        )
        self.log_values = LogValues(
            self.spec.config,
            self.folder.logs,
            place_of=self._place_of,
            names=self.names,
            record=self._on_report,
            say=self._say,
            mask=self.mask,
        )

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._on_child)
        loop.add_signal_handler(signal.SIGTERM, self._on_sigterm)

        def on_lifeline_cut() -> None:
            reason = "the process that started this node's agent has ended"
            loop.call_soon_threadsafe(lambda: self.commands.ask_kill(reason, by_node=True))

        lifeline.watch(on_lifeline_cut)
        await self.reports.listen(self.report_socket)
        self.processes.confinement.open_sockets(self.report_socket.parent)
        if self.options.tracking_token:
            try:
                await self.tracker.listen()
            except OSError as error:
                self._warn(f"Scripts cannot log to MLflow in this attempt: {error}")
        control = await serve_commands(
            self.socket_dir / "control",
            self.commands,
            status=self._status,
            job_secrets=self.secrets,
            session=self.processes.session,
        )
        try:
            await self._live()
        except Exception as error:
            log.exception("the shim failed")
            await self._end_processes()
            self.standing.enter(
                "EXITED",
                exit=wire.ExitInfo(
                    cause="launcher_failed",
                    message=f"the shim failed: {type(error).__name__}: {error}",
                ),
            )
        finally:
            await self.standing.write_all()
            control.close()
            self.spool.close()
            remove_socket_dir(str(self.socket_dir))
            self.processes.close()
        # An abandoned preparation may still be unpacking in its thread; nobody waits for it.
        logging.shutdown()
        os._exit(0)

    @property
    def is_signalled(self) -> bool:
        return self.signalled_at_ms > 0

    def _on_sigterm(self) -> None:
        """Wait for the agent to say what that means: it has got the signal too, and tells the server
        first. What the signal ends meanwhile has ended by request."""
        if self.is_signalled:
            return
        self.signalled_at_ms = unix_ms()
        self.standing.note_site_stop(self.signalled_at_ms)
        self._leave_word(site_signals.SITE)
        self.commands.announce()
        asyncio.get_running_loop().call_later(
            AGENT_WAIT_S, lambda: self.commands.ask_stop("the shim was asked to end", by_node=True)
        )

    def _leave_word(self, word: str) -> None:
        """Say to the job's processes what a SIGTERM means from now on. What SHIM says is the last word."""
        if self.word in (word, site_signals.SHIM, site_signals.SITE_THEN_SHIM):
            return
        if self.word == site_signals.SITE:
            word = site_signals.SITE_THEN_SHIM
        self.word = word
        with contextlib.suppress(OSError):  # The disk may be full.
            site_signals.leave_word(self.report_socket.parent, word)

    # ------------------------------------------------------------ the states in order

    async def _live(self) -> None:
        self.standing.enter("PREPARING")
        try:
            prepared = await self._prepare()
            rendezvous = await self._open_rendezvous(prepared) if prepared else None
        except PrepareFailed as error:
            if await self._is_ending():
                self.was_asked = True
                await self._exit()
                return
            await self._end_processes()
            self.standing.enter(
                "PREPARE_FAILED",
                message=self.mask.text(str(error)),  # It may repeat what a command has printed.
                blames=error.blames,
                passes=error.passes,
            )
            return
        if prepared is not None and not self.commands.must_end():
            self.standing.enter(
                "READY",
                rendezvous=rendezvous,
                facts=prepared.facts,
                environment=prepared.environment,
            )
            while not (self.commands.is_started or self.commands.must_end()):
                await self._tick()
        if prepared is None or self.commands.must_end():
            self.was_asked = True
            await self._exit()
            return
        self.standing.enter("STARTING")
        try:
            rendezvous = self.commands.rendezvous or rendezvous
            if self.spec.role:
                place = replace(prepared.place, addresses=self.commands.addresses)
                prepared, rendezvous = replace(prepared, place=place), None
            if not await self._start_warm(prepared, rendezvous):
                if self.commands.must_end():
                    self.was_asked = True
                    await self._exit()
                    return
                self._start(prepared, rendezvous)
        except (OSError, ValueError, NoPortFree) as error:
            await self._end_processes()
            message = f"the workers could not be started: {error}"
            self.standing.enter(
                "EXITED", exit=wire.ExitInfo(cause=cause_of(error), message=message)
            )
            return
        await self._watch()
        while await self.restarts.start_again(
            lambda: classify_exit(self._ending(only_ended=True)),
            lambda: self._start(prepared, None),
        ):
            await self._watch()
        if await self._is_ending() or (self.commands.must_end() and not self._has_ended()):
            self.was_asked = True
            self.standing.enter("STOPPING", message=self.restarts.beside(self.commands.reason))
            self.is_forced = not await self.stopping.stop()
        await self._exit()

    async def _is_ending(self) -> bool:
        """Return whether all processes of the node were told to end, once the agent has said more."""
        while self.is_signalled and not self.commands.must_end():
            await self._tick()
        return self.is_signalled

    async def _prepare(self) -> Prepared | None:
        """Prepare the allocation; return None if it was asked to stop meanwhile."""
        if missing := [name for name in self.spec.secrets if name not in self.secrets]:
            raise PrepareFailed(
                f"the agent ended before it had handed over the secrets ({', '.join(missing)})",
                blames="",
            )
        loop = asyncio.get_running_loop()

        def tell(level: Literal["info", "warning"], text: str) -> None:
            loop.call_soon_threadsafe(self._say, level, text)

        task = asyncio.create_task(
            asyncio.to_thread(
                prepare,
                self.spec,
                self.options,
                self.folder,
                report_socket=self.report_socket,
                environment=os.environ,
                secrets=self.secrets,
                tell=tell,
                is_canceled=self.commands.must_end,
            )
        )
        if not await self._wait_for(task):
            task.add_done_callback(lambda t: t.cancelled() or t.exception())
            return None
        try:
            prepared = task.result()
        except BuildCanceled:
            return None
        if prepared.container is not None:
            self.processes.confinement.use(prepared.container)
        self.processes.confinement.check(prepared.place)
        self.work_dir = prepared.place.files_dir
        self.local = open_local(
            self.spec, prepared.place, prepared.local, self.spool.append, self._warn
        )
        self.tracker.open(Path(prepared.place.files_dir))
        self.media.open(Path(prepared.place.files_dir))
        if not is_built_in(self.spec):
            await self.event_values.start(Path(prepared.place.files_dir))
        return replace(
            prepared,
            place=replace(
                prepared.place,
                secrets=secrets_of_job(self.spec, self.secrets),
                tracking_uri=self.tracker.uri,
                tracking_token=self.options.tracking_token,
                ras_port=self._lease_ras_port(),
            ),
        )

    def _lease_ras_port(self) -> int:
        """Return the port for NCCL's RAS threads, held until this process ends; 0 without GPUs, or if
        none is free."""
        if self.spec.slot_type != "cuda":
            return 0
        with contextlib.suppress(NoPortFree, OSError):
            self.ras_lease = lease_port("127.0.0.1")
            return self.ras_lease.port
        return 0

    async def _wait_for(self, task: asyncio.Task[Any]) -> bool:
        """Wait until the task is done. Return False if the end was requested meanwhile."""
        while not task.done():
            if self.commands.must_end():
                return False
            changed = asyncio.create_task(self.commands.changed.wait())
            await asyncio.wait({task, changed}, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            self.commands.changed.clear()
            self._check_deadline()
        return True

    async def _open_rendezvous(self, prepared: Prepared) -> wire.Rendezvous | None:
        async def wait(seconds: float) -> bool:
            if self.commands.must_end():
                return False
            await self._tick(seconds)
            return True

        return await self.processes.open_rendezvous(prepared, wait=wait)

    async def _start_warm(self, prepared: Prepared, rendezvous: wire.Rendezvous | None) -> bool:
        if not self.options.warm_socket:
            if why := self.options.cold_reason:
                log.info("starting processes without a warm parent, because %s", why)
            return False
        return await self.processes.start_warm(prepared, rendezvous, wait=self._wait_for)

    def _start(self, prepared: Prepared, rendezvous: wire.Rendezvous | None) -> None:
        self.started_at = time.time()
        self.processes.start(prepared, rendezvous)

    async def _watch(self) -> None:
        """Wait until the processes have ended, one has failed, or an end was requested."""
        if not is_built_in(self.spec):
            self.log_values.start()
        is_running = False
        while not self._has_ended() and not self.commands.must_end():
            for record in self.processes.find():
                self.spool.append(record)
            self.workers.observe()
            if self.is_signalled:
                await self._tick()
                continue
            alive = self.workers.alive()
            are_there = len(alive) >= self.workers.num_expected or self.processes.is_script
            if not is_running and are_there:
                is_running = True
                self.standing.enter("RUNNING", message=self.restarts.beside(""))
            cannot_meet = not is_running and self.processes.rendezvous_host.failure() != ""
            if self.processes.limits.look() is not None or cannot_meet:
                self._tell_failure()
                return
            self._tell_near_limit()
            if self.workers.has_failed() and not self.processes.is_script:
                if self.restarts.are_left():
                    return
                self._tell_failure()
                await self.stopping.end_siblings()
                return
            if self._is_upkeep_due():
                self._keep_logs_in_bounds()
                self._tell_unmeasured()
            if is_running:
                self.watching.look(self.commands.stacks_no)
                self.profiling.look(self.commands.profile)
                self.reports.give_shards(self.commands.shards)
                self.media.report()
            await self._tick()

    def _tell_near_limit(self) -> None:
        words = self.processes.limits.near
        if words and not self.has_reported_near_limit:
            self.has_reported_near_limit = True
            self.spool.append(
                wire.MessageRecord(level="warning", text=words, event=wire.NEAR_LIMIT)
            )

    def _tell_failure(self) -> None:
        """Report the likely end before it has happened: the rest of the gang is stopped on this
        report, and must not wait for this node's logs or slow workers."""
        if self.has_reported_failure or self.is_signalled:
            return
        self.has_reported_failure = True
        info = classify_exit(self._ending(only_ended=True))
        if info.cause != "success":
            self.standing.enter("STOPPING", message=info.message, exit=info)

    async def _exit(self) -> None:
        """End what is left, then report how it ended."""
        ended_at, num_left, grace_s = time.time(), 0, self.stopping.grace_s()
        if not self.was_asked:
            num_left = self._tell_leftovers()
            self._tell_failure()
        survivors = await self._end_processes()
        self.workers.observe()
        if self.local is not None:
            finished = classify_exit(self._ending()).cause == "success"
            until = self.stop_until or time.monotonic() + (STORE_S if finished else grace_s)
            await self.local.finish(self.commands, self._tick, until=until, grace_s=grace_s)
        ending = replace(
            self._ending(num_survivors=len(survivors)),
            num_leftovers=num_left,
            uncaught=find_uncaught(self.folder.logs, since=ended_at - UNCAUGHT_S, mask=self.mask),
            silent_s=ended_at - self.started_at if self._is_silent() else None,
        )
        self.standing.enter("EXITED", exit=classify_exit(ending))

    def _ending(self, *, only_ended: bool = False, num_survivors: int = 0) -> ExitEvidence:
        """Return all facts that the classification uses; `only_ended` leaves out workers that still
        run."""
        processes = self.processes
        launcher = processes.launcher
        num_oom_kills_here, num_oom_kills_on_node = processes.num_oom_kills()
        words = tail(launcher_log(self.folder.logs, "stderr"), mask=self.mask)
        if processes.is_script and not words.strip():
            words = tail(launcher_log(self.folder.logs, "stdout"), mask=self.mask)
        limits = processes.limits
        exceeded = processes.exceeded()
        workers = collect_ends(
            self.folder.logs,
            self.workers.ends(),
            launcher,
            self.mask,
            shared_words=without_launchers(words) if processes.is_script else "",
        )
        said = [words, *(text for w in workers for text in (w.error, w.stderr_tail))]
        if (port := port_in_use(said)) and port not in self.port_holders:
            self.port_holders[port] = holder_of(port, own_allocation=self.spec.allocation_id)
        return ExitEvidence(
            launcher=processes.launcher_name,
            workers=[w for w in workers if w.at_ms or not only_ended],
            launcher_exit_code=launcher.exit_code if launcher else None,
            launcher_signal=launcher.signal if launcher else None,
            launcher_tail=words,
            script=shown_command(self.spec.entrypoint) if processes.is_script else "",
            num_slots=self.spec.world_size,
            slot_type=self.spec.slot_type,
            work_dir=self.work_dir,
            run_dir=self.processes.run_dir,
            own_ports=processes.own_ports(),
            port_holder=self.port_holders.get(port, ""),
            stop=self._how_asked(),
            stop_reason=self.commands.reason,
            stop_at_ms=self.commands.asked_at_ms,
            site_stop_at_ms=self.signalled_at_ms or self.commands.told_at_ms,
            is_forced=self.is_forced,
            stop_grace_s=self.stopping.grace_s(),
            num_oom_kills_here=num_oom_kills_here,
            num_oom_kills_on_node=num_oom_kills_on_node,
            engine_failure=processes.confinement.fate().failure,
            rendezvous_failure=processes.rendezvous_host.failure(),
            limit=exceeded.words if exceeded is not None else "",
            limit_at_ms=exceeded.at_ms if exceeded is not None else 0,
            file_limit=disk_words(limits.limits, None) if limits.limits.disk_bytes else "",
            num_survivors=num_survivors,
            unix_at_boot_ms=unix_at_boot_ms(),
        )

    def _how_asked(self) -> Literal["", "stop", "kill", "node"]:
        if not self.was_asked:
            return ""
        if self.commands.is_by_node:
            return "node"
        return "stop" if self.commands.kill is None else "kill"

    # ------------------------------------------------------------ processes

    async def _end_processes(self) -> set[Identity]:
        """Kill the whole tree and read its last reports. Return the processes that would not die."""
        self.watching.close()
        survivors = await self.processes.kill()
        with contextlib.suppress(OSError):  # The disk may be full.
            note(self.folder.home, self.folder.allocation_id, survivors)
        await self.reports.drain(timeout_s=DRAIN_TIMEOUT_S)
        if self.work_dir:
            work = Path(self.work_dir)
            prefix = dump_prefix(str(work / OUTPUT_FOLDER), self.spec.attempt_no)
            await asyncio.to_thread(
                self.watching.tell_dumps,
                lambda rank: Path(f"{prefix}{rank}"),
                self.workers.by_local_rank.values(),
                base=work.parent,
            )
        await self.tracker.close()
        await self.event_values.close()
        self.media.report(is_due=True)
        await self.log_values.close()
        return survivors

    def _place_of_process(self, pid: int | None) -> tuple[int, int]:
        """Return local rank and rank of a worker; those of the node's first one for another
        process."""
        for local_rank, worker in self.workers.by_local_rank.items():
            if worker.record.pid == pid:
                return local_rank, worker.record.rank
        first = self.workers.by_local_rank.get(0)
        return 0, first.record.rank if first else self.spec.rank_offset

    def _place_of(self, file: LogFile) -> tuple[int, int] | None:
        """Return local rank and rank of what a log says; None for that of a launcher alone."""
        if file.local_rank == LAUNCHER_LOCAL_RANK:
            return (0, self.spec.rank_offset) if self.processes.is_script else None
        known = self.workers.by_local_rank.get(file.local_rank)
        rank = known.record.rank if known else self.spec.rank_offset + file.local_rank
        return file.local_rank, rank

    def _is_silent(self) -> bool:
        """Return whether the job has printed, reported and written nothing, as far as is seen."""
        return not (
            self.has_reported
            or has_output(self.folder.logs)
            or self.processes.has_written(since=self.started_at)
        )

    def _tell_leftovers(self) -> int:
        """Tell of the processes that the last worker left behind, and return their number."""
        num_left = self.processes.num_leftovers()
        if not self._has_ended():
            return 0
        if num_left:
            self._warn(
                f"{num_left} processes were still running after the last worker had ended; "
                "they were killed"
            )
        return num_left

    def _has_ended(self) -> bool:
        return self.processes.has_ended

    def _is_upkeep_due(self) -> bool:
        if time.monotonic() < self.next_upkeep_at:
            return False
        self.next_upkeep_at = time.monotonic() + UPKEEP_S
        return True

    def _tell_unmeasured(self) -> None:
        """Say once why a process that trains is not measured. Those of a container are not ours."""
        is_open = self.spec.launcher in ("plain", "shell") and STEPS in attached(self.spec)
        if self.has_told_unmeasured or not is_open or self.processes.confinement.container:
            return
        if words := find_unmeasured(descendants(os.getpid())):
            self.has_told_unmeasured = True
            self._say("info", words)

    def _keep_logs_in_bounds(self) -> None:
        for file in find_logs(self.folder.logs):
            with contextlib.suppress(OSError):
                free_past_limit(file.path, limit_bytes=self.spec.log_limit_bytes)

    # ------------------------------------------------------------ waiting and telling

    async def _tick(self, timeout_s: float = POLL_S) -> None:
        """Wait for a command or a child's end, at most `timeout_s`; then process both."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.commands.changed.wait()
        self.commands.changed.clear()
        self.processes.children.reap()
        self._check_deadline()
        self.standing.write_held()

    def _check_deadline(self) -> None:
        deadline = self.commands.deadline_boot_s
        if self.spec.on_disconnect == "stop" and deadline is not None and boot_clock() > deadline:
            self.commands.ask_kill(
                "on_disconnect is 'stop' and the control plane was out of reach for longer than "
                "the node's lease",
                by_node=True,
            )

    def _status(self) -> dict[str, Any]:
        self.standing.show()
        state = self.standing.state
        return {
            "observed": state.observed,
            "asked": state.asked,
            "is_signalled": self.is_signalled,
        }

    def _on_child(self) -> None:
        reaping.collect()
        self.commands.changed.set()

    def _on_hello(self, record: wire.WorkerRecord) -> None:
        self.workers.replace(record)
        self.spool.append(record)

    def _on_report(self, record: str, is_metrics: bool) -> None:
        self.has_reported = True
        self.spool.append_raw(record, is_metrics=is_metrics)
        if self.local is not None:
            self.local.heard(record)

    def _warn(self, text: str) -> None:
        self._say("warning", text)

    def _say(self, level: Literal["info", "warning"], text: str) -> None:
        log.log(logging.WARNING if level == "warning" else logging.INFO, "%s", text)
        self.spool.append(wire.MessageRecord(level=level, text=text))
