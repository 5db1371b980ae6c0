"""Secrets of a job: handed to its processes alone, and hidden in what they print."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import psutil

from muster_agent.shim.control import send_command

VALUE = "hf_v3ry-Secr3t/Value+0123456789"
PRINTS = """
import base64, json, os, sys, time
v = os.environ["HF_TOKEN"]
print("raw", v, "json", json.dumps([v]), "hex", v.encode().hex(), flush=True)
print("b64", base64.b64encode(("user:" + v + "!").encode()).decode(), flush=True)
sys.stderr.write("on stderr " + v + "\\n")
sys.stderr.flush()
"""
FAILS = PRINTS + "raise ValueError('cannot use ' + v)\n"


def files_with(folder: Path, needle: str) -> list[str]:
    """Names of the files under `folder` that hold this text, the job's own logs excepted."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "logs" not in path.parts and needle.encode() in path.read_bytes()
    ]


def test_a_job_gets_its_secret_and_nobody_else_does(
    plane: Any, agent: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.secrets = {"HF_TOKEN": VALUE}
    script = PRINTS + "open(os.environ['MUSTER_CHECKPOINT_DIR'] + '/up', 'w')\ntime.sleep(600)\n"
    spec = make_spec("a1", code=code(script), secrets=["HF_TOKEN"], slots=[0], world_size=1)
    plane.want(spec)
    agent.wait_state("a1", "RUNNING")
    folder = agent.folder("a1")
    state = folder.read_state()
    assert state is not None
    shim = psutil.Process(state.pid)
    assert VALUE not in str(shim.environ())
    assert VALUE not in str(shim.cmdline())
    (worker,) = shim.children()
    assert worker.environ()["HF_TOKEN"] == VALUE
    assert VALUE not in str(worker.cmdline())
    assert files_with(agent.home, VALUE) == []
    assert VALUE not in agent.words()
    held = plane.of("a1")
    wait_for(lambda: "b64" in held.log_text(0) and "stderr" in held.log_text(0, "stderr"))
    text = held.log_text(0) + held.log_text(0, "stderr")
    assert VALUE not in text
    assert json.dumps(VALUE)[1:-1] not in text
    assert VALUE.encode().hex() not in text
    assert base64.b64encode(VALUE.encode()).decode()[:-4] not in text
    assert held.log_text(0).startswith(f"raw {'*' * len(VALUE)} json")
    own = (folder.logs / "direct" / "0" / "stdout.log").read_text()
    assert own.startswith(f"raw {VALUE} json"), "the job's own file is as the job wrote it"
    plane.want(spec, "kill", reason="enough")
    agent.wait_exit("a1")


def test_why_a_job_failed_does_not_show_its_secret(
    plane: Any, agent: Any, make_spec: Any, code: Any
) -> None:
    plane.secrets = {"HF_TOKEN": VALUE}
    plane.want(make_spec("a1", code=code(FAILS), secrets=["HF_TOKEN"], slots=[0], world_size=1))
    info = agent.wait_exit("a1")
    assert info.cause == "user_error"
    assert info.message.endswith(f"ValueError: cannot use {'*' * len(VALUE)}")
    assert VALUE not in str(info)
    assert VALUE not in str(plane.of("a1").records)
    assert files_with(agent.home, VALUE) == []


def test_an_agent_that_starts_anew_masks_what_it_has_not_sent(
    plane: Any, agent: Any, make_spec: Any, code: Any, tmp_path: Path, wait_for: Any
) -> None:
    plane.secrets = {"HF_TOKEN": VALUE}
    go = tmp_path / "go"
    script = (
        "import os, time\nprint('up', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "print('late', os.environ['HF_TOKEN'], flush=True)\ntime.sleep(600)\n"
    )
    spec = make_spec("a1", code=code(script), secrets=["HF_TOKEN"], slots=[0], world_size=1)
    plane.want(spec)
    agent.wait_state("a1", "RUNNING")
    agent.kill()
    plane.secrets = {"HF_TOKEN": "another value by now"}
    go.touch()
    agent.start()
    held = plane.of("a1")
    wait_for(lambda: "late" in held.log_text(0) and held.log_text(0).endswith("\n"))
    assert held.log_text(0) == f"up\nlate {'*' * len(VALUE)}\n", "its shim knows the value"
    assert plane.secrets_asked == ["a1"]


def test_without_a_shim_the_server_is_asked_and_a_changed_value_hides_the_log(
    plane: Any, agent: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.secrets = {"HF_TOKEN": VALUE}
    for allocation_id, version in (("a1", 1), ("a2", 2)):
        script = "import os\nprint('it is', os.environ['HF_TOKEN'])\n"
        changes = {"code": code(script), "secrets": ["HF_TOKEN"], "slots": [0], "world_size": 1}
        plane.secret_version = 1
        plane.want(make_spec(allocation_id, **changes), "prepare")
        agent.wait_state(allocation_id, "READY")
        plane.is_down = True
        # Started over its socket while the server is away: nothing of it has been sent.
        folder = agent.folder(allocation_id)
        state = folder.read_state()
        command = {"command": "start", "rendezvous": None}
        asyncio.run(send_command(state.control_socket, command))
        wait_for(lambda at=folder: at.read_state().observed == "EXITED")
        agent.kill()
        plane.is_down = False
        plane.secret_version = version
        agent.start()
        agent.wait_exit(allocation_id)
    assert plane.of("a1").log_text(0) == f"it is {'*' * len(VALUE)}\n"
    assert plane.of("a2").log_text(0) == "*" * (len(VALUE) + 6) + "\n"
    assert "log_hidden" in agent.words()


def test_a_command_that_makes_data_has_the_secrets_and_does_not_tell_them(
    plane: Any, agent: Any, make_spec: Any, code: Any
) -> None:
    plane.secrets = {"HF_TOKEN": VALUE}
    command = "test -d $MUSTER_DATA_TRAIN && echo refused: $HF_TOKEN && exit 1"
    config = {"name": "d", "data": {"train": {"command": command}}}
    plane.want(make_spec("a1", code=code("print(1)"), secrets=["HF_TOKEN"], config=config))
    agent.wait_state("a1", "PREPARE_FAILED")
    failed = plane.of("a1").records[-1].record
    assert failed.message.endswith(f"exited with code 1: refused: {'*' * len(VALUE)}")
    assert failed.blames == "document"
    assert VALUE not in agent.words()
    assert files_with(agent.home, VALUE) == []


def test_a_missing_secret_is_told_before_anything_starts(
    plane: Any, agent: Any, make_spec: Any, code: Any
) -> None:
    plane.want(make_spec("a1", code=code("print(1)"), secrets=["HF_TOKEN", "OTHER"]))
    agent.wait_state("a1", "PREPARE_FAILED")
    record = plane.of("a1").records[-1].record
    assert record.message == "There is no secret HF_TOKEN, OTHER."
    assert record.blames == "document"


def test_a_secret_of_the_greatest_size_arrives(
    plane: Any, agent: Any, make_spec: Any, code: Any
) -> None:
    plane.secrets = {"BIG": "é" * 32_768}
    script = "import os\nprint(len(os.environ['BIG']))\n"
    plane.want(make_spec("a1", code=code(script), secrets=["BIG"], slots=[0], world_size=1))
    assert agent.wait_exit("a1").cause == "success"
    assert plane.of("a1").log_text(0) == "32768\n"


def test_a_server_that_is_away_is_waited_for(
    plane: Any, agent: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.secrets = {"HF_TOKEN": VALUE}
    plane.secrets_away = True
    spec = make_spec("a1", code=code("print('ran')"), secrets=["HF_TOKEN"], slots=[0], world_size=1)
    plane.want(spec)
    wait_for(lambda: "secrets_not_fetched" in agent.words())
    plane.secrets_away = False
    assert agent.wait_exit("a1").cause == "success"
