"""The guide to secrets, as a reader follows it. See guides.py."""

from __future__ import annotations

from pathlib import Path

from support.guides import run_guide
from support.stack import Stack


def test_every_command_of_it_works_and_the_value_is_nowhere(stack: Stack, tmp_path: Path) -> None:
    value = "demo_0123456789abcdefghij"
    before = (stack.home / "secrets.key").read_text()
    run_guide(stack, "secrets.md", tmp_path)
    assert (stack.home / "secrets.key").read_text().splitlines()[1:] == before.splitlines()
    assert (stack.home / "secrets.key").stat().st_mode & 0o077 == 0
    with stack.client() as client:
        (experiment,) = client.pages("/experiments", q="with-secret")
        assert experiment["state"] == "COMPLETED"
        (trial,) = client.trials(experiment["id"])
        lines = [line["text"] for line in client.get(f"/trials/{trial['id']}/logs")["lines"]]
        assert f"the token is {'*' * len(value)} with {len(value)} characters" in lines
        (secret,) = client.pages("/secrets")
        assert (secret["name"], secret["version"]) == ("DEMO_TOKEN", 1)
        assert secret["last_used_at"] is not None
        actions = [entry["action"] for entry in client.pages("/audit")]
        assert {"secrets.set", "secrets.delivered", "secrets.deleted", "secrets.rotated"} <= {
            *actions
        }
    for path in stack.home.rglob("*"):
        is_job_log = "allocations" in path.parts and "logs" in path.parts
        if path.is_file() and not is_job_log:
            assert value.encode() not in path.read_bytes(), path
