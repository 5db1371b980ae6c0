"""Collections in this process: files of several parts, in a storage folder and in object stores."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from muster import wire
from muster_agent.outputs.collect import Collector
from muster_agent.outputs.downloads import opened_files
from muster_agent.outputs.index import read_index, unpacked
from muster_agent.outputs.storage import Storage
from muster_agent.outputs.store import (
    KEPT_UNUSED_S,
    BucketOutputs,
    FolderOutputs,
    StorageAway,
    open_outputs,
)
from muster_agent.outputs.work import TrialWork, WorkUse
from support.buckets import Buckets, buckets, google_buckets
from support.nodes.work_folders import CLUSTER, FOLDER, TRIAL

PART = 10_000
Store = FolderOutputs | BucketOutputs


@pytest.fixture(scope="module", params=["folder", buckets, google_buckets])
def bucket(request: pytest.FixtureRequest) -> Iterator[Buckets | None]:
    """A bucket of each kind; None for a storage folder."""
    if request.param == "folder":
        yield None
    else:
        with request.param("bucket") as started:
            yield started


class Job:
    """A work folder, and the storage of its trial."""

    def __init__(self, home: Path, bucket: Buckets | None) -> None:
        self.work = TrialWork(home, TRIAL)
        self.work.files.mkdir(parents=True)
        self.storage = home / "storage"
        self.url = ""
        if bucket is None:
            assert Storage(self.storage).id()
        else:
            self.url = f"{bucket.scheme}://bucket/{home.name}/muster-{CLUSTER}/{FOLDER}"
        self.use = WorkUse(
            cluster_id=CLUSTER,
            experiment_id=3,
            trial_id=TRIAL,
            attempt_no=1,
            allocation_id="a1",
            node_rank=0,
            code_sha256="",
            outputs=None,
            storage_id=Storage(self.storage).known_id() if bucket is None else "",
            folder=FOLDER,
            url=self.url,
            first_seq=4,
        )
        self.work.write_use(self.use)
        self.sizes: list[int] = []
        """Bytes of each part that was stored since this was emptied."""

    def open(self, name: str = "outputs") -> Store:
        folder = f"{FOLDER.rpartition('/')[0]}/{name}"
        url = f"{self.url.rpartition('/')[0]}/{name}" if self.url else ""
        return open_outputs(
            storage=self.storage,
            folder=folder,
            url=url,
            sending=self.work.sending,
            cluster_id=CLUSTER,
            writer="n0",
        )

    def collect(
        self,
        *,
        max_bytes: int = 10**12,
        room_for: int | None = None,
        meanwhile: Callable[[], object] = lambda: None,
        is_final: bool = True,
    ) -> dict[str, wire.OutputFile]:
        """Run one collection; return what its manifest says, nothing without one.

        room_for: parts that the storage takes before it is full. meanwhile: called after each part."""
        store = self.open()
        write = store.write

        def counted(content: Iterable[bytes]) -> tuple[str, int]:
            if room_for is not None and len(self.sizes) >= room_for:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sha256, size = write(content)
            self.sizes.append(size)
            meanwhile()
            return sha256, size

        store.write = counted  # type: ignore[method-assign]
        with contextlib.closing(store):
            Collector(
                self.work,
                self.use,
                wire.OutputsSpec(max_bytes=max_bytes),
                store,
                is_final=is_final,
                bytes_per_s=0,
                open_beside=self.open,
            ).run()
        written = self.work.read_manifest()
        return {file.path: file for file in unpacked(written.files)} if written is not None else {}

    def content(self, file: wire.OutputFile) -> bytes:
        """Return what is sent of a file, whose digests are verified on the way."""
        with contextlib.closing(self.open()) as store:
            size, pieces = opened_files(store, [file])
            found = b"".join(pieces)
        assert len(found) == size
        return found


@pytest.fixture
def job(bucket: Buckets | None, tmp_path: Path) -> Job:
    return Job(tmp_path, bucket)


@pytest.fixture
def local_job(tmp_path: Path) -> Job:
    return Job(tmp_path, None)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "OUTPUT_PART_BYTES", PART)


def pattern(size: int, seed: int = 0) -> bytes:
    """Content of which no two parts are the same."""
    blocks = (hashlib.sha256(b"%d %d" % (seed, n)).digest() for n in range(-(-size // 32)))
    return b"".join(blocks)[:size]


def test_a_file_above_256_mib_is_kept_in_parts_up_to_the_limit(local_job: Job) -> None:
    job = local_job
    size = wire.OUTPUT_PART_BYTES + 1
    assert size == 256 * 2**20 + 1
    with (job.work.files / "model.bin").open("wb") as file:
        file.truncate(size)
    (job.work.files / "small").write_text("s")
    assert job.collect(max_bytes=size - 1)["model.bin"].reason == (
        f"a node keeps at most {size - 1:,} bytes (outputs.max_size) of a trial"
    )
    job.sizes.clear()
    kept = job.collect()["model.bin"]
    assert (kept.state, kept.size_bytes, kept.reason) == ("kept", size, "")
    assert job.sizes == [wire.OUTPUT_PART_BYTES, 1]
    last = hashlib.sha256(b"\0").hexdigest()
    assert (len(kept.parts), kept.parts[1]) == (2, last)
    with contextlib.closing(job.open()) as store:
        sizes = {kept.parts[0]: wire.OUTPUT_PART_BYTES, last: 1}
        assert store.find_missing(sizes) == set()
        assert store.find_missing({kept.parts[0]: 5}) == {kept.parts[0]}


def test_a_collection_that_was_interrupted_goes_on_with_the_next_part(
    job: Job, small_parts: None
) -> None:
    data = pattern(5 * PART + 7)
    (job.work.files / "model").write_bytes(data)
    with pytest.raises(StorageAway, match="No space left on device"):
        job.collect(room_for=3)
    assert job.work.read_manifest() is None, "nobody sees half of a file"
    job.sizes.clear()
    kept = job.collect()["model"]
    assert job.sizes == [PART, PART, 7], "three parts were there"
    assert (kept.sha256, len(kept.parts)) == (hashlib.sha256(data).hexdigest(), 6)
    assert job.content(kept) == data
    index = read_index(job.work.index)
    assert index is not None
    assert index.partial == {}
    job.sizes.clear()
    assert job.collect()["model"] == kept
    assert job.sizes == []


def test_what_changed_meanwhile_is_stored_anew(job: Job, small_parts: None) -> None:
    path = job.work.files / "model"
    path.write_bytes(pattern(4 * PART))
    with pytest.raises(StorageAway):
        job.collect(room_for=3)
    data = pattern(PART) + pattern(3 * PART, seed=1)
    with path.open("r+b") as file:  # The same file with other content.
        file.write(data)
    job.sizes.clear()
    kept = job.collect()["model"]
    assert job.sizes == [PART] * 3, "its first part is what it was"
    assert job.content(kept) == data

    (job.work.files / "new").write_bytes(pattern(2 * PART, seed=2))
    (job.work.files / "new").replace(path)
    job.sizes.clear()
    assert job.content(job.collect()["model"]) == pattern(2 * PART, seed=2)
    assert job.sizes == [PART] * 2


def test_parts_that_the_storage_lost_are_stored_again(
    job: Job, bucket: Buckets | None, small_parts: None
) -> None:
    data = pattern(4 * PART)
    (job.work.files / "model").write_bytes(data)
    with pytest.raises(StorageAway):
        job.collect(room_for=3)
    second = hashlib.sha256(data[PART : 2 * PART]).hexdigest()
    if bucket is None:
        (job.storage / FOLDER / "objects" / second[:2] / second).unlink()
    else:
        bucket.put(f"{job.url}/objects/{second[:2]}/{second}", None)
    job.sizes.clear()
    assert job.content(job.collect()["model"]) == data
    assert job.sizes == [PART] * 3


def test_of_a_file_that_grows_only_what_is_new_is_stored(job: Job, small_parts: None) -> None:
    data = pattern(5 * PART)
    path = job.work.files / "log"
    with path.open("wb", buffering=0) as log:
        log.write(data[: 2 * PART + 5])
        assert job.collect(is_final=False) == {}, "it is seen for the first time, and open"
        growing = job.collect(is_final=False)["log"]
        assert (growing.state, growing.size_bytes) == ("growing", 2 * PART + 5)
        assert job.sizes == [PART, PART, 5]
        log.write(data[2 * PART + 5 : 4 * PART + 1])
        job.sizes.clear()
        growing = job.collect(is_final=False)["log"]
        assert growing.size_bytes == 4 * PART + 1
        assert job.sizes == [PART, PART, 1], "the first two were compared"
        assert job.content(growing) == data[: 4 * PART + 1]


def test_a_file_that_grows_after_the_end_is_said_and_kept_when_it_stops(job: Job) -> None:
    path = job.work.files / "log"
    path.write_bytes(b"x")
    for _ in range(2):
        assert job.collect(meanwhile=lambda: os.truncate(path, path.stat().st_size + 1)) == {}
        written = job.work.read_manifest()
        assert written is not None
        assert (written.summary.is_final, written.summary.problem) == (
            False, "log was still being changed after the end of the job",
        )  # fmt: skip
    assert job.collect()["log"].size_bytes == 3
    written = job.work.read_manifest()
    assert written is not None
    assert (written.summary.is_final, written.summary.problem) == (True, "")


def test_a_store_keeps_what_is_used_and_copies_parts(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(job.open()) as store, contextlib.closing(job.open("adopted-1")) as to:
        (used, _), (unused, _) = store.write([b"us", b"ed"]), store.write([b"unused"])
        to.take_part(store, used)
        assert b"".join(to.read(used)) == b"used"
        assert store.remove_unused({used}) == 0, "somebody may be about to name it"
        later = _later(KEPT_UNUSED_S + 60)
        monkeypatch.setattr("muster_agent.outputs.store.time.time", later)
        assert store.remove_unused({used}) == 6
        assert store.find_missing({used: 4, unused: 6}) == {unused}
        store.write_manifest("n0-a1-7.json", b"{}")
        assert (store.manifests(), store.read_manifest("n0-a1-7.json")) == (["n0-a1-7.json"], b"{}")
        store.remove_manifest("n0-a1-7.json")
        assert store.manifests() == []
        with pytest.raises(OSError) as absent:
            b"".join(store.read(unused))
        assert absent.value.errno == errno.ENOENT


def _later(by_s: float) -> Callable[[], float]:
    import time

    at = time.time() + by_s
    return lambda: at
