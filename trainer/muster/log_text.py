"""The bytes of a log as the text that a reader sees."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    rb"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles and links
    rb"|\x1b\[[0-9;?<=>!]*[ -/]*[@-~]"  # colours, cursor
    rb"|\x1b[ -Z\\^-~]?"
)


def last_version(line: bytes) -> bytes:
    """Return a line without what carriage returns wrote over; those before its end mean nothing."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :]


def visible(data: bytes) -> bytes:
    """Return any number of lines as UTF-8 text as a reader sees it, for searching; line ends stay.

    Without escape sequences and what was overwritten; U+FFFD for bytes that are no UTF-8, and ␀
    for NUL, as they are shown.
    """
    if not data.isascii():
        data = data.decode("utf-8", "replace").encode()
    if b"\r" in data:
        # Even in a log with many progress bars few lines are one, so the others skip the call.
        lines = data.split(b"\n")
        data = b"\n".join([last_version(line) if b"\r" in line else line for line in lines])
    if b"\x1b" in data:
        data = _ESCAPES.sub(b"", data)
    return data.replace(b"\x00", "␀".encode()) if b"\x00" in data else data
