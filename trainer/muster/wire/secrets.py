"""Agent to server: the secrets of an allocation, asked for just before its shim is started."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class SecretsRequest:
    """`POST /agent/v1/allocations/{allocation_id}/secrets`. Every answer is in the audit trail."""

    node_id: str
    session_epoch: int
    attempt_no: int


@dataclass(frozen=True, kw_only=True)
class SecretValue:
    """One secret. Its representation leaves the value out, so that no traceback shows it."""

    name: str
    owner: str
    """Owner of the secret: `user:3` or `project:1`."""
    version: int
    """Number of the value, from 1; changes whenever somebody sets another one."""
    changed_at_ms: int
    """Unix time in milliseconds at which the value was set: a secret that was deleted and created
    again begins with version 1 again."""
    value: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class SecretsReply:
    """Values of all names in AllocationSpec.secrets. If one of them does not exist, the answer is
    409 `secrets.missing`, which names it."""

    secrets: list[SecretValue]
