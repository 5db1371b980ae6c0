"""What Kubernetes is asked for, and what its answers mean, with an API server that answers as it does."""

import datetime as dt
import json
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from muster_agent.node.granted import granted_cpus, granted_memory_bytes
from muster_server.domain.providers import Pilot, PilotState, options_of, reason_of
from muster_server.domain.providers.options import InvalidOption
from muster_server.loops.batch_systems.base import (
    BatchSystemUnreachable,
    PilotJob,
    SubmissionRefused,
)
from muster_server.loops.batch_systems.choosing import system_of
from muster_server.loops.batch_systems.kubernetes import Kubernetes
from muster_server.loops.batch_systems.kubernetes_api import find_access
from muster_server.loops.batch_systems.kubernetes_manifests import (
    job_manifest,
    secret_manifest,
    toleration,
)
from support.batch.kubernetes import IMAGE, ClusterNode, KubernetesLab
from support.batch.kubernetes_schema import invalid_fields, schema_problems

GIVEN = {
    "server_url": "http://127.0.0.1:1",
    "namespace": "ml",
    "image": IMAGE,
    "cpus": "1",
    "memory": "1Gi",
}
JOB = PilotJob(
    id="pilot-1a",
    pool="gpu",
    join_token="join_secret",
    slots=2,
    slot_type="cpu",
    walltime_s=7200,
    idle_s=600,
)
REF = "muster-pilot-1a"


def options(**changes):
    return options_of({**GIVEN, **changes}, "kubernetes")


def pilot(state="pending", **changes):
    fields = {"id": "pilot-1a", "ref": REF, "since": dt.datetime.now(dt.UTC)} | changes
    return Pilot(state=PilotState(state), **fields)


@pytest.fixture
def lab(tmp_path):
    lab = KubernetesLab(tmp_path / "lab")
    lab.programs = tmp_path / "bin"
    lab.programs.mkdir()
    lab.start(by_hand=True)
    yield lab
    lab.stop()
    assert lab.processes() == []


@pytest.fixture
def agent(lab):
    """What `muster-agent` in the image does, as a shell script."""

    def write(script):
        path = lab.programs / "muster-agent"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    write("exec sleep 60")
    return write


@pytest.fixture
def system(lab):
    def make(**changes):
        return system_of(options(**changes), kubeconfig=lab.kubeconfig)

    return make


@pytest.fixture
def look(lab, system):
    """The state and the reason of the pilot, in our words, after the cluster has worked for a bit."""

    def see(the_pilot=None, steps=1, **changes):
        for _ in range(steps):
            lab.step()
        listing = system(**changes).look([the_pilot or pilot()])
        if "pilot-1a" in listing.absent:
            return "absent", ""
        seen = listing.jobs["pilot-1a"]
        return seen.state, reason_of(seen.reason).text

    return see


def wait_until(lab, is_true):
    deadline = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline, lab.logs()
        lab.step()
        time.sleep(0.01)


def phase(lab):
    return lab.pod_of(REF)["status"]["phase"]


def test_objects_fit_the_published_schema_and_show_no_secret():
    every = options(
        gpus="4",
        node_selector="zone=a,gpu=a100",
        tolerations="nvidia.com/gpu:NoSchedule,dedicated=ml,any",
        queue="team-a",
        priority_class="low",
        service_account="pilots",
        image_pull_policy="IfNotPresent",
        image_pull_secret="registry",
        storage_claim="checkpoints",
    )
    for chosen in (options(), every):
        job = job_manifest(chosen, JOB)
        secret = secret_manifest(chosen, JOB.id, token="join_secret", job_uid="1-2")
        for thing in (job, secret):
            assert schema_problems(thing) == []
            assert list(invalid_fields(thing)) == []
        assert "join_secret" not in json.dumps(job)
        assert secret["metadata"]["ownerReferences"][0]["uid"] == "1-2"
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {
        "cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "4",
    }  # fmt: skip
    assert pod["nodeSelector"] == {"zone": "a", "gpu": "a100"}
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert job["spec"]["suspend"] is True
    assert "ports" not in pod["containers"][0]
    assert pod["automountServiceAccountToken"] is False


