"""What a hostile job can do at each level: the table of docs/concepts/security.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import muster
import muster_agent
from muster import wire
from muster_agent.environments.build import find_uv
from muster_agent.isolation.variables import MARK
from support.nodes.wheels import make_wheel
from support.nodes.work_folders import bundle, files_of, final_of, stored

NOBODY = 65_534

ALWAYS = {"connect to ports of this machine"}
"""What no level prevents: jobs of a gang need the network of the machine."""
OF_ROOT = {"become root", "keep a capability"}
OF_SAME_USER = {
    "read the administrator's token",
    "read the agent's credential",
    "read the database",
    "read another job's files",
    "read another job's environment",
    "command its own shim",
    "command another job's shim",
    "signal its shim",
    "signal another job",
    "trace another job",
    "write into the agent's home",
    "gain rights by a setuid program",
    "make a user namespace",
}

WRITES = {
    "write into the agent's home": "home",
    "write into the agent's environment": "environment",
}
"""What is judged from outside: a folder of that name may be the sandbox's own."""


HOSTILE = Path(__file__).parents[2] / "support/nodes/hostile_job.py"
VICTIM = """
import os, time
path = os.path.join(os.environ['MUSTER_CHECKPOINT_DIR'], 'weights')
os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
open(path, 'w').write('x')
print('up', flush=True)
time.sleep(600)
"""
DETACHED = (
    "import os, time\nif os.fork(): time.sleep(600)\nos.setsid()\nif os.fork(): os._exit(0)\n"
)
"""What a greedy job begins with: what uses too much has left the group and the session of its job."""
GREEDY = {
    "memory": (
        {"memory": "150MB"},
        "held = []\nfor _ in range(20): held.append(bytearray(b'x' * 20_000_000)); time.sleep(0.05)\n",
    ),
    "processes": (
        {"processes": 20},
        "for _ in range(40):\n    if os.fork() == 0: time.sleep(600); os._exit(0)\n",
    ),
    "disk": (
        {"disk": "10MB"},
        "import tempfile\nfor i in range(30): tempfile.NamedTemporaryFile(dir=os.environ['MUSTER_WORK_DIR'], delete=False)"
        ".write(b'x' * 1_000_000)\n",
    ),
}
"""Limits of documents, and what exceeds each: stopped at every level, and the others go on."""


@dataclass
class Site:
    """A machine on which `muster up` has its home, with one agent at the level that is tested."""

    folder: Path
    plane: Any
    uid: int
    python: str
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def up(self) -> Path:
        return self.folder / "up"

    @property
    def home(self) -> Path:
        return self.up / "agents" / "local-1"

    def make(self) -> None:
        for path in (self.up, self.up / "data", self.up / "agents", self.home):
            path.mkdir()
            path.chmod(0o711)
        for secret in (self.up / "cli.json", self.up / "data" / "muster.db"):
            secret.write_text("secret")
            secret.chmod(0o600)
        for path in (self.up, *self.up.rglob("*")):
            os.chown(path, self.uid, self.uid)

    def start(self, level: str, **more: str) -> None:
        packages = [
            Path(muster_agent.__file__).parents[1],
            Path(muster.__file__).parents[1],
            sysconfig.get_path("purelib"),
        ]
        self.environment = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.folder),
            "PYTHONPATH": ":".join(str(path) for path in packages),
            MARK: str(self.up),
            "MUSTER_AGENT_SERVER_URL": self.plane.url,
            "MUSTER_AGENT_JOIN_TOKEN": self.plane.join_token,
            "MUSTER_AGENT_HOME": str(self.home),
            "MUSTER_AGENT_NAME": "local-1",
            "MUSTER_AGENT_SLOTS": "6",
            "MUSTER_AGENT_ADDRESS": "127.0.0.1",
            "MUSTER_AGENT_ISOLATION": level,
            "MUSTER_AGENT_WARM_WORKERS": "all",
            "LD_LIBRARY_PATH": libraries_of(self.python),
            **more,
        }
        uid = str(self.uid)
        change = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
        with (self.folder / "agent.log").open("wb") as words:
            self.process = subprocess.Popen(
                [
                    *(change if self.uid != os.geteuid() else []),
                    self.python,
                    "-m",
                    "muster_agent.cli",
                    "run",
                    "--stop-allocations",
                ],
                env=self.environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )

    def words(self) -> str:
        return (self.folder / "agent.log").read_text()

    def close(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=60)
            finally:
                self.process.kill()
                self.process.wait()


