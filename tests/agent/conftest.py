"""Real shims on real folders; every process a test starts is gone when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

import muster
from muster import wire
from muster.launch.forkserver import ForkedProgram
from muster_agent.containers import upkeep
from muster_agent.isolation import walls
from muster_agent.isolation.containers import Engine
from muster_agent.isolation.walls import CannotIsolate, Isolation
from muster_agent.jobs.folder import (
    AllocationFolder,
    ShimOptions,
    ShimState,
    remove_socket_dir,
    shim_identity,
)
from muster_agent.jobs.process import Cgroup, kill_all
from muster_agent.records.spool import read_records
from muster_agent.settings import AgentSettings
from muster_agent.shim.control import send_command

sys.path.insert(0, str(Path(__file__).parent))
from support import preloaded
from support.agent_control_plane import JOIN_TOKEN, TestControlPlane
from support.nodes import containers, fake_nvml
from support.nodes.work_folders import CLUSTER, TRIAL

T = TypeVar("T")


def wait_for(condition: Callable[[], T], *, timeout_s: float = 120.0, what: str = "") -> T:
    """The first truthy answer of `condition`; fails the test when there is none in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout_s} s: {what or condition}")
        time.sleep(0.02)


def make_spec(allocation_id: str = "a1", **changes: Any) -> wire.AllocationSpec:
    """An allocation of a trial of its own: those of one trial share a work folder."""
    spec = wire.AllocationSpec(
        allocation_id=allocation_id,
        experiment_id=3,
        experiment_name="digits",
        trial_id=7 if allocation_id == "a1" else 1_000 + zlib.crc32(allocation_id.encode()),
        trial_no=2,
        attempt_id=11,
        attempt_no=1,
        node_rank=0,
        num_nodes=1,
        slots=[0, 1],
        slot_type="cpu",
        rank_offset=0,
        world_size=2,
        launcher="direct",
        entrypoint=["main.py"],
        code=wire.CodeSpec(kind="none"),
        python=None,
        environment={},
        hparams={"lr": 0.1},
        config={"name": "digits"},
        seed=5,
        checkpoint_dir="trial-7",
        resume_from=None,
        resume_step=0,
        stop_grace_s=5.0,
        on_disconnect="continue",
        log_limit_bytes=64 * 2**20,
    )
    return dataclasses.replace(spec, **changes)


@dataclass
class RunningShim:
    folder: AllocationFolder
    process: ForkedProgram

    @property
    def records(self) -> list[wire.NumberedRecord]:
        return read_records(self.folder.records)

    def states(self) -> list[str]:
        return [r.record.observed for r in self.records if isinstance(r.record, wire.StateRecord)]

    def of(self, kind: type[T]) -> list[T]:
        return [r.record for r in self.records if isinstance(r.record, kind)]

    @property
    def state(self) -> ShimState:
        state = self.folder.read_state()
        assert state is not None
        return state

    def command(self, command: str, **fields: Any) -> Any:
        message = {"command": command, **fields}
        return asyncio.run(send_command(self.state.control_socket, message))

    def wait_state(self, observed: str, *, timeout_s: float = 120.0) -> wire.StateRecord:
        def found() -> wire.StateRecord | None:
            states = self.of(wire.StateRecord)
            ended = [s for s in states if s.observed in ("EXITED", "PREPARE_FAILED")]
            hit = next((s for s in states if s.observed == observed), None)
            if hit is None and ended:
                pytest.fail(f"ended before {observed}: {ended[0]}\n{self.words()}")
            return hit

        return wait_for(found, timeout_s=timeout_s, what=f"state {observed}\n{self.words()}")

    def start(self, rendezvous: wire.Rendezvous | None = None) -> None:
        self.wait_state("READY")
        self.command("start", rendezvous=dataclasses.asdict(rendezvous) if rendezvous else None)

    def wait_exit(self, *, timeout_s: float = 120.0) -> wire.ExitInfo:
        info = self.wait_state("EXITED", timeout_s=timeout_s).exit
        assert info is not None
        assert [r.seq for r in self.records] == list(range(1, len(self.records) + 1))
        assert self.folder.processes() == set()
        return info

    def log(self, local_rank: int, stream: str = "stdout") -> Path:
        return self.folder.logs / "direct" / str(local_rank) / f"{stream}.log"

    def printed(self, local_rank: int) -> str:
        """What a worker has written to its output so far; nothing before it has a file."""
        log = self.log(local_rank)
        return log.read_text() if log.exists() else ""

    def series(self) -> dict[tuple[int, str], dict[int, Any]]:
        """(rank, name) of each metric: its values by step. Raises AssertionError if one came twice."""
        found: dict[tuple[int, str], dict[int, Any]] = {}
        for record in self.of(wire.MetricsRecord):
            for each in record.series:
                points = dict(zip(each.steps, each.values, strict=True))
                known = found.setdefault((record.rank, each.name), {})
                assert not known.keys() & points.keys(), "each value once"
                known.update(points)
        return found

    def messages(self) -> list[str]:
        return [record.text for record in self.of(wire.MessageRecord)]

    def kill_torchrun(self) -> None:
        """Kill the launcher of a running job. Raises AssertionError if the end is not told or a worker is left."""
        self.wait_state("RUNNING")
        workers = self.of(wire.WorkerRecord)
        launcher = psutil.Process(workers[0].pid).parent()
        assert launcher is not None
        launcher.kill()
        info = self.wait_exit(timeout_s=60)
        assert (info.cause, info.message) == ("launcher_failed", "torchrun was killed by SIGKILL")
        assert not any(psutil.pid_exists(w.pid) for w in workers)

    def words(self) -> str:
        return self.folder.shim_log.read_text() if self.folder.shim_log.exists() else ""


