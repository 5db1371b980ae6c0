"""The program that stands for `sbatch` on each node of a job: `job.py SCRIPT ARGUMENTS…`.

On the first node it runs the script, on the others it waits for steps. Each node has the variables of
Slurm, and a scratch folder that is removed with the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.launch import site_signals

from . import KEY_VARIABLE, LOGS_VARIABLE, SCRATCH_VARIABLE, SCRIPT_VARIABLE, SOCKET_VARIABLE
from .channel import Channel, prove
from .layout import JobNode, job_variables, node_names
from .steps import Member, Steps, obey
from .tasks import TaskHost

MEET_TIMEOUT_S = 300.0
"""Seconds in which the nodes of a job must meet."""
_SIGNALED = 128


class BatchJob:
    """A batch job, as one node sees it."""

    def __init__(
        self, programs: Path, script: str, arguments: Sequence[str], environment: dict[str, str]
    ) -> None:
        """Create the job. programs: folder of the commands on PATH. environment: of this process."""
        self.programs = programs
        self.script = script
        self.arguments = arguments
        self.key = environment.pop(KEY_VARIABLE, "")
        logs = environment.pop(LOGS_VARIABLE, "")
        self.logs = Path(logs) if logs else None
        self.scratch = Path(environment.pop(SCRATCH_VARIABLE))
        self.environment = environment
        self.is_asked = False
        """Whether the job was asked to stop: then what its tasks still do is waited for."""

    @property
    def socket(self) -> Path:
        """Return where srun finds this program: beside the socket for reports, whose path is short."""
        return Path(self.environment.get(site_signals.SOCKET_VARIABLE) or self.scratch).with_name(
            "steps"
        )

    @property
    def rank(self) -> int:
        return int(self.environment.get("NODE_RANK", "0"))

    @property
    def num_nodes(self) -> int:
        return int(self.environment.get("NNODES", "1"))

    @property
    def address(self) -> tuple[str, int]:
        return self.environment["MASTER_ADDR"], int(self.environment["MASTER_PORT"])

    def own_node(self, name: str) -> JobNode:
        devices = self.environment.get("CUDA_VISIBLE_DEVICES", "")
        slots = int(self.environment.get("NPROC_PER_NODE", "1"))
        return JobNode(name=name, slots=slots, devices=tuple(devices.split(",")) if devices else ())

    def host(self, nodes: Sequence[JobNode]) -> TaskHost:
        """Return what runs tasks on this node."""
        folder = str(Path.cwd())
        self.scratch.mkdir(parents=True, exist_ok=True)
        environment = {
            **self.environment,
            **job_variables(
                self.environment, nodes, self.rank, name=Path(self.script).name, folder=folder
            ),
            **dict.fromkeys(("SLURM_TMPDIR", "LOCAL_SCRATCH", "TMPDIR"), str(self.scratch)),
        }
        named = {
            name: self.environment[name]
            for name in ("MUSTER_WORK_DIR", "MUSTER_OUTPUT_DIR", "VIRTUAL_ENV")
            if self.environment.get(name)
        }
        places = {
            "work": folder,
            "scratch": str(self.scratch),
            "programs": str(self.programs),
            **named,
        }
        return TaskHost(places=places, environment=environment, logs=self.logs)


async def run(job: BatchJob) -> int:
    """Run the job's part on this node; return the exit code."""
    try:
        return await (_run_first(job) if job.rank == 0 else _run_other(job))
    finally:
        shutil.rmtree(job.scratch, ignore_errors=True)
        # A stop that comes now is too late, and must not make an end of it that looks like a kill.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _on_stop(job: BatchJob, host: TaskHost) -> None:
    site_signals.listen(job.environment.get(site_signals.SOCKET_VARIABLE, ""))
    passing: set[asyncio.Task[None]] = set()

    def stop() -> None:
        job.is_asked = True
        send = functools.partial(host.signal, signal.SIGTERM)
        passing.add(asyncio.ensure_future(site_signals.pass_on(send)))

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)


# ---------------------------------------------------------------- the first node


async def _run_first(job: BatchJob) -> int:
    joined = await _meet(job)
    names = node_names([job.address[0], *(one["address"] for one, _ in joined)])
    nodes = [job.own_node(names[0])]
    nodes += [
        JobNode(name=name, slots=one["slots"], devices=tuple(one["devices"]))
        for name, (one, _) in zip(names[1:], joined, strict=True)
    ]
    host = job.host(nodes)
    _on_stop(job, host)
    members = [
        Member(node, channel)
        for node, channel in zip(nodes, [None, *(c for _, c in joined)], strict=True)
    ]
    socket = job.socket
    environment = {
        **host.environment,
        SOCKET_VARIABLE: str(socket),
        SCRIPT_VARIABLE: f"{host.places['work']}/{job.script}",
    }
    if len(nodes) > 1:
        # A launcher that the script starts here by itself is for this node alone.
        for name in ("NNODES", "NUM_NODES", "NODE_RANK"):
            environment.pop(name, None)
    steps = Steps(host, members, environment)
    followers = [asyncio.create_task(_follow(steps, member)) for member in members[1:]]
    for member in members[1:]:
        if member.channel is not None:
            member.channel.send({"event": "nodes", "nodes": [vars(node) for node in nodes]})
    server = await asyncio.start_unix_server(steps.serve, path=str(socket))
    socket.chmod(0o600)
    script = await asyncio.create_subprocess_exec(
        *interpreter(job.script), job.script, *job.arguments, env=environment
    )
    status = await script.wait()
    server.close()
    # A stop that comes later changes nothing: nobody listens to the other nodes by then.
    waits = job.is_asked
    for member in members[1:]:
        if member.channel is not None:
            member.channel.send({"event": "over", "waits": waits})
            await member.channel.drain()
    if waits:
        # What the tasks of other nodes still say goes on to their srun.
        await asyncio.gather(*followers)
    for follower in followers:
        follower.cancel()
    await _leave(job, host)
    if waits:
        await steps.wait()
    return status if status >= 0 else _SIGNALED - status


