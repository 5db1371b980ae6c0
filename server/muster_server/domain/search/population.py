"""Population based training (Jaderberg et al. 2017, arXiv:1711.09846): exploit and explore.

Members train at the same time and are judged at every rung when all of them rest there with a
checkpoint. The worst are replaced by clones of the best: new trials that go on from the checkpoint of
their parent (truncation selection) with hyperparameters perturbed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from . import sampling
from .constraints import Constraint
from .sampling import SearchParameter

PERTURB_TRIES = 1_000
"""Perturbed points that break a constraint before the clone keeps its parent's."""

_NOT_THERE = object()


@dataclass(frozen=True, kw_only=True)
class Explore:
    """How a population renews itself."""

    size: int
    """Members."""
    quantile: float = 0.25
    """The share that is replaced, and the share that is cloned: above 0, at most 0.5."""
    resample: float = 0.25
    """Probability that a hyperparameter is drawn anew instead of perturbed: 0 .. 1."""
    factors: tuple[float, ...] = (0.8, 1.2)
    """A number is multiplied by one of them."""
    names: tuple[str, ...] | None = None
    """Hyperparameters that change, while the others are the parent's; None for all that are
    searched."""

    def num_replaced(self, num_members: int) -> int:
        """ceil(members × quantile), never more than half of them."""
        # Exact: 10 × 0.3 is a little more than 3 in floating point.
        share = math.ceil(num_members * Fraction(str(self.quantile)))
        return min(share, num_members // 2)

    def num_trials(self, num_rungs: int) -> int:
        """Return the number of trials when nothing fails: the members, and their clones at all
        rungs but the last."""
        return self.size + self.num_replaced(self.size) * (num_rungs - 1)


def copied(parameters: Sequence[SearchParameter], known: Collection[str] = ()) -> frozenset[str]:
    """Return the names of the searched hyperparameters that a clone takes over from its parent as
    they are.

    known: names of those that are known to shape the model beside those the document says it of.
    What decides whether one of them is there at all is taken over too.
    """
    by_path = {p.path: p for p in parameters}
    todo = [p for p in parameters if p.is_structural or p.name in known]
    found: set[str] = set()
    while todo:
        parameter = todo.pop()
        if parameter.name not in found:
            found.add(parameter.name)
            todo += [by_path[other] for other, _ in parameter.when if other in by_path]
    return frozenset(found & {p.name for p in parameters if p.kind != "const"})


@dataclass(frozen=True, kw_only=True)
class Clone:
    """A trial to be created."""

    parent_no: int
    checkpoint_id: int
    rung: int
    """Where its parent rests: counted from 0."""
    replaced_no: int

    def to_json(self) -> list[int]:
        return [self.parent_no, self.checkpoint_id, self.rung, self.replaced_no]

    @classmethod
    def from_json(cls, plain: Sequence[int]) -> Clone:
        parent_no, checkpoint_id, rung, replaced_no = plain
        return cls(
            parent_no=parent_no, checkpoint_id=checkpoint_id, rung=rung, replaced_no=replaced_no
        )


@dataclass
class Population:
    """What is known of the members beside their standings."""

    rested: dict[int, int | None] = field(default_factory=dict)
    """Checkpoints of the trials that have given up their slots, by trial; None for a trial without
    one."""
    clones: list[Clone] = field(default_factory=list)
    """Decided, and created as soon as there is room."""
    hparams: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Hyperparameters of every member that may become a parent."""

    def to_json(self) -> dict[str, Any]:
        return {
            "rested": [[no, checkpoint] for no, checkpoint in self.rested.items()],
            "clones": [clone.to_json() for clone in self.clones],
            "hparams": [[no, hparams] for no, hparams in self.hparams.items()],
        }

    def load(self, plain: dict[str, Any]) -> None:
        """Take over what `to_json` gave."""
        self.rested = dict(plain["rested"])
        self.clones = [Clone.from_json(clone) for clone in plain["clones"]]
        self.hparams = dict(plain["hparams"])


def renew(
    explore: Explore,
    ranked: Sequence[tuple[int, float]],
    rested: dict[int, int | None],
    *,
    seed: int,
    next_no: int,
    rung: int,
) -> list[Clone]:
    """Return the clones that replace members at a rung, the worst member last.

    ranked: (trial, score) of every member, best first; an infinite score means that it failed or
    its value was not finite. rested: checkpoints of the members that can be cloned. next_no: number
    of the next trial. Parents are the best `num_replaced` with a finite score and a checkpoint;
    each clone's parent is drawn at random by `seed` and the clone's number. Nobody is replaced if
    there is no parent.
    """
    num = explore.num_replaced(len(ranked))
    parents = [
        (no, checkpoint)
        for no, score in ranked[:num]
        if math.isfinite(score) and (checkpoint := rested.get(no)) is not None
    ]
    if not parents:
        return []
    clones: list[Clone] = []
    for offset, (replaced_no, _) in enumerate(ranked[len(ranked) - num :]):
        at = int(sampling.uniform(seed, next_no + offset, "exploit") * len(parents))
        parent_no, checkpoint_id = parents[at]
        clones.append(
            Clone(
                parent_no=parent_no,
                checkpoint_id=checkpoint_id,
                rung=rung,
                replaced_no=replaced_no,
            )
        )
    return clones


def perturb(
    explore: Explore,
    parameters: list[SearchParameter],
    constraints: Sequence[Constraint],
    parent: dict[str, Any],
    *,
    seed: int,
    no: int,
) -> dict[str, Any]:
    """Hyperparameters of clone `no`: its parent's, perturbed within the space.

    Each is drawn anew with probability `resample`. Otherwise a number is multiplied by one of the
    factors and put back into its bounds (an int moves by one step at least), a choice among numbers
    moves to the next smaller or larger one, and any other choice stays. What appears because a
    `when` is met now is drawn. When no perturbed point fulfils the constraints, the parent's.
    """
    for attempt in range(PERTURB_TRIES):
        values = {
            p.path: _changed(explore, p, parent, seed=seed, no=no, attempt=attempt)
            for p in parameters
        }
        point = sampling.active(parameters, values)
        if all(constraint.holds(point) for constraint in constraints):
            return point
    return parent


def _changed(
    explore: Explore,
    p: SearchParameter,
    parent: dict[str, Any],
    *,
    seed: int,
    no: int,
    attempt: int,
) -> Any:
    def draw(purpose: str) -> float:
        return sampling.uniform(seed, no, *p.path, purpose, str(attempt))

    value = sampling.value_of(parent, p.path, _NOT_THERE)
    if value is _NOT_THERE:
        return p.draw(draw("resample"))
    if p.kind == "const" or (explore.names is not None and p.name not in explore.names):
        return value
    if draw("whether") < explore.resample:
        return p.draw(draw("resample"))
    u = draw("factor")
    if p.kind == "choice":
        return _neighbour(p.values, value, up=u >= 0.5)
    factor = explore.factors[int(u * len(explore.factors))]
    if p.kind != "int":
        return min(max(value * factor, p.lo), p.hi)
    lo, last = int(p.lo), (int(p.hi) - int(p.lo)) // p.step
    before = round((value - lo) / p.step)
    after = round((value * factor - lo) / p.step)
    if after == before and factor != 1:
        after += 1 if value * factor > value else -1
    return lo + p.step * min(max(after, 0), last)


def _neighbour(values: tuple[Any, ...], value: Any, *, up: bool) -> Any:
    are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not are_numbers or value not in values:
        return value
    ordered = sorted(values)
    at = ordered.index(value) + (1 if up else -1)
    return ordered[min(max(at, 0), len(ordered) - 1)]
