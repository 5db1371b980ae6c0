"""Pools whose nodes a batch system supplies, through the real API, with a system that a test drives."""

import dataclasses
import datetime as dt

import pytest
from sqlalchemy import select

from muster.wire import PilotFacts
from muster_server import clock
from muster_server.db.models import AuditRow, PilotRow
from muster_server.domain.providers import Seen
from muster_server.loops.batch_systems.base import (
    BatchSystemUnreachable,
    Listing,
    SubmissionRefused,
    Submitted,
)
from muster_server.loops.providers import PilotWorker
from support.agent import FakeAgent, leave, start

EPOCH = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
PROVIDER = {
    "kind": "slurm",
    "slots": 2,
    "max_pilots": 3,
    "walltime_s": 7200,
    "idle_s": 60,
    "options": {
        "server_url": "http://10.0.0.5:8470",
        "folder": "/shared/muster",
        "agent": "/opt/bin/muster-agent",
        "partition": "a100",
    },
}


class Batch:
    """A batch system: what it has, and what goes wrong with it."""

    def __init__(self):
        self.jobs = {}
        """Pilot → its job."""
        self.submitted = []
        self.canceled = []
        self.refusal = ""
        self.is_away = False
        self.loses_answers = False
        self.during_submission = lambda: None
        self.notice = ""

    def submit(self, job):
        self.during_submission()
        if self.refusal:
            raise SubmissionRefused(self.refusal)
        if self.is_away:
            raise BatchSystemUnreachable("no answer within 30 s")
        self.submitted.append(job)
        ref = str(100 + len(self.submitted))
        self.jobs[job.id] = Seen(ref=ref, state="pending", reason="Priority")
        if self.loses_answers:
            raise BatchSystemUnreachable("no answer within 30 s")
        return ref

    def look(self, pilots):
        if self.is_away:
            raise BatchSystemUnreachable(
                "slurm_load_jobs error: Unable to contact slurm controller"
            )
        jobs = {p.id: self.jobs[p.id] for p in pilots if p.id in self.jobs}
        absent = [p.id for p in pilots if p.id not in jobs]
        return Listing(jobs=jobs, absent=absent, notice=self.notice)

    def cancel(self, refs):
        if self.is_away:
            raise BatchSystemUnreachable("no answer")
        self.canceled += refs
        for id_, job in list(self.jobs.items()):
            if job.ref in refs:
                self.jobs[id_] = Seen(ref=job.ref, state="ended", reason="its job was canceled")

    def runs(self, pilot_id):
        self.jobs[pilot_id] = Seen(ref=self.jobs[pilot_id].ref, state="running")


@pytest.fixture
def batch(request):
    return getattr(request, "param", Batch)()


@pytest.fixture
def worker(database, controller, batch):
    """Looks at the batch system each time, however little time has passed."""

    def work():
        found = PilotWorker(database, lambda: controller.lease, system_of=lambda options: batch)
        found.run_once(clock.now())

    return work


@pytest.fixture
def passes(controller, worker):
    def run(num=2):
        for _ in range(num):
            controller.tick()
            worker()
        controller.tick()

    return run


@pytest.fixture
def pool(admin_client, time_machine):
    """The pool `gpu` at a moment that the test moves."""
    time_machine.move_to(EPOCH, tick=False)

    def put(name="gpu", **changes):
        reply = admin_client.put(f"/api/v1/pools/{name}/provider", json={**PROVIDER, **changes})
        assert reply.status_code == 200, reply.text
        return reply.json()

    put()
    return put


@pytest.fixture
def join(connect, batch):
    """The agent of a pilot's job registers with the token that the job was given."""

    def register(job):
        facts = PilotFacts(provider_ref=f"slurm:lab:{batch.jobs[job.id].ref}")
        node = FakeAgent(
            lambda token: connect(token=token),
            job.join_token,
            job.id,
            slots=2,
            pool=job.pool,
            pilot=facts,
        )
        node.register()
        batch.runs(job.id)
        return node

    return register


