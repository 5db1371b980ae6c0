"""Every key and password is replaced while a training runs, as the guide says: nothing is lost."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from muster_server.security.stack_secrets import new_key
from support.chaos.cluster import Cluster
from support.postgres import find_binaries, private_postgres
from support.stack import wait_for
from support.valkey import private_valkey

pytestmark = pytest.mark.postgres


class Passwords:
    """Those of PostgreSQL and Redis, and the files that Muster reads them from."""

    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self._database_url, self._redis_url = make_url(database_url), redis_url
        self._engine = create_engine(database_url, isolation_level="AUTOCOMMIT")
        self._redis = redis.Redis.from_url(redis_url)
        self._redis.ping()
        self.database_file = folder / "database_url"
        self.redis_file = folder / "redis_url"
        self.change("first")
        with self._engine.connect() as connection:
            path = connection.scalar(text("SHOW hba_file"))
            line = "local all all scram-sha-256"
            connection.exec_driver_sql(f"COPY (SELECT '{line}') TO '{path}'")
            connection.execute(text("SELECT pg_reload_conf()"))
        wait_for("passwords are asked for", lambda: self.are_refused("wrong"))

    def change(self, password: str) -> None:
        """Connections that are open stay so."""
        with self._engine.connect() as connection:
            connection.exec_driver_sql(f"ALTER ROLE muster PASSWORD '{password}'")
        self._redis.execute_command("CONFIG", "SET", "requirepass", password)

    def write(self, password: str) -> None:
        self.database_file.write_text(self.database_url(password))
        self.redis_file.write_text(self.redis_url(password))

    def close(self) -> None:
        self._engine.dispose()
        self._redis.close()

    def database_url(self, password: str) -> str:
        return self._database_url.set(password=password).render_as_string(hide_password=False)

    def redis_url(self, password: str) -> str:
        return self._redis_url.replace("unix://", f"unix://:{password}@")

    def are_refused(self, password: str) -> bool:
        """Whether neither lets anybody in with this one."""
        engine = create_engine(self.database_url(password))
        try:
            engine.connect().close()
        except OperationalError:
            with redis.Redis.from_url(self.redis_url(password)) as client:
                try:
                    client.ping()
                except redis.AuthenticationError:
                    return True
        finally:
            engine.dispose()
        return False


@pytest.fixture
def passwords(tmp_path: Path) -> Iterator[Passwords]:
    binaries = find_binaries()
    assert binaries is not None, "there is no PostgreSQL on this machine"
    with private_postgres(binaries) as postgres, private_valkey() as valkey:
        made = Passwords(tmp_path, postgres.url, valkey.url)
        made.write("first")
        yield made
        made.close()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.key"
    path.touch(mode=0o600)
    path.write_text(new_key())
    return path


@pytest.fixture
def cluster(tmp_path: Path, passwords: Passwords, key_file: Path) -> Iterator[Cluster]:
    settings = {
        "MUSTER_DATABASE_URL_FILE": str(passwords.database_file),
        "MUSTER_REDIS_URL_FILE": str(passwords.redis_file),
        "MUSTER_SECRETS_KEY_FILE": str(key_file),
        "MUSTER_SWEEP_INTERVAL_S": "1",
    }
    cluster = Cluster(
        tmp_path, passwords.database_url("first"), passwords.redis_url("first"), settings=settings
    )
    try:
        yield cluster
    finally:
        cluster.close()


def test_all_are_replaced_while_a_training_runs(
    cluster: Cluster, passwords: Passwords, key_file: Path, tmp_path: Path
) -> None:
    plane = cluster.plane
    cluster.run("muster_server.cli", "migrate")
    for letter in "ab":
        cluster.serve(f"server-{letter}")
        plane.start_controller(f"controller-{letter}")
    plane.start("worker", "muster_server.cli", "worker")
    cluster.join()
    (tmp_path / "value").write_text("a secret of the test")
    cluster.run("muster.cli", "secret", "set", "TOKEN", "--from-file", str(tmp_path / "value"))
    needs_it = {"environment": {"secrets": ["TOKEN"]}}
    trials = [cluster.submit("long", stop=cluster.stop_file, node="n1", more=needs_it)]
    cluster.require_progress("at first", trials)

    # The key of secrets, of second factors and of the audit log: nothing is restarted.
    old_key, key = key_file.read_text(), new_key()
    key_file.write_text(f"{key}\n{old_key}")
    assert cluster.run("muster_server.cli", "secrets", "rotate").endswith(": 1")
    key_file.write_text(key)
    cluster.require_trial("new-key", "n2", more=needs_it)

    # Passwords: what is connected stays so, and each process reads the new ones at its start.
    passwords.change("second")
    assert passwords.are_refused("first")
    cluster.require_progress("with open connections", trials)
    passwords.write("second")
    for letter in "ab":
        plane.stop(f"server-{letter}")
        cluster.serve(f"new-server-{letter}")
        plane.stop(f"controller-{letter}")
        plane.start_controller(f"new-controller-{letter}")
        cluster.require_progress(f"with new {letter}", trials)
    plane.stop("worker")
    plane.start("new-worker", "muster_server.cli", "worker")
    cluster.require_trial("new-passwords", "n2", more=needs_it)

    cluster.stop_file.touch()
    cluster.require_whole(trials[0], cluster.logged("long"))

    def parts() -> dict[str, str]:
        with urllib.request.urlopen(f"{cluster.url}/readyz", timeout=30) as answer:
            found = json.load(answer)
        return {name: found[name] for name in ("database", "redis", "controller", "worker")}

    wait_for("every part is well", lambda: set(parts().values()) == {"ok"}, 60)
    wait_for(
        "the audit log is sealed with the new key alone",
        lambda: "not sealed yet: 0" in cluster.run("muster_server.cli", "audit", "verify"),
        60,
    )
