"""Requests of the server besides allocations, served during one session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from muster import wire
from muster_agent.bundles import BundleCache, BundleUnavailable
from muster_agent.client import ControlPlane, Session
from muster_agent.machine import Machine
from muster_agent.node.descriptions import Describer
from muster_agent.node.preflights import Preflights
from muster_agent.outputs.deletions import FileDeleter
from muster_agent.outputs.exports import Exporter
from muster_agent.tunnels import Job, TunnelOpener


class Chores:
    """Files to delete, models to export or describe, and preflights."""

    def __init__(
        self,
        plane: ControlPlane,
        session: Session,
        *,
        machine: Machine,
        bundles: BundleCache,
        in_use: Callable[[str], bool],
        job_of: Callable[[str], Awaitable[Job]],
        has_tunnels: bool,
    ) -> None:
        """Create the workers; `in_use` tells whether an allocation on this node uses a path of the
        storage. `job_of` returns the running job of an allocation id; `has_tunnels` is False where
        the node's administrator wants none into jobs."""
        self._plane = plane
        self._machine = machine
        self._bundles = bundles
        self._deleter = FileDeleter(plane, session, delete=machine.delete_files, in_use=in_use)
        self._preflights = Preflights(
            plane, session, probe=machine.probe, problems=machine.problems
        )
        self._exporter = Exporter(plane, session, open_=machine.exported)
        self._describer = Describer(plane, session, describe=self._describe)
        self._tunnels = TunnelOpener(plane, job_of=job_of, is_on=has_tunnels)

    @property
    def _all(self) -> tuple[FileDeleter | Exporter | Preflights | Describer | TunnelOpener, ...]:
        return self._deleter, self._exporter, self._preflights, self._describer, self._tunnels

    def start(self, group: asyncio.TaskGroup) -> None:
        """Serve all requests for as long as the task group lasts. Superseded ends it."""
        for chore in self._all:
            group.create_task(chore.run())

    def want(self, reply: wire.AssignmentsReply) -> None:
        """Replace what is requested by these complete sets."""
        self._deleter.want(reply.deletions)
        self._preflights.want(reply.preflights)
        self._exporter.want(reply.exports)
        self._describer.want(reply.descriptions)
        self._tunnels.want(reply.tunnels)

    async def _describe(self, wanted: wire.Description) -> wire.DescriptionResult:
        bundle = ""
        if wanted.code.kind == "bundle":
            try:
                bundle = str(await self._bundles.get(wanted.code.sha256, self._plane))
            except BundleUnavailable as error:
                return wire.DescriptionResult(id=wanted.id, outcome="failed", message=str(error))
        return await self._machine.describe(wanted, bundle=bundle)
