"""Encryption of secrets: AES-256-GCM with keys that are not in the database.

Owner, name and version are authenticated with each value, so a row that was copied to another
owner or name decrypts to nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from muster_server.errors import Conflict
from muster_server.settings import Settings

KEY_BYTES = 32
NONCE_BYTES = 12
KEYS_MAX = 16
_HINT = (
    "`muster-server secrets new-key --out FILE` makes a key; set MUSTER_SECRETS_KEY_FILE to that "
    "file for the API server."
)


@dataclass(frozen=True)
class SecretsKey:
    """A key. Its id names it in the database, and does not tell what it is."""

    key: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return hashlib.sha256(b"muster-secrets-key/1|" + self.key).hexdigest()[:16]


@dataclass(frozen=True)
class SealedValue:
    """An encrypted value."""

    key_id: str
    nonce: bytes
    ciphertext: bytes


class SealedAs(TypedDict):
    """What a value is authenticated with."""

    owner: str
    name: str
    version: int


class KeyRing:
    """The keys of a server. The first one encrypts, all decrypt."""

    def __init__(self, keys: list[SecretsKey]) -> None:
        assert keys, "a ring has a key"
        self._keys = keys

    @property
    def current_id(self) -> str:
        """Id of the key that encrypts."""
        return self._keys[0].id

    def seal(self, value: str, *, owner: str, name: str, version: int) -> SealedValue:
        key = self._keys[0]
        nonce = os.urandom(NONCE_BYTES)
        data = AESGCM(key.key).encrypt(nonce, value.encode(), _bound_to(owner, name, version))
        return SealedValue(key_id=key.id, nonce=nonce, ciphertext=data)

    def open(self, sealed: SealedValue, *, owner: str, name: str, version: int) -> str:
        """Return the value. Raises Conflict if none of the keys decrypts it, or if it is another
        owner's or name's."""
        key = next((k for k in self._keys if k.id == sealed.key_id), None)
        if key is None:
            raise Conflict(
                "secrets.unreadable",
                f"The secret {name} was encrypted with the key {sealed.key_id}, which this server "
                "does not have.",
                hint="Give the server that key as well, or set the secret again.",
            )
        bound = _bound_to(owner, name, version)
        try:
            return AESGCM(key.key).decrypt(sealed.nonce, sealed.ciphertext, bound).decode()
        except InvalidTag:
            raise Conflict(
                "secrets.unreadable",
                f"The secret {name} in the database is damaged, or was copied from elsewhere.",
                hint="Set the secret again.",
            ) from None


def _bound_to(owner: str, name: str, version: int) -> bytes:
    return f"muster-secret/1|{owner}|name={name}|version={version}".encode()


def key_ring_or_none(settings: Settings) -> KeyRing | None:
    """Return the keys of the settings; None if there are none."""
    try:
        return key_ring(settings)
    except Conflict:
        return None


def key_ring(settings: Settings) -> KeyRing:
    """Return the keys of the settings. Raises Conflict `secrets.off`, with the reason, if there are
    none."""
    if settings.secrets_key_file is not None:
        text = _read(settings.secrets_key_file)
        source = str(settings.secrets_key_file)
    elif settings.secrets_key is not None:
        text, source = settings.secrets_key.get_secret_value(), "MUSTER_SECRETS_KEY"
    else:
        raise _off("this server has no key to encrypt them with")
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    if not words:
        raise _off(f"{source} holds no key")
    if len(words) > KEYS_MAX:
        raise _off(f"{source} holds {len(words)} keys; the most are {KEYS_MAX}")
    return KeyRing([_key(word, source) for word in words])


def _read(path: Path) -> str:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _off(f"the key file {path} cannot be read ({reason})") from None
    if mode & 0o077:
        raise _off(
            f"the key file {path} has mode {mode:04o}, and must be readable by its owner alone (0600)"
        )
    return text


def _key(word: str, source: str) -> SecretsKey:
    try:
        key = base64.b64decode(word.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise _off(f"{source} holds a key that is not {KEY_BYTES} bytes in base64")
    return SecretsKey(key)


def _off(reason: str) -> Conflict:
    return Conflict("secrets.off", f"Secrets are off: {reason}.", hint=_HINT)