def trial_of(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


def states(show, pool="gpu"):
    return [pilot["state"] for pilot in show(f"/pools/{pool}/pilots")["items"]]


def test_pilots_come_for_a_gang_run_it_and_leave(
    pool, submit, show, passes, batch, join, controller, time_machine
):
    experiment_id = submit(slots=4, nodes=2, pool="gpu")
    passes()
    assert states(show) == [], "the scheduler has a moment"
    time_machine.shift(5)
    passes()
    assert len(batch.submitted) == 2
    assert {(job.slots, job.walltime_s, job.idle_s) for job in batch.submitted} == {(2, 7200, 60)}
    assert states(show) == ["pending", "pending"]
    time_machine.shift(10)
    passes()
    assert (
        "waiting for 2 pilots of Slurm partition a100 (job 101: other jobs are ahead of it (Priority))"
        in (trial_of(show, experiment_id)["pending_reason"])
    )
    (item,) = show("/queue")["items"]
    assert "waiting for 2 pilots" in item["pending_reason"]
    nodes = [join(job) for job in batch.submitted]
    time_machine.shift(10)
    for node in nodes:
        node.beat()
    passes()
    assert states(show) == ["up", "up"]
    assert trial_of(show, experiment_id)["state"] == "STARTING"
    for node in nodes:
        node.get_ready(node.only().spec.allocation_id, port=1234)
    controller.tick()
    for node in nodes:
        node.run(node.only().spec.allocation_id)
        node.exit(node.only().spec.allocation_id)
    controller.tick()
    assert trial_of(show, experiment_id)["state"] == "COMPLETED"
    for node in nodes:
        node.leave("closing")
        node.leave("gone", "nothing has run on it for 60 s")
        batch.jobs[node.name] = Seen(ref=batch.jobs[node.name].ref, state="ended")
    time_machine.shift(40)
    passes()
    assert states(show) == ["ended", "ended"]
    assert show("/pools/gpu/provider")["failures"] == 0
    assert len(batch.submitted) == 2


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_a_pilot_that_comes_and_leaves_between_two_looks_is_neither_canceled_nor_a_failure(
    pool, submit, show, passes, batch, join, controller, time_machine, is_exclusive
):
    pool(exclusive=is_exclusive)
    experiment_id = submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes()
    assert states(show) == ["pending"]
    (job,) = batch.submitted
    node = join(job)
    node.beat()
    controller.tick()
    node.get_ready(node.only().spec.allocation_id, port=1234)
    controller.tick()
    node.run(node.only().spec.allocation_id)
    node.exit(node.only().spec.allocation_id)
    controller.tick()
    assert trial_of(show, experiment_id)["state"] == "COMPLETED"
    node.leave("closing")
    time_machine.shift(30)
    node.leave("gone", "it was started for one allocation, which has ended")
    controller.tick()
    batch.jobs[job.id] = Seen(ref=batch.jobs[job.id].ref, state="ended", reason="COMPLETED")
    passes()
    (pilot,) = show("/pools/gpu/pilots")["items"]
    assert (pilot["state"], pilot["reason"]) == ("ended", "its job is complete (COMPLETED)")
    assert batch.canceled == []
    provider = show("/pools/gpu/provider")
    assert provider["failures"] == 0
    assert provider["spent_slot_hours"] == pytest.approx(2 * 30 / 3600, rel=0.01)


def test_rows_are_written_before_a_job_is_submitted(
    pool, submit, passes, batch, database, time_machine
):
    seen = []

    def look():
        with database.read() as session:
            seen.extend(session.scalars(select(PilotRow.state)))

    batch.during_submission = look
    submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes(1)
    assert seen == ["submitting"]


def test_a_lost_answer_is_found_by_name_and_never_submitted_twice(
    pool, submit, show, passes, batch, time_machine
):
    batch.loses_answers = True
    submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes(1)
    assert states(show) == ["submitting"]
    batch.loses_answers = False
    time_machine.shift(10)
    passes()
    assert states(show) == ["pending"]
    assert len(batch.submitted) == 1


def test_a_submission_that_never_arrived_is_tried_again_after_a_while(
    pool, submit, show, passes, batch, time_machine
):
    batch.is_away = True
    experiment_id = submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes()
    batch.is_away = False
    time_machine.shift(30)
    passes()
    assert (states(show), batch.submitted) == (["submitting"], [])
    time_machine.shift(40)
    passes(3)
    assert states(show) == ["pending"]
    assert trial_of(show, experiment_id)["state"] == "QUEUED"


def test_a_document_for_a_pool_without_a_pilot_yet_will_start_one(
    pool, submit, passes, member_client, time_machine
):
    def preview(**resources):
        text = "".join(f"  {key}: {value}\n" for key, value in resources.items())
        code = "entrypoint: t.py\ncode: {installed: /srv/c}"
        document = f"name: p\n{code}\nresources:\n  pool: gpu\n{text}"
        reply = member_client.post("/api/v1/experiments:preview", json={"document": document})
        assert reply.status_code == 200, reply.text
        return reply.json()

    found = preview(slots=4, nodes=2)
    assert not found["is_impossible"], found["fit_reason"]
    assert "2 pilots of Slurm partition a100 will be requested" in found["fit_reason"]
    never = preview(slots=6, nodes=2)
    assert never["is_impossible"]
    assert "it needs 3 slots on each node" in never["fit_reason"]
    assert preview(slots=2, slot_type="cuda")["is_impossible"], "its pilots have none"
    submit(slots=6, nodes=3, pool="gpu")
    time_machine.shift(5)
    passes()
    behind = preview(slots=2)
    assert not behind["is_impossible"]
    assert "may have 3 pilots, and has 3" in behind["fit_reason"]


def test_a_batch_system_that_does_not_answer_ends_nothing(
    pool, submit, show, passes, batch, time_machine
):
    experiment_id = submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes()
    batch.is_away = True
    for _ in range(5):
        time_machine.shift(60)
        passes()
    assert states(show) == ["pending"]
    assert "Unable to contact" in show("/pools/gpu/provider")["problem"]
    said = "Slurm partition a100 does not answer (slurm_load_jobs error: Unable to contact slurm"
    assert said in trial_of(show, experiment_id)["pending_reason"]
    batch.is_away = False
    time_machine.shift(10)
    passes()
    assert show("/pools/gpu/provider")["problem"] == ""


def test_a_refusal_is_told_and_asked_again_later_and_later(
    pool, submit, show, passes, batch, time_machine
):
    batch.refusal = "invalid partition specified: a100"
    experiment_id = submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes(4)
    assert states(show) == ["ended"]
    reason = trial_of(show, experiment_id)["pending_reason"]
    assert "Slurm partition a100 is asked again at 12:00:35 UTC" in reason
    assert "invalid partition specified: a100" in reason
    time_machine.shift(31)
    passes(4)
    assert states(show) == ["ended", "ended"]
    assert show("/pools/gpu/provider")["failures"] == 2
    batch.refusal = ""
    time_machine.shift(61)
    passes()
    assert states(show)[0] == "pending"


def test_a_trial_that_is_gone_takes_its_pilots_along(
    pool, submit, show, passes, batch, member_client, time_machine
):
    experiment_id = submit(slots=4, nodes=2, pool="gpu")
    time_machine.shift(5)
    passes()
    assert member_client.post(f"/api/v1/experiments/{experiment_id}:kill").status_code < 300
    time_machine.shift(10)
    passes(3)
    assert sorted(batch.canceled) == ["101", "102"]
    time_machine.shift(10)
    passes()
    assert states(show) == ["ended", "ended"]
    assert show("/pools/gpu/provider")["failures"] == 0


def test_a_limit_is_never_exceeded_and_is_told(pool, submit, show, passes, batch, time_machine):
    first = [submit(slots=2, pool="gpu") for _ in range(5)]
    time_machine.shift(5)
    passes(4)
    assert len(batch.submitted) == 3
    assert (
        "Slurm partition a100 may have 3 pilots, and has 3"
        in (trial_of(show, first[-1])["pending_reason"])
    )


def test_a_pilot_that_was_killed_is_given_up_by_its_silence(
    pool, submit, show, passes, batch, join, agent, time_machine
):
    submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes()
    other = agent("stays", pool="default")
    node = join(batch.submitted[0])
    passes()
    assert states(show) == ["up"]
    batch.jobs[node.name] = Seen(ref="101", state="ended", reason="NodeFail")
    node.beat()
    time_machine.shift(40)
    node.beat()
    other.beat()
    passes()
    assert states(show) == ["up"], "it is heard, whatever the batch system says"
    for _ in range(12):
        time_machine.shift(10)
        other.beat()
        passes(1)
    assert "ended" in states(show)


def test_a_provider_that_is_removed_goes_with_the_last_of_its_pilots(
    pool, submit, show, passes, batch, join, admin_client, controller, time_machine
):
    submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes()
    node = join(batch.submitted[0])
    passes()
    allocation_id = start(controller, node)
    assert admin_client.delete("/api/v1/pools/gpu/provider").status_code == 204
    time_machine.shift(10)
    node.beat()
    passes()
    assert states(show) == ["up"]
    leave(controller, node, allocation_id, step=1)
    node.leave("gone")
    time_machine.shift(40)
    passes()
    assert (states(show), batch.canceled) == (["ending"], []), "its job may end by itself"
    time_machine.shift(31)
    passes(3)
    assert (states(show), batch.canceled) == (["ended"], ["101"])
    assert admin_client.get("/api/v1/pools/gpu/provider").status_code == 404


def test_pilots_of_an_exclusive_pool_run_one_attempt_of_one_trial(
    pool, submit, show, passes, batch, join, controller, time_machine
):
    pool(exclusive=True, max_pilots=8)
    first, second = submit(slots=2, nodes=2, pool="gpu"), submit(slots=1, pool="gpu")
    time_machine.shift(5)
    passes()
    assert [job.once for job in batch.submitted] == [True, True, True]
    trials = {trial_of(show, first)["id"]: 2, trial_of(show, second)["id"]: 1}
    pilots = {pilot["id"]: pilot["trial_id"] for pilot in show("/pools/gpu/pilots")["items"]}
    assert {t: list(pilots.values()).count(t) for t in trials} == trials
    nodes = {job.id: join(job) for job in batch.submitted}
    time_machine.shift(10)
    passes()
    assert trial_of(show, first)["state"] == trial_of(show, second)["state"] == "STARTING"
    for name, node in nodes.items():
        assert node.only().spec.trial_id == pilots[name], name
    third = submit(slots=1, pool="gpu")
    time_machine.shift(10)
    for node in nodes.values():
        node.beat()
    passes()
    assert trial_of(show, third)["state"] == "QUEUED", "a slot is free there, and is not for it"
    assert len(batch.submitted) == 4


def test_a_restart_in_an_exclusive_pool_gets_pilots_of_its_own(
    pool, submit, show, passes, batch, join, controller, time_machine
):
    pool(exclusive=True)
    experiment_id = submit(slots=1, pool="gpu")
    time_machine.shift(5)
    passes()
    node = join(batch.submitted[0])
    time_machine.shift(10)
    passes()
    allocation_id = start(controller, node)
    leave(controller, node, allocation_id, step=1)
    for _ in range(4):
        time_machine.shift(10)
        node.beat()
        passes()
    assert [pilot["attempt_no"] for pilot in show("/pools/gpu/pilots")["items"]] == [2, 1]
    assert trial_of(show, experiment_id)["state"] == "QUEUED", "the old pilot is still there"


def test_a_limit_of_cost_holds_trials_back_until_pilots_have_ended_early(
    pool, submit, show, passes, batch, join, admin_client, time_machine
):
    pool(max_slot_hours=5)  # Two hours of two slots: one pilot at a time.
    assert admin_client.put("/api/v1/pools/gpu", json={"price_per_slot_hour": 3}).status_code == 200
    first, second = submit(slots=2, pool="gpu"), submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes()
    assert len(batch.submitted) == 1
    assert (
        "Slurm partition a100 may use 5 slot-hours: 0 are used, its pilots may use up to 4 more, and 1 other "
        "pilot up to 4" in trial_of(show, second)["pending_reason"]
    )
    node = join(batch.submitted[0])
    passes()
    time_machine.shift(900)
    node.beat()
    shown = show("/pools/gpu/provider")
    assert (shown["spent_slot_hours"], shown["spent_cost"]) == (0.5, 1.5)
    assert shown["reserved_slot_hours"] == 4
    node.leave("closing")
    node.leave("gone")
    batch.jobs[node.name] = Seen(ref="101", state="ended", reason="COMPLETED")
    passes()
    assert show("/pools/gpu/provider")["spent_slot_hours"] == 0.5
    assert show("/pools/gpu/pilots")["items"][-1]["reason"] == "its job is complete (COMPLETED)"
    time_machine.shift(10)
    passes()
    assert len(batch.submitted) == 2, "what the first did not use is free again"
    assert trial_of(show, first)["state"] == "QUEUED"
    pool(max_slot_hours=5, restart_count=True)
    assert show("/pools/gpu/provider")["spent_slot_hours"] == 0


def test_nothing_new_is_placed_on_a_node_that_its_site_drains(
    pool, submit, show, passes, batch, join, controller, time_machine
):
    first = submit(slots=1, pool="gpu")
    time_machine.shift(5)
    passes()
    node = join(batch.submitted[0])
    passes()
    start(controller, node)
    batch.jobs[node.name] = dataclasses.replace(
        batch.jobs[node.name], node_problem="n1 is draining (disk)"
    )
    batch.notice = "n1 is draining (disk)"
    time_machine.shift(40)
    node.beat()
    passes()
    assert show(f"/nodes/{node.name}")["scheduling"] == "cordoned"
    assert show("/pools/gpu/provider")["notice"] == "n1 is draining (disk)"
    assert trial_of(show, first)["state"] == "RUNNING"
    submit(slots=1, pool="gpu")
    time_machine.shift(5)
    node.beat()
    passes()
    assert len(batch.submitted) == 2, "the free slot there does not count"


class Arrays(Batch):
    """A batch system that takes several pilots at once, and no more than it likes."""

    limit = 2

    def __init__(self):
        super().__init__()
        self.requests = []

    def submit_many(self, jobs):
        self.requests.append(len(jobs))
        refs = {job.id: self.submit(job) for job in jobs[: self.limit]}
        return Submitted(refs=refs, refusal="AssocMaxSubmitJobLimit")


@pytest.mark.parametrize("batch", [Arrays], indirect=True)
def test_pilots_are_submitted_at_once_where_that_is_possible(
    pool, submit, show, passes, batch, time_machine
):
    for _ in range(3):
        submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes(1)
    assert batch.requests == [3]
    assert sorted(states(show)) == ["ended", "pending", "pending"]
    shown = show("/pools/gpu/provider")
    assert (shown["failures"], shown["num_failed"]) == (1, 1)
    assert "AssocMaxSubmitJobLimit" in shown["problem"]


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        (
            {"options": {**PROVIDER["options"], "qos": "x y"}},
            "pools.bad_option",
            "options.qos: 'x y'",
        ),
        ({"min_pilots": 4}, "pools.bad_range", "min_pilots is 4"),
        (
            {"kind": "kubernetes"},
            "pools.bad_option",
            "options.folder: is no option of this provider; there are server_url, namespace",
        ),
        ({"min_pilots": 1, "exclusive": True}, "pools.bad_range", "never kept: set it to 0"),
        ({"max_slot_hours": 3.5}, "pools.bad_cost", "one pilot may use 4 in its wall time"),
        ({"max_cost": 100}, "pools.bad_cost", "slots of pool gpu have no price"),
        ({"kind": "ray"}, "pools.bad_option", "folder: is no option of this provider; there are"),
    ],
)
def test_bad_input_names_the_field_and_what_would_work(admin_client, changes, code, words):
    reply = admin_client.put("/api/v1/pools/gpu/provider", json={**PROVIDER, **changes})
    assert reply.status_code == 422
    assert reply.json()["error"]["code"] == code
    assert words in reply.json()["error"]["message"]


