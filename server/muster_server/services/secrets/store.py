"""Setting, listing, deleting and re-encrypting secrets. Values go in and never come out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import NotificationTargetRow, ProjectRow, SecretRow, UserRow
from muster_server.domain.secrets import PER_OWNER_MAX, problem_of_name, problem_of_value
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.schemas.base import Page
from muster_server.schemas.secrets import SecretOut

from ..core import audit
from ..core.callers import Caller
from ..core.paging import read_page
from ..documents.checks import is_reserved
from .encryption import KeyRing, SealedValue

ROTATE_BATCH = 100
"""Secrets re-encrypted per transaction."""


@dataclass(frozen=True)
class SecretOwner:
    """A user or a project that has secrets."""

    kind: Literal["user", "project"]
    id: int
    name: str

    @property
    def mark(self) -> str:
        """Text that is authenticated with each value: "user:3"."""
        return f"{self.kind}:{self.id}"

    def owns(self) -> ColumnElement[bool]:
        if self.kind == "user":
            return SecretRow.user_id == self.id
        return SecretRow.project_id == self.id


def caller_as_owner(caller: Caller) -> SecretOwner:
    """Raises Forbidden for a credential that belongs to no user."""
    principal = caller.principal
    if principal.user_id is None:
        raise Forbidden("secrets.no_user", "Secrets belong to users; this credential is no user's.")
    return SecretOwner("user", principal.user_id, principal.name)


def project_as_owner(session: Session, name: str) -> SecretOwner:
    """Raises NotFound."""
    found = session.scalar(select(ProjectRow.id).where(ProjectRow.name == name))
    if found is None:
        raise NotFound("projects.not_found", f"There is no project {name[:128]!r}.")
    return SecretOwner("project", found, name)


SealedRow = SecretRow | NotificationTargetRow
"""A row with an encrypted value."""


def owner_mark(row: SealedRow) -> str:
    return f"user:{row.user_id}" if row.user_id is not None else f"project:{row.project_id}"


def sealed(row: SealedRow) -> SealedValue:
    return SealedValue(key_id=row.key_id, nonce=row.nonce, ciphertext=row.ciphertext)


def open_row(row: SealedRow, keys: KeyRing) -> str:
    """Return the value of a row. Raises Conflict if none of the keys decrypts it."""
    return keys.open(sealed(row), owner=owner_mark(row), name=_sealed_as(row), version=row.version)


def seal_row(row: SealedRow, value: str, keys: KeyRing) -> None:
    """Encrypt a value into a row, whose owner, name and version are set."""
    made = keys.seal(value, owner=owner_mark(row), name=_sealed_as(row), version=row.version)
    row.key_id, row.nonce, row.ciphertext = made.key_id, made.nonce, made.ciphertext


def _sealed_as(row: SealedRow) -> str:
    return row.name if isinstance(row, SecretRow) else row.seal_name


def list_secrets(
    session: Session, owner: SecretOwner, *, cursor: str | None, limit: int
) -> Page[SecretOut]:
    """Return one page of an owner's secrets by name, without values."""
    query = select(SecretRow).where(owner.owns())
    rows, following = read_page(session, query, SecretRow.name, cursor=cursor, limit=limit)
    return Page(items=[_out(row, owner) for row in rows], next=following)


def set_secret(
    session: Session, owner: SecretOwner, name: str, value: str, *, keys: KeyRing, caller: Caller
) -> SecretOut:
    """Set the value of a new or an existing secret. Raises InvalidRequest and Conflict."""
    if problem := problem_of_name(name, is_reserved=is_reserved(name)):
        raise _invalid("secrets.bad_name", "name", f"{name[:128]!r} {problem}.", problem)
    if problem := problem_of_value(value):
        raise _invalid("secrets.bad_value", "value", f"The value {problem}.", problem)
    row = _find(session, owner, name, lock=True)
    if row is None:
        _require_room(session, owner)
        row = SecretRow(
            user_id=owner.id if owner.kind == "user" else None,
            project_id=owner.id if owner.kind == "project" else None,
            name=name,
            version=0,
            created_at=caller.now,
            created_by=caller.principal.actor[:160],
        )
        session.add(row)
    row.version += 1
    seal_row(row, value, keys)
    row.changed_at, row.changed_by = caller.now, caller.principal.actor[:160]
    row.rotated_at = None
    session.flush()
    _note(session, "secrets.set", owner, name, caller, {"version": row.version})
    return _out(row, owner)


