"""The training loop, readable from top to bottom."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from muster.counting import counted
from muster.document.common import Length
from muster.document.train_config import Hold, TrainConfig
from muster.measure import comm
from muster.measure.timing import StepTimer
from muster.sdk.run import Run
from muster.sdk.samples import SampleLog
from muster.sdk.stops import StopNotice
from muster.training import (
    allocation,
    batch_finder,
    evaluation,
    flops,
    optimizers,
    schedules,
    state,
    strategies,
    tasks,
)
from muster.training.data.ahead import fetch_ahead
from muster.training.network_times import network_facts, time_network
from muster.training.saving.saver import Saver
from muster.training.stop_votes import StopVotes
from muster.training.strategies import parts
from muster.training.strategies.base import RankPosition, Strategy, Workload
from muster.training.tasks import Task
from muster.training.watching import EarlyStoppingWatch


def train(run: Run, config: TrainConfig) -> None:
    """Train until the planned length, or until Muster asks to stop. Every rank runs this."""
    rank, world_size = run.info.rank, run.info.world_size
    device = _device(run)
    if device.type == "cpu":
        allocation.keep_freed_memory()
    if world_size > 1:
        # Named, a GPU is connected to the others here and not in the first step.
        named = device if device.type == "cuda" else None
        dist.init_process_group(comm.backend(measure=config.measure_comm), device_id=named)
    try:
        train_in_group(run, config, device, rank, world_size)
    finally:
        run.flush(1.0)
        if world_size > 1:
            dist.destroy_process_group()


def train_in_group(
    run: Run, config: TrainConfig, device: torch.device, rank: int, world_size: int
) -> None:
    """Train in the default process group, which must exist where there are several workers."""
    with contextlib.closing(Saver(run, background=config.checkpoints.async_)) as saver:
        job = _prepare(run, config, device, rank, world_size)
        if job is not None:
            stop = _run_steps(job, saver)
            _finish(job, saver, stop)
        else:
            dist.barrier()  # until rank 0, which probes alone, is through


@dataclass(kw_only=True)
class _Job:
    """One training, ready for its first step."""

    run: Run
    config: TrainConfig
    device: torch.device
    world_size: int
    sharers: int
    """Workers that share this training: all of them, or one in a probe that runs alone."""
    task: Task
    strategy: Strategy
    training: state.TrainState
    timer: StepTimer
    num_steps: int
    held_at: float = 0.0
    """What was trained when the search was last asked, in the unit of `config.hold`."""

    @property
    def is_alone(self) -> bool:
        return self.sharers == 1

    @property
    def is_first_rank(self) -> bool:
        return self.run.info.rank == 0


def _prepare(
    run: Run, config: TrainConfig, device: torch.device, rank: int, world_size: int
) -> _Job | None:
    """Build model, optimizer and data, and continue from a checkpoint. None: this rank only waits."""
    probe = config.probe
    saved = state.to_continue(run)
    slots = config.slots or world_size
    config = batch_finder.settled(
        run, config, slots=slots, device=device, resumed_batch=state.global_batch_of(saved)
    )
    sharers = world_size
    if probe is not None and probe.kind == "alone":
        if rank > 0:
            return None
        sharers, slots = 1, 1
    global_batch = config.batch_size * slots * config.strategy.accumulate
    task = tasks.make(config, global_batch=global_batch)
    num_steps = planned_steps(config, task.steps_per_epoch, global_batch)
    config = schedules.settled(
        config, global_batch=global_batch, steps_per_epoch=task.steps_per_epoch
    )

    strategy = strategies.create(
        state.with_kept_cut(config.strategy, saved, slots=sharers),
        RankPosition(rank=rank, world_size=sharers, device=device),
        _workload(config, task, rank, global_batch),
    )
    strategy.exchanges = probe is None or probe.kind != "no_sync"
    model = task.model()
    flops_per_sample = (
        flops.flops_per_sample(model, strategy.workload.sample) if rank == 0 else None
    )
    strategy.prepare(model.to(device))
    optimizer = strategy.make_optimizer(lambda model: optimizers.build(config, model))
    training = state.TrainState(
        strategy=strategy,
        scheduler=_scheduler(config, optimizer, num_steps),
        global_batch=global_batch,
        steps_per_epoch=task.steps_per_epoch,
        seed=config.seed,
        watch=EarlyStoppingWatch.of(config.early_stopping),
        settings=parts.groups_of(optimizer),
    )
    # From here on ranks with different data draw different dropout masks; the model above is the
    # same on all of them, and what is computed on several ranks has to stay the same.
    state.seed_rank(config.seed, strategy.data_rank)
    if saved is not None:
        began = time.monotonic()
        state.restore(run, saved, training)
        run.log({"time/restore_ms": 1e3 * (time.monotonic() - began)}, step=training.step)
    took_weights = saved is None and state.take_weights(run, training)
    how = f"resumed at step {training.step}" if saved is not None else "starting"
    if took_weights:
        how += f" with the weights of {run.reporter.weights_at}"
    _announce(run, config, training, num_steps, how=how)

    timer = StepTimer(run=run, max_rows_per_s=config.rows_per_s)
    timer.describe(flops_per_sample=flops_per_sample, tokens_per_sample=task.tokens_per_sample)
    return _Job(
        run=run,
        config=config,
        device=device,
        world_size=world_size,
        sharers=sharers,
        task=task,
        strategy=strategy,
        training=training,
        timer=timer,
        num_steps=num_steps,
    )


def _workload(config: TrainConfig, task: Task, rank: int, global_batch: int) -> Workload:
    return Workload(
        loss=task.loss,
        measures=lambda outputs, y: {"train/accuracy": task.accuracy(outputs, y)},
        names=("train/loss", "train/accuracy"),
        sample=lambda num: task.batch(0, rank=0, world_size=global_batch // num),
        batch_size=config.batch_size,
        global_batch=global_batch,
        before_forward=lambda: _delay(config, rank, "forward"),
    )


def _run_steps(job: _Job, saver: Saver) -> StopNotice | None:
    """Train step by step. Returns the request to stop that ended it, if one did."""
    config, training, timer = job.config, job.training, job.timer
    probe, hold = config.probe, config.hold
    votes = StopVotes(
        job.run,
        job.strategy,
        training,
        is_alone=job.is_alone,
        is_coupled=not job.is_alone and (probe is None or probe.is_coupled),
    )
    # What was found is part of the curves, so that the trial's summary says it.
    facts = {"train/batch_size": float(config.batch_size)} if config.finds_batch_size else {}
    # A stop request that came during start-up is seen here, before any work.
    stop = job.run.should_stop(agree=not job.is_alone)
    is_first, is_over = True, False
    samples = _SampleCount.of(job)
    training.began_at = time.monotonic()
    job.held_at = training.trained(hold.unit) if hold else 0.0

    for x, y in timer.data(_batches(config, job.task, training, job.num_steps)):
        if stop or training.watch.verdict or is_over:
            break
        with timer.host_to_device():
            x, y = x.to(job.device), y.to(job.device)
        votes.begin()
        values = job.strategy.step(x, y, timer)
        training.step += 1
        timer.end_step(
            training.step,
            samples=len(x) if job.strategy.computes else 0,
            samples_of_all=training.global_batch,
            metrics={
                **values,
                **facts,
                "train/lr": training.scheduler.get_last_lr()[0],
                # The global batch of a training is one number: the first step's samples give all.
                **({"progress/samples": training.step * training.global_batch} if is_first else {}),
            },
            epoch=training.epoch,
            num_steps_planned=job.num_steps,
        )
        is_first = False
        if samples is not None:
            samples.stepped(training.step)
        training.scheduler.step()
        is_due = probe is None and _is_due(config, training, job.num_steps)
        stop = votes.end(timer, is_due=is_due)
        if probe is None:
            stop, is_over = _validate_and_save(job, saver, values, stop)
    votes.settle()
    job.run.reporter.samples.tell()
    return stop


@dataclass(frozen=True)
class _SampleCount:
    """Tells Muster which samples each step has used: that follows from its number."""

    log: SampleLog
    training: state.TrainState
    num_left_out: int
    """Samples of an epoch that make no whole batch."""

    @classmethod
    def of(cls, job: _Job) -> _SampleCount | None:
        """Return the count of a training that is about to go on; None where workers are not at the same
        step."""
        strategy, training = job.strategy, job.training
        if job.config.probe is not None or strategy.max_lead != 0:
            return None
        used = training.steps_per_epoch * training.global_batch
        count = cls(
            job.run.reporter.samples,
            training,
            job.task.num_samples - used,
        )
        count.log.place_of_step = training.place
        epoch, position = training.place(training.step)
        count.log.begin(
            epoch,
            position,
            num_samples=used,
            num_ranks=strategy.data_world_size,
            order=f"seed {job.config.seed} in batches of {training.global_batch}",
        )
        return count

    def stepped(self, step: int) -> None:
        epoch, position = self.training.place(step)
        self.log.reach(epoch, position)
        if position == 0:
            self.log.end_epoch(num_left_out=self.num_left_out)


def _validate_and_save(
    job: _Job, saver: Saver, values: dict[str, float], stop: StopNotice | None
) -> tuple[StopNotice | None, bool]:
    """Do what is due after a step: validate, ask the search, save a checkpoint.

    Returns the request to stop, if there is one by now, and whether the time for training is over.
    """
    config, training, timer = job.config, job.training, job.timer
    val: dict[str, float] = {}
    is_best = is_over = False
    if _is_validation_due(config, training, job.num_steps):
        with timer.pause():
            val = evaluation.validate(job.run, training, job.task, config)
        is_best = training.watch.observe(val, training.step)
        if job.is_first_rank:
            _report_validation(job.run, training, values, val, timer, job.num_steps)
        if config.max_s is not None:
            is_over = training.trained("seconds") >= config.max_s
        stop = stop or _ask_search(job)
    ends = stop or training.watch.verdict or is_over or training.step == job.num_steps
    if ends or (is_best and config.save_best) or _is_checkpoint_due(config, training):
        with timer.checkpoint():
            timer.flush()
            job.run.reporter.samples.tell()
            state.save(saver, job.run, training, val, stop=stop)
    return stop, is_over


def _ask_search(job: _Job) -> StopNotice | None:
    """Wait for the search's decision where the training has reached the next rung."""
    hold, training = job.config.hold, job.training
    if hold is None:
        return None
    before, job.held_at = job.held_at, training.trained(hold.unit)
    if not hold.is_due(before, job.held_at):
        return None
    job.timer.flush()
    with job.timer.pause():
        return _word_of_search(job.run, training, hold, alone=job.is_alone)


