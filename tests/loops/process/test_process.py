"""The controller as the process it is: killed by SIGKILL, and ended by the lifeline.

Real processes, because what is tested is what a process leaves behind.
"""

import os
import signal
import time

import pytest

from muster.launch import lifeline
from support import preloaded

DEADLINE_S = 60


@pytest.fixture
def database_url(sqlite_url):
    return sqlite_url


@pytest.fixture
def start_controller(database_url, tmp_path):
    """`start_controller(**variables)` starts one; those left are killed in the end."""
    processes = []

    def start(pass_fds=(), **variables):
        environment = {
            name: value for name, value in os.environ.items() if name != lifeline.VARIABLE
        }
        environment |= {
            "MUSTER_DATABASE_URL": database_url,
            "MUSTER_CONTROLLER_LEASE_S": "1",
            "MUSTER_CONTROLLER_INTERVAL_S": "0.1",
            **variables,
        }
        processes.append(
            preloaded.start(
                [preloaded.SERVER, "controller"],
                environment=environment,
                output=tmp_path / "controllers.log",
                pass_fds=pass_fds,
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def kill(process):
    process.kill()
    process.wait()


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def test_a_controller_killed_between_any_two_steps_loses_nothing(
    start_controller, agent, submit, show
):
    node = agent(slots=1)
    experiment_id = submit(slots=1)

    controller = start_controller()
    (assignment,) = wait_until(lambda: list(node.poll().values()))
    allocation_id = assignment.spec.allocation_id
    kill(controller)

    node.get_ready(allocation_id)
    controller = start_controller()
    wait_until(lambda: node.only().desired == "start")
    kill(controller)

    node.run(allocation_id)
    node.exit(allocation_id)
    start_controller()
    wait_until(lambda: show(f"/experiments/{experiment_id}")["state"] == "COMPLETED")
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    assert (trial["state"], trial["attempt_no"]) == ("COMPLETED", 1)


def test_it_ends_with_who_started_it(start_controller):
    read_end, write_end = os.pipe()
    process = start_controller(pass_fds=(read_end,), **{lifeline.VARIABLE: str(read_end)})
    os.close(read_end)
    os.close(write_end)
    assert process.wait(timeout=DEADLINE_S) == 0


def test_sigterm_ends_it_and_the_next_one_leads_at_once(start_controller, agent, submit):
    node = agent(slots=1)
    first = start_controller(MUSTER_CONTROLLER_LEASE_S="600")
    submit(slots=1)
    wait_until(lambda: node.poll())
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=DEADLINE_S) == 0
    start_controller(MUSTER_CONTROLLER_LEASE_S="600")
    node.get_ready(node.only().spec.allocation_id)
    wait_until(lambda: node.only().desired == "start")
