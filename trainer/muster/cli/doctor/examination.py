"""The examination: starts two nodes, makes the checks one after the other, and reports after each."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .checks import Answer, Patient, Wrong
from .report import CheckFinding, DoctorReport, Outcome
from .stack import NotPossibleHere, OutOfTime, running

SLOTS = {"cpu": 3, "cuda": 1}
"""Slots of each node: trainings over processors run side by side, while each GPU is one slot."""
DESCRIBE_TIMEOUT_S = 240.0
"""Time for the first import of torch, which a cold disk makes slow."""
LEAST_S = 20.0
"""Time below which no further check begins."""
_DESCRIBES = """
import json, torch
on_device = torch.cuda.is_available()
print(json.dumps({
    "torch": torch.__version__, "CUDA of torch": torch.version.cuda or "none",
    "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if on_device else [],
    "NCCL": ".".join(map(str, torch.cuda.nccl.version())) if on_device else "none",
}))
"""


def describe_machine() -> dict[str, Any]:
    """Return what torch sees here, from a process of its own: a device that was used once stays open.

    Raises RuntimeError where torch does not work.
    """
    command = [sys.executable, "-c", _DESCRIBES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DESCRIBE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(
            f"torch does not work: it was not imported within {DESCRIBE_TIMEOUT_S:g} s"
        ) from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"its import ended with {done.returncode}"]
        raise RuntimeError(f"torch does not work: {said[-1]}")
    return {
        "platform": platform.platform(),
        "Python": platform.python_version(),
        **json.loads(done.stdout.splitlines()[-1]),
    }


def examine(
    folder: Path, checks: Sequence[tuple[str, Callable[[Patient], Answer]]], *, ends: float
) -> Iterator[DoctorReport]:
    """Yield the report so far after each check, and at least once.

    folder: for everything that is written. ends: by the monotonic clock; checks that it leaves no time
    for are reported as not done. Raises RuntimeError where torch does not work or the nodes do not start, and
    TimeoutError where they do not in time.
    """
    machine = describe_machine()
    slot_type = "cuda" if machine["devices"] else "cpu"
    report = DoctorReport(
        machine=machine, backend="nccl" if slot_type == "cuda" else "gloo", findings=()
    )
    with running(folder / "home", SLOTS[slot_type]) as client:
        patient = Patient(client=client, slot_type=slot_type, ends=ends)
        for name, check in checks:
            report = replace(report, findings=(*report.findings, _made(name, check, patient)))
            yield report


def _made(name: str, check: Callable[[Patient], Answer], patient: Patient) -> CheckFinding:
    question = str(check.__doc__).split("\n\n")[0].strip()
    began = time.monotonic()
    outcome: Outcome = "passed"
    figures: dict[str, Any] = {}
    try:
        if patient.ends - began < LEAST_S:
            raise OutOfTime
        sentence, figures = check(patient)
    except NotPossibleHere as error:
        outcome, sentence = "not done", str(error)
    except Exception as error:
        # Whatever goes wrong is what was asked for; the next check is of something else.
        outcome, sentence = "failed", str(error) or type(error).__name__
        figures = error.figures if isinstance(error, Wrong) else {}
    return CheckFinding(
        name=name,
        question=question,
        outcome=outcome,
        sentence=sentence,
        figures=figures,
        took_s=round(time.monotonic() - began, 1),
    )