def _finish(job: _Job, saver: Saver, stop: StopNotice | None) -> None:
    """Report what is left after the last step, and test the model of a training that was not stopped."""
    run, config, training = job.run, job.config, job.training
    job.timer.flush()
    if config.probe is not None and job.world_size > 1:
        dist.barrier()  # nobody leaves while another still trains
    if config.time_network and config.probe is None and job.world_size > 1 and not stop:
        with job.timer.pause():
            times = time_network(job.device)
        if job.is_first_rank:
            facts = network_facts() if job.device.type == "cpu" else {}
            run.log(times | facts, step=training.step)
    saver.finish()
    if stop:
        _say(run, f"stopped at step {training.step} of {job.num_steps}: {stop.reason}")
        return
    if training.watch.verdict and job.is_first_rank:
        ended = f"ended early at step {training.step} of {job.num_steps}: {training.watch.verdict}"
        run.message(ended)
        _say(run, ended)
    if config.test:
        evaluation.test(run, training, job.task, best=config.save_best)


HOLD_POLL_S = 0.02


def _word_of_search(
    run: Run, training: state.TrainState, hold: Hold, *, alone: bool
) -> StopNotice | None:
    """Wait at a rung until this trial is told to leave, at most `hold.for_s`.

    A pause takes a second or two to arrive. A training whose epochs take less would be far past its
    rung by then, and have used slots that others were to have.
    """
    since = time.monotonic()
    until = since + hold.for_s
    while run.reporter.is_managed and run.reporter.stop_notice is None and time.monotonic() < until:
        time.sleep(HOLD_POLL_S)
    training.began_at += time.monotonic() - since
    return run.should_stop(agree=not alone)


