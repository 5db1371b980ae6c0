"""The identity of a caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Principal:
    """An authenticated caller. Agents are principals too, with a node and no user."""

    kind: Literal["user", "agent", "join_token", "scim"]
    name: str
    """Name for the audit trail: "ada", "node-1"."""
    role: Literal["admin", "member", "viewer", "predict", "metrics", "agent", "join", "scim"]
    user_id: int | None = None
    token_id: int | None = None
    session_hash: str | None = None
    """Hash of a browser session: the key of its row."""
    by_ticket: bool = False
    """Whether a ticket let it in that the session or token above asked for."""
    node_id: str | None = None
    uses_next_credential: bool = False
    """Whether an agent has taken up the credential that replaces its former one."""
    credential_hash: str = ""
    """Hash of the credential that an agent presented."""
    join_token_id: int | None = None
    pool: str | None = None
    """Pool that a node may join with a join token."""
    is_limited: bool = False
    """Whether its token is limited to some projects; every other one is hidden from it."""
    hidden_projects: frozenset[int] = frozenset()
    """Ids of the projects that a user may not see, as of this call."""

    @property
    def actor(self) -> str:
        if self.token_id is not None:
            return f"token:{self.token_id} ({self.name})"
        return f"{self.kind}:{self.name}"
