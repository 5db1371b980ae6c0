"""PUT, HEAD and the agent's GET of code bundles."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile

import pytest
from sqlalchemy import func, select

from muster.code import archive
from muster_server.db.models import BlobChunkRow
from muster_server.services.core import blobs


def bundle(*members: tarfile.TarInfo, files: dict[str, bytes] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in (files or {}).items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for member in members:
            archive.addfile(member)
    return buffer.getvalue()


def put(client, data: bytes, sha256: str | None = None):
    digest = sha256 or hashlib.sha256(data).hexdigest()
    return client.put(f"/api/v1/blobs/{digest}", content=data)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def test_a_bundle_is_stored_once_and_listed(member_client, database):
    data = bundle(
        link("pkg/latest", "../train.py"),
        files={"train.py": b"print(1)\n", "./pkg/big.bin": os.urandom(2_500_000)},
    )
    answer = put(member_client, data)
    digest = hashlib.sha256(data).hexdigest()
    assert answer.status_code == 200
    assert answer.json() == {"sha256": digest, "size_bytes": len(data)}
    assert put(member_client, data).status_code == 200
    assert member_client.head(f"/api/v1/blobs/{digest}").status_code == 200
    assert member_client.head(f"/api/v1/blobs/{'0' * 64}").status_code == 404
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(BlobChunkRow)) == 3
        members = {
            m.name: (m.link, m.content)
            for m in blobs.list_members(session, digest, read=["train.py"])
        }
    assert members == {
        "pkg/latest": ("train.py", None),
        "train.py": ("", b"print(1)\n"),
        "pkg/big.bin": ("", None),
    }
    assert b"".join(blobs.stream(database, digest)) == data


def test_a_wrong_digest_is_refused_and_nothing_is_kept(member_client):
    data = bundle(files={"a.py": b"1"})
    answer = put(member_client, data, "a" * 64)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "blobs.wrong_digest")
    assert member_client.head(f"/api/v1/blobs/{'a' * 64}").status_code == 404
    assert put(member_client, data, "A" * 64).status_code == 422


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("/etc/passwd"),
        tarfile.TarInfo("../up.py"),
        tarfile.TarInfo("a/../../up.py"),
        tarfile.TarInfo("..\\up.py"),
        tarfile.TarInfo("C:/x"),
        link("a", "/etc/passwd"),
        link("a/b", "../../x"),
        link("a", "../x", tarfile.LNKTYPE),
        link("a", "", tarfile.CHRTYPE),
        link("a", "", tarfile.FIFOTYPE),
    ],
    ids=lambda m: f"{m.name}->{m.linkname}:{m.type!r}",
)
def test_what_could_write_elsewhere_is_refused(member_client, member):
    answer = put(member_client, bundle(member))
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "blobs.unsafe_member")


def test_what_is_no_tar_gz_is_refused(member_client):
    whole = bundle(files={"a.py": os.urandom(5000)})
    for data in (b"", b"hello", gzip.compress(b"hello" * 500), whole[:-2000]):
        answer = put(member_client, data)
        assert (answer.status_code, answer.json()["error"]["code"]) == (
            422,
            "blobs.not_a_bundle",
        ), data[:20]


def test_a_header_that_claims_to_be_huge_costs_no_memory(member_client):
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = 1 << 30
    data = gzip.compress(info.tobuf() + b"\0" * (8 << 20))
    assert put(member_client, data).json()["error"]["code"] == "blobs.not_a_bundle"


def test_a_bundle_that_unpacks_too_large_is_refused(member_client):
    info = tarfile.TarInfo("zeros")
    info.size = 3 << 30
    assert put(member_client, gzip.compress(info.tobuf())).status_code == 413


def test_too_many_files_are_refused(member_client, monkeypatch):
    monkeypatch.setattr(archive, "MEMBERS_MAX", 3)
    answer = put(member_client, bundle(files={f"f{i}": b"" for i in range(4)}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "blobs.too_many_files")


class TestSizeLimit:
    @pytest.fixture
    def settings(self, settings):
        return settings.model_copy(update={"blob_max_bytes": 100_000})

    def test_a_body_past_the_limit_is_refused(self, member_client):
        answer = put(member_client, bundle(files={"a": os.urandom(200_000)}))
        assert answer.status_code == 413


def test_viewers_may_not_upload(viewer_client):
    assert put(viewer_client, bundle(files={"a": b""})).status_code == 403