async def _meet(job: BatchJob) -> list[tuple[dict[str, Any], Channel]]:
    """Wait until the other nodes have connected; return what they say, in the order of the nodes."""
    if job.num_nodes == 1:
        return []
    joined: dict[int, tuple[dict[str, Any], Channel]] = {}
    complete = asyncio.Event()

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        if not await prove(channel, job.key, is_first=True):
            channel.close()
            return
        said = await channel.read()
        if said is not None and 0 < said["rank"] < job.num_nodes and said["rank"] not in joined:
            said["address"] = said["address"] or writer.get_extra_info("peername")[0]
            joined[said["rank"]] = (said, channel)
        if len(joined) == job.num_nodes - 1:
            complete.set()

    host, port = job.address
    server = await asyncio.start_server(welcome, host=host, port=port)
    try:
        await asyncio.wait_for(complete.wait(), MEET_TIMEOUT_S)
    except TimeoutError:
        missing = [str(n) for n in range(1, job.num_nodes) if n not in joined]
        raise SystemExit(
            f"muster: node {', '.join(missing)} has not come to {host}:{port}"
        ) from None
    finally:
        # From now on the port is the script's, as MASTER_PORT.
        server.close()
    return [joined[rank] for rank in sorted(joined)]


async def _follow(steps: Steps, member: Member) -> None:
    assert member.channel is not None
    while (message := await member.channel.read()) is not None:
        waiting = steps.take(message)
        if waiting is not None:
            await waiting
    steps.lose(member)
    member.channel.close()


async def _leave(job: BatchJob, host: TaskHost) -> None:
    """Wait for what saves itself after a stop; end what the script has left behind."""
    if job.is_asked:
        await host.wait()
    await host.end()


def interpreter(script: str) -> list[str]:
    """Return the words before a script's name, of its first line as the kernel reads it. A program that
    is not there is looked for on PATH."""
    with Path(script).open(encoding="utf-8", errors="replace") as file:
        words = file.readline().removeprefix("#!").split(maxsplit=1)
    if not words:
        return ["/bin/sh"]
    program = words[0] if Path(words[0]).exists() else Path(words[0]).name
    return [program, *(word.strip() for word in words[1:])]


# ---------------------------------------------------------------- the others


async def _run_other(job: BatchJob) -> int:
    channel = await _connect(job)
    node = job.own_node("")
    channel.send(
        {
            "rank": job.rank,
            "address": channel.writer.get_extra_info("sockname")[0],
            "slots": node.slots,
            "devices": list(node.devices),
        }
    )
    said = await channel.read()
    if said is None:
        raise SystemExit("muster: the first node of the job has ended")
    host = job.host([JobNode(**{**one, "devices": tuple(one["devices"])}) for one in said["nodes"]])
    _on_stop(job, host)

    def tell(message: dict[str, Any]) -> Any:
        channel.send(message)
        return channel.drain() if message["event"] == "out" else None

    while (message := await channel.read()) is not None:
        if message["event"] == "start":
            await host.start(message["order"], tell)
        elif message["event"] == "over":
            job.is_asked = job.is_asked or message["waits"]
            await _leave(job, host)
            await channel.finish()
            return 0
        else:
            obey(host, message)
    # The first node is gone: its own end says why.
    await _leave(job, host)
    return 0 if job.is_asked else 1


async def _connect(job: BatchJob) -> Channel:
    """Connect to the first node, which may start later. Raises SystemExit."""
    host, port = job.address
    give_up_at = time.monotonic() + MEET_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError):
            channel = Channel(*await asyncio.open_connection(host, port))
            if await prove(channel, job.key, is_first=False):
                return channel
            channel.close()
        if time.monotonic() > give_up_at:
            raise SystemExit(
                f"muster: the first node of the job cannot be reached at {host}:{port}"
            )
        await asyncio.sleep(0.1)


def main(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a batch script as the job's command; return its exit code. program: path of `sbatch`."""
    job = BatchJob(Path(program).parent, arguments[0], arguments[1:], dict(environment))
    return asyncio.run(run(job))
