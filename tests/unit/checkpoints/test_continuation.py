"""What ranks tell of their samples, against what they really used: simulated trainings that are killed,
resized and continued."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch

from muster import wire
from muster.sdk.sampler import ResumableSampler
from muster.sdk.samples import SampleLog
from muster_server.domain.checkpoints.continuation import (
    AttemptSamples,
    largest_difference,
    samples_after,
    trace,
    verdict,
)


class Loader:
    """A DataLoader of one process without workers, which has read ahead by some batches."""

    def __init__(self, sampler: ResumableSampler, batch_size: int, *, ahead: int) -> None:
        self.sampler, self.batch_size, self._ahead = sampler, batch_size, ahead

    def __iter__(self):
        samples = iter(self.sampler)
        queue: list[list[int]] = []
        while True:
            batch = [x for _, x in zip(range(self.batch_size), samples, strict=False)]
            if batch:
                queue.append(batch)
            if not queue:
                return
            if len(queue) > self._ahead or not batch:
                yield queue.pop(0)


@dataclass
class Rank:
    sampler: ResumableSampler
    log: SampleLog
    told: list[wire.SamplesRecord]
    used: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Saved:
    step: int
    states: dict
    used: list[tuple[int, int]]


def start(no, ranks, num_samples, batch_size, saved, *, drop_last):
    members = []
    for rank in range(ranks):
        told: list[wire.SamplesRecord] = []
        sampler = ResumableSampler(
            range(num_samples), ranks, rank, seed=7, drop_last=drop_last, shuffle=True
        )
        log = sampler._log = SampleLog(told.append, rank=rank, local_rank=rank)
        if saved is not None:
            sampler.load_state_dict(saved.states)
        members.append(Rank(sampler, log, told))
    return members


def steps(members: list[Rank], batch_size: int, epochs: int, ahead: int):
    """Let all ranks take a batch, again and again."""
    for epoch in range(members[0].sampler.epoch, epochs):
        for member in members:
            member.sampler.set_epoch(epoch)
        loaders = [m.sampler.over(Loader(m.sampler, batch_size, ahead=ahead)) for m in members]
        for batches in zip(*loaders, strict=True):
            for member, batch in zip(members, batches, strict=True):
                member.used += [(epoch, sample) for sample in batch]
            yield


@pytest.mark.parametrize("seed", range(60))
def test_an_interrupted_training_uses_every_sample_once(seed):
    rng = random.Random(seed)
    num_samples, batch_size, epochs = rng.randint(20, 60), rng.randint(1, 4), 3
    drop_last = rng.random() < 0.5
    saved: Saved | None = None
    attempts: list[AttemptSamples] = []
    used: list[tuple[int, int]] = []
    for no in range(1, 9):
        ranks = rng.randint(1, 4)
        members = start(no, ranks, num_samples, batch_size, saved, drop_last=drop_last)
        resume_step = saved.step if saved else 0
        step, kept = resume_step, list(saved.used) if saved else []
        lives = 10_000 if no == 8 else rng.randint(1, 25)
        for _ in steps(members, batch_size, epochs, ahead=rng.randint(0, 3)):
            step += 1
            if step % 5 == 0:
                states = [member.sampler.state_dict() for member in members]
                assert all(state == states[0] for state in states)
                members[0].log.saved(step)
                mine = [pair for member in members for pair in member.used]
                saved = Saved(step, states[0], kept + mine)
            lives -= 1
            if lives == 0:
                break
        is_over = lives > 0
        if is_over:
            for member in members:
                member.log.tell()
            used = kept + [pair for member in members for pair in member.used]
        attempts.append(
            AttemptSamples(
                no=no,
                world_size=ranks,
                resume_step=resume_step,
                records=[member.told[-1] for member in members if member.told],
            )
        )
        if is_over:
            break
    found = trace(attempts, is_complete=True)
    assert found is not None
    assert found.doubt is None
    assert found.is_proven, (found, verdict(found).english)
    counts = Counter(used)
    doubled = sum(n - 1 for n in counts.values())
    missing = epochs * num_samples - len(counts)
    assert found.num_used == epochs * num_samples
    assert doubled == found.num_padded
    assert missing == found.num_left_out
    assert verdict(found).english.startswith("Every sample was used once")


def told(rank=0, *, spans, saves=(), num=100, order="seed 0", ranks=1):
    return wire.SamplesRecord(
        rank=rank,
        local_rank=rank,
        spans=[
            wire.SampleSpan(
                first_epoch=a,
                first=b,
                last_epoch=c,
                last=d,
                num_samples=num,
                num_ranks=ranks,
                order=order,
            )
            for a, b, c, d in spans
        ],
        saves=[[*save[:3], 0, 0, *save[3:]] for save in saves],
    )


def attempt(no, *records, resume_step=0, world_size=None):
    return AttemptSamples(
        no=no, world_size=world_size or len(records), resume_step=resume_step, records=records
    )


FIRST = attempt(1, told(spans=[(0, 0, 1, 60)], saves=[(10, 0, 80), (15, 1, 40)]))


@pytest.mark.parametrize(
    ("second", "kind", "num", "sentence"),
    [
        (
            told(spans=[(1, 40, 1, 100)]),
            None,
            0,
            "Every sample was used once in each epoch: 200 in all",
        ),
        (
            told(spans=[(1, 0, 1, 100)]),
            "repeated",
            40,
            "40 samples were used more than once: in epoch 2, attempt 2",
        ),
        (
            told(spans=[(1, 60, 1, 100)]),
            "skipped",
            20,
            "20 samples were skipped: in epoch 2, attempt 2",
        ),
        (told(spans=[(1, 40, 1, 100)], order="seed 1"), "doubt", 0, "Not known: the samples of"),
        (told(spans=[(1, 40, 1, 90)], num=90), "doubt", 0, "Not known: the data set had 90"),
    ],
)
def test_what_a_script_does_wrong_is_said(second, kind, num, sentence):
    found = trace([FIRST, attempt(2, second, resume_step=15)], is_complete=True)
    assert found is not None
    assert verdict(found).english.startswith(sentence)
    assert found.is_proven == (kind is None)
    if kind not in (None, "doubt"):
        assert found.num[kind] == num


@pytest.mark.parametrize(
    ("attempts", "step", "num"),
    [
        ([FIRST], 10, 120),  # The five steps after it used 60.
        ([FIRST], 15, 120),  # The five steps before it did.
        ([attempt(1, told(spans=[(0, 0, 0, 90)], saves=[(10, 0, 80)]))], 10, 80),
        ([FIRST, attempt(2, told(spans=[(1, 40, 1, 60)]), resume_step=15)], 15, 120),
        (
            [
                FIRST,
                attempt(2, told(spans=[(1, 40, 1, 90)], saves=[(20, 1, 60)]), resume_step=15),
            ],
            20,
            40,
        ),
        # What is next to the checkpoint is not known: the newest that is.
        ([FIRST, attempt(2, told(spans=[(1, 80, 1, 90)]), resume_step=17)], 17, 120),
        ([attempt(1, told(spans=[(0, 0, 0, 60)]))], 10, None),
        ([attempt(1, told(spans=[]))], 10, None),
        ([], 10, None),
    ],
)
def test_how_many_samples_the_steps_after_a_checkpoint_have_used(attempts, step, num):
    assert samples_after(attempts, step, num_steps=10) == num


def test_a_fresh_start_forgets_what_was_before():
    found = trace([FIRST, attempt(2, told(spans=[(0, 0, 1, 100)]))], is_complete=True)
    assert found is not None
    assert found.is_proven
    assert (found.num_used, found.num_epochs, found.num_attempts) == (200, 2, 1)


def test_work_that_was_rolled_back_is_not_used_twice():
    records = told(spans=[(0, 80, 1, 100)])
    found = trace([FIRST, attempt(2, records, resume_step=10)], is_complete=True)
    assert found is not None
    assert found.is_proven
    assert found.num_used == 200


def test_an_attempt_that_was_taken_back_as_a_whole_counts_for_nothing():
    anew = attempt(2, told(spans=[(0, 0, 0, 60)]), resume_step=10)
    third = attempt(3, told(spans=[(0, 80, 1, 100)]), resume_step=10)
    found = trace([FIRST, anew, third], is_complete=True)
    assert found is not None
    assert found.is_proven, verdict(found).english
    assert found.num_attempts == 2


def test_a_rank_that_died_without_a_word_is_not_taken_for_granted():
    first = attempt(
        1,
        told(0, spans=[(0, 0, 0, 90)], saves=[(8, 0, 80)], ranks=2),
        told(1, spans=[(0, 0, 0, 60)], ranks=2),
    )
    second = attempt(2, told(spans=[(0, 80, 0, 100)]), resume_step=8)
    found = trace([first, second], is_complete=True)
    assert found is not None
    assert found.num == {"repeated": 0, "skipped": 0, "unconfirmed": 20}
    assert verdict(found).english.startswith("20 samples were not confirmed by every rank")
    assert found.num_ranks == (2, 1)


def test_a_checkpoint_of_unknown_samples_proves_nothing():
    found = trace(
        [FIRST, attempt(2, told(spans=[(1, 40, 1, 100)]), resume_step=12)], is_complete=True
    )
    assert found is not None
    assert not found.is_proven
    assert "step 12" in verdict(found).english


def test_a_rank_that_says_nothing_is_named_when_the_attempt_is_over():
    attempts = [attempt(1, told(spans=[(0, 0, 0, 100)]), world_size=2)]
    running = trace(attempts, is_complete=False)
    assert running is not None
    assert running.doubt is None
    over = trace(attempts, is_complete=True)
    assert over is not None
    assert "1 of 2 ranks" in verdict(over).english


def test_nothing_told_is_nothing_said():
    assert trace([attempt(1, told(spans=[]))], is_complete=True) is None


def test_the_order_is_that_of_torch():
    from torch.utils.data.distributed import DistributedSampler

    for rank in range(3):
        theirs = DistributedSampler(range(20), 3, rank, seed=5)
        mine = ResumableSampler(range(20), 3, rank, seed=5)
        for epoch in (0, 1):
            theirs.set_epoch(epoch)
            mine.set_epoch(epoch)
            assert list(mine) == list(theirs)


def test_wrong_use_is_refused():
    with pytest.raises(ValueError, match=r"rank: 3 is not in 0\.\.1"):
        ResumableSampler(range(4), 2, 3)
    with pytest.raises(ValueError, match="dataset: has no samples"):
        ResumableSampler([], 1, 0)
    sampler = ResumableSampler(range(4), 1, 0)
    list(torch.utils.data.DataLoader(range(4), sampler=sampler))
    with pytest.raises(RuntimeError, match="over"):
        sampler.state_dict()
    state = ResumableSampler(range(4), 1, 0).state_dict()
    with pytest.raises(ValueError, match="num_samples: the checkpoint has 4, this sampler 5"):
        ResumableSampler(range(5), 1, 0).load_state_dict(state)
    with pytest.raises(ValueError, match="batch_size"):
        next(sampler.over([1, 2]))


def test_steps_after_a_jump_back_are_forgotten_with_a_checkpoint_before_it():
    """The first attempt saved at 80, went back to 20 by itself, and was killed at 50."""
    jumped = attempt(1, told(spans=[(0, 0, 0, 80), (0, 20, 0, 50)], saves=[(8, 0, 80, 1)]))
    found = trace(
        [jumped, attempt(2, told(spans=[(0, 80, 0, 100)]), resume_step=8)], is_complete=True
    )
    assert found is not None
    assert found.is_proven, verdict(found).english
    # saved after the jump: 20 to 50 were used twice, and 50 to 80 are now
    jumped = attempt(1, told(spans=[(0, 0, 0, 80), (0, 20, 0, 50)], saves=[(11, 0, 50, 2)]))
    found = trace(
        [jumped, attempt(2, told(spans=[(0, 50, 0, 100)]), resume_step=11)], is_complete=True
    )
    assert found is not None
    assert found.num["repeated"] == 30 + 30


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("mine", "other", "found"),
    [
        ({}, {1: 0.5}, None),
        ({1: 0.5, 2: 0.25}, {1: 0.5, 2: 0.25, 3: 9.0}, (1, 0.0)),
        ({1: 0.5, 2: 0.25}, {1: 0.75, 2: 1.25}, (2, 1.0)),
        ({1: NAN, 2: INF}, {1: NAN, 2: INF}, (1, 0.0)),
        ({1: 0.5, 2: NAN}, {1: 0.5, 2: 0.5}, (2, INF)),
        ({1: INF}, {1: -INF}, (1, INF)),
    ],
)
def test_curves_are_compared_at_the_steps_they_share(mine, other, found):
    assert largest_difference(mine, other) == found
