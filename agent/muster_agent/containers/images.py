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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from muster.image_names import full_name, repository_of
from muster_agent.containers.cache import UNKNOWN_IMAGE, ImageCache
from muster_agent.containers.client import EngineFailed, call, call_json, last_words
from muster_agent.environments.failures import BuildCanceled
from muster_agent.isolation.containers import Engine, registry_of
from muster_agent.isolation.walls import outer_environment_of

PULL_TIMEOUT_S = 7200.0
POLL_S = 0.2
END_S = 5.0
TAIL_BYTES = 4096
_REFUSED = re.compile(
    r"unauthorized|denied|manifest unknown|not found|name unknown|invalid reference|"
    r"no basic auth|authentication required|incorrect username|does not match|digest mismatch",
    re.IGNORECASE,
)
"""Words about names, logins and digests, which are wrong on every node."""


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
    size_bytes: int = 0
    file: str = ""
    """File of the image, for an engine whose images are files. Such an image has no id that other nodes
    would find as well."""
    was_pulled: bool = False
    """Whether it was pulled just now."""
    lock: int | None = None
    """Descriptor that keeps it from being deleted until this process ends; None for an image that
    Muster has not pulled, which it never deletes."""


def find(engine: Engine, name: str, *, cache: ImageCache | None = None) -> Image | None:
    """Return an image that is here; None if it is not. Raises EngineFailed.

    cache: where images lie that are files.
    """
    name = full_name(name)
    if engine.is_plain:
        return _find_file(engine, name, cache) if cache is not None else None
    try:
        found = call_json(engine, "image", "inspect", name)[0]
    except EngineFailed as error:
        if UNKNOWN_IMAGE.search(str(error)):
            return None
        raise
    variables = (found.get("Config") or {}).get("Env") or []
    digests = [str(one) for one in found.get("RepoDigests") or []]
    # An image has one digest per name it was pulled under.
    own = [one for one in digests if repository_of(one) == repository_of(name)]
    asked = [one for one in own if one.endswith(f"@{name.partition('@')[2]}")]
    return Image(
        name=name,
        id=str(found["Id"]).removeprefix("sha256:"),
        digest=(asked or own or digests or [""])[0],
        environment=dict(one.partition("=")[::2] for one in variables),
        size_bytes=int(found.get("Size") or 0),
    )


def get(
    engine: Engine,
    name: str,
    *,
    policy: str,
    login: str,
    cache: ImageCache,
    log: Path,
    is_canceled: Callable[[], bool],
) -> Image:
    """Return the image of a job, pulled if its policy says so. Blocks. Raises NoImage, and
    BuildCanceled once `is_canceled` answers True.

    policy: `environment.pull_policy`. login: `user:password` for its registry; "" for none. cache:
    remembers what is pulled. log: file that shows the progress.
    """
    try:
        with _locked(cache.locks, full_name(name), is_canceled=is_canceled):
            found = None if policy == "always" else find(engine, name, cache=cache)
            lock = cache.use(found.id) if found is not None else None
            if found is not None and lock is not None and not cache.has(found.id):
                os.close(lock)  # Deleted by another job between these two lines.
                found = None
            if found is not None:
                return replace(found, lock=lock)
            if policy == "never":
                raise NoImage(
                    f"the image {name} is not on this node, and environment.pull_policy is never",
                    fault="placement",
                )
            before = {word.removeprefix("sha256:") for word in _ids(engine)}
            _pull(
                engine, full_name(name), login=login, log=log, cache=cache, is_canceled=is_canceled
            )
            found = find(engine, name, cache=cache)
            if found is None:
                raise NoImage(
                    f"{engine.kind} pulled the image {name} and does not have it", fault="node"
                )
            if found.id not in before or cache.has(found.id):
                cache.add(found.id, full_name(name), size_bytes=found.size_bytes)
            return replace(found, lock=cache.use(found.id), was_pulled=True)
    except EngineFailed as error:
        raise NoImage(f"{engine.kind} does not work: {error}", fault="node") from error


def _ids(engine: Engine) -> list[str]:
    """Return the ids of all images on this node. Raises EngineFailed."""
    if engine.is_plain:
        return []
    return call(engine, "images", "--all", "--quiet", "--no-trunc").split()


def _find_file(engine: Engine, name: str, cache: ImageCache) -> Image | None:
    """Return an image that is a file; None if it is not here. Raises EngineFailed."""
    image_id = hashlib.sha256(name.encode()).hexdigest()
    path = cache.image_file(image_id)
    if not path.exists():
        return None
    shown = call(engine, "exec", "--contain", "--cleanenv", "--no-home", str(path), "env", "-0")
    variables = dict(one.partition("=")[::2] for one in shown.split("\0") if one)
    return Image(
        name=name,
        id=image_id,
        digest=name if "@sha256:" in name else "",
        environment={k: v for k, v in variables.items() if not _OF_CLIENT.match(k)},
        size_bytes=path.stat().st_size,
        file=str(path),
    )


_OF_CLIENT = re.compile(r"(APPTAINER|SINGULARITY)|(HOME|PWD|USER|PS1|PROMPT_COMMAND|TERM|LANG)$")
"""Variables that Apptainer sets, and not the image."""


def pull_file_command(
    engine: Engine, name: str, *, login: str, target: Path
) -> tuple[list[str], dict[str, str]]:
    """Return the command that makes a file of an image, and the variables that it needs: Apptainer
    takes a login from its environment, which only this user can read."""
    repository, _, digest = name.partition("@")
    if digest:  # It refuses a tag beside a digest.
        path, slash, last = repository.rpartition("/")
        name = f"{path}{slash}{last.partition(':')[0]}@{digest}"
    user, _, password = login.partition(":")
    variables: dict[str, str] = {}
    for tool in ("APPTAINER", "SINGULARITY") if login else ():
        variables |= {f"{tool}_DOCKER_USERNAME": user, f"{tool}_DOCKER_PASSWORD": password}
    return [engine.path, "pull", "--force", str(target), f"docker://{name}"], variables


def _pull(
    engine: Engine,
    name: str,
    *,
    login: str,
    log: Path,
    cache: ImageCache,
    is_canceled: Callable[[], bool],
) -> None:
    with contextlib.ExitStack() as stack:
        argv = [engine.path, "pull", name]
        variables: dict[str, str] = {}
        partial = target = Path()
        if engine.is_plain:
            target = cache.image_file(hashlib.sha256(name.encode()).hexdigest())
            partial = target.with_suffix(f".{os.getpid()}")
            stack.callback(partial.unlink, missing_ok=True)
            argv, variables = pull_file_command(engine, name, login=login, target=partial)
        elif login:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-login-"))
            argv = _with_login(engine, name, login=login, folder=Path(folder))
        words = stack.enter_context(log.open("ab"))
        words.write(f"[setup] pulling {name}\n".encode())
        words.flush()
        began, start = time.monotonic(), words.tell()
        process = subprocess.Popen(
            argv,
            env={**outer_environment_of(engine), **variables},
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
            if engine.is_plain:
                partial.replace(target)
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
