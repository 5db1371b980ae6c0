from __future__ import annotations

from pathlib import Path

import pytest

from muster.sdk import checkpoints
from muster.sdk.checkpoints import CheckpointDamaged, verify_checkpoint


def write(directory: Path, step: int, content: bytes = b"weights") -> Path:
    folder = checkpoints.begin(directory, step)
    (folder / "model.pt").write_bytes(content)
    (folder / "shards").mkdir()
    (folder / "shards" / "0.bin").write_bytes(b"shard")
    final, _ = checkpoints.commit(folder, step=step, epoch=step / 10, metrics={"val/loss": 0.5})
    return final


def test_a_committed_checkpoint_verifies(tmp_path: Path) -> None:
    manifest = verify_checkpoint(write(tmp_path, 20))
    assert (manifest.step, manifest.epoch, manifest.metrics) == (20, 2.0, {"val/loss": 0.5})
    assert sorted(manifest.files) == ["model.pt", "shards/0.bin"]
    assert manifest.size_bytes == 12


def test_a_step_trained_again_replaces_its_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, 5, b"first")
    final = write(tmp_path, 5, b"second")
    verify_checkpoint(final)
    assert (final / "model.pt").read_bytes() == b"second"
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000005"]


def test_left_overs_of_a_dead_writer_are_removed(tmp_path: Path) -> None:
    dead = tmp_path / ".tmp-step-00000005-999999"
    dead.mkdir()
    (dead / "model.pt").write_bytes(b"ha")
    write(tmp_path, 5)
    assert not dead.exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.pt").write_bytes(b"weightz"), "does not have the SHA-256"),
        (lambda f: (f / "model.pt").write_bytes(b"w"), "has 1 bytes instead of 7"),
        (lambda f: (f / "model.pt").unlink(), "is missing"),
        (lambda f: (f / "manifest.json").write_text("{"), "no readable manifest.json"),
        (lambda f: (f / "manifest.json").unlink(), "no readable manifest.json"),
        (
            lambda f: (f / "manifest.json").write_text(
                '{"step": 1, "files": {"../x": {"sha256": "0", "size_bytes": 1}}}'
            ),
            "leaves the checkpoint",
        ),
    ],
)
def test_damage_is_found_and_named(tmp_path: Path, damage: object, message: str) -> None:
    folder = write(tmp_path, 1)
    damage(folder)  # type: ignore[operator]
    with pytest.raises(CheckpointDamaged, match=message):
        verify_checkpoint(folder)


def test_the_newest_intact_one_before_a_damaged_one_is_used(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        write(tmp_path, step)
    for step in (2, 3):
        (tmp_path / checkpoints.folder_name(step) / "model.pt").unlink()
    found = checkpoints.newest_intact(tmp_path / checkpoints.folder_name(3))
    assert found is not None
    folder, manifest, problems = found
    assert (folder.name, manifest.step, len(problems)) == ("step-00000001", 1, 2)


def test_without_an_intact_one_there_is_none(tmp_path: Path) -> None:
    assert checkpoints.newest_intact(tmp_path / "step-00000001") is None
