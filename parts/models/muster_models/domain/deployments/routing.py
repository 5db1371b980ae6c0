"""What HAProxy is told: its configuration, and the commands that bring a running one to the wanted set.

Names of users never get into either: deployments are numbered backends, replicas are numbered servers,
and the name in a URL is looked up by its digest.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

BACKENDS_MAX = 64
"""Deployments that can run at a time. HAProxy takes no new backends while it runs."""
SERVER_OPTIONS = "check inter 500ms fall 2 rise 1 maxconn 256"
BUFFER_BYTES = 262_144
"""Requests up to this size are sent again when a replica dies; larger ones cannot be."""
STREAM_MAX_S = 600
"""Longest silence of a replica that is answering."""
NAMES_MAP = "names.map"
KEYS_MAP = "keys.map"
TOKENS_ACL = "tokens.acl"
HIDDEN_ACL = "hidden.acl"
LIMITED_ACL = "limited.acl"
SEEN_BY_ACL = "seen_by.acl"
_NO_REPLICA = '{"error":"No replica of this deployment is ready."}'
_NOT_FOUND = '{"error":"There is no such deployment here."}'
_NOT_ALLOWED = '{"error":"Send an API token that may use deployments: Authorization: Bearer …"}'


class UnusableAddress(ValueError):
    """A replica's address is not a number."""


