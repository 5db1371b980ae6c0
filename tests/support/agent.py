"""An agent that runs nothing: it speaks the real protocol and says what a test wants it to say."""

from __future__ import annotations

import base64
import dataclasses
import json
import uuid
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from muster.wire import (
    PROTOCOL_VERSION,
    AdoptedCheckpoint,
    Assignment,
    AssignmentsReply,
    CheckpointRecord,
    Deletion,
    DeletionResult,
    DeletionsReply,
    DeletionsRequest,
    Description,
    DescriptionReply,
    DescriptionRequest,
    DescriptionResult,
    ExitInfo,
    Export,
    ExportReply,
    ExportRequest,
    ExportResult,
    Inventory,
    LeaseReply,
    LeaveReply,
    LeaveRequest,
    LeaveStage,
    NumberedRecord,
    OutputFile,
    OutputsReply,
    OutputsRequest,
    OutputsSummary,
    PilotFacts,
    Preflight,
    PreflightReply,
    PreflightReport,
    PreflightRequest,
    Record,
    RecordsReply,
    RegisterReply,
    RegisterRequest,
    Rendezvous,
    RunningAllocation,
    SlotInfo,
    StateRecord,
    WorkerExit,
    WorkFolder,
    WorkFoldersReply,
    WorkFoldersRequest,
    dump,
    load,
)


