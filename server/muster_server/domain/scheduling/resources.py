"""What a trial asks for, what nodes have, and the words both are described with."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from muster.document.experiment import ExperimentConfig
from muster.document.roles import RoleMember, images_of, members_of
from muster.document.running import EnvironmentSection, ResourcesSection
from muster.durations import duration_s
from muster.image_names import is_allowed
from muster.wire import ISOLATION_LEVELS

from ..messages import Message, shortened
from ..nodes.availability import why_unavailable
from ..nodes.maintenance import NO_MAINTENANCE, NodeMaintenance
from ..nodes.reservations import NodeReservation
from ..states import NodeState

TopologyMode = Literal["prefer", "require"]
Owner = tuple[int, int]
"""(trial, number of its attempt): whom a node of an exclusive pool belongs to."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The slots one gang needs, all at once or not at all."""

    slots: int
    min_slots: int | None = None
    """Minimum number of slots of an elastic trial, which may run on any number from here to
    `slots`; None for `slots` only."""
    slot_type: str = ResourcesSection.slot_type
    pool: str = ResourcesSection.pool
    nodes: int | None = None
    """Exact number of nodes; None for as few as possible."""
    max_nodes: int | None = None
    uneven: bool = False
    """Allow nodes to carry different numbers of slots."""
    members: tuple[RoleMember, ...] = ()
    """Members of a gang of roles, in the order of their numbers, each with its slots on one node; empty
    for a gang of one kind."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Node labels, with their values, that every node of the gang must have."""
    allow_nodes: tuple[str, ...] = ()
    """Names of the only nodes it may use; empty for any."""
    deny_nodes: tuple[str, ...] = ()
    """Names of nodes it must not use."""
    avoid_nodes: tuple[str, ...] = ()
    """Names of nodes it keeps away from for now, in order; `avoid_reason` says why."""
    avoid_reason: str = ""
    topology_key: str | None = None
    """A node label (`rack`, `zone`) of which all nodes of the gang should have the same value."""
    topology_mode: TopologyMode = "prefer"
    """How strict the topology is. `require`: wait rather than spread over several values. `prefer`:
    spread if one value is not enough."""

    isolation: str = "none"
    """Weakest level of isolation, one of ISOLATION_LEVELS, that its nodes may have."""
    images: tuple[str, ...] = ("",)
    """Container images that it runs in, for which its nodes need an engine; "" for none. Roles may have
    one each."""
    limit_s: float = 0.0
    """Time in seconds that it may run by its document, `resources.max_duration`; 0 for no limit.
    A node that ends before is not for it."""
    min_runtime_s: float = 0.0
    """Time in seconds for which it must not be asked for its slots, `resources.min_runtime`. Without a
    time limit, it is kept off nodes that are taken from it before."""
    grace_s: float = ExperimentConfig.stop_grace_s
    """Time in seconds that it may take to save a checkpoint when it is told to stop."""
    owner: Owner | None = None
    """The attempt that it is for, if nodes belong to that one alone: it uses no others. None if none do."""
    reservations: tuple[int, ...] = ()
    """Numbers of the open reservations whose nodes are for it, ascending."""

    @property
    def least_slots(self) -> int:
        """The fewest slots it can start with: `min_slots` of an elastic request, else `slots`."""
        return self.slots if self.min_slots is None else min(self.min_slots, self.slots)

    @property
    def leaves_after_s(self) -> float:
        """Time in seconds after which it can have left its slots: it may run for that long, save a
        checkpoint, and end."""
        return max(self.limit_s, self.min_runtime_s) + self.grace_s

    @property
    def is_contained(self) -> bool:
        """Whether it runs in containers."""
        return any(self.images)

    @property
    def elastic(self) -> bool:
        return self.least_slots < self.slots

    def describe(self) -> tuple[Message, ...]:
        """ "4 cpu slots in pool default", "on exactly 2 nodes", "on nodes with rack=a"."""
        return tuple(self._description())

    def _description(self) -> Iterator[Message]:
        if self.elastic:
            yield Message(
                "wish.elastic_slots",
                least=self.least_slots,
                slots=self.slots,
                slot_type=self.slot_type,
                pool=self.pool,
            )
        else:
            yield Message("wish.slots", slots=self.slots, slot_type=self.slot_type, pool=self.pool)
        if self.members:
            num = Counter((member.role, member.slots) for member in self.members)
            yield Message(
                "wish.roles",
                roles=[
                    Message("wish.role", role=role, num=count, slots=slots)
                    for (role, slots), count in num.items()
                ],
            )
        if self.nodes is not None:
            yield Message("wish.nodes", nodes=self.nodes)
        elif self.max_nodes is not None:
            yield Message("wish.max_nodes", nodes=self.max_nodes)
        if self.labels:
            labels = ", ".join(f"{k}={v}" for k, v in sorted(self.labels.items()))
            yield Message("wish.labels", labels=labels)
        if self.isolation != ISOLATION_LEVELS[0]:
            yield Message("wish.isolation", level=self.isolation)
        if self.is_contained:
            yield Message("wish.container")
        if self.topology_key is not None and self.topology_mode == "require":
            yield Message("wish.within", key=self.topology_key)
        if self.allow_nodes:
            yield Message("wish.only_on", nodes=shortened(self.allow_nodes))
        if self.deny_nodes:
            yield Message("wish.not_on", nodes=shortened(self.deny_nodes))
        if self.avoid_nodes:
            yield Message(
                "wish.without", nodes=shortened(self.avoid_nodes), reason=self.avoid_reason
            )


