"""Documents of sessions: what they may say beside `session`."""

from __future__ import annotations

import pytest

from muster_server.domain.messages import english
from muster_server.services.documents import planned_command, resolve

SESSION = "name: x\nsession: {kind: ssh, idle: 45m}\n"


def test_a_session_is_one_process_of_muster() -> None:
    config = resolve(SESSION).config
    assert config is not None
    assert config.session is not None
    assert (config.launcher, config.session.idle) == ("plain", "45m")
    argv = planned_command(config, num_nodes=1, node_rank=0, num_local=1)
    assert argv == ["python", "-m", "muster.launch.session"]


@pytest.mark.parametrize(
    "more",
    [
        "from: {experiment: 36}\n",
        "code: {path: ., workdir: scripts}\n",
        "resources: {slots: 4, nodes: 1}\nlauncher: plain\n",
        "models: {model: 'digits:3'}\n",
    ],
)
def test_it_may_start_from_a_run_and_take_several_slots(more: str) -> None:
    assert resolve(SESSION + more).problems == ()


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("session: {idle: soon}\n", "session.idle", "'soon' is no length of time"),
        ("session: {idle: 5s}\n", "session.idle", "from 10 s to 30 days"),
        ("session: {kind: vnc}\n", "session.kind", "shell, ssh, jupyter, code"),
        ("session: {}\nresources: {slots: 2}\n", "resources.nodes", "a session runs on one node"),
        ("session: {}\nlauncher: torchrun\n", "launcher", "does not start the workers"),
        ("session: {}\nentrypoint: train.py\n", "session", "entrypoint"),
    ],
)
def test_what_cannot_be_is_said_with_its_field(text: str, path: str, message: str) -> None:
    problems = resolve("name: x\n" + text).problems
    assert [problem.path for problem in problems] == [path]
    assert message in english(problems[0].message)
