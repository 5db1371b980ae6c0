"""Batch systems that answer Muster's real adapters, and lose jobs, machines and answers: Slurm's commands, Ray's
job API and an API server of Kubernetes, in front of one model of a site.

Nothing runs here: a test advances the site, and says what the agents of its jobs do.
"""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster_server.domain.providers import ProviderOptions
from muster_server.loops.batch_systems.base import BatchSystem, BatchSystemUnreachable
from muster_server.loops.batch_systems.kubernetes import Kubernetes
from muster_server.loops.batch_systems.kubernetes_manifests import PILOT_LABEL
from muster_server.loops.batch_systems.ray import Ray, Reply
from muster_server.loops.batch_systems.shell import Answer, Shell
from muster_server.loops.batch_systems.slurm import Slurm
from support.batch.kubernetes_api import ApiServer

SERVER_URL = "http://10.0.0.5:8470"
_TOKENS = re.compile(r"cat > \S+/tokens/(\S+) <<'MUSTER_END'[^\n]*\n(\S+)\nMUSTER_END")


@dataclass
class Job:
    """A job of the site."""

    ref: str
    pilot_id: str
    token: str
    state: str = "pending"
    """pending, running or ended."""
    end: str = ""
    """One of ENDS, once it has ended."""
    begun_s: float = 0.0
    is_broken: bool = False
    """Whether it hangs: its agent never joins, and it never ends by itself."""
    is_told_to_end: bool = False
    is_listed: bool = True


ENDS = ("good", "failed", "canceled", "preempted", "lost")
"""How a job can end: its program returned 0 or 1, it was told to end, or its machine is gone."""


