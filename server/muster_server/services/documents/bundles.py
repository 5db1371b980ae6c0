"""Whether an uploaded code bundle holds the file that the entry point names."""

from __future__ import annotations

import difflib
import io
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from muster_server.errors import FieldProblem

MAX_MEMBERS = 100_000
MAX_UNPACKED_BYTES = 2 * 1024**3
"""How much of a bundle is unpacked in search of the file; beyond it we do not judge."""


def check_entry_file(config: dict[str, Any], chunks: Iterable[bytes]) -> FieldProblem | None:
    """A problem when the bundle (tar.gz bytes in `chunks`) lacks the entry point's .py file.

    None when it is there, when the entry point is a module (it may be installed), when the file
    is an absolute path, and when the bundle is too large to look through.
    """
    arguments = config.get("entrypoint")
    if not arguments or arguments[0] == "-m" or arguments[0].startswith("/"):
        return None
    wanted = _clean(arguments[0])
    names: list[str] = []
    try:
        for name in _member_names(chunks):
            if name == wanted:
                return None
            names.append(name)
            if len(names) >= MAX_MEMBERS:
                return None
    except _TooLarge:
        return None
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError):
        return FieldProblem("code", "the uploaded bundle is not a readable tar.gz", None)
    return FieldProblem(
        "entrypoint", f"the code bundle has no file {wanted!r}", _hint(wanted, names)
    )


def _hint(wanted: str, names: list[str]) -> str:
    scripts = [n for n in names if n.endswith(".py")]
    same_name = [n for n in scripts if PurePosixPath(n).name == PurePosixPath(wanted).name]
    near = difflib.get_close_matches(wanted, scripts[:5000], n=3, cutoff=0.5)
    shown = list(dict.fromkeys([*same_name[:3], *near])) or scripts[:5]
    if not shown:
        return "the bundle holds no .py file at all; is code.path the right folder?"
    return f"it holds {', '.join(shown)}"


def _clean(name: str) -> str:
    return str(PurePosixPath(name))


class _TooLarge(Exception):
    pass


class _Unpacked(io.RawIOBase):
    """The bundle's bytes, decompressed as they are read and counted."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._zlib = zlib.decompressobj(wbits=31)
        self._input = b""
        self._buffer = b""
        self._total = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "the tar reader reads block by block"
        parts: list[bytes] = []
        needed = size
        while needed > 0:
            if not self._buffer and not self._refill():
                break
            part, self._buffer = self._buffer[:needed], self._buffer[needed:]
            parts.append(part)
            needed -= len(part)
        return b"".join(parts)

    def _refill(self) -> bool:
        while not self._buffer:
            if not self._input:
                self._input = next(self._chunks, b"")
                if not self._input:
                    return False
            self._buffer = self._zlib.decompress(self._input, 1 << 20)
            self._input = self._zlib.unconsumed_tail
            if self._zlib.eof:
                self._input = b""
                if not self._buffer:
                    return False
        self._total += len(self._buffer)
        if self._total > MAX_UNPACKED_BYTES:
            raise _TooLarge
        return True


def _member_names(chunks: Iterable[bytes]) -> Iterator[str]:
    with tarfile.open(fileobj=_Unpacked(chunks), mode="r|") as archive:
        for member in archive:
            if member.isfile():
                yield _clean(member.name)
