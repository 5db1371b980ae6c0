"""Trainings whose loss of time is known, on a real stack, and what Muster says of it.

`CAUSES` lists them; `train.py` has their scripts. `Judge` runs one as a person would submit it, and compares
what the service names, and its figure, with what the script's own clock says of the same steps.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.client import Client
from muster.code.bundle import make_bundle

SCRIPT = Path(__file__).with_name("train.py")
TOLERANCE = 0.05
"""Share of the step by which a figure may be off."""
TIMEOUT_S = 280.0
OUTSIDE = ("outside_busy", "outside_idle")
"""Kinds of time outside the model. Which of them is larger depends on who else has the processor."""
UNDECIDED = frozenset({"too_early", "no_single_cost", "communication_or_waiting"})
"""Verdicts that name no cause, and cannot name a wrong one."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A training of which the cause of its largest loss, or its work, is known."""

    script: str
    kinds: tuple[str, ...]
    """Kinds of bottleneck that are right."""
    part: str = ""
    """Name in the script's truth; of "waiting" how late the ranks were."""
    workers: int = 1
    ranks: tuple[int, ...] = ()
    """Ranks that the others wait for."""
    sdk: bool = False

    @property
    def name(self) -> str:
        return self.script + (" sdk" if self.sdk else "") + (" x2" if self.workers > 1 else "")


def _cause(script: str, kinds: str, part: str, **more: Any) -> Cause:
    return Cause(script=script, kinds=tuple(kinds.split()), part=part, **more)


def _outside(script: str, **more: Any) -> Cause:
    return Cause(script=script, kinds=OUTSIDE, part="outside", **more)


def _late(script: str, *ranks: int, sdk: bool = False) -> Cause:
    return _cause(script, "waiting", "waiting", workers=2, ranks=ranks, sdk=sdk)


CAUSES = (
    _cause("Loader", "data", "data"),
    _cause("LoaderWorker", "data", "data"),
    _outside("HandSleeps"),
    _outside("HandComputes"),
    _outside("SleepsAtTheEnd"),
    _cause("EvaluatesByHand", "without_gradients", "no_grad"),
    _cause("EvaluatesWithALoader", "validation", "validation"),
    _cause("HasATeacher", "without_gradients", "no_grad"),
    _cause("SavesNowAndThen", "checkpoint", "checkpoint"),
    _cause("OptimizesForLong", "optimizer", "optimizer"),
    _outside("CopiesOnTheHost"),
    _outside("HasNoModule"),
    _cause("Computes", "computation", "computing"),
    _cause("IsCompiled", "computation", "computing"),
    _cause("Recomputes", "computation", "computing"),
    _cause("Computes", "computation", "computing", workers=2),
    _cause("Accumulates", "computation", "computing", workers=2),
    _outside("SleepsAtTheEnd", workers=2),
    _cause("EvaluatesByHand", "without_gradients", "no_grad", workers=2),
    _late("LogsOnOneRank", 0),
    _late("PausesNowAndThen", 0),
    _late("IsAlwaysLate", 1),
    _late("IsLateByTurns", 0, 1),
    _late("IsLateInBursts", 1),
    _late("HasVariableLengths", 0, 1),
    _cause("SmallMessages", "communication", "communication", workers=2),
    _cause("LargeMessage", "communication", "communication", workers=2),
    _cause("Barriers", "communication", "communication", workers=2),
    _outside("WaitsLater", workers=2),
    _cause("Pipeline", "bubble communication_or_waiting waiting", "bubble", workers=2),
    _cause("Loader", "data", "data", sdk=True),
    _outside("SleepsAtTheEnd", sdk=True),
    _cause("EvaluatesWithALoader", "validation", "validation", sdk=True),
    _cause("HasATeacher", "without_gradients", "no_grad", sdk=True),
    _cause("SavesNowAndThen", "checkpoint", "checkpoint", sdk=True),
    _cause("Computes", "computation", "computing", sdk=True),
    _late("PausesNowAndThen", 0, sdk=True),
    _late("IsAlwaysLate", 1, sdk=True),
    _cause("Pipeline", "bubble", "bubble", workers=2, sdk=True),
)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was said of a training, and what is true."""

    cause: Cause
    step_ms: float
    """By the script's clock, validation included."""
    true_ms: float
    kind: str
    largest: str
    """Kind of the largest of all costs, computing included."""
    said_ms: float | None
    """Figure of the true cause, whatever was named; None if it has none."""
    headline: str
    reason: str
    parts: dict[str, float]
    """Metric → mean over the ranks."""

    @property
    def is_undecided(self) -> bool:
        return self.kind in UNDECIDED and self.kind not in self.cause.kinds

    @property
    def names_the_cause(self) -> bool:
        """Return whether the cause is named, and the late ranks."""
        if self.cause.kinds == ("computation",):
            # A sentence on what else could be saved names computing as well.
            return self.largest == "computation"
        if self.kind not in self.cause.kinds:
            return False
        # Of ranks that take turns, chance says which is named first.
        return len(self.cause.ranks) != 1 or f"ank {self.cause.ranks[0]} " in self.reason

    @property
    def points_off(self) -> float:
        """Return by how many hundredths of the step the figure is off."""
        return 100 * abs((self.said_ms or 0.0) - self.true_ms) / self.step_ms

    @property
    def is_right(self) -> bool:
        named = self.names_the_cause and self.points_off <= 100 * TOLERANCE
        return named or self.is_undecided

    def row(self) -> str:
        said = "-" if self.said_ms is None else f"{self.said_ms:.1f}"
        verdict = "undecided" if self.is_undecided else "right" if self.is_right else "WRONG"
        return (
            f"| {self.cause.name} | {self.true_ms:.1f} of {self.step_ms:.1f} | {said} "
            f"| {self.points_off:.1f} | {self.kind} | {verdict} | {self.headline} {self.reason} |"
        )


