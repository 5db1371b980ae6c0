"""Pilots as jobs of Ray, submitted and listed by the job API of the cluster's dashboard.

A job reserves its resources for its entry point, which is the pilot: it needs neither a driver, which
would be a process with Ray beside each pilot, nor the Ray and the Python of the cluster on our side, as
`ray://` does. Pilots of one pool are on different nodes, as the bundles of one STRICT_SPREAD placement
group would be, and yet come and go one by one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import requests
import urllib3

from muster_server.domain.providers import Pilot, PilotState, RayOptions, Seen

from .base import BatchSystemUnreachable, Listing, PilotJob, SubmissionRefused

PREFIX = "muster-"
CONNECT_S = 10.0
ANSWER_S = 30.0
MAX_ANSWER_BYTES = 64 << 20
"""The list of jobs has all that the cluster remembers, with the end of the log of each that failed."""
MAX_WORDS_CHARS = 300
MAX_DETAILS = 100
"""Most jobs that are asked for one by one in one look; the rest is left to the next."""
STOP_WAIT_S = 120
"""Time that a pilot has to save checkpoints when its job is stopped. Ray's own is 3 s."""
_ONE_PER_NODE = "node:__internal_implicit_resource_"
"""Every node has 1 of each resource whose name begins so. Ray Serve keeps replicas apart with it."""
_STATES = {
    "PENDING": "pending",
    "RUNNING": "running",
    "STOPPED": "ended",
    "SUCCEEDED": "ended",
    "FAILED": "ended",
}
_ENDS = {
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": "Ray could not start it in time",
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": "no Ray node can take it",
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": "Ray could not start it",
    "JOB_SUPERVISOR_ACTOR_DIED": "Ray lost it",
    "RUNTIME_ENV_SETUP_FAILURE": "Ray could not prepare its files",
    "JOB_ENTRYPOINT_COMMAND_START_ERROR": "Ray could not start its agent",
}
_NODE_DIED = re.compile(r"node (has died|was terminated)|node is dead|health check", re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    status: int
    text: str


class Http(Protocol):
    """What sends requests to a dashboard."""

    def ask(
        self, method: str, path: str, *, body: Any = None, data: bytes | None = None
    ) -> Reply: ...


class RayHttp:
    """The dashboard at an address. The token of a cluster with authentication is in the controller's
    variables, as Ray has them: RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH for the file with it."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, method: str, path: str, *, body: Any = None, data: bytes | None = None) -> Reply:
        """Send a request; return the answer. Raises BatchSystemUnreachable if there is none, or it
        says that we may not ask."""
        try:
            with requests.request(
                method,
                f"{self._address}{path}",
                json=body,
                data=data,
                auth=_Bearer(_token(os.environ)),
                timeout=(CONNECT_S, ANSWER_S),
                allow_redirects=False,
                stream=True,
            ) as response:
                raw = response.raw.read(MAX_ANSWER_BYTES + 1, decode_content=True)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            words = _short(str(error))
            raise BatchSystemUnreachable(f"{self._address} does not answer: {words}") from None
        if len(raw) > MAX_ANSWER_BYTES:
            raise BatchSystemUnreachable(
                f"{self._address} answered with more than {MAX_ANSWER_BYTES >> 20} MiB"
            )
        if response.status_code in (401, 403):
            raise BatchSystemUnreachable(
                f"{self._address} refuses the controller ({response.status_code}): set "
                "RAY_AUTH_TOKEN_PATH where it runs"
            )
        return Reply(status=response.status_code, text=raw.decode(errors="replace"))


class _Bearer(requests.auth.AuthBase):
    """An authorization of our own, or none, whatever ~/.netrc says."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _token(environment: Mapping[str, str]) -> str:
    if path := environment.get("RAY_AUTH_TOKEN_PATH"):
        return Path(path).read_text().strip()
    return environment.get("RAY_AUTH_TOKEN", "").strip()


class Ray:
    """See `BatchSystem`."""

    def __init__(self, options: RayOptions, http: Http | None = None) -> None:
        self._options = options
        self._http = http or RayHttp(options.address)

    def submit(self, job: PilotJob) -> str:
        files = package(self._options, job)
        name = f"_ray_pkg_{hashlib.sha256(files).hexdigest()[:32]}.zip"
        stored = self._http.ask("PUT", f"/api/packages/gcs/{name}", data=files)
        if stored.status != 200:
            raise BatchSystemUnreachable(f"Ray did not take the pilot's files: {_last(stored)}")
        request = submission(self._options, job, files=f"gcs://{name}")
        reply = self._http.ask("POST", "/api/jobs/", body=request)
        ref = str(request["submission_id"])
        if reply.status == 200 or "already exists" in reply.text:
            return ref
        if reply.status == 400:
            raise SubmissionRefused(_last(reply) or "Ray refused the job")
        raise BatchSystemUnreachable(_last(reply) or f"Ray answered {reply.status}")

    def look(self, pilots: Collection[Pilot]) -> Listing:
        listed = {str(job.get("submission_id")): job for job in self._jobs()}
        jobs: dict[str, Mapping[str, Any]] = {}
        absent = []
        for pilot in pilots:
            if (job := listed.get(PREFIX + pilot.id)) is not None:
                jobs[pilot.id] = job
        missing = [
            pilot.id
            for pilot in pilots
            if pilot.id not in jobs and pilot.state is not PilotState.WANTED
        ]
        for pilot_id in missing[:MAX_DETAILS]:
            found = self._job(PREFIX + pilot_id)
            if found is None:
                absent.append(pilot_id)
            else:
                jobs[pilot_id] = found
        waiting = [job for job in jobs.values() if job.get("status") == "PENDING"]
        nodes = self._nodes() if waiting else []
        num_open = sum(_STATES.get(str(job.get("status"))) != "ended" for job in jobs.values())
        return Listing(
            jobs={
                pilot_id: seen_of(job, nodes, num_pilots=num_open) for pilot_id, job in jobs.items()
            },
            absent=frozenset(absent),
        )

    def cancel(self, refs: Collection[str]) -> None:
        for ref in refs:
            reply = self._http.ask("POST", f"/api/jobs/{ref}/stop")
            if reply.status not in (200, 404):
                raise BatchSystemUnreachable(_last(reply) or f"Ray answered {reply.status}")

    def _jobs(self) -> list[Mapping[str, Any]]:
        found = _read(self._http.ask("GET", "/api/jobs/"))
        if not isinstance(found, list):
            raise BatchSystemUnreachable(f"{self._options.address} lists no jobs: is it Ray's?")
        return [job for job in found if isinstance(job, dict)]

    def _job(self, ref: str) -> Mapping[str, Any] | None:
        """Return a job that is not listed; None if Ray says that there is none."""
        reply = self._http.ask("GET", f"/api/jobs/{ref}")
        if reply.status == 404 and ref in reply.text:
            return None
        found = _read(reply)
        if not isinstance(found, dict):
            raise BatchSystemUnreachable(f"Ray answered {reply.status} to a question about {ref}")
        return found

    def _nodes(self) -> list[Mapping[str, Any]]:
        """Return the nodes of the cluster; none if Ray does not tell, which explains nothing."""
        try:
            found = _read(self._http.ask("GET", "/api/v0/nodes?detail=true&limit=10000"))
            nodes = found["data"]["result"]["result"]
        except (BatchSystemUnreachable, KeyError, TypeError):
            return []
        return [node for node in nodes if isinstance(node, dict)]


def submission(options: RayOptions, job: PilotJob, *, files: str) -> dict[str, Any]:
    """Return the request that submits a pilot; files is the address of its package."""
    cpus = float(options.cpus or job.slots)
    gpus = int(options.gpus or (job.slots if job.slot_type == "cuda" else 0))
    more = {name: float(amount) for name, amount in _pairs(options.resources)}
    return {
        "entrypoint": "sh pilot.sh",
        "submission_id": PREFIX + job.id,
        "entrypoint_num_cpus": cpus,
        "entrypoint_num_gpus": gpus,
        "entrypoint_memory": int(options.memory_mb or 0) << 20,
        "entrypoint_resources": {**more, f"{_ONE_PER_NODE}muster-{job.pool}": 1},
        "runtime_env": {
            "working_dir": files,
            "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)},
        },
        "metadata": {
            "muster_pool": job.pool,
            "muster_wants": json.dumps({"CPU": cpus, "GPU": gpus, **more}),
        },
    }


def package(options: RayOptions, job: PilotJob) -> bytes:
    """Return the files of a pilot as Ray unpacks them where it runs: its script, and its join token,
    which stands in no command, variable or log of Ray's."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in (("pilot.sh", script(options, job)), ("token", job.join_token + "\n")):
            entry = zipfile.ZipInfo(name, date_time=(2000, 1, 1, 0, 0, 0))
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, text)
    return buffer.getvalue()


def script(options: RayOptions, job: PilotJob) -> str:
    """Return the script of a pilot. Ray has no wall time, so the pilot keeps its own. What Ray sets for
    its own workers is not for trials."""
    memory = f"export MUSTER_GRANTED_MEMORY_MIB={options.memory_mb}\n" if options.memory_mb else ""
    once = " --once" if job.once else ""
    cluster = options.address.split("://")[1]
    return f"""unset OMP_NUM_THREADS PYTHONPATH PYTHONBREAKPOINT PYTHONUNBUFFERED
umask 077
home=${{TMPDIR:-/tmp}}/muster-{job.id}
token=$PWD/token
chmod 600 "$token"
export MUSTER_AGENT_SERVER_URL={shlex.quote(options.server_url)}
export MUSTER_AGENT_JOIN_TOKEN_FILE="$token"
export MUSTER_AGENT_STORAGE_DIR={options.storage_dir}
export MUSTER_AGENT_POOL={shlex.quote(job.pool)}
export MUSTER_AGENT_ENDS_AT=$(($(date +%s) + {job.walltime_s}))
export MUSTER_AGENT_TERM_GRACE_S={STOP_WAIT_S}
export MUSTER_GRANTED_CPUS={max(1, int(float(options.cpus or job.slots)))}
{memory}cd /
{options.agent} run --name {job.id} --home "$home" --slots {job.slots} --slot-type {job.slot_type} \\
  --idle-exit {job.idle_s}{once} --provider-ref {shlex.quote(f"ray:{cluster}:{PREFIX}{job.id}")} &
agent=$!
trap 'kill -TERM $agent' TERM INT
while kill -0 $agent 2>/dev/null; do wait $agent; done
wait $agent
code=$?
rm -rf "$home" "$token"
exit $code
"""


def seen_of(job: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]], *, num_pilots: int) -> Seen:
    """Return a job as `follow` takes it. nodes: those of the cluster, for what a job waits for.
    num_pilots: pilots of the pool that have not ended. A state that we do not know is one that runs."""
    state = _STATES.get(str(job.get("status")), "running")
    ref = str(job.get("submission_id"))
    if state == "pending":
        return Seen(ref=ref, state="pending", reason=_why_pending(job, list(nodes), num_pilots))
    if state == "ended":
        return Seen(ref=ref, state="ended", reason=_why_ended(job))
    return Seen(ref=ref, state="running")


def _why_pending(job: Mapping[str, Any], nodes: list[Mapping[str, Any]], num_pilots: int) -> str:
    try:
        wanted = json.loads(job["metadata"]["muster_wants"])
        needs = {str(name): float(amount) for name, amount in wanted.items() if amount}
    except (KeyError, TypeError, ValueError, AttributeError):
        needs = {}
    alive = [dict(node.get("resources_total") or {}) for node in nodes if _is_alive(node)]
    if not needs or not alive:
        return _short(str(job.get("message") or "waits for resources"))
    fitting = [has for has in alive if all(has.get(name, 0) >= num for name, num in needs.items())]
    shape = _amounts(needs)
    if not fitting:
        most = {name: max(has.get(name, 0) for has in alive) for name in needs}
        return (
            f"no node of the cluster has {shape}: the most on one is {_amounts(most)} (INFEASIBLE)"
        )
    if len(fitting) < num_pilots:
        has = f"has {len(fitting)} such nodes" if len(fitting) > 1 else "has one such node"
        return f"{num_pilots} pilots want a node with {shape} each, the cluster {has} (PENDING)"
    return f"waits until a node has {shape} free (PENDING)"


def _why_ended(job: Mapping[str, Any]) -> str:
    """Return why a job has ended, in our words and Ray's; "" if it ended well."""
    status, message = str(job.get("status")), str(job.get("message") or "")
    if status == "SUCCEEDED":
        return ""
    said = _short(message.partition("last available logs")[0].rstrip(" ,:"))
    if status == "STOPPED":
        return f"it was stopped in Ray ({said})"
    if _NODE_DIED.search(message):
        return f"its Ray node died ({said})"
    code = job.get("driver_exit_code")
    if isinstance(code, int):
        return f"its agent ended with code {code}; see the log of the job in Ray ({said})"
    ours = _ENDS.get(str(job.get("error_type")))
    return f"{ours} ({said})" if ours else said or "its job failed"


def _is_alive(node: Mapping[str, Any]) -> bool:
    return node.get("state") == "ALIVE"


def _amounts(resources: Mapping[str, float]) -> str:
    """ "8 CPU, 2 GPU"."""
    return ", ".join(f"{amount:g} {name}" for name, amount in resources.items())


def _pairs(text: str) -> list[tuple[str, str]]:
    found = []
    for pair in filter(None, text.split(",")):
        name, _, amount = pair.partition("=")
        found.append((name, amount))
    return found


def _read(reply: Reply) -> Any:
    """Return the JSON of an answer. Raises BatchSystemUnreachable."""
    if reply.status != 200:
        raise BatchSystemUnreachable(_last(reply) or f"Ray answered {reply.status}")
    try:
        return json.loads(reply.text)
    except ValueError:
        raise BatchSystemUnreachable(f"Ray answered no JSON but {reply.text[:100]!r}") from None


def _last(reply: Reply) -> str:
    """Return the last line of an answer: Ray answers with the text of a traceback."""
    lines = [line.strip() for line in reply.text.splitlines() if line.strip()]
    return _short(lines[-1]) if lines else ""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_WORDS_CHARS else f"{text[: MAX_WORDS_CHARS - 1]}…"
