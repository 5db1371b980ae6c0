"""A checkpoint whose writer was killed is told from a whole one."""

import io
import json
import os
import struct
import zipfile

import pytest

from muster_agent.outputs.whole import is_cut_off


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("archive/data.pkl", b"x" * 1000)
        file.writestr("archive/data/0", os.urandom(1000))
    return buffer.getvalue()


def tensors() -> bytes:
    header = {"__metadata__": {"format": "pt"}, "w": {"dtype": "U8", "data_offsets": [0, 64]}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(64)


@pytest.mark.parametrize(("name", "data"), [("a.pt", archive()), ("b.safetensors", tensors())])
def test_every_prefix_is_cut_off(tmp_path, name, data):
    for size in (*range(8, len(data), 13), len(data) - 1, len(data)):
        (tmp_path / name).write_bytes(data[:size])
        with (tmp_path / name).open("rb") as file:
            assert is_cut_off(file.fileno(), name) == (size < len(data))


def test_nobody_can_tell_of_other_formats(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"PK")
    with (tmp_path / "weights.bin").open("rb") as file:
        assert not is_cut_off(file.fileno(), "weights.bin")
