"""What an allocation needs before its shim starts: code, secrets, the files of an earlier attempt, and
models. What cannot be had ends the allocation with the reason, and says whom it blames."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Literal, TypeVar

import structlog

from muster import wire
from muster_agent.bundles import BundleCache, BundleUnavailable
from muster_agent.client import (
    ControlPlane,
    RequestRefused,
    ServerUnreachable,
    Session,
    SessionSuperseded,
)
from muster_agent.jobs.allocations import SHIM_START_TIMEOUT_S, Allocation
from muster_agent.jobs.folder import ShimOptions
from muster_agent.machine import Machine
from muster_agent.models import ModelCache, ModelUnavailable
from muster_agent.records.logs import launcher_log
from muster_agent.shim.failures import goes_by_itself
from muster_agent.shim.preparation.fetch import FetchResult

log = structlog.get_logger("muster.agent")

LOOK_S = 0.5
"""Seconds between two looks at whether something that is fetched is still wanted."""
SECRETS_RETRY_S = 1.0
NOT_BEGUN = "stopped before it began"
_LASTING_SECRET_ERRORS = frozenset({"secrets.missing", "secrets.off", "secrets.unreadable"})
"""Errors after which another node or another try would not get the secrets either."""


T = TypeVar("T")


class _Unwanted(Exception):
    """The server does not want the allocation any more, or the agent is about to end."""


class _Failed(Exception):
    """The allocation cannot be prepared; see wire.StateRecord for the attributes."""

    def __init__(self, message: str, *, blames: wire.Blame, passes: bool = False) -> None:
        super().__init__(message)
        self.blames: wire.Blame = blames
        self.passes = passes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preparation:
    """Prepares allocations of one agent."""

    machine: Machine
    plane: ControlPlane
    bundles: BundleCache
    models: ModelCache
    session: Callable[[], Session]
    """Returns the present session with the server."""
    is_wanted: Callable[[str], bool]
    """Returns whether the server still wants an allocation to run."""
    is_leaving: Callable[[], bool]
    """Returns whether the agent is about to end, and starts nothing any more."""

    async def prepare(self, allocation: Allocation) -> None:
        """Fetch what an allocation needs and start its shim, or end it with the reason."""
        try:
            await self._prepare(allocation)
        except _Unwanted:
            await settle(allocation, NOT_BEGUN)
        except BundleUnavailable as error:
            _fail(allocation, str(error), blames="document" if error.is_permanent else "")
        except (_Failed, ModelUnavailable) as error:
            _fail(allocation, str(error), blames=error.blames, passes=error.passes)

    async def _prepare(self, allocation: Allocation) -> None:
        spec = allocation.spec
        bundle = ""
        if spec.code.kind == "bundle":
            bundle = str(await self.bundles.get(spec.code.sha256, self.plane))
        secrets = await self._fetch_secrets(spec)
        options = self.machine.shim_options(spec, bundle=bundle)
        if spec.work_from:
            result = await self._fetch_work(allocation, options)
            if result.failed:
                raise _Failed(result.failed, blames=result.blames, passes=result.passes)
            if result.messages:
                allocation.folder.write_messages(result.messages)
        if spec.models:
            await self._fetch_models(allocation)
        await self.machine.programs.prepare()
        if self.is_leaving():
            raise _Unwanted
        # Starting may take longer than a lease lasts. Nothing trains before the command that
        # brings the end of the lease with it.
        deadline_boot_s = self.machine.boot_clock() + SHIM_START_TIMEOUT_S
        try:
            allocation.start_shim(
                dataclasses.replace(options, deadline_boot_s=deadline_boot_s),
                secrets,
                programs=self.machine.programs,
            )
        except OSError as error:
            raise _Failed(
                f"the shim could not be started: {error}",
                blames="node",
                passes=goes_by_itself(error),
            ) from error

    async def _fetch_secrets(self, spec: wire.AllocationSpec) -> list[wire.SecretValue]:
        """Return the values of an allocation's secrets. Waits while the server is out of reach."""
        if not spec.secrets:
            return []
        while True:
            try:
                return await self.plane.secrets(self.session(), spec.allocation_id, spec.attempt_no)
            except RequestRefused as error:
                is_lasting = error.code in _LASTING_SECRET_ERRORS
                blames: wire.Blame = "document" if is_lasting else ""
                raise _Failed(error.message, blames=blames) from error
            except (ServerUnreachable, SessionSuperseded) as error:
                log.warning(
                    "secrets_not_fetched", allocation_id=spec.allocation_id, error=str(error)
                )
            await asyncio.sleep(SECRETS_RETRY_S)
            if not self.is_wanted(spec.allocation_id):
                raise _Unwanted

    async def _fetch_work(self, allocation: Allocation, options: ShimOptions) -> FetchResult:
        """Restore the work folder from an object store, where necessary."""
        try:
            return await self._while_wanted(
                allocation, self.machine.fetch_work(allocation, options)
            )
        except (OSError, RuntimeError, ValueError) as error:
            return FetchResult(failed=f"the work folder could not be restored: {error}")

    async def _fetch_models(self, allocation: Allocation) -> None:
        """Put the versions of models that a job reads in place. Raises ModelUnavailable."""
        spec, folder = allocation.spec, allocation.folder
        log_file = launcher_log(folder.logs, "stdout")
        log_file.parent.mkdir(parents=True, exist_ok=True)

        def say(line: str) -> None:
            with log_file.open("a") as file:
                file.write(f"[setup] {line}\n")

        async def fetch() -> None:
            for name in sorted(spec.models):
                await self.models.place(
                    spec,
                    name,
                    folder.models / name,
                    plane=self.plane,
                    session_of=self.session,
                    say=say,
                )

        await self._while_wanted(allocation, fetch())

    async def _while_wanted(self, allocation: Allocation, work: Coroutine[None, None, T]) -> T:
        """Return the result of `work`. Raises what it raises, and _Unwanted once the server does not
        want the allocation any more; the work is canceled then."""
        working = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({working}, timeout=LOOK_S))[0]:
                if not self.is_wanted(allocation.allocation_id):
                    raise _Unwanted
            return working.result()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def settle(
    allocation: Allocation,
    reason: str,
    *,
    cause: Literal["stopped", "shim_lost"] = "stopped",
) -> None:
    """End an allocation that has no shim with this reason."""
    allocation.end_by_ourselves(
        wire.StateRecord(observed="EXITED", exit=wire.ExitInfo(cause=cause, message=reason))
    )


def _fail(
    allocation: Allocation, message: str, *, blames: wire.Blame, passes: bool = False
) -> None:
    allocation.end_by_ourselves(
        wire.StateRecord(observed="PREPARE_FAILED", message=message, blames=blames, passes=passes)
    )