@dataclass(frozen=True, kw_only=True)
class SlotView:
    idx: int
    slot_type: str
    allocation_id: str | None = None
    """ID of the allocation that holds the slot; None if it is free."""
    free_since: dt.datetime | None = None
    """Time since which nothing holds it; None if it is held or this is unknown. Elastic trials grow
    only into slots that have been free for a while."""
    problem: str = ""
    """What keeps new work off the slot; "" for nothing."""


@dataclass(frozen=True, kw_only=True)
class PoolImages:
    """What a pool requires of the images of its jobs."""

    is_required: bool = False
    """Whether every job must run in a container."""
    allowed: tuple[str, ...] = ()
    """Registries, parts of registries and repositories whose images may run; empty for all."""

    def refused(self, images: Iterable[str]) -> str | None:
        """Return the first image, "" for none, with which a job may not run in the pool; None if it may
        with all."""
        return next((image for image in images if not self._allow(image)), None)

    def _allow(self, image: str) -> bool:
        if not image:
            return not self.is_required
        return not self.allowed or is_allowed(image, self.allowed)


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeView:
    """A node as the scheduler sees it. Compared by identity, see `scheduler.Scheduler`."""

    id: str
    name: str
    pool: str
    state: NodeState = NodeState.ONLINE
    scheduling: str = "open"
    health: str = "ok"
    is_blocked: bool = False
    """Whether a problem keeps new work off all of it."""
    host: str = ""
    """Machine name: nodes of one host share their local storage."""
    strikes: int = 0
    """Prepare failures in a row; other nodes are preferred while there are any."""
    labels: Mapping[str, str] = field(default_factory=dict)
    isolation: str = "none"
    """Level of isolation of its jobs, one of ISOLATION_LEVELS."""
    pool_isolation: str = "none"
    """Weakest level of isolation, one of ISOLATION_LEVELS, at which its pool lets jobs run."""
    container_runtime: str = ""
    """Its container engine; "" for none."""
    pool_images: PoolImages = PoolImages()
    """What its pool requires of the images of jobs."""
    pool_spares: int = 0
    """Nodes of its pool that are to be held for trials that lost a node."""
    ends_at: dt.datetime | None = None
    """When the node leaves at the latest; None for one that stays."""
    maintenance: NodeMaintenance = NO_MAINTENANCE
    """The maintenance windows that concern it."""
    reservations: tuple[NodeReservation, ...] = ()
    """Its active and planned reservations, the first to start first."""
    owner: Owner | None = None
    """The one attempt that may use it; None for any."""
    slots: tuple[SlotView, ...] = ()

    @property
    def unavailable(self) -> str | None:
        """Why nothing may be placed here now, in a word; None when it may."""
        return why_unavailable(
            state=self.state,
            scheduling=self.scheduling,
            health=self.health,
            is_blocked=self.is_blocked,
            in_maintenance=self.maintenance.active is not None,
        )


def is_isolated(node_level: str, wanted: str) -> bool:
    """Return whether a node's level of isolation is `wanted` or stronger. A level that this server
    does not know counts as none."""
    known: list[str] = list(ISOLATION_LEVELS)
    level = known.index(node_level) if node_level in known else 0
    return level >= known.index(wanted)


def _seconds(written: str | None) -> float:
    return (duration_s(written) or 0.0) if written is not None else 0.0


def request_for(config: ExperimentConfig) -> Request:
    """Return the request of one trial of a document."""
    request = request_of(config.resources, config.environment)
    if not config.roles:
        return request
    images = sorted(set(images_of(config.roles, config.environment.image).values()))
    return replace(request, members=tuple(members_of(config.roles)), images=tuple(images))


def request_of(
    resources: ResourcesSection, environment: EnvironmentSection | None = None
) -> Request:
    """Return the request in the `resources` of a document of one kind of job, for nodes that can provide
    its `environment`."""
    topology = resources.topology
    return Request(
        slots=resources.slots,
        min_slots=resources.min_slots,
        slot_type=resources.slot_type,
        pool=resources.pool,
        nodes=resources.nodes,
        max_nodes=resources.max_nodes,
        uneven=resources.uneven,
        labels=resources.labels,
        isolation=resources.isolation,
        images=((environment.image or "") if environment is not None else "",),
        limit_s=_seconds(resources.max_duration),
        min_runtime_s=_seconds(resources.min_runtime),
        allow_nodes=tuple(sorted(resources.allow_nodes)),
        deny_nodes=tuple(sorted(resources.deny_nodes)),
        topology_key=topology.key if topology is not None else None,
        topology_mode=topology.mode if topology is not None else "prefer",
    )
