"""Gangs of several roles on a real `muster up`: over two agents, with members that are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil

from muster.client import Client
from support.guides import last_id, shell
from support.stack import Stack, wait_for

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "reinforcement-learning"
GANG = """
name: gang
roles:
  first: {entrypoint: first.py, on_end: finish}
  second: {entrypoint: second.py, ON_FAILURE}
"""
FIRST = """
import os, time
from pathlib import Path
print("attempt", os.environ["MUSTER_ATTEMPT_NO"], flush=True)
while not Path(os.environ["ENOUGH"]).exists():
    time.sleep(0.05)
"""
SECOND = """
import os, time
print("second at", os.environ["MUSTER_ROLE_ADDRESS"], os.environ["MUSTER_ROLE_SECOND_ADDRESSES"], flush=True)
time.sleep(600)
"""


SHAPES = """
name: shapes
roles:
  first: {entrypoint: first.py}
  shell: {entrypoint: bash shell.sh, on_failure: restart, environment: {variables: {HELLO: there}}}
  wide: {entrypoint: wide.py, on_failure: restart, resources: {slots: 2}}
stop_grace_s: 4
"""
SHELL = """
echo "shell $HELLO ${RANK:-none}"
sleep 600
"""
WIDE = """
import os, time
print("wide", os.environ["RANK"], os.environ["WORLD_SIZE"], flush=True)
time.sleep(600)
"""


def submit(stack: Stack, folder: Path, file: str, *options: str) -> int:
    done = shell(stack, f"muster submit {file} {' '.join(options)}", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return last_id(stack)


def trial_of(client: Client, experiment_id: int) -> dict[str, Any]:
    (trial,) = client.trials(experiment_id)
    found: dict[str, Any] = client.get(f"/trials/{trial['id']}")
    return found


def workers(client: Client, trial_id: int) -> dict[str, dict[str, Any]]:
    return {w["member"]: w for w in client.pages(f"/trials/{trial_id}/workers")}


def running(client: Client, experiment_id: int, name: str) -> dict[str, Any]:
    """Wait until a member runs; its worker."""

    def look() -> dict[str, Any] | None:
        trial = trial_of(client, experiment_id)
        found = workers(client, trial["id"]).get(name)
        return found if trial["state"] == "RUNNING" and found else None

    return wait_for(f"{name} runs", look, 60)


def gang(folder: Path, on_failure: str) -> None:
    enough = folder / "enough"
    (folder / "first.py").write_text(FIRST)
    (folder / "second.py").write_text(SECOND)
    (folder / "gang.yaml").write_text(
        GANG.replace("ON_FAILURE", on_failure)
        + f"environment: {{variables: {{ENOUGH: {enough}}}}}\nrestarts: {{infra: 2}}\n"
    )


def test_a_killed_rollout_worker_comes_back_alone_and_training_goes_on(stack: Stack) -> None:
    number = submit(stack, EXAMPLE, "experiment.yaml", "--set hyperparameters.updates=60")
    with stack.client() as client:
        before = running(client, number, "rollout/0")
        trial = trial_of(client, number)
        placed = {m["name"]: (m["node_name"], m["address"]) for m in trial["members"]}
        assert len({node for node, _ in placed.values()}) == 2
        assert len({address for _, address in placed.values()}) == 4
        wait_for("it reports", lambda: trial_of(client, number)["step"] >= 2)
        os.kill(before["pid"], signal.SIGKILL)

        def again() -> bool:
            return workers(client, trial["id"])["rollout/0"]["pid"] != before["pid"]

        wait_for("it is started again", again, 30)
        assert client.wait(number, timeout_s=120)["state"] == "COMPLETED"
        after = trial_of(client, number)
        assert len(after["attempts"]) == 1
        assert {m["name"]: (m["node_name"], m["address"]) for m in after["members"]} == placed
        assert after["step"] == 60
        shown = shell(stack, f"muster show {number}.1", EXAMPLE).stdout
        assert "started again 1 of 5 times" in shown
        events = [e["message"] for e in client.pages(f"/trials/{trial['id']}/events")]
        assert any("rollout/0 is started again in 1 s (1 of 5)" in text for text in events)
        assert {
            s["member"] for s in client.get(f"/trials/{trial['id']}/logs/streams")["items"]
        } == set(placed)


def test_by_default_the_failure_of_a_member_restarts_all(stack: Stack, tmp_path: Path) -> None:
    gang(tmp_path, "on_failure: restart_all")
    number = submit(stack, tmp_path, "gang.yaml")
    with stack.client() as client:
        os.kill(running(client, number, "second/0")["pid"], signal.SIGKILL)

        def second() -> bool:
            return trial_of(client, number)["attempt_no"] == 2

        wait_for("a second attempt", second, 60)
        running(client, number, "second/0")
        (tmp_path / "enough").touch()
        assert client.wait(number, timeout_s=60)["state"] == "COMPLETED"
        trial = trial_of(client, number)
        assert "second/0 on" in trial["attempts"][1]["reason"]
        assert {m["name"]: m["state"] for m in trial["members"]} == {
            "first/0": "SUCCEEDED",
            "second/0": "STOPPED",
        }


def test_an_ignored_member_ends_alone(stack: Stack, tmp_path: Path) -> None:
    gang(tmp_path, "on_failure: ignore")
    number = submit(stack, tmp_path, "gang.yaml")
    with stack.client() as client:
        os.kill(running(client, number, "second/0")["pid"], signal.SIGKILL)

        def gone() -> bool:
            return trial_of(client, number)["members"][1]["state"] == "FAILED"

        wait_for("its end is known", gone, 30)
        assert trial_of(client, number)["state"] == "RUNNING"
        (tmp_path / "enough").touch()
        assert client.wait(number, timeout_s=60)["state"] == "COMPLETED"


def test_none_starts_before_all_have_room_and_the_reason_names_who_has_none(
    stack: Stack, tmp_path: Path
) -> None:
    gang(tmp_path, "count: 3, on_failure: ignore")
    holder = submit(stack, tmp_path, "gang.yaml", "--set roles.second.count=1")
    with stack.client() as client:
        running(client, holder, "second/0")
        number = submit(stack, tmp_path, "gang.yaml")

        def reason() -> str | None:
            text = trial_of(client, number)["pending_reason"]
            return text if "second/" in text else None

        text = wait_for("it says why it waits", reason, 30)
        assert "no node has 1 free slot for second/1 beside the other members" in text
        assert "1 × first (1 slot) and 3 × second (1 slot)" in text
        assert trial_of(client, number)["members"] == []
        (tmp_path / "enough").touch()
        assert client.wait(number, timeout_s=60)["state"] == "COMPLETED"


def test_members_of_any_shape_restart_alone_and_are_paused_and_resumed_together(
    stack: Stack, tmp_path: Path
) -> None:
    gang(tmp_path, "on_failure: ignore")
    (tmp_path / "shell.sh").write_text(SHELL)
    (tmp_path / "wide.py").write_text(WIDE)
    (tmp_path / "shapes.yaml").write_text(
        f"{SHAPES}environment: {{variables: {{ENOUGH: {tmp_path / 'enough'}}}}}\n"
    )
    number = submit(stack, tmp_path, "shapes.yaml")
    with stack.client() as client:
        wide = running(client, number, "wide/0:1")
        trial_id = trial_of(client, number)["id"]
        assert [(w["member"], w["rank"]) for w in client.pages(f"/trials/{trial_id}/workers")] == [
            ("first/0", 0),
            ("wide/0:0", 2),
            ("wide/0:1", 3),
        ]

        def said(name: str) -> list[str]:
            lines = client.log_lines(trial_id=trial_id)
            return [line["text"] for line in lines if line["member"] == name]

        wait_for("the command runs", lambda: said("shell/0"))
        assert said("shell/0") == ["shell there none"]
        (shell_pid,) = (
            p.pid
            for p in psutil.process_iter(["cmdline"])
            if p.info["cmdline"] == ["bash", "shell.sh"]
        )
        os.kill(wide["pid"], signal.SIGKILL)
        os.kill(shell_pid, signal.SIGKILL)
        wait_for(
            "both workers are started again",
            lambda: len(said("wide/0:0")) == len(said("wide/0:1")) == 2,
            30,
        )
        wait_for("the command is started again", lambda: len(said("shell/0")) == 2, 30)
        assert said("wide/0:1") == ["wide 1 2", "wide 1 2"]
        assert stack.cli("pause", str(number)).returncode == 0
        wait_for("it is paused", lambda: trial_of(client, number)["state"] == "PAUSED", 60)
        assert {m["state"] for m in trial_of(client, number)["members"]} == {"STOPPED"}
        assert stack.cli("resume", str(number)).returncode == 0
        wait_for("all run again", lambda: len(said("shell/0")) == 3, 60)
        running(client, number, "wide/0:1")
        assert trial_of(client, number)["attempt_no"] == 2
        (tmp_path / "enough").touch()
        assert client.wait(number, timeout_s=60)["state"] == "COMPLETED"


def test_validation_names_what_is_wrong(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(
        "name: x\nresources: {min_slots: 1}\nroles:\n"
        "  a: {entrypoint: a.py, on_failure: ignore}\n"
        "  b: {entrypoint: b.py, environment: {variables: {RANK: '1'}}}\n"
    )
    done = shell(stack, "muster validate wrong.yaml", tmp_path)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    for path in ("resources.min_slots", "roles.a.on_failure", "roles.b.environment.variables.RANK"):
        assert path in said