class Site:
    """The jobs of a batch system, and what goes wrong when it is asked."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.jobs: list[Job] = []
        self.faults = 1.0
        """Factor on the chance of every fault."""
        self.is_away = False
        """Whether nothing answers: slurmctld, the head of Ray or the API server."""
        self.num_submitted = 0
        self.num_faults: Counter[str] = Counter()

    def happens(self, what: str, chance: float) -> bool:
        """Return whether a fault happens now, and count it."""
        is_so = self.rng.random() < chance * self.faults
        self.num_faults[what] += is_so
        return is_so

    def fault(self, *, is_submission: bool) -> str:
        """Return what goes wrong with the next call: `away`, `lost` (done, no answer) or "" for nothing."""
        if self.is_away:
            return "away"
        if is_submission:
            return "lost" if self.happens("the answer to a submission is lost", 0.4) else ""
        return "lost" if self.happens("an answer is lost", 0.05) else ""

    def submit(self, pilot_id: str, token: str, ref: str = "") -> Job:
        self.num_submitted += 1
        job = Job(ref or str(100 + self.num_submitted), pilot_id, token)
        self.jobs.append(job)
        return job

    def find(self, ref: str) -> Job | None:
        return next((job for job in self.jobs if job.ref == ref and job.is_listed), None)

    def cancel(self, job: Job) -> None:
        """Tell a job to end, as SIGTERM does; one that has no agent ends at once."""
        if job.state == "pending" or job.is_broken:
            self.end(job, "canceled")
        elif job.state == "running":
            job.is_told_to_end = True

    def end(self, job: Job, how: str) -> None:
        assert how in ENDS
        job.state, job.end = "ended", how

    def listed(self) -> list[Job]:
        return [job for job in self.jobs if job.is_listed]


class SlurmFront:
    """Slurm's commands, as a shell on a login node runs them."""

    kind = "slurm"
    options = {
        "server_url": SERVER_URL,
        "folder": "/shared/muster",
        "agent": "/opt/bin/muster-agent",
        "partition": "a100",
    }
    faults = ("preempted", "lost", "requeued")
    _WORDS = {
        "good": "COMPLETED",
        "failed": "FAILED",
        "canceled": "CANCELLED",
        "preempted": "PREEMPTED",
        "lost": "NODE_FAIL",
    }

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site

    def system_of(self, options: ProviderOptions) -> BatchSystem:
        shell = Shell()
        shell.run = self._run  # type: ignore[method-assign]
        return Slurm(options, shell)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Let the controller forget jobs that have ended."""
        for job in self._site.listed():
            if job.state == "ended" and self._site.rng.random() < 0.1:
                job.is_listed = False

    def close(self) -> None:
        pass

    def _run(self, program: str, **_: Any) -> Answer:
        fault = self._site.fault(is_submission="sbatch" in program)
        if fault == "away":
            said = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
            return Answer(1, "", said)
        output = self._output(program)
        if fault == "lost":
            raise BatchSystemUnreachable("no answer within 30 s")
        return output

    def _output(self, program: str) -> Answer:
        if "sbatch" in program:
            return Answer(0, self._sbatch(program), "")
        if program.startswith("scancel"):
            for ref in program.split()[1:]:
                if (job := self._site.find(ref)) is not None:
                    self._site.cancel(job)
            return Answer(0, "", "")
        if "MUSTER_NODES" in program:
            lines = [self._line(job) for job in self._site.listed()]
            return Answer(0, "\n".join([*lines, "", "MUSTER_NODES", ""]), "")
        parts = [
            f"MUSTER_JOB {ref}\n{self._details(ref)}"
            for ref in re.findall(r"echo MUSTER_JOB (\S+);", program)
        ]
        return Answer(0, "\n".join(parts), "")

    def _sbatch(self, program: str) -> str:
        tokens = dict(_TOKENS.findall(program))
        first = self._site.num_submitted
        if "--array=" not in program:
            ((pilot_id, token),) = tokens.items()
            return self._site.submit(pilot_id, token).ref
        for pilot_id, token in tokens.items():
            self._site.submit(pilot_id, token, f"{1000 + first}_{int(pilot_id[-4:])}")
        return str(1000 + first)

    def _word(self, job: Job) -> str:
        return self._WORDS[job.end] if job.state == "ended" else job.state.upper()

    def _line(self, job: Job) -> str:
        name = job.pilot_id[:-4] if "_" in job.ref else job.pilot_id
        reason = "Priority" if job.state == "pending" else "None"
        return f"{job.ref}|muster-{name}|{self._word(job)}|N/A||{reason}"

    def _details(self, ref: str) -> str:
        job = self._site.find(ref)
        if job is None:
            return "slurm_load_jobs error: Invalid job id specified"
        return f"JobId={ref} JobState={self._word(job)} Reason=None NodeList=n1 ExitCode=0:0"


class RayFront:
    """The job API of a dashboard of Ray."""

    kind = "ray"
    options = {
        "server_url": SERVER_URL,
        "address": "http://10.0.0.7:8265",
        "agent": "/opt/bin/muster-agent",
        "storage_dir": "/shared/storage",
    }
    faults = ("preempted", "lost")
    _WORDS = {
        "good": ("SUCCEEDED", "Job finished successfully."),
        "failed": ("FAILED", "Job entrypoint command failed with exit code 1"),
        "canceled": ("STOPPED", "Job was intentionally stopped."),
        "preempted": ("STOPPED", "Job was intentionally stopped."),
        "lost": ("FAILED", "The actor died because its node has died."),
    }

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._tokens: dict[str, str] = {}
        """Package → the join token in it."""

    def system_of(self, options: ProviderOptions) -> BatchSystem:
        return Ray(options, self)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Let the head forget jobs that have ended."""
        for job in self._site.listed():
            if job.state == "ended" and self._site.rng.random() < 0.05:
                job.is_listed = False

    def close(self) -> None:
        pass

    def ask(self, method: str, path: str, *, body: Any = None, data: bytes | None = None) -> Reply:
        fault = self._site.fault(is_submission=(method, path) == ("POST", "/api/jobs/"))
        if fault != "away":
            reply = self._reply(method, path, body, data)
        if fault:
            raise BatchSystemUnreachable("http://10.0.0.7:8265 does not answer: timed out")
        return reply

    def _reply(self, method: str, path: str, body: Any, data: bytes | None) -> Reply:
        parts = path.split("?")[0].strip("/").split("/")
        if parts[1] == "packages":
            assert data is not None
            with zipfile.ZipFile(io.BytesIO(data)) as package:
                self._tokens[parts[3]] = package.read("token").decode().strip()
            return Reply(200, "")
        if parts[1] == "v0":
            return Reply(200, json.dumps({"data": {"result": {"result": []}}}))
        if method == "POST" and len(parts) == 2:
            ref = body["submission_id"]
            if self._site.find(ref) is not None:
                return Reply(500, f"ValueError: Job with submission_id {ref} already exists.")
            token = self._tokens[body["runtime_env"]["working_dir"].removeprefix("gcs://")]
            self._site.submit(ref.removeprefix("muster-"), token, ref)
            return Reply(200, json.dumps({"submission_id": ref}))
        if len(parts) == 2:
            return Reply(200, json.dumps([self._described(job) for job in self._site.listed()]))
        job = self._site.find(parts[2])
        if job is None:
            return Reply(404, f"Job {parts[2]} does not exist")
        if parts[-1] == "stop":
            self._site.cancel(job)
        return Reply(200, json.dumps(self._described(job)))

    def _described(self, job: Job) -> dict[str, Any]:
        status, message = job.state.upper(), ""
        if job.state == "ended":
            status, message = self._WORDS[job.end]
        return {"submission_id": job.ref, "status": status, "message": message, "metadata": {}}


