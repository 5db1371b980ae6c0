"""The rules for the content of an uploaded code archive.

The server refuses by it what is uploaded, and the agent what it is to unpack: what the server took,
every agent can unpack. Nothing but the standard library is imported.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import IO, Literal, cast

MEMBERS_MAX = 20_000
PATH_MAX_CHARS = 1_000
NAME_MAX_BYTES = 255
"""Bytes of one part of a path that file systems accept."""
UNPACKED_MAX_BYTES = 2 << 30
TIME_MIN_S = 315_619_200.0
TIME_MAX_S = 4_354_646_400.0
"""Earliest and latest time of a file, in s since 1970: a day inside of what a zip archive can hold, in
any time zone (2 January 1980 to 30 December 2107)."""
_READ_MAX_BYTES = 4 << 20
"""Bytes of one read while checking; a longer one would be a header that claims to be that long."""


CONTENT_MAX_BYTES = 1 << 20
"""Size in bytes of a file up to which its content is returned to whoever asks for it."""


@dataclass(frozen=True)
class ArchiveMember:
    """A file of an archive, or a link in it."""

    name: str
    size_bytes: int
    link: str = ""
    """Path in the archive that it links to; "" for a regular file."""
    content: bytes | None = None
    """Content, where it was asked for and is not too long."""


def find_member(path: str, members: Mapping[str, ArchiveMember]) -> ArchiveMember | None:
    """Return the file at a path of an archive, through links to it or to a folder above it."""
    for _ in range(len(members) + 1):
        found = members.get(path)
        if found is not None and not found.link:
            return found
        above = [at for at in (path, *_parents(path)) if at in members]
        if not above or not (link := members[above[0]].link):
            return None
        path = posixpath.normpath(posixpath.join(link, posixpath.relpath(path, above[0])))
    return None


class RefusedArchive(Exception):
    """The archive must not be unpacked; the message is one sentence about it."""

    def __init__(
        self, kind: Literal["unreadable", "unsafe", "too_many", "too_large"], message: str
    ) -> None:
        super().__init__(message)
        self.kind = kind


def file_time(seconds: float) -> int:
    """Return the time that a file of the code gets: its own in whole seconds, within what programs
    that pack it can write."""
    return int(min(max(seconds, TIME_MIN_S), TIME_MAX_S))


def check_archive(
    body: IO[bytes],
    *,
    max_members: int | None = None,
    max_bytes: int | None = None,
    read: Collection[str] = (),
) -> list[ArchiveMember]:
    """Return the files and links of a tar.gz, in its order; every member can be unpacked anywhere.

    read: paths of the files to return with their content.
    max_members, max_bytes: MEMBERS_MAX and UNPACKED_MAX_BYTES when left out. Raises RefusedArchive
    for what is no tar.gz, absolute paths and .., devices, paths that no file system takes or that
    are there twice, too many members or bytes, and for links that lead outside, through another
    link, in a circle or, hard ones, to anything but a file before them. A symbolic link may lead to
    something that is not there. Reads the archive once, in bounded memory, whatever its headers
    claim.
    """
    most = MEMBERS_MAX if max_members is None else max_members
    limit = UNPACKED_MAX_BYTES if max_bytes is None else max_bytes
    members: list[ArchiveMember] = []
    paths = _Paths()
    total = 0
    try:
        with (
            gzip.GzipFile(fileobj=body, mode="rb") as unpacked,
            tarfile.open(
                fileobj=cast("IO[bytes]", _Bounded(unpacked, limit)), mode="r:"
            ) as archive,
        ):
            for count, member in enumerate(archive, 1):
                if count > most:
                    raise RefusedArchive("too_many", f"it holds more than {most:,} files")
                problem = _problem(member) or paths.add(member)
                if problem:
                    raise _unsafe(member.name, problem)
                total += member.size
                if total > limit:
                    raise _too_large(limit)
                name = posixpath.normpath(member.name)
                if member.isreg():
                    opened = archive.extractfile(member) if name in read else None
                    content = opened.read(CONTENT_MAX_BYTES + 1) if opened is not None else b""
                    is_whole = opened is not None and len(content) == member.size
                    members.append(
                        ArchiveMember(name, member.size, content=content if is_whole else None)
                    )
                elif member.issym() or member.islnk():
                    target = member.linkname if member.islnk() else _target(name, member.linkname)
                    members.append(ArchiveMember(name, 0, link=posixpath.normpath(target)))
                archive.members = []  # type: ignore[attr-defined]  # it would keep every header
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise RefusedArchive(
            "unreadable", f"it is not a readable tar.gz ({type(error).__name__})"
        ) from None
    paths.check_links()
    return members


class _Paths:
    """Paths of an archive so far: no path twice, and nothing inside of a file."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        """Files, links among them."""
        self._folders: set[str] = set()
        self._links: dict[str, str] = {}
        """Symbolic links, and where each leads."""

    def add(self, member: tarfile.TarInfo) -> str | None:
        """Add a member; return the problem with it, if any."""
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
        if path in self._folders or path == ".":
            return "something else is inside of it, which is a file"
        if path in self._files:
            return "it is there twice"
        if member.islnk() and not self._has_file(posixpath.normpath(member.linkname)):
            return "it is a hard link to something that is no file before it"
        self._files.add(path)
        if member.issym():
            self._links[path] = _target(path, member.linkname)
        return None

    def check_links(self) -> None:
        """Raise RefusedArchive for a symbolic link that leads through another one, or in a circle.

        Where the other one leads is not known before the end of the archive; what is left is where
        its text says, on every file system.
        """
        for path, target in self._links.items():
            if any(folder in self._links for folder in _parents(target)):
                raise _unsafe(path, "it links to something through another link")
            if _is_circle(path, self._links):
                raise _unsafe(path, "it links to itself")

    def _has_file(self, path: str) -> bool:
        return path in self._files and path not in self._links


def _is_circle(path: str, links: Mapping[str, str]) -> bool:
    seen = {path}
    while (path := links.get(path, "")) != "":
        if path in seen:
            return True
        seen.add(path)
    return False


def _parents(path: str) -> list[str]:
    found = []
    while path := posixpath.dirname(path):
        found.append(path)
    return found


def _target(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def _problem(member: tarfile.TarInfo) -> str | None:
    """Return the problem with a member whatever else the archive holds, if any."""
    if _leads_outside(member.name):
        return "its path leads outside the bundle"
    if len(member.name) > PATH_MAX_CHARS:
        return f"its path is longer than {PATH_MAX_CHARS:,} characters"
    if any(len(part.encode(errors="replace")) > NAME_MAX_BYTES for part in member.name.split("/")):
        return f"a name in its path is longer than {NAME_MAX_BYTES} bytes"
    if member.issym() or member.islnk():
        return _problem_of_link(member)
    if not (member.isreg() or member.isdir()):
        return "it is neither a file, a folder nor a link"
    return None


def _problem_of_link(member: tarfile.TarInfo) -> str | None:
    target = member.linkname
    if not target or len(target) > PATH_MAX_CHARS:
        return "it links to nothing" if not target else "it links to a path that is too long"
    inside = target if member.islnk() else _target(posixpath.normpath(member.name), target)
    if _leads_outside(inside) or target.startswith("/"):
        return "it links to something outside the bundle"
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = parts.count("..")
    # After a name, ".." depends on what the name is; a hard link counts from the root.
    if ".." in parts[climbs:] or (member.islnk() and climbs):
        return "it links to a path with .. in it"
    return None


def _leads_outside(path: str) -> bool:
    normal = posixpath.normpath(path.replace("\\", "/"))
    is_absolute = normal.startswith("/") or normal[1:2] == ":"
    return is_absolute or normal == ".." or normal.startswith("../") or "\x00" in path


def _unsafe(name: str, problem: str) -> RefusedArchive:
    shown = "".join(c if c.isprintable() else "?" for c in name[:120])
    return RefusedArchive("unsafe", f"{shown!r}: {problem}")


def _too_large(limit: int) -> RefusedArchive:
    return RefusedArchive("too_large", f"unpacked, it has more than {limit:,} bytes")


class _Bounded(io.RawIOBase):
    """The reader for tarfile: no long reads, no more than the limit, skipping in small pieces."""

    def __init__(self, inner: gzip.GzipFile, limit: int) -> None:
        self._inner = inner
        self._limit = limit
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
        if self._position > self._limit + MEMBERS_MAX * 2048:
            raise _too_large(self._limit)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != 0 or offset < self._position:
            raise ValueError("a bundle is read forwards")
        while self._position < offset:
            if not self.read(min(1 << 16, offset - self._position)):
                break
        return self._position
