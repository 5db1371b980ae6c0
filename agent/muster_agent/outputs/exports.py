"""Export of a model as one file, or of files of a trial's outputs, sent to the server piece by piece.

Nothing is written here but a model that is fetched from an object store: what is sent is made piece by
piece, and each piece is sent before the next one is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import structlog

from muster import wire
from muster.sdk.checkpoints import CheckpointDamaged
from muster_agent.client import ControlPlane, RequestRefused, Session, persistently
from muster_agent.outputs.storage import RefusedPath
from muster_agent.requests import RequestQueue

log = structlog.get_logger("muster.agent")

Model = tuple[int, Iterator[bytes]]
"""Size of a file in bytes, and its content in parts of any length."""
Open = Callable[[wire.Export], AbstractContextManager[Model]]


class _NotWanted(Exception):
    """The server no longer wants the export."""


class Exporter(RequestQueue[wire.Export]):
    """Model exports of one session."""

    def __init__(self, plane: ControlPlane, session: Session, *, open_: Open) -> None:
        """Create the exporter; `open_` and reading from it block and raise RefusedPath, OSError and
        CheckpointDamaged."""
        super().__init__()
        self._plane = plane
        self._session = session
        self._open = open_

    async def _answer(self, wanted: wire.Export) -> None:
        with contextlib.suppress(_NotWanted):
            await self._report(await self._try(wanted))

    async def _report(self, result: wire.ExportResult) -> None:
        log.info("export", id=result.id, outcome=result.outcome, message=result.message)
        try:
            await persistently(lambda: self._plane.export(self._session, result), what="exports")
        except RequestRefused as error:
            log.warning("export_not_taken", id=result.id, error=str(error))

    async def _try(self, wanted: wire.Export) -> wire.ExportResult:
        """Make one export. Raises _NotWanted."""
        opened = self._open(wanted)
        try:
            size_bytes, content = await asyncio.to_thread(opened.__enter__)
            try:
                return await self._send(wanted, size_bytes, content)
            finally:
                await asyncio.to_thread(opened.__exit__, None, None, None)
        except FileNotFoundError as error:
            why = f"{error.filename or wanted.path} is not there"
        except (RefusedPath, CheckpointDamaged, RequestRefused) as error:
            why = str(error)
        except OSError as error:
            why = f"{error.strerror or error}"
        return wire.ExportResult(id=wanted.id, outcome="failed", message=why)

    async def _send(
        self, wanted: wire.Export, size_bytes: int, content: Iterator[bytes]
    ) -> wire.ExportResult:
        if wanted.first_bytes:
            size_bytes = min(size_bytes, wanted.first_bytes)
            content = _first(content, wanted.first_bytes)
        if size_bytes > wanted.max_bytes:
            return wire.ExportResult(
                id=wanted.id,
                outcome="failed",
                message=f"the file would have {size_bytes:,} bytes, and {wanted.max_bytes:,} are "
                f"taken at most; {_instead(wanted)}",
            )
        digest = hashlib.sha256()
        pieces = _in_pieces(content)
        idx = 0
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            digest.update(piece)
            taken = await persistently(
                lambda idx=idx, piece=piece: self._plane.export_piece(  # type: ignore[misc]
                    self._session, wanted.id, idx, piece
                ),
                what="export pieces",
            )
            if not taken:
                raise _NotWanted
            idx += 1
        return wire.ExportResult(
            id=wanted.id, outcome="done", size_bytes=size_bytes, sha256=digest.hexdigest()
        )


def _instead(wanted: wire.Export) -> str:
    if wanted.files:
        return "ask for fewer files at a time"
    return "use `muster checkpoint export` on this node"


def _first(content: Iterator[bytes], num_bytes: int) -> Iterator[bytes]:
    """Yield the first `num_bytes` bytes, or all if there are fewer, and read no further."""
    for part in content:
        yield part[:num_bytes]
        num_bytes -= len(part)
        if num_bytes <= 0:
            return


def _in_pieces(content: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of EXPORT_PIECE_BYTES."""
    held = bytearray()
    for part in content:
        held += part
        done = 0
        while len(held) - done >= wire.EXPORT_PIECE_BYTES:
            yield bytes(held[done : done + wire.EXPORT_PIECE_BYTES])
            done += wire.EXPORT_PIECE_BYTES
        del held[:done]
    if held:
        yield bytes(held)
