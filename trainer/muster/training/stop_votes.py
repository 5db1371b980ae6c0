"""Whether all ranks of a training stop after the same step."""

from __future__ import annotations

from collections import deque
from typing import Any

from muster.measure import agreement
from muster.measure.timing import StepTimer
from muster.sdk import stops
from muster.sdk.run import Run
from muster.sdk.stops import StopNotice
from muster.training.state import TrainState
from muster.training.strategies.base import Strategy


class StopVotes:
    """The vote of all ranks on a request to stop, once per step.

    A request reaches the ranks at different moments, so none of them may act on it alone. The vote
    runs beside the step and is read at its end. Where ranks may be ahead of each other by `max_lead`
    steps it is read so many steps later, so that all of them read the same vote after the same step.
    A strategy without a bound on the lead (`max_lead` is None) carries the vote in its own messages.
    """

    def __init__(
        self,
        run: Run,
        strategy: Strategy,
        training: TrainState,
        *,
        is_alone: bool,
        is_coupled: bool,
    ) -> None:
        self._run = run
        self._strategy = strategy
        self._training = training
        self._first_step = training.step
        self._max_lead = strategy.max_lead
        self._is_alone = is_alone
        self._is_coupled = is_coupled
        self._notice: StopNotice | None = None
        self._pending: deque[tuple[Any, StopNotice | None]] = deque()

    def begin(self) -> None:
        """Begin the vote of the next step. Every rank must call it."""
        self._notice = self._run.should_stop()
        if self._max_lead is None:
            self._strategy.vote = stops.as_vote(self._notice)
        elif self._is_coupled:
            vote = agreement.start_agreement(stops.as_vote(self._notice))
            self._pending.append((vote, self._notice))

    def end(self, timer: StepTimer, *, is_due: bool) -> StopNotice | None:
        """Return the request to stop that all ranks follow after this step, if there is one.

        is_due: after this step all ranks do something together, so those without a bound on their
            lead wait for each other.
        """
        stop = None
        lead = self._max_lead
        if self._is_alone:
            stop = self._run.should_stop()
        elif self._is_coupled and lead is not None and len(self._pending) > lead:
            vote, notice = self._pending.popleft()
            stop = stops.from_vote(agreement.finish_agreement(vote), notice)
        if lead is None:
            if is_due and not self._strategy.agreed:
                with timer.pause():
                    self._strategy.meet()
            if self._strategy.agreed:
                wish, after = self._strategy.agreed
                stop = stops.from_vote(wish, self._notice)
                self._training.step = self._first_step + after
        if stop:
            self._run.reporter.acknowledge_stop()
        return stop

    def settle(self) -> None:
        """Wait for the votes that nobody has read. Every rank must call it after its last step."""
        for vote, _ in self._pending:
            agreement.finish_agreement(vote)
