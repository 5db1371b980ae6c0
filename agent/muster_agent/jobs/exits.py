"""Why an allocation ended: one word for programs and one sentence for people. Pure."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from muster.launch.commands import BATCH
from muster.launch.last_words import last_words
from muster.wire import ExitInfo, WorkerExit
from muster_agent.jobs.advice import HowStarted, advise, port_in_use, says_port_in_use

LOG_TAIL_LINES = 40
_MAX_MESSAGE_CHARS = 2_000

Cause = Literal[
    "user_error", "killed_by_signal", "out_of_memory", "disk_full", "launcher_failed", "port_in_use",
    "invalid_hparams", "limit_exceeded", "cannot_run",
]  # fmt: skip

_OUT_OF_MEMORY = re.compile(
    r"\bMemoryError\b|OutOfMemoryError|CUDA out of memory|can't allocate memory|Cannot allocate memory"
)
_DISK_FULL = re.compile(r"\[Errno (28|122)\]|No space left on device|Disk quota exceeded")
_FILE_TOO_LARGE = re.compile(r"\[Errno 27\]|File too large|File size limit exceeded")
_BLAMES_PEER = re.compile(
    r"[Cc]onnection (closed|reset|refused|was closed|was reset)|Broken pipe|closed by (remote|peer)"
    r"|Socket [Tt]imeout|client socket has (timed out|failed)|[Tt]imed out waiting \d+ ?ms"
    r"|Application timeout caused pair closure|recvValue failed|failed to recv, got 0 bytes"
    r"|ncclRemoteError|remote process exited|collective operation timeout|NCCL communicator was aborted"
    r"|Rendezvous(Timeout|Connection|Closed)Error|wait timeout after \d+ms"
)
"""Messages of gloo, NCCL and the rendezvous store when another worker is gone or does not answer.
"""
SHORT_S = 10.0
"""Seconds within which a job that prints and reports nothing has hardly done anything."""
TEARDOWN_MS = 10_000
"""Milliseconds by which a worker may outlive its connections: others may fail from the loss and
exit first."""
_TRACEBACK = "Traceback (most recent"
_ABORTED_AT_EXIT = "terminate called without"
_INVALID_HPARAMS = re.compile(r"^([\w.]+\.)?InvalidHyperparameters\b")
"""Name of `muster.InvalidHyperparameters`, or of a script's own exception of that name."""
_CHILD_KILLED = re.compile(
    r"DataLoader worker \(pid[^)]*\) (is killed by signal: Killed|exited unexpectedly)"
    r"|BrokenProcessPool|died with <Signals\.SIGKILL"
)
"""Messages of a process of which a child was killed, or may have been."""
_SURELY_KILLED = re.compile(r"is killed by signal: Killed|died with <Signals\.SIGKILL")
_TASK_FAILED = re.compile(r"\btask \d+ exited with code \d+")
"""What srun (muster.launch.slurm) prints of the task for which it ends the others."""
_LAUNCHER_ERROR = re.compile(
    r"^(torch\.distributed\.elastic\.\S+\.ChildFailedError|subprocess\.CalledProcessError)\b", re.M
)
"""Exceptions of launchers whose workers have failed."""
_SHELLS_SIGNAL = 128
_NOT_STARTED = (126, 127)
"""Exit codes of what stands between us and a launcher (walls, limits) when there is no such program, or
it is closed to the job's user: it will be so the next time."""
_TORCHRUN_FAILURE = re.compile(
    r"rank\s*: (?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)\s+"
    r"exitcode\s*: (?P<exit_code>-?\d+) \(pid: (?P<pid>\d+)\)"
)


@dataclass(frozen=True, kw_only=True)
class WorkerEnd:
    """What is known about one worker after everything has ended."""

    local_rank: int
    rank: int
    pid: int = 0
    exit_code: int | None = None
    signal: int | None = None
    """Signal that ended the worker. If `exit_code` is None too, it ended well or its end is
    unknown."""
    at_ms: int = 0
    error: str = ""
    """Exception that ended the worker, by its own word: by muster.launch.uncaught or torch's
    `record`."""
    stderr_tail: str = ""