def reaches(uid: int, python: str) -> bool:
    """Whether that user can run that interpreter with our packages."""
    uids = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    site = sysconfig.get_path("purelib")
    done = subprocess.run(
        # Twice, for the first is found with our rights.
        ["setpriv", *uids, "sh", "-c", f"{python} -c 'import pydantic_core, psutil, ssl'"],
        env={
            "PYTHONPATH": site,
            "PATH": "/usr/bin:/bin",
            "LD_LIBRARY_PATH": libraries_of(python),
        },
        cwd="/",
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def libraries_of(python: str) -> str:
    """Where a copied interpreter has its shared library."""
    return str(Path(python).absolute().parent.parent / "lib")


def python_for(uid: int, place: Path) -> str:
    """An interpreter that this user can run: our own, or else a copy of it without its packages."""
    if not reaches(uid, sys.executable):
        shutil.copytree(
            sys.base_prefix,
            place / "python",
            symlinks=True,
            ignore=shutil.ignore_patterns("site-packages", "test", "__pycache__", "share", "*.a"),
        )
        (place / "python").chmod(0o755)
        copy = str(place / "python" / "bin" / Path(sys.executable).resolve().name)
        if not reaches(uid, copy):
            pytest.skip(f"no interpreter with our packages can be reached by user {uid}")
        return copy
    return sys.executable


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="muster-hostile-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def skip_unless_it_works(level: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to run agents as root and as another user")
    for program in ("setpriv", *(["bwrap"] if level == "sandbox" else ["unshare"])):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


@pytest.mark.parametrize(
    ("level", "is_root", "launchers", "possible"),
    [
        pytest.param("none", True, ["direct"], ALWAYS | OF_ROOT | OF_SAME_USER
                     | {"write into the agent's environment"}, id="none"),
        pytest.param("none", False, ["direct"], ALWAYS | OF_SAME_USER, id="none-unprivileged"),
        pytest.param("user", True, ["direct", "torchrun"], ALWAYS, id="user"),
        pytest.param("sandbox", True, ["direct", "torchrun"], ALWAYS, id="sandbox"),
        pytest.param("sandbox", False, ["direct", "torchrun"], ALWAYS, id="sandbox-unprivileged"),
    ],
)  # fmt: skip
def test_what_a_hostile_job_can_do(
    place: Path,
    plane: Any,
    make_spec: Callable[..., wire.AllocationSpec],
    wait_for: Callable[..., Any],
    level: str,
    is_root: bool,
    launchers: list[str],
    possible: set[str],
) -> None:
    """launchers: of one hostile job after the other; torchrun stands for workers that are forked from a
    warm parent."""
    skip_unless_it_works(level)
    uid = 0 if is_root else NOBODY
    python = python_for(NOBODY, place)
    from support.agent_control_plane import JOIN_TOKEN

    plane.join_token = JOIN_TOKEN
    site = Site(place, plane, uid, python)
    site.make()
    wanted: list[str] = []

    def want(name: str, slot: int, launcher: str = "direct", script: str = "", **more: Any) -> Path:
        """Want a job with this script, or a hostile one; return the folder of its code."""
        folder = place / name
        folder.mkdir()
        folder.chmod(0o755)
        if script:
            (folder / "main.py").write_text(script)
        else:
            shutil.copy(HOSTILE, folder / "main.py")
        wanted.append(name)
        plane.want(
            make_spec(
                name,
                code=wire.CodeSpec(kind="installed", path=str(folder)),
                checkpoint_dir=f"trial-{slot + 1}",
                slots=[slot],
                world_size=1,
                launcher=launcher,
                **more,
            )
        )
        return folder

    def state_of(name: str) -> Any:
        return json.loads((site.home / "allocations" / name / "shim.json").read_text())

    def wait_until_up(name: str) -> None:
        try:
            wait_for(lambda: "up" in plane.of(name).log_text(0), timeout_s=120)
        except BaseException:
            print(site.words(), plane.of(name).exit())
            raise

    def workers_of_victim() -> list[wire.WorkerRecord]:
        records = [r.record for r in plane.of("victim").records]
        return [r for r in records if isinstance(r, wire.WorkerRecord)]

    site.start(level)
    try:
        want("victim", 0, script=VICTIM, project_id=1)
        for slot, (name, (resources, script)) in enumerate(GREEDY.items(), start=1):
            script = f"{DETACHED}{script}time.sleep(600)\n"
            want(name, slot, script=script, project_id=3,
                 config={"name": "digits", "resources": resources})  # fmt: skip
        for slot, launcher in enumerate(launchers, start=4):
            name = f"hostile-{launcher}"
            folder = want(name, slot, launcher, project_id=2)
            wait_until_up(name)
            wait_until_up("victim")
            wait_for(workers_of_victim, timeout_s=60)
            targets = {
                "token": str(site.up / "cli.json"),
                "credential": str(site.home / "credential.json"),
                "database": str(site.up / "data" / "muster.db"),
                "other_file": str(site.home / "storage" / "trial-1" / "weights"),
                "other_pid": workers_of_victim()[0].pid,
                "other_control": state_of("victim")["control_socket"],
                "shim_pid": state_of(name)["pid"],
                "home": str(site.home),
                "environment": sysconfig.get_path("purelib"),
                "port": int(plane.url.rpartition(":")[2]),
                "pid_namespace": str(Path("/proc/self/ns/pid").readlink()),
            }
            draft = folder / "draft.json"
            draft.write_text(json.dumps(targets))
            draft.chmod(0o644)
            draft.rename(folder / "targets.json")
            wait_for(lambda n=name: plane.of(n).exit(), timeout_s=60)
            said = plane.of(name).log_text(0)
            error = plane.of(name).log_text(0, "stderr")
            assert plane.of(name).exit().cause == "success", (said, error, site.words())
            found = json.loads(said.splitlines()[1])
            for what, key in WRITES.items():
                file = Path(targets[key]) / "hostile"
                found[what] = file.exists()
                file.unlink(missing_ok=True)
            assert {what for what, succeeded in found.items() if succeeded} == possible
            shim_words = (site.home / "allocations" / name / "shim.log").read_text()
            assert "starting with torchrun" not in shim_words, shim_words
            assert ("warm_parent_started" in site.words()) == (launcher == "torchrun")
        for name in GREEDY:
            wait_for(lambda n=name: plane.of(n).exit(), timeout_s=60, what=f"the end of {name}")
            assert plane.of(name).exit().cause == "limit_exceeded", plane.of(name).exit()
            assert f"resources.{name}" in plane.of(name).exit().message
        assert plane.of("victim").exit() is None
    finally:
        for name in wanted:
            plane.forget(name)
        site.close()


