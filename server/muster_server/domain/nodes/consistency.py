"""Whether the nodes of a gang would run the same thing.

Workers that talk to each other with different versions fail late and strangely: in the middle of a
collective, or by training something else. So what each node has is compared before the start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.wire import NodeFacts

MAX_NAMED = 4
"""Nodes named per value in a sentence."""


def _minor(version: str) -> str:
    """3.11.9 → 3.11: patch releases of Python understand each other."""
    return ".".join(version.split(".")[:2])


COMPARED: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "python_version": ("Python", _minor),
    "torch_version": ("torch", str),
    "muster_version": ("muster", str),
    "cuda_version": ("CUDA", str),
    "driver_version": ("the driver", str),
    "image_id": ("the image", lambda image_id: image_id[:12]),
    "code_hash": ("the code", lambda digest: digest[:12]),
    "data_hash": ("the data", lambda digest: digest[7:19]),
}
"""Fact → (its name for people, what of it is compared)."""
_UNKNOWN_IS_NO_VALUE = frozenset({"code_hash", "data_hash", "image_id"})
"""Facts that are not always looked for; of the others, having none is a value like any other."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """One fact on which the nodes of a gang differ."""

    fact: str
    values: tuple[tuple[str, tuple[str, ...]], ...]
    """(value, names of the nodes that have it), the most common first."""

    @property
    def sentence(self) -> str:
        parts = [f"{value or 'none'} on {_some(nodes)}" for value, nodes in self.values]
        return f"{COMPARED[self.fact][0]} is {' but '.join(parts)}"


def find_mismatches(facts: Mapping[str, NodeFacts]) -> tuple[Mismatch, ...]:
    """On what the nodes differ: name of a node → what it said of itself.

    Nodes that said nothing (older agents) are to be left out by the caller. Empty for fewer than
    two nodes.
    """
    found = []
    for fact, (_, simplify) in COMPARED.items():
        nodes_of: dict[str, list[str]] = defaultdict(list)
        for name in sorted(facts):
            value = simplify(getattr(facts[name], fact))
            if value or fact not in _UNKNOWN_IS_NO_VALUE:
                nodes_of[value].append(name)
        if len(nodes_of) > 1:
            values = sorted(nodes_of.items(), key=lambda item: (-len(item[1]), item[1]))
            found.append(
                Mismatch(fact=fact, values=tuple((value, tuple(names)) for value, names in values))
            )
    return tuple(found)


def minority(mismatches: tuple[Mismatch, ...]) -> tuple[str, ...]:
    """Return the names of the nodes that differ from what most have; of equally many, those named
    later."""
    return tuple(
        dict.fromkeys(
            name for mismatch in mismatches for _, names in mismatch.values[1:] for name in names
        )
    )


def describe_mismatches(mismatches: tuple[Mismatch, ...]) -> str:
    return "; ".join(mismatch.sentence for mismatch in mismatches)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
