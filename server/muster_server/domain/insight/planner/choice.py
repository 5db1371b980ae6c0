"""Which strategy, and which batch, fits into a slot and sends least. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.document.strategy import StrategySection
from muster.document.strategy_rules import Shape, problems

from ..cost_model.collectives import BACKENDS, link_bytes
from .memory import Memory, PlannedTraining, memory
from .traffic import Traffic, traffic

USABLE = 0.9
"""Usable share of a slot's memory; the rest is for the interpreter, libraries and allocator
overhead."""
SAME_CURVE = ("ddp", "zero1", "fsdp", "tp", "pp")
"""Kinds that train as one process would, simplest first; others are never recommended unasked."""
MAX_BATCH = 65_536


@dataclass(frozen=True, kw_only=True)
class StrategyOption:
    """One way to train it."""

    kind: str
    memory: Memory | None
    """Memory it needs; None if it cannot be used (see `problem`)."""
    traffic: tuple[Traffic, ...]
    link_bytes: float
    """On the busiest link, per step."""
    fits: bool | None
    """Whether it fits; None if the memory of a slot is unknown."""
    step_s: float | None
    """Predicted time of a step; None if there are no figures to predict it from."""
    problem: str


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    kind: str | None
    """Recommended strategy; None if nothing fits."""
    batch_size: int | None
    """Largest power of two that fits; None if unknown or if none fits."""
    reason: str


def candidate(
    job: PlannedTraining, *, slot_bytes: int | None, shape: Shape, slot_type: str
) -> StrategyOption:
    """Return what the job's strategy needs, or why the rules do not allow it."""
    wrong = next(
        (p for p in problems(job.options, slots=job.slots, slot_type=slot_type, shape=shape)), None
    )
    if wrong is not None:
        return StrategyOption(
            kind=job.options.kind, memory=None, traffic=(), link_bytes=0.0, fits=None, step_s=None,
            problem=f"{wrong.path}: {wrong.message}",
        )  # fmt: skip
    backend = BACKENDS.get(slot_type, "nccl")
    takes = memory(job)
    sends = tuple(traffic(job, backend=backend))
    return StrategyOption(
        kind=job.options.kind,
        memory=takes,
        traffic=sends,
        link_bytes=sum(link_bytes(t.moved_as, t.size, t.num_bytes) for t in sends),
        fits=None if slot_bytes is None else takes.total <= USABLE * slot_bytes,
        step_s=None,
        problem="",
    )


def alternatives(job: PlannedTraining) -> list[PlannedTraining]:
    """Return the job as it is, and with the other kinds that train the same curve, options that are
    for all kinds kept."""
    options = job.options
    common = StrategySection(
        accumulate=options.accumulate, precision=options.precision, clip_norm=options.clip_norm,
        recompute=options.recompute,
    )  # fmt: skip
    others = [k for k in SAME_CURVE if k != options.kind] if job.slots > 1 else []
    return [job, *(replace(job, options=replace(common, kind=k)) for k in others)]  # type: ignore[arg-type]


def advise(
    found: Sequence[StrategyOption], chosen: PlannedTraining, *, slot_bytes: int | None
) -> Recommendation:
    """Return the best of the strategies that fit and train the same curve.

    It is the one with the shortest step if times are known for all of them, otherwise the one that
    puts the fewest bytes on a link.
    """
    if chosen.slots == 1:
        only = found[0]
        if only.fits is False:
            return Recommendation(kind=None, batch_size=largest_batch(chosen, slot_bytes),
                          reason=_too_large(only, slot_bytes))  # fmt: skip
        return Recommendation(kind="single", batch_size=largest_batch(chosen, slot_bytes),
                      reason="One slot trains alone: nothing is sent.")  # fmt: skip
    usable = [c for c in found if c.memory is not None and c.kind in SAME_CURVE]
    fitting = [c for c in usable if c.fits is not False]
    if not fitting:
        if not usable:
            return Recommendation(kind=None, batch_size=None, reason="No strategy can be used.")
        least = min(usable, key=lambda c: c.memory.total if c.memory else 0.0)
        return Recommendation(
            kind=None,
            batch_size=None,
            reason=f"Nothing fits: the least is {least.kind}. {_too_large(least, slot_bytes)}",
        )
    if all(c.step_s is not None for c in fitting):
        best = min(fitting, key=lambda c: c.step_s or 0.0)
        why = f"has the shortest predicted step, {1e3 * (best.step_s or 0.0):.1f} ms"
    else:
        best = min(fitting, key=lambda c: (round(c.link_bytes), SAME_CURVE.index(c.kind)))
        why = f"puts the fewest bytes on a link, {best.link_bytes / 1e6:.2f} MB per step"
    room = (
        "how much memory a slot has is not known"
        if slot_bytes is None
        else f"it takes {_gb(best)} of {slot_bytes / 1e9:.2f} GB"
    )
    job = next(j for j in alternatives(chosen) if j.options.kind == best.kind)
    return Recommendation(
        kind=best.kind,
        batch_size=largest_batch(job, slot_bytes),
        reason=f"Of what fits and trains the same curve, {best.kind} {why}; {room}.",
    )


def largest_batch(job: PlannedTraining, slot_bytes: int | None) -> int | None:
    """Return the largest power of two that fits as batch_size; None if unknown or if not even 1
    fits."""
    if slot_bytes is None:
        return None
    best = None
    size = 1
    while size <= MAX_BATCH and memory(replace(job, batch_size=size)).total <= USABLE * slot_bytes:
        best = size
        size *= 2
    return best


def _too_large(candidate: StrategyOption, slot_bytes: int | None) -> str:
    have = "" if slot_bytes is None else f", and a slot has {slot_bytes / 1e9:.2f} GB"
    return (
        f"It takes {_gb(candidate)}{have}: use more slots, a smaller batch_size, recompute: true or "
        "precision: bf16."
    )


def _gb(candidate: StrategyOption) -> str:
    assert candidate.memory is not None, "it can be used"
    return f"{candidate.memory.total / 1e9:.2f} GB"
