"""Workers forked from a warm parent: what they are like, and what happens when something is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.environments.interpreters import activated
from muster_agent.jobs.launch import inheritable, shared_environment
from muster_agent.jobs.orphans import end_orphans
from muster_agent.jobs.process import owned, owner_of, tagged
from muster_agent.jobs.warm import WarmParents
from muster_agent.records.logs import find_logs
from muster_agent.shim.processes.warm import NoWarmWorkers, start_keeper

pytestmark = pytest.mark.torch

WAIT = "import time; print('up', flush=True); time.sleep(600)"


HOG = (
    "import time\nheld = []\n"
    "for _ in range(40): held.append(bytearray(b'x' * 20_000_000)); time.sleep(0.02)\n"
    "time.sleep(600)"
)
FORKS = (
    "import os, time\nfor _ in range(200):\n    if os.fork() == 0: time.sleep(60); os._exit(0)\n"
    "time.sleep(600)"
)
FILE = "f = open('grows', 'wb')\nfor _ in range(100): f.write(b'x' * 1_000_000)"


IMPORTS = ("xml.dom.minidom", "no_such_module")


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmParents]:
    """One warm parent for all tests here: its import of torch is most of what they cost."""
    folder = tmp_path_factory.mktemp("warm")
    found = WarmParents(owner_of(folder / "agent"), words=folder / "warm.log", imports=IMPORTS)
    yield found
    found.close()


def ready_parent(parents: WarmParents, environment: dict[str, str]) -> str:
    """The socket of a parent that has imported everything: a shim waits a second for one that has not."""
    path = parents.want(sys.executable, environment, "cpu")
    assert path
    give_up_at = time.monotonic() + 120
    while "ready after" not in parents.words.read_text():
        assert time.monotonic() < give_up_at, parents.words.read_text()
        time.sleep(0.05)
    return path


@pytest.fixture
def warm(
    shims: Any, parents: WarmParents, environment: Callable[[], dict[str, str]]
) -> Callable[..., Any]:
    """Starts a shim as `shims` does, with the socket that the agent would give it."""

    def start(script: str, **changes: Any) -> Any:
        changes = {"launcher": "torchrun", "slots": [0], "world_size": 1} | changes
        changes["world_size"] = len(changes["slots"])
        options = changes.pop("options", {})
        path = ready_parent(parents, environment())
        options = {"warm_socket": path, "warm_wait_s": 120.0} | options
        shim = shims(script, options=options, **changes)
        shim.start()
        return shim

    return start


FACTS = """
import inspect, json, os, resource, signal, sys, threading
before = sorted(k for k in globals() if k.startswith('__'))
if len(sys.argv) > 2:
    import torch
