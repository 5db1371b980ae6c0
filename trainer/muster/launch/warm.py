"""Start workers from a Python that has imported torch already. Linux only; run by the agent.

    python warm.py '{"listen_fd": 5, "lifeline_fd": 6, "idle_s": 600, "marks": {…}}'

Three kinds of process:

* the *parent* imports torch and waits for connections on a socket. It has one thread, never runs
  a line of anybody's job, and ends when its agent does or nobody came for `idle_s` seconds;
* the *keeper*, forked from it, is to the workers of one allocation what torchrun is otherwise: it
  hosts their store, forks them, and tells the shim over the connection how each of them ended;
* a *worker*, forked from the keeper, becomes what `python script.py` is: see `_become`. It may be
  torchrun itself. That starts the workers as new processes, or finds them forked and waiting: see `_HeldWorker`.

Where jobs are isolated, the keeper goes behind the walls of its job before it reads anything of it,
and gives up all rights, see muster.launch.entering. So the parent is outside, and has nothing that a
document can name.

Requests and answers are lines of JSON (`_Request` and `_keep`). This file is run by its path, so
that the interpreter of the training need not have anything of ours, and imports nothing of ours.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # our folder: its modules must not shadow anybody's

import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import select
import signal
import socket
import subprocess
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

IMPORTS = (
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "muster.training.loop",
)
"""Modules that a training with torch imports sooner or later: the first optimizer brings
torch._dynamo. An interpreter without the built-in trainer's requirements starts without them."""
ALIAS = "__mp_main__"
"""Second name of `__main__`, which multiprocessing gives it."""
RENDEZVOUS = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
"""Module in which torchrun meets those of other nodes."""
HANDLER = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
"""Module with which torchrun starts its workers."""
LOOK_S = 0.05
"""Seconds between two looks of a torchrun for the other nodes."""
_PR_SET_CHILD_SUBREAPER = 36
_LOG_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_HERE = str(Path(__file__).absolute())
_label_of_us: Label | None = None


def _sibling(name: str) -> Any:
    """Return the module that lies beside this file."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"_{name}", Path(_HERE).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Loaded by its path too, see above.
if TYPE_CHECKING:
    from muster.launch.label import ROOM_VARIABLE, Label, Unfit, check_is_alone
else:
    _label = _sibling("label")
    ROOM_VARIABLE, Label, Unfit = _label.ROOM_VARIABLE, _label.Label, _label.Unfit
    check_is_alone = _label.check_is_alone


def _check_has_no_device() -> None:
    """Raise Unfit if CUDA's driver is loaded, or a device open: neither survives a fork."""
    if "/libcuda.so" in Path("/proc/self/maps").read_text():
        raise Unfit("importing initialised CUDA")
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the folder itself is closed
            if (device := str(fd.readlink())).startswith("/dev/nvidia"):
                raise Unfit(f"importing left {device} open")


# ---------------------------------------------------------------- the parent


def main() -> tuple[dict[str, Any], int] | None:
    """Run the parent. Returns in a worker alone: what it is to become."""
    given = json.loads(sys.argv[1])
    shared = dict(os.environ)  # importing torch changes it
    global _label_of_us
    label = _label_of_us = Label()
    shared.pop(ROOM_VARIABLE)
    label.write("muster-warm (parent)", given["marks"])
    os.chdir("/")
    # What looks for devices while it is imported would initialise CUDA. Workers do not have it.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    for name in IMPORTS:
        try:
            importlib.import_module(name)
        except ImportError:
            if name == "torch":
                raise
    for name in given["imports"]:
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever a library raises that does not work here
            sys.stderr.write(f"not imported: {name}: {type(error).__name__}: {error}\n")
    check_is_alone()
    _check_has_no_device()
    gc.collect()
    gc.freeze()  # collecting would write to, and so copy, every page that has an object
    # Keepers are nobody's to wait for, nor are those that go on behind walls after a fork: the kernel
    # collects what is ours, and that is all that our descendants leave behind. A zombie would keep a
    # sandbox from ending.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sys.stderr.write(f"ready after {time.process_time():.1f} s of the processor\n")
    sys.stderr.flush()
    listener = socket.socket(fileno=given["listen_fd"])
    while True:
        ready, _, _ = select.select([listener, given["lifeline_fd"]], [], [], given["idle_s"])
        if listener not in ready:
            os._exit(0)  # idle, or the agent has ended
        connection, _ = listener.accept()
        try:
            is_keeper = os.fork() == 0
        except OSError as error:  # the shim sees the connection closed
            sys.stderr.write(f"no keeper: {error}\n")
            is_keeper = False
        if is_keeper:
            listener.detach()
            return _keep(connection, label, shared)
        connection.close()


