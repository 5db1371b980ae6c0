"""The guide to placing experiments, as a reader follows it. See guides.py."""

from __future__ import annotations

from pathlib import Path

from support.guides import joined, last_id, run_guide
from support.stack import Stack


def test_labels_sizes_and_priorities_as_the_guide_says(stack: Stack, tmp_path: Path) -> None:
    options = "--labels rack=a,disk=nvme"
    with (
        joined(stack, "nvme-1", tmp_path, options),
        joined(stack, "nvme-2", tmp_path, options),
        stack.client() as client,
    ):
        before = last_id(stack)
        (tmp_path / "guide").mkdir()
        run_guide(stack, "placement.md", tmp_path / "guide")
        for number, state in enumerate(("COMPLETED",) * 4 + ("CANCELED",) * 2, before + 1):
            ended = client.wait(number, timeout_s=60)
            assert ended["state"] == state, ended["name"]
            (trial,) = client.trials(number)
            attempts = client.get(f"/trials/{trial['id']}")["attempts"]
            if ended["name"] in ("fast-disk", "background", "urgent"):
                assert sorted(attempts[0]["nodes"]) == ["nvme-1", "nvme-2"]
            if ended["name"] == "elastic":
                assert 1 <= attempts[0]["world_size"] <= 6
