"""The program that builds an environment, or makes a data set, behind the walls of the job that asks for it.

    python -m muster_agent.environments.builder key|build RESULT_FD < request
    python -m muster_agent.environments.builder key|build RESULT_FILE < request

Everything that runs code of the job, or reads and writes files that such code may have replaced,
is done here: asking the interpreter, reading requirement files, uv, setup commands, commands that make
data, and the files that Muster adds. muster_agent.environments.build starts it, and decides where what is
built lies and whether it is complete.

The request is JSON (`BuildRequest`). So is the answer, which is written to RESULT_FD: `{"key": "…"}`,
`{}` for a finished environment, or `{"failed": "…", "fault": "document"}`. The log is standard
output, which is read again to explain a failure, so it is a file. A container inherits no
descriptors: there, the answer is a file, and the request names the file of the log.

The interpreter of a container's image runs this program, so what it imports needs nothing but the
standard library, `muster`, and the packages that muster_agent.environments.build brings along.

An environment is laid over the interpreter of the node: what is installed there, torch above all,
is used and not installed again. A `.pth` file adds the base's packages, and copies of their
metadata let uv see them; see `_overlay`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.document.codec import dump, load
from muster.document.running import EnvironmentSection, is_requirements_file
from muster.launch.variables import DATA_PREFIX, SITE_FILE, SITE_LINE
from muster_agent.environments.base import link_programs, read_base
from muster_agent.environments.content import key_of, key_of_data
from muster_agent.environments.failures import BuildFailed
from muster_agent.environments.interpreters import activated
from muster_agent.environments.locks import why_outdated

STEP_TIMEOUT_S = 7200.0
"""Seconds for one step of a build: flash-attn compiles for an hour."""
MAX_MESSAGE_CHARS = 1500
MAX_WORDS_BYTES = 200_000
BUILT_WITH_TORCH = ("causal-conv1d", "deepspeed", "flash-attn", "mamba-ssm", "xformers")
"""Packages whose builds import torch, which uv otherwise builds without the environment."""
_LOG_FD = 1
_NODES_FAULT = re.compile(
    r"error sending request|dns error|timed out|[Cc]onnection (refused|reset)|tcp connect|"
    r"Failed to (fetch|download)|No space left|Permission denied|Disk quota|Read-only file system"
)


@dataclass(frozen=True, kw_only=True)
class DataRequest:
    """A data set that a command makes."""

    name: str
    words: str
    """The command as people know it."""
    command: str
    """The command as the shell gets it."""
    version: str = ""
    inputs: tuple[str, ...] = ()
    """What identifies the content of the data sets that the command names."""


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What to build, and with what."""

    wanted: EnvironmentSection = field(default_factory=EnvironmentSection)
    data: DataRequest | None = None
    """The data set to make; None: an environment is wanted."""
    python: str
    """The interpreter below the environment, or that of a data set's job."""
    code: Path
    """Folder with the files named in `requirements` and in `data`, in which commands run."""
    code_id: str
    """Identifies the content of `code`; "" if that may change without notice."""
    uv: str
    path: Path
    """Folder of what is built, which exists and is empty. Only for a build."""
    lock: int
    """Descriptor that the programs of a build inherit: the folder stays locked while they run,
    whatever becomes of this process. -1 for none."""
    environment: dict[str, str]
    """Variables of uv and of the commands."""
    image_id: str = ""
    """Image that the interpreter is in; "" for one of the node."""
    log: str = ""
    """File of the log; "" if standard output is that file already."""

    def to_json(self) -> str:
        data = dump(self.data) if self.data is not None else None
        plain = {**vars(self), "wanted": dump(self.wanted), "data": data}
        return json.dumps(plain, default=str)

    @staticmethod
    def from_json(text: str) -> BuildRequest:
        given: dict[str, Any] = json.loads(text)
        given["wanted"] = load(EnvironmentSection, given["wanted"])
        given["data"] = load(DataRequest, given["data"]) if given["data"] else None
        return BuildRequest(**{**given, "code": Path(given["code"]), "path": Path(given["path"])})