def test_the_schema_finds_what_is_wrong():
    job = job_manifest(options(), JOB)
    job["spec"]["backofLimit"] = 0
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = "2m"
    assert schema_problems(job) == [
        ".spec.template.spec.terminationGracePeriodSeconds: '2m' is no integer",
        'unknown field "spec.backofLimit"',
    ]


def test_slots_of_cuda_are_gpus_and_others_see_none():
    def pod_of(**changes):
        job = PilotJob(**{**JOB.__dict__, **changes})
        return job_manifest(options(), job)["spec"]["template"]["spec"]["containers"][0]

    limits = pod_of(slot_type="cuda")["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "2"
    names = {v["name"]: v.get("value") for v in pod_of()["env"]}
    assert names["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in {v["name"] for v in pod_of(slot_type="cuda")["env"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:NoExecute", {"key": "a", "operator": "Exists", "effect": "NoExecute"}),
        ("a=b", {"key": "a", "operator": "Equal", "value": "b"}),
        ("x.io/a=", {"key": "x.io/a", "operator": "Equal", "value": ""}),
    ],
)
def test_tolerations_are_written_as_for_kubectl_taint(text, expected):
    assert toleration(text) == expected


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"namespace": "ML"}, "namespace: 'ML' does not work; write a namespace"),
        ({"memory": "64 GB"}, "memory: "),
        ({"node_selector": "zone"}, "node_selector: 'zone' does not work; write labels of nodes"),
        ({"tolerations": "a:Never"}, "tolerations: "),
        ({"user_id": "0"}, "user_id: '0' does not work; write the number of a user, not 0"),
        ({"image": "a image"}, "image: "),
        ({"cpus": ""}, "cpus: is missing; write processors of a pilot"),
        ({"partition": "a100"}, "partition: is no option of this provider"),
    ],
)
def test_bad_options_are_told_with_what_would_work(changes, problem):
    with pytest.raises(InvalidOption) as error:
        options(**changes)
    assert str(error.value).startswith(problem)


def test_the_provider_is_named_by_its_queue_or_namespace():
    assert options().name == "Kubernetes namespace ml"
    assert options(queue="team-a").name == "Kubernetes queue team-a"


def test_a_pod_gets_its_token_as_a_file_and_its_end(lab, agent, system, look):
    agent('cat "$MUSTER_AGENT_JOIN_TOKEN_FILE"; echo; env; date +now=%s; exec sleep 60')
    assert system().submit(JOB) == REF
    assert look(steps=3) == ("running", "")
    wait_until(lab, lambda: "now=" in lab.logs())
    said = dict(line.split("=", 1) for line in lab.logs().splitlines() if "=" in line)
    assert "join_secret" in lab.logs().splitlines()[0]
    assert abs(int(said["MUSTER_AGENT_ENDS_AT"]) - int(said["now"]) - 7200) < 60
    assert said["MUSTER_AGENT_PROVIDER_REF"] == f"kubernetes:ml:{REF}"
    assert "join_secret" not in "".join(said.values())
    assert granted_cpus(64, said) == 1
    assert granted_memory_bytes(2**40, said) == 2**30
    system().cancel([REF])
    wait_until(lab, lambda: lab.names("pods") == [])
    assert lab.names("secrets") == [], "it goes with its Job"
    assert look() == ("absent", "")
    system().cancel([REF])


def test_an_end_is_told_with_the_last_line_of_the_log(lab, agent, system, look):
    agent("echo the join token has been used; exit 3")
    system().submit(JOB)
    lab.step()
    wait_until(lab, lambda: phase(lab) == "Failed")
    assert look() == (
        "ended",
        "its agent has failed (Error: exit code 3, the join token has been used)",
    )


