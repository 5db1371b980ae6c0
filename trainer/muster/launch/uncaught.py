"""Leave behind which exception ended a worker, for the agent to name as the reason.

Its log is a guess: what is torn down afterwards prints tracebacks of its own, and programs that catch
their exceptions print what they like. Python knows: an exception that nobody caught is in
`sys.last_value` when exit handlers run, and that for which a program calls `sys.exit` is being handled
at that moment.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, NoReturn

FILE_NAME = "exception.json"
FOLDER_VARIABLE = "MUSTER_WORKER_LOGS"
"""Variable with the worker's log folder, where torchrun does not name one; with that of the launcher for
the processes of a shell script."""
_TORCHRUN_VARIABLE = "TORCHELASTIC_ERROR_FILE"
_MAX_DEPTH = 10
"""Depth to which nested groups are read."""

_exited_by: list[tuple[str, BaseException | None]] = []
"""What the last call of `sys.exit` said, and `sys.last_value` at that moment."""


def install() -> None:
    """Have the exception that ends this process written to its log folder. Does nothing where no folder
    is named. To be called before the script's first line."""
    folder = os.environ.pop(FOLDER_VARIABLE, "")
    folder = folder or os.path.dirname(os.environ.get(_TORCHRUN_VARIABLE, ""))  # noqa: PTH120
    if not folder:
        return
    leave = sys.exit
    owner = os.getpid()

    def seen_exit(status: Any = None, /) -> NoReturn:
        if status not in (None, 0):
            _exited_by[:] = [(_words_of_exit(status), getattr(sys, "last_value", None))]
        leave(status)

    seen_exit.__name__, seen_exit.__doc__ = leave.__name__, leave.__doc__
    sys.exit = seen_exit

    def write() -> None:
        if os.getpid() == owner:
            words, is_uncaught = _reason()
            if words:
                _write(os.path.join(folder, FILE_NAME), words, is_uncaught)  # noqa: PTH118

    atexit.register(write)


def describe(error: BaseException, depth: int = 0) -> str:
    """Return an exception in one line; of a group its leaves."""
    from .last_words import MAX_LEAVES, sum_up, sum_up_group

    members = getattr(error, "exceptions", None)
    name = _name(type(error))
    if isinstance(members, tuple) and depth < _MAX_DEPTH and _is_group(error):
        leaves = [describe(member, depth + 1) for member in members[: MAX_LEAVES + 1]]
        leaves += ["…"] * max(0, len(members) - len(leaves))
        return sum_up_group(name, str(getattr(error, "message", "")), leaves)
    try:
        return sum_up(name, str(error))
    except Exception:  # its own __str__ fails
        return name


def _reason() -> tuple[str, bool]:
    """Return the exception that ends this process, and whether nobody caught it: then the exit code
    cannot be 0."""
    error = getattr(sys, "last_value", None)
    if _exited_by and _exited_by[0][1] is error:
        return _exited_by[0][0], False
    return (describe(error) + _killed_loader(error), True) if error is not None else ("", False)


def _killed_loader(error: BaseException) -> str:
    """Return which worker of a torch `DataLoader` was killed, in torch's words, as an addition to the
    exception; "" for none, or if that says so.

    Whether torch or the broken connection is heard first is a race.
    """
    if "killed by signal" in str(error) or "torch.utils.data" not in sys.modules:
        return ""
    import signal

    trace = error.__traceback__
    while trace is not None:
        loader = trace.tb_frame.f_locals.get("self")
        for worker in getattr(loader, "_workers", None) or ():
            status = getattr(worker, "exitcode", None)
            if status == -signal.SIGKILL:
                return f" (DataLoader worker (pid {worker.pid}) is killed by signal: Killed)"
        trace = trace.tb_next
    return ""


def _words_of_exit(status: Any) -> str:
    """Return what a call of `sys.exit` is about: its message, or the exception that is being handled."""
    if not isinstance(status, int):
        return str(status).strip().split("\n", 1)[0]
    handled = sys.exc_info()[1]
    while isinstance(handled, SystemExit):
        handled = handled.__context__
    return "" if handled is None else describe(handled)


def _name(kind: type[BaseException]) -> str:
    module = kind.__module__
    return (
        kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
    )


def _is_group(error: BaseException) -> bool:
    return any(kind.__name__ == "BaseExceptionGroup" for kind in type(error).__mro__)


def _write(path: str, words: str, is_uncaught: bool) -> None:
    import json

    try:
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump({"message": words, "is_uncaught": is_uncaught}, file)
    except OSError:
        return  # the end of the log has to do
