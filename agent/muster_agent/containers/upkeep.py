"""The containers of this agent from outside: how one ended, and ending all of an allocation.

Killing the engine's client leaves its container running, with Podman and with Docker. Containers are
found by the mark of their agent: others may use the same engine.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster_agent.containers.client import EngineFailed, call, call_json, last_words
from muster_agent.isolation.containers import ALLOCATION_LABEL, OWNER_LABEL, Container, Engine

REMOVE_ATTEMPTS = 6
REMOVE_TIMEOUT_S = 90.0
"""Seconds for one call of the engine, which waits for its locks while other containers start."""
_GONE = re.compile(r"no such (container|object)|no container with", re.IGNORECASE)
_NEVER_STARTED = "0001-01-01"
"""Beginning of the time of start of a container that was never started."""
_ENGINE_CODES = frozenset({125, 126, 127})
"""Exit codes with which a client says that its engine has failed, or with which the program ended."""


_APPTAINER_FAILED = 255
"""Exit code with which Apptainer says that it could not run a program."""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """How a container has ended, as its engine knows."""

    failure: str = ""
    """Why the engine, and not the program, is the cause of the end, as a clause; "" if it is not."""
    is_out_of_memory: bool = False
    """Whether the kernel has killed a process for the container's limit of memory."""


def fate_of(container: Container, code: int, *, words: str) -> Fate:
    """Return how a container has ended whose client has ended with `code`.

    words: what the client has said.
    """
    kind = container.engine.kind
    if container.engine.is_plain:
        is_own = code == _APPTAINER_FAILED and "FATAL" in words
        said = last_words(words)
        return Fate(failure=f"{kind} could not start the container: {said}" if is_own else "")
    try:
        state = _state_of(container)
    except EngineFailed as error:
        if code not in _ENGINE_CODES:
            return Fate()
        return Fate(failure=f"{kind} could not run the container: {last_words(words) or error}")
    if str(state.get("StartedAt", _NEVER_STARTED)).startswith(_NEVER_STARTED):
        # The last words of Docker's client are that it waits no more.
        said = str(state.get("Error") or "") or last_words(words) or f"exit code {code}"
        return Fate(failure=f"{kind} could not start the container: {said}")
    if state.get("Status") == "running":
        return Fate(failure=f"{kind} lost its container, which was still running")
    return Fate(is_out_of_memory=bool(state.get("OOMKilled")))


def _state_of(container: Container) -> dict[str, Any]:
    """Return what the engine knows of a container. Raises EngineFailed."""
    state: dict[str, Any] = call_json(
        container.engine, "container", "inspect", "--format", "{{json .State}}", container.name
    )
    return state


def kill(container: Container) -> None:
    """Kill everything in a container, if it runs. Plain processes are left to who sweeps them."""
    if container.engine.is_plain:
        return
    with contextlib.suppress(EngineFailed):
        call(container.engine, "kill", container.name)


def remove(engine: Engine, *, owner: str, allocation_id: str) -> bool:
    """End and remove the containers of one allocation, helpers included; return whether there were
    any. Blocks. Raises EngineFailed if one may be left.

    owner: mark of the agent, without its host. The engine is asked again until it lists none,
    because a removal fails now and then: of a container whose watching process was killed, or that
    removes itself at the same moment.
    """
    if engine.is_plain:
        return False  # It keeps no record of containers.
    problem, had_any = "", False
    for attempt in range(REMOVE_ATTEMPTS):
        if attempt:
            time.sleep(min(attempt, 3) * 0.3)
        try:
            found = _list(engine, OWNER_LABEL, owner, ALLOCATION_LABEL, allocation_id)
        except EngineFailed as error:
            problem = str(error)
            continue
        if not found:
            return had_any
        had_any = True
        for container_id in found:
            try:
                call(engine, "rm", "--force", container_id, timeout_s=REMOVE_TIMEOUT_S)
            except EngineFailed as error:
                problem = str(error)
    raise EngineFailed(
        f"{engine.kind} may have kept containers of allocation {allocation_id}: {problem}"
    )


def remove_orphans(engine: Engine, *, owner: str, is_kept: Callable[[str], bool]) -> list[str]:
    """End and remove the containers of an agent whose allocation is not to be kept; return the
    allocation ids of those that were removed. Blocks. Raises EngineFailed if one may be left."""
    if engine.is_plain:
        return []
    shown = f'{{{{index .Config.Labels "{ALLOCATION_LABEL}"}}}}'
    found = set()
    for container_id in _list(engine, OWNER_LABEL, owner):
        # One by one: a container that is removed meanwhile must not hide the others.
        try:
            found.add(call(engine, "container", "inspect", "--format", shown, container_id).strip())
        except EngineFailed as error:
            if not _GONE.search(str(error)):
                raise
    removed = sorted(allocation_id for allocation_id in found if not is_kept(allocation_id))
    problems = []
    for allocation_id in removed:
        try:
            remove(engine, owner=owner, allocation_id=allocation_id)
        except EngineFailed as error:
            problems.append(str(error))
    if problems:
        raise EngineFailed("; ".join(problems))
    return removed


def ids(engine: Engine, *, owner: str, timeout_s: float) -> list[str]:
    """Return the ids of the containers of an agent. Blocks. Raises EngineFailed."""
    return [] if engine.is_plain else _list(engine, OWNER_LABEL, owner, timeout_s=timeout_s)


def _list(engine: Engine, *labels: str, timeout_s: float = REMOVE_TIMEOUT_S) -> list[str]:
    """Return the ids of containers with all of these labels, given as names and values. Raises
    EngineFailed."""
    filters = [
        word
        for name, value in zip(labels[::2], labels[1::2], strict=True)
        for word in ("--filter", f"label={name}={value}")
    ]
    return call(
        engine, "ps", "--all", "--quiet", "--no-trunc", *filters, timeout_s=timeout_s
    ).split()