def test_a_good_end_needs_no_reason(lab, agent, system, look):
    agent("exit 0")
    system().submit(JOB)
    lab.step()
    wait_until(lab, lambda: phase(lab) == "Succeeded")
    assert look() == ("ended", "")


def test_the_words_of_the_scheduler_reach_the_reason(lab, system, look):
    system(gpus="1").submit(JOB)
    assert look(steps=2) == (
        "pending",
        "no node can take it now (Unschedulable: 0/2 nodes are available: 2 Insufficient "
        "nvidia.com/gpu)",
    )
    lab.machines.append(
        ClusterNode("k3", {"cpu": 8, "memory": 2**40, "nvidia.com/gpu": 1}, taint="gpu")
    )
    assert "1 node(s) had untolerated taint(s)" in look()[1]


def test_an_image_that_does_not_exist_is_given_up(lab, system, look):
    system(image="registry.example/nope:1").submit(JOB)
    assert look()[1].startswith("its image could not be pulled, and is tried again (ErrImagePull")
    state, words = look()
    assert (state, words) == (
        "pending",
        "its image cannot be pulled (ImagePullBackOff: Back-off pulling image "
        '"registry.example/nope:1": not found)',
    )
    assert reason_of("ImagePullBackOff: x").kind == "wrong"


def test_a_quota_that_is_used_up_is_a_wait(lab, system, look):
    lab.pod_quota_cpus = 0
    system().submit(JOB)
    state, words = look(steps=2)
    assert state == "pending"
    assert words.startswith("the quota of the namespace is used up (QuotaExceeded: Error creating:")
    assert "limited: requests.cpu=0)" in words
    assert reason_of("QuotaExceeded: x").kind == "waits"


def test_eviction_preemption_and_lost_nodes_are_told(lab, agent, system, look):
    agent("trap 'exit 0' TERM; sleep 60 & wait")
    system().submit(JOB)
    assert look(steps=3)[0] == "running"
    pod = lab.pod_of(REF)
    pod["status"]["phase"] = "Unknown"
    assert look()[0] == "running", "nobody knows whether it is gone"
    pod["status"]["phase"] = "Running"
    lab.evict(pod)
    wait_until(lab, lambda: phase(lab) == "Failed")
    assert look() == (
        "ended",
        "its node has evicted it (Evicted: The node was low on resource: memory)",
    )
    pod["status"]["conditions"] = [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "Preempted by a pod on node k1.",
        }
    ]
    assert look()[1].startswith("a pod of higher priority has taken its place (Preempt")


def test_a_pod_that_somebody_deletes_ends_its_job(lab, agent, system, look):
    system().submit(JOB)
    assert look(steps=3)[0] == "running"
    lab.delete("pods", lab.names("pods")[0])
    wait_until(lab, lambda: lab.names("pods") == [])
    state, words = look()
    assert (state, words.split(" (")[0]) == ("ended", "its pod has failed, or was deleted")
    lab.delete("jobs", REF)
    assert look() == ("absent", "")


@pytest.mark.parametrize(
    ("fault", "is_there"), [("away", False), ("lost", True), ("error", True), ("busy", False)]
)
def test_an_answer_that_says_nothing_leaves_it_open(lab, system, fault, is_there):
    lab.api.fault = lambda verb, resource: fault if resource == "jobs" else ""
    with pytest.raises(BatchSystemUnreachable):
        system().submit(JOB)
    assert (lab.names("jobs") == [REF]) is is_there
    with pytest.raises(BatchSystemUnreachable):
        system().look([pilot()])
    with pytest.raises(BatchSystemUnreachable):
        system().cancel([REF])


def test_a_job_whose_answer_was_lost_is_adopted_and_never_there_twice(lab, agent, system, look):
    lab.api.fault = lambda verb, resource: (
        "lost" if (verb, resource) == ("create", "secrets") else ""
    )
    with pytest.raises(BatchSystemUnreachable):
        system().submit(JOB)
    lab.api.fault = lambda verb, resource: ""
    assert look(pilot("submitting", ref=""), steps=3) == ("running", "")
    uid = lab.api.objects["jobs"][REF]["metadata"]["uid"]
    assert system().submit(JOB) == REF
    assert [job["metadata"]["uid"] for job in lab.api.objects["jobs"].values()] == [uid]
    owner = lab.api.objects["secrets"][REF]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == uid
    assert len(lab.names("pods")) == 1


