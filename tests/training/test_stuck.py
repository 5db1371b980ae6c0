"""Real ranks that hang in known ways: the one that holds up the others is named, and says where it is.

Three workers over gloo are started once. What they report is read by the parts of the shim, and
judged by the server's decision as if it had stood for longer.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster import wire
from muster_agent.jobs.process import identify
from muster_agent.shim.processes.workers import Worker
from muster_agent.shim.reporting.progress import Watching, take_stacks
from muster_agent.shim.reporting.reports import ReportServer
from muster_server.domain.runtime.stuck import (
    STILL_AFTER_S,
    Count,
    RankView,
    StuckVerdict,
    judge,
    judge_end,
)
from support.training.jobs import Job, start_job, wait_for

pytestmark = pytest.mark.torch

PATIENCE_S = 200.0
SCRIPT = Path(__file__).with_name("workers") / "holding.py"
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class World:
    """Three ranks, and a shim's view of them."""

    def __init__(self, folder: Path, *, is_measured: bool = True) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.stacks = folder / "stacks"
        self.stacks.mkdir()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.hellos: dict[int, wire.WorkerRecord] = {}
        self.reports = ReportServer(
            record=lambda *_: None,
            hello=lambda record: self.hellos.update({record.local_rank: record}),
            warn=lambda text: print(text, file=sys.stderr),
        )
        # A socket's path may be 107 bytes long.
        self.socket = Path(f"/tmp/muster-test-{os.getpid()}-{is_measured}.sock")
        self.call(self.reports.listen(self.socket))
        self.job: Job = start_job(
            folder / "job",
            workers=3,
            script=SCRIPT,
            document={"measure": {"comm": is_measured}},
            MUSTER_REPORT_SOCKET=str(self.socket),
            MUSTER_STACKS_DIR=str(self.stacks),
            HOLD_DIR=str(folder),
            TORCH_FR_DUMP_TEMP_FILE=str(folder / "rank-"),
        )
        wait_for(lambda: len(self.hellos) == 3, timeout_s=PATIENCE_S)
        self.workers = [
            Worker(self.hellos[rank], identify(self.hellos[rank].pid)) for rank in range(3)
        ]
        self.told: list[wire.ProgressRecord | wire.StacksRecord] = []
        self.watching = Watching(
            folder=self.stacks,
            alive=lambda: self.workers,
            reported=lambda: self.reports.progress,
            record=self.told.append,
            interval_s=0.0,
        )

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def look(self, stacks_no: int = 0) -> None:
        async def look() -> None:
            self.watching.look(stacks_no)

        self.call(look())

    def progress(self) -> list[wire.WorkerProgress]:
        """The newest there is."""
        self.look()
        return self.last().workers

    def judge(self) -> StuckVerdict:
        """What the server would say if this stayed so for a minute."""
        self.look()
        return judge(self.views(), [], now=NOW)

    def views(self) -> list[RankView]:
        return [
            RankView(
                rank=w.rank,
                node_name="n1",
                is_heard=True,
                reports=w.reports,
                process=w.process,
                moved_at=NOW - dt.timedelta(seconds=2 * STILL_AFTER_S),
                step=w.step,
                phase=w.phase,
                counts={
                    g.group: Count(
                        kind=g.kind,
                        num_enqueued=g.num_enqueued,
                        num_completed=g.num_completed,
                        source=g.source,
                    )
                    for g in w.groups
                },
                waits_for=w.waits_for,
                waits_kind=w.waits_kind,
            )
            for w in self.last().workers
        ]

    def last(self) -> wire.ProgressRecord:
        """The newest that was told."""
        return [r for r in self.told if isinstance(r, wire.ProgressRecord)][-1]

    def await_verdict(self, *blamed: tuple[int, str]) -> StuckVerdict:
        """Wait until these ranks, and what each does, are named: while the others are still on their way to
        where they stand, others may be, as `judge` takes none of them for moving."""
        found = self.judge()

        def is_said() -> bool:
            nonlocal found
            found = self.judge()
            return [(b.rank, b.kind) for b in found.blamed] == list(blamed)

        try:
            wait_for(is_said, timeout_s=PATIENCE_S)
        except AssertionError:
            raise AssertionError(found) from None
        return found

    def close(self) -> None:
        self.job.kill()
        self.call(self.reports.drain(timeout_s=10))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        self.socket.unlink()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("stuck"))
    yield found
    found.close()


@pytest.fixture
def unmeasured(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path / "stuck", is_measured=False)
    yield found
    found.close()


@pytest.fixture
def _moving(world: World) -> None:
    """Every test begins with ranks that train."""
    before = {w.rank: w.step or 0 for w in world.progress()} if world.told else {}
    wait_for(
        lambda: (
            len(now := world.progress()) == 3
            and all((w.step or 0) > before.get(w.rank, 0) for w in now)
        ),
        timeout_s=PATIENCE_S,
    )


