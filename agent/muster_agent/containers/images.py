"""The image of a job: find it on this node, or pull it with its progress in the job's log."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from muster_agent.containers.client import EngineFailed, call_json, last_words
from muster_agent.environments.failures import BuildCanceled
from muster_agent.isolation.containers import Engine, full_name, registry_of
from muster_agent.isolation.walls import outer_environment_of

PULL_TIMEOUT_S = 7200.0
POLL_S = 0.2
END_S = 5.0
TAIL_BYTES = 4096
_REFUSED = re.compile(
    r"unauthorized|denied|manifest unknown|not found|name unknown|invalid reference|"
    r"no basic auth|authentication required|incorrect username",
    re.IGNORECASE,
)
"""Words of registries about names and logins, which are wrong on every node."""


class NoImage(Exception):
    """The image of a job is not on this node; the message is one clear sentence."""

    def __init__(self, message: str, *, fault: Literal["document", "node", "placement"]) -> None:
        """Create the error; `fault`: whether no node can have the image, this one cannot get it now,
        or it was only not found here."""
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image on this node."""

    name: str
    """Name with its registry."""
    id: str
    digest: str
    """Name with the digest by which every node can pull the same; "" for an image that was built or
    imported here."""
    environment: dict[str, str]


def find(engine: Engine, name: str) -> Image | None:
    """Return an image that is here; None if it is not. Raises EngineFailed."""
    name = full_name(name)
    try:
        found = call_json(engine, "image", "inspect", name)[0]
    except EngineFailed as error:
        if re.search(r"no such image|image not known", str(error), re.IGNORECASE):
            return None
        raise
    variables = (found.get("Config") or {}).get("Env") or []
    repository = name.partition("@")[0].rpartition("/")[2].partition(":")[0]
    digests = [str(one) for one in found.get("RepoDigests") or []]
    # An image has one digest per name it was pulled under.
    own = [one for one in digests if one.partition("@")[0].rpartition("/")[2] == repository]
    return Image(
        name=name,
        id=str(found["Id"]).removeprefix("sha256:"),
        digest=(own or digests or [""])[0],
        environment=dict(one.partition("=")[::2] for one in variables),
    )


def get(
    engine: Engine,
    name: str,
    *,
    policy: str,
    login: str,
    locks: Path,
    log: Path,
    is_canceled: Callable[[], bool],
) -> Image:
    """Return the image of a job, pulled if its policy says so. Blocks. Raises NoImage, and
    BuildCanceled once `is_canceled` answers True.

    policy: `environment.pull_policy`. login: `user:password` for its registry; "" for none. locks:
    folder of the locks by which only one job pulls an image. log: file that shows the progress.
    """
    try:
        with _locked(locks, full_name(name), is_canceled=is_canceled):
            found = None if policy == "always" else find(engine, name)
            if found is None and policy == "never":
                raise NoImage(
                    f"the image {name} is not on this node, and environment.pull_policy is never",
                    fault="placement",
                )
            if found is None:
                _pull(engine, full_name(name), login=login, log=log, is_canceled=is_canceled)
                found = find(engine, name)
    except EngineFailed as error:
        raise NoImage(f"{engine.kind} does not work: {error}", fault="node") from error
    if found is None:
        raise NoImage(f"{engine.kind} pulled the image {name} and does not have it", fault="node")
    return found


def _pull(
    engine: Engine, name: str, *, login: str, log: Path, is_canceled: Callable[[], bool]
) -> None:
    with contextlib.ExitStack() as stack:
        argv = [engine.path, "pull", name]
        if login:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-login-"))
            argv = _with_login(engine, name, login=login, folder=Path(folder))
        words = stack.enter_context(log.open("ab"))
        words.write(f"[setup] pulling {name}\n".encode())
        words.flush()
        began, start = time.monotonic(), words.tell()
        process = subprocess.Popen(
            argv,
            env=outer_environment_of(engine),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
        )
        code = _wait(process, is_canceled=is_canceled)
        took_s = time.monotonic() - began
        with log.open("rb") as said:
            said.seek(max(start, log.stat().st_size - TAIL_BYTES))
            last = last_words(said.read())
        if code == 0:
            words.write(f"[setup] pulled {name} in {took_s:.0f} s\n".encode())
            return
    raise NoImage(
        f"the image {name} could not be pulled: {last or f'exit code {code}'}",
        fault="document" if _REFUSED.search(last) else "node",
    )


def _with_login(engine: Engine, name: str, *, login: str, folder: Path) -> list[str]:
    """Return the command that pulls with a login, which stands in a file that only this user may
    read, and never on the command line."""
    auth = base64.b64encode(login.encode()).decode()
    key = registry_of(name)
    if engine.kind == "podman":
        key = full_name(name).partition("/")[0]
    path = folder / "config.json"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump({"auths": {key: {"auth": auth}}}, file)
    if engine.kind == "podman":
        return [engine.path, "pull", "--authfile", str(path), name]
    return [engine.path, "--config", str(folder), "pull", name]


def _wait(process: subprocess.Popen[bytes], *, is_canceled: Callable[[], bool]) -> int:
    deadline = time.monotonic() + PULL_TIMEOUT_S
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(POLL_S)
        if is_canceled() or time.monotonic() > deadline:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if is_canceled():
                raise BuildCanceled
            raise NoImage(
                f"pulling the image did not end within {PULL_TIMEOUT_S:g} s", fault="node"
            )


@contextlib.contextmanager
def _locked(folder: Path, name: str, *, is_canceled: Callable[[], bool]) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if is_canceled():
                    raise BuildCanceled from None
                time.sleep(POLL_S)
            else:
                break
        yield
