"""Starting, restarting and stopping, with small programs in place of the server's parts."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from muster_server.local import supervisor as module
from muster_server.local.home import LocalError, hold_port, make_home
from muster_server.local.parts import LocalOptions, ProcessSpec
from muster_server.local.processes import marked, sweep, usage
from muster_server.local.supervisor import Supervisor, supervise

ANSWERS = """
import http.server, os, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("X-Muster-Instance", os.environ["MUSTER_INSTANCE"])
        self.end_headers()
    def log_message(self, *a): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
server.socket.close()
server.socket = socket.socket(fileno=int(os.environ["MUSTER_LISTEN_FD"]))
print("listening", flush=True)
server.serve_forever()
"""
ANOTHER = ANSWERS.replace('os.environ["MUSTER_INSTANCE"]', '"another"')
SLEEPS = "import time; time.sleep(600)"
DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({mark!r}).touch()
time.sleep(600)
"""
FAILS = "import sys; print('bad luck', file=sys.stderr); sys.exit(3)"


PARTS = ["valkey", "server", "controller"]
IS_FORKED = sys.platform == "linux"
if IS_FORKED:
    PARTS.append("forkserver")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Part name → Python program; change it before starting."""
    programs = {"server": ANSWERS, "controller": SLEEPS}
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(module, "shared_imports", lambda _options: ["http.server"])

    def parts(environment: Mapping[str, str], listen_fd: int, instance: str) -> list[ProcessSpec]:
        given = {"MUSTER_LISTEN_FD": str(listen_fd), "MUSTER_INSTANCE": instance}
        for name, code in programs.items():
            (folder / f"{name}_part.py").write_text(code)
        return [
            ProcessSpec(
                name=name,
                title=name.title(),
                command=[sys.executable, "-m", f"{name}_part"],
                environment={**environment, **given},
                descriptors=(listen_fd,),
                stop_s=0.5,
            )
            for name in programs
        ]

    monkeypatch.setattr(module, "server_parts", parts)
    return programs


def until(supervisor: Supervisor, check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline
        supervisor.tick()
        time.sleep(0.01)


def options(home: Path) -> LocalOptions:
    return LocalOptions(root=home, port=0, num_agents=0)


def test_with_an_address_links_are_for_other_machines_and_programs_here_stay_local(
    tmp_path: Path, programs: dict[str, str]
) -> None:
    chosen = LocalOptions(root=tmp_path, port=0, num_agents=0, address="muster.example")
    with supervise(chosen, lambda _text: None) as supervisor:
        access = supervisor.start()
        assert access.url == f"http://muster.example:{supervisor.port}"
        assert access.sign_in_url.startswith(f"{access.url}/setup#token=")
        assert access.local_url == f"http://127.0.0.1:{supervisor.port}"
        assert json.loads((tmp_path / "cli.json").read_text())["url"] == access.local_url


def test_it_starts_says_where_and_leaves_nothing(tmp_path: Path, programs: dict[str, str]) -> None:
    said: list[str] = []
    with supervise(options(tmp_path), said.append) as supervisor:
        access = supervisor.start()
        assert access.is_first_time
        assert access.sign_in_url.startswith(f"{access.url}/setup#token=mst_once_")
        stored = json.loads((tmp_path / "cli.json").read_text())
        assert stored == {"url": access.url, "token": access.cli_token}
        state = supervisor.home.read_state()
        assert [p["name"] for p in state["parts"]] == PARTS
        assert {u.part for u in usage(state)} == {"muster up", *PARTS}
        assert len(list(marked(tmp_path))) == len(PARTS)
    assert list(marked(tmp_path)) == []
    assert [x.split(":")[0] for x in said[-4:-1]] == ["Controller", "Server", "Valkey"]
    assert said[-1] == "Nothing is left running."

    with supervise(options(tmp_path), said.append) as supervisor:
        assert supervisor.start().cli_token == access.cli_token


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_terminal_ends_it_as_ctrl_c_does(
    tmp_path: Path, programs: dict[str, str], number: int
) -> None:
    with supervise(options(tmp_path), lambda _text: None) as supervisor:
        supervisor.start()
        os.kill(os.getpid(), number)
        supervisor.run()  # returns
        assert len(list(marked(tmp_path))) == len(PARTS)
    assert list(marked(tmp_path)) == []


def test_several_at_once_have_a_port_each_and_only_their_own_server_counts(
    tmp_path: Path, programs: dict[str, str]
) -> None:
    with ExitStack() as stack:
        homes = [make_home(tmp_path / name) for name in ("a", "b", "c")]
        several = [Supervisor(home, options(home.root), lambda _text: None) for home in homes]
        for supervisor in several:
            stack.callback(supervisor.close)
            stack.callback(supervisor.stop)
        ports = [supervisor.port for supervisor in several]
        assert len(set(ports)) == 3
        for port in ports:  # taken before there is any server
            with pytest.raises(LocalError, match=f"Port {port} is taken"):
                hold_port("127.0.0.1", port)
        assert [s.start().url for s in several] == [f"http://127.0.0.1:{p}" for p in ports]


def test_a_server_of_somebody_else_is_not_taken_for_ours(
    tmp_path: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_TIMEOUT_S", 2.0)
    programs["server"] = ANOTHER
    with (
        pytest.raises(LocalError, match="The API server does not answer within 2 s"),
        supervise(options(tmp_path), lambda _text: None) as supervisor,
    ):
        supervisor.start()


def test_the_port_stays_ours_while_the_server_is_started_again(
    tmp_path: Path, programs: dict[str, str]
) -> None:
    with supervise(options(tmp_path), lambda _text: None) as supervisor:
        supervisor.start()
        first = supervisor.running["server"].process
        first.kill()
        first.wait()
        with pytest.raises(LocalError, match=f"Port {supervisor.port} is taken"):
            hold_port("127.0.0.1", supervisor.port)
        # Who asks meanwhile waits, and is answered.
        with socket.create_connection(("127.0.0.1", supervisor.port), timeout=20) as asking:
            asking.sendall(b"GET / HTTP/1.0\r\n\r\n")
            until(supervisor, lambda: supervisor.running["server"].process is not first)
            assert asking.recv(100).startswith(b"HTTP/1.0 200")
    with hold_port("127.0.0.1", supervisor.port):
        pass  # given back


def test_a_part_that_crashes_is_started_again_and_said(
    tmp_path: Path, programs: dict[str, str]
) -> None:
    said: list[str] = []
    with supervise(options(tmp_path), said.append) as supervisor:
        supervisor.start()
        first = supervisor.running["controller"].process
        first.kill()
        until(supervisor, lambda: supervisor.running["controller"].process is not first)
        assert any("Controller ended (signal SIGKILL); starting it again" in x for x in said)
        state = supervisor.home.read_state()
        second = supervisor.running["controller"].process
        assert second.pid in [p["pid"] for p in state["parts"]]
        # The second time in a row it waits.
        second.kill()
        until(supervisor, lambda: supervisor.running["controller"].restart_at is not None)
        wait = supervisor.running["controller"].restart_at
        assert wait is not None
        assert wait > time.monotonic() + 0.2


@pytest.mark.skipif(not IS_FORKED, reason="parts are forked on Linux alone")
def test_parts_outlive_the_process_they_were_forked_from_and_start_without_it(
    tmp_path: Path, programs: dict[str, str]
) -> None:
    with supervise(options(tmp_path), lambda _text: None) as supervisor:
        supervisor.start()
        pids = {p["name"]: p["pid"] for p in supervisor.home.read_state()["parts"]}
        server, controller = (psutil.Process(pids[name]) for name in ("server", "controller"))
        assert server.cmdline() == [sys.executable, "-m", "server_part"]
        assert server.ppid() == controller.ppid() == os.getpid()
        os.kill(pids["forkserver"], signal.SIGKILL)
        first = supervisor.running["controller"].process
        first.kill()
        until(supervisor, lambda: supervisor.running["controller"].process is not first)
        parts = supervisor.home.read_state()["parts"]
        assert "forkserver" not in [p["name"] for p in parts]
        assert server.is_running()
        second = psutil.Process(supervisor.running["controller"].process.pid)
        until(supervisor, lambda: second.cmdline() == [sys.executable, "-m", "controller_part"])
    assert list(marked(tmp_path)) == []


def test_parts_start_without_a_fork_server_where_there_is_none(
    tmp_path: Path, programs: dict[str, str]
) -> None:
    chosen = LocalOptions(root=tmp_path, port=0, num_agents=0, shares_code=False)
    with supervise(chosen, lambda _text: None) as supervisor:
        supervisor.start()
        parts = supervisor.home.read_state()["parts"]
        assert [p["name"] for p in parts] == ["valkey", "server", "controller"]


def test_a_part_that_cannot_start_is_named_with_its_last_words(
    tmp_path: Path, programs: dict[str, str]
) -> None:
    programs["server"] = FAILS
    with (
        pytest.raises(LocalError) as caught,
        supervise(options(tmp_path), lambda _text: None) as supervisor,
    ):
        supervisor.start()
    assert caught.value.message == "Server does not start: bad luck"
    assert "server.log" in (caught.value.hint or "")
    assert list(marked(tmp_path)) == []


def test_a_part_that_is_deaf_is_killed(tmp_path: Path, programs: dict[str, str]) -> None:
    mark = tmp_path / "deaf"
    programs["controller"] = DEAF.format(mark=str(mark))
    said: list[str] = []
    with supervise(options(tmp_path), said.append) as supervisor:
        supervisor.start()
        until(supervisor, mark.exists)
    assert any(x.startswith("Controller: killed after") for x in said)
    assert list(marked(tmp_path)) == []


def test_logs_are_cut_before_they_fill_the_disk(
    tmp_path: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_MAX_BYTES", 1000)
    monkeypatch.setattr(module, "LOG_LOOK_S", 0.0)
    programs["controller"] = (
        "import time\n"
        "for n in range(100): print(f'line {n} ' + 'x' * 50, flush=True)\n"
        "time.sleep(600)"
    )
    with supervise(options(tmp_path), lambda _text: None) as supervisor:
        supervisor.start()
        log, older = tmp_path / "logs/controller.log", tmp_path / "logs/controller.log.1"
        until(supervisor, older.exists)
        assert log.stat().st_size < 6000


def test_what_is_left_of_a_killed_run_is_ended_and_named(
    tmp_path: Path, programs: dict[str, str]
) -> None:
    import subprocess

    from muster_server.local.processes import MARK

    environment = {**os.environ, MARK: str(tmp_path)}
    mark = tmp_path / "deaf"
    left = subprocess.Popen([sys.executable, "-c", DEAF.format(mark=str(mark))], env=environment)
    try:
        deadline = time.monotonic() + 20
        while not mark.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed = sweep(tmp_path, grace_s=0.3)
        assert [k.split()[0] for k in killed] == [str(left.pid)]
        assert list(marked(tmp_path)) == []
    finally:
        left.kill()
        left.wait()