def test_what_a_job_with_a_user_of_its_own_has_written_is_kept(
    place: Path, plane: Any, attempt: Callable[..., wire.AllocationSpec], wait_for: Any
) -> None:
    skip_unless_it_works("user")
    from support.agent_control_plane import JOIN_TOKEN

    plane.join_token = JOIN_TOKEN
    site = Site(place, plane, 0, python_for(NOBODY, place))
    site.make()
    (place / "wheels").mkdir()
    make_wheel(place / "wheels", "tinypkg", "1.0")
    programs = f"{Path(find_uv()).parent}:/usr/bin:/bin:/usr/sbin:/sbin"
    offline = {"UV_NO_INDEX": "1", "UV_OFFLINE": "1"}
    wheels = str(place / "wheels")
    site.start(
        "user", PATH=programs, UV_FIND_LINKS=wheels, MUSTER_AGENT_JOB_READS=wheels, **offline
    )
    script = (
        "import os, pathlib, sys, tinypkg\n"
        "pathlib.Path('made').mkdir()\n"
        "pathlib.Path('made/result.txt').write_text(f'{tinypkg.VERSION} {os.getuid()}')\n"
        "os.chmod('made/result.txt', 0o600)\n"
        "print('environment', os.access(sys.prefix, os.W_OK), flush=True)\n"
    )
    document = {"requirements": ["tinypkg"], "setup": ["id -u > $HOME/built-by"]}
    config = {"name": "x", "environment": document}
    code = bundle(plane, script)
    try:
        plane.want(attempt(1, code=code, project_id=3, config=config, launcher="direct"))
        try:
            wait_for(lambda: plane.of("a1").exit(), timeout_s=60)
        except BaseException:
            print(site.words(), [r.record for r in plane.of("a1").records])
            raise
        said = plane.of("a1").log_text(0), plane.of("a1").log_text(0, "stderr")
        assert plane.of("a1").exit().cause == "success", (said, site.words())
        assert "environment False" in said[0]
        found = files_of(final_of(plane, wait_for))
        assert {path: file.state for path, file in found.items()} == {"made/result.txt": "kept"}
        assert stored(site.home / "storage", found["made/result.txt"]) == b"1.0 400003"
        assert (site.home / "homes" / "project-3" / "built-by").read_text() == "400003\n"
    finally:
        plane.forget("a1")
        site.close()
