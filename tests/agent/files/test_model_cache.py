"""Versions of models on a node: fetched once, resumed, verified, bounded, and copied for each job."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
from pathlib import Path

import pytest

from conftest import make_spec
from muster import wire
from muster_agent.client import RequestRefused, ServerUnreachable, Session
from muster_agent.models import ModelCache, ModelUnavailable

PART = 100
SESSION = Session(node_id="n", epoch=1, heartbeat_s=1, lease_s=1, deadline_boot_s=0)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class Server:
    """What the control plane answers, in memory; it breaks off when it is told to."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.sent: list[tuple[str, int, int]] = []
        """Path, part and first byte of each answer."""
        self.breaks_after: int | None = None
        self.damages = False
        self.refuses: RequestRefused | None = None
        self.fails = ""
        self.dropped: list[int | None] = []

    def parts(self, path: str) -> list[bytes]:
        data = self.files[path]
        return [data[i : i + PART] for i in range(0, len(data), PART)] or [b""]

    async def model_files(
        self, allocation_id: str, request: wire.ModelFilesRequest
    ) -> wire.ModelFilesReply:
        if self.refuses is not None:
            raise self.refuses
        files = [
            wire.ModelFile(
                path=path, sha256=sha(data), size_bytes=len(data), num_parts=len(self.parts(path))
            )
            for path, data in self.files.items()
        ]
        return wire.ModelFilesReply(files=files, size_bytes=sum(map(len, self.files.values())))

    async def model_part(
        self, allocation_id: str, request: wire.ModelPartRequest
    ) -> wire.ModelPartReply:
        self.dropped.append(request.drops)
        number = 10 * sorted(self.files).index(request.path) + request.part + 1
        if request.export_id is None and self.fails:
            return wire.ModelPartReply(state="pending", waits_for="node-2", export_id=number)
        if self.fails:
            return wire.ModelPartReply(state="failed", message=self.fails)
        data = self.parts(request.path)[request.part]
        return wire.ModelPartReply(state="ready", sha256=sha(data), export_id=number)

    async def model_content(
        self, allocation_id: str, request: wire.ModelPartRequest, draft: Path, *, etag: str
    ) -> None:
        assert request.export_id is not None
        part = (request.export_id - 1) % 10
        data = self.parts(request.path)[part]
        assert etag == sha(data)
        there = size_of(draft)
        self.sent.append((request.path, part, there))
        rest = data[there:]
        if self.damages:
            rest = b"!" * len(rest)
        with draft.open("ab") as file:
            if self.breaks_after is not None:
                file.write(rest[: self.breaks_after])
                self.breaks_after = None
                raise ServerUnreachable("the connection broke")
            file.write(rest)


def place(cache: ModelCache, server: Server, into: Path, **changes: object) -> list[str]:
    """Put the version into a folder; return what was said in the log."""
    digest = wire.content_digest({path: sha(data) for path, data in server.files.items()})
    version = wire.ModelSpec(model="digits", version=3, digest=digest)
    spec = make_spec(models={"base": dataclasses.replace(version, **changes)})  # type: ignore[arg-type]
    said: list[str] = []
    asyncio.run(
        cache.place(
            spec,
            "base",
            into,
            plane=server,
            session_of=lambda: SESSION,
            say=said.append,  # type: ignore[arg-type]
        )
    )
    return said


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "cache", limit_bytes=10_000)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_agent.models.POLL_S", 0.001)
    monkeypatch.setattr("muster_agent.models.RETRY_S", 0.001)


def test_files_are_fetched_once_and_each_job_has_copies(cache: ModelCache, tmp_path: Path) -> None:
    server = Server({"config.json": b"{}", "deep/model.bin": os.urandom(250)})
    said = place(cache, server, tmp_path / "a1" / "base")
    assert any("part 3 of 3" in line for line in said)
    assert [drop for drop in server.dropped if drop is not None] == [11, 12]
    num_sent = len(server.sent)
    place(cache, server, tmp_path / "a2" / "base")
    assert len(server.sent) == num_sent, "the second job fetches nothing"
    first, second = (tmp_path / name / "base" / "deep/model.bin" for name in ("a1", "a2"))
    assert first.read_bytes() == second.read_bytes() == server.files["deep/model.bin"]
    assert first.stat().st_ino != second.stat().st_ino
    first.write_bytes(b"changed by its job")
    place(cache, server, tmp_path / "a3" / "base")
    assert (tmp_path / "a3/base/deep/model.bin").read_bytes() == server.files["deep/model.bin"]
    assert (tmp_path / "a3/base" / wire.MODEL_MANIFEST).is_file()
    assert oct((tmp_path / "a3/base/config.json").stat().st_mode)[-3:] == "644"


def test_a_broken_connection_continues_and_damage_is_found(
    cache: ModelCache, tmp_path: Path
) -> None:
    server = Server({"model.bin": os.urandom(60)})
    server.breaks_after = 20
    place(cache, server, tmp_path / "a1" / "base")
    assert server.sent == [("model.bin", 0, 0), ("model.bin", 0, 20)]
    kept = next(path for path in (tmp_path / "cache").glob("*/*") if path.is_file())
    kept.write_bytes(b"rotten")
    place(cache, server, tmp_path / "a2" / "base")
    assert (tmp_path / "a2/base/model.bin").read_bytes() == server.files["model.bin"]
    damaged = Server({"other.bin": os.urandom(60)})
    damaged.damages = True
    with pytest.raises(ModelUnavailable, match="arrived damaged"):
        place(cache, damaged, tmp_path / "a3" / "base")
    assert not (tmp_path / "a3/base").exists()


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path / "cache", limit_bytes=150)
    for number, size in enumerate((80, 60, 70)):
        server = Server({"model.bin": bytes([number]) * size})
        place(cache, server, tmp_path / f"a{number}" / "base")
        for path in (tmp_path / "cache").glob("*/*"):
            os.utime(path, (number, path.stat().st_mtime - 100))
    sizes = sorted(p.stat().st_size for p in (tmp_path / "cache").glob("*/*"))
    assert sizes == [60, 70]


def test_what_cannot_be_had_says_why_and_whose_fault_it_is(
    cache: ModelCache, tmp_path: Path
) -> None:
    server = Server({"model.bin": b"x"})
    with pytest.raises(ModelUnavailable, match="other files than its digest says") as wrong:
        place(cache, server, tmp_path / "a" / "base", digest=f"sha256:{'0' * 64}")
    assert wrong.value.blames == "document"
    server.fails = "step-5 is not there"
    with pytest.raises(ModelUnavailable, match=r"could not be read: step-5 is not there"):
        place(cache, server, tmp_path / "a" / "base")
    server.refuses = RequestRefused(404, "models.not_used", "This job reads no model 'base'.")
    with pytest.raises(ModelUnavailable, match="digits version 3: This job reads no model") as gone:
        place(cache, server, tmp_path / "a" / "base")
    assert gone.value.blames == "document"
    evil = Server({"../../evil": b"x"})
    with pytest.raises(ModelUnavailable, match="outside of its folder"):
        place(cache, evil, tmp_path / "a" / "base")
    assert not list(tmp_path.rglob("evil"))
