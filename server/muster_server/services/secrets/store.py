"""Setting, listing, deleting and re-encrypting secrets. Values go in and never come out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from sqlalchemy import ColumnElement, func, select, true
from sqlalchemy.orm import Session

from muster_server.db.models import (
    NotificationTargetRow,
    OpenidSessionRow,
    SecondFactorRow,
    SecretRow,
    UserRow,
)
from muster_server.domain.secrets import PER_OWNER_MAX, problem_of_name, problem_of_value
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.schemas.accounts.secrets import SecretOut
from muster_server.schemas.base import Page
from muster_server.security.encryption import KeyRing, SealedAs, SealedValue

from ..core import audit
from ..core.accounts import openid, second_factor
from ..core.callers import Caller
from ..core.owners import Owner, caller_as_owner, record_change
from ..core.paging import read_page
from ..documents.checks import is_reserved

ROTATE_BATCH = 100
"""Secrets re-encrypted per transaction."""


def require_user(caller: Caller) -> Owner:
    """Return the caller. Raises Forbidden for a credential that belongs to no user."""
    owner = caller_as_owner(caller)
    if owner is None:
        raise Forbidden("secrets.no_user", "Secrets belong to users; this credential is no user's.")
    return owner


OwnedRow = SecretRow | NotificationTargetRow
SealedRow = OwnedRow | SecondFactorRow | OpenidSessionRow
"""A row with an encrypted value."""
SEALED_ROWS: tuple[type[SealedRow], ...] = get_args(SealedRow)


def owner_mark(row: OwnedRow) -> str:
    return f"user:{row.user_id}" if row.user_id is not None else f"project:{row.project_id}"


def sealed(row: SealedRow) -> SealedValue:
    return SealedValue(key_id=row.key_id, nonce=row.nonce, ciphertext=row.ciphertext)


def open_row(row: SealedRow, keys: KeyRing) -> str:
    """Return the value of a row. Raises Conflict if none of the keys decrypts it."""
    return keys.open(sealed(row), **_sealed_as(row))


def seal_row(row: SealedRow, value: str, keys: KeyRing) -> None:
    """Encrypt a value into a row, whose owner, name and version are set."""
    made = keys.seal(value, **_sealed_as(row))
    row.key_id, row.nonce, row.ciphertext = made.key_id, made.nonce, made.ciphertext


def _sealed_as(row: SealedRow) -> SealedAs:
    match row:
        case SecondFactorRow():
            return second_factor.sealed_as(row.user_id)
        case OpenidSessionRow():
            return openid.SEALED_AS
    name = row.name if isinstance(row, SecretRow) else row.seal_name
    return SealedAs(owner=owner_mark(row), name=name, version=row.version)


def list_secrets(
    session: Session, owner: Owner, *, cursor: str | None, limit: int
) -> Page[SecretOut]:
    """Return one page of an owner's secrets by name, without values."""
    query = select(SecretRow).where(_owned_by(owner))
    rows, following = read_page(session, query, SecretRow.name, cursor=cursor, limit=limit)
    return Page(items=[_out(row, owner) for row in rows], next=following)


def set_secret(
    session: Session, owner: Owner, name: str, value: str, *, keys: KeyRing, caller: Caller
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
            user_id=owner.user_id,
            project_id=owner.project_id,
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
    record_change(session, caller, owner, "secrets.set", f"secret:{name}", version=row.version)
    return _out(row, owner)


def delete_secret(session: Session, owner: Owner, name: str, *, caller: Caller) -> None:
    """Raises NotFound. Jobs that run keep the value they were started with."""
    row = _find(session, owner, name, lock=True)
    if row is None:
        raise NotFound(
            "secrets.not_found", f"There is no secret {name[:128]!r} of {owner.kind} {owner.name}."
        )
    session.delete(row)
    record_change(session, caller, owner, "secrets.deleted", f"secret:{name}", version=row.version)


@dataclass(frozen=True)
class Rotation:
    """Outcome of one batch of a rotation."""

    last_id: int | str | None
    """Highest id that was looked at; None after the last batch."""
    num_rotated: int
    unreadable: tuple[str, ...]
    """What no key decrypts, as "user:3 NAME"."""


def rotate_batch(
    session: Session,
    keys: KeyRing,
    *,
    of: type[SealedRow] = SecretRow,
    after_id: int | str | None,
    now: dt.datetime,
) -> Rotation:
    """Encrypt the next values with the first key that were encrypted with another one.

    of: what is looked at; SEALED_ROWS are all that there are.
    """
    (id_,) = of.__mapper__.primary_key
    rows: Sequence[Any] = session.scalars(
        select(of)
        .where(of.key_id.not_in(["", keys.current_id]))
        .where(true() if after_id is None else id_ > after_id)
        .order_by(id_)
        .limit(ROTATE_BATCH)
        .with_for_update()
    ).all()
    unreadable = []
    for row in rows:
        try:
            value = open_row(row, keys)
        except Conflict:
            bound = _sealed_as(row)
            shown = row.name if isinstance(row, NotificationTargetRow) else bound["name"]
            unreadable.append(f"{bound['owner']} {shown}")
            continue
        seal_row(row, value, keys)
        if isinstance(row, OwnedRow):
            row.rotated_at = now
    num_rotated = len(rows) - len(unreadable)
    if num_rotated:
        audit.record(
            session,
            "secrets.rotated",
            "secrets",
            audit.Author("system", now),
            {"key_id": keys.current_id, "count": num_rotated},
        )
    return Rotation(
        last_id=getattr(rows[-1], id_.name) if rows else None,
        num_rotated=num_rotated,
        unreadable=tuple(unreadable),
    )


# ---------------------------------------------------------------- parts


def _owned_by(owner: Owner) -> ColumnElement[bool]:
    return owner.owns(SecretRow.user_id, SecretRow.project_id)


def _find(session: Session, owner: Owner, name: str, *, lock: bool) -> SecretRow | None:
    query = select(SecretRow).where(_owned_by(owner), SecretRow.name == name)
    return session.scalar(query.with_for_update() if lock else query)


def _require_room(session: Session, owner: Owner) -> None:
    num = session.scalar(select(func.count()).select_from(SecretRow).where(_owned_by(owner))) or 0
    if num >= PER_OWNER_MAX:
        raise Conflict(
            "secrets.too_many",
            f"There are {num} secrets of {owner.kind} {owner.name}, the most there can be.",
            hint="Delete some of them.",
        )


def _invalid(code: str, path: str, message: str, problem: str) -> InvalidRequest:
    return InvalidRequest(code, message, fields=[FieldProblem(path, problem)])


def _out(row: SecretRow, owner: Owner) -> SecretOut:
    return SecretOut.from_row(row, owner=owner.kind, owner_name=owner.name)


def may_use_own(session: Session, user_id: int) -> bool:
    """Return whether a user may still use secrets of their own."""
    return bool(session.scalar(select(UserRow.may_act).where(UserRow.id == user_id)))