@dataclass
class ShimFactory:
    """Starts shims the way the agent does."""

    home: Path
    code: Path
    started: list[RunningShim] = field(default_factory=list)

    def __call__(
        self,
        script: str | None = None,
        *,
        spec: wire.AllocationSpec | None = None,
        options: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        pass_fds: tuple[int, ...] = (),
        variables: dict[str, str] | None = None,
        **changes: Any,
    ) -> RunningShim:
        """Start a shim. environment: of the shim, besides our own. variables: those of the document."""
        if script is not None:
            (self.code / "main.py").write_text(script)
            changes.setdefault("code", wire.CodeSpec(kind="installed", path=str(self.code)))
        spec = spec or make_spec(environment=variables or {}, **changes)
        folder = AllocationFolder(self.home, spec.allocation_id)
        folder.create(spec)
        folder.write_options(
            ShimOptions(
                default_python=sys.executable,
                node_address="127.0.0.1",
                network_interface="lo",
                storage_dir=str(self.home / "storage"),
                interpreter_cache=str(self.home.parent / "interpreters"),
                **{
                    "sdk_path": "",
                    "tracking_token": "muster-token-of-a-test",
                    **(options or {}),
                },
            )
        )
        process = preloaded.start(
            [preloaded.SHIM, "--dir", str(folder.path), *arguments],
            environment={**os.environ, **(environment or {})},
            output=folder.shim_log,
            pass_fds=pass_fds,
        )
        shim = RunningShim(folder, process)
        self.started.append(shim)
        return shim


def end_allocation(folder: AllocationFolder) -> None:
    """What a killed shim leaves: processes, sockets and a cgroup."""
    kill_all(folder.processes, timeout_s=10.0)
    state = folder.read_state()
    if state is not None:
        remove_socket_dir(state.socket_dir)
        if state.cgroup:
            Cgroup(Path(state.cgroup)).remove()


@pytest.fixture
def shims(tmp_path: Path) -> Iterator[ShimFactory]:
    (tmp_path / "code").mkdir()
    factory = ShimFactory(tmp_path / "home", tmp_path / "code")
    yield factory
    for shim in factory.started:
        shim.process.kill()
        shim.process.wait()
        end_allocation(shim.folder)


@dataclass
class RunningAgent:
    """An agent process on a home of its own; `restart` starts another on the same home."""

    plane: TestControlPlane
    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: ForkedProgram | subprocess.Popen[bytes] | None = None
    pass_fds: tuple[int, ...] = ()

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "MUSTER_AGENT_SERVER_URL": self.plane.url,
            "MUSTER_AGENT_JOIN_TOKEN": JOIN_TOKEN,
            "MUSTER_AGENT_HOME": str(self.home),
            "MUSTER_AGENT_NAME": "node-1",
            "MUSTER_AGENT_SLOTS": "2",
            "MUSTER_AGENT_ADDRESS": "127.0.0.1",
            "MUSTER_AGENT_CONTAINERS": "none",  # Trying an engine takes a second.
            **self.environment,
        }
        if fake_nvml.FILE_VARIABLE in environment:
            # What is forked looks for modules where the process before it did.
            with (self.home / "agent.log").open("ab") as words:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", preloaded.AGENT, "run"],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=words,
                    stderr=words,
                )
            return
        self.process = preloaded.start(
            [preloaded.AGENT, "run"],
            environment=environment,
            output=self.home / "agent.log",
            pass_fds=self.pass_fds,
        )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def shim(self) -> psutil.Process | None:
        """Return the only shim that it has started, perhaps before that has done anything."""
        assert self.process is not None
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # it starts others, which end soon
                if "muster_agent.shim" in child.cmdline():
                    return child
        return None

    def words(self) -> str:
        return (self.home / "agent.log").read_text()

    def folder(self, allocation_id: str) -> AllocationFolder:
        return AllocationFolder(self.home, allocation_id)

    def wait_state(self, allocation_id: str, observed: str, *, timeout_s: float = 120.0) -> None:
        held = self.plane.of(allocation_id)
        try:
            wait_for(lambda: observed in held.states(), timeout_s=timeout_s)
        except BaseException:
            print(held.states(), held.exit(), self.words())
            raise

    def wait_exit(self, allocation_id: str, *, timeout_s: float = 120.0) -> wire.ExitInfo:
        self.wait_state(allocation_id, "EXITED", timeout_s=timeout_s)
        held = self.plane.of(allocation_id)
        assert [r.seq for r in held.records] == list(range(1, len(held.records) + 1))
        info = held.exit()
        assert info is not None
        return info


