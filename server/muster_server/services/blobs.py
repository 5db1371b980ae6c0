"""Uploaded code bundles: checked, kept in the database in pieces of 1 MiB, streamed to agents."""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.models import BlobChunkRow, BlobRow, ExperimentRow
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.errors import InvalidRequest, NotFound, TooLarge

from . import chunks

CHUNK_BYTES = 1 << 20
MEMBERS_MAX = 20_000
PATH_MAX_CHARS = 1_000
NAME_MAX_BYTES = 255
"""Of one part of a path: what file systems take."""
UNPACKED_MAX_BYTES = 2 << 30
_READ_MAX_BYTES = 4 << 20
"""One read while checking; a longer one would be a header that claims to be that long."""
UNUSED_DAYS = 7
"""A bundle that no experiment refers to is deleted when it is this old."""


@dataclass(frozen=True)
class Member:
    """A regular file of a bundle."""

    name: str
    size_bytes: int


def put(
    session: Session, *, sha256: str, size_bytes: int, body: IO[bytes], now: dt.datetime
) -> None:
    """Store a bundle whose digest and content were checked. One that is there stays as it is."""
    inserted = session.execute(
        insert_or_ignore(session, BlobRow),
        {"sha256": sha256, "size_bytes": size_bytes, "created_at": now},
    )
    if cast(Any, inserted).rowcount != 1:
        return
    body.seek(0)
    index = 0
    while chunk := body.read(CHUNK_BYTES):
        session.execute(
            insert_or_ignore(session, BlobChunkRow),
            {"sha256": sha256, "idx": index, "data": chunk},
        )
        index += 1


def get(session: Session, sha256: str) -> BlobRow:
    """Raises NotFound."""
    row = session.get(BlobRow, sha256)
    if row is None:
        raise NotFound("blobs.not_found", "There is no such bundle.")
    return row


def stream(database: Database, sha256: str) -> Iterator[bytes]:
    """The bundle piece by piece."""
    return chunks.stream(
        database,
        lambda index: select(BlobChunkRow.data).where(
            BlobChunkRow.sha256 == sha256, BlobChunkRow.idx == index
        ),
    )


def list_members(session: Session, sha256: str) -> list[Member]:
    """The regular files of a stored bundle, in archive order. Raises NotFound."""
    row = get(session, sha256)
    body = io.BufferedReader(_StoredBlob(session, sha256, row.size_bytes), CHUNK_BYTES)
    return check_bundle(body)


def check_bundle(body: IO[bytes]) -> list[Member]:
    """The regular files of a tar.gz that is safe to unpack anywhere.

    Refused, with InvalidRequest or TooLarge: what is no tar.gz, absolute paths and .., links that
    lead outside, devices, paths that no file system takes or that are there twice, more than
    MEMBERS_MAX members, more than UNPACKED_MAX_BYTES unpacked.
    Reads the archive once, in bounded memory, whatever its headers claim.
    """
    members: list[Member] = []
    seen = _Paths()
    total = 0
    try:
        with (
            gzip.GzipFile(fileobj=body, mode="rb") as unpacked,
            tarfile.open(fileobj=cast("IO[bytes]", _Bounded(unpacked)), mode="r:") as archive,
        ):
            for count, member in enumerate(archive, 1):
                if count > MEMBERS_MAX:
                    raise TooLarge(
                        "blobs.too_many_files",
                        f"The bundle holds more than {MEMBERS_MAX:,} files.",
                        hint="Leave out data and environments with .musterignore.",
                    )
                problem = _problem(member) or seen.add(member)
                if problem:
                    raise _unsafe(member, problem)
                total += member.size
                if total > UNPACKED_MAX_BYTES:
                    raise _too_large()
                if member.isreg():
                    members.append(Member(posixpath.normpath(member.name), member.size))
                archive.members = []  # type: ignore[attr-defined]  # it would keep every header
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise InvalidRequest(
            "blobs.not_a_bundle", f"The bundle is not a readable tar.gz ({type(error).__name__})."
        ) from None
    return members


def delete_unused(session: Session, now: dt.datetime, *, limit: int = 20) -> int:
    """Delete bundles that are older than UNUSED_DAYS and that no experiment refers to."""
    old = session.scalars(
        select(BlobRow.sha256)
        .where(
            BlobRow.created_at < now - dt.timedelta(days=UNUSED_DAYS),
            ~exists().where(ExperimentRow.blob_sha256 == BlobRow.sha256),
        )
        .limit(limit)
    ).all()
    if old:
        session.execute(delete(BlobChunkRow).where(BlobChunkRow.sha256.in_(old)))
        session.execute(delete(BlobRow).where(BlobRow.sha256.in_(old)))
    return len(old)


