"""Steps on a device, whose events tell times that the test sets: no device is needed."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from muster.measure import comm, device_time
from muster.measure.device_time import MAX_PENDING, TIMED_EVERY, DeviceTimer
from muster.measure.step_sums import PHASES
from muster.measure.timing import StepTimer
from muster.sdk.env import RankInfo, Surroundings, TrialConfig
from muster.sdk.reporter import Reporter
from muster.sdk.run import Run
from muster.sdk.sinks import FileSink


class Device:
    """Does things at the times it is told."""

    def __init__(self):
        self.now_ms = self.reached_ms = 0.0
        """What is recorded next is done then; so far is what was done."""
        self.num_events = 0

    def event(self):
        self.num_events += 1
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, device):
        self.device, self.at_ms = device, None

    def record(self):
        self.at_ms = self.device.now_ms

    def query(self):
        return self.at_ms <= self.device.reached_ms

    def elapsed_time(self, end):
        return end.at_ms - self.at_ms


def one_step(device, timer, no=0, *, messages=()):
    """forward 10 ms, backward 30 ms, optimizer 5 ms; messages: (sent, received) in ms."""
    began = device.now_ms
    timer.begin_step(no, "other")
    times = [(0.0, "forward"), (10.0, "backward"), (40.0, "optimizer"), (45.0, "other")]
    for at_ms, phase in times:
        device.now_ms = began + at_ms
        timer.mark(phase)
        if phase == "backward":
            for sent_ms, received_ms in messages:
                device.now_ms = began + sent_ms
                end = timer.begin_collective("all_reduce", 4_000_000, "world")
                if end is not None:
                    device.now_ms = began + received_ms
                    end()
    device.now_ms = began + 45.0
    timer.end_step()


def test_a_step_is_read_when_the_device_has_done_it():
    device = Device()
    timer = DeviceTimer(device.event)
    one_step(device, timer)
    device.reached_ms = 44.0
    assert timer.finished() == []
    device.reached_ms = 45.0
    (step,) = timer.finished()
    assert step.step_ns == 45_000_000
    assert [(s.phase, (s.end - s.start) / 1e6) for s in step.segments] == [
        ("forward", 10.0),
        ("backward", 30.0),
        ("optimizer", 5.0),
    ]
    assert step.use is None
    assert timer.finished() == []


def test_what_backward_waits_for_is_exposed_and_the_rest_overlapped():
    device = Device()
    timer = DeviceTimer(device.event)
    # The second bucket is ready at 25 ms, when the first is still on its way: it is sent from 28 on.
    one_step(device, timer, messages=[(15.0, 28.0), (25.0, 40.0)])
    device.reached_ms = 45.0
    (step,) = timer.finished()
    use = step.use
    assert use is not None
    assert (use.total, use.exposed) == (25_000_000, 12_000_000)
    assert (use.count, use.num_bytes) == (2, 8_000_000)
    assert use.kinds["world", "all_reduce"].time == 25_000_000


def test_a_pause_is_no_part_of_a_step():
    device = Device()
    timer = DeviceTimer(device.event)
    timer.begin_step(0, "forward")
    device.now_ms = 10.0
    timer.mark(device_time.NO_PHASE)
    device.now_ms = 1000.0
    timer.mark("backward")
    device.now_ms = device.reached_ms = 1020.0
    timer.end_step()
    assert timer.finished()[0].step_ns == 30_000_000


def test_few_steps_cost_events_and_a_device_far_behind_is_not_waited_for():
    device = Device()
    timer = DeviceTimer(device.event)
    for no in range(1, TIMED_EVERY):
        one_step(device, timer, no)
    assert device.num_events == 0
    device.reached_ms = -1.0
    for no in range(MAX_PENDING + 3):
        one_step(device, timer, no * TIMED_EVERY)
    assert timer.finished() == []
    assert timer.num_forgotten == 3
    device.reached_ms = device.now_ms
    assert len(timer.finished()) == MAX_PENDING


@pytest.mark.torch
def test_the_hook_of_ddp_changes_no_gradient(tmp_path, monkeypatch):
    device = Device()
    timer = DeviceTimer(device.event)
    monkeypatch.setattr(device_time, "current", timer)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        expected = torch.autograd.grad(model(torch.ones(3, 4)).sum(), model.weight)[0]
        parallel = DistributedDataParallel(model)
        parallel.register_comm_hook(None, comm.timed_hook())
        timer.begin_step(0, "forward")
        loss = parallel(torch.ones(3, 4)).sum()
        timer.mark("backward")
        device.now_ms = 1.0
        loss.backward()
        device.now_ms = device.reached_ms = 5.0
        timer.end_step()
        assert torch.equal(model.weight.grad, expected)
        (step,) = timer.finished()
        assert step.use is not None
        assert (step.use.count, step.use.num_bytes) == (1, 4 * 10)
    finally:
        dist.destroy_process_group()


def test_rows_tell_what_the_device_did(tmp_path, monkeypatch):
    """The host tells it all at once; parts come when it is done, and sum to its step."""
    device = Device()
    device.reached_ms = 1e9
    timer = DeviceTimer(device.event)
    monkeypatch.setattr("muster.measure.timing.device_timer", lambda: timer)
    sink = FileSink(str(tmp_path / "reports"), rank=0, local_rank=0)
    trial = TrialConfig(hparams={}, config={}, seed=0)
    run = Run(Reporter(Surroundings(info=RankInfo()), sink, trial))
    steps = StepTimer(run=run, max_rows_per_s=0)
    rows = []
    for step in range(1, 2 * TIMED_EVERY + 2):
        for phase, took_ms in (("forward", 10.0), ("backward", 20.0), ("optimizer", 5.0)):
            with steps.phase(phase):
                device.now_ms += took_ms
        steps.end_step(step)
        rows.append(steps.last)
    timed = [row for row in rows if "time/forward_ms" in row]
    # The first step begins before a device is known to be in use; its parts are the host's.
    assert len(timed) == 3
    for row in timed[1:]:
        assert row["time/step_ms"] == pytest.approx(35.0)
        assert row["time/backward_ms"] == pytest.approx(20.0)
        assert sum(row[f"time/{part}_ms"] for part in PHASES) == pytest.approx(35.0)
