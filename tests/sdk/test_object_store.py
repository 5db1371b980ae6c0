"""Checkpoints in a bucket: a server of each kind, the real client, nothing in between."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.sdk import checkpoints, object_store
from muster.sdk.checkpoints import CheckpointDamaged
from muster.sdk.object_store import ObjectStore, StoreRefused
from support.buckets import Buckets, buckets, google_buckets

TRIAL = "muster-aaaa1111/experiment-3/trial-2"


@pytest.fixture(scope="module", params=[buckets, google_buckets])
def bucket(request: pytest.FixtureRequest) -> Iterator[Buckets]:
    with request.param("checkpoints") as started:
        yield started


@pytest.fixture
def url(bucket: Buckets, tmp_path: Path) -> str:
    """A trial's folder that no other test uses."""
    return f"{bucket.scheme}://checkpoints/{tmp_path.name}/{TRIAL}"


@pytest.fixture
def store(url: str, tmp_path: Path) -> ObjectStore:
    return ObjectStore(url, tmp_path / "local")


def save(store: ObjectStore, step: int, content: bytes = b"weights") -> None:
    draft = store.begin(step)
    (draft / "model.pt").write_bytes(content)
    (draft / "shards").mkdir()
    (draft / "shards" / "0.bin").write_bytes(b"shard")
    folder, manifest = store.commit(draft, step=step, epoch=step / 10, metrics={"val/loss": 0.5})
    assert (folder.name, manifest.step) == (f"step-{step:08d}", step)


def fetch(store: ObjectStore, step: int, local: Path) -> Path:
    return object_store.fetch(store.place_of(f"step-{step:08d}"), local)[0]


def test_what_is_saved_is_fetched_and_nothing_stays_on_the_way(
    store: ObjectStore, tmp_path: Path
) -> None:
    store.check(0)
    save(store, 20)
    assert [p for p in (tmp_path / "local").rglob("*") if p.is_file()] == []
    folder = fetch(store, 20, tmp_path / "other node")
    assert (folder / "model.pt").read_bytes() == b"weights"
    assert (folder / "shards" / "0.bin").read_bytes() == b"shard"
    assert object_store.fetched(store.place_of(folder.name), tmp_path / "other node") == folder


def test_of_what_was_fetched_one_stays_and_is_not_fetched_twice(
    store: ObjectStore, tmp_path: Path
) -> None:
    for step in (1, 2):
        save(store, step)
    first = fetch(store, 1, tmp_path)
    inode = (first / "model.pt").stat().st_ino
    assert (fetch(store, 1, tmp_path) / "model.pt").stat().st_ino == inode
    assert fetch(store, 2, tmp_path).exists()
    assert not first.exists()


def test_a_step_trained_again_replaces_its_checkpoint(store: ObjectStore, tmp_path: Path) -> None:
    save(store, 5, b"first")
    fetch(store, 5, tmp_path)
    save(store, 5, b"second")
    assert (fetch(store, 5, tmp_path) / "model.pt").read_bytes() == b"second"


def test_half_a_checkpoint_is_none_and_goes_with_the_next_writer(
    store: ObjectStore, bucket: Buckets, url: str, tmp_path: Path
) -> None:
    save(store, 1)
    bucket.put(f"{url}/step-00000002/model.pt", b"its writer died")
    bucket.put(f"{url}/.probe-0", b"")
    found = object_store.newest_intact(store.place_of("step-00000002"), tmp_path)
    assert found is not None
    folder, manifest, problems = found
    assert (folder.name, manifest.step) == ("step-00000001", 1)
    assert problems == [f"{url}/step-00000002: no readable manifest.json (it is not there)"]
    save(ObjectStore(url, tmp_path / "next"), 3)
    assert {key.partition(f"{TRIAL}/")[2].partition("/")[0] for key in bucket.keys(url)} == {
        "step-00000001",
        "step-00000003",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"weightz", "model.pt does not have the SHA-256"),
        (b"w", "model.pt has 1 bytes instead of 7"),
        (None, "model.pt is missing"),
    ],
)
def test_a_changed_object_is_found_and_passed_over(
    store: ObjectStore,
    bucket: Buckets,
    url: str,
    tmp_path: Path,
    content: bytes | None,
    message: str,
) -> None:
    for step in (1, 2):
        save(store, step)
    bucket.put(f"{url}/step-00000002/model.pt", content)
    with pytest.raises(CheckpointDamaged, match=f"{url}/step-00000002: {message}"):
        fetch(store, 2, tmp_path)
    found = object_store.newest_intact(store.place_of("step-00000002"), tmp_path)
    assert found is not None
    assert (found[0].name, len(found[2])) == ("step-00000001", 1)


