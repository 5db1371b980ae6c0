"""Roles: jobs of several kinds that one trial runs as one gang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from .common import MAX_SLOTS, Bounds, Text
from .running import IMAGE_NAME

ROLES_MAX = 16
"""Roles of a document."""
MEMBERS_MAX = 64
"""Members of all roles together."""
ROLE_RESTARTS_MAX = 100
RoleName = Annotated[str, Bounds(max_length=32, pattern=r"^[a-z][a-z0-9_]*$")]
"""Name of a role, which becomes part of a variable's name."""
OnEnd = Literal["finish", "wait"]
OnFailure = Literal["restart_all", "restart", "ignore"]


@dataclass(frozen=True, kw_only=True)
class RoleResourcesSection:
    """What each member of a role needs."""

    slots: Annotated[int, Bounds(ge=1, le=MAX_SLOTS)] = 1
    """Slots of each member, all on one node; their type and pool are those of `resources`."""


@dataclass(frozen=True, kw_only=True)
class RoleEnvironmentSection:
    """What the processes of a role have besides the document's `environment`."""

    variables: dict[
        Annotated[str, Bounds(max_length=128)], Annotated[str, Bounds(max_length=32_768)]
    ] = field(default_factory=dict)
    """Environment variables, which win over those of `environment.variables`."""
    image: Annotated[str, Bounds(pattern=IMAGE_NAME, max_length=512)] | None = None
    """Container image of this role's members, in place of `environment.image`. The other fields of
    `environment` about containers, such as `mounts`, hold for it, too."""


@dataclass(frozen=True, kw_only=True)
class RoleSection:
    """Jobs of one kind: `count` members that run the same command."""

    entrypoint: tuple[Text, ...]
    """What each member runs, written like the `entrypoint` of a document. A Python script or module is
    started once per slot, with `RANK` and the like counting within the member; a command once."""
    count: Annotated[int, Bounds(ge=1, le=MEMBERS_MAX)] = 1
    """Number of members; all roles of a document have 64 at most."""
    resources: RoleResourcesSection = field(default_factory=RoleResourcesSection)
    """What each member needs."""
    environment: RoleEnvironmentSection = field(default_factory=RoleEnvironmentSection)
    """Variables and the image of its own."""
    on_end: OnEnd | None = None
    """What follows when all members have exited with 0. `finish`: the others are asked to stop, and the
    trial is COMPLETED. `wait`: the others go on. Default: `finish` for the first role, `wait` for the
    others."""
    on_failure: OnFailure = "restart_all"
    """What follows when a member fails. `restart_all`: the attempt fails, and `restarts` decides.
    `restart`: the node starts this member's processes again, at the same address, while the others go
    on; when its node or the process that watches it is lost, the attempt fails. `ignore`: the others go
    on without it."""
    max_restarts: Annotated[int, Bounds(ge=1, le=ROLE_RESTARTS_MAX)] = 3
    """How often each member is started again within an attempt, with `on_failure: restart`. After that
    the attempt fails."""


@dataclass(frozen=True, kw_only=True)
class RoleMember:
    """One member of a gang of roles."""

    role: str
    index: int
    """Number within its role, from 0."""
    slots: int

    @property
    def name(self) -> str:
        """How people name it: "rollout/0"."""
        return member_name(self.role, self.index)


def member_name(role: str, index: int, local_rank: int = -1, num_slots: int = 1) -> str:
    """Return how people name a member, "rollout/0", or one of its workers where it has several slots,
    "rollout/0:1". local_rank: -1 for the member as a whole."""
    worker = f":{local_rank}" if local_rank >= 0 and num_slots > 1 else ""
    return f"{role}/{index}{worker}"


def members_of(roles: Mapping[str, RoleSection]) -> Iterator[RoleMember]:
    """Yield all members in the order of their numbers in the gang. What the roles are sorted by does not
    depend on how a database keeps the document: those whose end decides come first, then the others, by
    name."""
    for name in sorted(roles, key=lambda name: (roles[name].on_end != "finish", name)):
        for index in range(roles[name].count):
            yield RoleMember(role=name, index=index, slots=roles[name].resources.slots)


def images_of(roles: Mapping[str, RoleSection], image: str | None) -> dict[str, str]:
    """Return the container image of each role, "" for none. image: that of the whole document."""
    return {name: role.environment.image or image or "" for name, role in roles.items()}


def num_slots(roles: Mapping[str, RoleSection]) -> int:
    """Return the slots of all members together."""
    return sum(role.count * role.resources.slots for role in roles.values())
