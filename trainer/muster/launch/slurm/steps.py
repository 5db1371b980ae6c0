"""Steps on the first node: which may start, on which nodes their tasks are, and how each has ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .channel import FINISH_TIMEOUT_S, Channel
from .layout import JobNode, NodeTasks, StepLayout, capacities, lay_out, task_variables
from .options import StepOptions, StepRefused
from .tasks import TaskHost

_SIGNALED = 128


@dataclass
class Member:
    """A node of the job as the first one sees it; `channel` is None for the first one itself."""

    node: JobNode
    channel: Channel | None
    free_cpus: int = 0
    free_gpus: list[str] = field(default_factory=list)


@dataclass
class _Step:
    number: int
    options: StepOptions
    layout: StepLayout
    srun: Channel
    taken: dict[int, tuple[NodeTasks, list[str]]] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    """Ranks of the tasks that have not ended."""
    code: int = 0
    words: list[str] = field(default_factory=list)
    is_ending: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Steps:
    """All steps of a job."""

    def __init__(
        self, host: TaskHost, members: Sequence[Member], environment: Mapping[str, str]
    ) -> None:
        """Create none yet. environment: of the batch script, without what it sets itself."""
        self._host = host
        self._members = members
        self._environment = environment
        self._steps: dict[int, _Step] = {}
        self._count = 0
        self._freed = asyncio.Condition()
        self._serving: set[asyncio.Task[None]] = set()
        self._is_over = False
        self._outputs = (
            {_identity(os.fstat(2)): "stderr", _identity(os.fstat(1)): "stdout"}
            if host.logs
            else {}
        )
        """Where the job's own output goes: tasks write there into a log of their own."""
        nodes = [member.node for member in members]
        for member, cpus in zip(members, capacities(environment, nodes), strict=True):
            member.free_cpus, member.free_gpus = cpus, list(member.node.devices)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run the step of one srun, until all of its tasks have ended or srun has."""
        srun = Channel(reader, writer)
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        request = await srun.read()
        if request is not None:
            try:
                await self._run(srun, request)
            except StepRefused as error:
                srun.send({"event": "refused", "words": str(error), "word": error.word})
        await srun.finish()

    async def wait(self) -> None:
        """Wait until every srun has taken the end of its step, FINISH_TIMEOUT_S at most. None starts any
        more."""
        async with self._freed:
            self._is_over = True
            self._freed.notify_all()
        if self._serving:
            await asyncio.wait(self._serving, timeout=FINISH_TIMEOUT_S)

    async def _run(self, srun: Channel, request: dict[str, Any]) -> None:
        options = StepOptions(**request["options"])
        nodes = [member.node for member in self._members]
        layout = lay_out(options, nodes, request["environment"])
        number, self._count = self._count, self._count + 1
        step = self._steps[number] = _Step(number, options, layout, srun)
        listening: asyncio.Task[None] | None = None
        try:
            await self._take(step)
            step.left = set(range(layout.num_tasks))
            order = self._order(step, request)
            for part in range(len(layout.parts)):
                await self._start(step, part, order)
            # Only now: input would reach a node before the tasks that read it.
            listening = asyncio.create_task(self._listen(step))
            await step.ended.wait()
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])
            del self._steps[number]
            await self._give_back(step)
        for words in step.words:
            srun.send({"event": "say", "words": words})
        srun.send({"event": "end", "code": step.code})
        await srun.drain()

    # ------------------------------------------------------------ what a step takes

    async def _take(self, step: _Step) -> None:
        """Wait until what the step takes is free, and take it."""
        async with self._freed:
            if not self._fits(step):
                words = "srun: the step waits until other steps have ended"
                step.srun.send({"event": "say", "words": words})
            await self._freed.wait_for(lambda: self._is_over or self._fits(step))
            if self._is_over:
                raise StepRefused("the job has ended", "it was asked to stop")
            for part in step.layout.parts:
                member = self._members[part.node]
                gpus = (
                    [member.free_gpus.pop(0) for _ in range(part.gpus or 0)]
                    if self._counts(step)
                    else list(member.node.devices[: part.gpus])
                )
                step.taken[part.node] = (part, gpus)
                if self._counts(step):
                    member.free_cpus -= part.cpus

    def _fits(self, step: _Step) -> bool:
        if not self._counts(step):
            return True
        return all(
            self._members[part.node].free_cpus >= part.cpus
            and len(self._members[part.node].free_gpus) >= (part.gpus or 0)
            for part in step.layout.parts
        )

    @staticmethod
    def _counts(step: _Step) -> bool:
        return not (step.options.overlaps or step.options.overcommits)

    async def _give_back(self, step: _Step) -> None:
        async with self._freed:
            for node, (part, gpus) in step.taken.items():
                if self._counts(step):
                    self._members[node].free_cpus += part.cpus
                    self._members[node].free_gpus = sorted(
                        [*self._members[node].free_gpus, *gpus],
                        key=self._members[node].node.devices.index,
                    )
            self._freed.notify_all()

    # ------------------------------------------------------------ its tasks

    def _order(self, step: _Step, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what every node is told of a step. Only the variables that the script has changed
        are passed on: those of a node are its own."""
        given: Mapping[str, str] = request["environment"]
        exported = step.options.export
        changed = {k: v for k, v in given.items() if self._environment.get(k) != v}
        unset = sorted(self._environment.keys() - given.keys())
        if "ALL" not in exported:
            changed, unset = {k: given[k] for k in exported if k in given}, []
        changed |= dict(word.split("=", 1) for word in exported if "=" in word)
        return {
            "step": step.number,
            "argv": list(step.options.argv),
            "folder": request["folder"],
            "umask": request["umask"],
            "stdin": request["stdin"],
            "set": {k: v for k, v in changed.items() if not k.startswith("SLURM_STEP")},
            "unset": unset,
            "places": dict(self._host.places),
            "streams": {
                number: self._outputs.get(tuple(identity), "")
                for number, identity in request["outputs"].items()
            },
        }

    async def _start(self, step: _Step, index: int, order: Mapping[str, Any]) -> None:
        part = step.layout.parts[index]
        member = self._members[part.node]
        nodes = [one.node for one in self._members]
        _, gpus = step.taken[part.node]
        tasks = []
        for local, rank in enumerate(part.ranks):
            variables = task_variables(
                step.layout, nodes, index, local, step_id=step.number, options=step.options
            )
            if part.gpus is not None:
                each = step.options.gpus_per_task
                own = gpus[local * each : (local + 1) * each] if each is not None else gpus
                variables["CUDA_VISIBLE_DEVICES"] = ",".join(own)
            tasks.append({"rank": rank, "local": local, "variables": variables})
        message = {**order, "tasks": tasks}
        if member.channel is None:
            await self._host.start(message, self.take)
        else:
            member.channel.send({"event": "start", "order": message})

    async def _listen(self, step: _Step) -> None:
        """Pass on what srun is given; when it is gone, end its step."""
        while (message := await step.srun.read()) is not None:
            if message["event"] == "stdin":
                self._send(step, {"event": "stdin", "step": step.number, "data": message["data"]})
            elif message["event"] == "signal":
                self._send(
                    step, {"event": "signal", "step": step.number, "number": message["number"]}
                )
        self.end(step)

    def _send(self, step: _Step, message: dict[str, Any]) -> None:
        for part in step.layout.parts:
            channel = self._members[part.node].channel
            if channel is not None:
                channel.send(message)
            else:
                obey(self._host, message)

    def end(self, step: _Step) -> None:
        """End the tasks of a step that are left."""
        step.is_ending = True
        self._send(step, {"event": "end", "step": step.number})

    def take(self, message: dict[str, Any]) -> Any:
        """Take what a node says of a task."""
        step = self._steps.get(message["step"])
        if step is None:
            return None
        if message["event"] == "out":
            step.srun.send(message)
            return step.srun.drain()
        self._ended(step, message["rank"], message["status"], message["words"])
        return None

    def _ended(self, step: _Step, rank: int, status: int, words: str) -> None:
        step.left.discard(rank)
        code = status if status >= 0 else _SIGNALED - status
        step.code = max(step.code, code)
        if status:
            part = next(part for part in step.layout.parts if rank in part.ranks)
            how = f"exited with code {status}" if status > 0 else f"was killed by {_name(-status)}"
            said = f"srun: error: {self._members[part.node].node.name}: task {rank} {how}"
            # The first failure is the cause of the others: it is said last.
            place = 0 if step.is_ending or len(step.words) > 0 else len(step.words)
            step.words.insert(place, f"{said}: {words}" if words else said)
        if not step.left:
            step.ended.set()
        elif status and step.options.kills_on_bad_exit and not step.is_ending:
            self.end(step)
        elif step.options.wait_s and len(step.left) == step.layout.num_tasks - 1:
            asyncio.get_running_loop().call_later(step.options.wait_s, self._stop_waiting, step)

    def _stop_waiting(self, step: _Step) -> None:
        if step.left and not step.is_ending:
            step.words.insert(
                0, "srun: a task has ended and others have not for as long as --wait says"
            )
            self.end(step)

    def lose(self, member: Member) -> None:
        """Note that a node is gone: its tasks have failed."""
        index = self._members.index(member)
        for step in list(self._steps.values()):
            for part in step.layout.parts:
                if part.node == index:
                    for rank in set(part.ranks) & step.left:
                        self._ended(step, rank, 1, "the connection to its node was lost")


def obey(host: TaskHost, message: Mapping[str, Any]) -> None:
    """Do what the first node orders about tasks that run."""
    if message["event"] == "stdin":
        host.feed(message["step"], message["data"])
    elif message["event"] == "signal":
        host.signal(message["number"], message["step"])
    elif message["event"] == "end":
        _background(host.end(message["step"]))


_tasks: set[asyncio.Task[None]] = set()


def _background(work: Any) -> None:
    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