@dataclass(frozen=True, kw_only=True)
class ExitEvidence:
    """All facts that the classification of an exit uses."""

    launcher: Literal["torchrun", "direct", "plain", "shell", "the workers' keeper"]
    """Launcher of the workers, or the warm parent's keeper."""
    script: str = ""
    """Command of launcher "shell", which is the user's own; "" for any other."""
    num_slots: int = 1
    slot_type: str = "cpu"
    work_dir: str = ""
    """Folder with what was sent; "" before it is there."""
    run_dir: str = ""
    """Folder in which the job runs, the same or one in it."""
    own_ports: Collection[int] = ()
    """Ports that were chosen for the job, and not by its script."""
    port_holder: str = ""
    """Who holds the port that the job could not have, such as "trial 7 of experiment 3"; "" if that
    is not known."""
    workers: Sequence[WorkerEnd]
    launcher_exit_code: int | None = None
    launcher_signal: int | None = None
    launcher_tail: str = ""
    stop: Literal["", "stop", "kill", "node"] = ""
    """How the end was requested, if it was; "node" means by this node (its agent ended, a lease
    expired) and not by the server."""
    stop_reason: str = ""
    stop_at_ms: int = 0
    site_stop_at_ms: int = 0
    """Unix time at which all processes of the node were told to end; 0 if they were not."""
    is_forced: bool = False
    """Whether the processes were killed because they outlived the grace period."""
    stop_grace_s: float = 0.0
    num_oom_kills_here: int = 0
    """Out-of-memory kills that the kernel counted in this allocation's own cgroup."""
    num_oom_kills_on_node: int = 0
    """Out-of-memory kills that the kernel counted on the whole node during the run."""
    engine_failure: str = ""
    """Why the engine of the job's container, and not the job, is the cause of the end, as a clause; ""
    if it is not."""
    rendezvous_failure: str = ""
    """Why the store in which the launchers find each other has ended by itself, as a clause; "" if it
    has not."""
    limit: str = ""
    """Limit of the job that it has exceeded, in words; "" if it kept them."""
    limit_at_ms: int = 0
    file_limit: str = ""
    """What to say where a file of the job has met the bound of its size; "" if there is none."""
    num_survivors: int = 0
    """Number of processes that survived SIGKILL."""
    num_leftovers: int = 0
    """Number of processes that the last worker or the script left behind."""
    uncaught: str = ""
    """Exception that ended a Python process shortly before the end, by muster.launch.uncaught."""
    silent_s: float | None = None
    """Seconds that the job ran if it printed, reported and wrote nothing, else None."""
    unix_at_boot_ms: float | None = None
    """Offset of all times in this object; see wire.ExitInfo."""


def classify_exit(ending: ExitEvidence) -> ExitInfo:
    """Return the cause of the end. Of several failed workers, the one that failed first is the
    cause."""
    ends = sorted(ending.workers, key=lambda w: w.local_rank)
    exits = [_worker_exit(ending, w) for w in ends]
    failed = [w for w in ends if _has_failed(w)]
    first = _first_failure(failed)
    info = _verdict(ending, first)
    if advice := _advice(ending, info, first):
        info = replace(info, message=_cut(f"{info.message.rstrip('.')}. {advice}"))
    tail_of = first.stderr_tail if first is not None else ending.launcher_tail
    failure = _worker_exit(ending, first) if first is not None else None
    if advice and failure is not None:
        failure = replace(failure, message=_cut(f"{failure.message.rstrip('.')}. {advice}"))
    if ending.limit and info.cause == "limit_exceeded" and ends:
        # What became of the workers afterwards is the shim's doing.
        failure = replace(
            exits[0], at_ms=ending.limit_at_ms, message=info.message, blames_peer=False
        )
    info = replace(
        info,
        workers=exits,
        first_failure=failure,
        log_tail=[] if info.cause == "success" else tail_of.splitlines()[-LOG_TAIL_LINES:],
        unix_at_boot_ms=ending.unix_at_boot_ms,
    )
    # Why it has ended is known all the same.
    return replace(info, message=info.message + survivor_words(ending.num_survivors))