main = sys.modules['__main__']
status = dict(l.split(':\\t') for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)
mask = os.umask(0)
print(json.dumps({
    'argv': sys.argv, 'orig_argv': sys.orig_argv, 'path': sys.path, 'flags': list(sys.flags),
    'executable': sys.executable, 'globals': before, 'name': __name__, 'package': __package__,
    'file': __file__, 'spec': __spec__ and __spec__.name, 'loader': type(__loader__).__name__,
    'is_main': main.__dict__ is globals(), 'cwd': os.getcwd(), 'umask': mask,
    'leads': [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
    'signals': [status[k] for k in ('SigBlk', 'SigIgn', 'SigCgt')], 'threads': status['Threads'],
    'descriptors': sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1],
    'stdin': os.readlink('/proc/self/fd/0'), 'nice': os.nice(0),
    'buffering': [sys.stdout.line_buffering, sys.stdout.write_through, sys.stdout.encoding],
    'limits': [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)],
    'environ': {k: v for k, v in os.environ.items() if k != 'LC_CTYPE'},
    'main_thread': threading.main_thread().native_id == os.getpid(),
    'torch': [torch.get_num_threads(), torch.cuda.is_initialized()]
        if 'torch' in globals() else None,
}))
"""
DIFFERING = {
    "MASTER_PORT", "MUSTER_REPORT_SOCKET", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCHELASTIC_ERROR_FILE", "PWD", "MLFLOW_TRACKING_URI",
    "TORCHELASTIC_SIGNALS_TO_HANDLE",
}  # fmt: skip
"""Of torchrun, or chosen anew for each allocation."""


HELD = {"forks_launcher": True, "forks_workers_of_launcher": True}
"""Options with which torchrun is forked and finds its workers forked, as on several nodes."""


@pytest.mark.parametrize("options", [{}, HELD], ids=["keeper", "torchrun"])
@pytest.mark.parametrize("entrypoint", [["main.py", "--a", "${MUSTER_TRIAL_ID}"], ["-m", "main"]])
def test_a_forked_worker_is_like_one_that_was_started(
    warm: Any, shims: Any, tmp_path: Path, entrypoint: list[str], options: dict[str, Any]
) -> None:
    def facts(shim: Any) -> Any:
        assert shim.wait_exit(timeout_s=120).cause == "success", shim.log(0, "stderr").read_text()
        (text,) = outputs(shim)
        return json.loads(text.replace(str(shim.folder.path), "FOLDER"))

    forked = facts(warm(FACTS, entrypoint=entrypoint, allocation_id="a1", options=options))
    plain = shims(
        FACTS, entrypoint=entrypoint, slots=[0], world_size=1, allocation_id="a2", trial_id=7
    )
    plain.start()
    started = facts(plain)
    for found in (forked, started):
        found["environ"] = {k: v for k, v in found["environ"].items() if k not in DIFFERING}
        assert found["environ"].pop("MUSTER_ALLOCATION_ID") in ("a1", "a2")
    if started["torch"] is None:
        forked["torch"] = None
    # The shim ignores two signals for itself, and a shell one more for what it runs in the
    # background, which what is started inherits; torchrun's workers do not, and neither do these.
    inherited = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    ignored = int(started["signals"][1], 16) & ~sum(1 << number - 1 for number in inherited)
    started["signals"] = [
        started["signals"][0],
        f"{ignored:016x}",
        f"{sum(1 << number - 1 for number in (signal.SIGINT, signal.SIGTERM)):016x}",
    ]
    assert forked == started


ENDS = """
import atexit, os, signal, sys, threading, time
rank = int(os.environ['RANK'])
atexit.register(lambda: print('at exit', flush=True))
if rank == 0:
    threading.Thread(target=lambda: (time.sleep(0.2), print('thread', flush=True))).start()
elif rank == 1:
    sys.exit(7)
elif rank == 2:
    def fails(): raise ValueError('bad')
    fails()
elif rank == 3:
    os.kill(os.getpid(), signal.SIGKILL)
elif rank == 4:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
elif rank == 5:
    sys.exit('words')