def test_a_job_that_never_got_its_token_is_not_waited_for(lab, agent, system, look):
    lab.api.fault = lambda verb, resource: "away" if resource == "secrets" else ""
    with pytest.raises(BatchSystemUnreachable):
        system().submit(JOB)
    lab.api.fault = lambda verb, resource: ""
    assert look(pilot("pending"), steps=2)[1].startswith(
        "its container is being created (ContainerCreating: FailedMount: MountVolume.SetUp failed"
    )
    assert look(pilot("submitting", ref="")) == ("absent", "")
    assert lab.names("jobs") == [], "it is asked for again, with a token"
    assert "list secrets" not in lab.api.calls
    assert "get secrets" not in lab.api.calls


def test_a_job_of_that_name_that_is_not_ours_is_left_alone(lab, system):
    lab.api.put("jobs", {"kind": "Job", "metadata": {"name": REF}, "spec": {}, "status": {}})
    with pytest.raises(SubmissionRefused, match="is not Muster's"):
        system().submit(JOB)
    assert lab.names("jobs") == [REF]


def test_refusals_are_told_in_our_words_and_theirs(lab, system):
    def refusal(**changes):
        with pytest.raises(SubmissionRefused) as error:
            system(**changes).submit(JOB)
        return str(error.value)

    assert refusal(namespace="nope") == 'there is no such namespace (namespaces "nope" not found)'
    lab.api.max_jobs = 0
    assert refusal().startswith("the quota of the namespace is used up (jobs.batch")
    lab.api.max_jobs = None
    rights, lab.api.rights = lab.api.rights, []
    assert "lacks a right in Kubernetes (jobs.batch is forbidden: User" in refusal()
    with pytest.raises(BatchSystemUnreachable, match='cannot list resource "jobs"'):
        system().look([pilot()])
    lab.api.rights = [rule for rule in rights if "secrets" not in rule["resources"]]
    assert 'cannot create resource "secrets"' in refusal()
    assert lab.names("jobs") == [], "a Job without its Secret does not stay"
    lab.api.rights, lab.api.token = rights, "another"
    assert refusal() == "Kubernetes does not know Muster's account (Unauthorized)"


def test_what_kubernetes_finds_wrong_with_the_job_is_told(lab, system):
    with pytest.raises(SubmissionRefused, match=r"^Kubernetes does not take the job .*spec\.temp"):
        system(cpus="0.5").submit(PilotJob(**{**JOB.__dict__, "walltime_s": 2**31}))


def test_lists_are_read_in_pages_and_begun_again_when_a_page_has_expired(lab, system):
    ids = [f"pilot-{k:02d}" for k in range(25)]
    for id_ in ids:
        job = job_manifest(options(), PilotJob(**{**JOB.__dict__, "id": id_}))
        lab.api.put("jobs", {**job, "status": {}})
    lab.api.page = 10
    asked = []

    def expire_once(verb, resource):
        asked.append(resource)
        if asked.count("jobs") == 2 and resource == "jobs":
            lab.api.compact()
            lab.api.put("events", {"metadata": {"name": "later"}})
        return ""

    lab.api.fault = expire_once
    listing = system().look([pilot(id=id_) for id_ in ids])
    assert set(listing.jobs) == set(ids)
    assert asked.count("jobs") == 5, "two pages, the second expired, and three again"
    lab.api.fault = lambda verb, resource: lab.api.compact() or ""
    with pytest.raises(BatchSystemUnreachable, match="its lists expire before they are read"):
        system().look([pilot()])


