"""The storage folder: whose folders are in it, and that nothing else is ever deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_agent.outputs.storage import OWNER_FILE, RefusedPath, Storage, is_within

CLUSTER = "aaaa1111"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "storage"


@pytest.fixture
def storage(root: Path) -> Storage:
    made = Storage(root)
    assert made.id()
    return made


def make(storage: Storage, root: Path, path: str = "experiment-1/trial-1", cluster=CLUSTER) -> Path:
    """A checkpoint of 1,000 bytes in a trial's folder of a server."""
    storage.claim(path, cluster)
    checkpoint = root / path / "step-00000010"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.pt").write_bytes(b"x" * 1000)
    return checkpoint


def delete(storage: Storage, path: str, *, request=7, cluster=CLUSTER, storage_id=None) -> int:
    return storage.delete(
        path, request=request, storage_id=storage_id or storage.id(), cluster_id=cluster
    )


def everything(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*")}


def test_agents_that_share_a_folder_read_the_same_id(storage, root):
    assert storage.id() == Storage(root).id() != ""
    assert len(storage.id()) == 32
    assert Storage(root.parent / "other").id() != storage.id()


def test_a_folder_that_cannot_be_written_has_no_id(tmp_path):
    (tmp_path / "file").write_text("")
    assert Storage(tmp_path / "file" / "storage").id() == ""


def test_a_second_server_may_not_use_an_experiment_of_the_first(storage, root):
    storage.claim("experiment-1/trial-1", CLUSTER)
    storage.claim("experiment-1/trial-2", CLUSTER)
    with pytest.raises(RefusedPath, match="another Muster server"):
        storage.claim("experiment-1/trial-1", "bbbb2222")
    storage.claim("experiment-2/trial-1", "bbbb2222")
    assert not list(root.rglob(f"{OWNER_FILE}.*")), "drafts are taken away"


@pytest.mark.parametrize(
    "path", ["experiment-1", "experiment-1/trial-1", "experiment-1/trial-1/step-00000010"]
)
def test_a_folder_is_deleted_with_what_is_in_it_and_nothing_beside_it(storage, root, path):
    make(storage, root)
    make(storage, root, "experiment-1/trial-2")
    make(storage, root, "experiment-10/trial-1")
    before = everything(root)
    assert delete(storage, path) >= 1000
    gone = {p for p in before if p == path or p.startswith(path + "/")}
    assert everything(root) == before - gone


def test_a_folder_that_is_gone_already_is_no_error(storage, root):
    make(storage, root)
    assert delete(storage, "experiment-1") >= 1000
    assert delete(storage, "experiment-1") == 0
    assert delete(storage, "experiment-99/trial-1") == 0


def test_a_deletion_that_was_interrupted_half_way_is_finished(storage, root):
    make(storage, root)
    (root / "experiment-1").rename(root / f".muster-deleting-{CLUSTER}-7")
    assert delete(storage, "experiment-1", request=7) >= 1000
    assert everything(root) == {".muster-storage"}


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/",
        "/etc",
        "../experiment-1",
        "experiment-1/..",
        "experiment-1/../..",
        "experiment-1//trial-1",
        "experiment-1/",
        "./experiment-1",
        "experiment-0",
        "experiment-01",
        "experiment-1x",
        "experiment-",
        ".muster-storage",
        "other",
        "experiment-1/trial-1/step-1/model.pt/x",
        "experiment-1/.muster-owner",
        "experiment-1\x00",
        "experiment-1\n",
        "experiment-1/tri\\al",
        "experiment-" + "1" * 100,
    ],
)
def test_a_path_that_is_not_one_of_ours_is_refused(storage, root, path):
    make(storage, root)
    (root / "other").mkdir()
    before = everything(root)
    with pytest.raises(RefusedPath):
        delete(storage, path)
    assert everything(root) == before


def test_another_servers_experiment_of_the_same_number_is_refused(storage, root):
    make(storage, root, cluster="bbbb2222")
    with pytest.raises(RefusedPath, match="mark"):
        delete(storage, "experiment-1")
    assert (root / "experiment-1/trial-1/step-00000010/model.pt").exists()


def test_a_folder_without_a_mark_is_refused(storage, root):
    (root / "experiment-1").mkdir(parents=True)
    with pytest.raises(RefusedPath, match="mark"):
        delete(storage, "experiment-1")


def test_another_storage_is_refused(storage, root):
    make(storage, root)
    with pytest.raises(RefusedPath, match="another storage folder"):
        delete(storage, "experiment-1", storage_id="0" * 32)


@pytest.mark.parametrize("linked", ["experiment-1", "experiment-1/trial-1"])
def test_a_link_on_the_way_is_refused(storage, root, tmp_path, linked):
    outside = tmp_path / "outside"
    make(storage, root)
    (root / linked).rename(outside)
    (root / linked).symlink_to(outside)
    before = everything(outside)
    for path in ("experiment-1/trial-1/step-00000010", linked):
        with pytest.raises(RefusedPath):
            delete(storage, path)
    assert everything(outside) == before
    assert (root / linked).is_symlink()


def test_links_inside_are_deleted_and_what_they_lead_to_is_not(storage, root, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("kept")
    checkpoint = make(storage, root)
    (checkpoint / "link").symlink_to(precious)
    (checkpoint / "file").symlink_to(precious / "data")
    delete(storage, "experiment-1")
    assert (precious / "data").read_text() == "kept"
    assert not (root / "experiment-1").exists()


def test_a_storage_folder_that_is_itself_a_link_works(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    storage = Storage(tmp_path / "link")
    make(storage, real)
    assert delete(storage, "experiment-1") >= 1000


def test_within_means_whole_parts():
    assert is_within("experiment-1/trial-1", "experiment-1")
    assert is_within("experiment-1", "experiment-1")
    assert not is_within("experiment-10/trial-1", "experiment-1")