"""


@pytest.fixture
def environment(make_spec: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, str]]:
    """What all tests here start their parent with, so that it is one."""

    def make() -> dict[str, str]:
        monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)  # it says which phase this is
        return shared_environment(
            make_spec(launcher="torchrun"),
            inherited=activated(inheritable(os.environ), sys.executable),
            sdk_path="",
            loopback_interface="lo",
        )

    return make


class Job:
    """A folder with scripts, and workers of it that are forked without a shim."""

    def __init__(
        self, folder: Path, files: dict[str, str], path: str, shared: dict[str, str]
    ) -> None:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        self.folder = folder
        self._path = path
        self._shared = shared

    def text(self, rank: int, stream: str = "stdout") -> str:
        return (self.folder / f"{stream}{rank}").read_text()

    async def run(self, num_workers: int) -> list[int | None]:
        """Their statuses. Raises NoWarmWorkers."""
        changed = asyncio.Event()
        workers = [
            {
                "variables": {"RANK": str(rank)},
                "stdout": str(self.folder / f"stdout{rank}"),
                "stderr": str(self.folder / f"stderr{rank}"),
            }
            for rank in range(num_workers)
        ]
        request = {
            "shared": self._shared,
            "own": {"JOB": self.folder.name},
            "workers": workers,
            "folder": str(self.folder),
            "entrypoint": ["main.py"],
            "cgroup": "",
        }
        keeper = await start_keeper(self._path, request, timeout_s=120, on_end=changed.set)
        while not keeper.child.has_ended:
            await asyncio.wait_for(changed.wait(), 120)
            changed.clear()
        keeper.close()
        return [worker.status for worker in keeper.workers]


@pytest.fixture
def run_job(
    tmp_path: Path, parents: WarmParents, environment: Callable[[], dict[str, str]]
) -> Callable[..., Any]:
    def run(name: str, files: dict[str, str], num_workers: int) -> tuple[Job, list[int | None]]:
        shared = environment()
        job = Job(tmp_path / name, files, parents.want(sys.executable, shared, "cpu"), shared)
        return job, asyncio.run(job.run(num_workers))

    return run


def test_how_a_worker_ends_is_told_exactly(run_job: Any) -> None:
    job, ends = run_job("ends", {"main.py": ENDS}, 6)
    assert ends == [0, 7, 1, -signal.SIGKILL, -signal.SIGINT, 1]
    assert job.text(0) == "thread\nat exit\n"
    assert [job.text(rank) for rank in range(1, 6)] == ["at exit\n"] * 2 + [""] + ["at exit\n"] * 2
    plain = subprocess.run(
        [sys.executable, "main.py"],
        cwd=job.folder,
        env={**os.environ, "RANK": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in plain.stderr
    assert job.text(2, "stderr") == plain.stderr
    assert job.text(5, "stderr") == "words\n"


FIRST = """
import os, random, helper, torch, numpy, multiprocessing.process
print(helper.NAME, os.environ['JOB'], random.random(), numpy.random.rand(), torch.initial_seed(),
      multiprocessing.process.current_process().authkey.hex())
os.environ['LEFT'] = 'behind'
torch.manual_seed(1); torch.set_num_threads(3); torch.set_default_dtype(torch.float64)
"""
SECOND = """
import os, random, sys, helper, torch, numpy
print(helper.NAME, os.environ['JOB'], random.random(), numpy.random.rand(), torch.initial_seed(),
      'LEFT' in os.environ, torch.get_default_dtype(),
      torch.get_num_threads() == 3, [p for p in sys.path if 'first' in p])
"""


def test_nothing_of_one_job_is_left_for_the_next(run_job: Any) -> None:
    words = {}
    for name, script in (("first", FIRST), ("second", SECOND)):
        job, ends = run_job(name, {"main.py": script, "helper.py": f"NAME = {name!r}"}, 2)
        assert ends == [0, 0], job.text(0, "stderr")
        words[name] = [job.text(rank).strip().split(" ", 5) for rank in (0, 1)]
        assert {tuple(w[:2]) for w in words[name]} == {(name, name)}
    everyone = words["first"] + words["second"]
    assert [len({w[i] for w in everyone}) for i in (2, 3, 4)] == [4, 4, 4]  # random numbers
    assert words["first"][0][5] != words["first"][1][5]  # keys of multiprocessing
    assert words["second"][0][5] == "False torch.float32 False []"


def test_modules_that_the_node_names_are_there_at_the_first_line(
    run_job: Any, parents: WarmParents
) -> None:
    script = "import sys; print([n in sys.modules for n in ('xml.dom.minidom', 'no_such_module')])"
    job, ends = run_job("named", {"main.py": script}, 1)
    assert (ends, job.text(0)) == ([0], "[True, False]\n")
    assert "not imported: no_such_module: ModuleNotFoundError" in parents.words.read_text()


def test_what_cuda_reads_once_is_there_before_its_first_use(run_job: Any) -> None:
    """CUDA and its libraries ask the C library, which must know what the job's document sets."""
    names = ("RANK", "CUDA_DEVICE_ORDER", "PYTORCH_NVML_BASED_CUDA_CHECK")
    script = (
        "import ctypes, torch\n"
        "getenv = ctypes.CDLL(None).getenv\ngetenv.restype = ctypes.c_char_p\n"
        f"print([getenv(n.encode()) for n in {names}], torch.cuda.is_initialized())\n"
        "print(torch._C._cuda_isInBadFork() if hasattr(torch._C, '_cuda_isInBadFork') else False)\n"
    )
    job, ends = run_job("variables", {"main.py": script}, 1)
    assert (ends, job.text(0)) == ([0], "[b'0', b'PCI_BUS_ID', None] False\nFalse\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device files")
