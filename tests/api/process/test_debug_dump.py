"""The archive for a report: it has what a report needs, and no secret."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import SecretStr

from muster_server.security.tokens import mint
from support import preloaded

KEY = base64.b64encode(bytes(range(32))).decode()
SECRETS = {
    "database": "canary-of-database/1",
    "redis": "canary-of-redis-2",
    "smtp": "canary-of-smtp-3 with space",
    "kube": "canary-of-kube-4",
    "user": "canary-of-user-5",
    "header": "canary-of-header-6",
    "cookie": "canary-of-cookie-7",
    "named": "canary-of-name-8",
    "query": "canary-of-query-9",
}


@pytest.fixture
def settings(settings: Any) -> Any:
    return settings.model_copy(update={"secrets_key": SecretStr(KEY)})


def dump(folder: Path, *arguments: str, **settings: str) -> tuple[dict[str, str], str]:
    """Run the command; return the text of each file in the archive, and what was printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    result: subprocess.CompletedProcess[str] = preloaded.run(
        [preloaded.SERVER, "debug-dump", "dump.tar.gz", *arguments],
        environment={**environment, **settings},
        folder=folder,
        timeout_s=120,
    )
    assert result.returncode == 0, result.stderr
    file = folder / "dump.tar.gz"
    assert file.stat().st_mode & 0o77 == 0
    with tarfile.open(file) as archive:
        texts = {}
        for member in archive.getmembers():
            content = archive.extractfile(member)
            assert content is not None
            texts[member.name.removeprefix("muster-debug/")] = content.read().decode()
    return texts, result.stdout + result.stderr


def forms(secret: str) -> list[str]:
    return [secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode().rstrip("=")]


def test_secrets_from_everywhere_are_taken_out(
    member_client: Any, database_url: str, tmp_path: Path
) -> None:
    created = member_client.put("/api/v1/secrets/HF", json={"value": SECRETS["user"]})
    assert created.status_code in (200, 201, 204), created.text
    (tmp_path / "redis").write_text(f"redis://:{SECRETS['redis']}@127.0.0.1:1/0\n")
    (tmp_path / "kube").write_text(
        f"contexts: [{{name: a, context: {{}}}}]\nusers: [{{name: a, user: {{token: {SECRETS['kube']}}}}}]\n"
    )
    logs = tmp_path / "own"
    logs.mkdir()
    token = mint("usr")
    (logs / "server.log").write_text(
        "\n".join(
            [
                *(
                    f"x {form} y"
                    for name in ("redis", "smtp", "kube", "user")
                    for form in forms(SECRETS[name])
                ),
                f"sent with {token}",
                f"Authorization: Bearer {SECRETS['header']}",
                json.dumps({"headers": {"cookie": f"muster={SECRETS['cookie']}"}, "end": 1}),
                f'HF_TOKEN={SECRETS["named"]} password: {SECRETS["named"]} "api_key": "{SECRETS["named"]}"',
                f"GET /sign-in?once={SECRETS['query']}&a=1",
                f"postgresql+psycopg://muster:{SECRETS['database']}@db/muster",
                f"encrypted with {KEY}",
                "the last line is kept",
            ]
        )
    )
    texts, printed = dump(
        tmp_path,
        "--logs",
        str(logs),
        MUSTER_DATABASE_URL=database_url,
        MUSTER_REDIS_URL_FILE=str(tmp_path / "redis"),
        MUSTER_SMTP_PASSWORD=SECRETS["smtp"],
        MUSTER_KUBECONFIG=str(tmp_path / "kube"),
        MUSTER_SECRETS_KEY=KEY,
    )
    everything = printed + "".join(texts.values())
    for secret in [*SECRETS.values(), token, KEY]:
        for form in forms(secret):
            assert form not in everything
    assert "the last line is kept" in texts["logs/server.log"]
    assert "GET /sign-in?once=[redacted]&a=1" in texts["logs/server.log"]


def test_it_has_what_a_report_needs(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()  # where `muster up` has them: beside the database
    (tmp_path / "logs" / "controller.log").write_text("a round\n" * 200_000)
    (tmp_path / "logs" / "notes.txt").write_text("not a log")
    texts, printed = dump(tmp_path, MUSTER_DATABASE_URL=sqlite_url)
    assert set(texts) == {"about.json", "check.txt", "state.json", "logs/controller.log"}
    assert "Look through the files before you send them" in printed
    about = json.loads(texts["about.json"])
    assert about["muster"]
    assert about["packages"]["sqlalchemy"]
    assert "database: ok" in texts["check.txt"]
    state = json.loads(texts["state.json"])
    assert state["database"]["size_bytes"] > 10_000
    assert state["database"]["revision"] == state["database"]["newest_revision"]
    assert state["control_plane"]["controller"] == "absent"
    assert state["cluster"]["queue_length"] == 0
    assert set(texts["logs/controller.log"].splitlines()) == {"a round"}
    assert 1_000_000 < len(texts["logs/controller.log"]) <= 1 << 20


def test_a_database_that_is_away_is_told(tmp_path: Path) -> None:
    url = f"postgresql+psycopg://muster:{SECRETS['database'].replace('/', '')}@127.0.0.1:1/muster"
    texts, _ = dump(tmp_path, MUSTER_DATABASE_URL=url)
    assert "Connection refused" in json.loads(texts["state.json"])["error"]
    assert "canary" not in "".join(texts.values())


@pytest.mark.parametrize("place", ["dump.tar.gz", "no/dump.tar.gz"])
def test_it_writes_over_nothing(sqlite_url: str, tmp_path: Path, place: str) -> None:
    (tmp_path / "dump.tar.gz").write_text("mine")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    result = preloaded.run(
        [preloaded.SERVER, "debug-dump", place],
        environment={**environment, "MUSTER_DATABASE_URL": sqlite_url},
        folder=tmp_path,
        timeout_s=120,
    )
    assert (result.returncode, place in result.stderr) == (1, True)
    assert "Traceback" not in result.stderr
    assert (tmp_path / "dump.tar.gz").read_text() == "mine"