def test_what_another_worker_said_it_sent_has_to_be_there(
    store: ObjectStore, tmp_path: Path
) -> None:
    draft = store.begin(1)
    (draft / "shard-1").write_bytes(b"of another")
    facts = checkpoints.settle(draft / "shard-1")
    store.sent(draft / "shard-1", facts)
    with pytest.raises(StoreRefused, match="there is no such bucket or object"):
        store.commit(draft, step=1, settled={"shard-1": facts, "shard-2": facts})
    longer = checkpoints.FileFacts(facts.sha256, facts.size_bytes + 1)
    with pytest.raises(StoreRefused, match="has 10 bytes instead of the 11 sent"):
        store.commit(draft, step=1, settled={"shard-1": longer})
    assert object_store.newest_intact(store.place_of("step-00000001"), tmp_path) is None


def test_everything_below_a_folder_is_deleted_and_nothing_else(
    store: ObjectStore, bucket: Buckets, url: str
) -> None:
    save(store, 1)
    experiment = url.rpartition("/")[0]
    bucket.put(f"{experiment}0/trial-1/other", b"of experiment 30")
    assert object_store.delete(experiment) > len(b"weights" + b"shard")
    assert object_store.delete(experiment) == 0
    assert bucket.keys(f"{experiment}0") == [f"{experiment}0/trial-1/other"]


def test_a_bucket_that_is_not_there_is_said_at_once(bucket: Buckets, tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="//nowhere/x: there is no such bucket") as error:
        ObjectStore(f"{bucket.scheme}://nowhere/x", tmp_path).check(0)
    assert error.value.is_final


def test_a_package_that_is_missing_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as where it is not installed
    import fsspec.registry  # noqa: F401 - the package's attribute of this name is another object

    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "gs", raising=False)
    with pytest.raises(StoreRefused) as error:
        ObjectStore("gs://bucket/x", tmp_path).check(0)
    assert error.value.is_final
    assert f"{sys.executable} -m pip install 'muster-train[gcs]'" in str(error.value)


def test_a_script_saves_and_goes_on_without_knowing_where(
    bucket: Buckets, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import muster.sdk.reporter
    import muster.sdk.run

    def run(**environment: Any) -> muster.sdk.run.Run:
        for name, value in environment.items():
            monkeypatch.setenv(f"MUSTER_{name}", str(value))
        monkeypatch.setattr(muster.sdk.reporter, "_reporter", None)
        return muster.init()

    reports = tmp_path / "reports.jsonl"
    first = run(CHECKPOINT_URL=url, CHECKPOINT_DIR=tmp_path / "one", REPORT_FILE=reports)
    with first.checkpoint(step=7) as folder:
        (folder / "model.pt").write_bytes(b"mine")
    first.close()
    assert '"path":"step-00000007"' in reports.read_text()
    second = run(CHECKPOINT_DIR=tmp_path / "two", RESUME_FROM=f"{url}/step-00000007")
    assert second.resume_from is not None
    assert (second.resume_from / "model.pt").read_bytes() == b"mine"
    second.close()


def test_a_model_in_a_bucket_becomes_one_file(
    store: ObjectStore, bucket: Buckets, tmp_path: Path
) -> None:
    from muster.cli.commands.checkpoints import export
    from muster.cli.output import CommandFailure
    from muster.sdk import shards
    from muster.sdk.shards import Chunk, Stored

    draft = store.begin(2)
    head = b'{"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}  '
    (draft / "shard").write_bytes(len(head).to_bytes(8, "little") + head + b"abc")
    shards.write_index(draft, {"model/w": Stored("U8", (3,), (Chunk((0,), (3,), "shard", "w"),))})
    store.commit(draft, step=2)
    out = tmp_path / "out" / "model.safetensors"
    out.parent.mkdir()
    export(store.place_of("step-00000002"), out)
    assert out.read_bytes().endswith(b"abc")
    with pytest.raises(CommandFailure, match="no readable manifest"):
        export(f"{bucket.scheme}://nowhere/x", out, force=True)
    assert [path.name for path in out.parent.iterdir()] == ["model.safetensors"]