def test_a_parent_that_holds_a_device_is_not_forked(tmp_path: Path, wait_for: Any) -> None:
    device = Path(f"/dev/nvidia-test-{os.getpid()}")
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (tmp_path / "opens_device.py").write_text(
        f"import os\nfd = os.open({str(device)!r}, os.O_RDWR)\n"
    )
    path = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    parents = WarmParents("owner", words=tmp_path / "warm.log", imports=["opens_device"])
    try:
        wait_for(lambda: not parents.want(sys.executable, path, "cuda"), timeout_s=120)
        assert f"unfit: importing left {device} open" in (tmp_path / "warm.log").read_text()
    finally:
        parents.close()
        device.unlink()


def test_a_job_with_a_module_of_its_own_for_an_imported_one_is_refused(run_job: Any) -> None:
    with pytest.raises(NoWarmWorkers, match="the code folder has a module sympy of its own"):
        run_job("shadows", {"main.py": "import sympy", "sympy.py": ""}, 1)


def test_workers_of_a_killed_shim_are_found_and_ended(warm: Any, wait_for: Any) -> None:
    script = "import os\nif os.fork(): os.environ.clear()\n" + WAIT  # a child that carries no mark
    shim = warm(script)
    shim.wait_state("RUNNING", timeout_s=120)
    (worker,) = shim.of(wire.WorkerRecord)
    process = psutil.Process(worker.pid)
    assert process.environ()["RANK"] == "0"
    assert process.cmdline()[1:] == ["main.py"]
    # The keeper, the worker, and the worker's child once there is one.
    wait_for(lambda: len(tagged("a1", shim.folder.owner)) == 3)
    shim.process.kill()
    shim.process.wait()
    assert process.is_running()
    assert end_orphans(shim.folder.owner, lambda _: False) == (["a1"], 0)
    assert owned(shim.folder.owner) == {}
    wait_for(lambda: not is_running(process))  # one that is ending shows no marks any more


@pytest.mark.parametrize(
    ("script", "resources", "words"),
    [
        (HOG, {"memory": "600MB"}, "of memory of the 600.0 MB declared in resources.memory"),
        (FORKS, {"processes": 100}, "more than the 100 declared in resources.processes"),
        (FILE, {"disk": "10MB"}, "a file of it grew past the 10.0 MB declared in resources.disk"),
    ],
    ids=["memory", "processes", "disk"],
)
def test_a_forked_worker_keeps_its_limits(
    warm: Any, script: str, resources: dict[str, Any], words: str
) -> None:
    shim = warm(script, config={"name": "digits", "resources": resources})
    info = shim.wait_exit(timeout_s=120)
    assert (info.cause, words in info.message) == ("limit_exceeded", True), info.message


def test_a_killed_keeper_leaves_no_worker_behind(warm: Any) -> None:
    shim = warm(WAIT, slots=[0, 1])
    shim.wait_state("RUNNING", timeout_s=120)
    workers = shim.of(wire.WorkerRecord)
    keeper = psutil.Process(workers[0].pid).parent()
    assert keeper is not None
    keeper.kill()
    info = shim.wait_exit()
    assert (info.cause, info.signal) == ("launcher_failed", signal.SIGKILL)
    assert info.message == "the workers' keeper was killed by SIGKILL"


