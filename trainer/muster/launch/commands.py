"""Entry points that are commands (`bash run.sh`), and the launchers that users bring along.

`torchrun`, `accelerate launch` and `deepspeed` learn from their command line alone how many nodes
there are and where they meet. `complete` adds what the command leaves out and changes nothing that
it says, except that "as many as there are" means the slots of the job. The server shows the completed line, the agent runs it, and in a shell script the programs
in the allocation's folder `bin` (this file, run as a program) do the same.

Needs the standard library alone, and no other module of ours: see `main`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

SHELLS = frozenset({"bash", "dash", "ksh", "sh", "zsh"})
BATCH = "sbatch"
"""Program that runs a batch script once for all nodes: see muster.launch.slurm."""
LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
KNOWN = SHELLS | {*LAUNCHERS, "accelerate-launch", BATCH}
"""Programs that an entry point may begin with where the document names no launcher."""
WORLD_SIZE_VARIABLE = "MUSTER_WORLD_SIZE"
HOSTFILE_VARIABLE = "MUSTER_HOSTFILE"

_PYTHON = re.compile(r"python[0-9.]*")
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
_FLAGS = {
    "torchrun": frozenset({"standalone", "m", "module", "no_python", "run_path", "h", "help",
                           "virtual_local_rank", "use_env"}),
    "accelerate": frozenset({
        "h", "help", "q", "quiet", "m", "module", "no_python", "debug", "cpu", "multi_gpu", "tpu",
        "ipex", "use_xpu", "use_deepspeed", "use_fsdp", "use_tp", "use_megatron_lm",
        "use_parallelism_config", "use_mps_device", "same_network", "tpu_use_cluster",
        "no_tpu_use_cluster", "tpu_use_sudo", "downcast_bf16", "dynamo_use_fullgraph",
        "dynamo_use_dynamic", "dynamo_use_regional_compilation", "enable_cpu_affinity",
        "main_training_function_only", "fp8_use_autocast_during_eval", "aws",
    }),
    "deepspeed": frozenset({
        "h", "help", "no_python", "no_local_rank", "no_ssh", "no_ssh_check", "force_multi",
        "save_pid", "module", "m", "enable_each_rank_log_stdout", "bind_cores_to_rank",
        "elastic_training",
    }),
}  # fmt: skip
"""Options that take no value, with "_" for "-"."""
_MODES = ("cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp", "use_xpu", "use_megatron_lm")
"""Options of accelerate that say how workers are started."""


class CommandConflict(ValueError):
    """The command asks for something else than the trial has."""

    def __init__(self, problem: str, hint: str) -> None:
        """Create the error; both texts are a clause, about the command and about what to do."""
        super().__init__(f"{problem}; {hint}")
        self.problem = problem
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class GangPlace:
    """A node's place in the gang, as far as a launcher has to know it."""

    num_nodes: int
    node_rank: str
    """A number, or a variable in a line that is only shown."""
    num_local: int
    """Number of slots on this node, hence of workers."""
    world_size: int
    master_addr: str
    master_port: str
    is_cpu: bool = True
    hostfile: str = ""
    """File for deepspeed that names the nodes `node0`, `node1`, …; "" if there is none."""
    device_ids: tuple[str, ...] = ()
    """Indexes of this node's devices; empty for CPU slots."""


