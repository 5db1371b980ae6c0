"""The containers of this agent from outside: how one ended, and ending all of an allocation.

Killing the engine's client leaves its container running, with Podman and with Docker. Containers are
found by the mark of their agent: others may use the same engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster_agent.containers.client import EngineFailed, call, call_json, last_words
from muster_agent.isolation.containers import ALLOCATION_LABEL, OWNER_LABEL, Container, Engine

_NEVER_STARTED = "0001-01-01"
"""Beginning of the time of start of a container that was never started."""
_ENGINE_CODES = frozenset({125, 126, 127})
"""Exit codes with which a client says that its engine has failed, or with which the program ended."""


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
    try:
        state = _state_of(container)
    except EngineFailed as error:
        if code not in _ENGINE_CODES:
            return Fate()
        return Fate(failure=f"{kind} could not run the container: {last_words(words) or error}")
    if str(state.get("StartedAt", _NEVER_STARTED)).startswith(_NEVER_STARTED):
        said = last_words(words) or f"exit code {code}"
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
    """Kill everything in a container, if it runs."""
    with contextlib.suppress(EngineFailed):
        call(container.engine, "kill", container.name)


def remove(engine: Engine, *, owner: str, is_kept: Callable[[str], bool]) -> list[str]:
    """End and remove the containers of an agent whose allocation is not to be kept; return the
    allocation ids of those that were removed. Blocks.

    owner: mark of the agent, without its host.
    """
    shown = f'{{{{.Id}}}} {{{{index .Config.Labels "{ALLOCATION_LABEL}"}}}}'
    try:
        ids = call(engine, "ps", "--all", "--quiet", "--filter", f"label={OWNER_LABEL}={owner}")
        if not ids.split():
            return []
        listed = call(engine, "container", "inspect", "--format", shown, *ids.split())
    except EngineFailed:
        return []
    found = []
    for line in listed.splitlines():
        container_id, _, allocation_id = line.strip().partition(" ")
        if container_id and not is_kept(allocation_id):
            found.append(allocation_id)
            for _ in range(2):
                # Podman refuses once when the process that watches a container was killed.
                with contextlib.suppress(EngineFailed):
                    call(engine, "rm", "--force", container_id)
                    break
    return sorted(set(found))
