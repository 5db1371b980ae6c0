"""What is written for Ray, and what it answers."""

import datetime as dt
import io
import json
import subprocess
import zipfile

import pytest

from muster_server.domain.providers import Pilot, PilotState, follow, options_of
from muster_server.domain.providers.options import InvalidOption
from muster_server.loops.batch_systems.base import (
    BatchSystemUnreachable,
    PilotJob,
    SubmissionRefused,
)
from muster_server.loops.batch_systems.choosing import system_of
from muster_server.loops.batch_systems.ray import Ray, Reply, package, script, seen_of, submission

GIVEN = {
    "server_url": "http://10.0.0.5:8470",
    "address": "http://10.0.0.7:8265",
    "agent": "/opt/bin/muster-agent",
    "storage_dir": "/shared/muster",
}
OPTIONS = options_of({**GIVEN, "resources": "accelerator_type:A100=0.001"}, "ray")
JOB = PilotJob(
    id="pilot-1a",
    pool="gpu",
    join_token="join_secret",
    slots=2,
    slot_type="cuda",
    walltime_s=7200,
    idle_s=600,
)
WANTS = {"muster_wants": json.dumps({"CPU": 8.0, "GPU": 2})}
PENDING = {
    "submission_id": "muster-pilot-1a",
    "status": "PENDING",
    "message": "Job has not started yet.",
    "metadata": WANTS,
}


