"""The guide to operating Muster, as a reader follows it. See guides.py."""

from __future__ import annotations

from pathlib import Path

from support.guides import run_guide
from support.stack import Stack, scripted, wait_for


def test_what_the_guide_backs_up_and_restores_is_the_same_muster(
    stack: Stack, tmp_path: Path
) -> None:
    script = [{"log": "to be kept"}, {"train": {"epochs": 1, "steps_per_epoch": 3}}]
    with stack.client() as client:
        kept = client.submit(scripted("kept", script))["id"]
        assert client.wait(kept, timeout_s=90)["state"] == "COMPLETED"
        (trial,) = client.trials(kept)
        runs_on = client.submit(scripted("runs-on", [{"checkpoint": 1}, {"wait_for_stop": 600}]))
        (other,) = client.trials(runs_on["id"])
        checkpoints = f"/trials/{other['id']}/checkpoints"
        wait_for("it has a checkpoint", lambda: any(client.pages(checkpoints)))
        paths = (
            f"/experiments/{kept}",
            f"/trials/{trial['id']}/series?name=train/loss&rank=0",
            f"/trials/{trial['id']}/logs",
            checkpoints,
        )
        before = [client.get(path) for path in paths]
        run_guide(stack, "operations.md", tmp_path)
        client.stop(runs_on["id"])
    assert before[1]["series"][0]["step"] == [1, 2, 3]
    assert [line["text"] for line in before[2]["lines"]] == ["to be kept"]

    again = Stack(tmp_path / "restored", agents=1, environment={})
    try:
        again.start()
        with again.client() as client:
            assert [client.get(path) for path in paths] == before
            resumed = wait_for(
                "what ran goes on from its checkpoint",
                lambda: (t := client.get(f"/trials/{other['id']}"))["state"] == "RUNNING" and t,
            )
            assert resumed["attempts"][0]["resume_step"] == 1
            client.call("POST", f"/experiments/{runs_on['id']}:kill")
    finally:
        again.close()