class Upload:
    """Counts and digests what is written to it. Raises TooLarge past the limit."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self.size_bytes = 0
        self._file = file
        self._max_bytes = max_bytes
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.size_bytes += len(data)
        if self.size_bytes > self._max_bytes:
            raise TooLarge(
                "blobs.too_large",
                f"A bundle may have {self._max_bytes:,} bytes at most.",
                hint="Leave out data and environments with .musterignore.",
            )
        self._digest.update(data)
        self._file.write(data)

    def check(self, sha256: str) -> None:
        """Raises InvalidRequest unless what was written has this digest."""
        if self._digest.hexdigest() != sha256:
            raise InvalidRequest(
                "blobs.wrong_digest", "What arrived does not have the SHA-256 in the address."
            )


class _Paths:
    """What a bundle holds so far: no path twice, and nothing inside of a file."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def add(self, member: tarfile.TarInfo) -> str | None:
        """What is wrong with adding this one, if anything."""
        path = posixpath.normpath(member.name)
        folders = []
        parent = posixpath.dirname(path)
        while parent and parent not in self._folders:
            folders.append(parent)
            parent = posixpath.dirname(parent)
        if any(folder in self._files for folder in folders):
            return "it is inside of something that is a file"
        self._folders.update(folders)
        if member.isdir():
            if path in self._files:
                return "it is there twice"
            self._folders.add(path)
            return None
        if path in self._folders:
            return "something else is inside of it, which is a file"
        if path in self._files:
            return "it is there twice"
        self._files.add(path)
        return None


def _problem(member: tarfile.TarInfo) -> str | None:
    if _leads_outside(member.name):
        return "its path leads outside the bundle"
    if len(member.name) > PATH_MAX_CHARS:
        return f"its path is longer than {PATH_MAX_CHARS:,} characters"
    if any(len(part.encode(errors="replace")) > NAME_MAX_BYTES for part in member.name.split("/")):
        return f"a name in its path is longer than {NAME_MAX_BYTES} bytes"
    if (
        member.issym()
        and _leads_outside(
            posixpath.join(posixpath.dirname(member.name), member.linkname)
            if not member.linkname.startswith("/")
            else member.linkname
        )
    ) or (member.islnk() and _leads_outside(member.linkname)):
        return "it links to something outside the bundle"
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return "it is neither a file, a folder nor a link"
    return None


def _unsafe(member: tarfile.TarInfo, problem: str) -> InvalidRequest:
    shown = "".join(c if c.isprintable() else "?" for c in member.name[:120])
    return InvalidRequest("blobs.unsafe_member", f"The bundle is refused: {shown!r}: {problem}.")


def _leads_outside(path: str) -> bool:
    normal = posixpath.normpath(path.replace("\\", "/"))
    is_absolute = normal.startswith("/") or normal[1:2] == ":"
    return is_absolute or normal == ".." or normal.startswith("../") or "\x00" in path


def _too_large() -> TooLarge:
    return TooLarge(
        "blobs.unpacks_too_large",
        f"Unpacked, the bundle has more than {UNPACKED_MAX_BYTES >> 20:,} MiB.",
    )


class _Bounded(io.RawIOBase):
    """What tarfile reads from: no long reads, no more than the limit, skipping in small pieces."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        self._inner = inner
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _READ_MAX_BYTES:
            raise ValueError("a header claims to be very long")
        data = self._inner.read(size)
        self._position += len(data)
        if self._position > UNPACKED_MAX_BYTES + MEMBERS_MAX * 2048:
            raise _too_large()
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != 0 or offset < self._position:
            raise ValueError("a bundle is read forwards")
        while self._position < offset:
            if not self.read(min(1 << 16, offset - self._position)):
                break
        return self._position


class _StoredBlob(io.RawIOBase):
    """A stored bundle as a file."""

    def __init__(self, session: Session, sha256: str, size: int) -> None:
        self._session = session
        self._sha256 = sha256
        self._size = size
        self._position = 0
        self._chunk: tuple[int, bytes] = (-1, b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._position >= self._size:
            return 0
        index, start = divmod(self._position, CHUNK_BYTES)
        if self._chunk[0] != index:
            data = self._session.scalar(
                select(BlobChunkRow.data).where(
                    BlobChunkRow.sha256 == self._sha256, BlobChunkRow.idx == index
                )
            )
            self._chunk = (index, data or b"")
        piece = self._chunk[1][start : start + len(buffer)]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)