class KubernetesFront:
    """A real API server over HTTP; its Jobs and pods are those of the site."""

    kind = "kubernetes"
    options = {
        "server_url": SERVER_URL,
        "namespace": "ml",
        "image": "muster-agent:test",
        "cpus": "1",
        "memory": "1Gi",
    }
    faults = ("preempted", "lost", "deleted")

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._api = ApiServer()
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(self._api.kubeconfig())
        self._api.fault = lambda verb, resource: self._fault(verb, resource)
        self._api.start()
        self._known: dict[str, Job] = {}
        """UID of a Job → that of the site."""

    def system_of(self, options: ProviderOptions) -> BatchSystem:
        return Kubernetes(options, self._kubeconfig)  # type: ignore[arg-type]

    def close(self) -> None:
        self._api.stop()

    def delete(self, job: Job) -> None:
        """Somebody deletes the Job of a pilot with kubectl."""
        if job.ref in self._api.objects["jobs"]:
            self._api.remove("jobs", job.ref)

    def settle(self) -> None:
        """Let the controller of Jobs and the kubelet follow what has been asked for, and happened."""
        with self._api.lock:
            jobs = self._api.objects["jobs"]
            for name, thing in jobs.items():
                uid = thing["metadata"]["uid"]
                if uid not in self._known:
                    secret = self._api.objects["secrets"].get(name)
                    if secret is None:
                        continue  # Its pod waits for the volume.
                    token = b64decode(secret["data"]["token"]).decode()
                    pilot_id = thing["metadata"]["labels"][PILOT_LABEL]
                    self._known[uid] = self._site.submit(pilot_id, token, name)
                    self._put_pod(thing)
            there = {thing["metadata"]["uid"] for thing in jobs.values()}
            for uid, job in self._known.items():
                if uid in there:
                    self._show(job)
                elif job.is_listed:
                    self._site.cancel(job)
                    job.is_listed = job.state != "ended"
            for pod in list(self._api.objects["pods"].values()):
                owner = pod["metadata"]["ownerReferences"][0]["uid"]
                if owner not in there and self._known[owner].state == "ended":
                    self._api.remove("pods", pod["metadata"]["name"])

    def _fault(self, verb: str, resource: str) -> str:
        fault = self._site.fault(is_submission=(verb, resource) == ("create", "jobs"))
        return self._site.rng.choice(["lost", "error", "busy"]) if fault == "lost" else fault

    def _put_pod(self, job: dict[str, Any]) -> None:
        meta = job["metadata"]
        owner = {"kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        pod = {
            "kind": "Pod",
            "metadata": {
                "name": f"{meta['name']}-{len(self._known)}",
                "labels": meta["labels"],
                "ownerReferences": [owner],
            },
            "spec": {},
            "status": {"phase": "Pending"},
        }
        self._api.put("pods", pod)

    def _show(self, job: Job) -> None:
        for pod in self._api.objects["pods"].values():
            if pod["metadata"]["ownerReferences"][0]["name"] != job.ref:
                continue
            status = pod["status"]
            if job.state == "running":
                status["phase"] = "Running"
            elif job.state == "ended":
                status["phase"] = "Succeeded" if job.end == "good" else "Failed"
                if job.end == "preempted":
                    status["reason"] = "Evicted"
                elif job.end == "lost":
                    status["reason"] = "NodeLost"


FRONTS: dict[str, Callable[[Site, Path], SlurmFront | RayFront | KubernetesFront]] = {
    "slurm": SlurmFront,
    "ray": RayFront,
    "kubernetes": KubernetesFront,
}
