"""An agent takes part in a preflight: a real child, whatever happens to it."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire

ALONE = wire.Preflight(
    id=7, stage="listen", rank=0, token="t" * 32, python=None, slots=[], peers=[]
)


def children(agent: Any) -> list[psutil.Process]:
    found = []
    for process in psutil.Process(agent.process.pid).children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "muster.launch.preflight" in process.cmdline():
                found.append(process)
    return found


def report(plane: Any, wait_for: Any, number: int) -> wire.PreflightReport:
    """The last of so many."""
    wait_for(lambda: len(plane.preflight_reports) >= number, timeout_s=90)
    assert len(plane.preflight_reports) == number
    found: wire.PreflightReport = plane.preflight_reports[-1]
    return found


def at_connect(listening: wire.PreflightReport) -> wire.Preflight:
    peer = wire.PreflightPeer(rank=0, node_name="node-1", host=listening.host, port=listening.port)
    return dataclasses.replace(ALONE, stage="connect", peers=[peer])


def test_each_stage_is_carried_out_once_and_nothing_is_left(
    agent: Any, plane: Any, wait_for: Any
) -> None:
    plane.want_preflight(ALONE)
    listening = report(plane, wait_for, 1)
    assert (listening.stage, listening.host, listening.problems) == ("listen", "127.0.0.1", [])
    assert listening.port > 0
    plane.want_preflight(ALONE)  # told again, as happens when anything else changes
    plane.want_preflight(at_connect(listening))
    connected = report(plane, wait_for, 2)
    assert (connected.stage, connected.links, connected.problems) == ("connect", [], [])
    assert len(children(agent)) == 1
    plane.want_preflight(None)
    wait_for(lambda: not children(agent))


def test_a_child_that_dies_is_told(agent: Any, plane: Any, wait_for: Any) -> None:
    plane.want_preflight(ALONE)
    listening = report(plane, wait_for, 1)
    (child,) = children(agent)
    child.kill()
    plane.want_preflight(at_connect(listening))
    (problem,) = report(plane, wait_for, 2).problems
    assert problem.startswith("its process ended")


def test_an_interpreter_that_is_not_there_is_told(
    agent: Any, plane: Any, wait_for: Any, tmp_path: Path
) -> None:
    missing = str(tmp_path / "python")
    plane.want_preflight(dataclasses.replace(ALONE, python=missing))
    told = report(plane, wait_for, 1)
    assert told.problems == [f"{missing} could not be started"]
    assert told.port == 0


def test_a_new_session_cannot_go_on_and_says_so(agent: Any, plane: Any, wait_for: Any) -> None:
    plane.want_preflight(ALONE)
    listening = report(plane, wait_for, 1)
    with plane.lock:
        plane.epoch += 1  # the session is void
        num_registrations = len(plane.registrations)
    plane.want_preflight(at_connect(listening))
    wait_for(lambda: len(plane.registrations) > num_registrations)
    (problem,) = report(plane, wait_for, 2).problems
    assert problem == "its agent began a new session while it ran"
    wait_for(lambda: not children(agent))


@pytest.mark.parametrize("stops", ["kill", "terminate"])
def test_the_child_ends_with_its_agent(agent: Any, plane: Any, wait_for: Any, stops: str) -> None:
    plane.want_preflight(ALONE)
    report(plane, wait_for, 1)
    (child,) = children(agent)
    getattr(agent.process, stops)()
    agent.process.wait(30)
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
