"""A full disk under the database: what is said, what still works, and that all of it comes back."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from sqlalchemy import update

from muster_server import clock
from muster_server.db.models import ApiTokenRow
from muster_server.local.home import Home
from muster_server.local.parts import valkey_part
from support import preloaded
from support.chaos.disks import SmallDisk, can_mount
from support.processes import wait_until

DOCUMENT = {"document": "name: digits\ntrainer: {model: mlp}\n"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if not can_mount():
        pytest.skip("this machine does not allow to mount a file system")
    disk = SmallDisk(tmp_path / "disk")
    disk.mount(size_mib=48)
    yield disk
    disk.unmount()


@pytest.fixture
def database_url(disk: SmallDisk, _sqlite_template: Path) -> str:
    shutil.copyfile(_sqlite_template, disk.folder / "muster.db")
    return f"sqlite:///{disk.folder}/muster.db"


def test_a_submission_is_told_that_the_disk_is_full(member_client, disk, database) -> None:
    before = member_client.post("/api/v1/experiments", json=DOCUMENT)
    assert before.status_code == 201
    disk.fill()
    refused = member_client.post("/api/v1/experiments", json=DOCUMENT)
    assert refused.status_code == 503
    error = refused.json()["error"]
    assert error["code"] == "server.disk_full"
    assert error["message"] == "The disk of the server's database is full."
    assert "Free some space" in error["hint"]
    assert member_client.get("/readyz").json()["database"] == "disk_full"
    listed = member_client.get("/api/v1/experiments")
    assert listed.status_code == 200
    assert len(listed.json()["items"]) == 1
    disk.empty()
    after = member_client.post("/api/v1/experiments", json=DOCUMENT)
    assert after.status_code == 201
    assert len(member_client.get("/api/v1/experiments").json()["items"]) == 2


def test_a_token_that_was_not_used_for_long_still_reads(member_client, disk, database) -> None:
    with database.transaction() as session:
        session.execute(update(ApiTokenRow).values(last_used_at=clock.now() - dt.timedelta(days=1)))
    disk.fill()
    assert member_client.get("/api/v1/nodes").status_code == 200


def test_check_says_that_the_disk_is_full(disk, database_url, tmp_path) -> None:
    disk.fill()
    result = preloaded.run(
        [preloaded.SERVER, "check"],
        environment={"MUSTER_DATABASE_URL": database_url, "PATH": "/usr/bin:/bin"},
        folder=tmp_path,
        timeout_s=60,
    )
    assert result.returncode == 1
    assert f"database: FAILED (the disk of {disk.folder}/muster.db is full" in result.stdout


def test_the_job_queue_of_muster_up_needs_no_disk(disk) -> None:
    home = Home(disk.folder / "home")
    home.valkey.mkdir(parents=True)
    reading, writing = os.pipe()
    part = valkey_part(home, disk.folder / "v.sock", reading)
    disk.fill()
    process = subprocess.Popen(part.command, pass_fds=[reading], stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(unix_socket_path=str(disk.folder / "v.sock")) as queue:
            wait_until("Valkey answers", lambda: _answers(queue))
            queue.lpush("muster", "job")
            assert queue.brpop("muster", timeout=1) == (b"muster", b"job")
            info = queue.info("persistence")
            assert (info["aof_enabled"], info["rdb_bgsave_in_progress"]) == (0, 0)
            assert queue.config_get("save") == {"save": ""}
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


def _answers(queue: redis.Redis) -> bool:
    try:
        return bool(queue.ping())
    except redis.ConnectionError:
        return False