LAUNCHED = """
import os, sys, psutil
import_before = 'torch' in sys.modules
import torch.distributed as dist
dist.init_process_group('gloo')
launcher = psutil.Process(os.getppid()).cmdline()
print(dist.get_rank(), dist.get_world_size(), import_before, 'torch.distributed.run' in launcher)
dist.barrier()
if dist.get_rank() == 1 and len(sys.argv) > 1:
    sys.exit(int(sys.argv[1]))
dist.barrier()
"""


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("code", [0, 5])
def test_a_forked_torchrun_starts_its_workers(warm: Any, code: int, is_held: bool) -> None:
    """As new processes, or with those that were forked beside it."""
    shim = warm(
        LAUNCHED,
        slots=[0, 1],
        entrypoint=["main.py", *([str(code)] if code else [])],
        options=HELD if is_held else {"forks_launcher": True},
    )
    info = shim.wait_exit(timeout_s=120)
    assert "starting with torchrun" not in shim.words()
    texts = sorted(outputs(shim))
    assert texts == [f"0 2 {is_held} True\n", f"1 2 {is_held} True\n"]
    if code:
        assert (info.cause, info.exit_code) == ("user_error", code)
    else:
        assert info.cause == "success"


def outputs(shim: Any) -> list[str]:
    """What its workers have printed."""
    files = find_logs(shim.folder.logs)
    return [
        file.path.read_text()
        for file in files
        if (file.stream, file.local_rank >= 0) == ("stdout", True)
    ]


@pytest.mark.parametrize("options", [{"forks_launcher": True}, HELD], ids=["new", "held"])
def test_the_end_of_a_forked_torchrun_is_that_of_any_torchrun(
    warm: Any, options: dict[str, Any]
) -> None:
    shim = warm(WAIT, slots=[0, 1], options=options)
    shim.kill_torchrun()


def test_a_script_with_modules_of_its_own_is_a_new_process_to_a_forked_torchrun(
    warm: Any, shims: Any
) -> None:
    (shims.code / "optparse.py").write_text("mine = True\n")
    shim = warm("import optparse; print(optparse.mine)", options=HELD)
    assert shim.wait_exit(timeout_s=120).cause == "success"
    assert outputs(shim) == ["True\n"]


def test_workers_that_a_forked_torchrun_never_wants_end_with_it(
    shims: Any, parents: WarmParents, environment: Any, wait_for: Any
) -> None:
    """The other node never comes."""
    shim = shims(
        WAIT,
        launcher="torchrun",
        num_nodes=2,
        slots=[0, 1],
        world_size=3,
        options={"warm_socket": ready_parent(parents, environment())} | HELD,
    )
    ready = shim.wait_state("READY", timeout_s=120)
    before = len(shim.folder.processes())
    shim.start(ready.rendezvous)
    # The keeper, torchrun, and two that wait.
    wait_for(lambda: len(shim.folder.processes()) >= before + 4, timeout_s=60)
    shim.command("stop", reason="a test")
    assert shim.wait_exit(timeout_s=60).cause == "stopped"


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_forked_torchruns_of_two_nodes_meet_at_a_forked_store(
    warm: Any, shims: Any, parents: WarmParents, environment: Any, is_mixed: bool, is_held: bool
) -> None:
    """With one that was started, too, which a node without a parent has."""
    path = ready_parent(parents, environment())
    nodes = [
        shims(
            LAUNCHED,
            allocation_id=f"gang{node_rank}",
            launcher="torchrun",
            node_rank=node_rank,
            num_nodes=2,
            slots=[0],
            rank_offset=node_rank,
            world_size=2,
            options={"warm_socket": path if not is_mixed or node_rank == 0 else ""}
            | (HELD if is_held else {"forks_launcher": True}),
        )
        for node_rank in (0, 1)
    ]
    ready = nodes[0].wait_state("READY", timeout_s=120)
    nodes[1].wait_state("READY", timeout_s=120)
    for node in nodes:
        node.start(ready.rendezvous)
    assert [node.wait_exit(timeout_s=120).cause for node in nodes] == ["success", "success"]
    texts = sorted(text for node in nodes for text in outputs(node))
    assert texts == [f"0 2 {is_held} True\n", f"1 2 {is_held and not is_mixed} True\n"]


