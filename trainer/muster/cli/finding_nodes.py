"""The node that a command names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .absent import server
from .output import CommandFailure, printable

if TYPE_CHECKING:
    from muster.client import schema


def find_node(name: str) -> schema.NodeOut:
    """Return the node of this name or id. Raises Failure that lists the existing ones."""
    found = list(server().pages("/nodes"))
    for key in ("name", "id"):
        for node in found:
            if node[key] == name:
                return node
    names = ", ".join(node["name"] for node in found[:8]) + (", …" if len(found) > 8 else "")
    raise CommandFailure(
        f"There is no node {printable(name)[:64]!r}.",
        f"there are: {printable(names)}"
        if found
        else "join one: muster node add user@host, or muster agent token",
        code="nodes.not_found",
    )