def survivor_words(number: int) -> str:
    """Return what to add to a reason where processes have survived SIGKILL; "" if none has."""
    if not number:
        return ""
    return f"; {number} process{'es' if number > 1 else ''} did not die of SIGKILL"


def _advice(ending: ExitEvidence, info: ExitInfo, first: WorkerEnd | None) -> str:
    """Return what the user can do about the failure, as a sentence without its full stop; "" if
    nothing is known to mend it."""
    if info.cause != "user_error":
        return ""
    words = [_words(first), first.stderr_tail] if first is not None else [ending.launcher_tail]
    if any(map(says_port_in_use, words)) and (port := port_in_use(words)):
        holder = ending.port_holder or "another process"
        return (
            f"Port {port}, which the script has chosen, is in use on this node by {holder}: let the "
            "script take a free one, or run one at a time (`max_concurrent: 1`)"
        )
    started = HowStarted(
        launcher=ending.launcher if ending.launcher != "the workers' keeper" else "torchrun",
        num_slots=ending.num_slots,
        slot_type=ending.slot_type,
        work_dir=ending.work_dir,
        run_dir=ending.run_dir,
    )
    advice = advise(started, words[0] if first is not None else last_words(words[0]))
    return advice[:1].upper() + advice[1:]


def _is_port_ours(ending: ExitEvidence, *texts: str) -> bool:
    """Return whether a port that was taken may be one that was chosen for the job. A plain process
    is given none; a text that names no port leaves it open."""
    port = port_in_use(texts)
    return ending.launcher != "plain" and (not port or port in ending.own_ports)


def _first_failure(failed: Sequence[WorkerEnd]) -> WorkerEnd | None:
    """Return the earliest failure, unless it blames another worker that ended soon after it."""
    # SIGTERM nearly always comes from the launcher, which cleans up after the first failure.
    earliest = min(failed, key=lambda w: (w.signal == signal.SIGTERM, w.at_ms), default=None)
    if earliest is None or not blames_peer(earliest):
        return earliest
    others = [
        w
        for w in failed
        if w.signal != signal.SIGTERM
        and w.at_ms - earliest.at_ms <= TEARDOWN_MS
        and not blames_peer(w)
    ]
    return min(others, key=lambda w: w.at_ms, default=earliest)


def blames_peer(worker: WorkerEnd) -> bool:
    """Return whether the last output of a worker blames another one. NCCL's watchdog ends a process
    by SIGABRT, after many lines."""
    if worker.signal == signal.SIGABRT:
        return _BLAMES_PEER.search(worker.stderr_tail) is not None
    words = _words(worker)
    is_own_child = _CHILD_KILLED.search(words) is not None
    return worker.signal is None and not is_own_child and _BLAMES_PEER.search(words) is not None


