"""Work folders of the members of a gang of roles: one each, and one for the server."""

from __future__ import annotations

from pathlib import Path

from muster_agent.outputs.keeper import work_folders
from muster_agent.outputs.work import AckedManifest, TrialWork, WorkUse, find_work


def make(home: Path, member: int, *, is_collected: bool) -> TrialWork:
    work = TrialWork(home, 7, member)
    work.path.mkdir(parents=True)
    work.write_use(
        WorkUse(
            cluster_id="c", experiment_id=3, trial_id=7, attempt_no=2, allocation_id=f"a{member}",
            node_rank=member, code_sha256="", outputs=None, storage_id="s", folder="f", url="",
            first_seq=0,
        )
    )  # fmt: skip
    if not is_collected:
        (work.path / "lock").touch()
    work.write_acked(
        AckedManifest(
            allocation_id=f"a{member}", seq=1, is_final=is_collected, problem="", is_taken=True
        )
    )
    return work


def test_each_member_has_a_folder_of_its_own(tmp_path: Path) -> None:
    made = [make(tmp_path, member, is_collected=True) for member in (0, 2)]
    (tmp_path / "work" / ".old-7.1-ab").mkdir()
    assert [work.name for work in made] == ["7", "7.2"]
    assert [(work.name, work.trial_id) for work in find_work(tmp_path)] == [("7", 7), ("7.2", 7)]
    assert made[1].delete()
    assert [work.name for work in find_work(tmp_path)] == ["7"]


def test_the_server_is_told_of_all_of_them_as_one(tmp_path: Path) -> None:
    make(tmp_path, 0, is_collected=True)
    used = make(tmp_path, 1, is_collected=False)
    lock = used.lock()
    assert lock is not None
    (told,) = work_folders(tmp_path)
    assert (told.trial_id, told.attempt_no, told.is_collected) == (7, 2, False)
