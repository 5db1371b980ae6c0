"""What a browser may show of a file that a job wrote: text and images, never active content."""

from __future__ import annotations

import codecs
from pathlib import PurePosixPath

PREVIEW_BYTES = 2**20
"""Bytes of a text that are shown, from its beginning."""
PREVIEW_IMAGE_BYTES = 8 * 2**20
"""Largest image that is shown: half of one is of no use."""
TEXT = "text/plain; charset=utf-8"
"""Type of everything that is not an image, HTML and SVG included."""

_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def preview_bytes(name: str, size_bytes: int) -> int | None:
    """Return how many bytes from the beginning of a file a preview needs; None if there is none."""
    if PurePosixPath(name).suffix.lower() in _IMAGE_SUFFIXES:
        return size_bytes if size_bytes <= PREVIEW_IMAGE_BYTES else None
    return min(size_bytes, PREVIEW_BYTES)


def preview_type(content: bytes) -> str | None:
    """Return the media type of the beginning of a file by its content; None for neither image nor
    text."""
    for signature, media_type in _SIGNATURES:
        if content.startswith(signature):
            return media_type
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    if b"\x00" in content:
        return None
    try:
        # The end may be in the middle of a character.
        codecs.getincrementaldecoder("utf-8")().decode(content, final=False)
    except UnicodeDecodeError:
        return None
    return TEXT