class Told:
    """A dashboard that answers what it is told, and keeps what it was asked."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    def ask(self, method, path, *, body=None, data=None):
        self.asked.append((method, path, body))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def ok(answer):
    return Reply(200, json.dumps(answer))


def nodes(*resources, state="ALIVE"):
    found = [{"state": state, "resources_total": has} for has in resources]
    return ok({"result": True, "data": {"result": {"result": found}}})


def pilot(id_="pilot-1a", ref="", state=PilotState.PENDING, **more):
    return Pilot(id=id_, state=state, since=dt.datetime.now(dt.UTC), ref=ref, **more)


def reason_of_pending(*has, num_pilots=1, state="ALIVE"):
    found = [{"state": state, "resources_total": one} for one in has]
    return seen_of(PENDING, found, num_pilots=num_pilots).reason


def test_a_pilot_reserves_what_its_slots_need_and_shares_no_node_with_another():
    request = submission(OPTIONS, JOB, files="gcs://_ray_pkg_1.zip")
    assert request["submission_id"] == "muster-pilot-1a"
    assert (request["entrypoint_num_cpus"], request["entrypoint_num_gpus"]) == (2, 2)
    assert request["entrypoint_resources"] == {
        "accelerator_type:A100": 0.001,
        "node:__internal_implicit_resource_muster-gpu": 1,
    }
    given = options_of({**GIVEN, "cpus": "16", "gpus": "4", "memory_mb": "64000"}, "ray")
    request = submission(given, JOB, files="gcs://_ray_pkg_1.zip")
    assert (request["entrypoint_num_cpus"], request["entrypoint_num_gpus"]) == (16, 4)
    assert request["entrypoint_memory"] == 64000 * 2**20


def test_the_script_is_valid_and_the_token_is_a_file_beside_it():
    text = script(OPTIONS, JOB)
    done = subprocess.run(["sh", "-n"], input=text, text=True, check=False)
    assert done.returncode == 0
    assert "--idle-exit 600" in text
    assert "+ 7200))" in text
    with zipfile.ZipFile(io.BytesIO(package(OPTIONS, JOB))) as archive:
        assert archive.read("token") == b"join_secret\n"
        assert archive.read("pilot.sh").decode() == text
    assert "join_secret" not in text
    assert "join_secret" not in json.dumps(submission(OPTIONS, JOB, files="gcs://x.zip"))


def test_a_pilot_is_submitted_with_its_files():
    told = Told(Reply(200, ""), ok({"submission_id": "muster-pilot-1a"}))
    assert Ray(OPTIONS, told).submit(JOB) == "muster-pilot-1a"
    (put, path, _), (post, jobs, body) = told.asked
    assert (put, post, jobs) == ("PUT", "POST", "/api/jobs/")
    assert body["runtime_env"]["working_dir"] == "gcs://" + path.rsplit("/", 1)[1]


def test_one_that_ray_has_already_counts_as_submitted():
    words = "Traceback…\nValueError: Job with submission_id muster-pilot-1a already exists."
    for status in (400, 500):
        told = Told(Reply(200, ""), Reply(status, words))
        assert Ray(OPTIONS, told).submit(JOB) == "muster-pilot-1a"


def test_a_refusal_carries_rays_words():
    words = "Traceback (most recent call last):\n  File…\nTypeError: resources must be numbers\n"
    with pytest.raises(SubmissionRefused, match=r"^TypeError: resources must be numbers"):
        Ray(OPTIONS, Told(Reply(200, ""), Reply(400, words))).submit(JOB)


@pytest.mark.parametrize(
    "replies",
    [
        [BatchSystemUnreachable("http://10.0.0.7:8265 does not answer")],
        [Reply(500, "Traceback…\nRuntimeError: GCS is away")],
        [Reply(200, ""), Reply(500, "No available agent to submit job, please try again later.")],
        [Reply(200, ""), Reply(502, "")],
    ],
)
def test_an_answer_that_says_nothing_leaves_it_open(replies):
    with pytest.raises(BatchSystemUnreachable):
        Ray(OPTIONS, Told(*replies)).submit(JOB)


def test_jobs_are_found_by_their_submission():
    listed = [
        {"submission_id": "muster-pilot-1a", "status": "RUNNING"},
        {"submission_id": "muster-pilot-2b", "status": "STOPPED", "message": "Job was stopped."},
        {"submission_id": None, "job_id": "01000000", "status": "RUNNING"},
        {"submission_id": "raysubmit_x", "status": "PENDING"},
    ]
    late = {"submission_id": "muster-pilot-4d", "status": "RUNNING"}
    told = Told(ok(listed), Reply(404, "Job muster-pilot-3c does not exist"), ok(late))
    listing = Ray(OPTIONS, told).look(
        [pilot(), pilot("pilot-2b"), pilot("pilot-3c"), pilot("pilot-4d")]
    )
    assert {id_: seen.state for id_, seen in listing.jobs.items()} == {
        "pilot-1a": "running",
        "pilot-2b": "ended",
        "pilot-4d": "running",
    }
    assert listing.jobs["pilot-2b"].reason == "it was stopped in Ray (Job was stopped.)"
    assert set(listing.absent) == {"pilot-3c"}


@pytest.mark.parametrize(
    "reply",
    [
        BatchSystemUnreachable("http://10.0.0.7:8265 does not answer"),
        Reply(500, "Traceback…"),
        Reply(200, "<html>a proxy</html>"),
        ok({"jobs": []}),
        Reply(302, ""),
    ],
)
def test_a_listing_that_fails_is_unknown_and_not_gone(reply):
    with pytest.raises(BatchSystemUnreachable):
        Ray(OPTIONS, Told(reply)).look([pilot(ref="muster-pilot-1a")])


def test_a_proxys_404_is_no_word_of_ray():
    told = Told(ok([]), Reply(404, "<html>not found</html>"))
    with pytest.raises(BatchSystemUnreachable):
        Ray(OPTIONS, told).look([pilot(ref="muster-pilot-1a")])


def test_what_cannot_start_says_what_was_wanted_and_what_there_is():
    small = {"CPU": 4.0, "node:10.0.0.7": 1.0}
    big = {"CPU": 16.0, "GPU": 2.0}
    assert reason_of_pending(small, {"CPU": 6.0, "GPU": 1.0}) == (
        "no node of the cluster has 8 CPU, 2 GPU: the most on one is 6 CPU, 1 GPU (INFEASIBLE)"
    )
    assert reason_of_pending(small, big) == "waits until a node has 8 CPU, 2 GPU free (PENDING)"
    assert reason_of_pending(big, big, num_pilots=4) == (
        "4 pilots want a node with 8 CPU, 2 GPU each, the cluster has 2 such nodes (PENDING)"
    )
    assert "one such node" in reason_of_pending(small, big, num_pilots=2)
    assert "waits until" in reason_of_pending(big, big, num_pilots=2)


def test_without_living_nodes_rays_own_words_are_shown():
    assert reason_of_pending() == "Job has not started yet."
    assert reason_of_pending({"CPU": 64.0, "GPU": 8.0}, state="DEAD") == "Job has not started yet."


def test_the_reason_reaches_the_pilot_as_it_is():
    told = Told(ok([PENDING]), nodes({"CPU": 4.0}))
    listing = Ray(OPTIONS, told).look([pilot(ref="muster-pilot-1a")])
    change = follow(
        pilot(ref="muster-pilot-1a"),
        listing.jobs["pilot-1a"],
        is_listed=True,
        now=dt.datetime.now(dt.UTC),
    )
    assert change.reason.startswith("no node of the cluster has 8 CPU, 2 GPU: the most on one")


def test_nodes_that_are_not_told_explain_nothing_and_fail_nothing():
    for reply in (Reply(500, ""), ok({"result": False}), BatchSystemUnreachable("no answer")):
        listing = Ray(OPTIONS, Told(ok([PENDING]), reply)).look([pilot()])
        assert listing.jobs["pilot-1a"].reason == "Job has not started yet."


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"status": "SUCCEEDED", "message": "Job finished successfully."}, ""),
        (
            {"status": "STOPPED", "message": "Job was intentionally stopped."},
            "it was stopped in Ray (Job was intentionally stopped.)",
        ),
        (
            {
                "status": "FAILED",
                "driver_exit_code": 3,
                "message": "Job entrypoint command failed with exit code 3, last available logs "
                "(truncated to 20,000 chars):\nsecret words",
            },
            "its agent ended with code 3; see the log of the job in Ray "
            "(Job entrypoint command failed with exit code 3)",
        ),
        (
            {
                "status": "FAILED",
                "error_type": "JOB_SUPERVISOR_ACTOR_DIED",
                "message": "Job supervisor actor died: The actor died because its node has died.",
            },
            "its Ray node died (Job supervisor actor died: The actor died because its node has "
            "died.)",
        ),
        (
            {
                "status": "FAILED",
                "error_type": "JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
                "message": "Job supervisor actor failed to start within 900.0 seconds.",
            },
            "Ray could not start it in time (Job supervisor actor failed to start within 900.0 "
            "seconds.)",
        ),
        ({"status": "FAILED"}, "its job failed"),
    ],
)
def test_how_it_ended_is_told_in_our_words_and_rays(job, reason):
    seen = seen_of({"submission_id": "muster-pilot-1a", **job}, [], num_pilots=1)
    assert (seen.state, seen.reason) == ("ended", reason)


def test_a_state_that_is_not_known_ends_nothing():
    seen = seen_of({"submission_id": "x", "status": "PAUSED"}, [], num_pilots=1)
    assert seen.state == "running"


def test_a_job_that_is_gone_needs_no_cancellation():
    told = Told(Reply(200, "{}"), Reply(404, "Job does not exist"))
    Ray(OPTIONS, told).cancel(["muster-pilot-1a", "muster-pilot-2b"])
    assert [path for _, path, _ in told.asked] == [
        "/api/jobs/muster-pilot-1a/stop",
        "/api/jobs/muster-pilot-2b/stop",
    ]
    with pytest.raises(BatchSystemUnreachable):
        Ray(OPTIONS, Told(Reply(500, "RuntimeError: away"))).cancel(["muster-pilot-1a"])


def test_an_address_where_nothing_listens_is_unreachable():
    there = options_of({**GIVEN, "address": "http://127.0.0.1:9"}, "ray")
    with pytest.raises(BatchSystemUnreachable, match=r"127\.0\.0\.1:9 does not answer"):
        system_of(there).look([pilot()])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": ""}, "address: is missing; write the address of Ray's dashboard"),
        ({"address": "ray://10.0.0.7:10001"}, "address: 'ray://10.0.0.7:10001' does not work"),
        ({"partition": "a100"}, "partition: is no option of this provider; there are server_url"),
        ({"gpus": "0"}, "gpus: '0' does not work; write a number of GPUs"),
        ({"resources": "A100"}, "resources: 'A100' does not work"),
        ({"agent": "muster-agent"}, "agent: 'muster-agent' does not work"),
    ],
)
def test_bad_options_name_the_field_and_what_would_work(changes, words):
    with pytest.raises(InvalidOption) as raised:
        options_of({**GIVEN, **changes}, "ray")
    assert words in str(raised.value)
    assert OPTIONS.name == "Ray cluster 10.0.0.7:8265"
