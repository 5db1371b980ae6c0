"""A small control plane for agent tests: the protocol's rules, in memory, over real HTTP.

It can be told to go away, to forget sessions and to lag; it keeps everything it acknowledged.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from muster import wire

JOIN_TOKEN = "mst_join_test"
CREDENTIAL = "mst_agt_test"


@dataclass
class Held:
    """What the server holds of one allocation."""

    records: list[wire.NumberedRecord] = field(default_factory=list)
    logs: dict[tuple[int, str], bytearray] = field(default_factory=dict)
    at: list[float] = field(default_factory=list)
    """Monotonic time at which each record arrived."""

    def states(self) -> list[str]:
        return [r.record.observed for r in self.records if isinstance(r.record, wire.StateRecord)]

    def exit(self) -> wire.ExitInfo | None:
        last = self.records[-1].record if self.records else None
        return last.exit if isinstance(last, wire.StateRecord) else None

    def log_text(self, local_rank: int, stream: str = "stdout") -> str:
        return bytes(self.logs.get((local_rank, stream), b"")).decode()


class TestControlPlane:
    __test__ = False

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.held: dict[str, Held] = {}
        self.assignments: dict[str, wire.Assignment] = {}
        self.index = 1
        self.epoch = 0
        self.deletions: dict[int, wire.Deletion] = {}
        self.deletion_results: list[wire.DeletionResult] = []
        self.exports: dict[int, wire.Export] = {}
        self.exported: dict[int, dict[int, bytes]] = {}
        """Export → its pieces by number."""
        self.export_results: list[wire.ExportResult] = []
        self.descriptions: dict[int, wire.Description] = {}
        self.description_results: list[wire.DescriptionResult] = []
        self.outputs: list[wire.OutputsRequest] = []
        """Manifests reported, in order."""
        self.work_folders: list[list[wire.WorkFolder]] = []
        """Work folders of the node, at each report."""
        self.delete_work: set[int] = set()
        """Trials whose work folders are not needed any more."""
        self.has_outputs = True
        """False: an older server, which does not know outputs."""
        self.blobs: dict[str, bytes] = {}
        self.registrations: list[dict[str, Any]] = []
        self.log_bytes_at_exit: dict[str, dict[tuple[int, str], int]] = {}
        self.lease_s = 30.0
        self.credentials = {CREDENTIAL}
        """Those that are valid now."""
        self.next_credential: str | None = None
        """Given with the next heartbeat; the others are void once it has been used."""
        self.late_heartbeats = 0
        """So many that were given up long ago arrive after the answer to a later one."""
        self.is_mute = False
        self.num_answers_to_lose = 0
        """So many answers to polls do not reach the agent, and nothing else tells it."""
        """Polls that are under way now are never answered, and heartbeats find nobody."""
        self.num_unheard = 0
        """Heartbeats that found nobody."""
        self.drop_answers = 0
        """So many answers to registrations are lost on their way."""
        self.joinings: list[str] = []
        self.left: list[tuple[str, str]] = []
        """Steps in which the node said that it leaves, with their reasons."""
        self.is_down = False
        self.clock_ahead_s: float | None = None
        """How far its clock is ahead of ours; None: it does not tell the time."""
        self.leases: list[dict[str, Any]] = []
        self.preflights: dict[int, wire.Preflight] = {}
        self.preflight_reports: list[wire.PreflightReport] = []
        self.refuse_records_with_name: str | None = None
        self.ends_sessions_first = False
        """Whether a node that says it is gone is refused before that request is answered."""
        self.forgets_nodes_first = False
        """Whether its credential is void by then, too."""
        self.num_refused = 0
        self.superseded: set[str] = set()
        self.secrets: dict[str, str] = {}
        """Values of secrets by name; all belong to the project."""
        self.secret_version = 1
        self.secrets_away = False
        """Nobody answers who asks for secrets."""
        self.secrets_asked: list[str] = []
        """Allocations whose secrets were asked for, in order."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        with self.changed:
            self.is_down = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def want(
        self,
        spec: wire.AllocationSpec,
        desired: wire.Desired = "start",
        *,
        rendezvous: wire.Rendezvous | None = None,
        reason: str = "",
        stacks_no: int = 0,
        profile: wire.ProfileOrder | None = None,
    ) -> None:
        with self.changed:
            self.assignments[spec.allocation_id] = wire.Assignment(
                spec=spec,
                desired=desired,
                rendezvous=rendezvous,
                stop_reason=reason,
                stacks_no=stacks_no,
                profile=profile,
            )
            self.index += 1
            self.changed.notify_all()

    def want_deleted(self, deletion: wire.Deletion) -> None:
        with self.changed:
            self.deletions[deletion.id] = deletion
            self.index += 1
            self.changed.notify_all()

    def want_exported(self, export: wire.Export) -> None:
        with self.changed:
            self.exports[export.id] = export
            self.index += 1
            self.changed.notify_all()

    def take_outputs(self, body: dict[str, Any]) -> wire.OutputsReply:
        request = wire.load(wire.OutputsRequest, body)
        with self.lock:
            of_rank = [
                r.summary.attempt_no
                for r in self.outputs
                if (r.summary.trial_id, r.summary.node_rank)
                == (request.summary.trial_id, request.summary.node_rank)
            ]
            self.outputs.append(request)
            return wire.OutputsReply(taken=request.summary.attempt_no >= max(of_rank, default=0))

    def take_work_folders(self, body: dict[str, Any]) -> wire.WorkFoldersReply:
        with self.lock:
            self.work_folders.append(wire.load(wire.WorkFoldersRequest, body).folders)
            return wire.WorkFoldersReply(delete=sorted(self.delete_work))

    def final_outputs(self, trial_id: int, attempt_no: int = 1) -> wire.OutputsRequest | None:
        """The final manifest of an attempt, once it is reported."""
        with self.lock:
            return next(
                (
                    r
                    for r in self.outputs
                    if r.summary.is_final
                    and (r.summary.trial_id, r.summary.attempt_no) == (trial_id, attempt_no)
                ),
                None,
            )

    def want_described(self, description: wire.Description) -> None:
        with self.changed:
            self.descriptions[description.id] = description
            self.index += 1
            self.changed.notify_all()

    def take_description(self, body: dict[str, Any]) -> wire.DescriptionReply:
        result = wire.load(wire.DescriptionRequest, body).result
        with self.changed:
            self.description_results.append(result)
            self.index += 1
            self.changed.notify_all()
            return wire.DescriptionReply(taken=self.descriptions.pop(result.id, None) is not None)

    def take_piece(self, export_id: int, idx: int, data: bytes) -> wire.ExportReply:
        with self.lock:
            if export_id not in self.exports:
                return wire.ExportReply(taken=False)
            self.exported.setdefault(export_id, {})[idx] = data
            return wire.ExportReply(taken=True)

    def take_export(self, body: dict[str, Any]) -> wire.ExportReply:
        result = wire.load(wire.ExportRequest, body).result
        with self.changed:
            self.export_results.append(result)
            self.index += 1
            self.changed.notify_all()
            return wire.ExportReply(taken=self.exports.pop(result.id, None) is not None)

    def want_preflight(self, preflight: wire.Preflight | None) -> None:
        """This one, at its stage, and no other; None: none any more."""
        with self.changed:
            self.preflights = {preflight.id: preflight} if preflight is not None else {}
            self.index += 1
            self.changed.notify_all()

    def take_preflight(self, body: dict[str, Any]) -> wire.PreflightReply:
        with self.lock:
            self.preflight_reports.append(wire.load(wire.PreflightRequest, body).report)
            return wire.PreflightReply(taken=True)

    def forget(self, allocation_id: str) -> None:
        with self.changed:
            del self.assignments[allocation_id]
            self.index += 1
            self.changed.notify_all()

    def of(self, allocation_id: str) -> Held:
        with self.lock:
            return self.held.setdefault(allocation_id, Held())

    # ------------------------------------------------------------ calls; each returns (status, body)

    def register(self, token: str, body: dict[str, Any]) -> tuple[int, Any]:
        request = wire.load(wire.RegisterRequest, body)
        if token != JOIN_TOKEN and not self.accepts(token):
            return 401, _problem("auth.invalid", "no such credential")
        with self.lock:
            self.registrations.append(body)
            if token == JOIN_TOKEN:
                self.joinings.append(request.join_id)
            self.epoch += 1
            adopt = [
                wire.AckState(
                    allocation_id=a.allocation_id,
                    acked_seq=len(self.of(a.allocation_id).records),
                    logs=[
                        wire.LogOffset(local_rank=r, stream=s, offset=len(data))  # type: ignore[arg-type]
                        for (r, s), data in self.of(a.allocation_id).logs.items()
                    ],
                )
                for a in request.running
                if a.allocation_id in self.assignments
            ]
            forget = [
                a.allocation_id for a in request.running if a.allocation_id not in self.assignments
            ]
            return 200, wire.RegisterReply(
                node_id="n1",
                session_epoch=self.epoch,
                credential=CREDENTIAL if token == JOIN_TOKEN else None,
                heartbeat_s=0.3,
                lease_s=self.lease_s,
                adopt=adopt,
                forget=forget,
            )

    def accepts(self, token: str) -> bool:
        """Whether this credential is valid. Its use makes those before it void."""
        with self.lock:
            if token == self.next_credential:
                self.credentials, self.next_credential = {token}, None
            return token in self.credentials

    def lease(self, body: dict[str, Any]) -> wire.LeaseReply:
        wire.load(wire.LeaseRequest, body)
        with self.lock:
            self.leases.append(body)
            ahead_s = self.clock_ahead_s
            credential = self.next_credential
            if credential is not None and self.late_heartbeats > 0:
                self.late_heartbeats -= 1
                self.next_credential = f"instead of {credential}"  # given in an answer to nobody
            return wire.LeaseReply(
                lease_s=self.lease_s,
                heartbeat_s=0.3,
                credential=credential,
                server_time_ms=None if ahead_s is None else (time.time() + ahead_s) * 1000,
                assignments_index=self.index,
            )

    def take_leave(self, body: dict[str, Any]) -> wire.LeaveReply:
        request = wire.load(wire.LeaveRequest, body)
        if request.stage == "gone" and self.forgets_nodes_first:
            with self.lock:
                self.credentials, self.next_credential = set(), None
            deadline = time.monotonic() + 5.0
            while not self.num_refused and time.monotonic() < deadline:
                time.sleep(0.02)
        if request.stage == "gone" and self.ends_sessions_first:
            self.epoch += 1
            deadline = time.monotonic() + 2.0
            while self.num_refused < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
        with self.lock:
            self.left.append((request.stage, request.reason))
            ended = {"EXITED", "PREPARE_FAILED"}
            is_open = [not ended & set(self.of(a).states()) for a in self.assignments]
            return wire.LeaveReply(num_open=sum(is_open))

    def get_assignments(self, index: int, wait: float) -> wire.AssignmentsReply:
        with self.changed:
            self.changed.wait_for(
                lambda: self.index != index or self.is_down or self.is_mute, timeout=wait
            )
            is_lost = self.num_answers_to_lose > 0 and self.index != index
            self.num_answers_to_lose -= is_lost
            if self.is_mute or is_lost:
                self.changed.wait_for(lambda: self.is_down)
            return wire.AssignmentsReply(
                index=self.index,
                assignments=list(self.assignments.values()),
                deletions=list(self.deletions.values()),
                preflights=list(self.preflights.values()),
                exports=list(self.exports.values()),
                descriptions=list(self.descriptions.values()),
            )

    def take_deletions(self, body: dict[str, Any]) -> wire.DeletionsReply:
        request = wire.load(wire.DeletionsRequest, body)
        with self.changed:
            self.deletion_results += request.results
            for result in request.results:
                if result.outcome != "failed":
                    self.deletions.pop(result.id, None)
            self.index += 1
            self.changed.notify_all()
            return wire.DeletionsReply(num_taken=len(request.results))

    def take_records(self, allocation_id: str, body: dict[str, Any]) -> tuple[int, Any]:
        request = wire.load(wire.RecordsRequest, body)
        assert len(request.records) <= 1000
        with self.lock:
            held = self.of(allocation_id)
            for numbered in request.records:
                record = numbered.record
                if (
                    isinstance(record, wire.MetricsRecord)
                    and self.refuse_records_with_name
                    and any(s.name == self.refuse_records_with_name for s in record.series)
                ):
                    return 422, _problem("metrics.bad", "do not like it")
            for numbered in request.records:
                if numbered.seq <= len(held.records):
                    continue
                assert numbered.seq == len(held.records) + 1, "a gap"
                held.records.append(numbered)
                held.at.append(time.monotonic())
                record = numbered.record
                if isinstance(record, wire.StateRecord) and record.observed == "EXITED":
                    self.log_bytes_at_exit[allocation_id] = {
                        k: len(v) for k, v in held.logs.items()
                    }
            return 200, wire.RecordsReply(
                acked_seq=len(held.records), superseded=allocation_id in self.superseded
            )

    def give_secrets(self, allocation_id: str, body: dict[str, Any]) -> tuple[int, Any]:
        request = wire.load(wire.SecretsRequest, body)
        with self.lock:
            if self.secrets_away:
                return 503, _problem("server.starting", "not yet")
            self.secrets_asked.append(allocation_id)
            spec = self.assignments[allocation_id].spec
            assert request.attempt_no == spec.attempt_no
            missing = [name for name in spec.secrets if name not in self.secrets]
            if missing:
                message = f"There is no secret {', '.join(missing)}."
                return 409, _problem("secrets.missing", message)
            return 200, wire.SecretsReply(
                secrets=[
                    wire.SecretValue(
                        name=name,
                        owner="project:1",
                        version=self.secret_version,
                        changed_at_ms=1,
                        value=self.secrets[name],
                    )
                    for name in spec.secrets
                ]
            )

    def take_log(
        self, allocation_id: str, local_rank: int, stream: str, offset: int, data: bytes
    ) -> wire.LogsReply:
        assert len(data) <= 1_048_576
        with self.lock:
            log = self.of(allocation_id).logs.setdefault((local_rank, stream), bytearray())
            if offset == len(log):
                log += data
            return wire.LogsReply(next_offset=len(log))


