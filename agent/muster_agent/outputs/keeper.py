"""The agent's part in outputs: it runs collections, reports their manifests, and deletes folders.

Collections need no server. Reports need a session, and everything that they report lies on disk: an
agent that was killed goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from muster import wire
from muster_agent.client import ControlPlane, RequestRefused, Session, persistently
from muster_agent.jobs.process import owner_of, tagged
from muster_agent.jobs.programs import Programs
from muster_agent.outputs.collect import CollectionResult, understand
from muster_agent.outputs.index import packed, read_index
from muster_agent.outputs.work import (
    AckedManifest,
    TrialWork,
    WorkUse,
    WrittenManifest,
    clear_aside,
    clear_trash,
    find_work,
)

log = structlog.get_logger("muster.agent")

LOOK_S = 1.0
"""Seconds between two looks at which collections are due."""
REPORT_FOLDERS_S = 600.0
CLEAR_ASIDE_S = 3600.0
"""Seconds between two looks at what was moved aside."""
SCAN_SHARE = 0.005
"""Largest share of the time that looking at a work folder may take while the job runs."""
COLLECTIONS_MAX = 2
"""Most collections at a time on a node."""
RETRY_FIRST_S = 2.0
RETRY_MAX_S = 300.0
TELL_AFTER_S = 120.0
"""Seconds for which the storage is away before the server is told."""
REFUSED_PAUSE_S = 60.0


@dataclass
class _Schedule:
    """When a work folder is collected next. Kept in memory only."""

    next_at: float
    num_failures: int = 0
    away_since: float | None = None
    problem: str = ""
    """What the server should be told of the storage; "" while it is there, or was until recently."""
    use_mtime_ns: int = 0
    use: WorkUse | None = None
    ended: str = ""
    """Allocation whose final manifest is written."""


class OutputsKeeper:
    """All work folders of a node. `run` collects; `is_changed` is set when there is news to report."""

    def __init__(
        self,
        home: Path,
        *,
        storage: Path,
        bytes_per_s: int,
        is_running: Callable[[str], bool],
        programs: Programs,
    ) -> None:
        """Create the keeper; `is_running` tells whether an allocation is on this node and has not
        ended."""
        self.home = home
        self.has_news = asyncio.Event()
        self._storage = storage
        self._bytes_per_s = bytes_per_s
        self._programs = programs
        self._is_running = is_running
        self._schedules: dict[str, _Schedule] = {}
        """Folder → when it is collected."""
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Collect until canceled."""
        await asyncio.to_thread(clear_trash, self.home)
        next_clearing = 0.0
        try:
            while True:
                if time.monotonic() >= next_clearing:
                    next_clearing = time.monotonic() + CLEAR_ASIDE_S
                    gone = await asyncio.to_thread(clear_aside, self.home, now_s=time.time())
                    for name, size_bytes in gone:
                        log.info("aside_deleted", folder=name, size_bytes=size_bytes)
                for work, use, is_final in await asyncio.to_thread(self._due):
                    if len(self._running) >= COLLECTIONS_MAX:
                        break
                    if is_final and self._is_running(use.allocation_id):
                        continue  # Its shim is about to begin, or was killed.
                    task = asyncio.create_task(self._collect(work, is_final=is_final))
                    self._running[work.name] = task
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    def problem_of(self, work: TrialWork) -> str:
        """Return what keeps the outputs of a folder from the storage; "" for nothing."""
        schedule = self._schedules.get(work.name)
        return schedule.problem if schedule is not None else ""

    # ------------------------------------------------------------ what is due

    def _due(self) -> list[tuple[TrialWork, WorkUse, bool]]:
        """Return the folders to collect now, and whether nothing of the job lives any more."""
        found = []
        works = find_work(self.home)
        for name in self._schedules.keys() - {work.name for work in works}:
            del self._schedules[name]
        for work in works:
            schedule = self._schedules.setdefault(work.name, _Schedule(next_at=0.0))
            use = self._use(work, schedule)
            if use is None or use.outputs is None or schedule.ended == use.allocation_id:
                continue
            if work.name in self._running:
                continue
            is_used = work.is_used()
            now = time.monotonic()
            if is_used and schedule.next_at == 0.0:
                schedule.next_at = now + use.outputs.every_s
            if now < schedule.next_at and (is_used or schedule.num_failures):
                continue
            if not is_used:
                if tagged(use.allocation_id, owner_of(self.home)):
                    continue  # Their shim is dead; the agent ends them.
                if has_final(work, use):
                    schedule.ended = use.allocation_id
                    continue
            found.append((work, use, not is_used))
        # What has ended is waited for.
        return sorted(found, key=lambda item: not item[2])

    def _use(self, work: TrialWork, schedule: _Schedule) -> WorkUse | None:
        try:
            mtime_ns = (work.path / "attempt.json").stat().st_mtime_ns
        except OSError:
            return None
        if mtime_ns != schedule.use_mtime_ns:
            schedule.use, schedule.use_mtime_ns = work.read_use(), mtime_ns
            schedule.next_at, schedule.num_failures = 0.0, 0
        return schedule.use

    # ------------------------------------------------------------ collections

    async def _collect(self, work: TrialWork, *, is_final: bool) -> None:
        schedule = self._schedules[work.name]
        try:
            result = await self._run_collector(work, is_final=is_final)
            self._note(work, schedule, result, is_final=is_final)
        except Exception as error:
            log.exception("collection_failed", trial_id=work.trial_id)
            problem = f"a collection failed: {error}; the log of the node's agent has the details"
            failed = CollectionResult(outcome="away", problem=problem)
            self._note(work, schedule, failed, is_final=is_final)
        finally:
            self._running.pop(work.name, None)

    def _note(
        self, work: TrialWork, schedule: _Schedule, result: CollectionResult, *, is_final: bool
    ) -> None:
        now = time.monotonic()
        if result.outcome == "away":
            schedule.num_failures += 1
            schedule.away_since = schedule.away_since or now
            pause_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(schedule.num_failures - 1, 20))
            schedule.next_at = now + pause_s
            log.warning("outputs_away", trial_id=work.trial_id, reason=result.problem)
            if now - schedule.away_since >= TELL_AFTER_S and schedule.problem != result.problem:
                schedule.problem = result.problem
                self.has_news.set()
            return
        if result.outcome in ("written", "same"):
            if schedule.problem or result.num_adopted or result.outcome == "written":
                self.has_news.set()
            if result.outcome == "written":
                log.info("outputs_collected", trial_id=work.trial_id, is_final=is_final)
            schedule.away_since, schedule.problem, schedule.num_failures = None, "", 0
        every_s = 0.0
        if schedule.use is not None and schedule.use.outputs is not None:
            every_s = schedule.use.outputs.every_s
        if is_final:
            # It ends with the final manifest; whatever has kept that away lasts a while.
            is_done = schedule.use is not None and has_final(work, schedule.use)
            is_soon = is_done or result.outcome in ("busy", "interrupted")
            schedule.num_failures = 0 if is_soon else 1
            every_s = RETRY_FIRST_S if is_soon else RETRY_MAX_S
        schedule.next_at = now + max(every_s, result.scan_s / SCAN_SHARE)

    async def _run_collector(self, work: TrialWork, *, is_final: bool) -> CollectionResult:
        line = await self._programs.result_of(
            "muster_agent.outputs",
            *("--home", str(self.home)),
            *("--folder", work.name),
            *("--storage", str(self._storage)),
            *("--bytes-per-s", str(self._bytes_per_s)),
            *(["--final"] if is_final else []),
        )
        return understand(line)


