"""What is shown of a file is text or an image by its content, never active."""

import pytest

from muster_server.domain.outputs.previews import (
    PREVIEW_BYTES,
    PREVIEW_IMAGE_BYTES,
    TEXT,
    preview_bytes,
    preview_type,
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", TEXT),
        (b"loss 1.0\n", TEXT),
        ("损失".encode()[:-1], TEXT),
        (b'{"a": 1}', TEXT),
        (b"<script>alert(1)</script>", TEXT),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='x()'/>", TEXT),
        (b"%PDF-1.7\n\x00", None),
        (b"\x89PNG\r\n\x1a\n\x00", "image/png"),
        (b"\xff\xd8\xff\xe0\x00", "image/jpeg"),
        (b"GIF89a\x00", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", None),
        (b"PK\x03\x04\x00", None),
        (b"caf\xe9 au lait", None),
    ],
)
def test_the_type_follows_from_the_content(content, expected):
    assert preview_type(content) == expected


@pytest.mark.parametrize(
    ("name", "size_bytes", "expected"),
    [
        ("log.txt", 10, 10),
        ("log.txt", PREVIEW_BYTES + 1, PREVIEW_BYTES),
        ("plots/loss.PNG", PREVIEW_BYTES + 1, PREVIEW_BYTES + 1),
        ("plots/loss.png", PREVIEW_IMAGE_BYTES + 1, None),
        ("plots/loss.svg", PREVIEW_BYTES + 1, PREVIEW_BYTES),
    ],
)
def test_how_much_is_fetched(name, size_bytes, expected):
    assert preview_bytes(name, size_bytes) == expected
