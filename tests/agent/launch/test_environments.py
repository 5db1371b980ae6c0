"""Environments that are built on the node: real uv, wheels from a folder, no index."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster.document.running import EnvironmentSection
from muster.launch.variables import SITE_FILE
from muster_agent.environments.build import Built, EnvironmentCache, find_uv
from muster_agent.environments.cleaning import collect, marker_of
from muster_agent.environments.failures import BuildFailed
from muster_agent.environments.interpreters import choose
from muster_agent.records.logs import launcher_log
from support.nodes.wheels import make_wheel


@pytest.fixture
def index(tmp_path: Path) -> dict[str, str]:
    """Variables with which uv sees a folder of wheels and nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "1.1"):
        make_wheel(folder, "tinypkg", version, script=True)
    return {"UV_FIND_LINKS": str(folder), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}


@dataclasses.dataclass
class Builder:
    folder: Path
    index: dict[str, str]
    limit_bytes: int = 10**12

    def __call__(self, *requirements: str, **changes: Any) -> Built:
        code = self.folder / "code"
        code.mkdir(parents=True, exist_ok=True)
        cache = EnvironmentCache(self.folder / "environments", limit_bytes=self.limit_bytes)
        given: dict[str, Any] = {
            "uv": find_uv(),
            "python": sys.executable,
            "code": code,
            "code_id": "c1",
        }
        options = {k: changes.pop(k) for k in list(changes) if k in given}
        return cache.open(
            EnvironmentSection(requirements=requirements, **changes),
            **{**given, **options},
            environment={**os.environ, **self.index},
            log=self.log,
        )

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def num_built(self) -> int:
        return self.log.read_text().count("building an environment")

    def output(self, built: Built, code: str) -> str:
        command = [built.python, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def build(tmp_path: Path, index: dict[str, str]) -> Builder:
    return Builder(tmp_path / "build", index)


def test_packages_are_added_to_those_of_the_interpreter(build: Builder) -> None:
    built = build("tinypkg")
    seen = json.loads(
        build.output(
            built,
            "import importlib.metadata as m, json, tinypkg, torch, sys;"
            "print(json.dumps([tinypkg.VERSION, torch.__file__, m.version('torch'), sys.prefix]))",
        )
    )
    import torch

    assert seen == ["1.1", torch.__file__, torch.__version__, str(Path(built.python).parents[1])]
    programs = Path(built.python).parent
    assert (programs / "tinypkg").exists()
    # The base's programs run with what was installed here.
    assert str(programs) in (programs / "torchrun").read_text()
    began = time.monotonic()
    again = build("tinypkg")
    assert again.python == built.python
    assert time.monotonic() - began < 5
    assert build.num_built() == 1
    assert build("tinypkg<1.1").python != built.python
    assert build.num_built() == 2


def test_a_package_of_the_interpreter_is_replaced_in_the_environment_alone(
    build: Builder, index: dict[str, str]
) -> None:
    import packaging

    make_wheel(Path(index["UV_FIND_LINKS"]), "packaging", "1.0")
    built = build("packaging<2")
    assert build.output(built, "import packaging; print(packaging.VERSION)") == "1.0"
    assert build.output(built, "import torch; print(torch.__version__ > '2')") == "True"
    assert Path(packaging.__file__).exists()


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        (["tinypkg==9"], "there is no version of tinypkg==9"),
        (["nosuchpackage"], "nosuchpackage was not found"),
        (["torch==2.4.0"], "the node's torch is used, and environment.torch: own installs another"),
        (["tinypkg ~> 3"], "tinypkg ~> 3"),
        (["requirements.txt"], "requirements.txt does not exist in the code folder"),
    ],
)
def test_what_cannot_be_resolved_is_said_in_uvs_words(
    build: Builder, requirements: list[str], words: str
) -> None:
    with pytest.raises(BuildFailed) as caught:
        build(*requirements)
    assert words in str(caught.value)
    assert caught.value.fault == "document"
    assert not [p for p in (build.folder / "environments").iterdir() if (p / "bin").exists()]
    if words.startswith("there"):
        assert "there is no version" in build.log.read_text()


def test_an_index_that_cannot_be_reached_is_the_nodes_fault(build: Builder) -> None:
    build.index = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    with pytest.raises(BuildFailed) as caught:
        build("tinypkg")
    assert caught.value.fault == "node"


