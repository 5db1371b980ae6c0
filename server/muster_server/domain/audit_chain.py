"""The audit trail as a chain: every record's digest contains the one before, so none can be changed,
removed or put between others unseen."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

START = "0" * 64
"""Digest before the first record."""


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """What is sealed of a record."""

    id: int
    at: dt.datetime
    actor: str
    action: str
    subject: str
    remote_addr: str
    detail: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.at.isoformat(timespec='seconds')}, {self.actor}, {self.action}"


@dataclass(frozen=True, kw_only=True)
class Seal:
    """A place in the chain, from 1, and the digest of everything up to there."""

    no: int
    digest: str

    def __str__(self) -> str:
        return f"{self.no}:{self.digest}"


NOTHING = Seal(no=0, digest=START)


def following(last: Seal, record: AuditRecord) -> Seal:
    """Return the seal of the record that comes after the last one."""
    at = record.at.astimezone(dt.UTC).isoformat(timespec="microseconds")
    fields = {**vars(record), "no": last.no + 1, "at": at}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(f"{last.digest}\n{text}".encode()).hexdigest()
    return Seal(no=last.no + 1, digest=digest)


def seals(last: Seal, records: Iterable[AuditRecord]) -> Iterator[Seal]:
    """Yield the seals of the records that come after the last one, in this order."""
    for record in records:
        last = following(last, record)
        yield last


@dataclass(frozen=True, kw_only=True)
class ChainVerdict:
    """What a look at the whole chain says."""

    last: Seal
    """The last one that fits."""
    problem: str = ""
    """What does not fit first, as a sentence; "" if everything does."""


def verify(
    sealed: Iterable[tuple[Seal, AuditRecord]],
    *,
    head: Seal,
    noted: Seal | None = None,
    base: Seal = NOTHING,
) -> ChainVerdict:
    """Return whether records fit their seals and each other.

    sealed: all sealed records by number. head: the newest seal, as the server has signed it. noted: one
    that somebody kept elsewhere. base: that of the last record that was removed for its age, as the server
    has signed it.
    """
    last = base
    expected = {seal.no: seal.digest for seal in (head, noted) if seal is not None and seal.no}
    if noted is not None and 0 < noted.no < base.no:
        words = (
            f"Record {noted.no}, whose seal was noted, was removed by retention with all up to record "
            f"{base.no}: note the newest seal instead."
        )
        return ChainVerdict(last=last, problem=words)
    if expected.pop(base.no, base.digest) != base.digest:
        words = f"Record {base.no} or one before it was replaced: its seal is another."
        return ChainVerdict(last=last, problem=words)
    for seal, record in sealed:
        if seal.no != last.no + 1:
            return ChainVerdict(last=last, problem=_missing(last.no + 1, seal.no - 1))
        if seal != following(last, record):
            words = f"Record {seal.no} ({record}) does not fit: it was changed after it was sealed."
            return ChainVerdict(last=last, problem=words)
        if expected.pop(seal.no, seal.digest) != seal.digest:
            words = (
                f"Record {seal.no} ({record}) or one before it was replaced: its seal is another."
            )
            return ChainVerdict(last=last, problem=words)
        last = seal
    if expected:
        return ChainVerdict(last=last, problem=_missing(last.no + 1, max(expected)))
    return ChainVerdict(last=last)


def _missing(first: int, last: int) -> str:
    if first == last:
        return f"Record {first} is missing."
    return f"Records {first} to {last} are missing."
