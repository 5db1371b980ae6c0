"""A real agent lists the layers of models, forked from a warm parent or not, and says why it cannot."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import io
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.environments.interpreters import activated
from muster_agent.jobs.launch import inheritable, parent_environment
from muster_agent.jobs.process import owner_of, tagged
from muster_agent.jobs.warm import WarmParents
from muster_agent.node import descriptions
from muster_agent.node.descriptions import DescriptionJob, describe
from muster_agent.shim.preparation.checks import LOOPBACK_INTERFACE

pytestmark = pytest.mark.torch

CODE = """
import os, subprocess, sys, time
from torch import nn

def net(*, inputs, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.Linear(7, classes))

def wrong(*, inputs, classes):
    raise ValueError("no such width")

def parent(*, inputs, classes):
    raise ValueError(open(f"/proc/{os.getppid()}/cmdline").read().split(chr(0))[0])

def dies(*, inputs, classes):
    os.kill(os.getpid(), 9)

def greedy(*, inputs, classes):
    return nn.Linear(len(bytearray(2**33)), 1)

def lasting(*, inputs, classes):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                     start_new_session=True)
    open("up", "w").close()
    time.sleep(600)
"""
NONE = wire.CodeSpec(kind="none")


def wanted(number: int, model: str = "cnn", *, code: wire.CodeSpec = NONE, **more: Any) -> Any:
    settings = {"model": model, "data": "digits", **more}
    return wire.Description(id=number, settings=settings, code=code, python=None, environment={})


def bundle() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("mine.py")
        info.size = len(CODE)
        tar.addfile(info, io.BytesIO(CODE.encode()))
    return buffer.getvalue()


def test_an_agent_lists_layers_of_built_in_models_and_of_ones_own(
    agent: Any, plane: Any, wait_for: Any
) -> None:
    archive = bundle()
    code = wire.CodeSpec(kind="bundle", sha256=hashlib.sha256(archive).hexdigest())
    plane.blobs[code.sha256] = archive
    wait_for(lambda: plane.registrations)
    assert plane.registrations[-1]["inventory"]["chores"] == [wire.DESCRIBES]
    plane.want_described(wanted(1, width=64, depth=3))
    plane.want_described(wanted(2, "mine:net", code=code))
    plane.want_described(wanted(3, "mine:wrong", code=code))
    plane.want_described(wanted(4, "mine:net", code=wire.CodeSpec(kind="bundle", sha256="0" * 64)))
    wait_for(lambda: len(plane.description_results) == 4, timeout_s=200)
    found = {result.id: result for result in plane.description_results}
    assert (found[1].outcome, found[1].table.num_params) == ("done", 510_474)
    assert (found[2].outcome, found[2].table.num_params) == ("done", 64 * 7 + 7 + 70 + 10)
    assert found[3].outcome == "refused"
    assert found[3].message == "mine:wrong raised ValueError: no such width (mine.py, line 9)"
    assert found[4].outcome == "failed"
    assert "could not be downloaded" in found[4].message
    assert not (agent.home / "describe").exists()


@pytest.fixture
def job(tmp_path: Path) -> DescriptionJob:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text(CODE)
    return DescriptionJob(
        name=f"describe-{tmp_path.name}",
        owner=owner_of(tmp_path),
        python=sys.executable,
        environment=parent_environment(
            {},
            inherited=activated(inheritable(os.environ), sys.executable),
            sdk_path="",
            loopback_interface=LOOPBACK_INTERFACE,
        ),
        warm_socket="",
        folder=tmp_path / "describe",
        code=tmp_path / "code",
        bundle=None,
    )


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmParents]:
    folder = tmp_path_factory.mktemp("warm")
    found = WarmParents(owner_of(folder / "agent"), words=folder / "warm.log")
    yield found
    found.close()


def test_a_warm_parent_that_is_there_is_used(
    job: DescriptionJob, parents: WarmParents, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It answers when it has imported torch, which a busy machine may hold up.
    monkeypatch.setattr(descriptions, "WARM_TIMEOUT_S", 100.0)
    assert parents.find(job.python, job.environment) == ""  # none is started for it
    path = parents.want(job.python, job.environment, "cuda")
    assert parents.find(job.python, job.environment) == path
    assert parents.find(job.python, {**job.environment, "A": "1"}) == ""
    warm = dataclasses.replace(job, warm_socket=path)
    forked = asyncio.run(describe(wanted(1, "mine:parent"), warm))
    assert "muster-warm (keeper)" in forked.message
    table = asyncio.run(describe(wanted(2, "mine:net"), warm)).table
    assert table is not None
    assert table.num_params == 535
    killed = asyncio.run(describe(wanted(3, "mine:dies"), warm))
    assert (killed.outcome, "was killed by signal 9" in killed.message) == ("refused", True)
    greedy = asyncio.run(describe(wanted(4, "mine:greedy"), warm))
    assert "takes more than 2 GiB of memory" in greedy.message
    assert not tagged(job.name, job.owner)


def test_a_warm_parent_that_is_gone_is_done_without(job: DescriptionJob, tmp_path: Path) -> None:
    gone = dataclasses.replace(job, warm_socket=str(tmp_path / "no-socket"))
    cold = asyncio.run(describe(wanted(1, "mine:parent"), gone))
    assert cold.outcome == "refused"
    assert "muster-warm" not in cold.message


def test_all_that_it_started_ends_with_it(job: DescriptionJob, wait_for: Any) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(describe(wanted(1, "mine:lasting"), job))
        assert job.code is not None
        up = job.code / "up"
        await asyncio.to_thread(wait_for, up.exists, timeout_s=100)
        assert len(tagged(job.name, job.owner)) >= 2
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(cancelled())
    assert not tagged(job.name, job.owner)
    assert not job.folder.exists()


def test_one_that_takes_too_long_is_ended(
    job: DescriptionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "DESCRIPTION_TIMEOUT_S", 0.5)
    late = asyncio.run(describe(wanted(1, "mine:net"), job))
    assert (late.outcome, late.message) == ("refused", "building it takes longer than 0.5 s")
    assert not tagged(job.name, job.owner)


def test_what_cannot_be_started_is_said(job: DescriptionJob, tmp_path: Path) -> None:
    nowhere = dataclasses.replace(job, python=str(tmp_path / "python"))
    found = asyncio.run(describe(wanted(1), nowhere))
    assert (found.outcome, "could not be started" in found.message) == ("failed", True)
    missing = dataclasses.replace(job, code=tmp_path / "nothing")
    found = asyncio.run(describe(wanted(1), missing))
    assert "does not exist on this node" in found.message
