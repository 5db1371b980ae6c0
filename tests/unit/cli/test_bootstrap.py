"""What is decided about a machine that is to get an agent, and what is run there."""

import subprocess
import zipfile
from io import BytesIO

import pytest

from muster import __version__
from muster.bootstrap import programs
from muster.bootstrap.machine import (
    Python,
    RemoteMachine,
    choose_python,
    explain_ssh,
    find_obstacle,
    read_machine,
    write_settings,
)
from muster.bootstrap.wheel import NAME, build_wheel
from muster.shell import PosixShell, ShellUnreachable

GOOD = """
system=Linux
name=gpu1.example
user=ann
home=/home/ann
python=/usr/bin/python3 3.9.2 venv
python=/usr/bin/python3.12 3.12.3
uv=/home/ann/.local/bin/uv
free_kib=20000000
systemd=degraded
linger=yes
nvidia=/usr/bin/nvidia-smi
digest=abc
node=gpu1
joined=yes
running=yes
stored_kib=12
setting=MUSTER_AGENT_NAME="gpu1"
setting=MUSTER_AGENT_POOL="default"
"""


def machine(**changes):
    given = {"system": "Linux", "name": "m", "user": "ann", "home": "/home/ann"}
    python = Python(path="/usr/bin/python3", version=(3, 11, 2), has_venv=True)
    return RemoteMachine(**{**given, "free_bytes": 1 << 40, "pythons": (python,), **changes})


def python(version, has_venv=True):
    return Python(path="/usr/bin/python3", version=version, has_venv=has_venv)


def test_what_a_machine_prints_is_read():
    found = read_machine(GOOD)
    assert (found.name, found.folder) == ("gpu1", "/home/ann/.muster/node")
    assert [one.version for one in found.pythons] == [(3, 9, 2), (3, 12, 3)]
    assert [one.has_venv for one in found.pythons] == [True, False]
    assert (found.free_bytes, found.stored_bytes) == (20_480_000_000, 12_288)
    assert found.has_user_units
    assert found.has_linger
    assert found.has_gpus
    assert found.has_credential
    assert found.is_running
    assert found.settings == 'MUSTER_AGENT_NAME="gpu1"\nMUSTER_AGENT_POOL="default"\n'
    assert choose_python(found) == "/usr/bin/python3.12"
    assert find_obstacle(found) is None


def test_garbage_is_a_machine_with_nothing():
    assert read_machine("motd: welcome\npython=/x nonsense\nfree_kib=-\n=\n") == RemoteMachine(
        system="", name="", user="", home=""
    )


def test_the_probe_reads_this_machine():
    answer = PosixShell().run(programs.probe())
    found = read_machine(answer.output)
    assert answer.code == 0
    assert found.system == "Linux"
    assert found.free_bytes > 0
    assert found.pythons


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": "Darwin"}, "it runs Darwin"),
        ({"home": ""}, "no home folder"),
        ({"free_bytes": 300 << 20}, "has 300 MiB free, and an agent needs 1024 MiB"),
        (
            {"pythons": (python((3, 9, 2)),)},
            "no Python 3.11 or later; found /usr/bin/python3 3.9.2",
        ),
        ({"pythons": ()}, "no Python 3.11 or later; found none"),
        ({"pythons": (python((3, 12, 1), False),)}, "cannot make virtual environments"),
    ],
)
def test_what_is_in_the_way_is_told(changes, words):
    obstacle = find_obstacle(machine(**changes))
    assert words in obstacle.message
    assert obstacle.hint


def test_uv_makes_up_for_python_and_for_venv():
    for pythons in ((), (python((3, 9, 2)),), (python((3, 12, 1), False),)):
        assert find_obstacle(machine(pythons=pythons, uv="/usr/bin/uv")) is None
    assert choose_python(machine(pythons=(python((3, 9, 2)),), uv="/usr/bin/uv")) == ""
    assert find_obstacle(machine(pythons=(), uv="/usr/bin/uv"), "/opt/python") is not None


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            "@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! … Host key verification failed.",
            "-R",
        ),
        ("Host key verification failed.", "fingerprint"),
        ("ann@gpu1: Permission denied (publickey).", "--identity"),
        ("ssh: Could not resolve hostname gpu9: Name or service not known", "check its name"),
        ("connect to host gpu1 port 23: Connection refused", "--port"),
        ("no answer within 120 s", "try ssh itself"),
        ("something new", "ssh itself"),
    ],
)
def test_what_ssh_says_is_explained(words, hint):
    assert hint in explain_ssh(words)


