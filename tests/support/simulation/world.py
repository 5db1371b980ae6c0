"""One history: build the cluster of a scenario, let things happen, judge."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from greenlet import getcurrent
from pydantic import SecretStr
from sqlalchemy import text

from muster import wire
from muster_agent import loop as agent_loop
from muster_agent import uploads
from muster_server.db.migrations import upgrade
from muster_server.db.models import JoinTokenRow, UserRow
from muster_server.security.tokens import hash_secret, visible_prefix
from muster_server.settings import Settings

from . import faults, invariants, users
from .clock import EPOCH, VirtualLoop, deterministic, host
from .computer import Computer, make_owned_task
from .control_plane import ApiServer, SimulatedController, SimulatedDatabase
from .gang import Gang
from .network import Network
from .scenario import Scenario, Script, Timings
from .witness import Change, Witness, triggers

JOIN_TOKEN = "mst_join_simulated"
GIVE_UP_AFTER_S = 4500.0
"""Virtual time after the last fault within which everything must have ended: more than the hour by
which a clock may be set back, for a restart under on_disconnect "stop" waits that long."""
SETTLE_EVERY_S = 3.0


@dataclass
class History:
    """What came of one scenario."""

    seed: int
    violations: list[str] = field(default_factory=list)
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    num_transactions: int = 0
    num_attempts: int = 0
    num_overlaps: int = 0
    num_avoided: int = 0
    """Nodes that did not fit into a gang, and were left out of the next."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Trials by final state."""
    faults: dict[str, int] = field(default_factory=dict)
    """What went wrong, by kind of fault."""
    fingerprint: str = ""
    """Equal for equal histories."""
    timeline: list[tuple[float, str, str]] = field(default_factory=list)


