"""What the server takes every agent can unpack, and what no agent can unpack the server refuses."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest

from muster_agent.shim.preparation.bundle import ExtractionError, extract_bundle
from muster_server.errors import MusterError
from muster_server.services.core.blobs import check_bundle

FILE, FOLDER, SYM, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
Entry = tuple[str, bytes, str]
"""Name, type and where it links to."""


def made(*entries: Entry) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, kind, target in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            data = b"x = 1\n" if kind == FILE else b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def server_takes(data: bytes) -> bool:
    try:
        check_bundle(io.BytesIO(data))
    except MusterError:
        return False
    return True


def agent_unpacks(data: bytes, tmp_path: Path) -> bool:
    """And whatever it has unpacked lies in its folder."""
    archive, folder = tmp_path / "code.tar.gz", tmp_path / "around" / "code"
    archive.write_bytes(data)
    folder.parent.mkdir()
    try:
        extract_bundle(archive, folder)
    except ExtractionError:
        return False
    assert [p.name for p in folder.parent.iterdir()] == ["code"]
    for path in folder.rglob("*"):
        assert path.resolve().is_relative_to(folder.resolve()), path
    return True


@pytest.mark.parametrize(
    ("is_fine", "entries"),
    [
        (True, [("a.py", FILE, ""), ("b.py", SYM, "a.py")]),
        (True, [("b.py", SYM, "a.py"), ("a.py", FILE, "")]),
        (True, [("p/a.py", FILE, ""), ("q/b.py", SYM, "../p/a.py")]),
        (True, [("p", FOLDER, ""), ("q", SYM, "p"), ("r", SYM, "./p/")]),
        (True, [("a.py", FILE, ""), ("b.py", SYM, "a.py"), ("c.py", SYM, "b.py")]),
        (True, [("later", SYM, "not/there.py")]),
        (True, [("p/here", SYM, ".")]),
        (True, [("p/top", SYM, "..")]),
        (True, [("a.py", FILE, ""), ("p/b.py", HARD, "a.py")]),
        (True, [("a.py", FILE, ""), ("b.py", HARD, "./a.py"), ("c.py", HARD, "b.py")]),
        (False, [("b.py", SYM, "../a.py")]),
        (False, [("p/b.py", SYM, "../../a.py")]),
        (False, [("b.py", SYM, "/etc/passwd")]),
        (False, [("b.py", SYM, "")]),
        (False, [("p/x.py", FILE, ""), ("b.py", SYM, "p/../../a.py")]),
        (False, [("p/x.py", FILE, ""), ("b.py", SYM, "p/../a.py")]),
        # Through another link, ".." leads somewhere else than its text says.
        (False, [("p/q", FOLDER, ""), ("p/q/up", SYM, "../.."), ("b", SYM, "p/q/up/x")]),
        (False, [("b", SYM, "p/q/up/x"), ("p/q/up", SYM, "../..")]),
        (False, [("d", SYM, "p"), ("p", FOLDER, ""), ("d/evil.py", FILE, "")]),
        (False, [("a", SYM, "b"), ("b", SYM, "a")]),
        (False, [("a", SYM, "a")]),
        (False, [("a", SYM, "b"), ("b", SYM, "c"), ("c", SYM, "b")]),
        (False, [("b.py", HARD, "a.py"), ("a.py", FILE, "")]),
        (False, [("b.py", HARD, "nowhere.py")]),
        (False, [("b.py", HARD, "/etc/passwd")]),
        (False, [("b.py", HARD, "../a.py")]),
        (False, [("p/a.py", FILE, ""), ("b.py", HARD, "p/../p/a.py")]),
        (False, [("p", FOLDER, ""), ("b", HARD, "p")]),
        (False, [("a", SYM, "x"), ("b", HARD, "a")]),
        (False, [("device", tarfile.CHRTYPE, "")]),
        (False, [("disk", tarfile.BLKTYPE, "")]),
        (False, [("pipe", tarfile.FIFOTYPE, "")]),
        (False, [("/a.py", FILE, "")]),
        (False, [("../a.py", FILE, "")]),
        (False, [("p/../../a.py", FILE, "")]),
        (False, [(".", FILE, "")]),
        (False, [("a", FILE, ""), ("a", FOLDER, "")]),
        (False, [("a", FILE, ""), ("a/b.py", FILE, "")]),
        (False, [("a.py", FILE, ""), ("a.py", FILE, "")]),
        (False, [("n" * 256, FILE, "")]),
        (False, [("n/" * 501 + "a", FILE, "")]),
    ],
    ids=lambda value: ",".join(f"{n[:20]}>{t}" for n, _, t in value) if type(value) is list else "",
)
def test_server_and_agent_agree(tmp_path: Path, is_fine: bool, entries: list[Entry]) -> None:
    data = made(*entries)
    assert server_takes(data) is is_fine
    assert agent_unpacks(data, tmp_path) is is_fine


def test_they_agree_on_whatever_links_there_are(tmp_path: Path) -> None:
    """Seeded: 400 archives of up to 7 members, each name and target out of a few."""
    rng = random.Random(17)
    names = ["a", "b", "p", "p/a", "p/q", "p/q/b", "q"]
    targets = [*names, ".", "..", "../a", "../..", "../q", "q/..", "./b", "../../p/a", "nowhere"]
    num_fine = 0
    for no in range(400):
        data = made(
            *(
                (rng.choice(names), rng.choice([FILE, FOLDER, SYM, SYM, HARD]), rng.choice(targets))
                for _ in range(rng.randint(1, 7))
            )
        )
        folder = tmp_path / str(no)
        folder.mkdir()
        is_fine = server_takes(data)
        assert agent_unpacks(data, folder) is is_fine, no
        num_fine += is_fine
    assert 40 < num_fine < 360, "both kinds are tried"
