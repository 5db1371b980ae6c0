"""The release before is replaced part by part while it trains: no step is lost, none is repeated.

`tests/releases/previous.tar.xz` is its Python, without what only the built-in trainer needs:

    git archive COMMIT server/muster_server agent/muster_agent trainer/muster migrations \\
        ':(exclude)trainer/muster/training' | xz -9e > tests/releases/previous.tar.xz
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from muster_server.errors import SCHEMA_MISMATCH_EXIT
from support.chaos.cluster import AGENTS, Cluster
from support.stack import wait_for
from support.valkey import private_valkey

if sys.version_info >= (3, 11, 4):
    import tarfile
else:  # without filters of what is extracted
    from backports import tarfile

ARCHIVE = Path(__file__).resolve().parents[2] / "releases" / "previous.tar.xz"
NEW: dict[str, str] = {}
"""Variables of a process of this version."""


@pytest.fixture
def old(tmp_path: Path) -> dict[str, str]:
    """Variables of a process of the version before."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "previous", filter="data")
    roots = [str(tmp_path / "previous" / name) for name in ("server", "agent", "trainer")]
    return {"PYTHONPATH": os.pathsep.join(roots)}


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    """A PostgreSQL database without tables."""
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE rolling"))
    yield make_url(postgres_url).set(database="rolling").render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE rolling WITH (FORCE)"))
    engine.dispose()


@pytest.mark.postgres
def test_servers_controllers_and_agents_are_replaced_one_by_one(
    empty_url: str, tmp_path: Path, old: dict[str, str]
) -> None:
    with private_valkey() as valkey:
        cluster = Cluster(tmp_path, empty_url, valkey.url)
        try:
            _replace_all(cluster, old)
        finally:
            cluster.close()


def _replace_all(cluster: Cluster, old: dict[str, str]) -> None:
    plane = cluster.plane
    cluster.run("muster_server.cli", "migrate", **old)
    for letter in "ab":
        cluster.serve(f"server-{letter}", **old)
        plane.start_controller(f"controller-{letter}", **old)
    cluster.join(**old)
    trials = [cluster.submit(n, stop=cluster.stop_file, node=n, **old) for n in AGENTS]
    cluster.require_progress("at first", trials)

    # What runs of the version before goes on with the new tables.
    cluster.run("muster_server.cli", "migrate", **NEW)
    cluster.require_progress("on the new tables", trials)
    names = (*AGENTS, "between")
    trials.append(cluster.submit("between", stop=cluster.stop_file, node="n1", **old))
    cluster.require_progress("that was submitted then", trials[-1:])
    # It cannot be started again.
    plane.start("late", "muster_server.cli", "controller", **old)
    assert plane.processes.pop("late").wait(60) == SCHEMA_MISMATCH_EXIT

    for letter in "ab":
        assert plane.stop(f"server-{letter}") in (0, -15)
        cluster.serve(f"new-server-{letter}", **NEW)
        cluster.require_progress(f"with new server {letter}", trials)
    for letter in "ab":
        assert plane.stop(f"controller-{letter}") == 0
        plane.start_controller(f"new-controller-{letter}", **NEW)
        cluster.require_progress(f"with new controller {letter}", trials)

    # Agents and commands of the version before complete a trial with the new control plane.
    cluster.require_trial("old", "n2", **old)
    assert "n1" in cluster.run("muster.cli", "list", **old)
    outdated = ("muster.cli", "node", "list", "--outdated", "--json")
    assert {node["name"] for node in json.loads(cluster.run(*outdated, **NEW))} == set(AGENTS)

    for name in AGENTS:
        cluster.stop_agent(name)
        cluster.start_agent(name, **NEW)
        cluster.require_progress(f"with new agent {name}", trials)
    cluster.require_trial("new", "n2", **NEW)
    assert json.loads(cluster.run(*outdated, **NEW)) == []

    cluster.stop_file.touch()
    for name, trial_id in zip(names, trials, strict=True):
        cluster.require_whole(trial_id, cluster.logged(name))
    with cluster.client() as client:
        assert {n["name"]: n["state"] for n in client.pages("/nodes")} == dict.fromkeys(
            AGENTS, "ONLINE"
        )


def test_one_server_on_sqlite_is_stopped_and_replaced_while_agents_train(
    tmp_path: Path, old: dict[str, str]
) -> None:
    with private_valkey() as valkey:
        cluster = Cluster(tmp_path, f"sqlite:///{tmp_path / 'muster.db'}", valkey.url)
        try:
            _stop_and_replace(cluster, old)
        finally:
            cluster.close()


def _stop_and_replace(cluster: Cluster, old: dict[str, str]) -> None:
    plane = cluster.plane
    cluster.run("muster_server.cli", "migrate", **old)
    cluster.serve("server", **old)
    plane.start_controller("controller", **old)
    cluster.join(**old)
    trials = [cluster.submit(n, stop=cluster.stop_file, node=n, **old) for n in AGENTS]
    cluster.require_progress("at first", trials)

    plane.stop("server")
    plane.stop("controller")
    logged = [int(cluster.logged(name).read_text()) for name in AGENTS]
    cluster.run("muster_server.cli", "migrate", **NEW)
    cluster.serve("new-server", **NEW)
    plane.start_controller("new-controller", **NEW)
    for trial_id, before in zip(trials, logged, strict=True):
        wait_for("it has gone on meanwhile", lambda: cluster.step(trial_id) > before)  # noqa: B023
    cluster.require_trial("old", "n1", **old)
    cluster.stop_agent("n1")
    cluster.start_agent("n1", **NEW)
    cluster.require_trial("new", "n1", **NEW)
    cluster.stop_file.touch()
    for name, trial_id in zip(AGENTS, trials, strict=True):
        cluster.require_whole(trial_id, cluster.logged(name))
