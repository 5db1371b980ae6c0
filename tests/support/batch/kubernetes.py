"""A cluster of Kubernetes in this process, which really runs its pods as processes of this machine.

The controller of Jobs, the scheduler and the kubelet do as their documentation says, as far as pilots
can notice. There are no containers: paths of volumes stand for folders of the pod.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from base64 import b64decode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from support.batch.kubernetes_api import ApiServer, Object, now
from support.batch.kubernetes_schema import quantity

IMAGE = "muster-agent:test"
_ENDED = ("Succeeded", "Failed")
_SHM = "/dev/shm"


@dataclass
class ClusterNode:
    """A node of the cluster."""

    name: str
    capacity: dict[str, float]
    labels: dict[str, str] = field(default_factory=dict)
    taint: str = ""
    """Key of a taint with the effect NoSchedule."""


@dataclass
class _Container:
    process: subprocess.Popen[bytes]
    log: Path
    kill_at: float | None = None
    """When SIGKILL follows on SIGTERM."""
    reason: str = ""
    """Why the kubelet ends it."""


class KubernetesLab:
    """Two nodes `k1` and `k2` with two processors and no GPU each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = ApiServer()
        self.machines = [
            ClusterNode(f"k{k}", {"cpu": 2.0, "memory": 8 * 1024.0**3}, {"zone": "a"})
            for k in (1, 2)
        ]
        self.kubeconfig = folder / "kubeconfig"
        self.pod_quota_cpus: float | None = None
        """A quota on the processors of all pods."""
        self.programs = Path(sys.executable).parent
        """Folder of the programs that are in the image."""
        self._running: dict[str, _Container] = {}
        self._num_pods = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failure: BaseException | None = None

    def start(self, *, by_hand: bool = False) -> None:
        """Start the cluster; by hand, things happen in `step` alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.api.start()
        self.kubeconfig.write_text(self.api.kubeconfig())
        if not by_hand:
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for running in self._running.values():
            _kill(running)
        self.api.stop()
        if self.failure is not None:
            raise self.failure

    def step(self) -> None:
        """Let the controller of Jobs, the scheduler and the kubelet do what there is to do now."""
        with self.api.lock:
            for job in list(self.api.objects["jobs"].values()):
                self._look_after_job(job)
            for pod in list(self.api.objects["pods"].values()):
                self._look_after_pod(pod)

    def names(self, resource: str) -> list[str]:
        with self.api.lock:
            return sorted(self.api.objects[resource])

    def pod_of(self, job_name: str) -> Object:
        """Return the pod of a Job."""
        with self.api.lock:
            (pod,) = [
                pod
                for pod in self.api.objects["pods"].values()
                if pod["metadata"]["ownerReferences"][0]["name"] == job_name
            ]
            return pod

    def delete(self, resource: str, name: str) -> None:
        """Delete an object, as somebody does with kubectl."""
        if resource == "pods":
            with self.api.lock:
                self.api.objects["pods"][name]["metadata"]["deletionTimestamp"] = now()
        else:
            self.api.remove(resource, name)

    def evict(self, pod: Object, reason: str = "Evicted") -> None:
        """End a pod with its grace period, for a reason such as a node that is short of memory."""
        self._terminate(pod, reason)

    def logs(self) -> str:
        return "\n".join(
            f"{path.parent.name}: {path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.folder.glob("*/log"))
        )

    def processes(self) -> list[psutil.Process]:
        """What the pods have left."""
        return _processes(self.folder)

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.05):
                self.step()
        except BaseException as failure:
            self.failure = failure
            raise

    def _look_after_job(self, job: Object) -> None:
        spec, status = job["spec"], job["status"]
        if status.get("conditions"):
            return
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        pods = [
            pod
            for pod in self.api.objects["pods"].values()
            if pod["metadata"]["ownerReferences"][0]["uid"] == uid
        ]
        if spec.get("suspend"):
            for pod in pods:
                pod["metadata"].setdefault("deletionTimestamp", now())
            return
        if not pods and not status.get("failed"):
            self._create_pod(job)
            return
        for pod in pods:
            phase, is_deleted = pod["status"]["phase"], "deletionTimestamp" in pod["metadata"]
            if phase == "Succeeded":
                self._finish(job, "Complete", "CompletionsReached", "Reached expected number")
            elif phase == "Failed" or is_deleted:
                status["failed"] = 1
                said = "Job has reached the specified backoff limit"
                self._finish(job, "Failed", "BackoffLimitExceeded", said)
        if not pods:
            self._finish(job, "Failed", "BackoffLimitExceeded", "Job has reached the limit")
        assert spec["backoffLimit"] == 0, name

    def _finish(self, job: Object, kind: str, reason: str, message: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        job["status"]["conditions"] = [condition]
        self.api.put("jobs", job)

    def _create_pod(self, job: Object) -> None:
        name = job["metadata"]["name"]
        template = job["spec"]["template"]
        wanted = _requests(template["spec"]).get("cpu", 0.0)
        used = sum(
            _requests(pod["spec"]).get("cpu", 0.0)
            for pod in self.api.objects["pods"].values()
            if pod["status"]["phase"] not in _ENDED
        )
        if self.pod_quota_cpus is not None and used + wanted > self.pod_quota_cpus:
            self.api.warn(
                job,
                "FailedCreate",
                f'Error creating: pods "{name}-x" is forbidden: exceeded quota: team, requested: '
                f"requests.cpu={wanted:g}, used: requests.cpu={used:g}, limited: "
                f"requests.cpu={self.pod_quota_cpus:g}",
            )
            return
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "controller": True,
            "name": name,
            "uid": job["metadata"]["uid"],
        }
        self._num_pods += 1
        meta = {
            "name": f"{name}-{self._num_pods:05x}",
            "labels": {**template["metadata"]["labels"], "batch.kubernetes.io/job-name": name},
            "ownerReferences": [owner],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": dict(template["spec"]),
            "status": {"phase": "Pending"},
        }
        self.api.put("pods", pod)

    def _look_after_pod(self, pod: Object) -> None:
        name, status = pod["metadata"]["name"], pod["status"]
        running = self._running.get(name)
        if "deletionTimestamp" in pod["metadata"]:
            if running is None or running.process.poll() is not None or status["phase"] in _ENDED:
                self._end(pod)
                self.api.remove("pods", name)
                return
            if running.kill_at is None:
                self._terminate(pod, "")
        if status["phase"] in _ENDED or status["phase"] == "Unknown":
            return
        if "nodeName" not in pod["spec"] and not self._schedule(pod):
            return
        if running is None:
            self._start(pod)
            return
        if running.kill_at is not None and time.monotonic() > running.kill_at:
            _kill(running)
        limit_s = pod["spec"]["activeDeadlineSeconds"]
        if running.kill_at is None and time.time() - status["started"] > limit_s:
            self._terminate(pod, "DeadlineExceeded")
        if running.process.poll() is not None:
            self._end(pod)

    def _schedule(self, pod: Object) -> bool:
        """Give a pod a node; say why there is none otherwise."""
        wanted = _requests(pod["spec"])
        why: dict[str, int] = {}
        for machine in self.machines:
            problem = self._misfit(machine, pod["spec"], wanted)
            if not problem:
                pod["spec"]["nodeName"] = machine.name
                pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
                self.api.put("pods", pod)
                return True
            why[problem] = why.get(problem, 0) + 1
        told = ", ".join(f"{num} {problem}" for problem, num in why.items())
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": f"0/{len(self.machines)} nodes are available: {told}.",
            }
        ]
        return False

    def _misfit(self, machine: ClusterNode, spec: Object, wanted: dict[str, float]) -> str:
        if not spec.get("nodeSelector", {}).items() <= machine.labels.items():
            return "node(s) didn't match Pod's node affinity/selector"
        if machine.taint and machine.taint not in [t["key"] for t in spec.get("tolerations", ())]:
            return f"node(s) had untolerated taint(s) {{{machine.taint}: }}"
        used = [
            _requests(pod["spec"])
            for pod in self.api.objects["pods"].values()
            if pod["spec"].get("nodeName") == machine.name and pod["status"]["phase"] not in _ENDED
        ]
        for resource, amount in wanted.items():
            left = machine.capacity.get(resource, 0) - sum(u.get(resource, 0) for u in used)
            if amount > left:
                return f"Insufficient {resource}"
        return ""

    def _start(self, pod: Object) -> None:
        """Pull the image, mount the volumes, run the command: once each step is possible."""
        spec = pod["spec"]
        (container,) = spec["containers"]
        status = pod["status"]
        status.setdefault("started", time.time())
        folder = self.folder / pod["metadata"]["name"][-5:]  # Paths of sockets are short.
        if container["image"] != IMAGE:
            before = _waiting(pod)
            reason = "ImagePullBackOff" if before == "ErrImagePull" else "ErrImagePull"
            if before != "ImagePullBackOff":
                told = f'Back-off pulling image "{container["image"]}": not found'
                self._set_state(pod, {"waiting": {"reason": reason, "message": told}})
            return
        folders = {}
        for volume in spec["volumes"]:
            folders[volume["name"]] = folder / volume["name"]
            if claim := volume.get("persistentVolumeClaim"):
                folders[volume["name"]] = self.folder / f"claim-{claim['claimName']}"
            folders[volume["name"]].mkdir(parents=True, exist_ok=True)
            if "secret" in volume and not self._mount_secret(pod, volume, folder):
                self._set_state(pod, {"waiting": {"reason": "ContainerCreating"}})
                return
        places = {
            mount["mountPath"]: str(folders[mount["name"]])
            for mount in container["volumeMounts"]
            if mount["mountPath"] != _SHM
        }
        environment = {"PATH": f"{self.programs}:{os.environ.get('PATH', '')}"}
        for variable in container["env"]:
            value = variable.get("value", "")
            if "valueFrom" in variable:
                reference = variable["valueFrom"]["resourceFieldRef"]
                limit = container["resources"]["limits"][reference["resource"].split(".")[1]]
                value = str(-int(-quantity(limit) // quantity(reference["divisor"])))
            environment[variable["name"]] = _placed(value, places)
        command = [
            _placed(_expanded(word, environment), places)
            for word in [*container["command"], *container["args"]]
        ]
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[pod["metadata"]["name"]] = _Container(process, log)
        status["phase"] = "Running"
        self._set_state(pod, {"running": {"startedAt": now()}})

    def _mount_secret(self, pod: Object, volume: Object, folder: Path) -> bool:
        name = volume["secret"]["secretName"]
        secret = self.api.objects["secrets"].get(name)
        if secret is None:
            told = f'MountVolume.SetUp failed for volume "{volume["name"]}" : secret "{name}" not found'
            self.api.warn(pod, "FailedMount", told)
            return False
        for key, data in secret["data"].items():
            (folder / volume["name"] / key).write_bytes(b64decode(data))
        return True

    def _terminate(self, pod: Object, reason: str) -> None:
        with self.api.lock:
            running = self._running[pod["metadata"]["name"]]
            running.reason = running.reason or reason
            running.kill_at = time.monotonic() + pod["spec"]["terminationGracePeriodSeconds"]
            running.process.send_signal(signal.SIGTERM)

    def _end(self, pod: Object) -> None:
        """Record how a pod has ended."""
        running = self._running.get(pod["metadata"]["name"])
        if running is None or pod["status"]["phase"] in _ENDED:
            return
        code = running.process.wait()
        _kill(running)
        code = 128 - code if code < 0 else code
        if running.reason:
            pod["status"]["reason"] = running.reason
            pod["status"]["message"] = "The node was low on resource: memory."
        pod["status"]["phase"] = "Failed" if code or running.reason else "Succeeded"
        ended: Object = {"exitCode": code, "reason": "Error" if code else "Completed"}
        (container,) = pod["spec"]["containers"]
        if code and container["terminationMessagePolicy"] == "FallbackToLogsOnError":
            ended["message"] = running.log.read_text(errors="replace")[-2048:]
        self._set_state(pod, {"terminated": ended})

    def _set_state(self, pod: Object, state: Object) -> None:
        pod["status"]["containerStatuses"] = [{"name": "agent", "state": state}]
        self.api.put("pods", pod)


def _requests(spec: Object) -> dict[str, float]:
    found: dict[str, float] = {}
    for container in spec["containers"]:
        for resource, amount in container["resources"]["requests"].items():
            found[resource] = found.get(resource, 0.0) + quantity(amount)
    return found


def _waiting(pod: Object) -> str:
    statuses: list[dict[str, Any]] = pod["status"].get("containerStatuses", [])
    return str(statuses[0]["state"].get("waiting", {}).get("reason", "")) if statuses else ""


def _placed(text: str, places: dict[str, str]) -> str:
    for path, folder in places.items():
        text = text.replace(path, folder)
    return text


def _expanded(word: str, environment: dict[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does: a name that it does not know stays."""
    return re.sub(r"\$\(([^)]*)\)", lambda found: environment.get(found[1], found[0]), word)


def _processes(folder: Path) -> list[psutil.Process]:
    """Return the processes whose command or environment names a folder of the cluster."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
            if process.pid != os.getpid() and any(str(folder) in word for word in words):
                found.append(process)
        except psutil.Error:
            continue
    return found


def _kill(running: _Container) -> None:
    """End a container: everything in it."""
    for process in _processes(running.log.parent):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    running.process.wait()