def test_files_of_the_code_count_by_their_content(build: Builder) -> None:
    code = build.folder / "code"
    code.mkdir(parents=True)
    (code / "requirements.txt").write_text("-r more.txt\n")
    (code / "more.txt").write_text("tinypkg<1.1\n")
    first = build("requirements.txt")
    (code / "more.txt").write_text("tinypkg==1.1\n")
    second = build("requirements.txt")
    assert first.python != second.python
    assert build.output(second, "import tinypkg; print(tinypkg.VERSION)") == "1.1"
    marked = "\ufefftinypkg==1.1\n"  # as PowerShell writes it
    (code / "requirements.txt").write_bytes(marked.encode("utf-16-le"))
    third = build("requirements.txt")
    assert build.output(third, "import tinypkg; print(tinypkg.VERSION)") == "1.1"
    (code / "requirements.txt").write_text("-e .\n")
    with pytest.raises(BuildFailed, match="editable"):
        build("requirements.txt")


def test_a_lock_is_installed_as_it_is(build: Builder, index: dict[str, str]) -> None:
    code = build.folder / "code"
    code.mkdir(parents=True)
    (code / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.11"\n'
        'dependencies = ["tinypkg<1.1"]\n'
    )
    environment = {**os.environ, **index, "UV_PYTHON_DOWNLOADS": "never"}
    command = [find_uv(), "lock", "--quiet", "--python", sys.executable]
    subprocess.run(command, cwd=code, env=environment, check=True)
    build("uv.lock")
    assert "is older than" not in build.log.read_text()
    (code / "pyproject.toml").write_text(
        (code / "pyproject.toml").read_text().replace("tinypkg<1.1", "tinypkg")
    )
    locked = build("uv.lock")
    assert build.output(locked, "import tinypkg; print(tinypkg.VERSION)") == "1.0"
    said = "uv.lock is older than pyproject.toml, which has other requirements of tinypkg"
    assert said in build.log.read_text()
    unlocked = build("pyproject.toml")
    assert build.output(unlocked, "import tinypkg; print(tinypkg.VERSION)") == "1.1"


def test_setup_runs_once_in_the_environment(build: Builder) -> None:
    setup = ('echo x >> "$VIRTUAL_ENV/times"; tinypkg > said', "python -c 'import tinypkg'")
    built = build("tinypkg", setup=setup)
    build("tinypkg", setup=setup)
    assert (Path(built.python).parents[1] / "times").read_text() == "x\n"
    assert (build.folder / "code" / "said").read_text() == "program 1.1\n"
    assert "[setup] $ python -c 'import tinypkg'\n" in build.log.read_text()
    with pytest.raises(BuildFailed) as caught:
        build(setup=("echo no license >&2; exit 4",))
    assert str(caught.value) == (
        "the setup command `echo no license >&2; exit 4` exited with code 4: no license"
    )
    assert caught.value.fault == "document"
    # Other code, another environment: the commands may read it.
    assert build("tinypkg", setup=setup, code_id="c2").python != built.python


def test_an_environment_of_its_own_has_nothing_of_the_interpreter(build: Builder) -> None:
    built = build("tinypkg", torch="own")
    found = "import importlib.util; print(importlib.util.find_spec('torch'))"
    assert build.output(built, found) == "None"
    # Except a line by which a job is found that replaces PYTHONPATH.
    assert list(Path(built.python).parent.parent.glob(f"lib/python3*/site-packages/{SITE_FILE}"))


def test_the_least_recently_used_is_deleted_unless_it_is_in_use(build: Builder) -> None:
    old, used, new = build("tinypkg<1.1"), build("tinypkg"), build("tinypkg", setup=("true",))
    folders = [Path(b.python).parents[1] for b in (old, used, new)]
    for age, folder in zip((3000, 2000, 1000), folders, strict=True):
        os.utime(marker_of(folder), (time.time() - age,) * 2)
    os.close(old.lock)
    os.close(new.lock)
    size = json.loads(marker_of(folders[2]).read_text())["size_bytes"]
    assert size > 0
    cache = build.folder / "environments"
    assert collect(cache, limit_bytes=size) == [cache]
    assert [folder.exists() for folder in folders] == [False, True, True]
    os.close(used.lock)
    assert collect(cache, limit_bytes=0) == [cache]
    assert not any(folder.exists() for folder in folders)
    # A builder that was killed leaves a part.
    (folders[0] / "bin").mkdir(parents=True)
    assert collect(cache, limit_bytes=10**12) == []
    assert not folders[0].exists()
    # What was deleted is built again.
    assert Path(build("tinypkg").python).exists()


