"""Which probes a diagnosis runs, in which order, and which it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.document.experiment import ExperimentConfig

COPIES = frozenset({"ddp", "local_sgd", "diloco"})
"""Kinds whose workers each hold a whole model and can go on without a word from the others."""
WHOLE = COPIES | {"zero1"}
BUCKETS = frozenset({"ddp", "zero1"})

WARM_UP_STEPS = 5
"""The first ones pay for connections and caches: they do not count."""
MIN_STEPS = WARM_UP_STEPS + 10
BUCKET_FACTOR = 4


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A probe that cannot be run."""

    probe: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    probes: tuple[str, ...]
    """Probes as the trainer takes them ("no_sync/2"), in the order in which they run, one at a
    time."""
    steps: int
    """Number of steps of each probe."""
    left_out: tuple[LeftOut, ...]


def plan(
    config: ExperimentConfig,
    *,
    repeats: int,
    max_steps: int,
    max_probe_s: float,
    step_ms: float | None,
    bytes_per_step: float | None,
) -> Plan:
    """Return the probes of a training with the built-in trainer.

    config: its resolved document. step_ms, bytes_per_step: what was measured of it, None where
    nothing was. A probe has at most `max_steps` steps, and fewer where those would take longer
    than `max_probe_s`, but never fewer than MIN_STEPS.

    Every second round goes backwards, so that a machine that becomes slower or faster meanwhile
    counts for all probes alike.
    """
    slots = config.resources.slots
    kind = config.strategy.kind
    possible = ["as_is", "synthetic"]
    left_out: list[LeftOut] = []

    def consider(probe: str, name: str, kinds: frozenset[str], why: str) -> None:
        if slots == 1 or kind == "single":
            left_out.append(LeftOut(probe=name, reason="one worker exchanges nothing"))
        elif kind not in kinds:
            left_out.append(LeftOut(probe=name, reason=why))
        else:
            possible.append(probe)

    consider("no_sync", "no_sync", COPIES, _why_no_sync(kind))
    consider("alone", "alone", WHOLE, f"with {kind} no worker holds the whole model")
    size = _other_bucket(config.strategy.bucket_mb, bytes_per_step)
    consider(f"bucket:{size:g}", "bucket", BUCKETS, f"{kind} does not send gradients in buckets")
    return Plan(
        probes=tuple(
            f"{probe}/{repeat}"
            for repeat in range(1, repeats + 1)
            for probe in _round(possible, repeat)
        ),
        steps=_num_steps(max_steps, max_probe_s, step_ms),
        left_out=tuple(left_out),
    )


def _round(probes: Sequence[str], repeat: int) -> Sequence[str]:
    return probes if repeat % 2 else probes[::-1]


def _why_no_sync(kind: str) -> str:
    if kind == "zero1":
        return "zero1 sends the parameters that each worker has updated in any case"
    if kind == "ps":
        return "workers of a parameter server have nothing to compute with but what it sends"
    return f"with {kind} a worker has nothing to compute with but what others send it"


def _num_steps(max_steps: int, max_probe_s: float, step_ms: float | None) -> int:
    in_time = max_probe_s * 1e3 / step_ms if step_ms else max_steps
    return max(min(int(in_time), max_steps), MIN_STEPS)


def _other_bucket(mb: float, bytes_per_step: float | None) -> float:
    """MB (2^20 bytes). Smaller where all gradients fit into a bucket or two, so that they begin to
    be sent earlier; else larger, so that there are fewer messages."""
    if bytes_per_step is not None and bytes_per_step / 2**20 <= 2 * mb:
        return max(round(bytes_per_step / 2**20 / BUCKET_FACTOR, 3), 0.01)
    return mb * BUCKET_FACTOR
