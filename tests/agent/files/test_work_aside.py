"""What was moved aside on a node goes after the days that were told, and nothing else does."""

from __future__ import annotations

import time
from pathlib import Path

from muster_agent.outputs.work import ASIDE, ASIDE_KEPT_DAYS, clear_aside


def test_what_was_moved_aside_is_deleted_after_the_days_that_were_told(tmp_path: Path) -> None:
    work = tmp_path / "work"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("stays")
    for name in (f"{ASIDE}1-attempt-1-abc", ".aside-1-attempt-1-abc", "1"):
        (work / name / "deep").mkdir(parents=True)
        (work / name / "deep" / "file").write_bytes(b"12345")
    (work / f"{ASIDE}1-attempt-1-abc" / "link").symlink_to(outside)
    now_s, day_s = time.time(), 86_400
    assert clear_aside(tmp_path, now_s=now_s + (ASIDE_KEPT_DAYS - 1) * day_s) == []
    gone = clear_aside(tmp_path, now_s=now_s + (ASIDE_KEPT_DAYS + 1) * day_s)
    assert gone == [(f"{ASIDE}1-attempt-1-abc", 5)]
    assert sorted(path.name for path in work.iterdir()) == [".aside-1-attempt-1-abc", "1"]
    assert (outside / "precious").read_text() == "stays"
    assert clear_aside(tmp_path / "nothing", now_s=now_s) == []
