"""Take a process behind the walls that a running process is behind. Linux only.

    python -I -S entering.py '{"pid": 4711, "level": "sandbox", "uid": 400003, "groups": []}' -- id

This is for what joins a job that runs: commands that a user runs inside it, and workers that are
forked from a warm parent (muster.launch.warm). `nsenter` enters the sandboxes of root alone. Without
root, bubblewrap makes a user namespace, to which all the others belong, and may leave it for a nested
one, in which nobody can make more of them. No process is left in the outer one then, and `nsenter`
can only enter those of processes.

Needs the standard library alone, and no other module of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence

SPACES = {"user": ("mnt",), "sandbox": ("ipc", "uts", "pid", "mnt")}
"""Namespaces of a job, by level of isolation, in the order in which they are entered."""
_KINDS = {
    "user": 0x10000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "pid": 0x20000000,
    "mnt": 0x00020000,
}
_NS_GET_PARENT = 0xB702
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_NUM_CAPABILITIES_MAX = 64
_RIGHTS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def enter(
    pid: int,
    *,
    level: str,
    uid: int | None,
    groups: Sequence[int] = (),
    spaces: Mapping[str, int] | None = None,
) -> int:
    """Take this process behind the walls around process `pid`, without any right.

    At the level `sandbox`, processes are part of the walls, and only a new one can be there: it goes
    on with 0, and the old one, half behind the walls, is told its pid and must end. At the level
    `user` it is 0 at once.

    uid: user that it becomes; None to stay who we are. spaces: the namespaces that are expected, see
    `spaces_of`: with them, no other process that has got the same pid is taken for it. Needs a
    process of one thread. Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    fds = {name: _open(pid, name) for name in SPACES[level]}
    if spaces is not None and any(os.fstat(fd).st_ino != spaces[n] for n, fd in fds.items()):
        raise OSError(f"process {pid} is not behind the walls that were meant")
    users = _open_users(pid) if uid is None else []
    # The outermost one owns the other namespaces.
    for fd in users[:1]:
        _check(libc.setns(fd, _KINDS["user"]), "enter a user namespace")
    for name, fd in fds.items():
        _check(libc.setns(fd, _KINDS[name]), f"enter the namespace {name}")
    os.chdir("/")
    child = os.fork() if "pid" in fds else 0
    if child:
        return child
    for fd in users[1:]:
        _check(libc.setns(fd, _KINDS["user"]), "enter a user namespace")
    for fd in (*fds.values(), *users):
        os.close(fd)
    try:
        _give_up_rights(libc, uid, groups)
    except BaseException as error:
        # Nobody may go on from here: the caller may have meant to handle it with our rights.
        with contextlib.suppress(OSError):
            os.write(2, f"cannot give up rights: {error}\n".encode())
        os._exit(126)
    return 0


def spaces_of(pid: int, level: str) -> dict[str, int]:
    """Return the numbers of the namespaces of a process. Raises OSError."""
    return {name: os.stat(f"/proc/{pid}/ns/{name}").st_ino for name in SPACES[level]}  # noqa: PTH116


def _open(pid: int | str, name: str) -> int:
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _open_users(pid: int) -> list[int]:
    """Open the user namespaces between ours and that of a process, the outermost first."""
    ours = os.stat("/proc/self/ns/user").st_ino  # noqa: PTH116
    found: list[int] = []
    fd = _open(pid, "user")
    while os.fstat(fd).st_ino != ours:
        found.insert(0, fd)
        fd = fcntl.ioctl(fd, _NS_GET_PARENT)
    os.close(fd)
    return found


def _give_up_rights(libc: ctypes.CDLL, uid: int | None, groups: Sequence[int]) -> None:
    """Give up every capability for good, and our user for another one. Raises OSError."""
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs")
    _check(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient rights")
    for capability in range(_NUM_CAPABILITIES_MAX):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
            break  # The kernel has no more of them; what is left is seen below.
    if uid is not None:
        os.setgroups(list(groups))
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(libc.capset(header, (ctypes.c_uint32 * 6)()), "give up capabilities")
    with open("/proc/self/status") as file:  # noqa: PTH123
        facts = dict(line.split(":", 1) for line in file if ":" in line)
    left = [name for name in _RIGHTS if int(facts[name], 16)]
    if left or int(facts["NoNewPrivs"]) != 1:
        raise OSError(f"rights are left: {left}")
    if uid is not None and set(facts["Uid"].split()) != {str(uid)}:
        raise OSError(f"the user is still {facts['Uid'].split()}")
    # Changing the user took the files in /proc/self from us.
    _check(libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "become readable again")


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")


def main() -> int:
    request = json.loads(sys.argv[1])
    argv = sys.argv[sys.argv.index("--") + 1 :]
    try:
        child = enter(**request)
        if child:
            return _follow(child)
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 126


def _follow(child: int) -> int:
    """Stand for a process: return its exit code, or 128 + the signal."""
    # They go to the process group, hence to the child as well.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