def test_kueue_admits_a_job_and_never_starts_it_again(lab, agent, system, look):
    system(queue="team-a").submit(JOB)
    job = lab.api.objects["jobs"][REF]
    lab.api.put(
        "workloads",
        {
            "metadata": {
                "name": "job-x",
                "ownerReferences": [{"kind": "Job", "uid": job["metadata"]["uid"]}],
            },
            "status": {
                "conditions": [
                    {
                        "type": "QuotaReserved",
                        "status": "False",
                        "reason": "Pending",
                        "message": "couldn't assign flavors to pod set main: insufficient quota",
                    }
                ]
            },
        },
    )
    assert look(steps=2, queue="team-a") == (
        "pending",
        "it waits in its queue (Suspended: couldn't assign flavors to pod set main: insufficient "
        "quota)",
    )
    assert lab.names("pods") == []
    job["spec"]["suspend"] = False
    assert look(steps=3, queue="team-a")[0] == "running"
    job["spec"]["suspend"] = True
    wait_until(lab, lambda: lab.names("pods") == [])
    state, words = look(pilot("up", was_up=True), queue="team-a")
    assert (state, words.split(" (")[0]) == ("ended", "its queue has taken the quota back")
    assert lab.names("jobs") == []


def test_no_more_is_asked_for_than_the_least_rights_allow(lab, system, look):
    lab.api.rights = [rule for rule in lab.api.rights if "workloads" not in rule["resources"]]
    system(queue="team-a").submit(JOB)
    assert look(steps=2, queue="team-a") == ("pending", "it waits in its queue (Suspended)")


def test_a_kubeconfig_is_read_again_each_time(lab, system, tmp_path):
    token = tmp_path / "lab" / "token"
    lab.kubeconfig.write_text(lab.api.kubeconfig(tokenFile="token"))
    token.write_text("old")
    with pytest.raises(BatchSystemUnreachable, match="does not know Muster's account"):
        system().look([pilot()])
    token.write_text(f"{lab.api.token}\n")
    assert system().look([pilot()]).absent == {"pilot-1a"}


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"exec": {"command": "aws"}}, r"signs in with a plugin \(exec\), which is not supported"),
        ({"name": "x"}, "neither a token nor a client certificate"),
        ({"tokenFile": "/nope"}, "No such file"),
        ({"client-certificate-data": "aaaa", "client-key-data": "aaaa"}, "kubeconfig"),
    ],
)
def test_what_a_kubeconfig_cannot_do_is_told(lab, system, user, words):
    lab.kubeconfig.write_text(lab.api.kubeconfig(**user))
    with pytest.raises(BatchSystemUnreachable, match=words):
        system().look([pilot()])
    with pytest.raises(BatchSystemUnreachable, match="has no 'other' in its contexts"):
        system(context="other").look([pilot()])
    lab.kubeconfig.write_text("contexts: 3")
    with pytest.raises(BatchSystemUnreachable, match="kubeconfig"):
        system().look([pilot()])


def test_outside_a_pod_a_kubeconfig_is_asked_for(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BatchSystemUnreachable, match="set MUSTER_KUBECONFIG to a kubeconfig"):
        Kubernetes(options()).look([pilot()])


def test_something_else_that_answers_is_not_taken_for_kubernetes(lab, system):
    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b"<html>no such page</html>")

        def log_message(self, *args):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        config = json.loads(lab.api.kubeconfig())
        config["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{server.server_port}"
        lab.kubeconfig.write_text(json.dumps(config))
        with pytest.raises(BatchSystemUnreachable, match="not from Kubernetes"):
            system().look([pilot()])
        server.shutdown()
        thread.join()


def test_a_client_certificate_signs_in(tmp_path):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=muster",
         "-keyout", "key.pem", "-out", "cert.pem", "-days", "1"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    path = tmp_path / "kubeconfig"
    user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    cluster = {"server": "https://10.0.0.1:6443/", "certificate-authority": "cert.pem"}
    path.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    access = find_access(path, "")
    assert (access.server, access.token) == ("https://10.0.0.1:6443", "")
    assert access.tls.get_ca_certs()[0]["subject"] == ((("commonName", "muster"),),)
