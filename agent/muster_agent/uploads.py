"""Delivery of one allocation's records and logs to the server, in order and without loss.

What happened first is sent first; the EXITED record waits until every log byte is acknowledged, so
a trial that is over has all its metrics and its whole log. Nothing here changes the spool: a
restart asks the server what it holds and goes on from there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable

import structlog

from muster import wire
from muster_agent.client import ControlPlane, RequestRefused, Session, persistently
from muster_agent.jobs.allocations import Allocation, version_of
from muster_agent.records.logs import LogFile, cut_size, find_logs, read_cut
from muster_agent.records.masking import Mask
from muster_agent.records.spool import SpoolLine

log = structlog.get_logger("muster.agent")

POLL_S = 0.1
"""Longest time in seconds until a new record is seen."""
LOG_SCAN_EVERY = 3
"""Log files are searched for at every third poll."""
MAX_RECORDS = 1_000
MAX_RECORD_BYTES = 3_500_000  # The server accepts 4 MiB, envelope included.
MAX_LOG_BYTES = 1_048_576
REFUSED_PAUSE_S = 5.0
NO_PROGRESS_PAUSE_S = 0.5
UNACCEPTABLE = frozenset({400, 413, 422})
"""Answers that reject the content itself: it would be rejected for ever."""


class Uploader:
    def __init__(
        self,
        allocation: Allocation,
        plane: ControlPlane,
        session: Session,
        *,
        release: Callable[[Allocation], Awaitable[None]],
    ) -> None:
        """Create the uploader; `release` is awaited before the end of the allocation is sent, with which
        its slots become free."""
        self._release = release
        self._allocation = allocation
        self._plane = plane
        self._session = session
        self._given_up: set[tuple[int, str]] = set()
        self._files: list[LogFile] = []
        self._polls_until_scan = 0
        self._max_records = MAX_RECORDS

    async def run(self) -> None:
        """Run until everything is delivered. Raises Superseded if this session is no longer the
        node's."""
        while not self._allocation.is_delivered:
            had_ended = self._allocation.has_ended
            try:
                is_waiting_for_logs, sent_records = await self._send_records()
                sent_logs = await self._send_logs(must_scan=had_ended or is_waiting_for_logs)
                if is_waiting_for_logs and not sent_logs:
                    await self._send_exit()
            except RequestRefused as error:
                log.warning(
                    "upload_refused",
                    allocation_id=self._allocation.allocation_id,
                    error=str(error),
                )
                await asyncio.sleep(REFUSED_PAUSE_S)
                continue
            if not (sent_records or sent_logs):
                await asyncio.sleep(POLL_S)

    async def _send_records(self) -> tuple[bool, bool]:
        """Send records; return whether only the exit record is left, and whether anything was sent."""
        allocation = self._allocation
        lines = allocation.reader.read(
            allocation.acked_seq, max_records=self._max_records, max_bytes=MAX_RECORD_BYTES
        )
        has_exit = bool(lines) and lines[-1].is_exit()
        if has_exit:
            lines.pop()
        if lines:
            await self._send(lines)
        elif allocation.observed == "PREPARE_FAILED":
            allocation.is_delivered = (
                True  # Nothing ran, so there is neither a log nor an exit record.
            )
        return has_exit and not lines, bool(lines)

    async def _send_exit(self) -> None:
        allocation = self._allocation
        lines = allocation.reader.read(
            allocation.acked_seq, max_records=1, max_bytes=MAX_RECORD_BYTES
        )
        if lines and lines[0].is_exit():
            allocation.is_end_reported = True
            await self._release(allocation)
            await self._send(lines)
            allocation.is_delivered = allocation.acked_seq >= lines[0].seq

    async def _send(self, lines: list[SpoolLine]) -> None:
        allocation = self._allocation

        async def call() -> wire.RecordsReply:
            return await self._plane.records(
                self._session, allocation.allocation_id, allocation.spec.attempt_no, lines
            )

        try:
            reply = await persistently(call, what="records")
        except RequestRefused as error:
            if error.status not in UNACCEPTABLE:
                raise
            await self._work_around(lines, error)
            return
        if reply.superseded and not allocation.is_superseded:
            allocation.is_superseded = True
            log.warning("attempt_superseded", allocation_id=allocation.allocation_id)
        for done in reply.models:
            await allocation.command("registered", done=dataclasses.asdict(done))
        self._max_records = MAX_RECORDS
        allocation.acked_seq = reply.acked_seq
        allocation.reader.drop_until(reply.acked_seq)

    async def _work_around(self, lines: list[SpoolLine], error: RequestRefused) -> None:
        """Skip one record that the server will never accept, so that it does not hold up the
        others."""
        if len(lines) > 1:
            self._max_records = max(1, len(lines) // 2)
            return
        numbered = json.loads(lines[0].data)
        kind = numbered["record"].get("type")
        log.error(
            "record_refused",
            allocation_id=self._allocation.allocation_id,
            seq=lines[0].seq,
            type=kind,
            error=str(error),
        )
        if kind in ("state", "message"):
            raise error
        text = f"record {lines[0].seq} ({kind}) was refused by the server and is lost: {error}"
        message = wire.MessageRecord(level="error", text=text[:2_000])
        numbered["record"] = dataclasses.asdict(message)
        await self._send([SpoolLine(lines[0].seq, json.dumps(numbered).encode())])

    async def _send_logs(self, *, must_scan: bool) -> bool:
        """Send one piece of each log that has grown; return whether there was any."""
        self._polls_until_scan -= 1
        if must_scan or self._polls_until_scan < 0:
            self._polls_until_scan = LOG_SCAN_EVERY
            self._files = find_logs(self._allocation.folder.logs)
        has_sent = False
        for file in self._files:
            has_sent = await self._send_log(file, is_final=must_scan) or has_sent
        return has_sent

    async def _send_log(self, file: LogFile, *, is_final: bool) -> bool:
        allocation = self._allocation
        key = (file.local_rank, file.stream)
        offset = allocation.log_offsets.get(key, 0)
        limit = allocation.spec.log_limit_bytes
        if key in self._given_up or cut_size(file.path, limit_bytes=limit) <= offset:
            return False
        data = read_cut(
            file.path,
            offset,
            limit_bytes=limit,
            max_bytes=MAX_LOG_BYTES,
            mask=await self._mask(),
            is_final=is_final,
        )
        if not data:
            return False

        async def call() -> int:
            return await self._plane.logs(
                self._session,
                allocation.allocation_id,
                allocation.spec.attempt_no,
                local_rank=file.local_rank,
                stream=file.stream,
                offset=offset,
                data=data,
            )

        try:
            next_offset = await persistently(call, what="logs")
        except RequestRefused as error:
            if error.status not in UNACCEPTABLE:
                raise
            self._given_up.add(key)  # A log must not keep a trial from ending.
            log.error(
                "log_refused",
                allocation_id=allocation.allocation_id,
                local_rank=file.local_rank,
                stream=file.stream,
                error=str(error),
            )
            return False
        if next_offset == offset:
            await asyncio.sleep(NO_PROGRESS_PAUSE_S)  # The server keeps less than it was sent.
        allocation.log_offsets[key] = next_offset
        return True

    async def _mask(self) -> Mask:
        """Return what hides the job's secrets.

        An agent that was started after the job asks its shim, or, once that has ended, the server.
        If the values have changed meanwhile, the rest of the log is hidden altogether.
        """
        allocation = self._allocation
        if allocation.mask is not None:
            return allocation.mask
        if not await allocation.ask_shim_for_secrets():
            allocation.mask = await self._mask_by_server()
        assert allocation.mask is not None
        return allocation.mask

    async def _mask_by_server(self) -> Mask:
        allocation = self._allocation

        async def call() -> list[wire.SecretValue]:
            return await self._plane.secrets(
                self._session, allocation.allocation_id, allocation.spec.attempt_no
            )

        given = allocation.folder.read_secret_versions()
        try:
            secrets = await persistently(call, what="secrets")
        except RequestRefused as error:
            problem = error.message
        else:
            if {s.name: version_of(s) for s in secrets} == given:
                return allocation.folder.mask(secret.value for secret in secrets)
            problem = "a secret has another value now"
        log.warning("log_hidden", allocation_id=allocation.allocation_id, problem=problem)
        return Mask(hides_all=True)
