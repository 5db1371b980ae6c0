"""Names and values of secrets, and what looks like one."""

import pytest

from muster_server.domain.secrets import looks_secret, problem_of_name, problem_of_value
from muster_server.services.documents import resolve
from muster_server.services.documents.checks import is_reserved

DOCUMENT = "name: x\nentrypoint: train.py\nenvironment: "


@pytest.mark.parametrize("name", ["HF_TOKEN", "_X", "A", "A" * 128, "PATHS"])
def test_names_that_can_be(name: str) -> None:
    assert problem_of_name(name, is_reserved=is_reserved(name)) == ""


@pytest.mark.parametrize(
    "name",
    ["hf_token", "1X", "A-B", "", "A" * 129, "A\n", "PATH", "MUSTER_TOKEN", "LD_PRELOAD", "PYTHONPATH",
     "RANK", "MASTER_ADDR", "PET_X"],
)  # fmt: skip
def test_names_that_cannot_be(name: str) -> None:
    assert problem_of_name(name, is_reserved=is_reserved(name)) != ""


def test_values() -> None:
    assert problem_of_value("x" * 8) == ""
    assert problem_of_value("é" * 32_768) == ""
    assert "shorter than 8 bytes" in problem_of_value("hunter2")
    assert "shorter than 8 bytes" in problem_of_value("  x          ")
    assert "65538 bytes" in problem_of_value("é" * 32_769)
    assert "NUL" in problem_of_value("x" * 8 + "\0")
    for problem in map(problem_of_value, ("hunter2", "canary\0canary")):
        assert "hunter2" not in problem
        assert "canary" not in problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "anything"),
        ("WANDB_API_KEY", "0123"),
        ("db_password", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("X", "hf_abcdefghijklmnopqrstuvwx"),
        ("X", "ghp_abcdefghijklmnopqrstuvwx"),
        ("X", "AKIA0123456789ABCDEF"),
        ("X", "-----BEGIN RSA PRIVATE KEY-----\nMII"),
        ("DATABASE_URL", "postgresql://ada:lovelace@db/x"),
    ],
)
def test_what_looks_like_a_secret(name: str, value: str) -> None:
    assert looks_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "4096"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/srv/key.json"),
        ("HF_TOKEN", ""),
        ("URL", "http://proxy:3128"),
        ("KEYBOARD", "de"),
    ],
)
def test_what_does_not(name: str, value: str) -> None:
    assert not looks_secret(name, value)


def test_a_document_with_a_plain_secret_is_warned_about_with_the_command() -> None:
    resolved = resolve(
        DOCUMENT + "{variables: {WANDB_API_KEY: '0123456789', OMP_NUM_THREADS: '2'}}"
    )
    (warning,) = resolved.warnings
    assert warning.path == "environment.variables.WANDB_API_KEY"
    assert warning.hint is not None
    assert "muster secret set WANDB_API_KEY" in warning.hint
    assert "0123456789" not in str(warning)


def test_a_name_is_a_variable_or_a_secret_and_once() -> None:
    both = resolve(DOCUMENT + "{variables: {TOKEN_X: a}, secrets: [TOKEN_X]}")
    assert [p.path for p in both.problems] == ["environment.variables.TOKEN_X"]
    twice = resolve(DOCUMENT + "{secrets: [A, A]}")
    assert [p.path for p in twice.problems] == ["environment.secrets"]
    bad = resolve(DOCUMENT + "{secrets: [hf_token]}")
    assert [p.path for p in bad.problems] == ["environment.secrets[0]"]
