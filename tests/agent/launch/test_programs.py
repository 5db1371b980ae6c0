"""Programs of the agent: forked from a process that has imported them, or new interpreters."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.launch.forkserver import ForkedProgram
from muster_agent.jobs import programs as module
from muster_agent.jobs.programs import Program, Programs
from support.stack import wait_for

SHOWS = """
import os, sys
print(os.environ["SEEN"], os.environ["UNSEEN"], "muster_agent.shim.supervise" in sys.modules, flush=True)
sys.stdin.read()
"""
ANSWERS = """
import sys
from muster_agent.jobs.helpers import answer, read_given
given = read_given().strip()
if given == "fail":
    sys.exit(3)
if given == "wait":
    print("waiting", flush=True)
    import time; time.sleep(600)
print("a line that somebody else wrote")
answer(f"{given} {len(sys.argv)}")
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="forked on Linux alone")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """Programs that find modules in the folder of the test."""
    (tmp_path / "shows.py").write_text(SHOWS)
    (tmp_path / "answers.py").write_text(ANSWERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = Programs({**os.environ, "HERE": "yes"})
    yield made
    made.close()


class Shown:
    """The program `shows`, which waits for the end of its input."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self._output = folder / "out"
        reading, self._writing = os.pipe()
        with self._output.open("ab") as words:
            self.program = programs.start(
                ["shows"],
                environment={"SEEN": "by all", "UNSEEN": "by others", "PYTHONPATH": str(folder)},
                folder=folder,
                stdin=reading,
                stdout=words.fileno(),
                stderr=2,
                marks={"SEEN": "by all"},
            )
        os.close(reading)

    def text(self) -> str:
        wait_for("it shows all", lambda: self._output.read_text().endswith("\n"))
        return self._output.read_text()

    def end(self) -> int:
        os.close(self._writing)
        return self.program.wait(20)


@linux
def test_a_forked_program_is_found_by_its_marks_and_has_everything_imported(
    programs: Programs, tmp_path: Path
) -> None:
    asyncio.run(programs.prepare())
    shown = Shown(programs, tmp_path)
    assert isinstance(shown.program, ForkedProgram)
    assert shown.text() == "by all by others True\n"
    environment = psutil.Process(shown.program.pid).environ()
    assert environment["SEEN"] == "by all"
    assert environment["HERE"] == "yes"
    assert "UNSEEN" not in environment
    programs.close()  # as at the agent's end
    assert shown.program.poll() is None
    assert shown.end() == 0


@linux
def test_without_a_fork_server_programs_start_as_interpreters(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(programs.prepare())
    assert programs._server is not None
    os.kill(programs._server.pid, signal.SIGKILL)
    shown = Shown(programs, tmp_path)
    assert shown.text() == "by all by others False\n"
    assert shown.end() == 0
    asyncio.run(programs.prepare())
    assert programs._server is None, "not so soon again"
    monkeypatch.setattr(programs, "_not_before", 0.0)
    asyncio.run(programs.prepare())
    assert programs._server is not None


def test_imports_that_fail_only_make_starts_slower(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IMPORTS", ("there_is_no_such_module",))
    assert asyncio.run(programs.result_of("answers", "one", given="so")) == "so 2"
    assert programs._server is None


def test_a_result_is_the_last_line(programs: Programs) -> None:
    text = "x" * 1_000_000  # more than fits into a pipe
    assert asyncio.run(programs.result_of("answers", given=text)) == f"{text} 1"
    with pytest.raises(RuntimeError, match="answers ended with code 3 and no result"):
        asyncio.run(programs.result_of("answers", given="fail"))


def test_what_is_not_waited_for_any_more_is_killed(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Program] = []
    begin = programs.start

    async def go() -> None:
        has_started = asyncio.Event()

        def note(*arguments: Any, **more: Any) -> Program:
            started.append(begin(*arguments, **more))
            has_started.set()
            return started[-1]

        monkeypatch.setattr(programs, "start", note)
        waiting = asyncio.create_task(programs.result_of("answers", given="wait"))
        await asyncio.wait_for(has_started.wait(), 30)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(go())
    assert started[0].poll() == -signal.SIGKILL