def delete_secret(session: Session, owner: SecretOwner, name: str, *, caller: Caller) -> None:
    """Raises NotFound. Jobs that run keep the value they were started with."""
    row = _find(session, owner, name, lock=True)
    if row is None:
        raise NotFound(
            "secrets.not_found", f"There is no secret {name[:128]!r} of {owner.kind} {owner.name}."
        )
    session.delete(row)
    _note(session, "secrets.deleted", owner, name, caller, {"version": row.version})


@dataclass(frozen=True)
class Rotation:
    """Outcome of one batch of a rotation."""

    last_id: int
    """Highest id that was looked at; 0 after the last batch."""
    num_rotated: int
    unreadable: tuple[str, ...]
    """Secrets and targets that no key decrypts, as "user:3 NAME"."""


def rotate_batch(
    session: Session,
    keys: KeyRing,
    *,
    of: type[SecretRow] | type[NotificationTargetRow] = SecretRow,
    after_id: int,
    now: dt.datetime,
) -> Rotation:
    """Encrypt the next values with the first key that were encrypted with another one.

    of: the secrets of jobs, or the targets of notifications.
    """
    rows: Sequence[Any] = session.scalars(
        select(of)
        .where(of.id > after_id, of.key_id != keys.current_id)
        .order_by(of.id)
        .limit(ROTATE_BATCH)
        .with_for_update()
    ).all()
    unreadable = []
    for row in rows:
        try:
            value = open_row(row, keys)
        except Conflict:
            unreadable.append(f"{owner_mark(row)} {row.name}")
            continue
        seal_row(row, value, keys)
        row.rotated_at = now
    num_rotated = len(rows) - len(unreadable)
    if num_rotated:
        audit.record(
            session,
            actor="system",
            action="secrets.rotated",
            subject="secrets",
            now=now,
            detail={"key_id": keys.current_id, "count": num_rotated},
        )
    return Rotation(
        last_id=rows[-1].id if rows else 0, num_rotated=num_rotated, unreadable=tuple(unreadable)
    )


# ---------------------------------------------------------------- parts


def _find(session: Session, owner: SecretOwner, name: str, *, lock: bool) -> SecretRow | None:
    query = select(SecretRow).where(owner.owns(), SecretRow.name == name)
    return session.scalar(query.with_for_update() if lock else query)


def _require_room(session: Session, owner: SecretOwner) -> None:
    num = session.scalar(select(func.count()).select_from(SecretRow).where(owner.owns())) or 0
    if num >= PER_OWNER_MAX:
        raise Conflict(
            "secrets.too_many",
            f"There are {num} secrets of {owner.kind} {owner.name}, the most there can be.",
            hint="Delete some of them.",
        )


def _invalid(code: str, path: str, message: str, problem: str) -> InvalidRequest:
    return InvalidRequest(code, message, fields=[FieldProblem(path, problem)])


def _out(row: SecretRow, owner: SecretOwner) -> SecretOut:
    return SecretOut.from_row(row, owner=owner.kind, owner_name=owner.name)


def _note(
    session: Session,
    action: str,
    owner: SecretOwner,
    name: str,
    caller: Caller,
    detail: Mapping[str, Any],
) -> None:
    audit.record(
        session,
        actor=caller.principal.actor,
        action=action,
        subject=f"secret:{name}",
        now=caller.now,
        remote_addr=caller.remote_addr,
        detail={"owner": owner.kind, "owner_name": owner.name, **detail},
    )


def is_active(session: Session, user_id: int) -> bool:
    """Return whether a user may still use secrets of their own."""
    return bool(session.scalar(select(UserRow.is_active).where(UserRow.id == user_id)))
