"""Processes of this agent that nobody supervises any more, after a lost home or a killed shim."""

from __future__ import annotations

from collections.abc import Callable

from muster_agent.jobs.process import Identity, kill_all, owned

ORPHAN_TIMEOUT_S = 10.0


def end_orphans(
    owner: str, is_kept: Callable[[str], bool], *, timeout_s: float = ORPHAN_TIMEOUT_S
) -> tuple[list[str], int]:
    """Kill every process with this agent's mark whose allocation is not to be kept.

    is_kept: asked about an allocation id only after its processes were seen, so that one that is
        started meanwhile is known by then.
    Returns the ids of which something was found, and how many processes would not die. Blocks.
    """
    found: set[str] = set()

    def orphans() -> set[Identity]:
        gone = {i: members for i, members in owned(owner).items() if not is_kept(i)}
        found.update(gone)
        return {identity for members in gone.values() for identity in members}

    survivors = kill_all(orphans, timeout_s=timeout_s)
    return sorted(found), len(survivors)
