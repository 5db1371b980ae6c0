"""Outlive the SIGTERM by which a batch system or a service manager ends all processes of a node at once.

The agent and the shim get that signal too. They tell the server, ask the job for its last checkpoint and
end it when its grace is over. For that its processes must still be there, so a SIGTERM ends none of them
before the shim says so. Python does not tell who has sent a signal. So the shim leaves a word in a file
beside the report socket: `SITE` once it has got one itself, `SHIM` before it sends one, and
`SITE_THEN_SHIM` if both are so.

A script that handles SIGTERM replaces this handler, and gets every one. What a script forks or starts is
not covered, except for the workers of torch's DataLoader: torch ends the training if one of them dies.

Needs the standard library alone.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import secrets
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

FILE_NAME = "sigterm"
SOCKET_VARIABLE = "MUSTER_REPORT_SOCKET"
SITE = "site"
"""Word: every process gets a SIGTERM from outside, and none is to end for it."""
SHIM = "shim"
"""Word: whoever gets, or has got, a SIGTERM is to end."""
SITE_THEN_SHIM = "site, then shim"
"""Word: as `SHIM`, after every process has got one. It may come so soon that `SITE` is never read."""
PATIENCE_S = 1.0
"""Seconds for the shim, which gets the signal at the same time, to leave its word on a busy machine."""
POLL_S = 0.02
AGAIN_S = 0.2

_file = ""
_is_forked = False
_has_heard = False


def leave_word(folder: Path, word: str) -> None:
    """Leave a word in the folder of the report socket, which belongs to the job. Raises OSError."""
    path = folder / f".{FILE_NAME}-{secrets.token_hex(8)}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(fd, "w") as file:
        os.fchmod(fd, 0o644)
        file.write(word)
    path.rename(folder / FILE_NAME)


def install() -> None:
    """Let this process, its torchrun and its DataLoader workers outlive a SIGTERM to all. Does nothing
    outside a job, beside another handler and in any thread but the first. To be called before the
    script's first line."""
    socket = os.environ.get(SOCKET_VARIABLE, "")
    is_first = threading.current_thread() is threading.main_thread()
    if not (socket and is_first and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
        return
    from muster.launch.after_import import call_after_import

    listen(socket)
    signal.signal(signal.SIGTERM, _on_sigterm)
    os.register_at_fork(after_in_child=_forked)
    call_after_import(
        {
            "torch.distributed.elastic.multiprocessing.api": _cover_torchrun,
            "torch.utils.data._utils.signal_handling": _cover_loader,
        }
    )


def listen(socket: str) -> None:
    """Look for words beside this report socket; where there is none, every SIGTERM is for us."""
    global _file
    _file = os.path.join(os.path.dirname(socket), FILE_NAME) if socket else ""  # noqa: PTH118, PTH120


def is_for_us() -> bool:
    """Return whether this process is to end for a SIGTERM that has just come."""
    return _await_word() != SITE


def is_to_pass_on() -> bool:
    """Return whether a SIGTERM that has just come is for those below this process too, because they have
    not got it themselves. Of two, the first is the one that all have got."""
    global _has_heard
    had_heard, _has_heard = _has_heard, True
    word = _await_word()
    return word != SITE and (word != SITE_THEN_SHIM or had_heard)


async def pass_on(send: Callable[[], object]) -> None:
    """Send a SIGTERM on that has just come, unless all processes of the node have got it."""
    import asyncio

    if await asyncio.to_thread(is_to_pass_on):
        send()


def _await_word() -> str:
    """Return the word, or "" if none is left in time."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not (word := _word()) and _file and time.monotonic() < give_up_at:
        time.sleep(POLL_S)
    return word


def _word() -> str:
    try:
        with open(_file) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def _on_sigterm(number: int, frame: types.FrameType | None) -> None:
    # A handler that replaced this one may call it as the one before: it decides by itself.
    if signal.getsignal(number) is not _on_sigterm:
        return
    if is_for_us():
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    elif not _is_forked:
        # The shim sends no second one, which would interrupt the handlers of other scripts.
        _thread.start_new_thread(_end_when_told, ())


def _end_when_told() -> None:
    while _word() == SITE:
        time.sleep(AGAIN_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _forked() -> None:
    """Give a child its default back: whoever has forked it may end it by a SIGTERM, and wait for that."""
    global _is_forked
    _is_forked = True
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        with contextlib.suppress(ValueError):  # forked by another thread
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _cover_torchrun(module: Any) -> None:
    """Let torchrun end its workers only for a SIGTERM that means it."""
    end = getattr(module, "_terminate_process_handler", None)
    if end is None:
        return

    def end_if_meant(number: int, frame: types.FrameType | None) -> None:
        if number != signal.SIGTERM or is_to_pass_on():
            end(number, frame)

    module._terminate_process_handler = end_if_meant


def _cover_loader(module: Any) -> None:
    """Cover the workers of a DataLoader, which end for a SIGTERM of their parent's as before."""
    prepare = module._set_worker_signal_handlers

    def prepare_covered(*args: Any) -> None:
        prepare(*args)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _on_sigterm)

    module._set_worker_signal_handlers = prepare_covered
