"""Seal the audit trail, and verify it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import structlog
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import AuditHeadRow, AuditRow
from muster_server.db.rows import from_row
from muster_server.domain import audit_chain
from muster_server.domain.audit_chain import AuditRecord, ChainVerdict, Seal
from muster_server.errors import Conflict
from muster_server.security.encryption import KeyRing, SealedValue

log = structlog.get_logger(__name__)

SETTLED = dt.timedelta(seconds=5)
"""Age from which a record is sealed: its transaction has ended, with those that began before it."""
TOGETHER = 1000
"""Most records that one transaction seals."""
_HEAD_ID = 1
BASE_ID = 2
"""The seal of the last record that retention has removed, beside the newest one."""
_NAMES = {_HEAD_ID: "head", BASE_ID: "base"}
_OWNER = "audit"


def seal_records(session: Session, *, keys: KeyRing | None, now: dt.datetime) -> int:
    """Seal records that are not, in the order in which they were written; return how many.

    keys: sign the newest seal; None leaves it unsigned, and so does one before it that is not. Nothing is sealed after a newest seal that is
    not this server's: signing what follows would hide that.
    """
    rows = session.scalars(
        select(AuditRow)
        .where(AuditRow.seal_no.is_(None), AuditRow.at <= now - SETTLED)
        .order_by(AuditRow.id)
        .limit(TOGETHER)
    ).all()
    if not rows:
        return 0
    last = _newest(session)
    head = session.get(AuditHeadRow, _HEAD_ID)
    is_ours = (
        last.no == 0 if head is None else head.digest == last.digest and not _forged(head, keys)
    )
    if not is_ours:
        log.error(
            "audit_not_sealed",
            why="the newest seal is not this server's: muster-server audit verify",
        )
        return 0
    for row, seal in zip(rows, audit_chain.seals(last, map(_record, rows)), strict=True):
        session.execute(
            update(AuditRow)
            .where(AuditRow.id == row.id)
            .values(seal_no=seal.no, digest=seal.digest)
            .execution_options(synchronize_session=False)
        )
        last = seal
    # A signature would vouch for a chain that somebody may have made without the key.
    _sign(session, last, keys if head is None or head.key_id else None, now)
    return len(rows)


def sign_again(session: Session, keys: KeyRing, *, now: dt.datetime) -> None:
    """Sign the newest seal with the first key, if any of them has signed it: older ones are removed."""
    # The controller seals meanwhile: what it has written is not to be taken back.
    head = session.get(AuditHeadRow, _HEAD_ID, with_for_update=True)
    if head is not None and head.key_id and not _forged(head, keys):
        _sign(session, Seal(no=head.seal_no, digest=head.digest), keys, now)
        base = session.get(AuditHeadRow, BASE_ID)
        if base is not None and not _forged(base, keys):
            move_base(session, base_of(session), keys=keys, now=now)


def sign_first(session: Session, keys: KeyRing, *, noted: Seal | None, now: dt.datetime) -> None:
    """Sign a newest seal that nobody has signed: the controller signs what follows.

    noted: a seal that somebody kept outside of the database. Raises ValueError if the trail is not as it was
    sealed, or is signed already.
    """
    verdict = verify(session, keys=keys, noted=noted)
    if verdict.problem:
        raise ValueError(verdict.problem)
    head = session.get(AuditHeadRow, _HEAD_ID, with_for_update=True)
    if head is None or head.key_id:
        raise ValueError("Nothing to sign: the newest seal is signed already.")
    _sign(session, Seal(no=head.seal_no, digest=head.digest), keys, now)
    if session.get(AuditHeadRow, BASE_ID) is not None:
        move_base(session, base_of(session), keys=keys, now=now)


def base_of(session: Session) -> Seal:
    """Return the seal of the last record that retention has removed."""
    row = session.get(AuditHeadRow, BASE_ID)
    return audit_chain.NOTHING if row is None else Seal(no=row.seal_no, digest=row.digest)


def move_base(session: Session, base: Seal, *, keys: KeyRing | None, now: dt.datetime) -> None:
    """Let the chain begin after this seal, signed if its head is."""
    _sign(session, base, keys if is_signed(session) else None, now, id_=BASE_ID)


def _sign(
    session: Session, seal: Seal, keys: KeyRing | None, now: dt.datetime, *, id_: int = _HEAD_ID
) -> None:
    signed = keys and keys.seal(seal.digest, owner=_OWNER, name=_NAMES[id_], version=seal.no)
    session.merge(
        AuditHeadRow(
            id=id_,
            seal_no=seal.no,
            digest=seal.digest,
            key_id=signed.key_id if signed else "",
            nonce=signed.nonce if signed else b"",
            ciphertext=signed.ciphertext if signed else b"",
            sealed_at=now,
        )
    )


def verify(session: Session, *, keys: KeyRing | None, noted: Seal | None = None) -> ChainVerdict:
    """Return whether the whole trail is as it was sealed.

    keys: those that have signed. noted: a seal that somebody kept outside of the database.
    """
    row = session.get(AuditHeadRow, _HEAD_ID)
    if row is None:
        head = audit_chain.NOTHING
        if _newest(session).no:
            return ChainVerdict(last=head, problem="The seal of the newest record is missing.")
    else:
        head = Seal(no=row.seal_no, digest=row.digest)
        if problem := _forged(row, keys):
            return ChainVerdict(last=audit_chain.NOTHING, problem=problem)
    base_row, base = session.get(AuditHeadRow, BASE_ID), base_of(session)
    if base_row is not None:
        # Whoever writes to the database alone could move a base that nobody has signed.
        if is_signed(session) and not base_row.key_id:
            problem = "Where the trail begins is not signed: records may be missing before it."
        else:
            problem = _forged(base_row, keys, what="seal of the last removed record")
        if problem:
            return ChainVerdict(last=audit_chain.NOTHING, problem=problem)
    return audit_chain.verify(_sealed(session, base), head=head, noted=noted, base=base)


def count_unsealed(session: Session) -> int:
    query = select(func.count()).select_from(AuditRow).where(AuditRow.seal_no.is_(None))
    return session.scalar(query) or 0


def is_signed(session: Session) -> bool:
    """Return whether the newest seal is signed, so that nobody makes another with the database alone."""
    row = session.get(AuditHeadRow, _HEAD_ID)
    return row is None or bool(row.key_id)


def _forged(row: AuditHeadRow, keys: KeyRing | None, what: str = "newest seal") -> str:
    """Return why a signed head or base cannot be trusted; "" if it can, or is not signed."""
    if not row.key_id:
        return ""
    if keys is None:
        return f"The {what} is signed, and this server has no key for secrets to verify it with."
    signed = SealedValue(key_id=row.key_id, nonce=row.nonce, ciphertext=row.ciphertext)
    try:
        digest = keys.open(signed, owner=_OWNER, name=_NAMES[row.id], version=row.seal_no)
    except Conflict:
        digest = ""
    return "" if digest == row.digest else f"The {what} was not signed with a key of this server."


def _newest(session: Session) -> Seal:
    row = session.scalar(
        select(AuditRow)
        .where(AuditRow.seal_no.is_not(None))
        .order_by(AuditRow.seal_no.desc())
        .limit(1)
    )
    return audit_chain.NOTHING if row is None else _seal(row)


def _sealed(session: Session, base: Seal) -> Iterator[tuple[Seal, AuditRecord]]:
    rows = session.scalars(
        select(AuditRow)
        .where(AuditRow.seal_no > base.no)
        .order_by(AuditRow.seal_no)
        .execution_options(yield_per=TOGETHER)
    )
    try:
        for row in rows:
            yield _seal(row), _record(row)
    finally:
        rows.close()  # whoever finds something wrong reads no further


def _seal(row: AuditRow) -> Seal:
    return Seal(no=row.seal_no or 0, digest=row.digest)


def _record(row: AuditRow) -> AuditRecord:
    return from_row(AuditRecord, row)