def test_without_uv_the_node_says_what_it_lacks(tmp_path: Path) -> None:
    cache = EnvironmentCache(tmp_path, limit_bytes=0)
    with pytest.raises(BuildFailed, match="pip install uv"):
        cache.open(
            EnvironmentSection(requirements=("x",)),
            uv="",
            python=sys.executable,
            code=tmp_path,
            code_id="",
            environment={},
            log=tmp_path / "log",
        )


def test_a_version_stands_for_the_interpreter_that_has_it(tmp_path: Path) -> None:
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert choose(None, sys.executable) == sys.executable
    assert choose("/opt/python", sys.executable) == "/opt/python"
    assert choose(minor, sys.executable) == sys.executable
    assert choose(f"{minor}.{sys.version_info.micro}", sys.executable) == sys.executable
    assert choose("3.4", sys.executable) == "python3.4"


# ---------------------------------------------------------------- under a shim


@pytest.fixture
def job(shims: Any, index: dict[str, str]) -> Callable[..., Any]:
    """Starts the shim of a job with an environment; all jobs of a test share one cache."""

    def start(allocation_id: str = "a1", script: str = "", **document: Any) -> Any:
        return shims(
            script or "import tinypkg, torch; print(tinypkg.VERSION)",
            allocation_id=allocation_id,
            slots=[0],
            world_size=1,
            config={"name": "x", "environment": document},
            options={"environments": str(shims.home / "environments"), "uv": find_uv()},
            environment=index,
        )

    return start


def said(shim: Any) -> str:
    path = launcher_log(shim.folder.logs, "stdout")
    return path.read_text() if path.exists() else ""


def pid_of(shim: Any) -> int:
    """The setup command that has told its pid; 0 before."""
    found = re.search(r"^pid=(\d+)$", said(shim), re.MULTILINE)
    return int(found[1]) if found else 0


def test_a_job_runs_in_its_environment_and_its_log_tells_of_the_build(job: Any) -> None:
    shim = job(requirements=["tinypkg"])
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert shim.printed(0) == "1.1\n"
    assert "[setup] building an environment for" in said(shim)
    assert "tinypkg==1.1" in said(shim)
    again = job("a2", requirements=["tinypkg"])
    again.start()
    assert again.wait_exit().cause == "success"
    assert said(again) == ""


def test_two_jobs_build_once(job: Any) -> None:
    both = [job(f"a{n}", requirements=["tinypkg"], setup=["sleep 1"]) for n in (1, 2)]
    for shim in both:
        shim.wait_state("READY", timeout_s=120)
    text = "".join(said(shim) for shim in both)
    assert text.count("building an environment") == 1
    assert text.count("waiting for the same environment") == 1


def test_what_cannot_be_resolved_ends_the_trial(job: Any) -> None:
    shim = job(requirements=["tinypkg==9"])
    state = shim.wait_state("PREPARE_FAILED", timeout_s=120)
    assert state.blames == "document"
    assert "there is no version of tinypkg==9" in state.message
    assert "[setup] failed:" in said(shim)


def test_a_stop_ends_a_build(job: Any, wait_for: Any) -> None:
    shim = job(requirements=["tinypkg"], setup=["echo pid=$$; exec sleep 600"])
    pid = wait_for(lambda: pid_of(shim))
    shim.command("stop", reason="enough")
    assert shim.wait_exit().cause == "stopped"
    assert not psutil.pid_exists(pid)


def test_the_next_job_repairs_what_a_killed_builder_left(
    job: Any, shims: Any, wait_for: Any
) -> None:
    marker = shims.home.parent / "slow"
    marker.touch()
    setup = [f"echo pid=$$; if [ -e {marker} ]; then exec sleep 600; fi"]
    first = job(requirements=["tinypkg"], setup=setup)
    pid = wait_for(lambda: pid_of(first))
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    marker.unlink()
    second = job("a2", requirements=["tinypkg"], setup=setup)
    # What the killed builder has started may still write: it is waited for.
    wait_for(lambda: "waiting for the same environment" in said(second))
    assert psutil.pid_exists(pid)
    os.kill(pid, signal.SIGKILL)  # as the agent does with all that carries the allocation's marks
    second.start()
    assert second.wait_exit().cause == "success"
    assert second.printed(0) == "1.1\n"


def test_the_agent_finds_what_a_killed_builder_left(job: Any, wait_for: Any) -> None:
    shim = job(requirements=["tinypkg"], setup=["echo pid=$$; exec sleep 600"])
    pid = wait_for(lambda: pid_of(shim))
    assert pid in {identity.pid for identity in shim.folder.processes()}
    assert [s.observed for s in shim.of(wire.StateRecord)] == ["PREPARING"]
