"""Whether a node takes new work: what every count of free slots rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from muster_server.domain.states import NodeState

ForeignProcesses = Literal["wait", "ignore"]
"""What a pool does about devices that somebody uses outside Muster."""
MAINTENANCE = "maintenance"
"""Why a node in an active maintenance window takes no work."""
RESERVED = "reserved"
"""Why a node takes no work of those for whom it is not reserved now."""
USED = "used"
"""Kind of the problem of such a device."""


def why_unavailable(
    *,
    state: str,
    scheduling: str,
    health: str,
    is_blocked: bool,
    in_maintenance: bool,
    is_reserved: bool = False,
) -> str | None:
    """Return why nothing is placed on a node now, in a word; None when it takes work.

    The word is its state in lower case, `cordoned`, `draining`, `maintenance`, `quarantined`,
    `unhealthy` or `reserved`.
    is_blocked: a problem keeps new work away (`is_blocked_by`). in_maintenance: a window is active
    there (`domain.nodes.maintenance`). is_reserved: a reservation keeps it for others now.
    """
    if state != NodeState.ONLINE:
        return state.lower()
    if scheduling != "open":
        return scheduling
    if in_maintenance:
        return MAINTENANCE
    if health == "quarantined":
        return health
    if is_blocked:
        return "unhealthy"
    return RESERVED if is_reserved else None


def is_blocked_by(problems: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether one of a node's problems (`NodeRow.problems`) keeps new work off all of it."""
    return any(problem["blocks"] and problem.get("slot") is None for problem in problems)


def slots_held_back(
    problems: Iterable[Mapping[str, Any]], *, foreign_processes: ForeignProcesses
) -> dict[int, str]:
    """Return the slots that one of a node's problems keeps new work off, index → what it says.

    foreign_processes: the setting of the node's pool. With "ignore", a device that somebody uses is
    given out.
    """
    found: dict[int, str] = {}
    for problem in problems:
        slot = problem.get("slot")
        is_ignored = problem["kind"] == USED and foreign_processes == "ignore"
        if slot is not None and problem["blocks"] and not is_ignored:
            found.setdefault(slot, str(problem["message"]))
    return found


def on_node(message: str, *, slot: int, node: str) -> str:
    """Return the message of a slot's problem with the name of its node: "GPU 1 is …" becomes "GPU 1 of
    node7 is …"."""
    device = f"GPU {slot} "
    if message.startswith(device):
        return f"{device}of {node} {message.removeprefix(device)}"
    return f"slot {slot} of {node}: {message}"
