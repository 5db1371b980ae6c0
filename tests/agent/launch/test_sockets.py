"""Only the agent commands a shim, and only its job reports to it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.jobs.folder import make_home
from muster_agent.shim.control import Commands, ShimUnreachable, send_command, serve_commands

STRANGER = 200_001
WAIT = "import time\ntime.sleep(600)\n"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that another user reaches, which the temporary folders of tests are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def ask(path: str, message: dict[str, Any]) -> dict[str, Any]:
    """Write one line by hand, without what `send_command` adds."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps(message).encode() + b"\n")
        answer: dict[str, Any] = json.loads(connection.makefile().readline())
        return answer


def test_a_command_without_the_token_of_the_shim_changes_nothing(shims: Any) -> None:
    shim = shims(WAIT)
    shim.start()
    shim.wait_state("RUNNING")
    path = shim.state.control_socket
    refusal = {"error": "the command does not carry the token of this shim"}
    assert ask(path, {"command": "kill", "reason": "evil"}) == refusal
    assert ask(path, {"command": "kill", "reason": "evil", "token": "guessed"}) == refusal
    assert shim.states()[-1] == "RUNNING"
    token = Path(f"{path}.token")
    assert stat.S_IMODE(token.stat().st_mode) == stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert shim.command("kill", reason="the agent says so")["ok"]
    assert shim.wait_exit().message == "killed (the agent says so)"


def test_a_shim_that_an_older_agent_started_is_commanded_without_a_token(tmp_path: Path) -> None:
    async def talk() -> Any:
        heard = []

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(json.loads(await reader.readline()))
            writer.write(b'{"ok": true}\n')
            writer.close()

        server = await asyncio.start_unix_server(handle, str(tmp_path / "control"))
        await send_command(str(tmp_path / "control"), {"command": "status"})
        server.close()
        return heard

    assert asyncio.run(talk()) == [{"command": "status", "token": ""}]


@as_root
def test_another_user_is_refused_even_where_the_files_are_open_to_everybody(
    open_to_all: Path,
) -> None:
    async def talk() -> tuple[str, set[str]]:
        commands = Commands(deadline_boot_s=None)
        path = open_to_all / "control"
        server = await serve_commands(path, commands, status=dict)
        for file in (path, Path(f"{path}.token")):
            file.chmod(0o666)
        stranger = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "import json, os, socket, sys\n"
            "os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
            "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
            "token = open(sys.argv[1] + '.token').read()\n"
            "s.sendall(json.dumps(dict(command='kill', token=token)).encode() + b'\\n')\n"
            "print(s.makefile().readline())\n",
            "control",
            str(STRANGER),
            stdout=subprocess.PIPE,
            cwd=open_to_all,
        )
        out, _ = await stranger.communicate()
        server.close()
        return out.decode(), commands.asked

    open_to_all.chmod(0o755)
    said, asked = asyncio.run(talk())
    assert "only from the user of the agent" in said
    assert asked == set()


def test_a_worker_is_known_by_the_pid_that_the_kernel_tells_and_not_by_its_own_words(
    shims: Any, wait_for: Any
) -> None:
    shim = shims(
        "import json, os, socket, time\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(os.environ['MUSTER_REPORT_SOCKET'])\n"
        "s.sendall(json.dumps(dict(type='hello', local_rank=0, rank=0, world_size=1, node_rank=0,"
        " pid=1, host='h', master_addr='m', master_port=1)).encode() + b'\\n')\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(600)\n",
        slots=[0],
        world_size=1,
    )
    shim.start()
    wait_for(lambda: [w for w in shim.of(wire.WorkerRecord) if w.reports], what="hello")
    wait_for(lambda: shim.printed(0))
    (hello,) = [w for w in shim.of(wire.WorkerRecord) if w.reports]
    assert hello.pid == int(shim.printed(0))


def test_what_a_job_may_see_of_the_sockets_holds_no_control_socket(shims: Any) -> None:
    shim = shims(WAIT)
    shim.wait_state("READY")
    folder = Path(shim.state.socket_dir)
    assert {path.name for path in folder.iterdir()} == {"control", "control.token", "job"}
    assert [path.name for path in (folder / "job").iterdir()] == ["report"]
    with pytest.raises(ShimUnreachable):
        asyncio.run(
            send_command(str(folder / "job" / "report"), {"command": "status"}, timeout_s=1)
        )


@pytest.mark.parametrize(("before", "after"), [(0o755, 0o711), (0o777, 0o711), (0o700, 0o700)])
def test_other_users_may_not_read_an_agents_home(tmp_path: Path, before: int, after: int) -> None:
    home = tmp_path / "agent"
    home.mkdir()
    home.chmod(before)
    make_home(home)
    assert stat.S_IMODE(home.stat().st_mode) == after
    make_home(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
