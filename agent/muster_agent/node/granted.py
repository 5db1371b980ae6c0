"""What a batch system grants the job that an agent runs in: a part of the machine. Pure.

A pilot offers what its job was given, never more: others use the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster_agent.nvml import Accelerator


def granted_accelerators(
    accelerators: Sequence[Accelerator], environment: Mapping[str, str]
) -> list[Accelerator]:
    """Return the devices that CUDA_VISIBLE_DEVICES lists, by index or UUID, in the machine's order. MIG
    instances are listed by UUID.

    Without the variable a Slurm job has been given none, even where it sees them all; elsewhere all
    are offered.
    """
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return [] if "SLURM_JOB_ID" in environment else list(accelerators)
    names = [name.strip() for name in listed.split(",") if name.strip()]
    return [
        accelerator
        for accelerator in accelerators
        if any(_is_named(accelerator, name) for name in names)
    ]


def _is_named(accelerator: Accelerator, name: str) -> bool:
    if name.startswith(
        "MIG-GPU-"
    ):  # The form of drivers before 470: device, GPU and compute instance.
        part = accelerator.instance
        return part is not None and name == (
            f"MIG-{accelerator.device.uuid}/{part.gpu_instance}/{part.compute_instance}"
        )
    if name.startswith(("GPU-", "MIG-")):
        return accelerator.uuid.startswith(
            name
        )  # CUDA takes the beginning of a UUID for all of it.
    return accelerator.instance is None and name == str(accelerator.device.index)


def granted_cpus(num_cpus: int, environment: Mapping[str, str]) -> int:
    """Return the CPUs of the job: at most `num_cpus`, which this process may run on."""
    given = environment.get("SLURM_CPUS_ON_NODE") or environment.get("MUSTER_GRANTED_CPUS")
    return min(num_cpus, _number(given) or num_cpus)


def granted_memory_bytes(total_bytes: int, environment: Mapping[str, str]) -> int:
    """Return the memory of the job in bytes: at most `total_bytes`, which the machine has."""
    whole = _number(
        environment.get("SLURM_MEM_PER_NODE") or environment.get("MUSTER_GRANTED_MEMORY_MIB")
    )
    per_cpu = _number(environment.get("SLURM_MEM_PER_CPU"))
    cpus = _number(environment.get("SLURM_CPUS_ON_NODE"))
    mib = whole or per_cpu * cpus
    return min(total_bytes, mib * 2**20) if mib else total_bytes


def _number(text: str | None) -> int:
    """Return a count; 0 if it is not given, or no number."""
    return int(text) if text is not None and text.isdigit() else 0