def _problem(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _handler(plane: TestControlPlane) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            self.serve()

        def do_GET(self) -> None:
            self.serve()

        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if plane.is_down:
                self.answer(503, _problem("server.starting", "not yet"))
                return
            try:
                status, reply = self.route(body)
            except BrokenPipeError:
                return
            except ConnectionAbortedError:
                self.close_connection = True
                return
            self.answer(status, reply)

        def route(self, body: bytes) -> tuple[int, Any]:
            url = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(url.query).items()}
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            parts = url.path.removeprefix("/agent/v1/").split("/")
            if parts == ["register"] and plane.ends_sessions_first and plane.left:
                plane.num_refused += 1
                return 401, _problem("auth.invalid", "no such credential")
            if parts == ["register"]:
                answer = plane.register(token, json.loads(body))
                if plane.drop_answers > 0:
                    plane.drop_answers -= 1
                    raise ConnectionAbortedError
                return answer
            if not plane.accepts(token):
                plane.num_refused += 1
                return 401, _problem("auth.invalid", "no such credential")
            if parts[0] == "blobs":
                blob = plane.blobs.get(parts[1])
                return (
                    (404, _problem("blobs.not_found", "no such blob"))
                    if blob is None
                    else (200, blob)
                )
            is_json = self.headers.get("Content-Type") == "application/json"
            content = json.loads(body) if is_json and body else {}
            epoch = int(query.get("session_epoch", content.get("session_epoch", -1)))
            if epoch != plane.epoch:
                plane.num_refused += 1
                return 410, _problem("agent.session_superseded", "register again")
            if parts == ["lease"] and plane.is_mute:
                plane.num_unheard += 1
                return 503, _problem("server.starting", "not yet")
            if parts == ["lease"]:
                return 200, plane.lease(content)
            if parts == ["leave"]:
                return 200, plane.take_leave(content)
            if parts == ["assignments"]:
                return 200, plane.get_assignments(int(query["index"]), float(query["wait"]))
            if parts == ["preflights"]:
                return 200, plane.take_preflight(content)
            if parts == ["deletions"]:
                return 200, plane.take_deletions(content)
            if parts == ["descriptions"]:
                return 200, plane.take_description(content)
            if parts in (["outputs"], ["work-folders"]) and not plane.has_outputs:
                return 404, _problem("request.no_such_path", "There is nothing at this address.")
            if parts == ["outputs"]:
                return 200, plane.take_outputs(content)
            if parts == ["work-folders"]:
                return 200, plane.take_work_folders(content)
            if parts == ["exports"]:
                return 200, plane.take_export(content)
            if parts[0] == "exports":
                return 200, plane.take_piece(int(parts[1]), int(parts[3]), body)
            if parts[2] == "secrets":
                return plane.give_secrets(parts[1], content)
            if parts[2] == "records":
                return plane.take_records(parts[1], content)
            return 200, plane.take_log(
                parts[1], int(parts[3]), parts[4], int(query["offset"]), body
            )

        def answer(self, status: int, reply: Any) -> None:
            if isinstance(reply, bytes):
                data = reply
            elif dataclasses.is_dataclass(reply):
                data = wire.dump(reply).encode()
            else:
                data = json.dumps(reply).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):
                pass

    return Handler
