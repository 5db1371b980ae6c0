"""What keeps `muster up` from starting is one sentence that says what to do."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from muster_server.local.home import (
    Home,
    LocalError,
    check_address,
    held,
    hold_port,
    make_home,
    runtime_folder,
)


def test_a_home_is_private(tmp_path: Path) -> None:
    home = make_home(tmp_path / "a" / "b")
    assert home.root.stat().st_mode & 0o777 == 0o700
    assert home.logs.is_dir()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(LocalError, match="is not a folder"):
        make_home(tmp_path / "x")


def test_a_folder_of_others_is_named(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(LocalError, match="No permission to write"):
            make_home(tmp_path / "x")
        return
    # root may write anywhere but into the kernel's own file system
    with pytest.raises(LocalError, match=r"No permission|cannot be written|/proc/sys"):
        make_home(Path("/proc/sys/muster"))


def test_a_nearly_full_disk_is_said_with_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster_server.local.home.DISK_FREE_MIN_BYTES", 1 << 60)
    with pytest.raises(LocalError, match=r"nearly full: \d+ MB are free"):
        make_home(tmp_path)


def test_a_second_start_says_where_the_first_one_is(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    home.state.write_text(json.dumps({"url": "http://127.0.0.1:9", "pid": 42}))
    assert not home.is_running()
    with held(home):
        assert home.is_running()
        with pytest.raises(LocalError) as caught, held(home):
            pass
    assert "http://127.0.0.1:9 (process 42)" in caught.value.message
    assert not home.is_running()


def test_the_lock_is_given_back_when_its_holder_is_killed(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    code = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, home.lock], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert home.is_running()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with held(home), home.lock.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_taken_port_is_said_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(LocalError) as caught:
            hold_port("127.0.0.1", port)
    assert f"Port {port} is taken by process {os.getpid()} (" in caught.value.message
    assert "--port" in (caught.value.hint or "")
    with hold_port("127.0.0.1", port) as held_one:
        assert held_one.getsockname()[1] == port


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_is_held_from_the_moment_it_is_chosen(host: str) -> None:
    with hold_port(host, 0) as ours:
        port = ours.getsockname()[1]
        assert not os.get_inheritable(ours.fileno())
        for other in ("127.0.0.1", "0.0.0.0"):
            with pytest.raises(LocalError, match=f"Port {port} is taken"):
                hold_port(other, port)


def test_sockets_have_a_short_private_place_however_deep_the_home_is(tmp_path: Path) -> None:
    deep = Home(tmp_path / ("d" * 120))
    folder = runtime_folder(deep)
    try:
        assert len(str(folder / "valkey.sock")) <= 100
        assert folder.stat().st_mode & 0o777 == 0o700
        assert runtime_folder(deep) == folder
    finally:
        folder.rmdir()


def test_a_socket_folder_that_is_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr("tempfile.tempdir", short)
        home = Home(tmp_path)
        folder = runtime_folder(home)
        folder.rmdir()
        folder.symlink_to(tmp_path)
        with pytest.raises(LocalError):
            runtime_folder(home)


@pytest.mark.parametrize("address", ["10.0.0.5", "muster.example", "node-7"])
def test_an_address_for_other_machines(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize("address", ["", "http://a", "a:8470", "::1", "a b", "-a", "a/b", "a@b"])
def test_an_address_that_cannot_stand_in_a_link_is_refused(address: str) -> None:
    with pytest.raises(LocalError) as caught:
        check_address(address)
    assert repr(address) in caught.value.message
    assert "--address 10.0.0.5" in str(caught.value.hint)