HEAD = (
    "| training | true, ms of a step | said | points off | verdict | | sentence |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def judged(client: Client, cause: Cause) -> Judged:
    """Train, and compare. AssertionError if the training does not complete."""
    with tempfile.TemporaryDirectory(prefix="known-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        code = folder / "code"
        code.mkdir()
        (code / SCRIPT.name).write_bytes(SCRIPT.read_bytes())
        arguments = [SCRIPT.name, cause.script, name, *(["sdk"] if cause.sdk else [])]
        document = {
            "name": cause.name,
            "entrypoint": arguments,
            "launcher": "torchrun" if cause.workers > 1 else "plain",
            "resources": {"slots": cause.workers},
        }
        bundle = make_bundle(code)
        experiment = client.submit(json.dumps(document), blob_sha256=client.upload(bundle))
        bundle.remove()
        ended = client.wait(experiment["id"], timeout_s=TIMEOUT_S)
        (trial,) = client.trials(experiment["id"])
        log = [line["text"] for line in client.log_lines(trial["id"])][-20:]
        assert ended["state"] == "COMPLETED", "\n".join(log)
        truths = [
            json.loads((folder / f"truth-{rank}.json").read_text()) for rank in range(cause.workers)
        ]
    found = client.get(f"/trials/{trial['id']}/performance", rows=1000)
    assert found["ranks"], "\n".join(log)
    bound = found["bottleneck"]
    assert bound is not None
    cause = _as_it_went(cause, truths)
    kinds = {cost["kind"]: cost["ms"] for cost in bound.get("costs", ())}
    names = {name for rank in found["ranks"] for name in rank["parts"]}
    return Judged(
        cause=cause,
        step_ms=statistics.fmean(truth["step"] for truth in truths),
        true_ms=_true_ms(cause, truths),
        kind=bound["kind"],
        largest=max(kinds, key=lambda kind: kinds[kind], default=""),
        said_ms=bound["ms"]
        if bound["kind"] in cause.kinds
        else next((kinds[kind] for kind in cause.kinds if kind in kinds), None),
        headline=bound.get("headline", ""),
        reason=bound["reason"],
        parts={
            name: statistics.fmean(rank["parts"].get(name, 0.0) for rank in found["ranks"])
            for name in sorted(names)
        },
    )


def _as_it_went(cause: Cause, truths: list[dict[str, Any]]) -> Cause:
    """Return the cause; of time outside the model with the half that was larger."""
    if cause.part != "outside":
        return cause
    part = max(OUTSIDE, key=lambda p: sum(t["parts"][p] for t in truths))
    return dataclasses.replace(cause, kinds=(part,), part=part)


def _true_ms(cause: Cause, truths: list[dict[str, Any]]) -> float:
    if cause.part != "waiting":
        return statistics.fmean(truth["parts"][cause.part] for truth in truths)
    pairs = zip(*(truth["late"] for truth in truths), strict=True)
    return statistics.fmean(max(pair) - min(pair) for pair in pairs)


def load() -> float:
    return round(os.getloadavg()[0], 1)
