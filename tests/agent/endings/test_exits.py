"""Verdicts on how allocations end."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from muster.launch.last_words import last_words
from muster_agent.jobs.exits import (
    ExitEvidence,
    WorkerEnd,
    classify_exit,
    parse_error_file,
    parse_torchrun_failures,
    shown_command,
)
from muster_agent.records.logs import tail

SUMMARY = """
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
/tmp/w.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_04:11:45
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 21153)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 21153
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_04:11:45
  host      : localhost
  rank      : 5 (local_rank: 1)
  exitcode  : 7 (pid: 21154)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def worker(rank: int = 0, **changes: Any) -> WorkerEnd:
    return WorkerEnd(local_rank=rank, rank=rank, **{"at_ms": 1_000, **changes})


def verdict(*workers: WorkerEnd, **changes: Any) -> Any:
    return classify_exit(ExitEvidence(**{"launcher": "torchrun", "workers": workers, **changes}))


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["sbatch", "my job.sbatch", "--lr", "0.1"], "'my job.sbatch' --lr 0.1"),
        (["bash", "-c", "make data && make train"], "bash -c 'make data && make train'"),
        (["bash", "run.sh", "-c", "x"], "bash run.sh -c x"),
        (["python", "-c", "print(1)", "a"], "python -c 'print(1)' a"),
    ],
)
def test_a_command_is_shown_as_a_person_knows_it(argv: list[str], shown: str) -> None:
    assert shown_command(argv) == shown


def test_summary_of_torchrun_names_the_root_cause_first() -> None:
    root, other = parse_torchrun_failures(SUMMARY)
    assert (root.local_rank, root.rank, root.pid, root.exit_code) == (1, 5, 21154, 7)
    assert (other.local_rank, other.signal, other.exit_code) == (0, signal.SIGTERM, None)


def test_no_summary_means_no_failures() -> None:
    assert parse_torchrun_failures("Traceback ...\nFailures of another kind\n") == []