def _verdict(ending: ExitEvidence, first: WorkerEnd | None) -> ExitInfo:
    code, number = ending.launcher_exit_code, ending.launcher_signal
    # A batch system that ends a job sends SIGTERM to all of its processes at once: to the workers,
    # and to the agent or to us, by which the stop comes.
    is_same_end = (
        first is not None
        and first.signal == signal.SIGTERM
        and ending.stop_at_ms - first.at_ms <= TEARDOWN_MS
    )
    if (
        first is not None
        and ending.stop
        and 0 < first.at_ms < ending.stop_at_ms
        and not is_same_end
    ):
        # It failed by itself; the stop arrived while the launcher was still cleaning up. This is
        # the rule in a gang: another node notices the failure before the worker's own launcher
        # ends.
        return _verdict_of_worker(ending, first)
    if ending.limit:
        return ExitInfo(cause="limit_exceeded", message=ending.limit)
    if ending.stop == "node" and ending.site_stop_at_ms:
        return ExitInfo(
            cause="stopped",
            message=_sentence("ended with its node", ending),
            exit_code=code,
            signal=number,
            site_stop_at_ms=ending.site_stop_at_ms,
        )
    if ending.stop == "node":
        # Neither the user nor the script caused it, so it counts as an infrastructure failure.
        return ExitInfo(cause="shim_lost", message=_sentence("ended by its node", ending))
    if ending.stop == "kill":
        return ExitInfo(cause="killed", message=_sentence("killed", ending), signal=signal.SIGKILL)
    if ending.stop == "stop":
        if ending.is_forced:
            did_not = f"did not end within {ending.stop_grace_s:g} s after being asked to"
            return ExitInfo(
                cause="killed",
                message=_sentence(f"killed: it {did_not}", ending),
                signal=signal.SIGKILL,
            )
        return ExitInfo(
            cause="stopped", message=_sentence("stopped", ending), exit_code=code, signal=number
        )
    if ending.engine_failure:
        return ExitInfo(
            cause="launcher_failed",
            message=_cut(ending.engine_failure),
            exit_code=code,
            signal=number,
        )
    if first is not None and not _was_ended_by_srun(ending, first):
        return _verdict_of_worker(ending, first)
    if ending.rendezvous_failure and (code != 0 or number is not None):
        return ExitInfo(
            cause="launcher_failed",
            message=_cut(ending.rendezvous_failure),
            exit_code=code,
            signal=number,
        )
    if (code or 0) == 0 and number is None:
        message = "every worker exited with code 0"
        return ExitInfo(cause="success", message=message, exit_code=0, doubt=_doubt(ending))
    if ending.script:
        return _verdict_of_script(ending)
    if says_port_in_use(ending.launcher_tail):
        cause: Cause = "port_in_use"
    elif code in _NOT_STARTED:
        cause = "cannot_run"
    else:
        cause = "launcher_failed"
    said = last_words(ending.launcher_tail)
    how = f"was killed by {signal_name(number)}" if number else f"exited with code {code}"
    return ExitInfo(
        cause=cause,
        message=_cut(f"{ending.launcher} {how}" + (f": {said}" if said else "")),
        exit_code=code,
        signal=number,
    )


def _was_ended_by_srun(ending: ExitEvidence, worker: WorkerEnd) -> bool:
    """Return whether srun ended the worker because a task that is not a worker here had failed: the
    script's last words name that one."""
    is_killed = worker.signal in (signal.SIGTERM, signal.SIGKILL)
    return is_killed and bool(ending.script) and bool(_TASK_FAILED.search(ending.launcher_tail))


def _doubt(ending: ExitEvidence) -> str:
    """Return what makes an end with exit code 0 doubtful, as a clause; "" for nothing."""
    if ending.uncaught:
        # A pipeline's exit code is that of its last command, `tee`.
        return f"a Python process of the job ended with {_cut(ending.uncaught)}"
    if ending.script and ending.num_leftovers:
        num = ending.num_leftovers
        what = "1 process was" if num == 1 else f"{num} processes were"
        return f"{what} still running in the background and had to be killed: `wait` for them"
    if ending.silent_s is not None and ending.silent_s < SHORT_S:
        return f"it ran for {ending.silent_s:.1f} s, and printed, reported and wrote nothing"
    return ""


def _verdict_of_worker(ending: ExitEvidence, first: WorkerEnd) -> ExitInfo:
    message = _cut(f"rank {first.rank} {_how(ending, first)}")
    words = _words(first)
    cause: Cause = "user_error"
    if ending.file_limit and first.signal == signal.SIGXFSZ:
        return ExitInfo(cause="limit_exceeded", message=ending.file_limit, signal=first.signal)
    if first.signal is not None and not _exception_before_abort(first):
        is_oom = first.signal == signal.SIGKILL and _has_kernel_killed(ending)
        cause = "out_of_memory" if is_oom else "killed_by_signal"
    elif _INVALID_HPARAMS.match(words):
        cause = "invalid_hparams"
    elif _CHILD_KILLED.search(words):
        cause, why = _verdict_of_child(ending, first)
        message = _cut(message + why)
    elif _OUT_OF_MEMORY.search(words):
        cause = "out_of_memory"
    elif ending.file_limit and _FILE_TOO_LARGE.search(words):
        return ExitInfo(
            cause="limit_exceeded", message=ending.file_limit, exit_code=first.exit_code
        )
    elif _DISK_FULL.search(words):
        cause = "disk_full"
    elif (
        says_port_in_use(words)
        # Without torchrun the workers bind the port themselves; the error is raised below a long
        # traceback.
        or (ending.launcher != "torchrun" and says_port_in_use(first.stderr_tail))
    ) and _is_port_ours(ending, words, first.stderr_tail):
        cause = "port_in_use"
    return ExitInfo(cause=cause, message=message, exit_code=first.exit_code, signal=first.signal)


