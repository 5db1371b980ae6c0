"""Versions of models that jobs read: fetched once, kept by digest while there is room, and copied."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from muster import wire
from muster.byte_sizes import byte_size
from muster_agent.client import (
    ControlPlane,
    RequestRefused,
    ServerUnreachable,
    Session,
    SessionSuperseded,
)
from muster_agent.shim.failures import goes_by_itself

WAIT_S = 600.0
"""Longest wait in seconds for a node that has to read a part of a file."""
POLL_S = 0.3
RETRY_S = 1.0
TRIES = 5
"""How often a part is fetched again that arrived damaged, or whose bytes were gone."""
_GONE = frozenset({"models.not_fetched", "exports.not_found", "exports.pending"})
"""Errors about bytes that the server kept for a while: they are asked for again."""

Say = Callable[[str], None]


class ModelUnavailable(Exception):
    """A version that cannot be had here; the message is one clause for people."""

    def __init__(self, message: str, *, blames: wire.Blame = "", passes: bool = False) -> None:
        super().__init__(message)
        self.blames: wire.Blame = blames
        self.passes = passes


class ModelCache:
    """Files of versions by digest, in a folder that only the agent reads.

    Jobs get copies: a second name of the same file would let a job change what others read, and some
    programs refuse to open such files.
    """

    def __init__(self, folder: Path, *, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._locks: dict[str, asyncio.Lock] = {}
        self._used: Counter[str] = Counter()
        """Digests of files that are about to be copied."""

    async def place(
        self,
        spec: wire.AllocationSpec,
        name: str,
        into: Path,
        *,
        plane: ControlPlane,
        session_of: Callable[[], Session],
        say: Say,
    ) -> None:
        """Put the version that `spec` calls `name` into the folder `into`, which appears whole.

        session_of: returns the present session of the node. say: takes lines for the log. Waits while
        the server is out of reach. Raises ModelUnavailable.
        """
        version = spec.models[name]
        call = _Calls(spec, name, plane, session_of)
        title = f"model {name}: {version.model} version {version.version}"
        try:
            reply = await call.files()
            files = reply.files
            if wire.content_digest({f.path: f.sha256 for f in files}) != version.digest:
                raise ModelUnavailable(
                    f"{title} has other files than its digest says", blames="document"
                )
            self._require_room(into, reply)
            digests = list(dict.fromkeys(f.sha256 for f in files))
            self._used.update(digests)
            try:
                for file in {f.sha256: f for f in files}.values():
                    await self._get(file, call, lambda text: say(f"{title}, {text}"))
                await asyncio.to_thread(self._copy, files, into, version)
            finally:
                self._used.subtract(digests)
            say(f"{title}: {len(files)} files, {byte_size(reply.size_bytes)}")
            await asyncio.to_thread(self._trim)
        except RequestRefused as error:
            raise ModelUnavailable(f"{title}: {error.message}", blames="document") from error
        except OSError as error:
            raise ModelUnavailable(
                f"{title} cannot be written to {error.filename or self._folder}: "
                f"{error.strerror or error}",
                blames="node",
                passes=goes_by_itself(error),
            ) from error

    def _require_room(self, into: Path, reply: wire.ModelFilesReply) -> None:
        """Raise ModelUnavailable if the disks cannot hold the files and their copies."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        missing = sum(
            file.size_bytes or 0 for file in reply.files if not self._path(file.sha256).exists()
        )
        need = reply.size_bytes + missing
        free = shutil.disk_usage(into.parent if into.parent.exists() else self._folder).free
        if need > free:
            raise ModelUnavailable(
                f"{byte_size(need)} are needed for the files of a model and their copy, and "
                f"{byte_size(free)} are free at {self._folder.parent}",
                blames="node",
                passes=True,
            )

    # ------------------------------------------------------------ fetching

    async def _get(self, file: wire.ModelFile, call: _Calls, say: Say) -> None:
        """Fetch a file into the cache, unless it is there and undamaged."""
        path = self._path(file.sha256)
        async with self._locks.setdefault(file.sha256, asyncio.Lock()):
            if path.exists():
                if await asyncio.to_thread(_sha256, path) == file.sha256:
                    os.utime(path)
                    return
                path.unlink()
            size = "" if file.size_bytes is None else f" ({byte_size(file.size_bytes)})"
            say(f"{file.path}{size}: fetching")
            drafts = self._folder / "drafts"
            drafts.mkdir(parents=True, exist_ok=True, mode=0o700)
            parts, before = [], None
            for no in range(file.num_parts):
                done = drafts / f"{file.sha256}.{no}.done"
                if not done.exists():
                    if file.num_parts > 1:
                        say(f"{file.path}: part {no + 1} of {file.num_parts}")
                    before = await self._get_part(file, no, drafts, done, call, say, before)
                parts.append(done)
            whole = drafts / f"{file.sha256}.whole"
            found = await asyncio.to_thread(_joined, parts, whole)
            if found != file.sha256:
                whole.unlink()
                raise ModelUnavailable(
                    f"{file.path} does not have its digest: the file in the storage was changed or "
                    "damaged"
                )
            path.parent.mkdir(exist_ok=True, mode=0o700)
            whole.replace(path)

    async def _get_part(
        self,
        file: wire.ModelFile,
        no: int,
        drafts: Path,
        done: Path,
        call: _Calls,
        say: Say,
        before: int | None,
    ) -> int | None:
        """Fetch a part, from where an interrupted fetch left off; return the export that it came from.

        before: export of the part before, which only takes room now.
        """
        draft = drafts / f"{file.sha256}.{no}"
        for attempt in range(1, TRIES + 1):
            ready = await self._wait(file, no, call, say, before)
            tag = drafts / f"{draft.name}.tag"
            if not ready.sha256 or not tag.exists() or tag.read_text() != ready.sha256:
                draft.unlink(missing_ok=True)  # What is there is of other bytes.
                tag.write_text(ready.sha256)
            try:
                await call.content(file.path, ready, draft)
            except RequestRefused as error:
                if attempt == TRIES or error.code not in _GONE:
                    raise
                continue
            if not ready.sha256 or await asyncio.to_thread(_sha256, draft) == ready.sha256:
                tag.unlink()
                draft.replace(done)
                return ready.export_id
            draft.unlink()
        raise ModelUnavailable(f"a part of {file.path} arrived damaged {TRIES} times")

    async def _wait(
        self, file: wire.ModelFile, no: int, call: _Calls, say: Say, before: int | None
    ) -> wire.ModelPartReply:
        """Return a part that the server has. Raises ModelUnavailable."""
        until = time.monotonic() + WAIT_S
        waits_for, export_id = "", None
        while True:
            try:
                found = await call.part(file.path, no, export_id, before)
            except RequestRefused as error:
                if error.code == "exports.no_room":
                    found = wire.ModelPartReply(state="pending", waits_for="room for exports")
                elif error.code not in _GONE or export_id is None:
                    raise
                else:
                    found = wire.ModelPartReply(state="pending")
            before = None
            if found.state == "ready":
                return found
            export_id = found.export_id
            if found.state == "failed":
                raise ModelUnavailable(f"{file.path} could not be read: {found.message}")
            if found.waits_for not in ("", waits_for):
                waits_for = found.waits_for
                say(f"{file.path}: waiting for {waits_for}")
            if time.monotonic() > until:
                raise ModelUnavailable(
                    f"{file.path} was not read within {WAIT_S:g} s: it waits for {waits_for}"
                )
            await asyncio.sleep(POLL_S)

    # ------------------------------------------------------------ copies, and room for them

    def _copy(self, files: Sequence[wire.ModelFile], into: Path, version: wire.ModelSpec) -> None:
        """Copy the files for a job, which may read and not change them. Blocks."""
        building = into.with_name(f".new-{into.name}")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        for file in files:
            target = building.joinpath(*PurePosixPath(file.path).parts)
            if not target.resolve().is_relative_to(building.resolve()):
                raise ModelUnavailable(
                    f"the file {file.path[:200]!r} would be written outside of its folder",
                    blames="document",
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._path(file.sha256), target)
        manifest = {
            "model": version.model,
            "version": version.version,
            "digest": version.digest,
            "files": {file.path: file.sha256 for file in files},
        }
        (building / wire.MODEL_MANIFEST).write_text(json.dumps(manifest, indent=1))
        # A job may run as another user.
        for folder, _, names in os.walk(building):
            Path(folder).chmod(0o755)
            for name in names:
                (Path(folder) / name).chmod(0o644)
        shutil.rmtree(into, ignore_errors=True)
        building.rename(into)
        into.parent.chmod(0o755)

    def _trim(self) -> None:
        """Delete the files that were used longest ago until the rest fits. Blocks."""
        there = []
        for path in self._folder.glob("*/*"):
            with contextlib.suppress(OSError):
                facts = path.stat()
                there.append((facts.st_mtime, facts.st_size, path))
        total = sum(size for _, size, _ in there)
        for _, size, path in sorted(there, key=lambda each: each[0]):
            if total <= self._limit_bytes:
                return
            if not self._used[path.name.partition(".")[0]]:
                path.unlink(missing_ok=True)
                total -= size

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256


