"""The state of an allocation: recorded durably, and shown to the agent in the allocation's folder."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import replace
from pathlib import Path

from muster import wire
from muster_agent.jobs.folder import AllocationFolder, ShimState, with_changes
from muster_agent.jobs.process import boot_id, identify
from muster_agent.records.spool import RecordWriter
from muster_agent.shim.control import Commands

WRITE_AGAIN_S = 0.1

log = logging.getLogger("muster.shim")


def first_state(socket_dir: Path, cgroup: Path | None) -> ShimState:
    """Return the first state of a shim that runs as this process."""
    me = identify(os.getpid())
    assert me is not None
    return ShimState(
        pid=me.pid,
        start_ticks=me.start_ticks,
        boot_id=boot_id(),
        socket_dir=str(socket_dir),
        control_socket=str(socket_dir / "control"),
        cgroup=str(cgroup or ""),
        observed="ASSIGNED",
        asked=[],
    )


class Standing:
    def __init__(
        self,
        folder: AllocationFolder,
        spool: RecordWriter,
        commands: Commands,
        state: ShimState,
    ) -> None:
        """Create the state. Nothing is written before the first `enter`."""
        self._folder = folder
        self._spool = spool
        self._commands = commands
        self._is_shown = True
        """Whether the agent can read the current state."""
        self.state = state

    def enter(
        self,
        observed: wire.Observed,
        *,
        message: str = "",
        rendezvous: wire.Rendezvous | None = None,
        exit: wire.ExitInfo | None = None,
        facts: wire.NodeFacts | None = None,
        environment: wire.JobEnvironment | None = None,
        blames: wire.Blame = "",
        passes: bool = False,
    ) -> None:
        """Record a state durably, then show it to the agent."""
        log.info("%s %s", observed, message or (exit.message if exit else ""))
        record = wire.StateRecord(
            observed=observed,
            message=message,
            rendezvous=rendezvous,
            exit=exit,
            facts=facts,
            environment=environment,
            blames=blames,
            passes=passes,
        )
        self._spool.append(record)
        self._show(observed)

    def note_site_stop(self, at_ms: int) -> None:
        """Keep that all processes of the node were told to end, also for after the end of this one."""
        self.state = replace(self.state, site_stop_at_ms=at_ms)
        self.show()

    def show(self) -> None:
        """Show the same state with the commands taken since."""
        self._show(self.state.observed)

    def _show(self, observed: wire.Observed) -> None:
        """Write the state for the agent. On a full disk the agent sees the previous state until
        there is room."""
        self.state = with_changes(
            self.state,
            observed=observed,
            asked=self._commands.asked,
            stacks_no=self._commands.stacks_no,
            profile_no=self._commands.profile_no,
            shards_no=self._commands.shards_no,
        )
        try:
            self._folder.write_state(self.state)
        except OSError as error:
            self._is_shown = False
            log.warning("%s cannot be shown: %s", observed, error)
        else:
            self._is_shown = True

    def write_held(self) -> None:
        """Write the records that did not fit on the disk earlier."""
        if self._spool.is_holding:
            with contextlib.suppress(OSError):
                self._spool.flush()
        if not self._is_shown:
            self.show()

    async def write_all(self) -> None:
        """Write all records before this process ends, or its end would never become known. An agent
        that no longer wants the allocation kills this process; where the folder is gone, so is
        whoever would read it."""
        while self._spool.is_holding or not self._is_shown:
            self.write_held()
            if not self._folder.path.exists():
                return
            await asyncio.sleep(WRITE_AGAIN_S)