def _verdict_of_child(ending: ExitEvidence, worker: WorkerEnd) -> tuple[Cause, str]:
    """Return the cause of a failure for which a process blames its own child, and what to add to it."""
    if _has_kernel_killed(ending):
        return "out_of_memory", (
            ". The kernel's out-of-memory killer was at work on this node: give the job more memory, "
            "fewer loader workers (num_workers) or smaller batches"
        )
    # torch's last exception is "exited unexpectedly", raised from the one that says how.
    if _SURELY_KILLED.search(_words(worker)) or _SURELY_KILLED.search(worker.stderr_tail):
        return "killed_by_signal", (
            ". The kernel counted no out-of-memory kill: look for what killed that process in the "
            "node's system log (systemd-oomd, earlyoom, a person)"
        )
    return "user_error", ""


def _verdict_of_script(ending: ExitEvidence) -> ExitInfo:
    """Return the verdict on a command that failed while none of its known workers did."""
    code, number = ending.launcher_exit_code, ending.launcher_signal
    words = last_words(without_launchers(ending.launcher_tail)).removeprefix("srun: error: ")
    is_by_srun = _TASK_FAILED.search(ending.launcher_tail) is not None
    # As Slurm's, its code is the highest, which may be that of a task it ended for another one.
    if number is None and code is not None and code > _SHELLS_SIGNAL and not is_by_srun:
        number, code = code - _SHELLS_SIGNAL, None  # How a shell passes on a signal.
    is_oom = number == signal.SIGKILL and _has_kernel_killed(ending)
    cause: Cause = "killed_by_signal" if number is not None else "user_error"
    if ending.file_limit and (number == signal.SIGXFSZ or _FILE_TOO_LARGE.search(words)):
        return ExitInfo(
            cause="limit_exceeded", message=ending.file_limit, exit_code=code, signal=number
        )
    if is_oom or (number is None and _OUT_OF_MEMORY.search(words)):
        cause = "out_of_memory"
    elif number is None and _DISK_FULL.search(words):
        cause = "disk_full"
    elif number is None and _INVALID_HPARAMS.match(words):
        cause = "invalid_hparams"
    elif says_port_in_use(words) and _is_port_ours(ending, words, ending.launcher_tail):
        cause = "port_in_use"
    how = f"was killed by {signal_name(number)}" if number else f"exited with code {code}"
    command = ending.script if len(ending.script) <= 60 else ending.script[:59] + "…"
    return ExitInfo(
        cause=cause,
        message=_cut(f"`{command}` {how}" + (f": {words}" if words else "")),
        exit_code=code,
        signal=number,
    )


def shown_command(argv: Sequence[str]) -> str:
    """Return a command as a person knows it; of a batch script that is the script."""
    return shlex.join(argv[1:] if argv[0] == BATCH else argv)


def without_launchers(output: str) -> str:
    """Return the output without the tracebacks at its end in which a launcher says that a worker
    has failed: what the worker said comes before them."""
    while True:
        start = output.rfind(_TRACEBACK)
        if start < 0 or not _LAUNCHER_ERROR.search(output, start):
            return output
        output = output[:start]


