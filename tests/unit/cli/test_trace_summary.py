"""What `muster trace summary` says of traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from muster.cli.app import command_line
from muster.cli.commands.analysis.trace import summary
from muster.cli.output import CommandFailure


def trace(path: Path, rank: int, wait: int) -> Path:
    def event(name: str, start: int, duration: int, category: str = "kernel") -> dict[str, Any]:
        told = {"stream": 7, "Seq": start, "Process Group Description": "[dp]"}
        return {
            "ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "args": told
        }  # fmt: skip

    events = [
        event("step 3", 0, 10_000, "user_annotation"),
        event("gemm", 0, 4_000),
        event("ncclDevKernel_AllGather_RING_LL", 3_000, 2_000 + wait),
    ]
    info = {"rank": rank, "world_size": 2}
    path.write_text(
        json.dumps({"distributedInfo": info, "schemaVersion": 1, "traceEvents": events})
    )
    return path


def test_ranks_steps_kinds_and_waiting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [trace(tmp_path / f"{rank}.json", rank, 1_500 * (1 - rank)) for rank in range(2)]
    summary(files)
    shown = capsys.readouterr()
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert "0 all 6.500 ms 3.500 ms 4.000 ms 1.000 ms 2.500 ms 0.000 ms 0.000 ms" in lines
    assert "3 10.000 ms 3.500 ms 4.000 ms 1.000 ms 2.500 ms 0.000 ms 3.500 ms" in lines
    assert "0 [dp] all_gather 1 - 3.500 ms 2.500 ms" in lines
    assert "1 0.000 ms 1" in lines
    assert shown.err == "Rank 0 waited 1.500 ms for rank 1, in a collective.\n"


def test_json(tmp_path: Path) -> None:
    command = ["trace", "summary", str(trace(tmp_path / "t.json", 4, 0)), "--json"]
    (rank,) = json.loads(CliRunner().invoke(command_line(command), command).stdout)["ranks"]
    assert (rank["rank"], rank["exposed_us"], rank["idle_us"]) == (4, 1000, 0)


def test_a_file_of_another_tool_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("[]")
    with pytest.raises(CommandFailure, match=r"t\.json: This is not a trace of torch's profiler"):
        summary([tmp_path / "t.json"])
