"""The process that calls the model, and what starts it again when it dies.

A model may crash or hang on a row, and take its process with it. So it runs in a process of its own, which
is forked from one that has imported torch already, and says after each micro-batch what came of it. The
worker therefore knows where a process died, goes on from there in a new one, and, when a micro-batch has
killed several, has its rows predicted one by one to find the one that does.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import TYPE_CHECKING, Any

from muster import wire

from .inputs import BadInput
from .predictor_settings import PredictorSettings
from .rows import BadRow, ShardRows, name_of_row, read_shard

if TYPE_CHECKING:
    from .predictor import Predictor

DEATHS_MAX = 3
"""Deaths of the process in one micro-batch, or in one row of it, before it is looked at more closely."""
DEATHS_AT_START_MAX = 3
"""Deaths of the process before it has predicted anything."""
ERROR_MAX_CHARS = 500
AHEAD = 2
"""Shards that the process has at a time: one that it computes, and one that it goes on with."""


@dataclass(frozen=True, kw_only=True)
class ShardJob:
    """A shard for the computing process."""

    no: int
    token: int
    shard: ShardRows
    batch_size: int
    key: str | None


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What came of some rows."""

    no: int
    token: int
    lines: bytes
    """Predictions as JSON lines."""
    num_rows: int
    errors: bytes
    """Rows in error as JSON lines."""
    num_errors: int
    is_last: bool


class ComputingFailed(Exception):
    """The job cannot go on; the message is a sentence for people."""


@dataclass(kw_only=True)
class _ShardProgress:
    """How far a shard is, so that a new process goes on from there."""

    job: ShardJob
    batch: int = 0
    """Micro-batch that is computed, from 0."""
    row: int = 0
    """Row of it, where rows are predicted one by one."""
    deaths: int = 0
    """Deaths in this micro-batch, or in this row."""
    is_single: bool = False
    """Whether the rows of this micro-batch are predicted one by one."""
    skipped: dict[int, str] = field(default_factory=dict)
    """Rows of this micro-batch that are not predicted any more, and why."""


class Computing:
    """The computing process, seen from the worker. Not for several threads."""

    def __init__(self, settings: PredictorSettings) -> None:
        self._settings = settings
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["muster.inference.batch.predictor"])
        self._process: ForkServerProcess | None = None
        self._pipe: Connection | None = None
        self._shards: deque[_ShardProgress] = deque()
        self._deaths_at_start = 0
        self._is_ready = False

    @property
    def has_room(self) -> bool:
        return len(self._shards) < AHEAD

    @property
    def is_idle(self) -> bool:
        return not self._shards

    @property
    def is_ready(self) -> bool:
        """Whether the process has loaded the model."""
        return self._is_ready

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process if there is none, with the shards that the last one had."""
        if self._process is not None:
            return
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(
            target=compute, args=(theirs, self._settings), daemon=True
        )
        self._process.start()
        theirs.close()
        self._is_ready = False
        for progress in self._shards:
            self._send(progress)

    def add(self, job: ShardJob) -> None:
        progress = _ShardProgress(job=job)
        self._shards.append(progress)
        self._send(progress)

    def poll(self, timeout_s: float) -> Finished | None:
        """Wait for what comes next, or until a process has died and another is started. Raises
        ComputingFailed."""
        assert self._pipe is not None
        try:
            if not self._pipe.poll(timeout_s):
                return None
            message = json.loads(self._pipe.recv_bytes())
            lines, errors = self._pipe.recv_bytes(), self._pipe.recv_bytes()
        except (EOFError, OSError):
            self._bury()
            return None
        return self._take(message, lines, errors)

    def kill(self) -> None:
        """Kill the process: it hangs. What it computed counts as what it died of."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _take(self, message: dict[str, Any], lines: bytes, errors: bytes) -> Finished | None:
        if message["kind"] == "failed":
            raise ComputingFailed(message["text"])
        if message["kind"] == "ready":
            self._is_ready = True
            return None
        self._deaths_at_start = 0
        progress = self._shards[0]
        progress.deaths = 0
        if progress.is_single and not message["ends_batch"]:
            progress.row = message["row"] + 1
        else:
            progress.batch, progress.row = progress.batch + 1, 0
            progress.is_single, progress.skipped = False, {}
        if message["is_last"]:
            self._shards.popleft()
        return Finished(
            no=progress.job.no,
            token=progress.job.token,
            lines=lines,
            num_rows=message["num_rows"],
            errors=errors,
            num_errors=message["num_errors"],
            is_last=message["is_last"],
        )

    def _send(self, progress: _ShardProgress) -> None:
        if self._pipe is None:
            return
        message = {
            **asdict(progress.job),
            "batch": progress.batch,
            "row": progress.row,
            "is_single": progress.is_single,
            "skipped": progress.skipped,
        }
        try:
            self._pipe.send_bytes(json.dumps(message).encode())
        except OSError:
            return  # It has died, which the next poll finds out.

    def _bury(self) -> None:
        """Note that the process has died, decide how its micro-batch goes on, and start another."""
        process, self._process = self._process, None
        assert process is not None
        process.join()
        how = describe_exit(process.exitcode)
        if not self._is_ready:
            self._deaths_at_start += 1
            if self._deaths_at_start >= DEATHS_AT_START_MAX:
                raise ComputingFailed(f"The model could not be loaded: its process {how}.")
        elif self._shards:
            _note_death(self._shards[0], how)
        self.start()


