"""PREPARE: check before a gang is started everything that can be checked."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import muster
from muster import __version__, wire
from muster.byte_sizes import parse_size
from muster.document.codec import load
from muster.document.running import CodeSection
from muster.launch import commands, slurm
from muster.launch.variables import expand
from muster_agent.containers.images import Image
from muster_agent.environments.build import needs_building
from muster_agent.environments.interpreters import (
    Interpreter,
    InterpreterError,
    activated,
    activated_at,
    choose,
    describe,
    find_missing,
    is_our_own,
)
from muster_agent.isolation.containers import Container
from muster_agent.isolation.variables import communication_variables, not_of_machine
from muster_agent.isolation.walls import (
    Isolation,
    prefixes_of,
    why_not_readable,
)
from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.inputs import data_of, data_sections_of, secrets_of_job
from muster_agent.jobs.launch import (
    GIT_CEILING,
    LaunchContext,
    environment_of,
    gang_place,
    helps_launchers,
    inheritable,
    is_batch,
    is_built_in,
    shared_environment,
    shell_argv,
)
from muster_agent.outputs.storage import RefusedPath, Storage
from muster_agent.outputs.work import OUTPUT_FOLDER, TrialWork
from muster_agent.shim.failures import PrepareFailed, goes_by_itself
from muster_agent.shim.local_checkpoints import LocalStart, saves_locally, settle
from muster_agent.shim.preparation.building import Building
from muster_agent.shim.preparation.code_hash import hash_code
from muster_agent.shim.preparation.data_sets import read_data
from muster_agent.shim.preparation.image import open_image
from muster_agent.shim.preparation.work import PreparedWork, Tell, prepare_work

LOOPBACK_INTERFACE = "lo" if sys.platform == "linux" else "lo0"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    place: LaunchContext
    facts: wire.NodeFacts | None = None
    """Facts that are compared between the nodes of a gang."""
    environment: wire.JobEnvironment | None = None
    """What the workers run with, told by the first node of a gang."""
    work: PreparedWork
    """The trial's work folder, locked."""
    container: Container | None = None
    """The container that the job runs in; None if its document names no image."""
    local: LocalStart = field(default_factory=LocalStart)
    """What this disk has of the trial's checkpoints."""
    locks: tuple[int, ...] = ()
    """Descriptors that keep the environment and the data sets from being deleted, until this process ends."""


