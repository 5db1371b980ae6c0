"""What `muster run` prints while its job runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muster.cli.commands import run

LINE = {"rank": 0, "stream": "stdout", "text": "step 1", "cut": False}
TRIAL = {"id": 7, "experiment_id": 36, "no": 1, "num_slots": 1}


class Log:
    """A client of a job that is quiet from its second to its fourth look, and again at its sixth."""

    def __init__(self) -> None:
        self.num_looks = 0

    def log_batches(self, trial_id: int, **_: Any) -> Iterator[list[dict[str, Any]] | float]:
        yield [LINE]
        for _look in range(6):
            yield 0.0
        yield [LINE]

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/trials/7"
        self.num_looks += 1
        return {"flags": ["QUIET"] if self.num_looks in (2, 3, 4, 6) else []}


def test_a_quiet_job_is_said_to_be_quiet_once_per_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "QUIET_LOOK_S", 0.0)
    run._print_log(Log(), TRIAL, ())  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert out == "step 1\nstep 1\n"
    said = err.splitlines()
    assert len(said) == 2
    assert said[0].startswith("(The job has printed nothing and made no step")
    assert said[0].endswith("`muster stacks 36.1 --last`.)")
