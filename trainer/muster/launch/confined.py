"""The first program behind an allocation's walls: starts the job's processes.

The agent cannot start them directly. The programs that build the walls (bwrap, unshare, setpriv) run
with the agent's rights until they are done, so they must not see the job's environment: a
`LD_PRELOAD` in it would be code of the job with these rights. Environments do not belong on a command
line either, where everybody could read them.

`confined.py FD` therefore reads from descriptor FD what to start, as JSON. In a container, which inherits
no descriptors, `confined.py FILE` reads and deletes a file:

    {"umask": 18, "user_namespaces": false,
     "processes": [{"argv": [...], "environment": {...}, "folder": "/w",
                                 "stdout": "/logs/0/stdout.log", "stderr": "..."}]}

Without `user_namespaces`, none of them can make any (muster.launch.userns).
One process without `stdout` takes this one's place. Its `outputs` are files for its stdout and stderr, if
they are not this one's; `file_bytes` bounds how far every file grows. With `"lingers": true` it becomes a child, and after
a SIGTERM this one does not end before all has ended that the child has started: the shell of a script
ends at once, and with this process the whole sandbox. Several become its children, each in a session of
its own and with its output in files; it ends when all have ended, with 0 if all ended well, else with
1. Until then none of them is collected, so that the shim can still read how each has ended. SIGTERM is
passed on to them, unless all processes of the node have got it (muster.launch.site_signals). One with
`"holds": true` starts nothing: it keeps the walls standing for what comes from outside
(muster.launch.entering), until it is killed.

Needs the standard library alone, and Python 3.11 or later.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from typing import Any

COLLECT_AFTER_S = 0.5
"""Seconds that the shim is given to read how the last process has ended."""
SIGNAL_DELAY_S = 0.2
"""Seconds by which a SIGTERM to all may reach this process later than the shell."""
CANNOT_START = 127
_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    with open(int(sys.argv[1]) if sys.argv[1].isdigit() else sys.argv[1]) as file:  # noqa: PTH123
        request = json.load(file)
    if not sys.argv[1].isdigit():
        os.unlink(sys.argv[1])  # noqa: PTH108
    os.umask(request["umask"])
    if not request["user_namespaces"]:
        _sibling("userns").forbid()
    # Blocked for the programs that have built the walls: see `shields` of muster_agent's Children.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    processes = request["processes"]
    if bound := processes[0].get("file_bytes"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (bound, bound))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number, path in enumerate(processes[0].get("outputs", ()), start=1):
        with open(path, "ab") as file:  # noqa: PTH123
            os.dup2(file.fileno(), number)
    if processes[0].get("holds"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()
    if processes[0].get("lingers"):
        return _linger(processes[0])
    if "stdout" not in processes[0]:
        return _become(processes[0])
    return _host(processes)


def _become(process: dict[str, Any]) -> int:
    try:
        os.chdir(process["folder"])
        os.execvpe(process["argv"][0], process["argv"], process["environment"])  # noqa: S606
    except OSError as error:
        return _refuse(process, error)


def _refuse(process: dict[str, Any], error: OSError) -> int:
    sys.stderr.write(f"{error.filename or process['argv'][0]}: {error.strerror}\n")
    return CANNOT_START


def _linger(process: dict[str, Any]) -> int:
    was_asked = []
    signal.signal(signal.SIGTERM, lambda number, frame: was_asked.append(number))
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        child = subprocess.Popen(process["argv"], env=process["environment"], cwd=process["folder"])
    except OSError as error:
        return _refuse(process, error)
    status = _collect_until(child.pid)
    child.returncode = status  # it is collected
    if status != -signal.SIGTERM and not was_asked:
        time.sleep(SIGNAL_DELAY_S)
    if status == -signal.SIGTERM or was_asked:
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
    return status if status >= 0 else 128 - status


def _collect_until(pid: int) -> int:
    """Collect children, and what they leave behind, until this one has ended. Return its exit code,
    or minus the signal."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def _sibling(name: str) -> Any:
    """Return the module that lies beside this file, without the package around it."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")  # noqa: PTH100, PTH118, PTH120
    spec = spec_from_file_location(f"_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _host(processes: list[dict[str, Any]]) -> int:
    children: list[subprocess.Popen[bytes]] = []
    site_signals = _sibling("site_signals")
    site_signals.listen(processes[0]["environment"].get(site_signals.SOCKET_VARIABLE, ""))

    def pass_on(number: int, _frame: object) -> None:
        for child in children:
            os.kill(child.pid, number)

    def pass_on_if_meant(number: int, frame: object) -> None:
        if site_signals.is_to_pass_on():
            pass_on(number, frame)

    signal.signal(signal.SIGTERM, pass_on_if_meant)
    for process in processes:
        with open(process["stdout"], "ab") as out, open(process["stderr"], "ab") as err:  # noqa: PTH123
            try:
                child = subprocess.Popen(
                    process["argv"],
                    env=process["environment"],
                    cwd=process["folder"],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as error:
                pass_on(signal.SIGKILL, None)
                return _refuse(process, error)
        children.append(child)
    failures: list[int] = []

    def wait(pid: int) -> None:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if ended is None or ended.si_status:
            failures.append(pid)

    threads = [threading.Thread(target=wait, args=(child.pid,)) for child in children]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(COLLECT_AFTER_S)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
