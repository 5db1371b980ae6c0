"""What a mask hides, whatever pieces a log is read in."""

from __future__ import annotations

import base64
import io
import json
import random
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import wire
from muster_agent.records.logs import cut_marker, read_cut, tail
from muster_agent.records.masking import FORM_BYTES_MAX, SECRET_BYTES_MIN, Mask
from muster_agent.records.spool import RecordReader, RecordWriter, read_records

TOKEN = 'hf_AbCdEfGh"IjKl/+é9'
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"


@pytest.mark.parametrize(
    "printed",
    [
        TOKEN,
        json.dumps({"token": TOKEN}),
        repr(TOKEN),
        repr(TOKEN.encode()),
        urllib.parse.quote(TOKEN, safe=""),
        urllib.parse.quote(TOKEN),
        urllib.parse.urlencode({"token": TOKEN}),
        TOKEN.encode().hex(),
        TOKEN.encode().hex().upper(),
    ],
)
def test_forms_that_programs_print_are_hidden(printed: str) -> None:
    masked = Mask([TOKEN]).text(f"before {printed} after")
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert len(masked.encode()) == len(f"before {printed} after".encode())
    for part in ("hf_", "AbCd", "IjKl", "6866", "686F"):
        assert part not in masked


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "us", "use", "user:"])
def test_base64_is_hidden_wherever_the_secret_begins(encode: object, before: str) -> None:
    assert callable(encode)
    printed = encode(f"{before}{TOKEN}:more".encode())
    masked = Mask([TOKEN]).data(printed)
    assert len(masked) == len(printed)
    # Only characters that also depend on the neighbours are left, at most one on either side.
    assert masked.count(b"*") >= len(TOKEN.encode()) * 4 // 3 - 2


def test_lines_of_a_secret_are_hidden_one_by_one() -> None:
    mask = Mask([KEY])
    assert mask.text("got MIIEvQIBADANBg and kqhkiG9w0BAQEF") == f"got {'*' * 14} and {'*' * 14}"
    assert "MIIE" not in mask.text(KEY)


def test_overlapping_secrets_leave_nothing() -> None:
    assert Mask(["abcdefgh", "efghijkl"]).text("x abcdefghijkl x") == f"x {'*' * 12} x"
    assert Mask(["aaaaaaaa"]).text("a" * 11) == "*" * 11


def test_short_values_are_left_alone() -> None:
    assert not Mask(["{", "x" * (SECRET_BYTES_MIN - 1)])


def test_the_longest_secret_is_hidden_without_reading_far(tmp_path: Path) -> None:
    secret = base64.b64encode(random.Random(1).randbytes(48 * 1024)).decode()
    mask = Mask([secret])
    data = f"a {secret} b".encode()
    assert mask.data(data) == b"a " + b"*" * len(secret) + b" b"
    path = tmp_path / "log"
    path.write_bytes(data)
    got = b""
    while piece := read_cut(path, len(got), limit_bytes=10**6, max_bytes=5_000, mask=mask):
        got += piece
    assert got == mask.data(data)
    assert mask._reach < FORM_BYTES_MAX


PIECES = st.lists(
    st.sampled_from(
        ["step 1 loss 0.1\n", f"x{TOKEN}y", "sk-01234567sk-0123456789", "hf_Ab ", "sk-"]
    ),
    min_size=1,
    max_size=12,
)


@given(pieces=PIECES, size=st.integers(1, 90))
def test_windows_of_every_size_give_the_same_log(pieces: list[str], size: int) -> None:
    data = "".join(pieces).encode()
    mask = Mask([TOKEN, "sk-0123456789"])
    got = b""
    while piece := mask.read(io.BytesIO(data), len(got), size):
        got += piece
    assert got == mask.data(data)


@given(pieces=PIECES, size=st.integers(1, 90), step=st.integers(1, 40))
def test_a_growing_log_is_never_sent_unmasked(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], size: int, step: int
) -> None:
    data = "".join(pieces).encode()
    mask = Mask([TOKEN, "sk-0123456789"])
    path = tmp_path_factory.mktemp("log") / "log"
    got = b""
    with path.open("wb", buffering=0) as writer, path.open("rb") as reader:
        for at in range(0, len(data), step):
            writer.write(data[at : at + step])
            while piece := mask.read(reader, len(got), size, is_final=False):
                got += piece
        while piece := mask.read(reader, len(got), size):
            got += piece
    assert got == mask.data(data)


def test_a_secret_at_the_limit_of_a_log_is_hidden(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 95 + b"sk-0123456789" + b"y" * 50)
    mask = Mask(["sk-0123456789"])
    got = read_cut(path, 0, limit_bytes=100, max_bytes=10_000, mask=mask)
    assert got == b"x" * 95 + b"*****" + cut_marker(100)
    assert tail(path, max_bytes=55, mask=mask) == "*****" + "y" * 50


def test_what_people_read_of_records_is_hidden_and_states_are_not(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, mask=Mask(["hunter2-and-more", "user_error", "12345678"]))
    info = wire.ExitInfo(
        cause="user_error", message="bad hunter2-and-more", log_tail=["hunter2-and-more"],
        workers=[wire.WorkerExit(local_rank=0, rank=0, at_ms=1234567890)],
    )  # fmt: skip
    writer.append(wire.StateRecord(observed="EXITED", exit=info))
    writer.append(wire.MessageRecord(level="info", text="hunter2-and-more"))
    writer.append(wire.StacksRecord(no=1, local_rank=0, rank=0, text="x = hunter2-and-more"))
    writer.close()
    assert "hunter2" not in (tmp_path / "000000000001.jsonl").read_text()
    lines = RecordReader(tmp_path).read(0, max_records=9, max_bytes=99_999)
    assert [line.is_exit() for line in lines] == [True, False, False]
    state, message, stacks = (numbered.record for numbered in read_records(tmp_path))
    assert isinstance(state, wire.StateRecord)
    assert state.exit is not None
    assert (state.exit.cause, state.exit.message) == ("user_error", "bad " + "*" * 16)
    assert state.exit.workers[0].at_ms == 1234567890
    assert isinstance(message, wire.MessageRecord)
    assert isinstance(stacks, wire.StacksRecord)
    assert (message.text, stacks.text) == ("*" * 16, "x = " + "*" * 16)


def test_everything_can_be_hidden_but_the_lines() -> None:
    assert Mask(hides_all=True).data(b"one\ntwo\n") == b"***\n***\n"