def _how(ending: ExitEvidence, worker: WorkerEnd) -> str:
    """Return how a failed worker ended, as the predicate after "rank 3 …"."""
    words = _words(worker)
    if worker.signal is None:
        return f"exited with code {worker.exit_code}" + (f": {words}" if words else "")
    if exception := _exception_before_abort(worker):
        return f"ended with {exception}"
    if worker.signal == signal.SIGABRT and _ABORTED_AT_EXIT in worker.stderr_tail:
        return (
            "was killed by SIGABRT when its script was over: a C++ thread (gloo's, with torch 2.13) "
            "still needed Python while that ended; let the script wait at its end: time.sleep(0.5)"
        )
    if worker.signal != signal.SIGKILL:
        return f"was killed by {signal_name(worker.signal)}"
    if _has_kernel_killed(ending):
        return (
            "was killed by SIGKILL while the kernel's out-of-memory killer was at work on this "
            "node: give it more memory or a smaller batch"
        )
    return (
        "was killed by SIGKILL, and not by the kernel, which counted no out-of-memory kill: look "
        "for what ended it in the node's system log (systemd-oomd, earlyoom, a person)"
    )


def _exception_before_abort(worker: WorkerEnd) -> str:
    """Return the exception that was ending Python when a thread of gloo aborted it; "" if there is
    none. The exception is the cause and the signal its consequence."""
    if worker.signal != signal.SIGABRT or _ABORTED_AT_EXIT not in worker.stderr_tail:
        return ""
    has_traceback = _TRACEBACK in worker.stderr_tail
    return worker.error or (last_words(worker.stderr_tail) if has_traceback else "")


def _has_kernel_killed(ending: ExitEvidence) -> bool:
    return bool(ending.num_oom_kills_here or ending.num_oom_kills_on_node)


def parse_torchrun_failures(launcher_stderr: str) -> list[WorkerEnd]:
    """Return the workers that torchrun lists as failed, its root cause first.

    Empty when it printed no summary. Times are not taken from it: they have whole seconds only.
    """
    summary = launcher_stderr.rpartition("\nFailures:")[2]
    if not summary:
        return []
    others, _, root = summary.partition("Root Cause (first observed failure)")
    return [
        _failure_of(match) for part in (root, others) for match in _TORCHRUN_FAILURE.finditer(part)
    ]


def has_torchrun_reported(launcher_stderr: str) -> bool:
    """Return whether torchrun has said in full which workers failed."""
    is_there = "Root Cause (first observed failure)" in launcher_stderr
    return is_there and launcher_stderr.rstrip().endswith("=" * 20)


def parse_uncaught(text: str) -> str:
    """Return the exception in a file of muster.launch.uncaught if nobody caught it; "" otherwise."""
    try:
        found = json.loads(text)
        return parse_error_file(text) if found["is_uncaught"] is True else ""
    except (ValueError, KeyError, TypeError):
        return ""


def parse_error_file(text: str) -> str:
    """Return the first line of the message in a TORCHELASTIC_ERROR_FILE, or in the file that
    muster.launch.uncaught leaves behind; "" if it is not readable."""
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    if isinstance(message, dict):
        message = message.get("message", "")
    return _cut(str(message).strip().split("\n", 1)[0])


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _failure_of(match: re.Match[str]) -> WorkerEnd:
    code = int(match["exit_code"])
    return WorkerEnd(
        local_rank=int(match["local_rank"]),
        rank=int(match["rank"]),
        pid=int(match["pid"]),
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
    )


def _has_failed(worker: WorkerEnd) -> bool:
    return worker.signal is not None or (worker.exit_code or 0) != 0


def _words(worker: WorkerEnd) -> str:
    return worker.error or last_words(worker.stderr_tail)


def _worker_exit(ending: ExitEvidence, worker: WorkerEnd) -> WorkerExit:
    message = ""
    if _has_failed(worker):
        # A worker killed by a signal left no message: its last line is about something else.
        message = _words(worker) if worker.signal is None else ""
        message = message or _how(ending, worker)
    return WorkerExit(
        local_rank=worker.local_rank,
        rank=worker.rank,
        exit_code=worker.exit_code,
        signal=worker.signal,
        at_ms=worker.at_ms,
        message=message,
        blames_peer=_has_failed(worker) and blames_peer(worker),
    )


def _sentence(what: str, ending: ExitEvidence) -> str:
    return _cut(f"{what} ({ending.stop_reason})" if ending.stop_reason else what)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE_CHARS else text[: _MAX_MESSAGE_CHARS - 1] + "…"
