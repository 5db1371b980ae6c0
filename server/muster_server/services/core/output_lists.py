"""Lists of output files as they travel and are stored: zlib of a JSON list of wire.OutputFile.

They come from agents, and are read within bounds: nothing is unpacked that could fill the memory, and
no path leads out of the folder it is relative to.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

from muster.wire import OUTPUT_FILES_MAX, OutputFile
from muster_server.errors import InvalidRequest, TooLarge

PACKED_LIST_MAX_BYTES = 5 * 2**20
"""Most bytes of a list of files as it is sent and stored, before base64."""
LIST_MAX_BYTES = 64 * 2**20
"""Most bytes of a list of files as JSON; a longer one is refused before it fills the memory."""
PATH_MAX_CHARS = 4096

_FILES = msgspec.json.Decoder(list[OutputFile])


def unpack_base64(text: str) -> bytes:
    """Return the bytes behind base64. Raises InvalidRequest and TooLarge."""
    if len(text) > PACKED_LIST_MAX_BYTES * 4 // 3 + 4:
        raise TooLarge(
            "outputs.list_too_large", f"A list has {PACKED_LIST_MAX_BYTES:,} bytes at most."
        )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("outputs.bad_list", "The list of files is not base64.") from None


def decode_files(packed: bytes) -> list[OutputFile]:
    """Return the files of a packed list, each path once. Raises InvalidRequest and TooLarge."""
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(packed, LIST_MAX_BYTES + 1)
        if len(plain) > LIST_MAX_BYTES:
            raise TooLarge(
                "outputs.list_too_large", f"A list has {LIST_MAX_BYTES:,} bytes of JSON at most."
            )
        if not unpacking.eof:
            raise InvalidRequest("outputs.bad_list", "The list of files is cut off.")
        files = _FILES.decode(plain)
    except (zlib.error, msgspec.DecodeError) as error:
        raise InvalidRequest("outputs.bad_list", f"The list of files: {error}.") from None
    if len(files) > OUTPUT_FILES_MAX:
        raise TooLarge("outputs.too_many", f"A manifest lists {OUTPUT_FILES_MAX:,} files at most.")
    for problem in _problems(files):
        raise InvalidRequest("outputs.bad_list", problem)
    return files


def encode_files(files: Sequence[OutputFile]) -> bytes:
    """Return what `decode_files` reads."""
    return zlib.compress(msgspec.json.encode(list(files)), 6)


def _problems(files: Sequence[OutputFile]) -> Iterator[str]:
    seen = set()
    for file in files:
        if not is_safe(file.path):
            yield f"{file.path[:200]!r} is no path below a work folder."
        if file.path in seen:
            yield f"{file.path[:200]!r} is there twice."
        seen.add(file.path)
        if file.size_bytes < 0:
            yield f"{file.path[:200]!r} has fewer than 0 bytes."
        if any(not _is_digest(digest) for digest in file.parts):
            yield f"{file.path[:200]!r} has a part whose digest is none."


def is_safe(path: str) -> bool:
    """Return whether a path names a file below the folder it is relative to, in its only form."""
    parts = PurePosixPath(path).parts
    return (
        0 < len(path) <= PATH_MAX_CHARS
        and "\x00" not in path
        and not path.startswith("/")
        and ".." not in parts
        and path == "/".join(parts)
    )


def _is_digest(text: str) -> bool:
    return len(text) == 64 and not set(text) - set("0123456789abcdef")
