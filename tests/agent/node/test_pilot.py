"""Pilots: agents that run for a limited time and leave the cluster at its end."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.jobs.folder import shim_identity
from muster_agent.jobs.process import identify
from muster_agent.node.granted import granted_accelerators, granted_cpus, granted_memory_bytes
from muster_agent.nvml import Device, Instance, accelerators_of
from muster_agent.pilot import PilotUse, Tenure, grace_s, why_close, why_leave_now
from muster_agent.settings import AgentSettings

WAIT = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
QUICK = "print('done')\n"
SAVES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
print("up", flush=True)
time.sleep(600)
"""


# ---- decisions


def use(**changes: Any) -> PilotUse:
    fields = {"now_s": 1000.0, "num_finished": 0, "idle_s": 0.0, "longest_grace_s": 0.0}
    return PilotUse(**(fields | changes))


def test_a_pilot_for_one_allocation_closes_when_that_has_ended() -> None:
    tenure = Tenure(once=True)
    assert why_close(tenure, use(idle_s=1e6)) is None
    assert why_close(tenure, use(num_finished=1)) is not None
    assert why_leave_now(tenure, use(num_finished=1)) is None


def test_an_idle_pilot_closes_after_its_time() -> None:
    tenure = Tenure(idle_exit_s=600)
    assert why_close(tenure, use(idle_s=599)) is None
    assert why_close(tenure, use(idle_s=600)) == "nothing has run on it for 600 s"


def test_a_pilot_leaves_before_its_end_and_the_grace_of_what_runs() -> None:
    tenure = Tenure(ends_at_s=1100)
    assert why_leave_now(tenure, use(longest_grace_s=69)) is None
    assert why_leave_now(tenure, use(longest_grace_s=70)) == "its time is over"
    assert why_leave_now(Tenure(), use(longest_grace_s=1e9)) is None


def test_what_runs_may_take_what_is_left() -> None:
    assert grace_s(Tenure(), now_s=0, wanted_s=300) == 300
    assert grace_s(Tenure(ends_at_s=100), now_s=0, wanted_s=300) == 90
    assert grace_s(Tenure(ends_at_s=100), now_s=95, wanted_s=300) == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("600", 600), ("10m", 600), ("1h30m", 5400), ("90min", 5400), ("2.5s", 2.5)],
)
def test_an_idle_time_is_read_as_people_write_it(text: str, seconds: float) -> None:
    settings = AgentSettings(server_url="http://s", idle_exit_s=text)  # type: ignore[arg-type]
    assert settings.idle_exit_s == seconds
    assert settings.is_pilot


def test_an_end_that_a_script_does_not_know_is_no_end(monkeypatch: Any) -> None:
    monkeypatch.setenv("MUSTER_AGENT_ENDS_AT", "")
    monkeypatch.setenv("MUSTER_AGENT_IDLE_EXIT_S", "")
    settings = AgentSettings(server_url="http://s")
    assert (settings.ends_at, settings.idle_exit_s, settings.is_pilot) == (None, None, False)


def test_a_wrong_idle_time_says_what_would_work() -> None:
    with pytest.raises(ValueError, match=r"such as 600, 10m or 1h30m; not 'soon'"):
        AgentSettings(server_url="http://s", idle_exit_s="soon")  # type: ignore[arg-type]


# ---- what the job was given