def _note_death(progress: _ShardProgress, how: str) -> None:
    progress.deaths += 1
    if progress.deaths < DEATHS_MAX:
        return
    progress.deaths = 0
    if progress.is_single:
        progress.skipped[progress.row] = f"the process {how} when it predicted this row"
    else:
        progress.is_single, progress.row = True, 0


def describe_exit(code: int | None) -> str:
    """Return how a process has ended, to follow its name."""
    if code is not None and code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"exited with {code}"


# ---------------------------------------------------------------- the process itself


def compute(pipe: Connection, settings: PredictorSettings) -> None:
    """Predict the shards that come through the pipe until it ends."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # The worker ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        from .predictor import make_predictor

        predict = make_predictor(settings)
        _answer(pipe, {"kind": "ready"})
        while True:
            message = json.loads(pipe.recv_bytes())
            _compute_shard(pipe, predict, message)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # The worker has ended.
    except Exception as error:
        if not isinstance(error, BadInput) and not _is_expected(error):
            traceback.print_exc(file=sys.stderr)
        _answer(pipe, {"kind": "failed", "text": _one_line(error, with_type=False)})


def _is_expected(error: Exception) -> bool:
    from muster.document.train_config import ConfigError
    from muster.inference.loading import CannotLoad

    return isinstance(error, ConfigError | CannotLoad)


def _answer(
    pipe: Connection, message: dict[str, Any], lines: bytes = b"", errors: bytes = b""
) -> None:
    pipe.send_bytes(json.dumps(message).encode())
    pipe.send_bytes(lines)
    pipe.send_bytes(errors)


def _compute_shard(pipe: Connection, predict: Predictor, message: dict[str, Any]) -> None:
    shard = wire.load(ShardRows, message["shard"])
    size, batch_no = message["batch_size"], message["batch"]
    encode = RowEncoder(shard, key=message["key"])
    skipped = {int(row): problem for row, problem in message["skipped"].items()}
    num_batches = -(-shard.num_rows // size)
    rows = read_shard(shard)
    for _ in itertools.islice(rows, batch_no * size):
        pass
    for no in range(batch_no, num_batches):
        batch = list(itertools.islice(rows, size))
        if no == num_batches - 1:
            for _ in rows:  # Ends the reader, which looks at the file once more.
                raise BadInput(f"{shard.file.path} has more rows than when the job began.")
        first = shard.first_row + no * size
        is_last = no == num_batches - 1
        if no == batch_no and message["is_single"]:
            for row in range(message["row"], len(batch)):
                one = batch[row : row + 1]
                known = skipped.get(row)
                results = _predict_rows(predict, one) if known is None else [BadRow(problem=known)]
                ends = row == len(batch) - 1
                _send_results(
                    pipe,
                    encode(first + row, one, results),
                    {"row": row, "ends_batch": ends, "is_last": ends and is_last},
                )
            continue
        _send_results(
            pipe,
            encode(first, batch, _predict_rows(predict, batch)),
            {"row": 0, "ends_batch": True, "is_last": is_last},
        )


def _send_results(
    pipe: Connection, encoded: tuple[list[bytes], list[bytes]], message: dict[str, Any]
) -> None:
    lines, errors = encoded
    counts = {"num_rows": len(lines), "num_errors": len(errors)}
    _answer(pipe, {"kind": "rows", **message, **counts}, b"".join(lines), b"".join(errors))


def _predict_rows(predict: Predictor, rows: list[Any]) -> list[Any]:
    """Return a prediction or a BadRow for each row. When a whole micro-batch fails, its rows are predicted
    one by one, to find the ones that do."""
    good = [row for row in rows if not isinstance(row, BadRow)]
    found: Iterator[Any] = iter(_call(predict, good))
    return [row if isinstance(row, BadRow) else next(found) for row in rows]


def _call(predict: Predictor, rows: list[Any]) -> list[Any]:
    if not rows:
        return []
    try:
        results = list(predict(rows))
        if len(results) != len(rows):
            raise ValueError(f"{len(results):,} predictions were returned for {len(rows):,} rows")
    except Exception as error:
        if _is_expected(error):
            raise
        if len(rows) == 1:
            return [BadRow(problem=_one_line(error))]
        return [result for row in rows for result in _call(predict, [row])]
    return results


def _one_line(error: Exception, *, with_type: bool = True) -> str:
    text = " ".join(str(error).split())
    return (f"{type(error).__name__}: {text}" if with_type else text)[:ERROR_MAX_CHARS]


class RowEncoder:
    """Makes lines of predictions and of errors."""

    def __init__(self, shard: ShardRows, *, key: str | None) -> None:
        self._shard = shard
        self._key = key

    def __call__(
        self, first: int, rows: list[Any], results: list[Any]
    ) -> tuple[list[bytes], list[bytes]]:
        """Return the lines of predictions, and those of errors.

        first: number of the first row in its file.
        results: a prediction or a BadRow for each row."""
        lines: list[bytes] = []
        errors: list[bytes] = []
        for number, row, result in zip(itertools.count(first), rows, results, strict=False):
            problem = result.problem if isinstance(result, BadRow) else ""
            if not problem:
                try:
                    lines.append(_line({**self._identity(number, row), "prediction": result}))
                except (KeyError, TypeError, ValueError, RecursionError) as error:
                    problem = f"the prediction cannot be written as JSON: {_one_line(error)}"
                    if isinstance(error, KeyError):
                        problem = f"it has no column {self._key!r}, which predict.key names"
            if problem:
                place = {"file": name_of_row(self._shard, row), "row": number}
                errors.append(_line({**place, "error": problem}))
        return lines, errors

    def _identity(self, number: int, row: Any) -> dict[str, Any]:
        if self._key is None:
            return {"file": name_of_row(self._shard, row), "row": number}
        if not isinstance(row, dict):
            raise KeyError(self._key)
        return {self._key: row[self._key]}


def _line(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain)
    return text.encode() + b"\n"


def _plain(value: Any) -> Any:
    """Return numbers and lists for a tensor or an array. Raises TypeError."""
    convert: Callable[[], Any] | None = getattr(value, "tolist", None)
    if convert is None:
        raise TypeError(f"{type(value).__name__} is neither a number, text, list nor object")
    return convert()
