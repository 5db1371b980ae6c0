"""Whether a training that was interrupted used every sample once: from what its ranks were given in each
attempt, and where its checkpoints were saved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from muster.wire import SampleSpan, SamplesRecord

from ..messages import Message

STRETCHES_MAX = 20
"""Number of stretches that are listed of each kind; all are counted."""

Kind = Literal["repeated", "skipped", "unconfirmed"]


@dataclass(frozen=True, kw_only=True)
class AttemptSamples:
    """What the ranks of an attempt have said."""

    no: int
    world_size: int
    resume_step: int
    """Step of the checkpoint that it went on from; 0 without one."""
    records: Sequence[SamplesRecord]
    """Newest record of each rank, in the order of ranks."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Consecutive positions of an epoch, from `start` to before `stop`, that were not used exactly once as
    far as known."""

    kind: Kind
    attempt_no: int
    """Attempt that used them again, went on behind them, or did not confirm them."""
    epoch: int
    start: int
    stop: int

    @property
    def num(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """Samples that the present state of a training has used."""

    num_samples: int
    """Samples of an epoch."""
    num_epochs: int
    """Complete epochs since the training began."""
    num_used: int
    """Positions that were used, each counted once."""
    num_ranks: tuple[int, ...]
    """Number of ranks that samples were dealt to, in the order of attempts, equal ones once."""
    num_attempts: int
    """Attempts whose work the present state contains, and the last one."""
    stretches: tuple[Stretch, ...]
    """At most STRETCHES_MAX of each kind."""
    num: dict[Kind, int] = field(default_factory=dict)
    """Number of positions of each kind, listed or not."""
    num_padded: int = 0
    num_left_out: int = 0
    doubt: Message | None = None
    """Why nothing can be proven, whatever the stretches say."""

    @property
    def is_proven(self) -> bool:
        """Whether every position between the first and the last was used once."""
        return self.doubt is None and not any(self.num.values())


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """Positions on the line of all epochs, which one attempt has used and the present state contains."""

    attempt_no: int
    span_no: int
    """Number of spans of its attempt before it."""
    start: int
    stop: int
    confirmed: int
    """Position up to which all ranks have said so."""


def trace(attempts: Sequence[AttemptSamples], *, is_complete: bool) -> Continuation | None:
    """Return what the attempts of a training, in order, have used. None if none of them said anything.

    is_complete: whether the last attempt ended well, so that all its ranks have said all.
    """
    pieces: list[_Piece] = []
    lineage: list[AttemptSamples] = []
    evened: list[tuple[int, int]] = []
    doubt: Message | None = None
    for attempt in attempts:
        has_told = any(record.spans for record in attempt.records)
        if attempt.resume_step == 0 and has_told:
            pieces, lineage, evened, doubt = [], [], [], None
        elif attempt.resume_step and lineage:
            save = _save_of(attempt.resume_step, lineage)
            if save is None:
                doubt = doubt or Message(
                    "continuation.unknown_save", no=attempt.no, step=attempt.resume_step
                )
                if not has_told:
                    continue
                cut, num_spans = _reference(attempt).spans[0].begin, None
            else:
                cut, num_spans = save.position, save.num_spans
                evened = [*evened[: save.index], (save.num_padded, save.num_left_out)]
                lineage = lineage[: save.index + 1]
            pieces = _before(pieces, cut, attempt_no=lineage[-1].no, num_spans=num_spans)
        if not has_told:
            continue
        pieces += _pieces(attempt)
        lineage.append(attempt)
        reference = _reference(attempt)
        evened.append((reference.num_padded, reference.num_left_out))
        is_over = is_complete or attempt is not attempts[-1]
        doubt = doubt or _doubt(attempt, _reference(lineage[0]).spans[0], is_over=is_over)
    if not lineage:
        return None
    found = _summary(pieces, lineage, doubt, is_complete=is_complete)
    return replace(
        found,
        num_padded=sum(padded for padded, _ in evened),
        num_left_out=sum(left_out for _, left_out in evened),
    )


def samples_after(attempts: Sequence[AttemptSamples], step: int, *, num_steps: int) -> int | None:
    """Return how many samples these steps after a checkpoint have used, over all ranks; None where what was
    told does not say.

    Steps are taken to use equally many: as many as those next to the checkpoint for which both ends are known.
    """
    pairs: list[tuple[bool, int, int]] = []
    for attempt in attempts:
        told = next((record for record in attempt.records if record.spans), None)
        if told is None:
            continue
        ends = [(attempt.resume_step, told.spans[0].begin)]
        ends += [(s, e * told.spans[0].num_samples + p) for s, e, p, *_ in told.saves]
        pairs += [
            (step in (first, last), later - sooner, last - first)
            for (first, sooner), (last, later) in itertools.pairwise(ends)
            if last > first and later > sooner
        ]
    if not pairs:
        return None
    _, num, of_steps = max(reversed(pairs), key=lambda pair: pair[0])
    return round(num * num_steps / of_steps)


def _reference(attempt: AttemptSamples) -> SamplesRecord:
    return next(record for record in attempt.records if record.spans)


def _doubt(attempt: AttemptSamples, first: SampleSpan, *, is_over: bool) -> Message | None:
    """Return why nothing can be said across attempts."""
    silent = attempt.world_size - sum(bool(record.spans) for record in attempt.records)
    if silent > 0 and is_over:
        return Message("continuation.silent", no=attempt.no, num=silent, of=attempt.world_size)
    for record in attempt.records:
        if record.num_spans_cut:
            return Message("continuation.cut", no=attempt.no, rank=record.rank)
        for span in record.spans:
            if span.num_samples != first.num_samples:
                return Message(
                    "continuation.other_data",
                    no=attempt.no,
                    num=span.num_samples,
                    before=first.num_samples,
                )
            if span.order != first.order:
                return Message(
                    "continuation.other_order", no=attempt.no, order=span.order, before=first.order
                )
    return None


@dataclass(frozen=True, kw_only=True)
class _Save:
    """A checkpoint, as the rank that wrote it told of it."""

    index: int
    """Index of its attempt in the lineage."""
    position: int
    """Position on the line of all epochs."""
    num_spans: int | None
    """Number of spans of its attempt until then; None where it was not told."""
    num_padded: int
    num_left_out: int


def _save_of(step: int, lineage: Sequence[AttemptSamples]) -> _Save | None:
    """Return the newest checkpoint of `step`; None if nobody told of it."""
    for index, attempt in reversed(list(enumerate(lineage))):
        num_samples = _reference(attempt).spans[0].num_samples
        for record in attempt.records:
            for at, epoch, position, num_padded, num_left_out, *num_spans in reversed(record.saves):
                if at == step:
                    return _Save(
                        index=index,
                        position=epoch * num_samples + position,
                        num_spans=num_spans[0] if num_spans else None,
                        num_padded=num_padded,
                        num_left_out=num_left_out,
                    )
    return None


def _pieces(attempt: AttemptSamples) -> list[_Piece]:
    """Return the spans of an attempt. Ranks train in step, so that one of them tells how far all are; but
    only what each has told is confirmed."""
    spans = _reference(attempt).spans
    pieces: list[_Piece] = []
    for i, span in enumerate(spans):
        same = [record.spans[i] for record in attempt.records if i < len(record.spans)]
        stops = [other.end for other in same]
        is_heard = len(same) == len(attempt.records)
        pieces.append(
            _Piece(
                attempt_no=attempt.no,
                span_no=i,
                start=span.begin,
                stop=max(stops),
                confirmed=min(stops) if is_heard else span.begin,
            )
        )
    return pieces


def _before(
    pieces: Sequence[_Piece], cut: int, *, attempt_no: int, num_spans: int | None
) -> list[_Piece]:
    """Return what a checkpoint at `cut` contains, which an attempt saved in its span number `num_spans`;
    None if that was not told: then it is taken to have gone back nowhere. The last piece may contain more
    than was told."""
    kept: list[_Piece] = []
    for piece in pieces:
        is_last = num_spans is None or (piece.attempt_no, piece.span_no) == (
            attempt_no,
            num_spans - 1,
        )
        is_behind = num_spans is not None and piece.span_no >= num_spans
        if piece.attempt_no > attempt_no or (piece.attempt_no == attempt_no and is_behind):
            continue
        if not is_last:
            kept.append(piece)
        elif piece.start < cut:
            stop = min(piece.stop, cut)
            kept.append(replace(piece, stop=stop, confirmed=min(piece.confirmed, stop)))
    return kept


def _summary(
    pieces: Sequence[_Piece],
    lineage: Sequence[AttemptSamples],
    doubt: Message | None,
    *,
    is_complete: bool,
) -> Continuation:
    num_samples = _reference(lineage[0]).spans[0].num_samples
    found: list[Stretch] = []
    num: dict[Kind, int] = {"repeated": 0, "skipped": 0, "unconfirmed": 0}
    newest = lineage[-1].no

    def note(kind: Kind, piece: _Piece, start: int, stop: int) -> None:
        if stop <= start:
            return
        num[kind] += stop - start
        for at in range(start // num_samples, -(-stop // num_samples)):
            if sum(stretch.kind == kind for stretch in found) < STRETCHES_MAX:
                found.append(
                    Stretch(
                        kind=kind,
                        attempt_no=piece.attempt_no,
                        epoch=at,
                        start=max(start - at * num_samples, 0),
                        stop=min(stop - at * num_samples, num_samples),
                    )
                )

    origin = at = pieces[0].start if pieces else 0
    for piece in pieces:
        note("skipped", piece, at, piece.start)
        note("repeated", piece, piece.start, min(at, piece.stop))
        if is_complete or piece.attempt_no != newest:  # else its ranks are still on their way
            note("unconfirmed", piece, piece.confirmed, piece.stop)
        at = max(at, piece.stop)
    ranks: list[int] = []
    for attempt in lineage:
        for span in _reference(attempt).spans:
            if not ranks or ranks[-1] != span.num_ranks:
                ranks.append(span.num_ranks)
    return Continuation(
        num_samples=num_samples,
        num_epochs=at // num_samples - -(-origin // num_samples) if at > origin else 0,
        num_used=at - origin - num["skipped"],
        num_ranks=tuple(ranks),
        num_attempts=len(lineage),
        stretches=tuple(found),
        num=num,
        doubt=doubt,
    )


def verdict(found: Continuation) -> Message:
    """Say in a sentence what was found."""
    if found.doubt is not None:
        return found.doubt
    first: dict[Kind, Stretch] = {}
    for stretch in found.stretches:
        first.setdefault(stretch.kind, stretch)
    if (one := first.get("repeated")) is not None:
        num = found.num["repeated"]
        return Message("continuation.repeated", num=num, epoch=one.epoch + 1, no=one.attempt_no)
    if (one := first.get("skipped")) is not None:
        num = found.num["skipped"]
        return Message("continuation.skipped", num=num, epoch=one.epoch + 1, no=one.attempt_no)
    if (one := first.get("unconfirmed")) is not None:
        num = found.num["unconfirmed"]
        return Message("continuation.unconfirmed", num=num, epoch=one.epoch + 1, no=one.attempt_no)
    return Message(
        "continuation.proven", num=found.num_used, restarts=max(found.num_attempts - 1, 0)
    )


def largest_difference(
    mine: Mapping[int, float], other: Mapping[int, float]
) -> tuple[int, float] | None:
    """Return the step at which two curves differ most, and by how much; None if they share no step. Two values
    that are NaN, or the same infinity, are equal; NaN differs from every other value without bound."""
    found: tuple[int, float] | None = None
    for step in sorted(mine.keys() & other.keys()):
        a, b = mine[step], other[step]
        is_same = a == b or (math.isnan(a) and math.isnan(b))
        by = 0.0 if is_same else abs(a - b)
        by = math.inf if math.isnan(by) else by
        if found is None or by > found[1]:
            found = step, by
    return found