# ---------------------------------------------------------------- the keeper


def _keep(
    connection: socket.socket, label: Label, shared: dict[str, str]
) -> tuple[dict[str, Any], int] | None:
    """Serve one allocation. Returns in its workers alone.

    A request holds `shared` (the environment that the parent must have been started with), `own`
    (variables of all workers), `workers` (each: `variables`, `stdout`, `stderr`), `folder`,
    `entrypoint` (a script or -m and a module, and its arguments) and `cgroup` ("" for none). It may
    hold `unset` (names of `shared` that the workers do not have), `is_launcher` (the only worker is
    torchrun), `num_held` (workers to fork before torchrun wants them) and `walls` (arguments of
    muster.launch.entering.enter, and `user_namespaces`: whether the workers may make any). Or it asks for
    the store of a gang: `store` is the address, and `own` and `cgroup` are as above.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # It ends with its workers, also when a signal to all processes of the node has come.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reader = connection.makefile("rb")

    def tell(**message: Any) -> None:
        # A shim that is gone does not hear it: its workers go on, as they do without a keeper.
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(message).encode() + b"\n")

    store: Any = None
    pids: list[int] = []
    try:
        request = json.loads(reader.readline() or b"null")
        if request is None:
            os._exit(0)
        if host := request.get("store"):
            _serve_store(host, request, connection, label)
        _check_environment(shared, request["shared"])
        if request["cgroup"]:
            (Path(request["cgroup"]) / "cgroup.procs").write_text("0")
        walls = request.get("walls")
        pid = _go_behind(walls, connection) if walls else os.getpid()
        if pid:
            tell(keeper=pid)
        if pid not in (0, os.getpid()):
            os._exit(0)  # another process has gone on, behind the walls
        if walls:
            _check_home(request["own"]["HOME"])
        if not request.get("is_launcher"):  # torchrun's workers import for themselves
            _check_shadows(request["entrypoint"], request["folder"])
        label.write("muster-warm (keeper)", request["own"])
        os.chdir(request["folder"])
        if not reader.readline():
            os._exit(0)  # nobody waits any more
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        port_holder = socket.create_server(("127.0.0.1", 0), backlog=2048)
        port = str(port_holder.getsockname()[1])
        title = " ".join([sys.executable, *request["entrypoint"]])
        for number, worker in enumerate(request["workers"]):
            worker["variables"] = {**request["own"], **worker["variables"], "MASTER_PORT": port}
            label.write(title, worker["variables"])  # inherited: it carries its marks at once
            worker["output"] = [os.open(worker[k], _LOG_FLAGS, 0o666) for k in ("stdout", "stderr")]
            pid = os.fork()
            if pid == 0:
                for held in (connection, port_holder):
                    held.detach()  # closed by number, see _become
                reader.detach()
                return request, number
            pids.append(pid)
            for fd in worker["output"]:
                os.close(fd)
        label.write("muster-warm (keeper)", request["own"])
        store = _host_store(port_holder)
        tell(started=pids, port=int(port))
        if walls:
            reader.readline()  # none is collected before the shim has found it
    except (Unfit, OSError, RuntimeError, KeyError, ValueError) as error:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        tell(refused=str(error) or type(error).__name__)
        reader.readline()  # what the shim is saying meanwhile must not fail
        os._exit(1)
    _wait_for(pids, tell)
    del store
    reader.readline()  # what else came from the workers is ended before us
    os._exit(0)


def _serve_store(
    host: str, request: dict[str, Any], connection: socket.socket, label: Label
) -> None:
    """Be what muster.launch.rendezvous is, on this address, until the connection is closed."""
    label.write("muster-warm (rendezvous)", request["own"])
    if request["cgroup"]:
        (Path(request["cgroup"]) / "cgroup.procs").write_text("0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family, backlog=2048)
    store = _host_store(listener)
    told = json.dumps({"pid": os.getpid(), "port": store.port})
    with contextlib.suppress(OSError):
        connection.sendall(told.encode() + b"\n")
        connection.recv(1)
    os._exit(0)


def _go_behind(walls: dict[str, Any], connection: socket.socket) -> int:
    """Go behind the walls of the job, without any right. Return the pid of the process that goes on
    there as the parent of this one sees it; 0 in a new process."""
    entering = _sibling("entering")
    # With the parent's socket, the job could take the requests of others.
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    kept = connection.fileno()
    os.closerange(3, kept)
    os.closerange(kept + 1, _highest_fd() + 1)
    may_make_namespaces = walls.pop("user_namespaces")
    userns = _sibling("userns")  # read here: behind the walls it may not be there
    child: int = entering.enter(**walls)
    if child:
        return child
    if not may_make_namespaces:
        userns.forbid()
    os.setsid()  # A signal to its process group must not reach the parent.
    return os.getpid() if walls["level"] == "user" else 0


def _check_home(home: str) -> None:
    """Raise Unfit if the job's home has packages, which a new interpreter would find."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if Path(home, ".local", "lib", version, "site-packages").is_dir():
        raise Unfit("the home folder of the job has packages of its own")


