"""Periodic work of an agent, independent of the server: clean up, and check the node's health."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from muster import wire
from muster_agent.machine import Machine
from muster_agent.node.health import CHECK_INTERVAL_S

log = structlog.get_logger("muster.agent")

ORPHAN_SWEEP_S = 60.0


class Housekeeping:
    """Ends unsupervised processes and checks the node's health."""

    def __init__(self, machine: Machine, *, is_kept: Callable[[str], bool]) -> None:
        """Create the housekeeping; `is_kept` tells whether somebody supervises or ends an
        allocation's processes."""
        self.problems: list[wire.NodeProblem] | None = None
        """Result of the latest health check; None before the first."""
        self._machine = machine
        self._is_kept = is_kept
        self._check_now = asyncio.Event()

    def check_soon(self) -> None:
        """Check the node's health now instead of at the next interval."""
        self._check_now.set()

    async def run(self) -> None:
        """Run until canceled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sweep())
            group.create_task(self._check())

    async def end_orphans(self) -> None:
        """Kill processes that carry this agent's mark and belong to no known allocation."""
        try:
            found, num_survivors = await asyncio.to_thread(self._machine.end_orphans, self._is_kept)
        except Exception:
            log.exception("orphan_sweep_failed")
            return
        if found:
            log.warning("orphans_ended", allocation_ids=found, num_survivors=num_survivors)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(ORPHAN_SWEEP_S)
            await self.end_orphans()

    async def _check(self) -> None:
        while True:
            try:
                found = await asyncio.to_thread(self._machine.problems)
            except Exception:
                log.exception("health_check_failed")
            else:
                if found != self.problems:
                    tell = log.warning if found else log.info
                    tell("health", problems=[p.message for p in found])
                self.problems = found
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL_S):
                    await self._check_now.wait()
            self._check_now.clear()