def test_settings_are_read_alike_by_a_shell_and_refused_otherwise():
    text = write_settings({"name": "gpu1", "labels": "rack=3,zone=a", "slots": ""})
    assert text == 'MUSTER_AGENT_NAME="gpu1"\nMUSTER_AGENT_LABELS="rack=3,zone=a"\n'
    done = subprocess.run(
        ["sh", "-c", f'{text}printf %s "$MUSTER_AGENT_LABELS"'], capture_output=True, check=True
    )
    assert done.stdout == b"rack=3,zone=a"
    for value in ("a b", 'a"b', "$(id)", "a\nb", "`id`", "a\\b"):
        with pytest.raises(ValueError, match="characters other than"):
            write_settings({"name": value})


@pytest.mark.parametrize(
    "program",
    [
        programs.probe("/opt/my python"),
        programs.unpack(),
        programs.install(
            digest="a" * 64, wheel=NAME, extras="agent", python="", uv="/x/uv", is_offline=True
        ),
        programs.install(
            digest="a" * 64, wheel=NAME, extras="agent", python="/x/py", uv="", is_offline=False
        ),
        programs.reach("http://10.0.0.5:8470"),
        programs.configure(node="gpu1", settings='A="1"\n', token="join_x"),
        programs.start(has_user_units=True, has_linger=False),
        programs.start(has_user_units=False, has_linger=False),
        programs.look(),
        programs.stop(),
        programs.remove(),
        programs.forget_token(),
    ],
)
def test_programs_are_valid_for_a_plain_shell(program):
    assert subprocess.run(["sh", "-n"], input=program, text=True, check=False).returncode == 0


def test_an_installation_that_fails_leaves_nothing_and_says_why(tmp_path):
    shell = PosixShell(environment={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    shell.run("mkdir -p ~/.muster/node/wheels")
    program = programs.install(
        digest="a" * 64, wheel=NAME, extras="agent", python="/bin/false", uv="", is_offline=True
    )
    assert shell.run(program).code == 1
    assert sorted(path.name for path in (tmp_path / ".muster/node").iterdir()) == ["install.log"]


def test_a_unit_is_written_where_systemd_runs_services_of_the_user(tmp_path):
    """systemctl and loginctl only note what they are told here: this machine may have no systemd."""
    for name in ("systemctl", "loginctl"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/told\n')
        (tmp_path / name).chmod(0o755)
    shell = PosixShell(environment={"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert shell.run(programs.start(has_user_units=True, has_linger=False)).output == ""
    unit = tmp_path / ".config/systemd/user/muster-agent.service"
    assert "ExecStart=%h/.muster/node/current/bin/muster-agent run" in unit.read_text()
    told = (tmp_path / "told").read_text()
    assert "loginctl enable-linger" in told
    assert "systemctl --user restart muster-agent.service" in told
    (tmp_path / "loginctl").write_text("#!/bin/sh\nexit 1\n")
    answer = shell.run(programs.start(has_user_units=True, has_linger=False))
    assert answer.output == "linger"
    assert shell.run(programs.stop()).code == 0
    assert not unit.exists()
    assert "systemctl --user disable -q muster-agent.service" in (tmp_path / "told").read_text()


def test_a_wheel_has_the_agent_of_this_version_and_is_always_the_same():
    data = build_wheel()
    assert data == build_wheel()
    with zipfile.ZipFile(BytesIO(data)) as wheel:
        names = wheel.namelist()
        info = f"muster_train-{__version__}.dist-info"
        assert f"Version: {__version__}\n" in wheel.read(f"{info}/METADATA").decode()
        assert (
            "muster-agent = muster_agent.cli:main"
            in wheel.read(f"{info}/entry_points.txt").decode()
        )
    assert {"muster_agent/cli.py", "muster/wire/__init__.py", "muster/py.typed"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith("muster_server")]


def test_a_shell_passes_data_and_returns_the_programs_code():
    answer = PosixShell().run("cat; exit 3", data=b"bytes\n")
    assert (answer.code, answer.output) == (3, "bytes")
    with pytest.raises(ShellUnreachable, match="no answer within"):
        PosixShell().run("sleep 5", timeout_s=0.1)