def prepare(
    spec: wire.AllocationSpec,
    options: ShimOptions,
    folder: AllocationFolder,
    *,
    report_socket: Path,
    environment: Mapping[str, str],
    tell: Tell,
    secrets: Mapping[str, str] = MappingProxyType({}),
    is_canceled: Callable[[], bool] = lambda: False,
) -> Prepared:
    """Take the work folder and check what the workers will need. Blocks; run it in a thread.

    tell: takes a message for the trial's events. secrets: those of the spec. Raises PrepareFailed, and BuildCanceled once
    `is_canceled` answers True.
    """
    _check_disk(folder.path, options.min_disk_free_bytes)
    for level, text in folder.read_messages():
        tell("warning" if level == "warning" else "info", text)
    _check_isolation(spec, options.isolation)
    _check_data(spec, options.isolation)
    check_downloads(spec, options, folder)
    sections = data_sections_of(spec)
    digests = Path(options.interpreter_cache).with_name("data-digests")
    data = read_data(sections, cache=digests, tell=tell, is_canceled=is_canceled)
    installed = _find_installed(spec, options.isolation)
    work = prepare_work(spec, options, folder, tell=tell)
    root = installed or work.work.files
    work_dir = _find_workdir(spec, root)
    folder.logs.mkdir(exist_ok=True)
    (folder.logs / "launcher").mkdir(exist_ok=True)
    container, image = open_image(
        spec, options, folder, secrets=secrets, tell=tell, is_canceled=is_canceled
    )
    if container is None:
        python = choose(spec.python, options.default_python)
        inherited = activated(inheritable(environment), python)
    else:
        python = container.python
        inherited = {**not_of_machine(inheritable(environment)), **container.environment}
        options = dataclasses.replace(
            options, isolation=dataclasses.replace(options.isolation, container=container)
        )
    base_python = ""
    locks: list[int] = []
    building = Building(spec, options, folder, root, work_dir, is_canceled)
    if needs_building(environment_of(spec)):
        base_python = python
        _check_interpreter(spec, python, options, is_base=True)
        ceiling = {GIT_CEILING: str(work.work.path.parent)}
        built = building.environment(python, inherited | ceiling)
        python = built.python
        locks.append(built.lock)
        inherited = activated_at(inherited, Path(python).parent)
    below = prefixes_of(base_python) if base_python and container is None else []
    if base_python and container is not None:
        below = [Path(python).parent.parent]
    interpreter = _check_interpreter(spec, python, options, read=below)
    kept = building.data(sections, data, python, inherited, secrets_of_job(spec, secrets), below)
    locks += [one.lock for one in kept.built.values()]
    of_kept = kept.as_folders(sections)
    read = read_data(of_kept, cache=digests, tell=tell, is_canceled=is_canceled)
    kept.confirm(read)
    data |= read
    is_own = container is None and is_our_own(python)
    sdk_path = "" if is_own else options.sdk_path
    _check_entrypoint(spec, work_dir)
    # The agent brings `sbatch` along: a node without Slurm has none.
    if commands.is_command(spec.entrypoint) and container is None and not is_batch(spec):
        path = expand(spec.environment.get("PATH", "${PATH}"), inherited)
        _check_program(spec.entrypoint, work_dir, python=python, path=path)
    if spec.entrypoint[0] == "-m" and not is_built_in(spec):
        shared = shared_environment(
            spec, inherited=inherited, sdk_path=sdk_path, loopback_interface=LOOPBACK_INTERFACE
        )
        _check_module(spec.entrypoint[1], python, work_dir, shared, options.isolation, below)
    checkpoint_dir = _make_checkpoint_dir(spec, options, folder)
    local = settle(spec, work.work.checkpoints)
    here = local.start
    (folder.cache / "inductor").mkdir(parents=True, exist_ok=True)
    (folder.cache / "triton").mkdir(exist_ok=True)
    folder.stacks.mkdir(exist_ok=True)
    folder.profiles.mkdir(exist_ok=True)
    folder.config.write_text(
        json.dumps({"hparams": spec.hparams, "config": spec.config, "seed": spec.seed})
    )
    return Prepared(
        facts=_facts(spec, interpreter, root, image, data) if spec.num_nodes > 1 else None,
        environment=(
            _job_environment(
                interpreter,
                python,
                image,
                communication_variables(inherited | spec.environment),
                data,
            )
            if spec.node_rank == 0
            else None
        ),
        container=container,
        work=work,
        locks=tuple(locks),
        local=local,
        place=_with_launchers(
            spec,
            folder,
            LaunchContext(
                python=python,
                work_dir=str(work_dir),
                files_dir=str(work.work.files),
                output_dir=str(work.work.output_dir),
                models_dir=str(folder.models) if spec.models else "",
                data=kept.paths,
                logs_dir=str(folder.logs),
                report_socket=str(report_socket),
                config_file=str(folder.config),
                checkpoint_dir=str(checkpoint_dir),
                checkpoint_local=str(work.work.checkpoints) if saves_locally(spec) else "",
                resume_from=str(work.work.checkpoints / here.path)
                if here
                else _find(spec.resume_from, options, checkpoint_dir),
                resume_step=local.step,
                weights_from="" if here else _find(spec.weights_from, options, checkpoint_dir),
                cache_dir=str(folder.cache),
                network_interface=options.network_interface,
                node_address=options.node_address,
                base_python=base_python,
                sdk_path=sdk_path,
                sdk_folder=options.sdk_path,
                attach_path=str(Path(muster.__file__).parent / "launch" / "attach_site"),
                loopback_interface=LOOPBACK_INTERFACE,
                device_numbers=tuple(options.device_numbers),
                num_threads=options.num_threads,
                inherited=inherited,
                has_own_devices=(
                    options.isolation.level == "sandbox"
                    if container is None
                    else not container.engine.is_plain
                ),
                gpus=tuple(options.isolation.gpus or ()),
            ),
        ),
    )