class World:
    def __init__(self, scenario: Scenario, *, traced: bool = False) -> None:
        self.scenario = scenario
        self.seed = scenario.seed
        self.interleaving = scenario.interleaving
        self.loop = _shared_loop()
        self.loop.now_s = 0.0
        self.history = History(seed=scenario.seed)
        self._is_traced = traced
        self._is_over = asyncio.Event()
        self.database = _shared_database()
        self.settings = _settings(scenario.timings)
        self.join_token = SecretStr(JOIN_TOKEN)
        self.rng = random.Random(f"world {scenario.seed}")
        self.network = Network(
            self.loop, random.Random(f"network {scenario.seed}"), scenario.weather
        )
        self.witness = Witness(self, _reset(self.database))
        self.apis = [
            ApiServer(self, self.database, self.settings, index)
            for index in range(scenario.num_apis)
        ]
        self.home = Path(tempfile.mkdtemp(prefix="muster-simulation-", dir=_fast_disk()))
        self.controllers = [
            SimulatedController(self, i + 1, random.Random(f"controller {i} {scenario.seed}"))
            for i in range(scenario.num_controllers)
        ]
        self.computers = [
            Computer(self, plan, self.home / plan.name, random.Random(f"{plan.name} {self.seed}"))
            for plan in scenario.nodes
        ]
        self.are_hints_heard = True
        self.scripts: dict[str, Script] = {}
        self.submitted: dict[str, int] = {}
        """Name of a submission → its experiment."""
        self.lost_at_s: dict[str, float] = {}
        """Name of a node → when it was last declared LOST."""
        self._gangs: dict[str, Gang] = {}
        self.faults = faults.Faults(self)
        self.users = users.Users(self)

    # ---- from beginning to end

    def run(self) -> History:
        began = time.process_time()
        self.database.world = self
        with _listening(self), deterministic(self.seed, _boot_clock):
            task = self.loop.create_task(self._live())
            try:
                self.loop.run_until_complete(task)
            finally:
                self._end_everything()
                self.database.world = None
        shutil.rmtree(self.home, ignore_errors=True)
        self.history.cpu_s = time.process_time() - began
        return self.history

    async def _live(self) -> None:
        for controller in self.controllers:
            controller.start()
        for computer in self.computers:
            self.loop.call_later(self.rng.uniform(0, 1), computer.start_agent)
        self.users.plan()
        self.faults.plan()
        deadline = self.scenario.faults_end_at_s
        is_calm = False
        while not self._is_over.is_set() and not invariants.is_at_rest(self):
            if self.loop.time() >= deadline:
                if is_calm:
                    break
                is_calm = True
                deadline += GIVE_UP_AFTER_S
                self.trace("world", "from here on everything works")
                self.faults.undo_all()
                self.users.undo_all()
            await self._until(min(deadline, self.loop.time() + SETTLE_EVERY_S))
        self.database.is_away = False  # what it holds is looked at
        if not self.history.violations:
            invariants.judge(self)
        self.history.virtual_s = self.loop.time()
        self.history.num_overlaps = self.witness.num_overlaps
        self.history.fingerprint = self.witness.fingerprint()

    async def _until(self, moment_s: float) -> None:
        try:
            async with asyncio.timeout(moment_s - self.loop.time()):
                await self._is_over.wait()
        except TimeoutError:
            pass

    def _end_everything(self) -> None:
        self.database.world = None
        self.database.is_away = False
        for controller in self.controllers:
            controller.end()
        for computer in self.computers:
            computer.end()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        _drain(self.loop)

    # ---- what the parts ask

    @property
    def api(self) -> ApiServer:
        """One that serves, if any does."""
        return next((api for api in self.apis if api.is_serving), self.apis[0])

    def api_of(self, computer: Computer) -> ApiServer:
        """Whom its agent reaches: behind a proxy one that serves, else always the same."""
        own = self.apis[self.computers.index(computer) % len(self.apis)]
        if not self.scenario.is_balanced or own.is_serving:
            return own
        return next((api for api in self.apis if api.is_serving), own)

    def trace(self, source: str, words: str) -> None:
        if self._is_traced:
            self.history.timeline.append((self.loop.time(), source, words))

    def violation(self, words: str) -> None:
        """A promise is broken: the history ends here."""
        self.trace("VIOLATION", words)
        if words not in self.history.violations:
            self.history.violations.append(words)
        self._is_over.set()

    def script_of(self, spec: wire.AllocationSpec) -> Script:
        return self.scripts[spec.experiment_name]

    def gang_of(self, spec: wire.AllocationSpec) -> Gang:
        key = f"{spec.trial_id}.{spec.attempt_no}"
        if key not in self._gangs:
            self._gangs[key] = Gang(key, spec.num_nodes)
            self.history.num_attempts += 1
        return self._gangs[key]

    def loss(self, trial_id: int, step: int) -> float:
        """What a deterministic training reports: the same in whichever attempt."""
        return 1.0 / step + (trial_id * 7919 + step * 104_729) % 1000 / 1e4

    # ---- called by the database

    def before_transaction(self) -> None:
        if getcurrent().parent is None:
            return  # not in a controller's tick
        for controller in self.controllers:
            if controller.is_working:
                controller.before_transaction()

    def after_transaction(self) -> None:
        self.history.num_transactions += 1
        for change in self.witness.look():
            self._note(change)

    def on_commit(self, topics: frozenset[str]) -> None:
        """Hints go through Redis: soon, or never."""
        if not self.are_hints_heard or self.rng.random() < self.network.weather.hint_loss:
            return
        self.loop.call_soon(self._hint, topics)

    def _hint(self, topics: frozenset[str]) -> None:
        for api in self.apis:
            if api.is_up:
                api.hear(topics)
        if "loops" in topics:
            for controller in self.controllers:
                controller.hear()

    def _note(self, change: Change) -> None:
        if self._is_traced:
            came = f"{change.before} → " if change.before else ""
            self.trace("database", f"{change.what} {change.subject}: {came}{change.after}")
        if change.what == "node" and change.after == "LOST":
            invariants.judge_loss(self, change.subject)
        self.faults.notice(change)


