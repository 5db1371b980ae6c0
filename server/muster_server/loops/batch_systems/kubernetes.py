"""Pilots as Jobs of Kubernetes: one Job of one pod is one node.

Jobs and pods are listed, not watched: the caller asks every few seconds anyway, a list is complete, and
nothing has to be kept between two of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from muster_server.domain.providers import KubernetesOptions, Pilot, PilotState, Seen

from .base import BatchSystemUnreachable, Listing, PilotJob, SubmissionRefused
from .kubernetes_api import ApiRefusal, KubernetesApi, connected
from .kubernetes_manifests import PILOT_LABEL, job_manifest, job_name, secret_manifest

MAX_REASON = 400
_QUOTA = "exceeded quota"
_WAITING = frozenset({"ContainerCreating", "PodInitializing", ""})
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")
_STRICT = {"fieldValidation": "Strict"}
"""A field that the cluster does not know is an error. By default it is left out without a word."""
_Object = Mapping[str, Any]


class Kubernetes:
    """See `BatchSystem`."""

    def __init__(self, options: KubernetesOptions, kubeconfig: Path | None = None) -> None:
        """Create the adapter; kubeconfig is None in a pod, which has a service account."""
        self._options = options
        self._kubeconfig = kubeconfig
        self._jobs = f"/apis/batch/v1/namespaces/{options.namespace}/jobs"
        self._core = f"/api/v1/namespaces/{options.namespace}"

    def submit(self, job: PilotJob) -> str:
        name = job_name(job.id)
        with connected(self._kubeconfig, self._options.context) as api:
            try:
                made = self._create_or_adopt(api, job)
            except ApiRefusal as refusal:
                raise SubmissionRefused(_refusal_words(refusal)) from refusal
            try:
                self._store_token(api, job, made["metadata"]["uid"])
            except ApiRefusal as refusal:
                with suppress(ApiRefusal):
                    self._delete(api, name)  # Without its Secret the pod would wait for ever.
                raise SubmissionRefused(_refusal_words(refusal)) from refusal
        return name

    def look(self, pilots: Collection[Pilot]) -> Listing:
        with connected(self._kubeconfig, self._options.context) as api:
            try:
                return self._look(api, pilots)
            except ApiRefusal as refusal:
                raise BatchSystemUnreachable(_refusal_words(refusal)) from refusal

    def cancel(self, refs: Collection[str]) -> None:
        with connected(self._kubeconfig, self._options.context) as api:
            try:
                for ref in refs:
                    self._delete(api, ref)
            except ApiRefusal as refusal:
                raise BatchSystemUnreachable(_refusal_words(refusal)) from refusal

    def _create_or_adopt(self, api: KubernetesApi, job: PilotJob) -> _Object:
        """Return the Job of a pilot, an existing one if an earlier answer was lost."""
        try:
            return api.call(
                "POST", self._jobs, body=job_manifest(self._options, job), params=_STRICT
            )
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
        found = api.call("GET", f"{self._jobs}/{job_name(job.id)}")
        if found["metadata"].get("labels", {}).get(PILOT_LABEL) != job.id:
            raise SubmissionRefused(f"the Job {job_name(job.id)} is not Muster's")
        return found

    def _store_token(self, api: KubernetesApi, job: PilotJob, job_uid: str) -> None:
        """Create the Secret of a Job. One that is there is of an earlier try, perhaps of another Job,
        with which it will go."""
        body = secret_manifest(self._options, job.id, token=job.join_token, job_uid=job_uid)
        path = f"{self._core}/secrets"
        try:
            api.call("POST", path, body=body)
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            api.call("DELETE", f"{path}/{job_name(job.id)}")
            api.call("POST", path, body=body)

    def _has_token(self, api: KubernetesApi, pilot: Pilot, job_uid: str) -> bool:
        """Return whether the Secret of a pilot exists. Muster may create Secrets, not read any, so it
        asks whether one could be created."""
        body = secret_manifest(self._options, pilot.id, token="", job_uid=job_uid)
        try:
            api.call("POST", f"{self._core}/secrets", body=body, params={"dryRun": "All"})
        except ApiRefusal:
            return True
        return False

    def _delete(self, api: KubernetesApi, name: str) -> None:
        """Delete a Job and its pod, which gets SIGTERM. One that is gone is no error."""
        try:
            # By default the pods of a Job stay.
            api.call("DELETE", f"{self._jobs}/{name}", params={"propagationPolicy": "Background"})
        except ApiRefusal as refusal:
            if refusal.status != 404:
                raise

    def _look(self, api: KubernetesApi, pilots: Collection[Pilot]) -> Listing:
        jobs = {
            job["metadata"]["name"]: job
            for job in api.list_all(self._jobs, labelSelector=PILOT_LABEL)
        }
        pods: dict[str, _Object] = {}
        for pod in api.list_all(f"{self._core}/pods", labelSelector=PILOT_LABEL):
            name = pod["metadata"]["labels"][PILOT_LABEL]
            if name not in pods or _created(pods[name]) <= _created(pod):
                pods[name] = pod
        notes = _Notes(api, self._core, self._options)
        found: dict[str, Seen] = {}
        absent: set[str] = set()
        for pilot in pilots:
            job = jobs.get(job_name(pilot.id))
            if job is None:
                absent.add(pilot.id)
                continue
            seen = see(job, pods.get(pilot.id), notes)
            is_lost = pilot.state is PilotState.SUBMITTING and seen.state == "pending"
            if is_lost and not self._has_token(api, pilot, job["metadata"]["uid"]):
                self._delete(api, seen.ref)
                absent.add(pilot.id)
                continue
            was_started = pilot.was_up or pilot.state is PilotState.STARTING
            if was_started and job["spec"].get("suspend") and seen.state != "ended":
                # Kueue would start it again, with a join token that has been used.
                self._delete(api, seen.ref)
                if seen.state == "pending":
                    seen = Seen(ref=seen.ref, state="ended", reason=_say("Requeued", seen.reason))
            found[pilot.id] = seen
        return Listing(jobs=found, absent=frozenset(absent))


class _Notes:
    """What else Kubernetes says about objects that wait: read once, and only if something does."""

    def __init__(self, api: KubernetesApi, core: str, options: KubernetesOptions) -> None:
        self._api = api
        self._core = core
        self._options = options

    def warning(self, uid: str) -> tuple[str, str]:
        """Return the reason and message of the last warning about an object, both "" for none."""
        event = self._warnings.get(uid)
        return ("", "") if event is None else (event.get("reason", ""), event.get("message", ""))

    def admission(self, job_uid: str) -> str:
        """Return why Kueue does not admit a Job; "" if it says nothing."""
        return self._admissions.get(job_uid, "")

    @cached_property
    def _warnings(self) -> dict[str, _Object]:
        found: dict[str, _Object] = {}
        for event in self._list(f"{self._core}/events", fieldSelector="type=Warning"):
            uid = event.get("involvedObject", {}).get("uid", "")
            if uid not in found or _last(found[uid]) <= _last(event):
                found[uid] = event
        return found

    @cached_property
    def _admissions(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if not self._options.queue:
            return found
        namespace = self._options.namespace
        for version in _KUEUE_VERSIONS:
            for workload in self._list(
                f"/apis/kueue.x-k8s.io/{version}/namespaces/{namespace}/workloads"
            ):
                reserved = _condition(workload, "QuotaReserved")
                for owner in workload["metadata"].get("ownerReferences", ()):
                    if reserved.get("status") == "False":
                        found[owner["uid"]] = reserved.get("message", "")
            if found:
                break
        return found

    def _list(self, path: str, **params: str) -> list[dict[str, Any]]:
        """Return a list; none if we may not read it, or there is no such kind. A reason is worth less
        than the state of everything else."""
        try:
            return self._api.list_all(path, **params)
        except ApiRefusal:
            return []


def see(job: _Object, pod: _Object | None, notes: _Notes) -> Seen:
    """Return what has become of a Job and its last pod."""
    ref = job["metadata"]["name"]
    for kind in ("Failed", "Complete"):
        end = _condition(job, kind)
        if end.get("status") == "True":
            reason = _end_of(pod) if pod is not None else ""
            is_bad = kind == "Failed" and not reason
            said = _say(end.get("reason", ""), end.get("message", "")) if is_bad else reason
            return Seen(ref=ref, state="ended", reason=said)
    if pod is None:
        return Seen(ref=ref, state="pending", reason=_why_no_pod(job, notes))
    phase = pod.get("status", {}).get("phase", "Pending")
    if phase in ("Succeeded", "Failed"):
        return Seen(ref=ref, state="ended", reason=_end_of(pod))
    if phase == "Pending":
        return Seen(ref=ref, state="pending", reason=_why_pending(pod, notes))
    # "Unknown", too: its node does not answer, and may be well.
    return Seen(ref=ref, state="running", reason=pod["status"].get("reason", ""))


def _why_no_pod(job: _Object, notes: _Notes) -> str:
    uid = job["metadata"]["uid"]
    if job["spec"].get("suspend"):
        return _say("Suspended", notes.admission(uid))
    reason, message = notes.warning(uid)
    return _say("QuotaExceeded" if _QUOTA in message else reason, message)


def _why_pending(pod: _Object, notes: _Notes) -> str:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return _say(scheduled.get("reason", ""), scheduled.get("message", ""))
    for container in pod["status"].get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason", "") not in _WAITING:
            return _say(waiting["reason"], waiting.get("message", ""))
    if scheduled.get("status") != "True":
        return ""
    return _say("ContainerCreating", ": ".join(filter(None, notes.warning(pod["metadata"]["uid"]))))


def _end_of(pod: _Object) -> str:
    """Return why a pod has failed; "" if it ended well, or does not say."""
    status = pod.get("status", {})
    disruption = _condition(pod, "DisruptionTarget")
    if disruption.get("status") == "True":
        return _say(disruption.get("reason", ""), disruption.get("message", ""))
    if status.get("reason"):
        return _say(status["reason"], status.get("message", ""))
    for container in status.get("containerStatuses", ()):
        ended = container.get("state", {}).get("terminated", {})
        if code := ended.get("exitCode"):
            last = (ended.get("message") or "").strip().splitlines()[-1:] or [""]
            words = f"exit code {code}" + (f", {last[0]}" if last[0] else "")
            return _say(ended.get("reason") or "Error", words)
    return ""


def _condition(thing: _Object, kind: str) -> _Object:
    for condition in thing.get("status", {}).get("conditions", ()) or ():
        if condition.get("type") == kind:
            return dict(condition)
    return {}


def _created(thing: _Object) -> str:
    return str(thing["metadata"].get("creationTimestamp", ""))


def _last(event: _Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _say(reason: str, message: str) -> str:
    """Return a reason of Kubernetes with what was said, as `reason_of` reads it."""
    message = " ".join(message.split())[:MAX_REASON]
    return f"{reason}: {message}" if reason and message else reason or message


def _refusal_words(refusal: ApiRefusal) -> str:
    """Return our words for a refusal, with Kubernetes' in brackets."""
    words = str(refusal)
    if refusal.status == 401:
        ours = "Kubernetes does not know Muster's account"
    elif _QUOTA in words:
        ours = "the quota of the namespace is used up"
    elif refusal.status == 403 and " cannot " in words:
        ours = "Muster's account lacks a right in Kubernetes"
    elif refusal.status == 404 and words.startswith("namespaces "):
        ours = "there is no such namespace"
    elif refusal.status in (400, 422):
        ours = "Kubernetes does not take the job"
    else:
        ours = "Kubernetes refuses"
    return f"{ours} ({words or f'HTTP {refusal.status}'})"
