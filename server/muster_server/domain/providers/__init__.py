"""Which pilots a pool should have, and what became of those that were asked for.

A provider submits pilots, agents inside batch jobs, to a system that people have already, such as
Slurm, Ray or Kubernetes. `plan_pilots` says how many are wanted; `follow` moves one pilot on by what its
batch system and its node show. Both are pure; services.providers and loops.batch_systems do the rest.
"""

from .cost import CostLimit, slot_hours
from .following import PilotChange, Seen, follow, why_keep_off
from .options import KubernetesOptions, ProviderOptions, RayOptions, SlurmOptions, options_of
from .planning import Gang, PilotPlan, Provider, plan_pilots
from .reasons import Reason, reason_of
from .states import COMING, OPEN, Pilot, PilotState

__all__ = [
    "COMING",
    "OPEN",
    "CostLimit",
    "Gang",
    "KubernetesOptions",
    "Pilot",
    "PilotChange",
    "PilotPlan",
    "PilotState",
    "Provider",
    "ProviderOptions",
    "RayOptions",
    "Reason",
    "Seen",
    "SlurmOptions",
    "follow",
    "options_of",
    "plan_pilots",
    "reason_of",
    "slot_hours",
    "why_keep_off",
]