class FakeAgent:
    """One node. Keeps what a real agent keeps on disk: its credential and its record streams."""

    def __init__(
        self,
        connect: Callable[[str], httpx.Client],
        join_token: str,
        name: str,
        *,
        slots: int = 2,
        pool: str = "default",
        slot_type: Any = "cpu",
        boot_id: str = "boot-1",
        storage_id: str | None = None,
        container_runtime: str = "",
        pilot: PilotFacts | None = None,
    ) -> None:
        """storage_id: of its storage folder; None: one of its own. container_runtime: its container
        engine. pilot: what it says of itself if it leaves with its agent."""
        self.pilot = pilot
        self._connect = connect
        self._join_token = join_token
        self.name = name
        self.pool = pool
        self.boot_id = boot_id
        self.storage_id = f"storage-{name}" if storage_id is None else storage_id
        self.container_runtime = container_runtime
        self.instance_id = uuid.uuid4().hex
        self.slots = [
            SlotInfo(index=i, slot_type=slot_type, name=f"share {i}") for i in range(slots)
        ]
        self.join_id = ""
        self.credential: str | None = None
        self.node_id = ""
        self.epoch = 0
        self.index = -1
        self.streams: dict[str, list[NumberedRecord]] = {}
        self.log_offsets: dict[str, int] = {}
        self.specs: dict[str, Assignment] = {}
        self.client = connect(join_token)
        self.num_registrations = 0
        self.chores: list[str] = []
        """What it says that it can do; [DESCRIBES] for a present agent."""
        self.last_registration: RegisterRequest | None = None
        self.refusal: dict[str, Any] = {}
        """The latest error that was expected."""

    # the protocol, call by call

    def register(
        self, *, running: list[RunningAllocation] | None = None, expect: int = 200
    ) -> RegisterReply | None:
        self.client = self._connect(self.credential or self._join_token)
        self.num_registrations += 1
        self.last_registration = request = RegisterRequest(
            protocol_version=PROTOCOL_VERSION,
            name=self.name,
            pool=self.pool,
            labels={},
            boot_id=self.boot_id,
            instance_id=self.instance_id,
            number=self.num_registrations,
            join_id=self.join_id,
            inventory=Inventory(
                hostname=f"host-{self.name}",
                address="127.0.0.1",
                platform="test",
                num_cpus=len(self.slots),
                memory_bytes=1,
                disk_free_bytes=1,
                slots=self.slots,
                python_version="3",
                agent_version="0",
                storage_id=self.storage_id,
                chores=self.chores,
                container_runtime=self.container_runtime,
                container_reason="" if self.container_runtime else "podman is not installed.",
            ),
            running=running or [],
            pilot=self.pilot,
        )
        reply = self._post("/register", request, expect)
        if reply is None:
            return None
        parsed = load(RegisterReply, reply)
        if parsed.credential is not None:
            self.credential = parsed.credential
        self.client = self._connect(self.credential or "")
        self.node_id, self.epoch = parsed.node_id, parsed.session_epoch
        return parsed

    def register_late(self, request: RegisterRequest, *, expect: int) -> None:
        """A registration of a while ago arrives only now, or again."""
        self._post("/register", request, expect)

    def beat(
        self, *, expect: int = 200, running: list[str] | None = None, **more: Any
    ) -> LeaseReply | None:
        body = {"node_id": self.node_id, "session_epoch": self.epoch, "running": running, **more}
        reply = self._post("/lease", body, expect)
        return load(LeaseReply, reply) if reply is not None else None

    def leave(self, stage: LeaveStage, reason: str = "told to end", *, expect: int = 200) -> int:
        """Announce a step of leaving; the number of allocations that have not ended."""
        request = LeaveRequest(
            node_id=self.node_id, session_epoch=self.epoch, stage=stage, reason=reason
        )
        reply = self._post("/leave", request, expect)
        return load(LeaveReply, reply).num_open if reply is not None else -1

    def use_credential(self, credential: str) -> None:
        """Speak with this one from now on."""
        self.credential = credential
        self.client = self._connect(credential)

    def poll(self, *, wait: float = 0, index: int = -1) -> dict[str, Assignment]:
        """The desired set, by allocation id."""
        reply = self.client.get(
            "/agent/v1/assignments",
            params={
                "node_id": self.node_id,
                "session_epoch": self.epoch,
                "index": index,
                "wait": wait,
            },
        )
        assert reply.status_code == 200, reply.text
        parsed = load(AssignmentsReply, reply.json())
        self.index = parsed.index
        found = {a.spec.allocation_id: a for a in parsed.assignments}
        self.specs |= found
        return found

    def send(
        self,
        allocation_id: str,
        *records: Record,
        numbered: list[NumberedRecord] | None = None,
        expect: int = 200,
    ) -> RecordsReply | None:
        """Append records to the allocation's stream and send them; or send exactly `numbered`."""
        stream = self.streams.setdefault(allocation_id, [])
        if numbered is None:
            numbered = [
                NumberedRecord(seq=len(stream) + 1 + i, at_ms=0, record=record)
                for i, record in enumerate(records)
            ]
            stream += numbered
        body = {
            "node_id": self.node_id,
            "session_epoch": self.epoch,
            "attempt_no": self.specs[allocation_id].spec.attempt_no,
            "records": [dataclasses.asdict(n) for n in numbered],
        }
        reply = self._post(f"/allocations/{allocation_id}/records", body, expect)
        return load(RecordsReply, reply) if reply is not None else None

    def log(self, allocation_id: str, line: str) -> None:
        """Append a line to the standard output of the first worker, and send it."""
        where: dict[str, str | int] = {
            "node_id": self.node_id,
            "session_epoch": self.epoch,
            "attempt_no": self.specs[allocation_id].spec.attempt_no,
            "offset": self.log_offsets.get(allocation_id, 0),
        }
        reply = self.client.post(
            f"/agent/v1/allocations/{allocation_id}/logs/0/stdout",
            params=where,
            content=f"{line}\n",
        )
        assert reply.status_code == 200, reply.text
        self.log_offsets[allocation_id] = reply.json()["next_offset"]

    def deletions(self) -> list[Deletion]:
        """The folders it is asked to delete now."""
        reply = self.client.get(
            "/agent/v1/assignments",
            params={"node_id": self.node_id, "session_epoch": self.epoch, "wait": 0},
        )
        assert reply.status_code == 200, reply.text
        return load(AssignmentsReply, reply.json()).deletions

    def report_deletions(self, *results: DeletionResult) -> int:
        request = DeletionsRequest(
            node_id=self.node_id, session_epoch=self.epoch, results=list(results)
        )
        return load(DeletionsReply, self._post("/deletions", request, 200)).num_taken

    def exports(self) -> list[Export]:
        """The models it is asked to make into one file now."""
        reply = self.client.get(
            "/agent/v1/assignments",
            params={"node_id": self.node_id, "session_epoch": self.epoch, "wait": 0},
        )
        assert reply.status_code == 200, reply.text
        return load(AssignmentsReply, reply.json()).exports

    def send_piece(self, export_id: int, idx: int, data: bytes) -> Any:
        return self.client.post(
            f"/agent/v1/exports/{export_id}/pieces/{idx}",
            params={"node_id": self.node_id, "session_epoch": self.epoch},
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )

    def report_export(self, result: ExportResult) -> bool:
        request = ExportRequest(node_id=self.node_id, session_epoch=self.epoch, result=result)
        return load(ExportReply, self._post("/exports", request, 200)).taken

    def send_outputs(
        self,
        allocation_id: str,
        files: list[OutputFile],
        *,
        seq: int = 1,
        is_final: bool = True,
        expect: int = 200,
        packed: str | None = None,
        adopted: Sequence[AdoptedCheckpoint] = (),
        **summary: Any,
    ) -> bool:
        """Report a manifest; whether it was taken. packed: in place of the list of `files`."""
        spec = self.specs[allocation_id].spec
        kept = [file for file in files if file.state in ("kept", "growing")]
        left_out = [file for file in files if file.state == "left_out"]
        fields = {
            "experiment_id": spec.experiment_id,
            "trial_id": spec.trial_id,
            "attempt_no": spec.attempt_no,
            "node_rank": spec.node_rank,
            "num_files": len(kept),
            "size_bytes": sum(file.size_bytes for file in kept),
            "num_left_out": len(left_out),
            "left_out_bytes": sum(file.size_bytes for file in left_out),
        }
        text = json.dumps([dataclasses.asdict(file) for file in files])
        request = OutputsRequest(
            node_id=self.node_id,
            session_epoch=self.epoch,
            storage_id="" if spec.checkpoint_url else self.storage_id,
            storage_url=f"{spec.checkpoint_url}/outputs" if spec.checkpoint_url else "",
            folder=f"{spec.checkpoint_dir}/outputs",
            summary=OutputsSummary(**(fields | {"seq": seq, "is_final": is_final} | summary)),
            files=packed or base64.b64encode(zlib.compress(text.encode())).decode(),
            adopted=list(adopted),
        )
        reply = self._post("/outputs", request, expect)
        return reply is not None and load(OutputsReply, reply).taken

    def report_work_folders(self, *folders: WorkFolder) -> list[int]:
        """Report what lies here; the trials whose folders may be deleted."""
        request = WorkFoldersRequest(
            node_id=self.node_id, session_epoch=self.epoch, folders=list(folders)
        )
        return load(WorkFoldersReply, self._post("/work-folders", request, 200)).delete

    def descriptions(self) -> list[Description]:
        """The models whose layers it is asked to list now."""
        reply = self.client.get(
            "/agent/v1/assignments",
            params={"node_id": self.node_id, "session_epoch": self.epoch, "wait": 0},
        )
        assert reply.status_code == 200, reply.text
        return load(AssignmentsReply, reply.json()).descriptions

    def report_description(self, result: DescriptionResult) -> bool:
        request = DescriptionRequest(node_id=self.node_id, session_epoch=self.epoch, result=result)
        return load(DescriptionReply, self._post("/descriptions", request, 200)).taken

    def preflights(self) -> list[Preflight]:
        """Those it is asked to take part in now."""
        reply = self.client.get(
            "/agent/v1/assignments",
            params={"node_id": self.node_id, "session_epoch": self.epoch, "wait": 0},
        )
        assert reply.status_code == 200, reply.text
        return load(AssignmentsReply, reply.json()).preflights

    def report_preflight(self, report: PreflightReport) -> bool:
        request = PreflightRequest(node_id=self.node_id, session_epoch=self.epoch, report=report)
        return load(PreflightReply, self._post("/preflights", request, 200)).taken

    # shortcuts

    def only(self) -> Assignment:
        (assignment,) = self.poll().values()
        return assignment

    def state(self, allocation_id: str, *observed: Any) -> None:
        self.send(allocation_id, *(StateRecord(observed=state) for state in observed))

    def get_ready(self, allocation_id: str, *, port: int | None = None) -> None:
        rendezvous = Rendezvous(host="127.0.0.1", port=port, run_id="") if port else None
        self.send(
            allocation_id,
            StateRecord(observed="PREPARING"),
            StateRecord(observed="READY", rendezvous=rendezvous),
        )

    def run(self, allocation_id: str) -> None:
        self.state(allocation_id, "STARTING", "RUNNING")

    def exit(
        self,
        allocation_id: str,
        cause: Any = "success",
        *,
        rank: int = 0,
        at_ms: int = 1,
        message: str = "",
    ) -> None:
        failure = WorkerExit(local_rank=0, rank=rank, exit_code=1, at_ms=at_ms, message=message)
        self.send(
            allocation_id,
            StateRecord(
                observed="EXITED",
                exit=ExitInfo(
                    cause=cause,
                    message=message,
                    first_failure=None if cause == "success" else failure,
                    workers=[] if cause == "success" else [failure],
                    log_tail=[message] if message else [],
                ),
            ),
        )

    def running(self, allocation_id: str, observed: str = "RUNNING") -> RunningAllocation:
        return RunningAllocation(
            allocation_id=allocation_id,
            attempt_no=self.specs[allocation_id].spec.attempt_no,
            observed=observed,
            num_records=len(self.streams.get(allocation_id, [])),
        )

    def _post(self, path: str, body: Any, expect: int) -> Any:
        text = dump(body) if dataclasses.is_dataclass(body) else json.dumps(body)
        reply = self.client.post(
            f"/agent/v1{path}", content=text, headers={"Content-Type": "application/json"}
        )
        assert reply.status_code == expect, f"{path}: {reply.status_code} {reply.text}"
        if expect == 200:
            return reply.json()
        self.refusal = reply.json()["error"]
        return None


def start(controller: Any, node: FakeAgent, *records: Record) -> str:
    """Drive an agent's only allocation to RUNNING and return its id. records: sent by its workers
    before the controller looks."""
    allocation_id: str = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    if records:
        node.send(allocation_id, *records)
    controller.tick()
    return allocation_id


def leave(controller: Any, node: FakeAgent, allocation_id: str, *, step: int) -> None:
    """Do what a worker does that is asked to stop: save a checkpoint, then end."""
    node.state(allocation_id, "STOPPING")
    record = CheckpointRecord(step=step, path=f"s{step}", size_bytes=1, files={"a": "0"})
    node.send(allocation_id, record)
    node.exit(allocation_id, "stopped")
    controller.tick()