def _check_environment(shared: dict[str, str], wanted: dict[str, str]) -> None:
    differing = sorted(k for k in shared.keys() | wanted.keys() if shared.get(k) != wanted.get(k))
    if set(differing) - {"LC_CTYPE"}:  # which Python sets itself in the C locale
        raise Unfit(f"it was started with another environment ({', '.join(differing)})")


def _check_shadows(entrypoint: list[str], folder: str) -> None:
    """Raise Unfit if the job has a module of its own for one that is imported already."""
    path = folder if entrypoint[0] == "-m" else _script_folder(Path(folder, entrypoint[0]))
    imported = {name.partition(".")[0] for name in sys.modules}
    for entry in os.scandir(path):
        name, _, kind = entry.name.partition(".")
        is_module = kind == "py" or kind.endswith("so")
        is_package = not kind and Path(entry.path, "__init__.py").exists()
        if name in imported and (is_module or is_package):
            raise Unfit(f"the code folder has a module {name} of its own")


def _script_folder(script: Path) -> str:
    return str(script.resolve().parent)


def _host_store(listener: socket.socket) -> Any:
    """Host the store that torchrun hosts otherwise, so that no worker must bind a port."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    host, port = listener.getsockname()[:2]
    return TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        multi_tenant=True,
        master_listen_fd=listener.detach(),
    )


def _wait_for(pids: list[int], tell: Any) -> None:
    """Report how each worker ends. Their orphans, which become our children, are collected too."""
    left = set(pids)
    while left:
        pid, status = os.waitpid(-1, 0)
        if pid in left:
            left.discard(pid)
            tell(ended=pids.index(pid), status=os.waitstatus_to_exitcode(status))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects what is left
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    tell(done=True)


# ---------------------------------------------------------------- the worker


def _become(request: dict[str, Any], number: int) -> None:
    """Turn this process into what `python script.py` is at its first line, except for what is
    imported."""
    worker = request["workers"][number]
    os.setsid()
    for target, source in enumerate((os.open(os.devnull, os.O_RDONLY), *worker["output"])):
        os.dup2(source, target)
    os.closerange(3, _highest_fd() + 1)
    _reset_signals()
    os.environ.clear()
    os.environ.update({**request["shared"], **worker["variables"]})
    for name in request.get("unset", ()):
        os.environ.pop(name, None)
    _reset_modules()
    if request.get("is_launcher"):
        order = _hold_workers(request.get("num_held", 0))
        if order is not None:
            _start_held(request, order)
            return
        _attach([])
        _meet_quickly()
        return
    _attach(os.environ.pop("MUSTER_ATTACH", "").split())


class _HeldWorker:
    """A worker that was forked before torchrun has threads, and waits for what torchrun starts: the
    interpreter with a script. To torchrun it is a subprocess.Popen."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.pipe = pipe

    def start(self, order: dict[str, Any]) -> bool:
        """Give it what to become. False: it is not there any more."""
        try:
            with os.fdopen(self.pipe, "wb") as pipe:
                pipe.write(json.dumps(order).encode() + b"\n")
        except OSError:
            return False
        return self.poll() is None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has collected it
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        give_up_at = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if give_up_at is not None and time.monotonic() > give_up_at:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _hold_workers(num: int) -> dict[str, Any] | None:
    """Fork workers for torchrun to start. Return what to become in one of them, and None in torchrun. A
    version of torch in which it starts them in another way starts new processes."""
    if not num:
        return None
    held: list[_HeldWorker] = []
    try:
        module: Any = importlib.import_module(HANDLER)
        start = module.SubprocessHandler._popen
        if [*inspect.signature(start).parameters] != ["self", "args", "env"]:
            return None
    except Exception:
        return None
    for _ in range(num):
        reader, writer = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            break  # the others are new processes
        if pid == 0:
            for fd in (writer, *(other.pipe for other in held)):
                os.close(fd)
            os.setsid()  # torchrun signals its process group
            with os.fdopen(reader, "rb") as pipe:
                order: dict[str, Any] | None = json.loads(pipe.readline() or b"null")
            if order is None:
                os._exit(0)  # torchrun has ended
            return order
        os.close(reader)
        held.append(_HeldWorker(pid, writer))

    def popen(handler: Any, args: Sequence[str], env: dict[str, str]) -> Any:
        if held and [*args[:2]] == [sys.executable, "-u"]:
            outputs = [file and file.name for file in (handler._stdout, handler._stderr)]
            worker = held.pop(0)
            if worker.start({"args": args, "env": env, "outputs": outputs}):
                return worker
        return start(handler, args, env)

    module.SubprocessHandler._popen = popen
    return None


