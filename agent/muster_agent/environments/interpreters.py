"""Facts about Python interpreters, asked once each and remembered on disk.

Nothing here imports torch: versions are read from package metadata by the interpreter itself,
which takes tens of milliseconds instead of seconds.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from muster_agent.isolation.walls import Isolation, Program, program

_PROBE = """
import importlib.metadata, importlib.util, json, os, platform, re, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except Exception:
        return ""
spec = importlib.util.find_spec("torch")
cuda = ""
if spec is not None and spec.origin:
    try:
        with open(spec.origin.replace("__init__.py", "version.py")) as f:
            found = re.search(r"^cuda[^=]*= '([^']*)'", f.read(), re.M)
        cuda = found.group(1) if found else ""
    except OSError:
        pass
packages = {}
for place in sys.path:
    try:
        names = os.listdir(place)
    except OSError:
        continue
    for name in names:
        stem, ending = os.path.splitext(name)
        if ending in (".dist-info", ".egg-info") and "-" in stem:
            package, number = stem.split("-")[:2]
            packages.setdefault(package.replace("_", "-").lower(), number)
print(json.dumps({
    "packages": ["%s==%s" % package for package in sorted(packages.items())],
    "python_version": platform.python_version(),
    "torch_version": version("torch") or ("unknown" if spec is not None else ""),
    "cuda_version": cuda,
}))
"""
_PROBE_TIMEOUT_S = 60.0
_VERSION = re.compile(r"3\.\d+(\.\d+)?")
_ACTIVATION = frozenset({"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"})
"""Variables that name the active environment. The agent's own may be another one."""
_FIND = """
import importlib.machinery, importlib.util, sys
name = ""
found = None
for part in sys.argv[1].split("."):
    name = name + "." + part if name else part
    if found is None:
        found = importlib.util.find_spec(name)
    elif not found.has_location:
        break
    else:
        with open(found.origin) as source:
            if "__path__" in source.read():
                break
        places = found.submodule_search_locations
        found = importlib.machinery.PathFinder.find_spec(name, places) if places else None
    if found is None:
        print("lacks", name)
        break
"""
"""Script that looks for a module without importing packages on the way, since that runs their code;
changes that a package makes to its own path are therefore not seen."""


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    python_version: str
    torch_version: str
    """Version of torch; empty if it cannot be imported there."""
    cuda_version: str
    """CUDA version that torch was built for; empty for a CPU build."""
    packages: list[str]
    """Installed packages such as "numpy==2.1.0", sorted, by the names of their metadata folders."""


