"""Warm parents: interpreters that have imported torch, from which shims fork their workers.

The agent keeps at most MAX_PARENTS of them, one per (interpreter, environment, slot type), started
when an allocation first needs it. What they do is in muster.launch.warm; what asks them is in shim.warm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

import muster
from muster.launch import reaping
from muster_agent.environments.interpreters import fingerprint
from muster_agent.jobs.folder import SOCKET_DIR_PREFIX, remove_socket_dir
from muster_agent.jobs.process import OWNER_VARIABLE, SHIM_VARIABLE

log = structlog.get_logger("muster.agent")

MAX_PARENTS = 2
IDLE_S = 600.0
"""Seconds without a request after which a parent ends."""
RETRY_S = 600.0
"""Seconds before a parent that could not be started is tried again."""
BACKLOG = 128
ROOM_VARIABLE = "MUSTER_WARM_ROOM"
ROOM_BYTES = 16_384
"""Bytes reserved for the variables that a worker has and its parent does not; they take about
2,000."""
TITLE_BYTES = 2_048
SCRIPT = Path(muster.__file__).parent / "launch" / "warm.py"


@dataclass(frozen=True)
class _Key:
    python: str
    fingerprint: str
    """Fingerprint of the installed packages: after an update nobody may get modules imported before
    it."""
    slot_type: str
    environment: str
    """Hash of the environment."""


@dataclass(frozen=True)
class _Failure:
    at: float
    code: int
    """Exit code, or minus the signal."""


@dataclass
class _Parent:
    id: str
    process: subprocess.Popen[bytes]
    socket_path: Path
    lifeline: int

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.lifeline)
        remove_socket_dir(str(self.socket_path.parent))


class WarmParents:
    """The warm parents of one agent. Not thread-safe."""

    def __init__(self, owner: str, *, words: Path, imports: Sequence[str] = ()) -> None:
        """Create the set.

        owner: see process.owner_of.
        words: the file to which the parents write.
        imports: modules that they import besides torch and its parts."""
        self._owner = owner
        self.words = words
        self._imports = list(imports)
        self._parents: dict[_Key, _Parent] = {}
        """Parents, the most recently used last."""
        self._failures: dict[_Key, _Failure] = {}
        self._num_started = 0

    def keep(self, python: str, environment: Mapping[str, str], slot_type: str) -> None:
        """Keep the parent for such workers from ending, or start one if no other has to make room."""
        path = self.want(python, environment, slot_type, makes_room=False)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            if path:
                connection.connect(path)

    def want(
        self,
        python: str,
        environment: Mapping[str, str],
        slot_type: str,
        *,
        makes_room: bool = True,
    ) -> str:
        """Return the socket of a parent for such workers, started if there is none, perhaps still
        importing; "" if there can be none. Returns at once.

        environment: exactly what the parent gets. makes_room: end another parent if there are too many.
        """
        self._collect()
        executable = shutil.which(python)
        if executable is None or sys.platform != "linux" or self.why_none(python, environment):
            return ""
        key = _Key(python, fingerprint(executable), slot_type, _digest(environment))
        if key not in self._parents:
            if len(self._parents) >= MAX_PARENTS and not makes_room:
                return ""
            while len(self._parents) >= MAX_PARENTS:
                self._parents.pop(next(iter(self._parents))).end()
            try:
                self._parents[key] = self._start(python, environment)
            except OSError as error:
                log.warning("warm_parent_not_started", python=python, error=str(error))
                return ""
        parent = self._parents[key] = self._parents.pop(key)
        return str(parent.socket_path)

    def why_none(self, python: str, environment: Mapping[str, str]) -> str:
        """Return why there can be no parent for such workers although it is wanted, as one clause that
        says what to mend; "" if there is no such reason. May be called from another thread."""
        if entry := _relative_entry(environment):
            return f"PYTHONPATH of the agent has the relative entry {entry!r} (use absolute paths)"
        executable = shutil.which(python)
        if executable is None:
            return ""
        wanted = (python, fingerprint(executable), _digest(environment))
        for key, failure in list(self._failures.items()):
            is_recent = time.monotonic() < failure.at + RETRY_S
            if is_recent and (key.python, key.fingerprint, key.environment) == wanted:
                how = f"code {failure.code}" if failure.code >= 0 else f"signal {-failure.code}"
                return f"the process from which they are forked ended with {how}, see {self.words}"
        return ""

    def find(self, python: str, environment: Mapping[str, str]) -> str:
        """Return the socket of an existing parent, for workers of any slot type; "" for none."""
        self._collect()
        executable = shutil.which(python)
        if executable is None or not self._parents:
            return ""
        wanted = (python, fingerprint(executable), _digest(environment))
        for key, parent in self._parents.items():
            if (key.python, key.fingerprint, key.environment) == wanted:
                return str(parent.socket_path)
        return ""

    def has(self, id: str) -> bool:
        """Return whether this is the mark of one of the living parents."""
        return any(parent.id == id for parent in self._parents.values())

    def close(self) -> None:
        """End all parents. The workers go on."""
        for parent in self._parents.values():
            parent.end()
        self._parents.clear()

    def _collect(self) -> None:
        """Forget the parents that have ended."""
        for key, parent in list(self._parents.items()):
            code = parent.process.poll()
            if code is not None:
                if code != 0:
                    self._failures[key] = _Failure(time.monotonic(), code)
                    log.warning(
                        "warm_parent_ended", python=key.python, code=code, log=str(self.words)
                    )
                self._parents.pop(key).end()

    def _start(self, python: str, environment: Mapping[str, str]) -> _Parent:
        self._num_started += 1
        id = f"warm-{os.getpid()}-{self._num_started}"
        folder = Path(tempfile.mkdtemp(prefix=SOCKET_DIR_PREFIX))
        path = folder / "warm"
        lifeline_read, lifeline_write = os.pipe()
        # Listening from now on: whoever connects while it imports torch waits in the queue.
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
            try:
                listener.bind(str(path))
                listener.listen(BACKLOG)
                given = {
                    "listen_fd": listener.fileno(),
                    "lifeline_fd": lifeline_read,
                    "idle_s": IDLE_S,
                    "imports": self._imports,
                    "marks": {OWNER_VARIABLE: self._owner, SHIM_VARIABLE: id},
                    "room": " " * TITLE_BYTES,
                }
                with self.words.open("ab") as words:
                    process = subprocess.Popen(
                        [python, str(SCRIPT), json.dumps(given)],
                        # It must be first, see muster.launch.label.Label.
                        env={ROOM_VARIABLE: " " * ROOM_BYTES, **environment},
                        stdin=subprocess.DEVNULL,
                        stdout=words,
                        stderr=words,
                        cwd="/",
                        start_new_session=True,
                        pass_fds=(listener.fileno(), lifeline_read),
                    )
            except OSError:
                os.close(lifeline_write)
                remove_socket_dir(str(folder))
                raise
            finally:
                os.close(lifeline_read)
        reaping.keep(process)
        log.info("warm_parent_started", python=python, pid=process.pid)
        return _Parent(id, process, path, lifeline_write)


def _digest(environment: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(environment.items())).encode()).hexdigest()


def _relative_entry(environment: Mapping[str, str]) -> str:
    """Return the first relative entry of PYTHONPATH, with which imports depend on the working folder;
    "" if there is none."""
    entries = environment.get("PYTHONPATH", "").split(":")
    return next((entry for entry in entries if entry and not entry.startswith("/")), "")