def test_the_colors_of_a_traceback_are_not_part_of_its_exception(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    log.write_text(
        "\x1b[35mTraceback (most recent call last):\x1b[0m\n  File x\n"
        "\x1b[1;35mValueError\x1b[0m: see \x1b]8;;https://a.example\x07the page\x1b]8;;\x1b\\\n"
        "later noise\n"
    )
    assert last_words(tail(log)) == "ValueError: see the page"


def test_error_file_of_torch_is_read() -> None:
    text = json.dumps({"message": {"message": "ValueError: bad\nmore", "extraInfo": {}}})
    assert parse_error_file(text) == "ValueError: bad"
    assert parse_error_file('{"message": "plain"}') == "plain"
    assert parse_error_file("not json") == parse_error_file("[]") == ""


def test_earliest_failure_is_the_cause() -> None:
    info = verdict(
        worker(0, exit_code=1, at_ms=2_000, stderr_tail="Connection closed by peer"),
        worker(1, exit_code=7, at_ms=1_000, error="ValueError: bad"),
        launcher_exit_code=1,
    )
    assert (info.cause, info.message) == (
        "user_error",
        "rank 1 exited with code 7: ValueError: bad",
    )
    assert info.exit_code == 7


def test_sigterm_of_the_cleaning_launcher_is_not_the_cause() -> None:
    info = verdict(worker(0, signal=15, at_ms=1), worker(1, exit_code=2, at_ms=5))
    assert info.first_failure.rank == 1


def test_out_of_memory_needs_a_sign() -> None:
    killed = worker(signal=signal.SIGKILL)
    assert verdict(killed).cause == "killed_by_signal"
    assert verdict(killed, num_oom_kills_on_node=1).cause == "out_of_memory"
    assert verdict(killed, num_oom_kills_here=1).cause == "out_of_memory"
    torch_text = (
        "Traceback (most recent call last):\n x\ntorch.OutOfMemoryError: CUDA out of memory."
    )
    assert verdict(worker(exit_code=1, stderr_tail=torch_text)).cause == "out_of_memory"


def test_a_full_disk_is_not_the_fault_of_the_script() -> None:
    said = "muster.sdk.hyperparameters.InvalidHyperparameters: 3 heads do not divide 64"
    assert verdict(worker(exit_code=1, stderr_tail=said)).cause == "invalid_hparams"
    said = "KeyError: no InvalidHyperparameters here"
    assert verdict(worker(exit_code=1, stderr_tail=said)).cause == "user_error"
    said = "OSError: [Errno 28] rank 1: No space left on device: 'shard-00001.safetensors'"
    assert verdict(worker(exit_code=1, error=said)).cause == "disk_full"
    said = "Traceback (most recent call last):\n  x\nOSError: [Errno 122] Disk quota exceeded"
    assert verdict(worker(exit_code=1, stderr_tail=said)).cause == "disk_full"
    said = "Traceback (most recent call last):\n  x\nOSError: [Errno 2] No such file: 'a'"
    assert verdict(worker(exit_code=1, stderr_tail=said)).cause == "user_error"


def test_an_abort_while_python_ends_is_not_the_cause_of_its_end() -> None:
    said = "Traceback (most recent call last):\n  File x\nValueError: bad batch\n"
    abort = "terminate called without an active exception\n"
    after_exception = worker(0, signal=signal.SIGABRT, stderr_tail=said + abort)
    found = verdict(after_exception)
    assert (found.cause, found.message) == ("user_error", "rank 0 ended with ValueError: bad batch")
    assert found.signal == signal.SIGABRT
    alone = verdict(worker(0, signal=signal.SIGABRT, stderr_tail=abort))
    assert alone.cause == "killed_by_signal"
    assert "a C++ thread (gloo's, with torch 2.13) still needed Python" in alone.message
    elsewhere = verdict(worker(0, signal=signal.SIGABRT, stderr_tail=said + "free(): invalid\n"))
    assert elsewhere.cause == "killed_by_signal"


NO_NCCL = "RuntimeError: Distributed package doesn't have NCCL built in"
NO_GROUP = "ValueError: Default process group has not been initialized, please make sure to call init_process_group."
NO_RANK = (
    "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable "
    "RANK expected, but not set"
)
NO_CUDA = "AssertionError: Torch not compiled with CUDA enabled"


@pytest.mark.parametrize(
    ("reason", "launcher", "num_slots", "slot_type", "switch"),
    [
        (NO_NCCL, "torchrun", 1, "cpu", "`--launcher plain`"),
        (NO_NCCL, "the workers' keeper", 1, "cpu", "`--launcher plain`"),
        (NO_NCCL, "torchrun", 2, "cpu", "`--gpus 1`"),
        (NO_NCCL, "plain", 1, "cpu", "`--gpus 1`"),
        (NO_NCCL, "torchrun", 2, "cuda", ""),
        (NO_GROUP, "plain", 1, "cpu", "`--launcher torchrun`"),
        (NO_GROUP, "shell", 1, "cpu", "the command must start it by that"),
        (NO_GROUP, "torchrun", 2, "cpu", ""),
        (NO_RANK, "plain", 1, "cuda", "`-n 2`"),
        ("KeyError: 'LOCAL_RANK'", "plain", 1, "cpu", "`--launcher torchrun`"),
        ("KeyError: 'RANKS'", "plain", 1, "cpu", ""),
        ("KeyError: 'RANK'", "direct", 2, "cpu", ""),
        (NO_CUDA, "plain", 1, "cpu", "`--gpus 1`"),
        (NO_CUDA, "torchrun", 2, "cuda", ""),
        ("EOFError: EOF when reading a line", "plain", 1, "cpu", "no terminal"),
        ("Aborted!", "plain", 1, "cpu", "no terminal"),
        ("EOFError: Ran out of input", "plain", 1, "cpu", ""),
        ("ValueError: bad", "plain", 1, "cpu", ""),
    ],
)
def test_the_switch_that_would_mend_a_failure_is_named(
    reason: str, launcher: str, num_slots: int, slot_type: str, switch: str
) -> None:
    tail = f"Traceback (most recent call last):\n  x\n{reason}\n"
    info = verdict(
        worker(exit_code=1, stderr_tail=tail),
        launcher=launcher,
        num_slots=num_slots,
        slot_type=slot_type,
    )
    assert (info.cause, info.exit_code) == ("user_error", 1)
    message, end = info.message, f"rank 0 exited with code 1: {reason}"
    if switch:
        assert switch in message
        assert message.startswith(f"{end.rstrip('.')}. ")
        assert message.endswith(info.first_failure.message)
    else:
        assert message == end


@pytest.mark.parametrize(
    ("path", "is_above"),
    [
        ("../../input.txt", True),
        ("../lib/input.txt", False),
        ("/a/jobs/7/src/conf.yaml", True),
        ("/a/jobs/data/x.csv", True),
        ("data/x.csv", False),
        ("data/../x.csv", False),
        ("/a/jobs/7/files/x.csv", False),
        ("/a/jobsite/x.csv", False),
        ("/data/x.csv", False),
    ],
)
def test_a_file_above_the_folder_that_was_sent_is_told_apart(path: str, is_above: bool) -> None:
    reason = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    tail = f"Traceback (most recent call last):\n  x\n{reason}\n"
    info = verdict(
        worker(exit_code=1, stderr_tail=tail),
        launcher="plain",
        work_dir="/a/jobs/7/files",
        run_dir="/a/jobs/7/files/src",
    )
    assert reason in info.message
    assert ("--upload-root .." in info.message) == is_above


SOCKET = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
    "address. port: 12355, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)


@pytest.mark.parametrize(
    ("launcher", "own_ports", "cause"),
    [
        ("plain", (12355,), "user_error"),
        ("shell", (21001,), "user_error"),
        ("shell", (12355,), "port_in_use"),
        ("direct", (12355,), "port_in_use"),
        ("torchrun", (40123,), "user_error"),
    ],
)
def test_a_port_that_the_script_chose_is_the_scripts(
    launcher: str, own_ports: tuple[int, ...], cause: str
) -> None:
    tail = f"Traceback (most recent call last):\n x\n{SOCKET}\n"
    info = verdict(
        worker(exit_code=1, stderr_tail=tail),
        launcher=launcher,
        own_ports=own_ports,
        port_holder="trial 7 of experiment 3",
    )
    assert info.cause == cause
    is_named = "Port 12355, which the script has chosen, is in use on this node by trial 7 of" in (
        info.message
    )
    assert is_named == (cause == "user_error")


def test_port_in_use_is_told_apart() -> None:
    text = "Traceback (most recent call last):\n x\ntorch.distributed.DistNetworkError: EADDRINUSE"
    assert verdict(worker(exit_code=1, stderr_tail=text)).cause == "port_in_use"
    assert verdict(launcher_exit_code=1, launcher_tail=text).cause == "port_in_use"


def test_launcher_that_fails_by_itself() -> None:
    info = verdict(
        launcher_exit_code=1, launcher_tail="Traceback (most recent call last):\n a\nX: y"
    )
    assert (info.cause, info.message) == ("launcher_failed", "torchrun exited with code 1: X: y")


@pytest.mark.parametrize("code", [126, 127])
def test_a_launcher_that_cannot_be_started_is_not_tried_again(code: int) -> None:
    info = verdict(launcher_exit_code=code, launcher_tail="/closed: Permission denied")
    assert info.cause == "cannot_run"
    assert info.message == f"torchrun exited with code {code}: /closed: Permission denied"


def test_failure_before_the_stop_stays_the_cause() -> None:
    failed = worker(exit_code=7, at_ms=1_000)
    late = {"stop": "stop", "stop_reason": "a member failed", "stop_at_ms": 2_000}
    assert verdict(failed, **late).cause == "user_error"
    early = late | {"stop_at_ms": 500}
    assert verdict(failed, **early).cause == "stopped"


def test_what_is_left_behind_changes_nothing_about_the_end() -> None:
    info = verdict(stop="kill", stop_reason="enough", num_survivors=2)
    assert (info.cause, info.message) == (
        "killed",
        "killed (enough); 2 processes did not die of SIGKILL",
    )
    info = verdict(worker(exit_code=0), launcher_exit_code=0, num_survivors=1)
    assert info.cause == "success"
    assert info.message.endswith("; 1 process did not die of SIGKILL")
    info = verdict(worker(exit_code=3, stderr_tail="ValueError: x"), num_survivors=1)
    assert info.cause == "user_error"


def test_success_has_no_log_tail() -> None:
    info = verdict(worker(exit_code=0, stderr_tail="warning"), launcher_exit_code=0)
    assert (info.cause, info.log_tail, info.first_failure) == ("success", [], None)
