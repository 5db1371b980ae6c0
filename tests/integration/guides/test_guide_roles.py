"""The guide to roles, as a reader follows it. See guides.py."""

from __future__ import annotations

from pathlib import Path

from support.guides import last_id, run_guide
from support.stack import Stack


def test_a_member_restarts_alone_and_the_trainer_ends_the_others(
    stack: Stack, tmp_path: Path
) -> None:
    run_guide(stack, "roles.md", tmp_path)
    number = last_id(stack)
    with stack.client() as client:
        assert client.experiment(number)["state"] == "COMPLETED"
        (trial,) = client.trials(number)
        found = client.get(f"/trials/{trial['id']}")
        assert len(found["attempts"]) == 1
        assert [(m["name"], m["state"]) for m in found["members"]] == [
            ("trainer/0", "SUCCEEDED"),
            ("rollout/0", "STOPPED"),
            ("rollout/1", "STOPPED"),
        ]
        said = [line["text"] for line in client.log_lines(trial_id=trial["id"])]
        assert any(line.startswith("trained with ") for line in said)