def play(scenario: Scenario, *, traced: bool = False) -> History:
    """Let one scenario happen."""
    return World(scenario, traced=traced).run()


# ---------------------------------------------------------------- shared by a process's histories

_shared: dict[str, Any] = {}


def _shared_loop() -> VirtualLoop:
    if "loop" not in _shared:
        loop = VirtualLoop()
        loop.set_task_factory(make_owned_task)
        _shared["loop"] = loop
    found: VirtualLoop = _shared["loop"]
    return found


def _shared_database() -> SimulatedDatabase:
    """One engine; its statements stay compiled from history to history."""
    if "database" not in _shared:
        database = SimulatedDatabase("sqlite:///:memory:")
        database.on_commit = lambda topics: (
            database.world.on_commit(topics) if database.world is not None else None
        )
        upgrade(database)
        with database.transaction() as session:
            session.add(
                JoinTokenRow(
                    secret_hash=hash_secret(JOIN_TOKEN),
                    prefix=visible_prefix(JOIN_TOKEN),
                    pool="default",
                    uses_left=1_000_000,
                    created_at=EPOCH,
                    expires_at=EPOCH.replace(year=EPOCH.year + 50),
                )
            )
            session.add(
                UserRow(
                    username="ada",
                    role="admin",
                    password_hash=None,
                    is_active=True,
                    created_at=EPOCH,
                )
            )
            session.flush()
            for statement in triggers():
                session.execute(text(statement))
        _shared["database"] = database
        _shared["connection"] = database.connect_raw()
        _shared["template"] = _shared["connection"].serialize()
    found: SimulatedDatabase = _shared["database"]
    return found


def _reset(database: SimulatedDatabase) -> Any:
    """Everything as after installation. Returns the connection."""
    connection = _shared["connection"]
    connection.deserialize(_shared["template"])
    return connection


def _settings(timings: Timings) -> Settings:
    known: dict[Timings, Settings] = _shared.setdefault("settings", {})
    if timings not in known:
        known[timings] = Settings(**dataclasses.asdict(timings))
    return known[timings]


def _fast_disk() -> str | None:
    """Memory, where there is some: spools are real files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _boot_clock() -> float:
    clock = host.get()
    assert clock is not None
    return clock.boot_s()


def _drain(loop: VirtualLoop) -> None:
    """Let cancelled tasks end, and forget every timer."""
    for _ in range(50):
        if not asyncio.all_tasks(loop):
            break
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.forget_timers()


@contextmanager
def _listening(world: World) -> Iterator[None]:
    """What the parts log is the timeline; an error in the log is a broken promise."""
    before = structlog.get_config()
    level = logging.INFO if world._is_traced else logging.ERROR

    def take(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        what = event.pop("event")
        words = " ".join(f"{key}={value}" for key, value in event.items() if key != "exc_info")
        if method in ("error", "exception", "critical"):
            error = event.get("exc_info")
            if error:
                words += " " + "".join(traceback.format_exc(limit=-3))
            world.violation(f"{what} {words}")
        else:
            clock = host.get()
            source = next((c.name for c in world.computers if c.clock is clock), "control plane")
            world.trace(source, f"{what} {words}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[take],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
    shim_log = logging.getLogger("muster.shim")
    shim_level = shim_log.level
    shim_log.setLevel(logging.CRITICAL)
    saved = (agent_loop.PLAN_INTERVAL_S, uploads.POLL_S, uploads.LOG_SCAN_EVERY)
    agent_loop.PLAN_INTERVAL_S, uploads.POLL_S, uploads.LOG_SCAN_EVERY = 1.5, 1.0, 10
    try:
        yield
    finally:
        agent_loop.PLAN_INTERVAL_S, uploads.POLL_S, uploads.LOG_SCAN_EVERY = saved
        shim_log.setLevel(shim_level)
        structlog.configure(**before)
