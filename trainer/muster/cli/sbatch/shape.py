"""How many nodes and slots a batch script asks for."""

from __future__ import annotations

from collections.abc import Mapping

from .draft import BatchDraft
from .options import SbatchOption

SHAPE = frozenset(
    {"nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres"}
)
"""Options that say how large a job is."""
_VARIABLES = {"ntasks": "SLURM_NTASKS", "ntasks-per-node": "SLURM_NTASKS_PER_NODE"}


def add_shape(job: BatchDraft) -> int | None:
    """Set nodes and slots, and return the number of nodes; None if the script leaves it open."""
    options = job.options
    nodes = _nodes(options.get("nodes"))
    tasks, per_node = options.get("ntasks"), options.get("ntasks-per-node")
    num_tasks = tasks.number() if tasks else None
    tasks_per_node = per_node.number() if per_node else None
    if nodes is None and num_tasks and tasks_per_node:
        nodes = -(-num_tasks // tasks_per_node)
    if tasks and num_tasks and tasks_per_node is None and nodes is not None:
        tasks_per_node = -(-num_tasks // nodes)
    gpu_option, gpus_per_node = _gpus_per_node(options, nodes, tasks_per_node or num_tasks or 1)
    workers = tasks_per_node if nodes is not None or per_node else num_tasks
    _set_variables(job, gpu_option)
    slots_per_node = gpus_per_node or workers or 1
    resources = job.section("resources")
    resources["slots"] = slots_per_node * (nodes or 1)
    if nodes is not None:
        resources["nodes"] = nodes
    if gpus_per_node:
        resources["slot_type"] = "cuda"
    for name, option in options.items():
        if name == "nodes":
            job.note(option, f"resources.nodes: {nodes}")
        elif name in ("gpus", "gpus-per-node", "gpus-per-task", "gres"):
            kind = ", slot_type: cuda" if gpus_per_node else ""
            job.note(option, f"resources.slots: {resources['slots']}{kind}")
        elif name in ("ntasks", "ntasks-per-node"):
            job.note(option, f"resources.slots: {resources['slots']}")
    return nodes


def _set_variables(job: BatchDraft, gpu_option: SbatchOption | None) -> None:
    """Set what Slurm sets of these options, which srun reads as well."""
    for name, variable in _VARIABLES.items():
        if name in job.options:
            job.set_variable(variable, str(job.options[name].number()))
    if gpu_option is not None and "gpus-per-task" in job.options:
        count = _gpu_count(job.options["gpus-per-task"])
        job.set_variable("SLURM_GPUS_PER_TASK", str(count))


def _nodes(option: SbatchOption | None) -> int | None:
    if option is None:
        return None
    least, dash, most = option.value.partition("-")
    if dash and least == most and least.isdigit():
        return int(least)
    if "-" in option.value or "," in option.value or ":" in option.value:
        raise option.error(
            "names a range of nodes",
            "name one number; resources.min_slots of a document makes a job elastic",
        )
    return option.number()


def _gpus_per_node(
    options: Mapping[str, SbatchOption], nodes: int | None, tasks_per_node: int
) -> tuple[SbatchOption | None, int]:
    """Return the option that says how many GPUs a node needs, and their number. Raises
    CommandFailure when two options differ."""
    found: list[tuple[SbatchOption, int]] = []
    for name in ("gpus-per-node", "gres", "gpus", "gpus-per-task"):
        option = options.get(name)
        if option is None:
            continue
        count = _gpu_count(option)
        if name == "gpus" and nodes is not None:
            if count % nodes:
                raise option.error(
                    f"cannot be divided evenly over {nodes} nodes", "use --gpus-per-node"
                )
            count //= nodes
        elif name == "gpus-per-task":
            count *= tasks_per_node
        found.append((option, count))
    if not found:
        return None, 0
    first = found[0]
    for option, count in found[1:]:
        if count != first[1]:
            raise option.error(
                f"gives {count} GPUs on a node, and line {first[0].line}, {first[0].written}, "
                f"{first[1]}",
                "keep one of them",
            )
    return first


def _gpu_count(option: SbatchOption) -> int:
    """Return the number of `4`, `a100:4`, `gpu:4` or `gpu:a100:4`; 0 for other generic resources."""
    *kinds, last = option.value.split(":")
    if option.name == "gres":
        if (kinds or [last])[0] not in ("gpu", "gres/gpu"):
            return 0
        if not kinds or not last[:1].isdigit():
            return 1
    count = last.partition("(")[0]
    if not count.isdigit():
        raise option.error("names no number of GPUs", f"--{option.name}=4")
    return int(count)