MIG = Device(
    index=3,
    uuid="GPU-dd",
    is_mig=True,
    instances=(
        Instance(uuid="MIG-11", name="1g", gpu_instance=7, compute_instance=0),
        Instance(uuid="MIG-22", name="1g", gpu_instance=8, compute_instance=0),
    ),
)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "1,2"}, [1, 2]),
        ({"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "GPU-cc"}, [2]),
        ({"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": ""}, []),
        ({"SLURM_JOB_ID": "1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "0"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-2,GPU-aa"}, [0, 4]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-GPU-dd/7/0"}, [3]),
        ({"CUDA_VISIBLE_DEVICES": "3,GPU-dd"}, []),  # programs run on its instances alone
        ({}, [0, 1, 2, 3, 4]),
    ],
)
def test_a_pilot_offers_the_devices_its_job_was_given(
    environment: dict[str, str], expected: list[int]
) -> None:
    devices = [Device(index=i, uuid=uuid) for i, uuid in enumerate(("GPU-aa", "GPU-bb", "GPU-cc"))]
    found = granted_accelerators(accelerators_of([*devices, MIG]), environment)
    assert [unit.index for unit in found] == expected


def test_a_pilot_offers_the_processors_and_the_memory_of_its_job() -> None:
    job = {"SLURM_CPUS_ON_NODE": "4", "SLURM_MEM_PER_NODE": "500"}
    assert granted_cpus(16, job) == 4
    assert granted_cpus(2, job) == 2
    assert granted_memory_bytes(2**40, job) == 500 * 2**20
    assert (
        granted_memory_bytes(2**40, {"SLURM_MEM_PER_CPU": "10", **job, "SLURM_MEM_PER_NODE": ""})
        == 40 * 2**20
    )
    assert granted_memory_bytes(2**40, {}) == 2**40


# ---- real processes


@pytest.fixture
def pilot(agent: Any) -> Any:
    """`pilot(ONCE="1")` starts the agent anew with these settings."""

    def start(**settings: str) -> Any:
        agent.kill()
        agent.environment |= {f"MUSTER_AGENT_{name}": value for name, value in settings.items()}
        agent.start()
        return agent

    return start


def ended(process: Any, wait_for: Any) -> int:
    status = wait_for(lambda: [code] if (code := process.poll()) is not None else None)
    return int(status[0])


def test_a_pilot_for_one_allocation_delivers_it_and_leaves(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(make_spec(code=code(QUICK)))
    agent = pilot(ONCE="true", PROVIDER_REF="slurm:lab:17")
    agent.wait_exit("a1")
    assert ended(agent.process, wait_for) == 0
    # It asks whether it may leave until nothing is open any more.
    assert list(dict.fromkeys(stage for stage, _ in plane.left)) == ["closing", "gone"]
    assert plane.registrations[-1]["pilot"]["provider_ref"] == "slurm:lab:17"
    assert plane.log_bytes_at_exit["a1"][(0, "stdout")] == len("done\n")


def test_a_pilot_leaves_only_when_the_files_of_its_job_are_kept(
    pilot: Any, plane: Any, attempt: Any, code: Any, wait_for: Any
) -> None:
    spec = attempt(code=code("open('result.txt', 'w').write('42')\n"), outputs=wire.OutputsSpec())
    plane.want(spec)
    agent = pilot(ONCE="true")
    assert ended(agent.process, wait_for) == 0
    assert plane.left[-1][0] == "gone"
    assert plane.final_outputs(spec.trial_id) is not None


@pytest.mark.parametrize("refusal", ["ends_sessions_first", "forgets_nodes_first"])
def test_a_pilot_that_is_gone_takes_being_refused_for_no_failure(
    pilot: Any, plane: Any, wait_for: Any, refusal: str
) -> None:
    setattr(plane, refusal, True)
    agent = pilot(IDLE_EXIT_S="1")
    assert ended(agent.process, wait_for) == 0
    assert plane.left[-1][0] == "gone"
    assert plane.num_refused > 0


def test_an_idle_pilot_leaves(pilot: Any, plane: Any, wait_for: Any) -> None:
    agent = pilot(IDLE_EXIT_S="1")
    assert ended(agent.process, wait_for) == 0
    assert plane.left[0] == ("closing", "nothing has run on it for 1 s")
    assert plane.left[-1][0] == "gone"


def test_a_pilot_that_is_told_to_end_says_so_before_it_stops_what_runs(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(make_spec(code=code(SAVES)))
    agent = pilot(IDLE_EXIT_S="1h")
    agent.wait_state("a1", "RUNNING")
    wait_for(lambda: b"up" in plane.of("a1").logs.get((0, "stdout"), b""))
    os.kill(agent.process.pid, signal.SIGTERM)
    info = agent.wait_exit("a1")
    assert info.cause == "stopped"
    assert ended(agent.process, wait_for) == 0
    assert [stage for stage, _ in plane.left] == ["draining", "gone"]
    assert b"saved" in plane.of("a1").logs[(0, "stdout")]


def test_a_pilot_ends_a_shim_that_is_just_starting(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(make_spec(code=code(WAIT)))
    agent = pilot(IDLE_EXIT_S="1h")
    shim = wait_for(agent.shim)
    shim.suspend()
    os.kill(agent.process.pid, signal.SIGTERM)
    wait_for(lambda: plane.left)
    num_leases = len(plane.leases)
    wait_for(lambda: len(plane.leases) > num_leases + 2)
    shim.resume()
    assert ended(agent.process, wait_for) == 0
    assert identify(shim.pid) is None  # or a zombie that nobody has waited for yet


def test_a_pilot_stops_by_itself_before_its_end_when_nobody_drains_it(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(make_spec(code=code(SAVES), stop_grace_s=2.0))
    agent = pilot(ENDS_AT=str(time.time() + 40))
    agent.wait_state("a1", "RUNNING")
    assert agent.wait_exit("a1").cause == "stopped"
    assert ended(agent.process, wait_for) == 0
    assert plane.left[0] == ("draining", "its time is over")
    ends_at_ms = plane.registrations[-1]["pilot"]["ends_at_ms"]
    assert ends_at_ms / 1000 == pytest.approx(
        float(agent.environment["MUSTER_AGENT_ENDS_AT"]), abs=1
    )


def test_a_pilot_that_is_killed_leaves_no_process(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(make_spec(code=code(WAIT)))
    agent = pilot(PROVIDER_REF="ray:actor-1")
    agent.wait_state("a1", "RUNNING")
    folder = agent.folder("a1")
    shim = shim_identity(folder.read_state())
    workers = folder.processes()
    assert shim is not None
    assert workers
    agent.kill()
    wait_for(lambda: not folder.processes() and not psutil.pid_exists(shim.pid))


def test_a_machine_that_stays_says_nothing_of_a_pilot(
    agent: Any, plane: Any, wait_for: Any
) -> None:
    wait_for(lambda: plane.registrations)
    assert plane.registrations[0]["pilot"] is None
    os.kill(agent.process.pid, signal.SIGTERM)
    ended(agent.process, wait_for)
    assert plane.left == []
    assert "pilot" not in json.dumps(plane.left)
