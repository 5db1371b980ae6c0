"""A member of a gang of roles whose processes are started again when they fail."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from muster import wire
from muster_agent.shim.control import Commands
from muster_agent.shim.processes.gang import Processes
from muster_agent.shim.processes.ports import NoPortFree

DELAY_S = 1.0
"""Seconds before the processes are started again for the first time; doubles with each further one."""
DELAY_MAX_S = 30.0
STARTED_AGAIN = frozenset(
    {"user_error", "killed_by_signal", "out_of_memory", "launcher_failed", "port_in_use"}
)
"""Causes of an end after which they are started again. Others would come again, or are no failure."""


class MemberRestarts:
    """How often the processes of one allocation were started again."""

    def __init__(
        self,
        spec: wire.AllocationSpec,
        commands: Commands,
        processes: Processes,
        *,
        is_signalled: Callable[[], bool],
        tick: Callable[[], Awaitable[None]],
        warn: Callable[[str], None],
    ) -> None:
        """Create it.

        is_signalled: returns whether all processes of the node have got a SIGTERM.
        tick: waits for a command or a child's end, for a moment.
        warn: takes a sentence for the trial's events.
        """
        self._spec = spec
        self._commands = commands
        self._processes = processes
        self._is_signalled = is_signalled
        self._tick = tick
        self._warn = warn
        self.num = 0

    def beside(self, message: str) -> str:
        """Return the message of a state with how often the processes were started again."""
        again = f"started again {self.num} of {self._spec.max_restarts} times" if self.num else ""
        return "; ".join(filter(None, (message, again)))

    def are_left(self) -> bool:
        """Return whether the processes are to be started again, should they fail."""
        is_ending = self._is_signalled() or self._commands.must_end()
        return self.num < self._spec.max_restarts and not is_ending

    async def start_again(
        self, how_ended: Callable[[], wire.ExitInfo], start: Callable[[], None]
    ) -> bool:
        """Start the processes again by `start` if they have failed. Return False if they have not, or
        cannot be started."""
        if not self.are_left():
            return False
        self._processes.workers.observe()
        info = how_ended()
        if info.cause not in STARTED_AGAIN or not await self._processes.clear():
            return False
        delay_s = min(DELAY_S * 2**self.num, DELAY_MAX_S)
        self.num += 1
        self._warn(
            f"{self._spec.member} is started again in {delay_s:g} s ({self.num} of "
            f"{self._spec.max_restarts}): {info.message or info.cause}"
        )
        due_at = time.monotonic() + delay_s
        while time.monotonic() < due_at:
            if self._commands.must_end() or self._is_signalled():
                return False
            await self._tick()
        try:
            start()
        except (OSError, ValueError, NoPortFree) as error:
            self._warn(f"{self._spec.member} could not be started again: {error}")
            return False
        return True