def _start_held(request: dict[str, Any], order: dict[str, Any]) -> None:
    """Turn a held worker into what torchrun wants it to be. What cannot be that becomes a new process."""
    args, variables = order["args"], dict(order["env"])
    for target, path in enumerate(order["outputs"], start=1):
        if path:
            os.dup2(os.open(path, _LOG_FLAGS, 0o666), target)
    os.closerange(3, _highest_fd() + 1)
    _reset_signals()
    entrypoint = args[2:]
    try:
        assert _label_of_us is not None
        _check_shadows(entrypoint, str(Path.cwd()))
        own = {k: v for k, v in variables.items() if request["shared"].get(k) != v}
        _label_of_us.write(" ".join(args), own)
    except Unfit:
        os.execve(args[0], args, variables)  # noqa: S606  # what torchrun asked for
    what = variables.pop("MUSTER_ATTACH", "").split()
    # What finds our sitecustomize, as that does for a new interpreter.
    variables.pop("MUSTER_PYTHONPATH", None)
    site = str(Path(_HERE).with_name("attach_site"))
    path = [entry for entry in variables.pop("PYTHONPATH", "").split(os.pathsep) if entry != site]
    if any(path):
        variables["PYTHONPATH"] = os.pathsep.join(path)
    os.environ.clear()
    os.environ.update(variables)
    _reset_modules()
    request["entrypoint"] = entrypoint
    _attach(what)


