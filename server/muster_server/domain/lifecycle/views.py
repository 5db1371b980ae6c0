"""What the lifecycle looks at."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from muster.document.experiment import ExperimentConfig
from muster.document.roles import RoleSection, member_name
from muster.document.running import PreflightSection, RestartsSection
from muster.wire import ExitInfo, NodeFacts

from ..nodes.preflight import PreflightView
from ..states import (
    AllocationState,
    AttemptState,
    ExperimentState,
    NodeState,
    TrialState,
    YieldKind,
)
from .avoidance import Avoided
from .restarts import RestartPolicy


@dataclass(frozen=True, kw_only=True)
class LifecyclePolicy:
    heartbeat_s: float = 5.0
    suspect_missed: int = 3
    node_lost_s: float = 60.0
    takeover_grace_s: float = 60.0
    server_away_s: float = 900.0
    """While other API servers hear their nodes, silence of the nodes of one that is away is excused
    for so long at most."""
    held_poll_s: float = 55.0
    """An agent gives up a poll that nobody answers after so long."""
    held_report_s: float = 35.0
    """An agent sends a report that nobody answers again after so long: what was sent just before an
    outage ended arrives no earlier. Calls that a server kept while it stood still end its silence
    before the agents do."""
    prepare_timeout_s: float = 900.0
    start_timeout_s: float = 600.0
    start_preflight_s: float = 60.0
    """Time in STARTING, in seconds, after which the nodes of a gang run a preflight; 0 for
    never."""
    wind_down_s: float = 300.0
    kill_margin_s: float = 10.0
    """Past its stop grace an allocation is given so long before it is told to kill."""
    gang_grace_s: float = 1.0
    """What the other members of a gang get when one has failed."""
    unstarted_grace_s: float = 30.0
    """An allocation no agent ever took up is written off so long after its attempt ended."""
    pilot_notice_s: float = 60.0
    """A pilot is drained so long before its end, and before the longest stop grace on it."""
    pilot_forgotten_s: float = 300.0
    """A pilot that has been silent for so long, and is LOST, is removed."""
    reconcile_grace_s: float = 60.0
    """A returned node that does not say what still runs is believed clean after this."""
    restarts: RestartPolicy = field(default_factory=RestartPolicy)

    @property
    def away_after_s(self) -> float:
        """An API server that has not stamped for so long is away, and a control plane that hears
        nobody for so long is cut off. All nodes together are never that long apart, however many
        there are: the more, the more heartbeats."""
        return self.suspect_missed * self.heartbeat_s


@dataclass(frozen=True, kw_only=True)
class NodeLease:
    id: str
    name: str
    state: NodeState
    last_seen_at: dt.datetime
    registered_at: dt.datetime
    lease_s: float = 15.0
    """How long the last lease granted to it holds."""
    health: str = "ok"
    scheduling: str = "open"
    stopped_by: str = ""
    """Why a maintenance window asks what runs there for its slots, as the end of a sentence; "" if none
    does."""
    heard_by: str = ""
    """The API server that heard it last; "" when that is not known."""
    reason_code: str = ""
    """Code of the sentence that says why it is SUSPECT or LOST; "" in any other state."""
    is_pilot: bool = False
    """Whether it leaves the cluster with its agent."""
    ends_at: dt.datetime | None = None
    """When a pilot is killed at the latest; None if that is not known."""
    job_has_ended: bool = False
    """Whether the batch system that a pilot ran in has said that its job has ended."""


@dataclass(frozen=True, kw_only=True)
class ServerLease:
    """An API server, or one that a node was heard by."""

    name: str
    stamped_at: dt.datetime | None
    """Time at which it last proved that it can hear; None if it stopped in good order or never
    proved it."""
    returned_at: dt.datetime | None = None
    """Time at which it heard again after it was last away; None if it was never away."""
    num_left: int = 0
    """Nodes that were heard by another one since it was last heard from any itself."""


@dataclass(frozen=True, kw_only=True)
class AllocationView:
    id: str
    node_id: str
    node_name: str
    node_rank: int
    observed: AllocationState
    desired: str
    state_since: dt.datetime
    message: str = ""
    exit: ExitInfo | None = None
    facts: NodeFacts | None = None
    """Facts about what it would run with; None if not reported."""
    is_node_at_fault: bool = False
    """Whether another node would have managed, for a PREPARE_FAILED allocation."""
    role: str = ""
    """Role of a member of a gang of several kinds of jobs; "" for any other job."""
    role_index: int = 0

    @property
    def member(self) -> str:
        """How people name a member of a role: "rollout/0"; "" for any other job."""
        return member_name(self.role, self.role_index) if self.role else ""

    @property
    def lacks(self) -> bool:
        """Whether what a PREPARE_FAILED allocation lacks on its node may exist on another one."""
        return self.exit is not None and self.exit.cause == "not_on_node"


@dataclass(frozen=True, kw_only=True)
class GangPreflight:
    """The preflight of an attempt's nodes."""

    state: str
    """running | passed | failed."""
    message: str = ""
    misfits: tuple[str, ...] = ()
    """IDs of the nodes without which a failed preflight might have passed."""
    is_of_network: bool = False
    """Whether nodes of a failed preflight could not reach each other, whatever else was found."""


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    id: int
    no: int
    state: AttemptState
    num_nodes: int
    created_at: dt.datetime
    started_at: dt.datetime | None = None
    """Time at which its workers started; None if they never ran."""
    ended_at: dt.datetime | None = None
    resume_step: int = 0
    has_rendezvous: bool = False
    termination: str | None = None
    reason: str = ""
    root_rank: int | None = None
    yield_kind: YieldKind | None = None
    """Set when it was asked to give up its slots; the first to ask stands."""
    yield_reason: str = ""
    yield_slots: int | None = None
    """The world size a resize is for."""
    yield_at: dt.datetime | None = None
    stuck_reason: str = ""
    """Why an attempt that does not move is to be ended; empty if it is not."""
    preflight: GangPreflight | None = None
    """State of the preflight; None if it has not begun."""
    allocations: tuple[AllocationView, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TrialView:
    """A trial that runs, waits to restart, or is to be stopped."""

    id: int
    no: int
    experiment_id: int
    state: TrialState
    desired: str = "run"
    """run | stop and kill (by a user) | early and pause (by the searcher)."""
    experiment_desired: str = "run"
    """run | pause | stop | kill."""
    exhausted_reason: str = ""
    """The sentence that names the budget it has used up; empty while there is some left."""
    time_limit_reason: str = ""
    """The sentence that says for how long it has run and may run; empty while there is time left."""
    stop_reason: str = ""
    """Why its experiment was stopped, if not by a user."""
    early_reason: str = ""
    """Who ended it early and why, if not the searcher but what launched the run."""
    not_before: dt.datetime | None = None
    failures_user: int = 0
    failures_infra: int = 0
    no_progress: int = 0
    avoided: tuple[Avoided, ...] = ()
    """Nodes that did not fit into its gang before."""
    has_elsewhere: bool = True
    """The nodes that are there could hold it without those known to lack what it needs, its present
    attempt's among them."""
    budget_user: int = RestartsSection.user
    budget_infra: int = RestartsSection.infra
    stop_grace_s: float = ExperimentConfig.stop_grace_s
    on_disconnect: str = ExperimentConfig.on_disconnect
    versions: str = PreflightSection.versions
    """warn | require: what follows when its nodes differ."""
    preflight_wanted: bool = PreflightSection.network
    """Its nodes are to try each other before the start."""
    checkpoint_step: int | None = None
    """Step of its newest checkpoint."""
    roles: Mapping[str, RoleSection] = field(default_factory=dict)
    """Roles of its gang; empty for a gang of one kind."""
    flags: tuple[str, ...] = ()
    attempt: AttemptView | None = None
    """The current one."""

    @property
    def stop_wanted(self) -> Literal["stop", "kill", "early", "budget", "time_limit"] | None:
        """Why it is to end for good: a user wants it ("kill": without the grace), the searcher
        does ("early"), a budget is used up, or it has run for long enough. A user's word goes
        first."""
        if "kill" in (self.desired, self.experiment_desired):
            return "kill"
        if "stop" in (self.desired, self.experiment_desired):
            return "stop"
        if self.exhausted_reason:
            return "budget"
        if self.time_limit_reason:
            return "time_limit"
        return "early" if self.desired == "early" else None

    @property
    def pause_wanted(self) -> bool:
        return "pause" in (self.experiment_desired, self.desired)

    @property
    def pause_reason(self) -> str:
        """Who wants it paused, where somebody does."""
        if self.experiment_desired == "pause":
            return "paused by a user"
        return "paused by the searcher until it is sent on from its rung"


@dataclass(frozen=True, kw_only=True)
class LostAllocation:
    """An allocation whose node was lost, and that still holds its slots.

    A returned agent that says nothing of it runs has them freed at once (services.nodes.leases)."""

    id: str
    node_id: str


@dataclass(frozen=True, kw_only=True)
class ExperimentView:
    id: int
    state: ExperimentState
    desired: str = "run"
    """run | pause | stop | kill."""
    stop_reason: str = ""
    """Why it was stopped, where that was not the wish of a user."""
    exhausted_reason: str = ""
    """The sentence that names the budget it has used up; empty while there is some left."""
    search_finished: bool = False
    num_planned: int | None = None
    """Number of trials its search would create in all; None if unknown."""
    num_by_state: Mapping[str, int] = field(default_factory=dict)
    """Trials per state."""
    failure: str = ""
    """Why the first of its failed trials failed."""
    time_limit: str = ""
    """Why the first of its trials that had run for long enough was stopped; empty if none was."""
    doubt: str = ""
    """Reason of the first of its trials that ended well and doubtfully; empty if none did. Known at its
    end."""
    is_array: bool = False
    """Whether its trials are the elements of an array, each of which is needed. Known at its end."""
    unjudged: str = ""
    """Why a search that is over found nothing although trials ended well; empty if it did."""


@dataclass(frozen=True, kw_only=True)
class LifecycleSnapshot:
    leader_since: dt.datetime
    hearing_since: dt.datetime | None = None
    """Time at which somebody was heard again after nobody had been; None if that never happened."""
    nodes: tuple[NodeLease, ...] = ()
    servers: tuple[ServerLease, ...] = ()
    trials: tuple[TrialView, ...] = ()
    lost: tuple[LostAllocation, ...] = ()
    experiments: tuple[ExperimentView, ...] = ()
    preflights: tuple[PreflightView, ...] = ()
    """Preflights under way."""