def _with_launchers(
    spec: wire.AllocationSpec, folder: AllocationFolder, place: LaunchContext
) -> LaunchContext:
    """Write what a command needs that brings a launcher along: see muster.launch.commands.

    Raises PrepareFailed if the command cannot be run on these nodes.
    """
    programs: dict[str, str] = {}
    if is_batch(spec):
        programs |= dict.fromkeys(slurm.PROGRAMS, slurm.program(place.python))
    if spec.launcher == "shell" and helps_launchers(spec):
        called = shlex.join([place.python, "-I", commands.__file__])
        text = f'#!/bin/sh\nexec {called} "$0" "$@"\n'
        programs |= dict.fromkeys(commands.LAUNCHERS, text)
    if not programs:
        return place
    anywhere = wire.Rendezvous(host="", port=0, run_id="")
    try:
        shell_argv(spec, place, anywhere)
    except commands.CommandConflict as error:
        raise PrepareFailed(f"the entry point {error}", blames="document") from error
    folder.launchers.mkdir(exist_ok=True)
    for name, text in programs.items():
        program = folder.launchers / name
        program.write_text(text)
        program.chmod(0o755)
    hostfile = ""
    if spec.num_nodes > 1:
        hostfile = str(folder.path / "hostfile")
        Path(hostfile).write_text(commands.hostfile(gang_place(spec, place, anywhere)))
    return dataclasses.replace(place, launchers_path=str(folder.launchers), hostfile=hostfile)


def _check_disk(path: Path, min_free_bytes: int) -> None:
    free = shutil.disk_usage(path).free
    if free < min_free_bytes:
        raise PrepareFailed(
            f"only {free // 2**20} MiB are free at {path}; at least {min_free_bytes // 2**20} MiB "
            "are needed for logs and reports",
            blames="node",
            passes=True,
        )


def _check_isolation(spec: wire.AllocationSpec, isolation: Isolation) -> None:
    wanted = (spec.config.get("resources") or {}).get("isolation", "none")
    levels: list[str] = list(wire.ISOLATION_LEVELS)
    if wanted in levels and levels.index(isolation.level) < levels.index(wanted):
        raise PrepareFailed(
            f"resources.isolation is {wanted}, and this node's level is {isolation.level} now"
        )


def _check_data(spec: wire.AllocationSpec, isolation: Isolation) -> None:
    for name, where in sorted(data_of(spec).items()):
        if "://" in where:
            continue  # Whether the job may read it depends on its own credentials.
        path = Path(where)
        if why := _why_not_readable(isolation, path, f"the data set {name} ({where})"):
            raise PrepareFailed(why)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            why = "does not exist" if is_missing else f"cannot be read ({error.strerror})"
            raise PrepareFailed(f"the data set {name} ({where}) {why} on this node") from error
        if not os.access(path, os.R_OK | (os.X_OK if stat.S_ISDIR(mode) else 0)):
            raise PrepareFailed(
                f"the data set {name} ({where}) cannot be read by the agent's user on this node"
            )


def check_downloads(
    spec: wire.AllocationSpec, options: ShimOptions, folder: AllocationFolder
) -> None:
    """Check that what the job downloads will fit. Raises PrepareFailed."""
    downloads = {
        name: parse_size(one.size)
        for name, one in data_sections_of(spec).items()
        if one.size and not one.is_kept
    }
    if not downloads:
        return
    wanted = sum(downloads.values())
    work = TrialWork.of(folder.path.parent.parent, spec)
    free = shutil.disk_usage(folder.path).free - options.min_disk_free_bytes
    if free < wanted:
        free += work.size_bytes()  # An earlier attempt may have downloaded some of it.
    if free < wanted:
        names = ", ".join(sorted(downloads))
        raise PrepareFailed(
            f"the job downloads {wanted / 1e9:,.1f} GB ({names} in data), and only "
            f"{max(0, free) / 1e9:,.1f} GB are free for it at {work.path.parent} on this node"
        )