def _attach(what: list[str]) -> None:
    """Have the script outlive signals to all and be measured, as a new interpreter does that finds our
    sitecustomize."""
    try:
        importlib.import_module("muster.launch.site_signals").install()
        if what:
            importlib.import_module("muster.launch.uncaught").install()
            attach = importlib.import_module("muster.launch.attach")
            attach.install(what)
            attach.pass_on(what)
    except Exception as error:  # an interpreter in which nothing of ours works
        sys.stderr.write(f"muster: nothing is measured: {type(error).__name__}: {error}\n")


def _meet_quickly() -> None:
    """Have torchrun look for the other nodes every LOOK_S seconds. It waits a second between two looks, and
    keeps what it has read for as long; it has no option for either. A version of torch in which this is
    written in another way keeps its own pace."""
    with contextlib.suppress(Exception):
        module: Any = importlib.import_module(RENDEZVOUS)
        start, delay = module._BackendRendezvousStateHolder.__init__, module._delay
        if start.__defaults__ == (1,) and [*inspect.signature(delay).parameters] == ["seconds"]:
            start.__defaults__ = (0,)
            module._delay = lambda seconds: delay(LOOK_S)


def _highest_fd() -> int:
    return max(int(path.name) for path in Path("/proc/self/fd").iterdir())


def _reset_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # one of the C library's own
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)  # as Python does at its start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _reset_modules() -> None:
    """Reset what modules took from the process in which they were imported."""
    import multiprocessing.process
    import threading

    # `random` seeds itself after a fork.
    sys.modules["torch"].default_generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    multiprocessing.process.ORIGINAL_DIR = str(Path.cwd())  # type: ignore[attr-defined]
    multiprocessing.process.current_process().authkey = os.urandom(32)
    threading.main_thread()._native_id = threading.get_native_id()  # type: ignore[attr-defined]
    cache = getattr(sys.modules.get("torch._dynamo.package"), "DynamoCache", None)
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if folder and hasattr(cache, "path_prefix"):
        cache.path_prefix = f"{folder}/dynamo"  # type: ignore[union-attr]


def _run(entrypoint: list[str]) -> None:
    """Run the script or module as `__main__`. Its exceptions pass through."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    vars(module)["__annotations__"] = {}
    sys.modules["__main__"] = sys.modules[ALIAS] = module
    is_safe = getattr(sys.flags, "safe_path", False)
    if entrypoint[0] == "-m":
        import runpy

        sys.orig_argv = [sys.executable, *entrypoint]
        sys.argv = ["-m", *entrypoint[2:]]
        if not is_safe:
            sys.path.insert(0, str(Path.cwd()))
        runpy._run_module_as_main(entrypoint[1])  # type: ignore[attr-defined]  # what -m calls
        return
    sys.orig_argv = [sys.executable, *entrypoint]
    sys.argv = list(entrypoint)
    if not is_safe:
        sys.path.insert(0, _script_folder(Path(entrypoint[0])))
    path = str(Path(entrypoint[0]).absolute())
    from importlib.machinery import SourceFileLoader

    module.__file__ = path
    module.__dict__["__cached__"] = None
    module.__loader__ = loader = SourceFileLoader("__main__", path)
    code = compile(loader.get_data(path), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102


def _leave_out_our_frames(error: BaseException) -> None:
    """Let the traceback begin where that of a plain Python does."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, _HERE):
        trace = trace.tb_next
    hook = sys.excepthook

    def show(kind: Any, value: Any, _: Any) -> None:
        hook(kind, value.with_traceback(trace), trace)

    sys.excepthook = show


if __name__ == "__main__":
    _us = sys.modules["__main__"]  # our globals must outlive our name
    try:
        _job = main()
    except Unfit as error:
        sys.stderr.write(f"unfit: {error}\n")
        os._exit(3)
    assert _job is not None
    _become(*_job)
    try:
        _run(_job[0]["entrypoint"])
    except SystemExit:
        raise
    except BaseException as error:
        _leave_out_our_frames(error)
        raise