class _Calls:
    """Calls about one version, repeated while the server is out of reach."""

    def __init__(
        self,
        spec: wire.AllocationSpec,
        name: str,
        plane: ControlPlane,
        session_of: Callable[[], Session],
    ) -> None:
        self._spec, self._name, self._plane, self._session_of = spec, name, plane, session_of

    async def files(self) -> wire.ModelFilesReply:
        while True:
            session = self._session_of()
            request = wire.ModelFilesRequest(
                node_id=session.node_id,
                session_epoch=session.epoch,
                attempt_no=self._spec.attempt_no,
                name=self._name,
            )
            with contextlib.suppress(ServerUnreachable, SessionSuperseded):
                return await self._plane.model_files(self._spec.allocation_id, request)
            await asyncio.sleep(RETRY_S)

    async def part(
        self, path: str, no: int, export_id: int | None, drops: int | None
    ) -> wire.ModelPartReply:
        while True:
            request = replace(self._request(path, no, export_id), drops=drops)
            with contextlib.suppress(ServerUnreachable, SessionSuperseded):
                return await self._plane.model_part(self._spec.allocation_id, request)
            await asyncio.sleep(RETRY_S)

    async def content(self, path: str, ready: wire.ModelPartReply, draft: Path) -> None:
        """Fetch the bytes into `draft`, from where that ends."""
        while True:
            request = self._request(path, 0, ready.export_id)
            with contextlib.suppress(ServerUnreachable, SessionSuperseded):
                await self._plane.model_content(
                    self._spec.allocation_id, request, draft, etag=ready.sha256
                )
                return
            await asyncio.sleep(RETRY_S)

    def _request(self, path: str, no: int, export_id: int | None) -> wire.ModelPartRequest:
        session = self._session_of()
        return wire.ModelPartRequest(
            node_id=session.node_id,
            session_epoch=session.epoch,
            attempt_no=self._spec.attempt_no,
            name=self._name,
            path=path,
            part=no,
            export_id=export_id,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _joined(parts: Sequence[Path], whole: Path) -> str:
    """Join the parts into one file, which takes no room twice; return its SHA-256."""
    if len(parts) == 1:
        parts[0].replace(whole)
    else:
        whole.unlink(missing_ok=True)
        with whole.open("ab") as content:
            for part in parts:
                with part.open("rb") as piece:
                    shutil.copyfileobj(piece, content, 1 << 20)
                part.unlink()
    return _sha256(whole)
