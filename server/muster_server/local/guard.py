"""Run a program that knows nothing of our lifeline so that it still ends with us.

    python guard.py PARENT_PID LIFELINE_FD program argument…

On Linux it asks the kernel to end this process with its parent and becomes the program, so that
nothing more runs. Elsewhere it stays, starts the program as a child and waits for the lifeline.
Run by path with `python -I -S`: it needs the standard library alone and starts in 20 ms.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, lifeline, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM) == 0:
            if os.getppid() != parent:  # it was gone before we asked
                sys.exit(1)
            os.set_inheritable(lifeline, False)
            os.execv(command[0], command)  # noqa: S606
    stay(lifeline, command)


def stay(lifeline: int, command: list[str]) -> None:
    child = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait_for_parent() -> None:
        try:
            while os.read(lifeline, 1):
                pass
        except OSError:
            pass
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()

    threading.Thread(target=wait_for_parent, daemon=True).start()
    sys.exit(child.wait())


if __name__ == "__main__":
    main()
