"""Takes secrets out of text that leaves the installation."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from urllib.parse import quote

from . import VALUE_BYTES_MIN, looks_secret

MARK = "[redacted]"

_TOKEN = re.compile(r"mst_[a-z]+_[A-Za-z0-9_-]+")
_IN_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s@\"']+@")
_IN_QUERY = re.compile(r"([?&#](?:token|once|key|sig|signature|password|secret)=)[^\s&\"'#]+", re.I)
_HEADER = re.compile(r"((?:authorization|cookie|set-cookie|x-api-key)\"?'?\s*[:=]\s*).+", re.I)
_NAMED = re.compile(
    r"(\b[\w-]*(?:token|secret|passw(?:or)?d|api_?key|access_?key|private_?key|credential)"
    r"\"?'?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;}\]]+)",
    re.I,
)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.S
)


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets: the given ones, also in base64 and as part of a URL, and whatever
    looks like one. It rather takes out too much. Given secrets that are shorter than
    VALUE_BYTES_MIN stay, because text is full of them by chance."""
    forms = {form for secret in secrets for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MARK)
    text = _KEY_BLOCK.sub(MARK, text)
    text = _TOKEN.sub(MARK, text)
    text = _IN_URL.sub(rf"\1{MARK}@", text)
    text = _IN_QUERY.sub(rf"\1{MARK}", text)
    text = _HEADER.sub(rf"\1{MARK}", text)
    text = _NAMED.sub(rf"\1{MARK}", text)
    return re.sub(
        r"[^\s\"'=,;]{16,}", lambda word: MARK if looks_secret("", word[0]) else word[0], text
    )


def _forms(secret: str) -> Iterable[str]:
    """Yield the ways in which a text may have a secret."""
    lines = [secret, *secret.splitlines()]
    for value in {line.strip() for line in lines}:
        raw = value.encode("utf-8", "surrogatepass")
        if len(raw) < VALUE_BYTES_MIN:
            continue
        yield value
        yield quote(value, safe="")
        yield base64.b64encode(raw).decode().rstrip("=")
        yield base64.urlsafe_b64encode(raw).decode().rstrip("=")