def test_a_pool_has_a_provider_or_spares(admin_client):
    def put(path, body):
        reply = admin_client.put(f"/api/v1/pools/{path}", json=body)
        return reply.status_code, reply.json().get("error", {}).get("message", "")

    assert put("gpu", {"spares": 65})[0] == 422
    assert put("gpu", {"spares": 2})[0] == 200
    status, words = put("gpu/provider", PROVIDER)
    assert (status, words) == (
        422,
        "spares of pool gpu is 2, and the nodes that a provider supplies cannot be held.",
    )
    assert put("gpu", {"spares": 0})[0] == 200
    assert put("gpu/provider", PROVIDER)[0] == 200
    status, words = put("gpu", {"spares": 1})
    assert status == 422
    assert words.startswith("spares is 1, but a provider supplies the nodes of pool gpu")
    assert put("gpu", {"spares": 0})[0] == 200  # what the form sends


def test_only_administrators_set_a_provider_and_that_is_in_the_audit_log(
    pool, member_client, database
):
    assert member_client.put("/api/v1/pools/gpu/provider", json=PROVIDER).status_code == 403
    with database.read() as session:
        actions = list(session.scalars(select(AuditRow.action)))
    assert "pools.provider_set" in actions


def test_nothing_is_requested_for_a_pool_in_maintenance(
    pool, passes, submit, show, batch, admin_client, time_machine
):
    body = {"reason": "new switch", "pools": ["gpu"]}
    window = admin_client.post("/api/v1/maintenance", json=body).json()
    experiment_id = submit(slots=2, pool="gpu")
    time_machine.shift(5)
    passes()
    assert batch.submitted == []
    assert (
        "nothing is requested during the maintenance (gpu, 2026-01-01 12:00 UTC –: new switch)"
        in (trial_of(show, experiment_id)["pending_reason"])
    )
    ended = admin_client.post(f"/api/v1/maintenance/{window['id']}:end")
    assert ended.status_code == 200, ended.text
    passes()
    assert len(batch.submitted) == 1