@pytest.fixture
def plane() -> Iterator[TestControlPlane]:
    control_plane = TestControlPlane()
    yield control_plane
    control_plane.close()


@pytest.fixture
def agent(plane: TestControlPlane, tmp_path: Path) -> Iterator[RunningAgent]:
    yield from run_agent(plane, tmp_path / "agent")


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[RunningAgent]:
    """Another agent on this machine, of another cluster: its allocations may have the same ids."""
    control_plane = TestControlPlane()
    yield from run_agent(control_plane, tmp_path / "neighbour")
    control_plane.close()


@pytest.fixture
def other(plane: TestControlPlane, agent: RunningAgent, tmp_path: Path) -> Iterator[RunningAgent]:
    """A second node that joins the same server; the test starts it once the first one is gone."""
    yield from run_agent(plane, tmp_path / "other", start=False)


def run_agent(plane: TestControlPlane, home: Path, *, start: bool = True) -> Iterator[RunningAgent]:
    running = RunningAgent(plane, home)
    if start:
        running.start()
    yield running
    if running.process is not None:
        running.process.kill()
        running.process.wait()
    for path in (running.home / "allocations").glob("[!.]*"):
        folder = running.folder(path.name)
        state = folder.read_state()
        shim = shim_identity(state) if state is not None else None
        if shim is not None:
            psutil.Process(shim.pid).kill()
        end_allocation(folder)


@pytest.fixture
def code(tmp_path: Path) -> Callable[[str], wire.CodeSpec]:
    """Puts a script into a folder and says where it is."""

    def write(script: str) -> wire.CodeSpec:
        folder = tmp_path / "code"
        folder.mkdir(exist_ok=True)
        (folder / "main.py").write_text(script)
        return wire.CodeSpec(kind="installed", path=str(folder))

    return write


@pytest.fixture(name="make_spec")
def _make_spec_fixture() -> Callable[..., wire.AllocationSpec]:
    return make_spec


@pytest.fixture(name="wait_for")
def _wait_for_fixture() -> Callable[..., Any]:
    return wait_for


@pytest.fixture
def attempt(make_spec: Any) -> Callable[..., wire.AllocationSpec]:
    """An attempt of the one trial, on one worker."""

    def make(number: int = 1, **changes: Any) -> wire.AllocationSpec:
        fields = {
            "trial_id": TRIAL,
            "attempt_no": number,
            "slots": [0],
            "world_size": 1,
            "checkpoint_dir": "experiment-3/trial-2",
            "cluster_id": CLUSTER,
            "outputs": wire.OutputsSpec(every_s=0.5),
            **changes,
        }
        return make_spec(f"a{number}", **fields)

    return make


@pytest.fixture(scope="session")
def engine() -> Engine:
    found, reason = containers.find_engine()
    if found is None:
        pytest.skip(reason)
    return found


@pytest.fixture
def contained(shims: ShimFactory, engine: Engine, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts the shim of a job in a container; afterwards no container is left."""
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    (sdk / "muster").symlink_to(Path(muster.__file__).parent)
    started = []

    def start(script: str, *, begin: bool = True, options: Any = None, **changes: Any) -> Any:
        config = changes.pop("config", {})
        environment = containers.section(**config.pop("environment", {}))
        changes.setdefault("python", environment["python"])
        given = {"engine": engine, "images": str(tmp_path / "images"), "sdk_path": str(sdk)}
        shim = shims(
            script,
            options={**given, **(options or {})},
            config={"name": "digits", "environment": environment, **config},
            **changes,
        )
        started.append(shim)
        if begin:
            shim.start()
        return shim

    yield start
    for shim in started:
        shim.process.kill()
        shim.process.wait()
        owner = shim.folder.owner.partition("@")[0]
        upkeep.remove_orphans(engine, owner=owner, is_kept=lambda _: False)


@pytest.fixture
def sandbox(tmp_path: Path) -> Isolation:
    """The level that an agent with its home in `tmp_path` would offer."""
    home = tmp_path / "home"
    home.mkdir()
    # Other users do not reach temporary folders of tests.
    settings = AgentSettings(
        server_url="http://127.0.0.1",
        home=home,
        isolation="sandbox",
        job_reads=(tmp_path / "code",),
    )
    try:
        offer = walls.choose(settings, gpus=None)
    except CannotIsolate as error:
        pytest.skip(str(error))
    return dataclasses.replace(offer, home=str(home / "homes" / "p1"))


@pytest.fixture
def gpu_agent(agent: Any, plane: Any, tmp_path: Path) -> Callable[[list[dict[str, Any]]], Any]:
    """Start the agent on these devices, in the place of the one that runs on processors."""

    def start(devices: list[dict[str, Any]]) -> Any:
        agent.kill()
        agent.environment |= fake_nvml.install(tmp_path, devices)
        agent.environment |= {"MUSTER_AGENT_SLOTS": "8", "MUSTER_AGENT_ISOLATION": "none"}
        plane.registrations.clear()
        plane.leases.clear()
        agent.start()
        return agent

    return start
