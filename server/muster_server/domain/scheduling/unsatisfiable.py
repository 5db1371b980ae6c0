"""Requests that the present nodes can never satisfy, told apart from an ordinary wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NEVER = frozenset(
    {
        "pending.no_such_slots",
        "pending.none_allowed",
        "pending.no_container",
        "pending.no_isolation",
        "pending.pool_isolation",
        "pending.pool_containers",
        "pending.pool_images",
        "pending.too_few",
        "pending.indivisible",
        "pending.no_node_for_member",
        "pending.no_domain",
        "pending.ends_before",
        "pending.beside_spares",
        "pilots.too_few_slots",
        "pilots.too_many_nodes",
        "pilots.too_long",
    }
)
"""Codes of reasons that stay true while nothing but other nodes' coming or another request helps."""


def is_impossible(parts: Iterable[Mapping[str, Any]] | None) -> bool:
    """Return whether the parts of a reason say that waiting alone does not help."""
    return any(part["code"] in NEVER for part in parts or ())
