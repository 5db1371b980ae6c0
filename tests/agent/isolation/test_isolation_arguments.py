"""The exact commands that build the walls, and which folders a document may open."""

from __future__ import annotations

import dataclasses

import pytest

from muster_agent.isolation.levels import (
    RootEntry,
    Walls,
    enter,
    enter_running,
    is_seen,
    refusal,
    uid_of,
)

SANDBOX = Walls(
    level="sandbox",
    uid=400_003,
    root=(
        RootEntry(name="bin", target="usr/bin"),
        RootEntry(name="data"),
        RootEntry(name="etc"),
        RootEntry(name="home"),
        RootEntry(name="proc"),
        RootEntry(name="srv"),
        RootEntry(name="tmp"),
        RootEntry(name="usr"),
    ),
    hidden=("/home/ann/.muster", "/srv/muster", "/srv/muster/storage"),
    read=("/home/ann/code", "/srv/muster/sdk"),
    write=("/srv/muster/trials/7", "/tmp/shim/job"),
    tmp="/tmp/shim/tmp",
)

SETPRIV = [
    "setpriv", "--reuid", "400003", "--regid", "400003", "--clear-groups",
    "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--",
]  # fmt: skip


def test_command_of_a_sandbox_whose_agent_runs_as_root() -> None:
    assert enter(SANDBOX, ["train"], status_fd=7) == [
        "bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--die-with-parent", "--json-status-fd", "7",
        "--ro-bind", "/data", "/data", "--ro-bind", "/etc", "/etc",
        "--ro-bind", "/srv", "/srv", "--ro-bind", "/usr", "/usr",
        "--symlink", "usr/bin", "/bin",
        "--proc", "/proc", "--dev", "/dev", "--ro-bind-try", "/sys", "/sys",
        "--perms", "1777", "--tmpfs", "/dev/shm",
        "--bind", "/tmp/shim/tmp", "/tmp",
        "--perms", "0755", "--dir", "/run", "--perms", "0755", "--dir", "/var",
        "--symlink", "../tmp", "/var/tmp",
        "--perms", "0755", "--dir", "/home", "--perms", "0755", "--dir", "/root",
        "--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve",
        "--ro-bind-try", "/run/nvidia-persistenced", "/run/nvidia-persistenced",
        "--ro-bind-try", "/run/resolvconf", "/run/resolvconf",
        "--perms", "0755", "--tmpfs", "/srv/muster",
        "--perms", "0755", "--dir", "/home/ann",
        "--ro-bind", "/home/ann/code", "/home/ann/code",
        "--ro-bind", "/srv/muster/sdk", "/srv/muster/sdk",
        "--perms", "0755", "--dir", "/tmp/shim", "--bind", "/tmp/shim/job", "/tmp/shim/job",
        "--perms", "0755", "--dir", "/srv/muster/trials",
        "--bind", "/srv/muster/trials/7", "/srv/muster/trials/7",
        "--remount-ro", "/srv/muster", "--remount-ro", "/",
        "--chdir", "/", "--",
        *SETPRIV, "train",
    ]  # fmt: skip


def test_without_root_a_user_namespace_takes_the_place_of_the_user_id() -> None:
    command = enter(dataclasses.replace(SANDBOX, uid=None), ["train"])
    assert command[:3] == ["bwrap", "--unshare-user", "--unshare-pid"]
    assert "setpriv" not in command
    assert "--json-status-fd" not in command


def test_a_folder_that_a_document_opens_does_not_show_what_is_hidden_in_it() -> None:
    opened = dataclasses.replace(SANDBOX, read=("/home/ann",), hidden=("/home/ann/.muster",))
    command = enter(opened, ["train"])
    show = command.index("/home/ann", command.index("--ro-bind", command.index("/dev/shm")))
    hide = command.index("/home/ann/.muster")
    assert command[show - 1] == "--ro-bind"
    assert command[hide - 1] == "--tmpfs"
    assert show < hide


def test_devices_and_their_groups_are_given_by_name() -> None:
    gpus = dataclasses.replace(
        SANDBOX, devices=("/dev/nvidia0", "/dev/nvidiactl"), groups=(44, 110)
    )
    command = enter(gpus, ["train"])
    place = command.index("/dev/nvidia0")
    assert command[place - 1 : place + 5] == [
        "--dev-bind-try", "/dev/nvidia0", "/dev/nvidia0",
        "--dev-bind-try", "/dev/nvidiactl", "/dev/nvidiactl",
    ]  # fmt: skip
    assert command[command.index("--groups") + 1] == "44,110"
    assert "--clear-groups" not in command


def test_command_of_another_user_alone() -> None:
    assert enter(dataclasses.replace(SANDBOX, level="user"), ["train"]) == [
        "unshare", "--mount", "--propagation", "private", "--",
        "sh", "-c",
        "set -e\n"
        "mount -t proc -o nosuid,nodev,noexec,hidepid=2 proc /proc\n"
        "mkdir -p /tmp/shim/tmp/shim\n"
        "if [ -d /tmp/shim/job ]; then mkdir -p /tmp/shim/tmp/shim/job; "
        "else : >> /tmp/shim/tmp/shim/job; fi\n"
        "mount --rbind /tmp/shim/job /tmp/shim/tmp/shim/job\n"
        "mount --rbind /tmp/shim/tmp /tmp\n"
        "cd /\n"
        'exec "$@"',
        "sh", *SETPRIV, "train",
    ]  # fmt: skip


def test_without_walls_the_command_is_the_command() -> None:
    assert enter(Walls(level="none"), ["train", "x"]) == ["train", "x"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/srv/muster", "which Muster keeps from jobs"),
        ("/srv/muster/agents/a/credential.json", "which Muster keeps from jobs"),
        ("/", "the whole file system"),
        ("/root", "a whole home"),
        ("/home/ann", "a whole home"),
        ("/home", "a whole home"),
        ("/var/lib", "a folder of the system"),
        ("/home/ann/.ssh", "a hidden folder"),
        ("/home/ann/code/.git", "a hidden folder"),
        ("/home/ann/code", ""),
        ("/root/code", ""),
        ("/srv", ""),
        ("/data/sets", ""),
    ],
)
def test_folders_that_a_document_may_open(path: str, why: str) -> None:
    found = refusal(path, protected=["/srv/muster"])
    assert why in found if why else found == ""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/sets", True),
        ("/home/ann/sets", False),
        ("/home/ann/code/sets", True),
        ("/srv/muster/homes", False),
        ("/srv/muster/sdk", True),
        ("/var/cache", False),
        ("/dev/shm/x", False),
    ],
)
def test_what_a_sandbox_shows_of_the_machine(path: str, expected: bool) -> None:
    assert is_seen(path, hidden=SANDBOX.hidden, opened=SANDBOX.read) is expected


def test_command_inside_a_running_job() -> None:
    assert enter_running(SANDBOX, ["sh"], pid=7, program=["python", "entering.py"]) == [
        "python", "entering.py",
        '{"pid": 7, "level": "sandbox", "uid": 400003, "groups": []}',
        "--", "sh",
    ]  # fmt: skip


def test_a_project_has_one_user_id_on_all_nodes() -> None:
    assert uid_of(3, base=400_000) == 400_003
    assert uid_of(100_003, base=400_000) == 400_003
