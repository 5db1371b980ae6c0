"""Keys of secrets, and values that only fit where they were made for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pydantic import SecretStr

from muster_server.errors import Conflict
from muster_server.security.encryption import KeyRing, key_ring
from muster_server.security.stack_secrets import new_key
from muster_server.settings import Settings

HERE = {"owner": "user:3", "name": "HF_TOKEN", "version": 2}


def ring(*keys: str) -> KeyRing:
    return key_ring(Settings(secrets_key=SecretStr(" ".join(keys)), secrets_key_file=None))


def test_a_value_comes_back_where_it_belongs_and_nowhere_else() -> None:
    keys = ring(new_key())
    sealed = keys.seal("canary-value", **HERE)
    assert b"canary" not in sealed.ciphertext
    assert keys.open(sealed, **HERE) == "canary-value"
    for elsewhere in ({"owner": "project:3"}, {"name": "OTHER"}, {"version": 3}):
        with pytest.raises(Conflict) as refused:
            keys.open(sealed, **{**HERE, **elsewhere})
        assert refused.value.code == "secrets.unreadable"
    *others, last = sealed.ciphertext
    damaged = dataclasses.replace(sealed, ciphertext=bytes([*others, last ^ 1]))
    with pytest.raises(Conflict):
        keys.open(damaged, **HERE)


def test_every_encryption_is_another_one() -> None:
    keys = ring(new_key())
    assert keys.seal("same", **HERE).ciphertext != keys.seal("same", **HERE).ciphertext


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    old, new = new_key(), new_key()
    sealed = ring(old).seal("canary-value", **HERE)
    both = ring(new, old)
    assert both.open(sealed, **HERE) == "canary-value"
    assert both.seal("x", **HERE).key_id == ring(new).current_id
    with pytest.raises(Conflict) as refused:
        ring(new).open(sealed, **HERE)
    assert refused.value.code == "secrets.unreadable"


def test_a_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"# made in March\n{new_key()}\n\n{new_key()} # the former one\n")
    path.chmod(0o600)
    settings = Settings(secrets_key_file=path, secrets_key=None)
    assert len(key_ring(settings).current_id) == 16
    path.chmod(0o640)
    with pytest.raises(Conflict) as refused:
        key_ring(settings)
    assert refused.value.code == "secrets.off"
    assert "mode 0640" in refused.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "holds no key"), ("short", "not 32 bytes"), ("%%%%", "not 32 bytes"), ("é" * 50, "not 32 bytes")],
)  # fmt: skip
def test_what_is_no_key_is_said_without_repeating_it(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(Conflict) as refused:
        key_ring(Settings(secrets_key_file=path, secrets_key=None))
    assert said in refused.value.message
    assert not text or text not in refused.value.message


def test_without_a_key_secrets_are_off(tmp_path: Path) -> None:
    for settings in (
        Settings(secrets_key=None, secrets_key_file=None),
        Settings(secrets_key=None, secrets_key_file=tmp_path / "none"),
    ):
        with pytest.raises(Conflict) as refused:
            key_ring(settings)
        assert refused.value.code == "secrets.off"
        assert refused.value.hint is not None
        assert "muster-server secrets new-key" in refused.value.hint


def test_a_key_is_in_no_representation() -> None:
    key = new_key()
    settings = Settings(secrets_key=SecretStr(key), secrets_key_file=None)
    assert key not in repr(settings) + str(settings) + repr(key_ring(settings).__dict__)