@dataclass(frozen=True, kw_only=True)
class LauncherCall:
    """The parts of a command that begins with a launcher."""

    launcher: str
    prefix: tuple[str, ...]
    rest: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the launcher by name, with "_" for "-"; "" for one without a value."""
    script: str = ""
    """Script that it starts; "" for a module, or if there is none."""
    program: tuple[str, ...] = ()
    """What it starts: the script or module, and its arguments."""


def is_command(entrypoint: Sequence[str]) -> bool:
    """Return whether an entry point is a command, and not a Python script or module."""
    return bool(entrypoint) and entrypoint[0] != "-m" and not entrypoint[0].endswith(".py")


def is_known_command(entrypoint: Sequence[str]) -> bool:
    """Return whether an entry point says by itself that it is a command: a shell, a launcher, or
    the path of a program or a shell script."""
    if not is_command(entrypoint):
        return False
    first = entrypoint[0]
    name = PurePosixPath(first).name
    is_python = _PYTHON.fullmatch(name) is not None
    return name in KNOWN or ("/" in first and not is_python) or first.endswith(".sh")


def entry_file(entrypoint: Sequence[str]) -> str:
    """Return the file that an entry point runs: `run.sh` of `bash -e run.sh`. "" if it names none,
    such as a module, or a command that is not known."""
    if not entrypoint or entrypoint[0] == "-m":
        return ""
    first, name = entrypoint[0], PurePosixPath(entrypoint[0]).name
    call = find_call(entrypoint)
    if call is not None:
        return call.script
    if name in SHELLS or name == BATCH:
        return _first_file(entrypoint[1:], with_value="oO")  # -o pipefail, -O extglob
    if _PYTHON.fullmatch(name):
        return _first_file(entrypoint[1:], with_value="WX")  # -W error, -X dev
    is_file = "/" in first or first.endswith((".py", ".sh"))
    return first if is_file else ""


def find_call(argv: Sequence[str]) -> LauncherCall | None:
    """Return the parts of a command that begins with a launcher; None for any other."""
    name = PurePosixPath(argv[0]).name if argv else ""
    if name in ("torchrun", "deepspeed"):
        return _parse(name, argv, 1)
    if name == "accelerate-launch":
        return _parse("accelerate", argv, 1)
    if name == "accelerate" and tuple(argv[1:2]) == ("launch",):
        return _parse("accelerate", argv, 2)
    if _PYTHON.fullmatch(name) and tuple(argv[1:2]) == ("-m",) and len(argv) > 2:
        launcher = _MODULES.get(argv[2])
        return _parse(launcher, argv, 3) if launcher is not None else None
    return None


def complete(argv: Sequence[str], place: GangPlace, *, log_dir: str = "") -> list[str]:
    """Return a command with the options that its launcher lacks; any other command as it is.

    log_dir: folder for a log of each worker, for a launcher that can write them; "" leaves the
    output where it goes. Raises CommandConflict.
    """
    call = find_call(argv)
    if call is None:
        return list(argv)
    added = _COMPLETERS[call.launcher](call, place, log_dir)
    return [*call.prefix, *added, *_granted(call, place)]


def _complete_torchrun(call: LauncherCall, place: GangPlace, log_dir: str) -> list[str]:
    given = call.options
    _check_num_nodes(call, "nnodes", place)
    if "standalone" in given and place.num_nodes > 1:
        raise CommandConflict(
            f"has --standalone, but the trial has {place.num_nodes} nodes",
            "leave --standalone out, or set resources.nodes: 1",
        )
    _check_at_most(call, "nproc_per_node", place.num_local, "slots on a node")
    added = []
    if "nnodes" not in given:
        added.append(f"--nnodes={place.num_nodes}")
    if "nproc_per_node" not in given:
        added.append(f"--nproc-per-node={place.num_local}")
    meets_by_itself = any(n == "standalone" or n.startswith("rdzv_") for n in given)
    if not meets_by_itself:
        _check_node_rank(call, "node_rank", place)
        added += _missing(
            given,
            {
                "node_rank": f"--node-rank={place.node_rank}",
                "master_addr": f"--master-addr={place.master_addr}",
                "master_port": f"--master-port={place.master_port}",
            },
        )
    if log_dir and not given.keys() & {"log_dir", "redirects", "r", "tee", "t", "logs_specs"}:
        added += [f"--log-dir={log_dir}", "--redirects=3"]
    return added


def _granted(call: LauncherCall, place: GangPlace) -> tuple[str, ...]:
    """Return the words after the launcher with the slots of the job for a number of workers that is
    not written out: torchrun would count the devices or the cores of the whole node."""
    if call.launcher != "torchrun" or call.options.get("nproc_per_node") not in ("gpu", "auto"):
        return call.rest
    rest = list(call.rest)
    for position, word in enumerate(rest):
        name, equals, _ = word.partition("=")
        if name.lstrip("-").replace("-", "_") == "nproc_per_node":
            rest[position : position + (1 if equals else 2)] = [f"{name}={place.num_local}"]
            break
    return tuple(rest)


def _complete_accelerate(call: LauncherCall, place: GangPlace, log_dir: str) -> list[str]:
    del log_dir  # It prints everything a second time when it writes logs.
    given = call.options
    _check_num_nodes(call, "num_machines", place)
    _check_at_most(call, "num_processes", place.world_size, "slots")
    _check_node_rank(call, "machine_rank", place)
    is_parallel = place.world_size > 1 and given.get("num_processes") != "1"
    if is_parallel and "cpu" in given:
        raise CommandConflict(
            "has --cpu, with which accelerate trains without the other workers",
            "leave --cpu out: Muster sets ACCELERATE_USE_CPU for CPU slots",
        )
    _check_evenness(place)
    added = []
    if is_parallel and not given.keys() & {*_MODES, "config_file"}:
        added.append("--multi_gpu")
    wanted = {
        "num_machines": f"--num_machines={place.num_nodes}",
        "num_processes": f"--num_processes={place.world_size}",
    }
    if place.num_nodes > 1:
        wanted["machine_rank"] = f"--machine_rank={place.node_rank}"
        wanted["main_process_ip"] = f"--main_process_ip={place.master_addr}"
    wanted["main_process_port"] = f"--main_process_port={place.master_port}"
    return [*added, *_missing(given, wanted)]


def _complete_deepspeed(call: LauncherCall, place: GangPlace, log_dir: str) -> list[str]:
    del log_dir
    given = call.options
    _check_num_nodes(call, "num_nodes", place)
    _check_at_most(call, "num_gpus", place.num_local, "slots on a node")
    chooses_nodes = given.keys() & {"hostfile", "H", "include", "i", "exclude", "e"}
    wanted = {}
    if place.num_nodes > 1:
        _check_node_rank(call, "node_rank", place)
        _check_evenness(place)
        if not chooses_nodes:
            wanted["hostfile"] = f"--hostfile={place.hostfile or '$' + HOSTFILE_VARIABLE}"
            if place.device_ids:
                # deepspeed sets CUDA_VISIBLE_DEVICES itself, from the numbers given here.
                own = f"node{place.node_rank}:{','.join(place.device_ids)}"
                others = [f"node{n}" for n in range(place.num_nodes) if str(n) != place.node_rank]
                wanted["include"] = f"--include={'@'.join([own, *others])}"
        wanted["no_ssh"] = "--no_ssh"
        wanted["node_rank"] = f"--node_rank={place.node_rank}"
        wanted["master_addr"] = f"--master_addr={place.master_addr}"
    elif place.is_cpu and not chooses_nodes:
        wanted["num_gpus"] = f"--num_gpus={place.num_local}"
    wanted["master_port"] = f"--master_port={place.master_port}"
    return _missing(given, wanted)


_COMPLETERS: Mapping[str, Callable[[LauncherCall, GangPlace, str], list[str]]] = {
    "torchrun": _complete_torchrun,
    "accelerate": _complete_accelerate,
    "deepspeed": _complete_deepspeed,
}


def hostfile(place: GangPlace) -> str:
    """Return the text of a deepspeed hostfile. The nodes have names of their own in it, since no
    node is reached by them."""
    lines = []
    for number in range(place.num_nodes):
        slots = place.num_local
        if str(number) == place.node_rank and place.device_ids:
            slots = max(slots, *(int(device) + 1 for device in place.device_ids))
        lines.append(f"node{number} slots={slots}\n")
    return "".join(lines)


def _missing(given: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    return [option for name, option in wanted.items() if name not in given]


def _check_num_nodes(call: LauncherCall, option: str, place: GangPlace) -> None:
    value = call.options.get(option, "")
    least, _, most = value.partition(":")
    if not least.isdigit() or (most and not most.isdigit()):
        return
    if not int(least) <= place.num_nodes <= int(most or least):
        raise CommandConflict(
            f"has {_written(call, option)} {value}, but the trial has "
            f"{place.num_nodes} node{'' if place.num_nodes == 1 else 's'}",
            f"leave the option out, or set resources.nodes: {most or least}",
        )


def _check_at_most(call: LauncherCall, option: str, limit: int, of: str) -> None:
    value = call.options.get(option, "")
    if value.isdigit() and int(value) > limit:
        raise CommandConflict(
            f"has {_written(call, option)} {value}, but the trial has {limit} {of}",
            "leave the option out, or change resources.slots",
        )


def _check_evenness(place: GangPlace) -> None:
    if place.num_local * place.num_nodes != place.world_size:
        raise CommandConflict(
            "starts as many workers on each node, but the trial is spread unevenly",
            "leave resources.uneven out",
        )


def _check_node_rank(call: LauncherCall, option: str, place: GangPlace) -> None:
    value = call.options.get(option, "")
    if place.num_nodes > 1 and value.isdigit() and value != place.node_rank:
        raise CommandConflict(
            f"has {_written(call, option)} {value}, which would be the same on every node",
            "leave the option out: Muster adds it",
        )


def _written(call: LauncherCall, option: str) -> str:
    return "--" + (option.replace("_", "-") if call.launcher == "torchrun" else option)


def _parse(launcher: str, argv: Sequence[str], start: int) -> LauncherCall:
    options: dict[str, str] = {}
    script, position = "", start
    while position < len(argv):
        word = argv[position]
        if not word.startswith("-") or word == "-":
            is_module = options.keys() & {"m", "module"}
            script = "" if is_module else word
            break
        name, has_value, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        following = argv[position + 1] if position + 1 < len(argv) else ""
        is_flag = name in _FLAGS[launcher] or following.endswith(".py") or not following
        position += 1
        if not has_value and not is_flag:
            value = following
            position += 1
        options[name] = value
    return LauncherCall(
        launcher=launcher,
        prefix=tuple(argv[:start]),
        rest=tuple(argv[start:]),
        options=options,
        script=script,
        program=tuple(argv[position:]),
    )


def _first_file(arguments: Sequence[str], *, with_value: str) -> str:
    """Return the script among the arguments of a shell or of Python; "" for `-c` and `-m`.

    with_value: letters of the options that take a word of their own.
    """
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if not word.startswith(("-", "+")):
            return word
        if word in ("-", "--"):
            return arguments[position + 1] if word == "--" and position + 1 < len(arguments) else ""
        if not word.startswith("--") and ("c" in word[1:] or "m" in word[1:]):
            return ""
        position += 2 if word[-1] in with_value and not word.startswith("--") else 1
    return ""


# ---------------------------------------------------------------- in a shell script


def place_of(environment: Mapping[str, str]) -> GangPlace | None:
    """Return the place that the variables of a shell entry point name; None if they are not set."""
    try:
        num_local = int(environment["NPROC_PER_NODE"])
        devices = environment.get("CUDA_VISIBLE_DEVICES", "")
        return GangPlace(
            num_nodes=int(environment["NNODES"]),
            node_rank=environment["NODE_RANK"],
            num_local=num_local,
            world_size=int(environment[WORLD_SIZE_VARIABLE]),
            master_addr=environment["MASTER_ADDR"],
            master_port=environment["MASTER_PORT"],
            is_cpu=not devices,
            hostfile=environment.get(HOSTFILE_VARIABLE, ""),
            device_ids=tuple(devices.split(",")) if devices else (),
        )
    except (KeyError, ValueError):
        return None


def main(program: str, arguments: Sequence[str]) -> None:
    """Complete the command of a launcher, then become it: the next program of that name on PATH, or
    torchrun's module.

    Runs as `python -I commands.py FOLDER/torchrun …`, in whichever interpreter the job has, where
    FOLDER is the folder on PATH that this one must not find again.
    """
    folder, name = Path(program).parent, Path(program).name
    path = os.pathsep.join(
        entry
        for entry in os.environ.get("PATH", os.defpath).split(os.pathsep)
        if Path(entry or ".").absolute() != folder.absolute()
    )
    found = shutil.which(name, path=path)
    prefix = [found] if found is not None else []
    if not prefix and name == "torchrun":
        prefix = [sys.executable, "-m", "torch.distributed.run"]
    if not prefix:
        sys.stderr.write(f"muster: {name} is not installed beside {sys.executable}\n")
        raise SystemExit(127)
    place = place_of(os.environ)
    try:
        argv = complete([name, *arguments], place) if place is not None else [name, *arguments]
    except CommandConflict as error:
        sys.stderr.write(f"muster: the command {name} {error.problem}; {error.hint}\n")
        raise SystemExit(2) from None
    os.execv(prefix[0], [*prefix, *argv[1:]])  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
