"""What follows from what agents reported and users want: nodes, attempts, trials, experiments.

`decide` is level-triggered: it looks at the whole present state, never at what changed, so it may
run at any moment, twice, or on another controller, and goes on from wherever things are. Each
`LifecycleStep` is one subject's actions, to be applied together or not at all; every action names the state
it starts from, so that applying it can be refused when somebody was faster.
"""

from __future__ import annotations

import datetime as dt

from ..nodes.preflight import advance
from .actions import *
from .actions import AdvancePreflight, LifecycleStep
from .experiments import decide_experiment
from .nodes import decide_lost, decide_node
from .nodes import heartbeat_interval_s as heartbeat_interval_s
from .pilots import decide_pilot, grace_by_node
from .silence import Hearing as Hearing
from .silence import hearing_of as hearing_of
from .silence import moment as moment
from .trials import decide_trial
from .views import *
from .views import LifecyclePolicy, LifecycleSnapshot


def decide(
    snapshot: LifecycleSnapshot, *, now: dt.datetime, policy: LifecyclePolicy
) -> list[LifecycleStep]:
    """Return everything that should happen now, in an order that is safe to apply one by one.

    Raises ValueError when a decision would leave the tables of domain.states: a bug here.
    """
    nodes = {node.id: node for node in snapshot.nodes}
    hearing = hearing_of(snapshot, now=now, policy=policy)
    lost_nodes = {allocation.node_id for allocation in snapshot.lost}
    steps: list[LifecycleStep] = []
    for allocation in snapshot.lost:
        steps += decide_lost(allocation, nodes.get(allocation.node_id), hearing)
    grace_s = grace_by_node(snapshot.trials) if any(n.is_pilot for n in snapshot.nodes) else {}
    for node in snapshot.nodes:
        if node.is_pilot:
            found = decide_pilot(node, hearing, grace_s=grace_s.get(node.id, 0.0))
            if found:
                steps += found
                continue
        steps += decide_node(node, hearing, num_nodes=len(nodes), clean=node.id not in lost_nodes)
    for preflight in snapshot.preflights:
        members = [nodes.get(member.node_id) for member in preflight.members]
        waited_s = hearing.waited_s(preflight.stage_since, members)
        decision = advance(preflight, preflight.stage_since + dt.timedelta(seconds=waited_s))
        if decision is not None:
            action = AdvancePreflight(
                preflight_id=preflight.id, stage=preflight.stage, decision=decision
            )
            steps.append(LifecycleStep(subject=f"preflight:{preflight.id}", actions=(action,)))
    for trial in snapshot.trials:
        actions = decide_trial(trial, nodes, hearing)
        if actions:
            steps.append(LifecycleStep(subject=f"trial:{trial.id}", actions=actions))
    for experiment in snapshot.experiments:
        actions = decide_experiment(experiment)
        if actions:
            steps.append(LifecycleStep(subject=f"experiment:{experiment.id}", actions=actions))
    return steps