def main() -> int:
    what, result = sys.argv[1:]
    result_fd = int(result) if result.isdigit() else os.open(result, os.O_WRONLY)
    request = BuildRequest.from_json(sys.stdin.read())
    if request.log:
        log = os.open(request.log, os.O_RDWR | os.O_APPEND)
        os.dup2(log, _LOG_FD)
        os.dup2(log, 2)
    # The job runs as another user where the agent is root, and reads what is built here.
    os.umask(0o022)
    answer: dict[str, str]
    try:
        if what == "key":
            answer = {"key": _key(request)}
        else:
            (_EnvironmentRecipe if request.data is None else _DataRecipe)(request).run()
            answer = {}
    except BuildFailed as error:
        answer = {"failed": str(error), "fault": error.fault}
    except OSError as error:
        which = "environment" if request.data is None else f"data set {request.data.name}"
        answer = {"failed": f"the {which} cannot be written: {error}", "fault": "node"}
    os.write(result_fd, json.dumps(answer).encode())
    return 0


def _key(request: BuildRequest) -> str:
    if (data := request.data) is not None:
        return key_of_data(data.words, data.version, data.inputs, code=request.code)
    return key_of(
        request.wanted,
        read_base(request.python),
        code=request.code,
        code_id=request.code_id,
        environment=request.environment,
        image_id=request.image_id,
    )