@dataclass(frozen=True, kw_only=True)
class RoutedServer:
    """A replica's process, as HAProxy is to have it."""

    backend: str
    name: str
    host: str
    """An IP address."""
    port: int
    drains: bool = False
    """Whether it gets no new requests."""

    @property
    def address(self) -> str:
        """Raises UnusableAddress."""
        try:
            number = ip_address(self.host)
        except ValueError as error:
            raise UnusableAddress(f"{self.host!r} is not an IP address") from error
        return f"{number}:{self.port}" if number.version == 4 else f"[{number}]:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Routes:
    """All that HAProxy is to know."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Digest of a deployment's name → backend."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Backend → secret that its replicas ask for."""
    tokens: frozenset[str] = frozenset()
    """SHA-256 of the tokens that may use deployments, in hex."""
    hidden: frozenset[str] = frozenset()
    """Backends of deployments that not everybody sees."""
    limited: frozenset[str] = frozenset()
    """SHA-256 of the tokens among them that are limited to projects."""
    seen_by: frozenset[str] = frozenset()
    """What `seen_by_entry` makes of each hidden backend and each token whose user sees it, and of each
    limited token and each backend that it sees."""
    servers: tuple[RoutedServer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SeenServer:
    """A server as HAProxy shows it."""

    backend: str
    name: str
    status: str
    """UP, DOWN, DRAIN, MAINT, …"""
    num_sessions: int = 0
    """Requests that it is answering."""
    num_requests: int = 0
    num_errors: int = 0
    """Answers of 500 and above."""

    @property
    def is_up(self) -> bool:
        return self.status.startswith("UP")

    @property
    def gets_requests(self) -> bool:
        return not self.status.startswith(("DRAIN", "MAINT"))


def name_digest(name: str) -> str:
    """Return under which key a deployment's name is looked up."""
    return hashlib.sha256(name.encode()).hexdigest()


def backend_name(number: int) -> str:
    return f"d{number}"


def seen_by_entry(token_digest: str, backend: str) -> str:
    """Return the entry that lets a token use a hidden deployment."""
    return f"{token_digest}.{backend}"


def server_name(replica_id: int, attempt_no: int) -> str:
    """Return the name of a replica's process: one that is started again is another server."""
    return f"r{replica_id}x{attempt_no}"


def read_stats(text: str) -> list[SeenServer]:
    """Read HAProxy's answer to `show stat -1 4 -1`."""
    found = []
    for row in csv.DictReader(io.StringIO(text.lstrip("# "))):
        name = row.get("svname") or ""
        if name in ("", "FRONTEND", "BACKEND"):
            continue
        found.append(
            SeenServer(
                backend=row["pxname"],
                name=name,
                status=row["status"],
                num_sessions=int(row["scur"] or 0) + int(row["qcur"] or 0),
                num_requests=int(row["stot"] or 0),
                num_errors=int(row["hrsp_5xx"] or 0) + int(row["eresp"] or 0),
            )
        )
    return found


def server_commands(wanted: Sequence[RoutedServer], seen: Sequence[SeenServer]) -> Iterator[str]:
    """Yield the commands that make the servers of a running HAProxy the wanted ones. What is answering
    something cannot be deleted yet; asked again, HAProxy deletes it when it has ended."""
    by_name = {(one.backend, one.name): one for one in seen}
    wanted_names = {(one.backend, one.name) for one in wanted}
    for one in wanted:
        where = f"{one.backend}/{one.name}"
        found = by_name.get((one.backend, one.name))
        if found is None:
            if not one.drains:
                yield f"add server {where} {one.address} {SERVER_OPTIONS}"
                # A new one is in maintenance, and its checks are off.
                yield f"enable health {where}"
                yield f"enable server {where}"
        elif one.drains and found.gets_requests:
            yield f"set server {where} state drain"
        elif not one.drains and not found.gets_requests:
            yield f"set server {where} state ready"
    for backend, name in sorted(by_name.keys() - wanted_names):
        where = f"{backend}/{name}"
        if by_name[backend, name].status != "MAINT":
            yield f"set server {where} state maint"
        yield f"del server {where}"


def map_commands(file: str, wanted: Mapping[str, str], seen: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands that make a map of a running HAProxy the wanted one."""
    for key in sorted(seen.keys() - wanted.keys()):
        yield f"del map {file} {key}"
    for key, value in sorted(wanted.items()):
        if key not in seen:
            yield f"add map {file} {key} {value}"
        elif seen[key] != value:
            yield f"set map {file} {key} {value}"


def acl_commands(file: str, wanted: frozenset[str], seen: frozenset[str]) -> Iterator[str]:
    """Yield the commands that make an access list of a running HAProxy the wanted one."""
    for key in sorted(seen - wanted):
        yield f"del acl {file} {key}"
    for key in sorted(wanted - seen):
        yield f"add acl {file} {key}"


def read_entries(text: str) -> dict[str, str]:
    """Read HAProxy's answer to `show map` and `show acl`: an id, a key and perhaps a value a line."""
    found = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 2 and parts[0].startswith("0x"):
            found[parts[1]] = parts[2] if len(parts) > 2 else ""
    return found


def file_contents(routes: Routes) -> dict[str, str]:
    """Return the content of the files that the configuration names."""
    return {
        NAMES_MAP: _lines(f"{key} {value}" for key, value in sorted(routes.names.items())),
        KEYS_MAP: _lines(f"{key} {value}" for key, value in sorted(routes.keys.items())),
        TOKENS_ACL: _lines(sorted(routes.tokens)),
        HIDDEN_ACL: _lines(sorted(routes.hidden)),
        LIMITED_ACL: _lines(sorted(routes.limited)),
        SEEN_BY_ACL: _lines(sorted(routes.seen_by)),
    }


def _lines(lines: Iterator[str] | Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def configuration(
    routes: Routes, *, folder: str, socket: str, host: str, port: int, prefix: str = ""
) -> str:
    """Return the configuration of HAProxy with the present set, so that it starts with that.

    folder: where the files of `file_contents` are. socket: path of the runtime socket.
    host, port: where it listens. prefix: path such as "/models" that a proxy may pass on. Raises UnusableAddress.
    """
    listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    backends = []
    for number in range(1, BACKENDS_MAX + 1):
        name = backend_name(number)
        servers = [
            f"    server {one.name} {one.address} {SERVER_OPTIONS}\n"
            for one in routes.servers
            if one.backend == name and not one.drains
        ]
        backends.append(f"\nbackend {name}\n{''.join(servers)}")
    return _CONFIGURATION.format(
        socket=socket,
        folder=folder,
        listen=listen,
        prefix=f"    http-request set-path %[path,regsub(^{prefix}/,/)]\n" if prefix else "",
        buffer=BUFFER_BYTES,
        stream_max_s=STREAM_MAX_S,
        not_allowed=_quoted(_NOT_ALLOWED),
        not_found=_quoted(_NOT_FOUND),
        no_replica=_quoted(_NO_REPLICA),
        names=f"{folder}/{NAMES_MAP}",
        keys=f"{folder}/{KEYS_MAP}",
        tokens=f"{folder}/{TOKENS_ACL}",
        hidden=f"{folder}/{HIDDEN_ACL}",
        limited=f"{folder}/{LIMITED_ACL}",
        seen_by=f"{folder}/{SEEN_BY_ACL}",
        backends="".join(backends),
    )


def _quoted(text: str) -> str:
    return f"'{text}'"


_CONFIGURATION = """\
# Written by Muster, and written again with each change.
global
    stats socket unix@{socket} mode 600 level admin
    stats timeout 30s
    maxconn 4000
    tune.bufsize {buffer}

defaults
    mode http
    balance leastconn
    timeout connect 2s
    timeout client 60s
    timeout server {stream_max_s}s
    timeout queue 10s
    timeout http-request 30s
    timeout http-keep-alive 30s
    option http-keep-alive
    option redispatch 1
    retries 3
    # Predictions may be computed twice: what got no answer is asked of another replica.
    retry-on conn-failure empty-response 503
    http-reuse safe
    option httpchk GET /v2/health/ready
    http-check expect status 200
    http-error status 503 content-type application/json string {no_replica} hdr retry-after 1
    http-error status 502 content-type application/json string '{{"error":"The replica died while it was answering. Send the request again."}}'
    http-error status 504 content-type application/json string '{{"error":"The replica did not answer in time."}}'

frontend serving
    bind {listen}
    # A request that is complete before it is sent on can be sent again.
    option http-buffer-request
{prefix}    http-request set-var(txn.token) req.hdr(authorization),regsub(^[Bb]earer[[:space:]]+,),sha2(256),hex,lower
    acl known var(txn.token) -m str -f {tokens}
    http-request return status 401 content-type application/json string {not_allowed} hdr www-authenticate Bearer if !known
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request del-header authorization
    http-request set-var(txn.backend) path,field(2,/),sha2(256),hex,lower,map({names})
    http-request return status 404 content-type application/json string {not_found} unless {{ var(txn.backend) -m found }}
    http-request set-var(txn.use) var(txn.token),concat(.,txn.backend)
    acl is_hidden var(txn.backend) -m str -f {hidden}
    acl is_hidden var(txn.token) -m str -f {limited}
    acl is_seen var(txn.use) -m str -f {seen_by}
    http-request return status 404 content-type application/json string {not_found} if is_hidden !is_seen
    http-request set-header x-muster-key %[var(txn.backend),map({keys})]
    http-request set-path %[path,regsub(^/[^/]+,)]
    use_backend %[var(txn.backend)]
{backends}"""