def has_final(work: TrialWork, use: WorkUse) -> bool:
    """Return whether the final manifest of an attempt is written."""
    last = work.read_manifest()
    return last is not None and last.allocation_id == use.allocation_id and last.summary.is_final


def is_all_reported(home: Path) -> bool:
    """Return whether the server has answered the final manifest of every work folder that is kept."""
    for work in find_work(home):
        use, acked = work.read_use(), work.read_acked()
        if use is None or use.outputs is None:
            continue
        if acked is None or acked.allocation_id != use.allocation_id or not acked.is_final:
            return False
    return True


# ---------------------------------------------------------------- reports


class OutputsReporter:
    """Reports of one session."""

    def __init__(
        self,
        plane: ControlPlane,
        session: Session,
        keeper: OutputsKeeper,
        *,
        is_in_use: Callable[[int], bool],
    ) -> None:
        """Create the reporter; `is_in_use` tells whether an allocation of a trial is on this node."""
        self._plane = plane
        self._session = session
        self._keeper = keeper
        self._is_in_use = is_in_use
        self._not_before: dict[str, float] = {}

    async def run(self) -> None:
        """Report until the session ends, or for ever after an answer that says that the server is
        older. Raises Superseded."""
        keeper = self._keeper
        folders_at = 0.0
        keeper.has_news.set()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, folders_at - time.monotonic())):
                    await keeper.has_news.wait()
            keeper.has_news.clear()
            try:
                is_any_final = await self._report_manifests()
                if is_any_final or time.monotonic() >= folders_at:
                    folders_at = time.monotonic() + REPORT_FOLDERS_S
                    await self._report_folders()
            except RequestRefused as error:
                if _is_older(error):
                    log.info("outputs_not_wanted", reason="the server is older and keeps none")
                    return
                log.warning("work_folders_refused", error=str(error))

    async def _report_manifests(self) -> bool:
        """Report what the server has not answered yet; return whether a final one was answered."""
        is_any_final = False
        for work in await asyncio.to_thread(find_work, self._keeper.home):
            if self._not_before.get(work.name, 0.0) > time.monotonic():
                continue
            found = await asyncio.to_thread(self._unreported, work)
            if found is None:
                continue
            last, adopted = found
            sent = adopted[: wire.ADOPTED_AT_ONCE]
            try:
                reply = await self._send(last, sent)
            except RequestRefused as error:
                if _is_older(error):
                    raise
                log.warning("outputs_refused", trial_id=work.trial_id, error=str(error))
                self._not_before[work.name] = time.monotonic() + REFUSED_PAUSE_S
                asyncio.get_running_loop().call_later(
                    REFUSED_PAUSE_S + LOOK_S, self._keeper.has_news.set
                )
                continue
            summary = last.summary
            acked = AckedManifest(
                allocation_id=last.allocation_id,
                seq=summary.seq,
                is_final=summary.is_final,
                problem=summary.problem,
                is_taken=reply.taken,
                adopted_no=sent[-1].no if sent else self._adopted_no(work),
            )
            with contextlib.suppress(OSError):  # Reported once more, then.
                await asyncio.to_thread(work.write_acked, acked)
            is_any_final = is_any_final or summary.is_final
            if len(adopted) > len(sent):
                self._keeper.has_news.set()
        return is_any_final

    def _adopted_no(self, work: TrialWork) -> int:
        acked = work.read_acked()
        return acked.adopted_no if acked is not None else 0

    def _unreported(
        self, work: TrialWork
    ) -> tuple[WrittenManifest, list[wire.AdoptedCheckpoint]] | None:
        """Return what to report of a folder, with the problem that its storage has now."""
        use, last, acked = work.read_use(), work.read_manifest(), work.read_acked()
        if use is None:
            return None
        problem = self._keeper.problem_of(work)
        if problem:
            last = with_problem(use, last, problem)
        if last is None:
            return None
        is_answered = acked is not None and (
            (acked.allocation_id, acked.seq, acked.is_final, acked.problem)
            == (last.allocation_id, last.summary.seq, last.summary.is_final, last.summary.problem)
        )
        done_no = acked.adopted_no if acked is not None else 0
        adopted = [one for one in work.read_adopted().checkpoints if one.no > done_no]
        return None if is_answered and not adopted else (last, adopted)

    async def _send(
        self, last: WrittenManifest, adopted: list[wire.AdoptedCheckpoint]
    ) -> wire.OutputsReply:
        request = wire.OutputsRequest(
            node_id=self._session.node_id,
            session_epoch=self._session.epoch,
            storage_id=last.storage_id,
            storage_url=last.storage_url,
            folder=last.folder,
            summary=last.summary,
            files=last.files,
            adopted=adopted,
        )
        return await persistently(lambda: self._plane.outputs(request), what="outputs")

    async def _report_folders(self) -> None:
        found = await asyncio.to_thread(work_folders, self._keeper.home)
        request = wire.WorkFoldersRequest(
            node_id=self._session.node_id, session_epoch=self._session.epoch, folders=found
        )
        reply = await persistently(lambda: self._plane.work_folders(request), what="work folders")
        present = {folder.trial_id for folder in found}
        for trial_id in reply.delete:
            if trial_id not in present or self._is_in_use(trial_id):
                continue
            try:
                is_gone = await asyncio.to_thread(self._delete, trial_id)
            except OSError as error:
                log.warning("work_folder_not_deleted", trial_id=trial_id, error=str(error))
            else:
                log.info(
                    "work_folder_deleted" if is_gone else "work_folder_used", trial_id=trial_id
                )

    def _delete(self, trial_id: int) -> bool:
        """Delete all folders of a trial; return False while an attempt uses one of them."""
        works = find_work(self._keeper.home)
        deleted = [work.delete() for work in works if work.trial_id == trial_id]
        return all(deleted)


