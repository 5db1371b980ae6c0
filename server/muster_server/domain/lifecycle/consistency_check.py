"""Which nodes kept a gang from starting: leave them out, and another one may."""

from __future__ import annotations

from collections.abc import Sequence

from ..nodes.consistency import find_mismatches, minority
from ..states import Termination
from .case import TrialCase


def find_misfits(case: TrialCase, termination: Termination) -> Sequence[str]:
    """Return the names of as few nodes as need to be left out; empty when that would not have
    helped."""
    match termination:
        case Termination.PREPARE_FAILED:
            return [m.node_name for m in case.members if m.is_node_at_fault]
        case Termination.NOT_ON_NODE:
            return [m.node_name for m in case.members if m.lacks]
        case Termination.VERSIONS_DIFFER:
            facts = {m.node_name: m.facts for m in case.members if m.facts is not None}
            return minority(find_mismatches(facts))
        case Termination.PREFLIGHT_FAILED:
            preflight = case.attempt.preflight
            names = {m.node_id: m.node_name for m in case.members}
            ids = preflight.misfits if preflight is not None else ()
            return [names[node_id] for node_id in ids if node_id in names]
        case _:
            return []