def test_workers_survive_their_parent_and_the_next_are_started_by_torchrun(
    warm: Any, parents: WarmParents, wait_for: Any
) -> None:
    shim = warm(
        "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(5))\n" + WAIT
    )
    shim.wait_state("RUNNING", timeout_s=120)
    wait_for(lambda: shim.printed(0) == "up\n")
    parents.close()  # as the agent's end does
    worker = shim.of(wire.WorkerRecord)[0].pid
    # Its socket is still in the options of a shim that was about to ask.
    late = warm(WAIT, allocation_id="a2", options={"warm_socket": shim_socket(shim)})
    late.wait_state("STARTING")
    wait_for(lambda: "starting with torchrun, because the warm parent cannot" in late.words())
    os.kill(worker, signal.SIGUSR1)
    info = shim.wait_exit()
    assert (info.cause, info.exit_code) == ("user_error", 5)
    late.command("kill", reason="seen enough")
    assert late.wait_exit().cause == "killed"


def shim_socket(shim: Any) -> str:
    return str(shim.folder.read_options().warm_socket)


def test_the_agent_keeps_a_parent_which_ends_with_it(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    agent.kill()
    agent.environment["MUSTER_AGENT_WARM_WORKERS"] = "all"
    agent.start()
    changes = {"launcher": "torchrun", "slots": [0], "world_size": 1, "code": code(WAIT)}
    spec = make_spec(**changes)
    plane.want(spec)
    agent.wait_state("a1", "RUNNING", timeout_s=120)
    records = [r.record for r in plane.of("a1").records]
    worker = psutil.Process(next(r.pid for r in records if isinstance(r, wire.WorkerRecord)))
    keeper = worker.parent()
    assert keeper is not None
    parent = keeper.parent()
    assert parent is not None
    assert parent.parent().pid == agent.process.pid  # type: ignore[union-attr]
    assert set(owned(owner_of(agent.home))) == {"a1", f"warm-{agent.process.pid}-1"}
    agent.kill()
    wait_for(lambda: not is_running(parent))
    assert is_running(worker)
    agent.environment["MUSTER_AGENT_WARM_WORKERS"] = "none"
    agent.start()
    plane.want(spec, "stop")
    assert agent.wait_exit("a1").cause == "stopped"
    assert not is_running(worker)


def test_the_log_of_a_shim_says_why_the_agent_gave_it_no_parent(
    agent: Any, plane: Any, make_spec: Any, code: Any
) -> None:
    agent.kill()
    agent.environment |= {"MUSTER_AGENT_WARM_WORKERS": "all", "PYTHONPATH": "src"}
    agent.start()
    changes = {"launcher": "torchrun", "slots": [0], "world_size": 1, "code": code("")}
    unwarm = {"config": {"name": "digits", "environment": {"warm": False}}}
    for id, more, reason in (
        ("a1", {}, "PYTHONPATH of the agent has the relative entry 'src' (use absolute paths)"),
        ("a2", unwarm, "environment.warm is false"),
    ):
        plane.want(make_spec(allocation_id=id, **changes, **more))
        agent.wait_exit(id, timeout_s=120)
        assert (
            f"starting processes without a warm parent, because {reason}\n"
            in agent.folder(id).shim_log.read_text()
        )


def is_running(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_parent_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    """Nor does it start anything later: nobody would know of it."""
    path = str(tmp_path / "s")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(path)
        listener.listen()
        with pytest.raises(NoWarmWorkers, match=r"did not answer within 0\.5 s"):
            asyncio.run(start_keeper(path, {}, timeout_s=0.5, on_end=lambda: None))
        connection, _ = listener.accept()
        with contextlib.closing(connection):
            assert connection.recv(4096) == b"{}\n"
            assert connection.recv(4096) == b""


KEEPER = """
import json, os, socket, sys, time
listener = socket.socket(fileno=int(sys.argv[1]))
connection, _ = listener.accept()
reader = connection.makefile("rb")
reader.readline()
connection.sendall(json.dumps({"keeper": os.getpid()}).encode() + b"\\n")
reader.readline()
pid = os.fork()
if pid == 0:
    time.sleep(600)
print(pid, flush=True)
if sys.argv[2] == "slow":
    time.sleep(1.5)
    connection.sendall(json.dumps({"started": [pid], "port": 1}).encode() + b"\\n")
else:
    connection.shutdown(socket.SHUT_RDWR)
time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["slow", "silent"])
def test_nothing_else_is_started_beside_what_a_keeper_has_forked(
    tmp_path: Path, wait_for: Any, kind: str
) -> None:
    """It is waited for although the parent's time is over, or killed with what it has forked."""
    path = str(tmp_path / "s")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(path)
        listener.listen()
        keeper = subprocess.Popen(
            [sys.executable, "-c", KEEPER, str(listener.fileno()), kind],
            pass_fds=[listener.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )

    async def start() -> list[int]:
        found = await start_keeper(path, {}, timeout_s=1.0, on_end=lambda: None)
        found.close()
        return [worker.pid for worker in found.workers]

    assert keeper.stdout is not None
    try:
        if kind == "slow":
            assert asyncio.run(start()) == [int(keeper.stdout.readline())]
        else:
            with pytest.raises(NoWarmWorkers):
                asyncio.run(start())
            worker = int(keeper.stdout.readline())
            assert keeper.wait(30) == -signal.SIGKILL
            wait_for(
                lambda: not psutil.pid_exists(worker) or not is_running(psutil.Process(worker))
            )
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(keeper.pid).children():
                process.kill()
        keeper.kill()
        keeper.wait()
        keeper.stdout.close()


def test_at_most_two_parents_and_none_that_failed(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    for path in (python, broken):
        path.chmod(0o755)
    parents = WarmParents("owner", words=tmp_path / "warm.log")
    path = {"PATH": os.environ["PATH"]}
    try:
        first = parents.want(str(python), path, "cpu")
        assert parents.want(str(python), path, "cpu") == first
        second = parents.want(str(python), {**path, "A": "1"}, "cpu")
        assert parents.want(str(python), path, "cpu") == first
        third = parents.want(str(python), path, "cuda")
        assert len({first, second, third}) == 3
        assert [Path(s).exists() for s in (first, second, third)] == [True, False, True]
        assert parents.has(f"warm-{os.getpid()}-3")
        assert not parents.has(f"warm-{os.getpid()}-2")
        assert parents.want(str(broken), path, "cpu")
        deadline = time.monotonic() + 60
        while parents.want(str(broken), path, "cpu"):  # until it is seen to have ended
            assert time.monotonic() < deadline
        assert parents.why_none(str(broken), path) == (
            f"the process from which they are forked ended with code 1, see {tmp_path}/warm.log"
        )
        assert parents.why_none(str(broken), {**path, "A": "1"}) == ""
        assert parents.why_none(str(python), path) == ""
        relative = {"PYTHONPATH": "/opt/libs:src"}
        assert parents.want(str(python), relative, "cpu") == ""
        assert parents.why_none(str(python), relative) == (
            "PYTHONPATH of the agent has the relative entry 'src' (use absolute paths)"
        )
        assert parents.want(str(tmp_path / "none"), path, "cpu") == ""
    finally:
        parents.close()
    assert not Path(third).exists()
