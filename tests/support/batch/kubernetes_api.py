"""An API server that answers as Kubernetes' does for what Muster asks: a real HTTP server over objects in
memory. No cluster is behind it; `support.batch.kubernetes` runs the pods.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
import re
import threading
import uuid
from base64 import b64encode
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.batch.kubernetes_schema import invalid_fields, schema_problems

Object = dict[str, Any]
GROUPS = {"jobs": "batch", "secrets": "", "pods": "", "events": "", "workloads": "kueue.x-k8s.io"}
LEAST_RIGHTS = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "delete", "get", "list"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list"]},
]
"""All that Muster's account may do, in its namespace alone."""
_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[a-z0-9.-]+)/(?P<version>v\d\w*))/namespaces/(?P<namespace>[^/]+)"
    r"/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?"
)


class Refused(Exception):
    """An answer that is no object, as a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class ApiServer:
    """The objects of one namespace, `ml`, and their API. Objects are changed under `lock` alone."""

    def __init__(self, *, token: str = "lab-token", namespace: str = "ml") -> None:
        self.token = token
        self.namespace = namespace
        self.lock = threading.RLock()
        self.objects: dict[str, dict[str, Object]] = {resource: {} for resource in GROUPS}
        self.rights = LEAST_RIGHTS
        self.max_jobs: int | None = None
        """A quota on the number of Jobs."""
        self.calls: list[str] = []
        """Verbs and resources that were asked for."""
        self.page: int | None = None
        """Pages are at most so long, whatever is asked for."""
        self.fault: Callable[[str, str], str] = lambda verb, resource: ""
        """What goes wrong with a call: `away` (no answer, nothing done), `lost` (done, no answer),
        `error` (done, 500), `busy` (429), "" for nothing."""
        self._version = 100
        self._compacted = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def kubeconfig(self, **user: str) -> str:
        """Return a kubeconfig for this server, as JSON, which is YAML as well."""
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "lab",
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "muster"}}],
                "clusters": [{"name": "lab", "cluster": {"server": self.url}}],
                "users": [{"name": "muster", "user": user or {"token": self.token}}],
            }
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def compact(self) -> None:
        """Forget the past: the next page of a list that has begun is not to be had."""
        with self.lock:
            self._compacted = self._version

    def put(self, resource: str, thing: Object) -> Object:
        """Store an object, new or changed."""
        with self.lock:
            self._version += 1
            meta = thing.setdefault("metadata", {})
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("namespace", self.namespace)
            meta.setdefault("creationTimestamp", now())
            meta["resourceVersion"] = str(self._version)
            self.objects[resource][meta["name"]] = thing
            return thing

    def remove(self, resource: str, name: str) -> None:
        """Delete an object, and what it owns as the garbage collector does. A pod ends first."""
        with self.lock:
            thing = self.objects[resource].pop(name)
            uid = thing["metadata"]["uid"]
            self._version += 1
            for other, kept in self.objects.items():
                for owned in list(kept.values()):
                    owners = owned["metadata"].get("ownerReferences", ())
                    if not any(owner["uid"] == uid for owner in owners):
                        continue
                    if other == "pods":
                        owned["metadata"].setdefault("deletionTimestamp", now())
                    else:
                        self.remove(other, owned["metadata"]["name"])

    def warn(self, about: Object, reason: str, message: str) -> None:
        """Record an event; one that is repeated is counted."""
        name = f"{about['metadata']['name']}.{reason.lower()}"
        with self.lock:
            event = self.objects["events"].get(name) or {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name},
                "involvedObject": {"kind": about["kind"], "uid": about["metadata"]["uid"]},
                "count": 0,
            }
            event |= {
                "type": "Warning",
                "reason": reason,
                "message": message,
                "lastTimestamp": now(),
            }
            event["count"] += 1
            self.put("events", event)

    def answer(self, method: str, url: str, token: str, body: bytes) -> tuple[int, Object]:
        """Return status and object for a request. Raises Refused."""
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        found = _PATH.fullmatch(parts.path)
        if token != f"Bearer {self.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        resource = found["resource"] if found else ""
        if found is None or GROUPS.get(resource) != (found["group"] or ""):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        name, namespace = found["name"], found["namespace"]
        verb = {"POST": "create", "DELETE": "delete"}.get(method, "get" if name else "list")
        with self.lock:
            self.calls.append(f"{verb} {resource}")
            self._authorize(verb, resource, namespace)
            if verb == "create":
                return 201, self._create(resource, namespace, json.loads(body), query)
            if verb == "list":
                return 200, self._list(resource, namespace, query)
            thing = self.objects[resource].get(name) if namespace == self.namespace else None
            if thing is None:
                raise Refused(404, "NotFound", f'{_title(resource)} "{name}" not found')
            if verb == "delete":
                # Over REST the pods of a Job stay unless asked otherwise.
                if resource == "jobs" and query.get("propagationPolicy") != "Background":
                    del self.objects[resource][name]
                else:
                    self.remove(resource, name)
            return 200, copy.deepcopy(thing)

    def _authorize(self, verb: str, resource: str, namespace: str) -> None:
        group = GROUPS[resource]
        for rule in self.rights:
            if (
                group in rule["apiGroups"]
                and resource in rule["resources"]
                and verb in rule["verbs"]
            ):
                return
        raise Refused(
            403,
            "Forbidden",
            f'{_title(resource)} is forbidden: User "system:serviceaccount:ml:muster" cannot {verb} '
            f'resource "{resource}" in API group "{group}" in the namespace "{namespace}"',
        )

    def _create(
        self, resource: str, namespace: str, thing: Object, query: Mapping[str, str]
    ) -> Object:
        if namespace != self.namespace:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        name = thing.get("metadata", {}).get("name", "")
        if (problems := schema_problems(thing)) and query.get("fieldValidation") == "Strict":
            raise Refused(400, "BadRequest", f"strict decoding error: {', '.join(problems)}")
        if problems := list(invalid_fields(thing)):
            raise Refused(
                422, "Invalid", f'{thing["kind"]}.batch "{name}" is invalid: {"; ".join(problems)}'
            )
        title = _title(resource)
        if name in self.objects[resource]:
            raise Refused(409, "AlreadyExists", f'{title} "{name}" already exists')
        used = len(self.objects["jobs"])
        if resource == "jobs" and self.max_jobs is not None and used >= self.max_jobs:
            raise Refused(
                403,
                "Forbidden",
                f'{title} "{name}" is forbidden: exceeded quota: team, requested: count/{title}=1, '
                f"used: count/{title}={used}, limited: count/{title}={self.max_jobs}",
            )
        for key, text in thing.pop("stringData", {}).items():
            thing.setdefault("data", {})[key] = b64encode(text.encode()).decode()
        thing.setdefault("status", {})
        if query.get("dryRun") == "All":
            return thing
        return copy.deepcopy(self.put(resource, thing))

    def _list(self, resource: str, namespace: str, query: Mapping[str, str]) -> Object:
        kept = self.objects[resource].values() if namespace == self.namespace else ()
        things = sorted(
            (thing for thing in kept if _fits(thing, query)), key=lambda t: t["metadata"]["name"]
        )
        begun, after = self._version, ""
        if token := query.get("continue"):
            version, after = json.loads(token)
            begun = int(version)
            if begun <= self._compacted:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
        things = [thing for thing in things if thing["metadata"]["name"] > after]
        limit = min(self.page or 10**6, int(query.get("limit") or 10**6))
        meta = {"resourceVersion": str(begun)}
        if len(things) > limit:
            meta["continue"] = json.dumps([begun, things[limit - 1]["metadata"]["name"]])
        group = GROUPS[resource]
        return {
            "apiVersion": f"{group}/v1".lstrip("/"),
            "kind": f"{resource[:-1].title()}List",
            "metadata": meta,
            "items": copy.deepcopy(things[:limit]),
        }


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _title(resource: str) -> str:
    return f"{resource}.{GROUPS[resource]}".strip(".")


def _fits(thing: Object, query: Mapping[str, str]) -> bool:
    labels = thing["metadata"].get("labels", {})
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, has_value, value = term.partition("=")
        if key not in labels or (has_value and labels[key] != value):
            return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        key, _, value = term.partition("=")
        if thing.get(key) != value:
            return False
    return True


def _handler(api: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = _PATH.fullmatch(urlsplit(self.path).path)
            verb = {"POST": "create", "DELETE": "delete"}.get(self.command, "list")
            fault = api.fault(verb, found["resource"] if found else "")
            if fault == "away":
                self.close_connection = True
                return
            try:
                if fault == "busy":
                    raise Refused(
                        429, "TooManyRequests", "too many requests, please try again later"
                    )
                code, answer = api.answer(
                    self.command, self.path, self.headers.get("Authorization", ""), body
                )
                if fault == "error":
                    raise Refused(500, "InternalError", "etcdserver: request timed out")
            except Refused as refusal:
                code, answer = (
                    refusal.code,
                    {
                        "kind": "Status",
                        "apiVersion": "v1",
                        "status": "Failure",
                        "message": str(refusal),
                        "reason": refusal.reason,
                        "code": refusal.code,
                    },
                )
            if fault == "lost":
                self.close_connection = True
                return
            content = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler
