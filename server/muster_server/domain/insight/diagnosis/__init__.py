"""What a training is bound by: which probes to run, and what their step times say together."""

from ..estimates import IntervalEstimate
from .advice import Advice
from .judging import Breakdown, Diagnosis, ProbeRun, judge, judge_observed
from .planning import LeftOut, Plan, plan
from .reading import breakdown, step_times

__all__ = [
    "Advice",
    "Breakdown",
    "Diagnosis",
    "IntervalEstimate",
    "LeftOut",
    "Plan",
    "ProbeRun",
    "breakdown",
    "judge",
    "judge_observed",
    "plan",
    "step_times",
]
