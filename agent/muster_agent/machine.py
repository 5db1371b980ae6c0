"""The computer an agent runs on: everything the agent asks of it, and the allocations on its disk."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import psutil
import structlog

import muster
from muster import wire
from muster.sdk import object_store, shards
from muster.sdk.checkpoints import CheckpointDamaged, verify_checkpoint
from muster_agent import clock
from muster_agent.containers import engines, upkeep
from muster_agent.containers.cache import IMAGES_FOLDER, ImageCache
from muster_agent.containers.client import EngineFailed
from muster_agent.environments.build import find_uv
from muster_agent.environments.interpreters import activated, choose, is_our_own
from muster_agent.isolation import variables as environment
from muster_agent.isolation.levels import uid_of
from muster_agent.isolation.walls import Isolation
from muster_agent.jobs import process
from muster_agent.jobs.allocations import Allocation, recover
from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.history import AllocationHistory
from muster_agent.jobs.launch import (
    TRACKING_MARK,
    environment_of,
    inheritable,
    is_built_in,
    parent_environment,
    tracks,
    why_cold,
)
from muster_agent.jobs.orphans import end_orphans
from muster_agent.jobs.programs import Programs
from muster_agent.jobs.warm import IDLE_S, WarmParents
from muster_agent.node import descriptions, health, inventory
from muster_agent.node.foreign import DeviceUsers, SlotWatch
from muster_agent.node.preflights import PreflightCommand
from muster_agent.node.xid import KernelLog
from muster_agent.nvml import Device
from muster_agent.outputs.downloads import (
    WithUncollected,
    checkpoint_file,
    is_checkpoint_folder,
    opened_files,
)
from muster_agent.outputs.exports import Model
from muster_agent.outputs.keeper import OutputsKeeper
from muster_agent.outputs.storage import Storage, require_own_path
from muster_agent.outputs.store import BucketOutputs, FolderOutputs
from muster_agent.outputs.work import find_work
from muster_agent.settings import AgentSettings
from muster_agent.shim.preparation.checks import LOOPBACK_INTERFACE
from muster_agent.shim.preparation.fetch import FetchResult, needs_fetch

log = structlog.get_logger("muster.agent")

ENGINE_PATIENCE_S = 2.0
"""Seconds that a heartbeat waits for the container engine to name its containers."""


class Machine:
    """This computer. The agent's loop uses it through this class alone, so that the loop can also
    run on a simulated computer."""

    def __init__(self, settings: AgentSettings, *, isolation: Isolation | None = None) -> None:
        """Create the computer; `isolation` is the level at which its jobs run, none by default."""
        self._settings = settings
        self._isolation = isolation or Isolation()
        self._home = settings.home
        self._storage = Storage(settings.storage)
        self._usage = inventory.UsageMeter(self._home)
        self._address = inventory.node_address(settings)
        self._sdk_path = _make_sdk_folder(self._home)
        self._offered: list[wire.SlotInfo] = []
        self._devices: Sequence[Device] = ()
        """Devices as of the latest inventory."""
        self._watch = SlotWatch(quarantine_after_s=settings.quarantine_after_s)
        self._looking = threading.Lock()
        self._num_cpus = inventory.num_usable_cpus()
        self._inherited = environment.passed(os.environ, settings.pass_environment)
        """Part of the agent's environment that jobs see."""
        self.programs = Programs(self._inherited)
        self._warm = WarmParents(
            process.owner_of(self._home),
            words=self._home / "warm.log",
            imports=settings.warm_imports,
        )
        self._kernel_log = KernelLog()
        self._warm_until: dict[str, float] = {}
        """Until when the warm parent is kept, by the id of what runs; monotonic."""
        self._describing = ""
        """Mark of the processes that are listing the layers of a model now."""
        self._num_described = 0

    def boot_id(self) -> str:
        """Return an id that changes with every boot."""
        return process.boot_id()

    def boot_clock(self) -> float:
        """Return seconds since boot, including suspended time."""
        return clock.boot_clock()

    @cached_property
    def _clocks(self) -> clock.ClockSync:
        return clock.ClockSync()

    def note_server_time(self, server_time_ms: float, *, sent_boot_s: float) -> None:
        """Record the server's time from an answer that has just arrived, and when its request was
        sent."""
        self._clocks.add(
            sent_boot_s=sent_boot_s,
            received_boot_s=self.boot_clock(),
            server_time_ms=server_time_ms,
        )

    def clock_reading(self) -> wire.ClockReading | None:
        """Return the offset between this node's clocks and the server's; None while it is unknown."""
        return self._clocks.read(self.boot_clock())

    def inventory(self) -> wire.Inventory:
        """Return what the node offers. Asks NVML and runs the training interpreter."""
        found, self._devices = inventory.take_inventory(self._settings)
        self._offered, self._num_cpus = list(found.slots), found.num_cpus
        self._usage.gpus.numbers = inventory.keep_numbers(self._home, found.slots)
        return dataclasses.replace(
            self._containers.added_to(found),
            storage_id=self._storage.id(),
            isolation=self._isolation.level,
            isolation_reason=self._isolation.reason,
        )

    @cached_property
    def _containers(self) -> engines.EngineProbe:
        """The container engine of this node. Runs a container at the first access."""
        return engines.find(self._settings.containers, os.environ)

    def problems(self) -> list[wire.NodeProblem]:
        """Return the node's current problems. Where CUDA devices are without NVML, waits for nvidia-smi."""
        folders = [self._home, self._settings.storage]
        return health.find_problems(
            [path for path in folders if path.exists()],
            clock=self.clock_reading(),
            devices=self._offered,
            home=self._home,
            kill_wait_s=self._settings.kill_wait_s,
            cold_reason=self._cold_reason(),
            kernel_log=self._kernel_log,
            gpus=self._usage.gpus,
            needs_devices=self._settings.slot_type == "cuda",
        )

    async def read_devices(self) -> None:
        """Have the GPUs that are slots of this node read now."""
        if self._gpu_slots:
            await self._usage.gpus.refresh()

    def slot_problems(self, holders: Mapping[str, Sequence[int]]) -> list[wire.NodeProblem]:
        """Return what keeps new work off single slots, by the latest reading of the GPUs. May wait for
        the container engine.

        holders: allocations that have not ended, id → slots.
        """
        devices, _ = self._usage.gpus.devices() if self._gpu_slots else (None, "")
        if devices is None:
            return []
        held = frozenset(slot for slots in holders.values() for slot in slots)
        with self._looking:
            readings = self._processes.readings(
                devices,
                self._gpu_slots,
                held=held | self._watch.claimed,
                allocation_ids=holders,
            )
            return self._watch.look(readings, held=held, now=time.monotonic())

    def hold(self, spec: wire.AllocationSpec) -> None:
        """Note that the job of an allocation is about to begin on its slots."""
        if spec.slot_type != "cpu":
            self._watch.hold(spec.slots)

    def waits_for_memory(self, slots: Collection[int]) -> bool:
        """Return whether the job that one of these slots had last has left memory on its device."""
        return not self._watch.waiting.isdisjoint(slots)

    @property
    def _gpu_slots(self) -> list[wire.SlotInfo]:
        return [slot for slot in self._offered if slot.slot_type == "cuda"]

    @cached_property
    def _processes(self) -> DeviceUsers:
        owner = process.owner_of(self._home)
        return DeviceUsers(owner, lambda: self._container_ids(owner.partition("@")[0]))

    def _container_ids(self, mark: str) -> list[str] | None:
        if self._containers.engine is None:
            return []
        try:
            return upkeep.ids(self._containers.engine, owner=mark, timeout_s=ENGINE_PATIENCE_S)
        except EngineFailed:
            return None

    def usage(self) -> wire.NodeUsage:
        """Return the node's use since the previous call."""
        found = self._usage.read()
        if self._containers.engine is None:
            return found
        limit_bytes = self._settings.images_limit_bytes
        images = ImageCache(self._home / IMAGES_FOLDER, limit_bytes=limit_bytes)
        return dataclasses.replace(
            found, images_bytes=images.size_bytes, images_limit_bytes=limit_bytes
        )

    @cached_property
    def _history(self) -> AllocationHistory:
        return AllocationHistory(self._home / "history")

    def was_here(self, allocation_id: str) -> bool:
        """Return whether an allocation ran here and was forgotten."""
        return allocation_id in self._history

    def forget(self, allocation: Allocation) -> None:
        """Delete what is left of an allocation, and remember that it was here."""
        self._history.add(allocation.allocation_id)
        allocation.folder.delete()

    def end_orphans(self, is_kept: Callable[[str], bool]) -> tuple[list[str], int]:
        """Kill processes with this agent's mark that no allocation keeps; see muster_agent.jobs.orphans."""
        owner = process.owner_of(self._home)

        def is_ours(allocation_id: str) -> bool:
            is_warm = allocation_id == self._describing or self._warm.has(allocation_id)
            return is_warm or is_kept(allocation_id)

        found, num_survivors = end_orphans(owner, is_ours)
        if self._containers.engine is not None:
            mark = owner.partition("@")[0]
            try:
                found += upkeep.remove_orphans(self._containers.engine, owner=mark, is_kept=is_ours)
            except EngineFailed as error:  # Tried again with the next sweep.
                log.warning("containers_left", error=str(error))
        return sorted(set(found)), num_survivors

    def close(self) -> None:
        """End the processes that are kept for future allocations."""
        self._kernel_log.close()
        self._warm.close()
        self.programs.close()

    def recover(self) -> list[Allocation]:
        """Return the allocations that an earlier agent left here."""
        return recover(self._home, inherited=self._inherited)

    def create(self, spec: wire.AllocationSpec) -> Allocation:
        """Create a new allocation on disk, with nothing started. Raises OSError and ValueError."""
        folder = AllocationFolder(self._home, spec.allocation_id)
        folder.create(spec)
        return Allocation(folder, spec, inherited=self._inherited)

    def keep_outputs(self, is_running: Callable[[str], bool]) -> OutputsKeeper | None:
        """Return what collects the files that jobs write; None on a computer where jobs write none.

        is_running: whether an allocation is on this node and has not ended.
        """
        return OutputsKeeper(
            self._home,
            is_running=is_running,
            storage=self._settings.storage,
            bytes_per_s=self._settings.outputs_bytes_per_s,
            programs=self.programs,
        )

    def delete_files(self, wanted: wire.Deletion) -> int:
        """Delete a folder of the storage or of an object store; return the bytes freed. Raises
        RefusedPath and OSError."""
        if wanted.storage_url:
            require_own_path(wanted.path, wanted.cluster_id)
            return object_store.delete(
                f"{wanted.storage_url}/muster-{wanted.cluster_id}/{wanted.path}"
            )
        return self._storage.delete(
            wanted.path,
            request=wanted.id,
            storage_id=wanted.storage_id,
            cluster_id=wanted.cluster_id,
        )

    @contextlib.contextmanager
    def exported(self, wanted: wire.Export) -> Iterator[Model]:
        """Yield one safetensors file of a checkpoint's model, after verifying the checkpoint's
        files; or one file of a checkpoint as it is; or files of a trial's outputs, which are verified
        while they are read. Files fetched from an object store are deleted at the end. Raises
        RefusedPath, OSError and CheckpointDamaged."""
        if wanted.files and is_checkpoint_folder(wanted.path):
            with self._checkpoint(wanted) as folder:
                yield checkpoint_file(folder, wanted.files[0])
            return
        if wanted.files:
            work = next(
                (
                    work.files
                    for work in find_work(self._home)
                    if (use := work.read_use()) is not None
                    and (use.cluster_id, use.folder) == (wanted.cluster_id, wanted.path)
                ),
                None,
            )
            source = WithUncollected(lambda: self._outputs_of(wanted), work, wanted.files)
            with contextlib.closing(source):
                yield opened_files(source, wanted.files)
            return
        with self._checkpoint(wanted) as folder:
            if not wanted.storage_url:
                verify_checkpoint(folder)
            yield _model(folder)

    @contextlib.contextmanager
    def _checkpoint(self, wanted: wire.Export) -> Iterator[Path]:
        """Yield the folder of a checkpoint; of one in an object store a verified copy."""
        if not wanted.storage_url:
            yield self._storage.own_folder(
                wanted.path, storage_id=wanted.storage_id, cluster_id=wanted.cluster_id
            )
            return
        require_own_path(wanted.path, wanted.cluster_id)
        url = f"{wanted.storage_url}/muster-{wanted.cluster_id}/{wanted.path}"
        self._home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="export-", dir=self._home) as copy:
            folder, _ = object_store.fetch(url, Path(copy))
            yield folder

    def _outputs_of(self, wanted: wire.Export) -> FolderOutputs | BucketOutputs:
        if wanted.storage_url:
            require_own_path(wanted.path, wanted.cluster_id)
            url = f"{wanted.storage_url}/muster-{wanted.cluster_id}/{wanted.path}"
            return BucketOutputs(url, self._home / "sending")
        self._storage.own_folder(
            wanted.path, storage_id=wanted.storage_id, cluster_id=wanted.cluster_id
        )
        return FolderOutputs(self._settings.storage, wanted.path, create=False)

    def probe(self, wanted: wire.Preflight) -> PreflightCommand:
        """Return how to start this node's part of a preflight."""
        python = choose(wanted.python, self._settings.python)
        gpus = [d.uuid for d in self._offered if d.uuid]
        return PreflightCommand(
            python=python,
            address=self._address,
            interface=inventory.interface_of(self._address),
            sdk_path="" if is_our_own(python) else self._sdk_path,
            folder=self._home,
            words=self._home / "preflight.log",
            inherited=self._inherited,
            isolation=dataclasses.replace(self._isolation, gpus=gpus or None),
            gpus={d.index: d.uuid for d in self._offered if d.uuid},
        )

    async def describe(self, wanted: wire.Description, *, bundle: str) -> wire.DescriptionResult:
        """List the layers of a model; `bundle` is the path of the downloaded code, or ""."""
        self._num_described += 1
        self._describing = f"describe-{os.getpid()}-{self._num_described}"
        python = choose(wanted.python, self._settings.python)
        variables = self._parent_environment(python, wanted.environment)
        job = descriptions.DescriptionJob(
            name=self._describing,
            owner=process.owner_of(self._home),
            python=python,
            environment=variables,
            # What is forked from a parent without a shim would be outside the walls.
            warm_socket="" if self._isolation.is_on else self._warm.find(python, variables),
            folder=self._home / "describe",
            code=Path(wanted.code.path) if wanted.code.kind == "installed" else None,
            bundle=Path(bundle) if bundle else None,
            isolation=self._isolation,
        )
        try:
            return await descriptions.describe(wanted, job)
        finally:
            self._describing = ""

    def shim_options(self, spec: wire.AllocationSpec, *, bundle: str) -> ShimOptions:
        """Return the options of a shim of `spec` started now, without a deadline; `bundle` is the
        path of the downloaded code, or ""."""
        settings = self._settings
        forks_launcher = not self._forks_workers(spec)
        warm_socket, cold_reason = self._find_parent(spec)
        return ShimOptions(
            default_python=settings.python,
            node_address=self._address,
            network_interface=inventory.interface_of(self._address),
            storage_dir=str(settings.storage),
            interpreter_cache=str(self._home / "interpreters"),
            sdk_path=self._sdk_path,
            bundle=bundle,
            environments=str(self._home / "environments"),
            uv=find_uv(),
            environments_limit_bytes=settings.environments_limit_bytes,
            data_limit_bytes=settings.data_limit_bytes,
            tracking_token=(f"{TRACKING_MARK}{secrets.token_urlsafe(24)}" if tracks(spec) else ""),
            warm_socket=warm_socket,
            cold_reason=cold_reason,
            forks_launcher=forks_launcher,
            forks_workers_of_launcher=forks_launcher and self._wants_forked(spec),
            kill_wait_s=settings.kill_wait_s,
            spool_limit_bytes=settings.spool_limit_bytes,
            work_restore_max_bytes=settings.work_restore_max_bytes,
            isolation=self._walls_of(spec),
            engine=self._containers.engine if environment_of(spec).image is not None else None,
            images=str(self._home / IMAGES_FOLDER),
            images_limit_bytes=settings.images_limit_bytes,
            memory_share_bytes=self._memory_share(spec),
            device_numbers=self._numbers_of(spec),
            num_threads=self._threads_of(spec),
        )

    def _threads_of(self, spec: wire.AllocationSpec) -> int:
        """Return the share of the cores that goes with the slots of an allocation; 0 for all cores
        of the machine, which programs count themselves."""
        num_slots = len(spec.slots)
        share = self._num_cpus * num_slots // max(len(self._offered), num_slots)
        return 0 if share >= inventory.num_usable_cpus() else max(1, share)

    def _memory_share(self, spec: wire.AllocationSpec) -> int:
        """Return the share of the machine's memory that goes with the slots of an allocation; 0
        where this node sets no limit."""
        if self._settings.job_memory != "share":
            return 0
        total = psutil.virtual_memory().total
        return total * len(spec.slots) // max(len(self._offered), len(spec.slots))

    def _walls_of(self, spec: wire.AllocationSpec) -> Isolation:
        """Return the node's level with the user and the home folder of this project's jobs, and with
        what the document asks for."""
        found = dataclasses.replace(self._isolation, gpus=self._gpus_of(spec.slots, spec.slot_type))
        if not found.is_on:
            return found
        uid = found.uid
        if uid is not None:
            uid = uid_of(spec.project_id, base=self._settings.uid_base)
        home = self._home / "homes" / f"project-{spec.project_id}"
        return dataclasses.replace(
            found,
            uid=uid,
            home=str(home),
            user_namespaces=environment_of(spec).user_namespaces,
        )

    def _gpus_of(self, slots: Sequence[int], slot_type: str) -> list[str] | None:
        """Return the UUIDs of the devices of these slots, in their order; None for CPUs, and nothing
        if the driver does not tell those of all."""
        if slot_type == "cpu":
            return None
        known = {d.index: d.uuid for d in self._offered}
        found = [known.get(slot, "") for slot in slots]
        return found if all(found) else []

    def _numbers_of(self, spec: wire.AllocationSpec) -> list[int]:
        """Return the numbers by which the driver counts the devices of an allocation now; nothing if
        those of all are not known."""
        devices = self._usage.gpus.devices()[0] or self._devices
        numbers = {device.uuid: device.index for device in devices if not device.is_mig}
        uuids = self._gpus_of(spec.slots, spec.slot_type) or []
        return [numbers[u] for u in uuids] if all(u in numbers for u in uuids) else []

    async def fetch_work(self, allocation: Allocation, options: ShimOptions) -> FetchResult:
        """Restore an allocation's work folder if it lies in an object store, for which the shim has
        no credentials."""
        if not await asyncio.to_thread(needs_fetch, self._home, allocation.spec):
            return FetchResult()
        line = await self.programs.result_of(
            "muster_agent.shim.preparation.fetch",
            *("--dir", str(allocation.folder.path)),
            given=wire.dump(options),
        )
        return wire.loads(FetchResult, line)

    def _forks_workers(self, spec: wire.AllocationSpec) -> bool:
        """Return whether a warm parent forks the workers of `spec` themselves, and not their torchrun.
        The torchruns of several nodes must meet, whether they are forked or not."""
        return self._wants_forked(spec) and spec.num_nodes == 1

    def _wants_forked(self, spec: wire.AllocationSpec) -> bool:
        return self._settings.warm_workers == "all" or is_built_in(spec)

    def keep_warm(self, allocations: Iterable[Allocation]) -> None:
        """Have a warm parent for what runs, from which its next attempt is forked: start one, or keep
        it from ending."""
        now = time.monotonic()
        wanted = {a.allocation_id: a.spec for a in allocations if a.observed == "RUNNING"}
        self._warm_until = {k: v for k, v in self._warm_until.items() if k in wanted}
        for allocation_id, spec in wanted.items():
            if now >= self._warm_until.get(allocation_id, 0.0):
                self._warm_until[allocation_id] = now + IDLE_S / 4
                if not self._why_cold(spec):
                    python, variables = self._parent_of(spec)
                    self._warm.keep(python, variables, spec.slot_type)

    def _why_cold(self, spec: wire.AllocationSpec) -> str:
        if self._settings.warm_workers == "none":
            return "the node's settings ask for none"
        if self._isolation.is_on and not self._forks_workers(spec):
            return "jobs are isolated, and torchrun is forked outside the walls alone"
        return why_cold(spec, is_isolated=self._isolation.is_on)

    def _parent_of(self, spec: wire.AllocationSpec) -> tuple[str, Mapping[str, str]]:
        """Return the interpreter and the environment of a warm parent for `spec`."""
        python = choose(spec.python, self._settings.python)
        return python, self._parent_environment(python, spec.environment)

    def _find_parent(self, spec: wire.AllocationSpec) -> tuple[str, str]:
        """Return the socket of a warm parent for the processes of `spec`, and why there is none although
        the settings ask for it; "" for either."""
        is_asked = self._settings.warm_workers != "none" and self._forks_workers(spec)
        if reason := self._why_cold(spec):
            return "", reason if is_asked else ""
        python, variables = self._parent_of(spec)
        if not is_asked:  # Starting torchrun takes no longer than starting a parent.
            return self._warm.find(python, variables), ""
        found = self._warm.want(python, variables, spec.slot_type)
        return found, "" if found else self._warm.why_none(python, variables)

    def _cold_reason(self) -> str:
        """Return why no warm parent can be kept here for documents that name neither an interpreter
        nor variables, although the settings ask for it, as one clause; "" if there is no such reason."""
        if self._settings.warm_workers == "none":
            return ""
        python = self._settings.python
        return self._warm.why_none(python, self._parent_environment(python, {}))

    def _parent_environment(self, python: str, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a warm parent for documents with this interpreter and these
        variables."""
        return parent_environment(
            variables,
            inherited=activated(inheritable(self._inherited), python),
            sdk_path="" if is_our_own(python) else self._sdk_path,
            loopback_interface=LOOPBACK_INTERFACE,
        )


def _model(folder: Path) -> Model:
    """Open the model of a checkpoint. Raises CheckpointDamaged."""
    try:
        return shards.exported(folder)
    except FileNotFoundError:
        raise CheckpointDamaged(
            f"{folder.name} holds no {shards.INDEX}: another program than the built-in trainer made it"
        ) from None


def _make_sdk_folder(home: Path) -> str:
    """Create a folder that holds the `muster` package and nothing else.

    Another interpreter's workers get it on their path. Our whole site-packages would shadow theirs.
    """
    folder = home / "sdk"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "muster"
    target = Path(muster.__file__).parent
    if not link.is_symlink() or link.readlink() != target:
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return str(folder)
