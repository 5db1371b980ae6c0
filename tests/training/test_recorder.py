"""torch's flight recorder against the measured group, through whole trainings under torchrun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.training.strategies import CASES, document

pytestmark = pytest.mark.torch

WORKERS = Path(__file__).with_name("workers")
EXAMPLE = Path(__file__).parents[2] / "examples" / "plain-torchrun" / "train.py"
MESSAGES = ("send", "recv", "ps_push", "ps_pull")
STRATEGIES = (
    *(
        "ddp-accumulate",
        "ddp-powersgd",
        "zero1",
        "fsdp-clipped",
        "local-sgd",
        "diloco",
        "tp",
        "pp-1f1b",
    ),
    *("ps", "hsdp", "fsdp-tp", "pp-fsdp"),
)
CHOSEN = [case for case in CASES if case.name in STRATEGIES]
RING = "20000"
"""Number of collectives that are kept: more than one training has."""


def run(folder: Path, workers: int, *args: str, **environ: str) -> list[dict[str, Any]]:
    """What each rank has counted."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *(f"--nproc-per-node={workers}", str(WORKERS / "agreeing.py"), str(folder), *args),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": RING} | environ,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    return [json.loads((folder / f"rank-{r}.json").read_text()) for r in range(workers)]


def sent(groups: Mapping[str, Mapping[str, list[int]]]) -> dict[tuple[str, str], list[int]]:
    """(group, kind) → [number, bytes]. gloo reduces and scatters by an all_reduce, and the recorder
    leaves its messages out."""
    found: dict[tuple[str, str], list[int]] = {}
    for group, kinds in groups.items():
        for kind, counted in kinds.items():
            if kind in MESSAGES:
                continue
            key = group, "all_reduce" if kind == "reduce_scatter" else kind
            found[key] = [a + b for a, b in zip(found.get(key, [0, 0]), counted, strict=True)]
    return found


def check(counted: Mapping[str, Any], *, more: int = 0) -> None:
    """more: number of reduce_scatters of two tensors in a list, which gloo does one by one."""
    assert counted["missed"] == 0
    measured = sent(counted["measured"])
    if more:
        measured["0", "all_reduce"][0] += more
    assert sent(counted["recorded"]) == measured


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Case → what each rank has counted."""
    found: dict[str, list[dict[str, Any]]] = {}
    for world in (2, 4):
        folder = tmp_path_factory.mktemp(f"agreeing-{world}")
        cases = [c for c in CHOSEN if c.world == world]
        (folder / "cases.json").write_text(
            json.dumps([{"name": c.name, "document": document(c)} for c in cases])
        )
        ranks = run(folder, world)
        found |= {case.name: [rank[case.name] for rank in ranks] for case in cases}
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_recorder_agrees_with_the_measured_group(
    trained: dict[str, list[dict[str, Any]]], name: str
) -> None:
    for counted in trained[name]:
        check(counted)
        assert counted["measured"]


SCRIPTS = (
    *("ddp.py", "fsdp.py", "every_call.py", str(EXAMPLE), "accumulates.py", "fsdp_clipped.py"),
    *("evaluates.py", "pipeline.py", "zero.py", "own_groups.py"),
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_recorder_agrees_with_the_measured_group_in_an_unchanged_script(
    tmp_path: Path, script: str
) -> None:
    for rank in run(tmp_path, 2, str(WORKERS / "plain" / script), DELAY_S="0"):
        check(rank["script"], more=int(script == "every_call.py"))
        assert rank["script"]["measured"]
