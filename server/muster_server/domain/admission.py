"""Who an OpenID provider lets in, and as what."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

UserRole = Literal["admin", "member", "viewer"]
NAME_MAX = 64
GROUPS_MAX = 2_000
"""Groups of one person that are looked at; more are refused, since a cut list would take rights away."""


class NotAdmitted(Exception):
    """What the provider said of a person does not let them in; the text says why."""


class NoRole(NotAdmitted):
    """The person is in none of the groups that may sign in."""


@dataclass(frozen=True, kw_only=True)
class Admission:
    """How the claims of a provider are read."""

    username_claim: str
    groups_claim: str
    admins: frozenset[str]
    """Groups of the provider whose members are administrators here."""
    members: frozenset[str]
    viewers: frozenset[str]
    external_id_claim: str = "sub"
    """Claim that is a person's external id at a provisioning client."""
    trusted_name_claim: str = ""
    """Claim that is a person's user name there, and that nobody can choose; "" for none."""
    default_role: UserRole | None
    """Role of everybody else; None: they are not let in."""

    @property
    def decides_roles(self) -> bool:
        """Whether the provider's groups say what role somebody has, at every sign-in. Else they say
        it at the first one, and administrators may change it."""
        return bool(self.admins or self.members or self.viewers)


@dataclass(frozen=True, kw_only=True)
class Person:
    """What a provider says of somebody."""

    subject: str
    username: str
    email: str
    """Empty if it does not say."""
    groups: frozenset[str]
    role: UserRole
    external_id: str | None = None
    trusted_name: str | None = None
    """What a provisioning client knows the person by; None if the provider does not say."""


def admit(claims: Mapping[str, Any], rules: Admission) -> Person:
    """Return who the claims are about, and their role. Raises NotAdmitted."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise NotAdmitted("the provider names no subject of 1 to 255 characters")
    groups = _groups(claims, rules.groups_claim)
    email = claims.get("email")
    return Person(
        subject=subject,
        username=_username(claims, rules.username_claim),
        email=email[:254] if isinstance(email, str) else "",
        groups=groups,
        role=_role(groups, rules),
        external_id=_text(claims, rules.external_id_claim),
        trusted_name=_text(claims, rules.trusted_name_claim),
    )


def _text(claims: Mapping[str, Any], claim: str) -> str | None:
    """Return a claim that identifies somebody; an address only if the provider has verified it."""
    said = claims.get(claim)
    is_trusted = claim != "email" or claims.get("email_verified") is True
    return said if isinstance(said, str) and said and is_trusted else None


def _role(groups: Collection[str], rules: Admission) -> UserRole:
    by_role: Sequence[tuple[UserRole, frozenset[str]]] = (
        ("admin", rules.admins),
        ("member", rules.members),
        ("viewer", rules.viewers),
    )
    for role, wanted in by_role:
        if wanted & frozenset(groups):
            return role
    if rules.default_role is None:
        raise NoRole("none of the groups that may sign in is among the person's groups")
    return rules.default_role


def _groups(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    # A provider that leaves a long list out says where it is to be had instead: without this, the
    # person would seem to be in no group.
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, Mapping) and claim in elsewhere:
        raise NotAdmitted(
            f"the claim {claim} is too long for the provider's token; filter it there"
        )
    found = claims.get(claim, [])
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise NotAdmitted(f"the claim {claim} is not a list of names")
    if len(found) > GROUPS_MAX:
        raise NotAdmitted(f"the claim {claim} has {len(found)} names; the most are {GROUPS_MAX}")
    return frozenset(found)


def _username(claims: Mapping[str, Any], claim: str) -> str:
    """Return a name as Muster has them; of an address, what is before the @."""
    said = claims.get(claim) or claims.get("email")
    if not isinstance(said, str):
        raise NotAdmitted(f"the claim {claim} is missing, and so is email")
    name = storable_name(said.partition("@")[0])
    if not name:
        raise NotAdmitted(f"the claim {claim} has no letter or digit")
    return name


def storable_name(said: str) -> str:
    """Return a name as users and groups have them here; "" if nothing is left of it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", said.strip()).lstrip("._-")[:NAME_MAX]
