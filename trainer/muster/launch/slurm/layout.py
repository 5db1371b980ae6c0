"""Which task of a step runs where, and the variables that Slurm sets. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import TASK_VARIABLE
from .options import StepOptions, StepRefused


@dataclass(frozen=True, kw_only=True)
class JobNode:
    """A node of the job."""

    name: str
    slots: int
    devices: tuple[str, ...] = ()
    """Values for CUDA_VISIBLE_DEVICES; empty for CPU slots."""


@dataclass(frozen=True, kw_only=True)
class NodeTasks:
    """The part of a step on one node."""

    node: int
    """Index among the nodes of the job."""
    ranks: tuple[int, ...]
    cpus: int
    gpus: int | None
    """GPUs that it takes for itself; None: it sees all and takes none."""


@dataclass(frozen=True, kw_only=True)
class StepLayout:
    """The places of all tasks of a step."""

    parts: tuple[NodeTasks, ...]
    num_tasks: int

    @property
    def tasks_per_node(self) -> list[int]:
        return [len(part.ranks) for part in self.parts]


def node_names(addresses: Sequence[str]) -> list[str]:
    """Return a name for each node: its address, and `node2` where an earlier node has the same."""
    return [
        address if address not in addresses[:number] else f"node{number}"
        for number, address in enumerate(addresses)
    ]


def reachable(addresses: str, node: str) -> str:
    """Return what `hostname -i` has printed, or the address of the node where that is one of the
    loopback interface, as on Debian: scripts give it to the other nodes."""
    first = next(iter(addresses.split()), "")
    is_local = first.startswith("127.") or first == "::1"
    is_address = re.fullmatch(r"[0-9.]+|[0-9a-f:]*:[0-9a-f:]*", node) is not None
    return f"{node}\n" if is_local and is_address else addresses


def expand_hostlist(text: str) -> list[str]:
    """Return the names of a list as Slurm writes it: `n[1-3,07],m` is n1, n2, n3, n07, m."""
    found: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        names = [""]
        for plain, ranges in re.findall(r"([^\[]*)(?:\[([^\]]*)\])?", part):
            numbers = [n for r in ranges.split(",") for n in _range(r)] if ranges else [""]
            names = [f"{name}{plain}{number}" for name in names for number in numbers]
        found += names
    return found


def _range(text: str) -> list[str]:
    first, dash, last = text.partition("-")
    if not dash or not first.isdigit() or not last.isdigit():
        return [text]
    return [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]


def job_tasks(environment: Mapping[str, str], nodes: Sequence[JobNode]) -> list[int]:
    """Return the number of tasks on each node that the job was submitted with; one where it says
    nothing. Where there is a slot for each task, they are where the slots are."""
    slots = [node.slots for node in nodes]
    per_node = environment.get("SLURM_NTASKS_PER_NODE", "")
    tasks = environment.get("SLURM_NTASKS", "")
    if per_node.isdigit():
        return [int(per_node)] * len(nodes)
    if tasks.isdigit():
        return slots if sum(slots) == int(tasks) else _even(int(tasks), len(nodes))
    return [1] * len(nodes)


def capacities(environment: Mapping[str, str], nodes: Sequence[JobNode]) -> list[int]:
    """Return the processors of each node as Slurm counts them: those of the tasks that the job was
    submitted with, and at least one for each slot."""
    cpus = int(environment.get("SLURM_CPUS_PER_TASK", "") or 1)
    tasks = job_tasks(environment, nodes)
    return [max(node.slots, num * cpus) for node, num in zip(nodes, tasks, strict=True)]


def lay_out(
    step: StepOptions, nodes: Sequence[JobNode], environment: Mapping[str, str]
) -> StepLayout:
    """Return where the tasks of a step run. environment: that of srun, which has the job's shape.

    Raises StepRefused if the job is too small for it.
    """
    of_job = job_tasks(environment, nodes)
    chosen = _choose(step, nodes, sum(of_job))
    per_node = step.tasks_per_node
    if per_node is None and step.tasks is None and "SLURM_NTASKS_PER_NODE" in environment:
        per_node = of_job[0]
    num_tasks = step.tasks or (per_node * len(chosen) if per_node else sum(of_job))
    if num_tasks < len(chosen):
        chosen = chosen[:num_tasks]
    counts = (
        of_job
        if num_tasks == sum(of_job) and len(chosen) == len(nodes)
        else _even(num_tasks, len(chosen))
    )
    if step.tasks_per_node and num_tasks <= step.tasks_per_node * len(chosen):
        counts = [
            min(step.tasks_per_node, num_tasks - step.tasks_per_node * k)
            for k in range(len(chosen))
        ]
        chosen = [node for node, count in zip(chosen, counts, strict=True) if count > 0]
        counts = [count for count in counts if count > 0]
    cpus = step.cpus_per_task or 1
    room = capacities(environment, nodes)
    parts = []
    for node, count, ranks in zip(chosen, counts, _ranks(counts, step.is_cyclic), strict=True):
        if count > room[node] and not step.overcommits:
            raise StepRefused(
                f"{_asked(step, num_tasks)} is more than the job has: {room[node]} tasks on {nodes[node].name}",
                f"write #SBATCH --ntasks={max(num_tasks, count * len(nodes))} into the script",
                word=next(iter(step.written.values()), "srun"),
            )
        gpus = _gpus(step, nodes[node], count, len(chosen))
        taken = min(count * cpus, room[node])  # Muster does not share out processors.
        parts.append(NodeTasks(node=node, ranks=ranks, cpus=taken, gpus=gpus))
    return StepLayout(parts=tuple(parts), num_tasks=num_tasks)


def _asked(step: StepOptions, num_tasks: int) -> str:
    words = [
        step.written[name]
        for name in ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
        if name in step.written
    ]
    return " ".join(words) or f"a step of {num_tasks} tasks"


def _choose(step: StepOptions, nodes: Sequence[JobNode], num_tasks: int) -> list[int]:
    """Return the nodes of a step, as indexes in the order of the job."""
    names = [node.name for node in nodes]
    wanted = _indexes(names, step.nodelist, step.written.get("nodelist", ""))
    excluded = _indexes(names, step.exclude, step.written.get("exclude", ""))
    left = [n for n in range(step.first_node, len(nodes)) if n not in excluded]
    number = step.nodes or max(len(wanted), min(len(left), step.tasks or num_tasks))
    if number > len(left) or not left:
        word = step.written.get("nodes", "srun")
        raise StepRefused(
            f"{word} asks for {number} nodes, and the job has {len(left)}",
            f"write #SBATCH --nodes={number} into the script",
            word=word,
        )
    others = [n for n in left if n not in wanted]
    return sorted([*wanted, *others][: max(number, len(wanted))])


def _indexes(names: Sequence[str], text: str, written: str) -> list[int]:
    found = []
    for name in expand_hostlist(text):
        if name not in names:
            raise StepRefused(
                f"{written}: there is no node {name} in this job",
                f"its nodes are {', '.join(names)}",
                word=written,
            )
        found.append(names.index(name))
    return found


def _gpus(step: StepOptions, node: JobNode, num_tasks: int, num_nodes: int) -> int | None:
    """Return the GPUs that the tasks on a node take."""
    wanted = step.gpus_per_node
    if step.gpus_per_task is not None:
        wanted = step.gpus_per_task * num_tasks
    elif step.gpus is not None:
        wanted = -(-step.gpus // num_nodes)
    if wanted is not None and wanted > len(node.devices):
        word = next(
            (
                step.written[n]
                for n in ("gpus-per-task", "gpus-per-node", "gpus", "gres")
                if n in step.written
            ),
            "srun",
        )
        raise StepRefused(
            f"{word} asks for {wanted} GPUs on a node, and the job has {len(node.devices)} there",
            f"write #SBATCH --gres=gpu:{wanted} into the script",
            word=word,
        )
    return wanted


def _even(number: int, parts: int) -> list[int]:
    least, more = divmod(number, parts)
    return [least + (index < more) for index in range(parts)]


def _ranks(counts: Sequence[int], is_cyclic: bool) -> list[tuple[int, ...]]:
    """Return the ranks of the tasks on each node: in blocks, or dealt out in turn."""
    order = [node for node, count in enumerate(counts) for _ in range(count)]
    if is_cyclic:
        turns = [(turn, node) for node, count in enumerate(counts) for turn in range(count)]
        order = [node for _, node in sorted(turns)]
    return [
        tuple(rank for rank, at in enumerate(order) if at == node) for node in range(len(counts))
    ]


def _compact(counts: Sequence[int]) -> str:
    """Return numbers as Slurm writes them: 2, 2, 1 is `2(x2),1`."""
    runs: list[tuple[int, int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1] = (count, runs[-1][1] + 1)
        else:
            runs.append((count, 1))
    return ",".join(f"{count}(x{times})" if times > 1 else f"{count}" for count, times in runs)


def job_variables(
    environment: Mapping[str, str], nodes: Sequence[JobNode], index: int, *, name: str, folder: str
) -> dict[str, str]:
    """Return the variables of a batch script, or of what else runs on the node `index`.

    environment: that of the job's command, which has what the job was submitted with. name: of the
    job, where it has none. folder: working folder on that node.
    """
    job = environment.get("MUSTER_EXPERIMENT_ID", "1")
    tasks = job_tasks(environment, nodes)
    room = capacities(environment, nodes)
    names = ",".join(node.name for node in nodes)
    devices = nodes[index].devices
    found = {
        "SLURM_JOB_ID": job, "SLURM_JOBID": job,
        "SLURM_JOB_NAME": environment.get("SLURM_JOB_NAME", name),
        "SLURM_JOB_NODELIST": names, "SLURM_NODELIST": names,
        "SLURM_JOB_NUM_NODES": str(len(nodes)), "SLURM_NNODES": str(len(nodes)),
        "SLURM_TASKS_PER_NODE": _compact(tasks),
        "SLURM_JOB_CPUS_PER_NODE": _compact(room),
        "SLURM_CPUS_ON_NODE": str(room[index]),
        "SLURM_JOB_PARTITION": environment.get("SLURM_JOB_PARTITION", "default"),
        "SLURM_CLUSTER_NAME": "muster", "SLURM_SUBMIT_DIR": folder,
        "SLURM_SUBMIT_HOST": nodes[0].name, "SLURM_JOB_USER": environment.get("USER", "user"),
        "SLURM_RESTART_COUNT": str(max(0, int(environment.get("MUSTER_ATTEMPT_NO", "1")) - 1)),
        "SLURMD_NODENAME": nodes[index].name, "SLURM_NODEID": str(index),
        "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_GTIDS": "0",
    }  # fmt: skip
    if environment.get("SLURM_NTASKS_PER_NODE") and "SLURM_NTASKS" not in environment:
        found["SLURM_NTASKS"] = str(sum(tasks))
    if "SLURM_NTASKS" in environment or "SLURM_NTASKS" in found:
        found["SLURM_NPROCS"] = str(sum(tasks))
    if devices:
        found |= {
            "SLURM_GPUS_ON_NODE": str(len(devices)), "SLURM_JOB_GPUS": ",".join(devices),
            "SLURM_STEP_GPUS": ",".join(devices),
            "SLURM_GPUS": str(sum(len(node.devices) for node in nodes)),
            "SLURM_GPUS_PER_NODE": str(len(devices)),
        }  # fmt: skip
    return found


def task_variables(
    layout: StepLayout,
    nodes: Sequence[JobNode],
    part: int,
    local: int,
    *,
    step_id: int,
    options: StepOptions,
) -> dict[str, str]:
    """Return the variables of a task of a step; part: its node's index among those of the step."""
    own = layout.parts[part]
    names = ",".join(nodes[one.node].name for one in layout.parts)
    counts = layout.tasks_per_node
    found = {
        TASK_VARIABLE: str(step_id),
        "MUSTER_STEP_LOCAL_TASKS": str(len(own.ranks)),
        "SLURM_STEP_ID": str(step_id), "SLURM_STEPID": str(step_id),
        "SLURM_PROCID": str(own.ranks[local]), "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(part), "SLURMD_NODENAME": nodes[own.node].name,
        "SLURM_NTASKS": str(layout.num_tasks), "SLURM_NPROCS": str(layout.num_tasks),
        "SLURM_NNODES": str(len(counts)), "SLURM_TASKS_PER_NODE": _compact(counts),
        "SLURM_STEP_NUM_NODES": str(len(counts)), "SLURM_STEP_NUM_TASKS": str(layout.num_tasks),
        "SLURM_STEP_NODELIST": names, "SLURM_STEP_TASKS_PER_NODE": _compact(counts),
        "SLURM_GTIDS": ",".join(map(str, own.ranks)),
        "SLURM_LAUNCH_NODE_IPADDR": nodes[0].name,
        "SLURM_DISTRIBUTION": "cyclic" if options.is_cyclic else "block",
        # What torchrun, accelerate and deepspeed are completed with: see muster.launch.commands.
        "NNODES": str(len(counts)), "NODE_RANK": str(part), "MASTER_ADDR": nodes[layout.parts[0].node].name,
        "MUSTER_WORLD_SIZE": str(sum(nodes[one.node].slots for one in layout.parts)),
    }  # fmt: skip
    if options.cpus_per_task:
        found["SLURM_CPUS_PER_TASK"] = str(options.cpus_per_task)
    if options.name:
        found["SLURM_JOB_NAME"] = options.name
    return found


def output_name(pattern: str, rank: int, environment: Mapping[str, str]) -> str:
    """Return the name of an output file: `%j` is the job, `%t` the task, `%x` the job's name."""
    values = {
        "j": environment.get("SLURM_JOB_ID", ""), "J": environment.get("SLURM_JOB_ID", ""),
        "A": environment.get("SLURM_ARRAY_JOB_ID", environment.get("SLURM_JOB_ID", "")),
        "a": environment.get("SLURM_ARRAY_TASK_ID", ""), "x": environment.get("SLURM_JOB_NAME", ""),
        "N": environment.get("SLURMD_NODENAME", ""), "n": "0", "s": "0", "t": str(rank),
        "u": environment.get("SLURM_JOB_USER", ""), "%": "%",
    }  # fmt: skip
    return re.sub(r"%(\d*)([jJAaxNnstu%])", lambda m: values[m[2]].zfill(int(m[1] or 0)), pattern)