def planned_steps(config: TrainConfig, steps_per_epoch: int, global_batch: int) -> int:
    """Optimizer steps of the whole training, unless its time is over before."""
    by_epochs = config.epochs * steps_per_epoch if config.epochs is not None else math.inf
    by_steps = config.steps if config.steps is not None else math.inf
    samples = config.max_samples
    by_samples = math.ceil(samples / global_batch) if samples is not None else math.inf
    return int(min(by_epochs, by_steps, by_samples))


def _batches(
    config: TrainConfig, task: Task, training: state.TrainState, num_steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """This rank's share of the global batch of each step that is left: inputs and targets."""
    strategy = training.strategy
    place = strategy.place

    if config.probe is not None and config.probe.kind == "synthetic":
        first = task.batch(
            training.step, rank=strategy.data_rank, world_size=strategy.data_world_size
        )
        return itertools.repeat(first, num_steps - training.step)

    def fetch(step: int) -> tuple[Tensor, Tensor]:
        batch = task.batch(
            step + training.num_skipped,
            rank=strategy.data_rank,
            world_size=strategy.data_world_size,
        )
        _delay(config, place.rank, "data_wait")
        return batch

    return fetch_ahead(fetch, range(training.step, num_steps), num=config.prefetch)


def _is_validation_due(config: TrainConfig, training: state.TrainState, num_steps: int) -> bool:
    every = config.validate_every or Length(epochs=1)
    return training.step == num_steps or every.is_due(training.step, training.steps_per_epoch)


def _is_checkpoint_due(config: TrainConfig, training: state.TrainState) -> bool:
    every = config.checkpoints.every
    return every is not None and every.is_due(training.step, training.steps_per_epoch)


def _is_due(config: TrainConfig, training: state.TrainState, num_steps: int) -> bool:
    """Return whether a validation or a checkpoint is due, which all ranks do together."""
    return _is_validation_due(config, training, num_steps) or _is_checkpoint_due(config, training)


def _device(run: Run) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", run.info.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _scheduler(
    config: TrainConfig, optimizer: torch.optim.Optimizer, num_steps: int
) -> torch.optim.lr_scheduler.LambdaLR:
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: schedules.factor(config, step, num_steps=num_steps)
    )