@pytest.mark.usefixtures("_moving")
@pytest.mark.parametrize(("place", "rank", "kind"), [("forward", 1, "absent"), ("data", 0, "data")])
def test_the_rank_that_hangs_is_named_and_its_stack_says_where(
    world: World, place: str, rank: int, kind: str
) -> None:
    file = world.folder / f"{place}-{rank}"
    file.touch()
    try:
        world.await_verdict((rank, kind))
        # Which group they wait in is known once the second of the others has arrived.
        wait_for(lambda: [b.group for b in world.judge().blamed] == ["world"], timeout_s=PATIENCE_S)
        wait_for(
            lambda: "an all_reduce in which 2 others wait" in world.judge().reason,
            timeout_s=PATIENCE_S,
        )
        answers = take_stacks([w.identity for w in world.workers], world.stacks)
    finally:
        file.unlink()
    for number, answer in enumerate(answers):
        assert answer.problem == ""
        assert ("in hold" if number == rank else "in all_reduce") in answer.text


@pytest.mark.usefixtures("_moving")
def test_a_stopped_rank_is_named_and_is_sent_no_signal(world: World) -> None:
    worker = world.workers[2]
    assert worker.identity is not None
    os.kill(worker.identity.pid, signal.SIGSTOP)
    try:
        world.await_verdict((2, "stopped"))
        (answer,) = take_stacks([worker.identity], world.stacks)
        assert answer.text or "stopped by a signal" in answer.problem
    finally:
        os.kill(worker.identity.pid, signal.SIGCONT)


@pytest.mark.usefixtures("_moving")
def test_ranks_that_train_go_on_when_they_are_asked_and_nobody_is_named(world: World) -> None:
    before = world.progress()
    world.look(stacks_no=1)
    wait_for(
        lambda: sum(isinstance(r, wire.StacksRecord) for r in world.told) == 3,
        timeout_s=PATIENCE_S,
    )
    world.look(stacks_no=1)  # asked once more for the same time: nothing happens
    wait_for(
        lambda: all(
            (n.step or 0) > (b.step or 0) + 20
            for n, b in zip(world.progress(), before, strict=True)
        ),
        timeout_s=PATIENCE_S,
    )
    taken = [r for r in world.told if isinstance(r, wire.StacksRecord)]
    assert sorted((r.no, r.rank) for r in taken) == [(1, 0), (1, 1), (1, 2)]
    assert all("holding.py" in r.text for r in taken)


def test_the_recorder_alone_tells_which_rank_has_skipped_which_collective(
    unmeasured: World,
) -> None:
    wait_for(lambda: len(now := unmeasured.progress()) == 3 and all(w.step for w in now))
    (unmeasured.folder / "forward-1").touch()
    wait_for(lambda: all(g.source for w in unmeasured.progress() for g in w.groups))
    groups = {w.rank: w.groups for w in unmeasured.progress()}
    assert [len(found) for found in groups.values()] == [1, 1, 1]
    (here,), (late,), (other,) = (groups[rank] for rank in range(3))
    assert (here.group, here.kind, here.num_enqueued) == ("world", "all_reduce", other.num_enqueued)
    assert here.num_completed == late.num_enqueued == late.num_completed == here.num_enqueued - 1
    verdict = unmeasured.judge()
    assert [(b.rank, b.kind, b.group) for b in verdict.blamed] == [(1, "absent", "world")], verdict
    no = SCRIPT.read_text().splitlines().index("            dist.all_reduce(torch.ones(8))") + 1
    line = f"holding.py:{no} in main"
    assert f"has not called collective {here.num_enqueued} of world" in verdict.reason
    assert f"an all_reduce in which 2 others wait at {line}: it is in its forward pass" in (
        verdict.reason
    )
    assert f"the last one it called is at {line}." in verdict.reason

    # As after a time-out: every rank dumps, then all end.
    (unmeasured.folder / "dump").touch()
    files = [unmeasured.folder / f"rank-{rank}" for rank in range(3)]
    wait_for(lambda: all(file.exists() for file in files))
    unmeasured.job.kill()
    unmeasured.told.clear()
    files[2].write_bytes(b"cos\nsystem\n(S'touch /tmp/harm'\ntR.")  # a job may write anything
    unmeasured.watching.tell_dumps(
        lambda rank: files[rank], unmeasured.workers, base=unmeasured.folder
    )
    assert [(w.rank, w.groups) for w in unmeasured.last().workers] == [(0, [here]), (1, [late])]
    ended = judge_end(unmeasured.views(), [])
    assert ended is not None
    assert (ended.state, [b.rank for b in ended.blamed]) == ("over", [1])
    assert f"an all_reduce in which 1 other waits at {line}" in ended.reason