def _is_older(error: RequestRefused) -> bool:
    """Return whether the server does not know the call at all."""
    return error.status == 404 and error.code in ("request.no_such_path", "unknown")


def with_problem(use: WorkUse, last: WrittenManifest | None, problem: str) -> WrittenManifest:
    """Return the last manifest with a problem that arose after it; before the first, an empty one
    with number 0."""
    if last is not None:
        summary = dataclasses.replace(last.summary, is_final=False, problem=problem)
        return dataclasses.replace(last, summary=summary)
    return WrittenManifest(
        allocation_id=use.allocation_id,
        storage_id="" if use.url else use.storage_id,
        storage_url=use.url,
        folder=use.folder,
        summary=wire.OutputsSummary(
            experiment_id=use.experiment_id,
            trial_id=use.trial_id,
            attempt_no=use.attempt_no,
            node_rank=use.node_rank,
            seq=0,
            is_final=False,
            num_files=0,
            size_bytes=0,
            num_left_out=0,
            left_out_bytes=0,
            problem=problem,
        ),
        files=packed([]),
    )


def work_folders(home: Path) -> list[wire.WorkFolder]:
    """Return the work folders of a node, as the server is told of them: the folders of the members of a
    gang of roles as one."""
    found: dict[int, wire.WorkFolder] = {}
    for work in find_work(home):
        use, acked, index = work.read_use(), work.read_acked(), read_index(work.index)
        if use is None:
            continue
        is_answered = acked is not None and acked.is_final
        is_own = acked is not None and acked.allocation_id == use.allocation_id
        has_nothing = use.outputs is None and not work.is_used()
        before = found.get(use.trial_id)
        found[use.trial_id] = wire.WorkFolder(
            experiment_id=use.experiment_id,
            trial_id=use.trial_id,
            attempt_no=max(use.attempt_no, before.attempt_no if before else 0),
            is_collected=(has_nothing or (is_answered and is_own))
            and (before is None or before.is_collected),
            size_bytes=(index.disk_bytes if index is not None else 0)
            + (before.size_bytes if before else 0),
        )
    return list(found.values())
