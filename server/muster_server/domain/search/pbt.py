"""The steps of population based training: who gathers at a rung, who is replaced there, by whom."""

from __future__ import annotations

import math
from typing import Any

from . import sampling
from .asha import WaitingAtRungs
from .events import Action, CreateTrial, StopTrial
from .population import Clone, Population, renew
from .ranking import EPSILON, Standings
from .rungs import score


class Renewal:
    """Renews the population of one search, of which it shares the standings and who waits."""

    def __init__(
        self, population: Population, standings: Standings, waiting: WaitingAtRungs
    ) -> None:
        self._population = population
        self._standings = standings
        self._waiting = waiting

    @property
    def is_gathering(self) -> bool:
        """Members are on their way to their rest, or clones that were decided do not exist yet."""
        rested = self._population.rested
        return bool(self._population.clones) or any(no not in rested for no in self._waiting.at)

    def close_rung(
        self, held: dict[int, list[tuple[float, float]]], *, next_no: int
    ) -> list[Action]:
        """Decide on the clones of the rung at which everybody rests; those they replace are stopped.

        held: what members have reported on their way to their rest, from which those who are
        stopped are taken. next_no: number of the next trial. Nothing is decided twice for a rung.
        """
        standings, waiting, rested = self._standings, self._waiting, self._population.rested
        spec = standings.spec
        assert spec.explore is not None
        rung = min(waiting.at.values())
        if waiting.closed[rung] is not None:
            waiting.close(rung, ())  # who comes later, because a user continued it, goes on
            return []
        # Those that have trained to their end meanwhile have nothing left that a clone could do.
        done = {
            no for no, reports in held.items() if reports[-1][0] > standings.units[-1] - EPSILON
        }
        ranked = [
            (entry.trial_no, score(entry.value, spec.goal))
            for entry in standings.ranking(rung)
            # A user removed those that had a value and do not wait.
            if (waiting.at.get(entry.trial_no) == rung and entry.trial_no not in done)
            or not math.isfinite(score(entry.value, spec.goal))
        ]
        clones = renew(spec.explore, ranked, rested, seed=spec.seed, next_no=next_no, rung=rung)
        self._population.clones = clones
        losers = [c for c in clones if waiting.at.get(c.replaced_no) == rung]
        waiting.close(rung, [c.replaced_no for c in losers])
        actions: list[Action] = []
        where, num = standings.where(rung), len(clones)
        for clone in losers:
            no = clone.replaced_no
            standings.settle(rung, no, goes_on=False)
            rested.pop(no, None)
            held.pop(no, None)
            reason = (
                f"{spec.metric} of {standings.value(rung, no):.6g} at {where} was among the "
                f"worst {num} of {len(ranked)}: a clone of trial {clone.parent_no} takes its place"
            )
            actions.append(StopTrial(no=no, reason=reason))
        return actions

    def create(self, clone: Clone, no: int, hparams: dict[str, Any]) -> CreateTrial:
        """Return trial `no`, which is the clone that was decided on, with these hyperparameters."""
        spec, known = self._standings.spec, self._population.hparams
        known[no] = hparams
        known.pop(clone.replaced_no, None)
        self._standings.in_bracket[0] += 1
        return CreateTrial(
            no=no,
            hparams=hparams,
            seed=sampling.trial_seed(spec.seed, no),
            max_units=spec.max_units,
            reason=f"trial {no}, a clone of trial {clone.parent_no} at "
            f"{self._standings.where(clone.rung)} in place of trial {clone.replaced_no}",
            parent_no=clone.parent_no,
            checkpoint_id=clone.checkpoint_id,
            generation=clone.rung + 1,
        )