def _find_installed(spec: wire.AllocationSpec, isolation: Isolation) -> Path | None:
    """Return the folder of code that is on the node already; None for any other code."""
    if spec.code.kind != "installed":
        return None
    path = Path(spec.code.path)
    if not path.is_absolute():
        raise PrepareFailed(
            f"code.installed must be an absolute path, not {spec.code.path!r}", blames="document"
        )
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except PermissionError as error:
        raise PrepareFailed(f"the code folder {path} is closed to the agent's user") from error
    except OSError:
        is_folder = False
    if not is_folder:
        raise PrepareFailed(f"the code folder {path} does not exist on this node")
    if not os.access(path, os.R_OK | os.X_OK):
        raise PrepareFailed(f"the code folder {path} is closed to the agent's user")
    if why := _why_not_readable(isolation, path, f"the code folder {path}"):
        raise PrepareFailed(why)
    return path


def _why_not_readable(isolation: Isolation, path: Path, name: str) -> str:
    """Return why a job may not read what its document names, and what to do; "" if it may."""
    why = why_not_readable(isolation, path)
    if not why:
        return ""
    if isolation.level == "sandbox":
        return (
            f"a job in a sandbox cannot read {name}: {why}; name the folder in "
            "MUSTER_AGENT_JOB_READS on the node"
        )
    return f"the job's user cannot read {name}: {why}; open it to them (chmod o+rX)"


def _check_interpreter(
    spec: wire.AllocationSpec,
    python: str,
    options: ShimOptions,
    *,
    is_base: bool = False,
    read: Sequence[Path] = (),
) -> Interpreter:
    """Return facts about the interpreter; `is_base`: workers run in an environment over it."""
    cache = Path(options.interpreter_cache)
    try:
        interpreter = describe(python, cache=cache, isolation=options.isolation, read=read)
    except InterpreterError as error:
        lasts = spec.python is not None and not error.passes
        raise PrepareFailed(str(error), blames="placement" if lasts else "node") from error
    call = commands.find_call(spec.entrypoint)
    needs_torch = spec.launcher == "torchrun" or (call is not None and call.launcher == "torchrun")
    if needs_torch and not interpreter.torch_version and not is_base:
        raise PrepareFailed(
            f"torch is not installed for {python} on this node, and torchrun needs it"
        )
    return interpreter


def _facts(
    spec: wire.AllocationSpec,
    interpreter: Interpreter,
    root: Path,
    image: Image | None,
    data: Mapping[str, wire.DataRead],
) -> wire.NodeFacts:
    return wire.NodeFacts(
        image_id=image.id if image is not None and not image.file else "",
        python_version=interpreter.python_version,
        torch_version=interpreter.torch_version,
        cuda_version=interpreter.cuda_version,
        muster_version=__version__,
        code_hash=hash_code(root) if spec.code.kind == "installed" else "",
        data_hash=wire.content_digest({name: one.digest for name, one in data.items()})
        if data and all(one.digest for one in data.values())
        else "",
    )


def _job_environment(
    interpreter: Interpreter,
    python: str,
    image: Image | None,
    variables: dict[str, str],
    data: dict[str, wire.DataRead],
) -> wire.JobEnvironment:
    return wire.JobEnvironment(
        image=image.name if image is not None else "",
        image_id=image.id if image is not None and not image.file else "",
        image_digest=image.digest if image is not None else "",
        python=python,
        python_version=interpreter.python_version,
        torch_version=interpreter.torch_version,
        cuda_version=interpreter.cuda_version,
        muster_version=__version__,
        variables=variables,
        packages=interpreter.packages[: wire.PACKAGES_MAX],
        num_packages=len(interpreter.packages),
        data=data,
    )


def _find_workdir(spec: wire.AllocationSpec, root: Path) -> Path:
    """Return the folder of the code in which the job runs, see `code.workdir`. Raises PrepareFailed."""
    code = load(CodeSection, spec.config.get("code") or {})
    found = root / code.within(".")
    if not os.path.isdir(found):  # noqa: PTH112  # in a closed folder it is not
        raise PrepareFailed(
            f"the folder {code.workdir} (code.workdir) does not exist in the code folder "
            f"({_listing(root)})",
            blames="document" if spec.code.kind == "bundle" else "placement",
        )
    return found


