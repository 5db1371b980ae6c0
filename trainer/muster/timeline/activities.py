"""What a device did, as a profiler's timeline shows it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["communication", "computation", "copy"]

UNKNOWN_GROUP = "unknown"
"""Group of collectives of which the trace does not say the group, as in replayed graphs."""

_OPS = (
    ("reducescatter", "reduce_scatter"), ("barrier", "barrier"),  # NCCL's is an all_reduce_barrier
    ("allreduce", "all_reduce"), ("allgather", "all_gather"), ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"), ("sendrecv", "coalesced"), ("scatter", "scatter"), ("gather", "gather"),
    ("reduce", "reduce"), ("send", "send"), ("recv", "recv"), ("coalesced", "coalesced"),
)  # fmt: skip
"""Part of the name of a collective or a kernel → kind, the first that fits."""
ITEM_BYTES = {
    "double": 8, "long": 8, "long int": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2,
    "c10::half": 2, "c10::bfloat16": 2, "short": 2, "char": 1, "signed char": 1, "byte": 1,
    "unsigned char": 1, "bool": 1, "uint16": 2, "uint32": 4, "uint64": 8, "complexhalf": 4,
    "complexfloat": 8, "complexdouble": 16, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
"""Bytes of an element by torch's name of its type, in lower case."""
_NO_WORK = ("autograd::", "torch::autograd", "_c10d_functional::", "c10d::", "nccl:", "gloo:")
"""Beginnings of operations on the processor that call others, or wait."""


class CollectiveInfo(NamedTuple):
    """What is known of a communication besides its time."""

    op: str
    group: str
    num_bytes: int | None
    """Bytes of the payload: for gathers the output, for all others the input."""
    seq: int | None
    """Number of the collective within its group, the same on all ranks."""
    size: int | None = None
    """Number of members of the group."""


class Activity(NamedTuple):
    """A kernel or copy on a device, or an operation on the processor."""

    kind: Kind
    name: str
    start_ns: int
    end_ns: int
    stream: int | str
    collective: CollectiveInfo | None = None
    """Given for communication only."""


def classify(name: str, category: str) -> Kind | None:
    """Return the kind of an event of a trace; None for what is neither work nor communication.

    category: Kineto's (`kernel`, `gpu_memcpy`, `gpu_memset`, `cpu_op`, `user_annotation`).
    """
    if category == "kernel":
        return "communication" if "nccl" in name.lower() else "computation"
    if category in ("gpu_memcpy", "gpu_memset"):
        return "copy"
    if category in ("cpu_op", "user_annotation") and name.startswith("gloo:"):
        return "communication"
    if category == "cpu_op" and "::" in name and not name.startswith(_NO_WORK):
        return "computation"
    return None


def op_of(name: str, *, unknown: str = "other") -> str:
    """Return the kind of collective that the name of a call or of a kernel means; `unknown` if none."""
    plain = name.lower().replace("_", "")
    return next((op for part, op in _OPS if part in plain), unknown)
