"""Masking of secrets in what a job writes, before it leaves the node.

A mask replaces every occurrence of a secret, in the forms in which programs usually print one, by
as many asterisks: the offsets of a log stay those of its file. It depends on the file alone and not
on how it is read, so any offset can be resumed after a restart. It protects against accidents, not
against the author of a job, who can write a secret in a form that nobody recognizes.
"""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.parse
from collections.abc import Iterable
from typing import IO, Any

SECRET_BYTES_MIN = 8
"""Fewest bytes of a text that is masked: shorter ones occur in every log by chance."""
FORM_BYTES_MAX = 1024
"""Most bytes of a form. Longer ones are masked in pieces, which bounds what is read around a
window."""
HOLD_BYTES_MIN = 4
"""A shorter beginning of a secret at the end of a growing file is held back for HOLD_S only."""
HOLD_S = 2.0
_STAR = b"*"
_PLAIN_FIELDS = frozenset({"type", "level", "observed", "cause", "blames", "kind"})
"""Fields of records that programs read: their values are Muster's own words."""


class Mask:
    """What to hide. Without secrets it hides nothing, and costs nothing."""

    def __init__(self, secrets: Iterable[str] = (), *, hides_all: bool = False) -> None:
        """Create a mask of these values; those shorter than SECRET_BYTES_MIN are left out.

        hides_all: hide every byte except line breaks, for a job whose secrets are not known any
            more.
        """
        self._forms = sorted({p for s in secrets for f in _forms(s) for p in _pieces(f)})
        self._reach = max((len(form) for form in self._forms), default=1) - 1
        self._hides_all = hides_all

    def __bool__(self) -> bool:
        """Return whether anything is hidden."""
        return bool(self._forms) or self._hides_all

    def data(self, data: bytes) -> bytes:
        """Return `data` masked, of the same length. It is complete: nothing continues outside."""
        if self._hides_all:
            return b"\n".join(_STAR * len(line) for line in data.split(b"\n"))
        masked: bytearray | None = None
        for form in self._forms:
            at = data.find(form)
            while at >= 0:  # One byte on, not one form on: occurrences may overlap.
                masked = bytearray(data) if masked is None else masked
                masked[at : at + len(form)] = _STAR * len(form)
                at = data.find(form, at + 1)
        return data if masked is None else bytes(masked)

    def text(self, text: str) -> str:
        """Return `text` masked; UTF-8 has the same length in bytes."""
        if not self:
            return text
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def record(self, record: str) -> str:
        """Return the JSON text of a record with its texts masked, names and states excepted."""
        if not self:
            return record
        return json.dumps(self._value(json.loads(record)), separators=(",", ":"))

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._value(item) for item in value]
            case dict():
                return {
                    k: v if k in _PLAIN_FIELDS and isinstance(v, str) else self._value(v)
                    for k, v in value.items()
                }
            case _:
                return value

    def read(self, file: IO[bytes], offset: int, size: int, *, is_final: bool = True) -> bytes:
        """Return at most `size` bytes of a file from `offset`, masked.

        is_final: False while the file may grow. Then an end that may be the beginning of a secret
            is held back until more is written, so the answer may be shorter, or empty.
        """
        if not self or size <= 0:
            file.seek(offset)
            return file.read(max(size, 0))
        begin = max(0, offset - self._reach)
        wanted = offset - begin + size + self._reach
        file.seek(begin)
        data = file.read(wanted)
        end = offset - begin + size
        if not is_final and len(data) < wanted:
            end = min(end, len(data) - self._num_held(file, data))
        return self.data(data)[offset - begin : max(end, offset - begin)]

    def _num_held(self, file: IO[bytes], data: bytes) -> int:
        """Return the length of the longest end of `data` with which a form begins."""
        held = max((_overlap(form, data) for form in self._forms), default=0)
        if held and held < HOLD_BYTES_MIN:
            age_s = time.time() - os.fstat(file.fileno()).st_mtime
            return held if age_s < HOLD_S else 0
        return held


NO_MASK = Mask()


def _overlap(form: bytes, data: bytes) -> int:
    at = data.find(form[:1], max(0, len(data) - len(form) + 1))
    while at >= 0:
        if form.startswith(data[at:]):
            return len(data) - at
        at = data.find(form[:1], at + 1)
    return 0


def _pieces(form: bytes) -> list[bytes]:
    """Return a form in pieces of at most FORM_BYTES_MAX, of which the last may overlap."""
    if len(form) <= FORM_BYTES_MAX:
        return [form]
    starts = [*range(0, len(form) - FORM_BYTES_MAX, FORM_BYTES_MAX), len(form) - FORM_BYTES_MAX]
    return [form[start : start + FORM_BYTES_MAX] for start in starts]


def _forms(secret: str) -> set[bytes]:
    """Return the ways in which programs print a secret, and each of its lines."""
    texts = {secret, secret.strip(), *(line.strip() for line in secret.splitlines())}
    forms: set[bytes] = set()
    for text in texts:
        data = text.encode()
        if len(data) < SECRET_BYTES_MIN:
            continue
        forms |= {
            data,
            json.dumps(text)[1:-1].encode(),
            json.dumps(text, ensure_ascii=False)[1:-1].encode(),
            repr(text)[1:-1].encode(),
            repr(data)[2:-1].encode(),
            urllib.parse.quote(text, safe="").encode(),
            urllib.parse.quote(text).encode(),
            urllib.parse.quote_plus(text).encode(),
            data.hex().encode(),
            data.hex().upper().encode(),
            *_in_base64(data),
        }
    return forms


def _in_base64(data: bytes) -> set[bytes]:
    """Return the characters of base64 that depend on `data` alone, for each place in a group of
    three bytes where it can begin."""
    forms = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for num_before in range(3):
            encoded = encode(b"\0" * num_before + data)
            first = -(-num_before * 8 // 6)
            forms.add(encoded[first : (num_before + len(data)) * 8 // 6])
    return forms
