"""A search that a program of your own drives; see `muster.ask_tell`."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.numbers import encode_number

from .connection import Connection, quoted
from .waiting import Looks, streaming, waiting

if TYPE_CHECKING:
    from .client import Client

TERMINAL_TRIAL = frozenset({"COMPLETED", "STOPPED_EARLY", "FAILED", "CANCELED"})


@dataclass(frozen=True)
class Result:
    """State of a point."""

    point: str
    """Name of the point."""
    trial_no: int | None
    """Number of its trial; None while it waits for room."""
    state: str | None
    metric: float | None
    """Best value of the search metric so far; None if none was reported."""
    reason: str

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL_TRIAL


class Drive:
    """One search, by the number of its experiment."""

    def __init__(self, client: Connection, experiment_id: int) -> None:
        self.client = client
        self.experiment_id = experiment_id
        self._path = f"/experiments/{experiment_id}"

    @classmethod
    def submit(cls, client: Client, document: str, *, overrides: Sequence[str] = ()) -> Drive:
        """Create the experiment. Raises client.Refused for a document that cannot work."""
        return cls(client, client.submit(document, overrides=overrides)["id"])

    # ------------------------------------------------------------ points for the cluster

    def enqueue(self, hparams: Mapping[str, Any], *, name: str | None = None) -> str:
        """Enqueue a point; return its name, under which it is tried once. Raises client.Refused."""
        name = name or uuid.uuid4().hex
        body = {"hparams": dict(hparams), "point": name}
        self.client.post(f"{self._path}/search/points", body, repeatable=True)
        return name

    def result(self, name: str) -> Result:
        """Return the result of a point. Raises client.Refused if no point has this name."""
        found = self.client.get(f"{self._path}/search/points/{quoted(name)}")
        metric = found["metric"]
        return Result(
            point=found["point"],
            trial_no=found["trial_no"],
            state=found["state"],
            metric=None if metric is None else float(metric),
            reason=found["reason"],
        )

    @waiting
    def wait(
        self, name: str, *, timeout_s: float | None = None, poll_s: float = 0.5
    ) -> Looks[Result]:
        """Return the result of a point once its trial has ended. Raises TimeoutError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not (result := self.result(name)).is_over:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"point {name} is still {result.state or 'waiting for room'}")
            yield poll_s
        return result

    @waiting
    def evaluate(
        self,
        points: Sequence[Mapping[str, Any]],
        *,
        timeout_s: float | None = None,
        poll_s: float = 0.5,
    ) -> Looks[list[Result]]:
        """Enqueue points and wait for all of them; return the results in the same order.

        timeout_s: for all of them together. Raises TimeoutError.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        names = [self.enqueue(point) for point in points]
        results: list[Result] = []
        while len(results) < len(names):
            result = self.result(names[len(results)])
            if result.is_over:
                results.append(result)
                continue
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(
                    f"point {result.point} is still {result.state or 'waiting for room'}"
                )
            yield poll_s
        return results

    def close(self) -> None:
        """Announce that no more points will come: the search ends with what there is."""
        self.client.post(f"{self._path}/search:close", repeatable=True)

    # ------------------------------------------------------------ trials for you

    def ask(self, count: int = 1, *, by: str = "") -> list[ExternalTrial]:
        """Return up to `count` trials to run; fewer, or none, if results have to come first."""
        return self._ask(count, by)[0]

    @streaming
    def trials(self, *, by: str = "", poll_s: float = 0.5) -> Iterator[list[ExternalTrial] | float]:
        """Yield trials to run, one at a time, until the search is over. Several programs may
        iterate."""
        while True:
            given, is_over = self._ask(1, by)
            if is_over:
                return
            if given:
                yield given
            else:
                yield poll_s

    def _ask(self, count: int, by: str) -> tuple[list[ExternalTrial], bool]:
        reply = self.client.post_once(f"{self._path}/search:ask", {"count": count, "by": by})
        return [ExternalTrial.of(self, trial) for trial in reply["trials"]], reply["is_over"]

    def tell(
        self,
        no: int,
        metrics: Mapping[str, float] | None = None,
        units: float | None = None,
        *,
        state: str = "running",
        reason: str = "",
    ) -> str:
        """Report on trial `no`; return what to do now: continue, pause, stop or over.

        units: trained so far, in the unit of `search.max_length`. state: running, completed, failed,
        or invalid: its hyperparameters cannot work.
        Values may be NaN or infinite. Warns (UserWarning) where the search's metric has not been told;
        raises client.Refused where the trial is to be complete without it.
        """
        body = {
            "no": no,
            "metrics": {name: encode_number(float(v)) for name, v in (metrics or {}).items()},
            "units": units,
            "state": state,
            "reason": reason,
        }
        reply = self.client.post(f"{self._path}/search:tell", body, repeatable=True)
        if hint := reply.get("hint"):
            warnings.warn(f"trial {self.experiment_id}.{no}: {hint}", stacklevel=2)
        decision: str = reply["decision"]
        return decision


@dataclass(frozen=True)
class ExternalTrial:
    """A trial that you run."""

    drive: Drive
    no: int
    hparams: dict[str, Any]
    seed: int
    units: float
    """Units reported so far; above 0 for a trial that continues after a pause."""
    max_units: int | None
    unit: str | None
    marks: tuple[int, ...]
    """Lengths at which to report the metric at least."""

    @classmethod
    def of(cls, drive: Drive, plain: Mapping[str, Any]) -> ExternalTrial:
        return cls(
            drive=drive,
            no=plain["no"],
            hparams=plain["hparams"],
            seed=plain["seed"],
            units=plain["units"],
            max_units=plain["max_units"],
            unit=plain["unit"],
            marks=tuple(plain["marks"]),
        )

    def tell(self, metrics: Mapping[str, float], units: float | None = None) -> bool:
        """Report metrics; return whether to train on. If not, the trial was stopped, or paused, in
        which case it may be handed out again."""
        return self.drive.tell(self.no, metrics, units) == "continue"

    def complete(
        self, metrics: Mapping[str, float] | None = None, units: float | None = None
    ) -> None:
        """Mark the trial as trained to its end."""
        self.drive.tell(self.no, metrics, units, state="completed")

    def fail(self, reason: str) -> None:
        """Mark the trial as failed; the reason is shown."""
        self.drive.tell(self.no, state="failed", reason=reason)

    def invalid(self, reason: str) -> None:
        """Mark its hyperparameters as invalid: another trial may take its place."""
        self.drive.tell(self.no, state="invalid", reason=reason)
