"""What follows from what agents reported and users want: nodes, attempts, trials, experiments.

`decide` is level-triggered: it looks at the whole present state, never at what changed, so it may
run at any moment, twice, or on another controller, and goes on from wherever things are. Each
`Step` is one subject's actions, to be applied together or not at all; every action names the state
it starts from, so that applying it can be refused when somebody was faster.
"""

from __future__ import annotations

import datetime as dt

from ..preflight import advance
from .actions import (
    Action,
    AdvancePreflight,
    BeginPreflight,
    QuarantineNode,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetExperiment,
    SetFlags,
    SetNode,
    SetTrial,
    SetYield,
    Step,
    Warn,
)
from .experiments import decide_experiment
from .nodes import decide_lost, decide_node, heartbeat_interval_s
from .trials import decide_trial
from .views import (
    AllocationView,
    AttemptView,
    ExperimentView,
    GangPreflight,
    LifecyclePolicy,
    LifecycleSnapshot,
    LostAllocation,
    NodeLease,
    TrialView,
)

__all__ = [
    "Action",
    "AdvancePreflight",
    "AllocationView",
    "AttemptView",
    "BeginPreflight",
    "ExperimentView",
    "GangPreflight",
    "LifecyclePolicy",
    "LifecycleSnapshot",
    "LostAllocation",
    "NodeLease",
    "QuarantineNode",
    "SetAllocation",
    "SetAttempt",
    "SetDesired",
    "SetExperiment",
    "SetFlags",
    "SetNode",
    "SetTrial",
    "SetYield",
    "Step",
    "TrialView",
    "Warn",
    "decide",
    "heartbeat_interval_s",
]


def decide(snapshot: LifecycleSnapshot, *, now: dt.datetime, policy: LifecyclePolicy) -> list[Step]:
    """Everything that should happen now, in an order that is safe to apply one by one.

    Raises ValueError when a decision would leave the tables of domain.states: a bug here.
    """
    nodes = {node.id: node for node in snapshot.nodes}
    lost_nodes = {allocation.node_id for allocation in snapshot.lost}
    steps: list[Step] = []
    for allocation in snapshot.lost:
        steps += decide_lost(allocation, nodes.get(allocation.node_id), now=now, policy=policy)
    for node in snapshot.nodes:
        steps += decide_node(
            node, snapshot, clean=node.id not in lost_nodes, now=now, policy=policy
        )
    for preflight in snapshot.preflights:
        decision = advance(preflight, now)
        if decision is not None:
            action = AdvancePreflight(
                preflight_id=preflight.id, stage=preflight.stage, decision=decision
            )
            steps.append(Step(subject=f"preflight:{preflight.id}", actions=(action,)))
    for trial in snapshot.trials:
        actions = decide_trial(trial, nodes, now, policy)
        if actions:
            steps.append(Step(subject=f"trial:{trial.id}", actions=actions))
    for experiment in snapshot.experiments:
        actions = decide_experiment(experiment)
        if actions:
            steps.append(Step(subject=f"experiment:{experiment.id}", actions=actions))
    return steps
