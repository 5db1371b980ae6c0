"""What a batch system grants the job that an agent runs in: a part of the machine. Pure.

A pilot offers what its job was given, never more: others use the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.wire import SlotInfo


def granted_devices(devices: Sequence[SlotInfo], environment: Mapping[str, str]) -> list[SlotInfo]:
    """Return the devices that CUDA_VISIBLE_DEVICES lists, by index or UUID, in the machine's order.

    Without the variable a Slurm job has been given none, even where it sees them all; elsewhere all
    are offered.
    """
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return [] if "SLURM_JOB_ID" in environment else list(devices)
    names = {name.strip() for name in listed.split(",") if name.strip()}
    return [
        device
        for device in devices
        if str(device.index) in names
        or any(device.uuid.startswith(name) for name in names if name.startswith("GPU-"))
    ]


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