class InterpreterError(Exception):
    """The interpreter cannot be used; the message is one sentence for people."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        """Create the error; `passes` marks one that may disappear on this node as it is."""
        super().__init__(message)
        self.passes = passes


def describe(
    python: str, *, cache: Path, isolation: Isolation | None = None, read: Iterable[Path] = ()
) -> Interpreter:
    """Return facts about `python`. Raises InterpreterError if it does not exist or does not run.

    isolation: walls to run it behind, since a document can name any program as its interpreter.
    read: folders that it needs besides its own.
    """
    container = isolation.container if isolation is not None else None
    executable = python if container is not None else shutil.which(python)
    if executable is None:
        raise InterpreterError(f"the interpreter {python} does not exist on this node")
    key = fingerprint(executable)
    if container is not None:
        where = [container.image, python, *map(str, container.mounts)]
        key = hashlib.sha256("\0".join(where).encode()).hexdigest()[:32]
    path = cache / f"{key}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return Interpreter(**json.loads(path.read_text()))
    try:
        with program(
            isolation or Isolation(),
            [executable, "-c", _PROBE],
            environment=os.environ if container is None else {},
            folder="/",  # A torch.py in the current folder must not be mistaken for torch.
            read=read,
        ) as started:
            done = _run(started)
        if done.returncode != 0:
            reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise InterpreterError(
                f"the interpreter {python} does not run: {' '.join(reason) or done.returncode}",
                passes=done.returncode < 0,
            )
        answer = json.loads(done.stdout)
        found = Interpreter(
            python_version=str(answer["python_version"]),
            torch_version=str(answer["torch_version"]),
            cuda_version=str(answer["cuda_version"]),
            packages=[str(package) for package in answer["packages"]],
        )
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        is_no_program = isinstance(error, OSError) and error.errno in (errno.ENOEXEC, errno.EACCES)
        raise InterpreterError(
            f"the interpreter {python} does not run: {error}",
            passes=not is_no_program and isinstance(error, OSError | subprocess.TimeoutExpired),
        ) from error
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(asdict(found)))
        temporary.replace(path)
    return found


def _run(started: Program) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        started.argv,
        capture_output=True,
        timeout=_PROBE_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        check=False,
        cwd=started.folder,
        env=started.environment,
        pass_fds=started.fds,
    )


def find_missing(
    module: str,
    python: str,
    *,
    folder: Path,
    environment: Mapping[str, str],
    isolation: Isolation | None = None,
    read: Iterable[Path] = (),
) -> str:
    """Return the first part of `module` that `python -m` would not find in `folder`: "pkg.train" of
    "pkg.train.main". Return "" if it exists, or if only running code could tell."""
    try:
        with program(
            isolation or Isolation(),
            [python, "-c", _FIND, module],
            environment=environment,
            folder=folder,
            read=[folder, *read],
        ) as started:
            done = _run(started)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = done.stdout.decode("utf-8", "replace").strip()
    return said.removeprefix("lacks ") if said.startswith("lacks ") else ""


def activated(environment: Mapping[str, str], python: str) -> dict[str, str]:
    """Return `environment` as activating the environment of `python` leaves it: its programs come
    first on PATH, and VIRTUAL_ENV or CONDA_PREFIX names its folder if it is one of either kind.

    Unchanged if `python` does not exist.
    """
    executable = shutil.which(python)
    if executable is None:
        return dict(environment)
    prefix = Path(executable).absolute().parent.parent
    variable = ""
    if (prefix / "pyvenv.cfg").is_file():
        variable = "VIRTUAL_ENV"
    elif (prefix / "conda-meta").is_dir():
        variable = "CONDA_PREFIX"
    return activated_at(environment, Path(executable).absolute().parent, variable)


def activated_at(
    environment: Mapping[str, str], programs: Path, variable: str = "VIRTUAL_ENV"
) -> dict[str, str]:
    """Return `environment` with `programs` first on PATH, and with `variable`, unless it is "", naming
    the folder above. The environment may lie over the interpreter of an image, which the node does
    not have."""
    others = environment.get("PATH", os.defpath).split(os.pathsep)
    path = [str(programs), *(folder for folder in others if folder != str(programs))]
    found = {k: v for k, v in environment.items() if k not in _ACTIVATION}
    found["PATH"] = os.pathsep.join(path)
    if variable:
        found[variable] = str(programs.parent)
    return found


def choose(python: str | None, default: str) -> str:
    """Return the interpreter that a document asks for: a path or name as it is, a version as the
    interpreter of that version here. None means `default`.

    A version that is not here is returned as the name of a program that does not exist.
    """
    if python is None or not _VERSION.fullmatch(python):
        return python or default
    minor = ".".join(python.split(".")[:2])
    for candidate in (default, f"python{minor}"):
        executable = shutil.which(candidate)
        if executable is not None and _has_version(executable, python):
            return candidate if candidate == default else executable
    return f"python{python}"


@functools.cache
def _has_version(executable: str, version: str) -> bool:
    code = "import platform; print(platform.python_version())"
    try:
        done = subprocess.run(
            [executable, "-I", "-S", "-c", code],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return f"{done.stdout.strip()}.".startswith(f"{version}.")


def is_our_own(python: str) -> bool:
    """Return whether `python` is the interpreter that runs the agent, with its packages."""
    return shutil.which(python) == sys.executable


def fingerprint(executable: str) -> str:
    """Return a fingerprint that changes when packages are installed or removed, through their folder's time.

    executable: absolute path.
    """
    parts = [executable]
    prefix = Path(executable).parent.parent
    for folder in [Path(executable).resolve(), *sorted(prefix.glob("lib/python3*/site-packages"))]:
        with contextlib.suppress(OSError):
            parts.append(f"{folder}:{folder.stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