def _delay(config: TrainConfig, rank: int, phase: str) -> None:
    for injected in config.inject:
        if injected.rank == rank and injected.phase == phase:
            time.sleep(injected.ms / 1e3)


def _announce(
    run: Run, config: TrainConfig, training: state.TrainState, num_steps: int, *, how: str
) -> None:
    _say(
        run,
        f"{how}: {config.model} with {training.strategy.num_params:,} parameters on {config.data}, "
        f"global batch {training.global_batch} on {counted(run.info.world_size, 'worker')}, "
        f"{num_steps} steps, {training.steps_per_epoch} per epoch",
    )


def _report_validation(
    run: Run,
    training: state.TrainState,
    values: dict[str, float],
    val: dict[str, float],
    timer: StepTimer,
    num_steps: int,
) -> None:
    rate = timer.last.get("throughput/samples_per_s", math.nan)
    _say(
        run,
        f"epoch {training.epoch:6.2f}  step {training.step}/{num_steps}  "
        f"train/loss {values.get('train/loss', math.nan):.4f}  "
        f"{'  '.join(f'{name} {value:.4f}' for name, value in val.items())}  "
        f"{rate:,.0f} samples/s",
    )


def _say(run: Run, text: str) -> None:
    # Muster keeps the log of every rank apart; a bare torchrun mixes them.
    print(text if run.reporter.is_managed else f"[rank {run.info.rank}] {text}", flush=True)  # noqa: T201