class _Recipe:
    """Programs that fill a folder, one after the other."""

    def __init__(self, request: BuildRequest) -> None:
        self._request = request
        self._path = request.path
        self._running: subprocess.Popen[bytes] | None = None
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, number: int, _frame: object) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()
        os._exit(128 + number)

    def _shell(self, line: str, environment: dict[str, str], name: str, words: str = "") -> None:
        """Run a line of a shell. Raises BuildFailed where it fails.

        name: what it is to people. words: the line as they know it, if that is another.
        """
        words = words or line
        _say(f"$ {words}")
        code, said = self._run(["/bin/sh", "-c", line], environment)
        if code == 0:
            return
        how = f"exited with code {code}" if code > 0 else f"was killed by signal {-code}"
        last = said.strip().splitlines()[-1:] or ["no output"]
        is_documents = code > 0 and code != os.EX_TEMPFAIL
        raise BuildFailed(
            f"{name} `{words}` {how}: {last[0]}"[:MAX_MESSAGE_CHARS],
            fault="document" if is_documents else "node",
        )

    def _run(self, argv: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
        """Run a command with its output in the log. Return its exit code, or minus the signal, and
        its output."""
        start = os.fstat(_LOG_FD).st_size
        try:
            self._running = subprocess.Popen(
                argv,
                env=environment,
                cwd=self._request.code,
                stdin=subprocess.DEVNULL,
                pass_fds=(self._request.lock,) if self._request.lock >= 0 else (),
            )
        except OSError as error:
            what = "build the environment" if self._request.data is None else "make the data set"
            raise BuildFailed(
                f"{argv[0]} cannot be run to {what}: {error.strerror}", fault="node"
            ) from error
        try:
            code = self._running.wait(STEP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
            raise BuildFailed(
                f"`{shlex.join(argv[:3])} …` did not end within {STEP_TIMEOUT_S:.0f} s",
                fault="node",
            ) from None
        return code, os.pread(_LOG_FD, MAX_WORDS_BYTES, start).decode("utf-8", "replace")


class _DataRecipe(_Recipe):
    def run(self) -> None:
        """Have the command fill the folder. Raises BuildFailed and OSError."""
        data = self._request.data
        assert data is not None
        variable = f"{DATA_PREFIX}{data.name.upper()}"
        name = f"the command of the data set {data.name}"
        environment = {**self._request.environment, variable: str(self._path)}
        self._shell(data.command, environment, name, data.words)
        if next(self._path.iterdir(), None) is None:
            raise BuildFailed(
                f"{name} `{data.words}` has written nothing to ${variable}", fault="document"
            )
        # All jobs of the project read it, and none is to change it by mistake.
        for parent, folders, files in os.walk(self._path, topdown=False):
            for entry in (*(Path(parent, name) for name in (*folders, *files)), Path(parent)):
                if not entry.is_symlink():
                    mode = entry.stat().st_mode | (0o555 if entry.is_dir() else 0o444)
                    entry.chmod(mode & ~0o222)


class _EnvironmentRecipe(_Recipe):
    def __init__(self, request: BuildRequest) -> None:
        super().__init__(request)
        self._base = read_base(request.python)
        self._wanted = request.wanted

    def run(self) -> None:
        """Build the environment in its empty folder. Raises BuildFailed and OSError."""
        self._overlay()
        self._install()
        link_programs(self._base, self._path)
        environment = activated(self._variables(), str(self._path / "bin" / "python"))
        for line in self._wanted.setup:
            self._shell(line, environment, "the setup command")

    def _overlay(self) -> None:
        """Create an environment in which the packages of the base exist.

        The metadata of each is copied with a RECORD that lists the copy alone, so uv counts it as
        installed, and replaces it without touching the base.
        """
        python = os.path.realpath(shutil.which(self._base.python) or self._base.python)
        self._uv("venv", "--quiet", "--allow-existing", "--python", python, str(self._path))
        (site,) = self._path.glob("lib/python3*/site-packages")
        (site / SITE_FILE).write_text(SITE_LINE)
        if self._wanted.torch == "own":
            return
        lines = [f"import site; site.addsitedir({folder!r})\n" for folder in self._base.sites]
        (site / "zz_muster_base.pth").write_text("".join(lines))
        for source in self._base.metadata():
            target = site / source.name
            target.mkdir()
            for name in ("METADATA", "WHEEL", "entry_points.txt"):
                if (source / name).exists():
                    shutil.copy(source / name, target / name)
            (target / "INSTALLER").write_text("muster-base")
            files = [*sorted(file.name for file in target.iterdir()), "RECORD"]
            record = "".join(f"{source.name}/{file},,\n" for file in files)
            (target / "RECORD").write_text(record)

    def _install(self) -> None:
        arguments = []
        packages = []
        code = self._request.code
        for item in self._wanted.requirements:
            if Path(item).name == "uv.lock":
                arguments += ["-r", str(self._export_lock(code / item))]
            elif is_requirements_file(item):
                arguments += ["-r", str(code / item)]
            else:
                packages.append(item)
        if packages:
            listed = self._path / "muster-requirements.txt"
            listed.write_text("".join(f"{package}\n" for package in packages))
            arguments += ["-r", str(listed)]
        if not arguments:
            return
        if self._wanted.torch != "own":
            constraints = self._path / "muster-constraints.txt"
            constraints.write_text("".join(f"{line}\n" for line in self._base.constraints()))
            arguments += ["-c", str(constraints)]
        for name in BUILT_WITH_TORCH:
            arguments += ["--no-build-isolation-package", name]
        python = str(self._path / "bin" / "python")
        self._uv("pip", "install", "--python", python, *arguments)

    def _export_lock(self, lock: Path) -> Path:
        """Return the requirements of a uv.lock. Never locks again: a node is not the place."""
        if outdated := why_outdated(lock):
            _say(outdated)
        target = self._path / "muster-lock.txt"
        arguments = ["--frozen", "--no-hashes", "--no-emit-workspace", "--no-header", "--quiet"]
        if self._wanted.torch != "own":
            arguments += ["--prune", "torch"]
        self._uv("export", "--project", str(lock.parent), *arguments, "-o", str(target))
        return target

    def _uv(self, *arguments: str) -> None:
        environment = self._variables()
        environment.pop("VIRTUAL_ENV", None)
        environment.pop("CONDA_PREFIX", None)
        code, words = self._run([self._request.uv, *arguments], environment)
        if code == 0:
            return
        message = _explain(words) or f"uv {arguments[0]} exited with code {code}"
        if any(name in message for name in self._base.constraints()):
            message += "; the node's torch is used, and environment.torch: own installs another one"
        is_nodes = code < 0 or _NODES_FAULT.search(words) is not None
        raise BuildFailed(
            f"the environment cannot be built: {message}"[:MAX_MESSAGE_CHARS],
            fault="node" if is_nodes else "document",
        )

    def _variables(self) -> dict[str, str]:
        return {
            **self._request.environment,
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }


def _say(text: str) -> None:
    os.write(_LOG_FD, f"[setup] {text}\n".encode(errors="replace"))


def _explain(output: str) -> str:
    """Return what uv says about a failure, on one line, without hints and progress."""
    lines = [line.strip() for line in output.splitlines()]
    start = next(
        (i for i, line in enumerate(lines) if line.startswith(("error:", "×", "x ", "hint:"))), None
    )
    if start is None:
        return " ".join(lines[-3:]).strip()
    kept = [re.sub(r"^(error:|×|╰─▶|├─▶|cause:|x )\s*", "", line) for line in lines[start:]]
    return " ".join(line for line in kept if line and not line.startswith("hint:"))


if __name__ == "__main__":
    sys.exit(main())