def _check_entrypoint(spec: wire.AllocationSpec, work_dir: Path) -> None:
    entrypoint = spec.entrypoint
    if not entrypoint:
        raise PrepareFailed("the entry point is empty", blames="document")
    first = entrypoint[0]
    if first == "-m":
        if len(entrypoint) < 2 or entrypoint[1].startswith("-"):
            raise PrepareFailed("the entry point '-m' names no module", blames="document")
        return
    if first.startswith("-"):
        raise PrepareFailed(
            f"the entry point begins with {first!r}; it must be a script, or -m and a module",
            blames="document",
        )
    if spec.launcher == "torchrun" and commands.is_command(entrypoint):
        raise PrepareFailed(
            f"launcher 'torchrun' starts Python scripts and modules, and {first} is neither; use "
            "launcher: shell",
            blames="document",
        )
    first = commands.entry_file(entrypoint)
    if first and not os.path.isfile(work_dir / first):  # noqa: PTH113  # in a closed folder it is not
        is_everywhere = spec.code.kind == "bundle" and not Path(first).is_absolute()
        raise PrepareFailed(
            f"the entry point {first} does not exist in the code folder ({_listing(work_dir)})",
            blames="document" if is_everywhere else "placement",
        )


def _check_program(entrypoint: list[str], work_dir: Path, *, python: str, path: str) -> None:
    """Raise PrepareFailed if the program that a command begins with cannot be run."""
    first = entrypoint[0]
    if "/" not in first:
        call = commands.find_call(entrypoint)
        if call is not None and call.launcher == "torchrun":
            return  # It is run as a module of the interpreter.
        if shutil.which(first, path=path) is None:
            raise PrepareFailed(
                f"the program {first} of the entry point is on this node neither beside the "
                f"interpreter {python} nor elsewhere on PATH"
            )
    elif not os.access(work_dir / first, os.X_OK):
        raise PrepareFailed(
            f"the entry point {first} is not an executable file; write `bash {first}`",
            blames="document" if not Path(first).is_absolute() else "placement",
        )


def _check_module(
    module: str,
    python: str,
    work_dir: Path,
    environment: Mapping[str, str],
    isolation: Isolation,
    read: Sequence[Path],
) -> None:
    missing = find_missing(
        module, python, folder=work_dir, environment=environment, isolation=isolation, read=read
    )
    if missing:
        of = "" if missing == module else f" of the entry point {module}"
        raise PrepareFailed(
            f"the module {missing}{of} does not exist, neither in the code folder "
            f"({_listing(work_dir)}) nor for the interpreter {python}"
        )


def _listing(work_dir: Path) -> str:
    names = sorted(path.name for path in work_dir.iterdir() if path.name != OUTPUT_FOLDER)
    if not names:
        return "it is empty"
    return "it holds " + ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def _make_checkpoint_dir(
    spec: wire.AllocationSpec, options: ShimOptions, folder: AllocationFolder
) -> Path:
    if (
        spec.checkpoint_url
    ):  # Files on their way to an object store are deleted with the allocation.
        folder.checkpoints.mkdir(exist_ok=True)
        return folder.checkpoints
    path = Path(options.storage_dir) / spec.checkpoint_dir  # An absolute path replaces it.
    try:
        if spec.cluster_id and not Path(spec.checkpoint_dir).is_absolute():
            Storage(Path(options.storage_dir)).claim(spec.checkpoint_dir, spec.cluster_id)
        path.mkdir(parents=True, exist_ok=True)
    except RefusedPath as error:
        raise PrepareFailed(str(error)) from error
    except OSError as error:
        raise PrepareFailed(
            f"the checkpoint folder {path} cannot be made: {error.strerror}",
            blames="node",
            passes=goes_by_itself(error),
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise PrepareFailed(
            f"the checkpoint folder {path} is not writable for the agent's user", blames="node"
        )
    return path


def _find(wanted: str | None, options: ShimOptions, checkpoint_dir: Path) -> str:
    """Return a checkpoint to start from: absolute, in the trial's folder, or in the storage; "" for
    none. The workers fetch one from an object store themselves, with their packages."""
    if not wanted:
        return ""
    if "://" in wanted:
        return wanted
    for base in (checkpoint_dir, Path(options.storage_dir)):
        if (base / wanted).exists():
            return str(base / wanted)
    raise PrepareFailed(
        f"the checkpoint {wanted} to continue from is not on this node; nodes that share "
        "trials need a shared storage folder (MUSTER_AGENT_STORAGE_DIR)",
        blames="",  # A node that has it may be away for a while.
    )
