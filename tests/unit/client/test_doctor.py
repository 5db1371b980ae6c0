"""What `muster doctor` reports, and what it answers to options that cannot work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from muster.cli.all_commands import app
from muster.cli.doctor import checks, examination
from muster.cli.doctor.report import CheckFinding, DoctorReport, as_json, as_markdown
from muster.cli.doctor.stack import NotPossibleHere
from muster.cli.output import CommandFailure


def finding(outcome: str, **more: object) -> CheckFinding:
    return CheckFinding(name="a", question="Is a | b?", outcome=outcome, sentence="It is.", **more)  # type: ignore[arg-type]


def test_a_report_counts_and_says_what_it_did_not_run_on() -> None:
    findings = (finding("passed", figures={"rate": 2.5}), finding("failed"), finding("not done"))
    report = DoctorReport(machine={"torch": "2.13.0"}, backend="gloo", findings=findings)
    assert report.summary == (
        "1 passed, 1 failed, 1 not done; over gloo on processors, not on a GPU"
    )
    assert report.num_failed == 1
    assert as_json(report)["findings"][0]["figures"] == {"rate": 2.5}
    page = as_markdown(report)
    assert "| Is a \\| b? | failed | It is. | 0 |" in page
    assert "- rate: 2.5" in page
    on_gpu = DoctorReport(machine={}, backend="nccl", findings=findings[:1])
    assert on_gpu.summary == "1 passed, 0 failed, 0 not done"


@pytest.mark.torch
def test_a_step_is_compared_with_one_in_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    patient: Any = None
    sentence, figures = checks.reference(patient)
    assert sentence.endswith("which is rounding")
    assert 0 < figures["weights"] < checks.MAX_STEP_ERROR
    monkeypatch.setattr(checks, "MAX_STEP_ERROR", figures["weights"] / 10)
    with pytest.raises(checks.Wrong, match=r"off$"):
        checks.reference(patient)


def test_whoever_uses_the_device_outside_muster_is_named() -> None:
    problems = [
        {"kind": "disk", "message": "Less than 5% is free."},
        {"kind": "used", "message": "GPU 0 is used by ann (pid 4242, 31 GiB) outside Muster."},
    ]
    client: Any = SimpleNamespace(nodes=lambda: [{"problems": []}, {"problems": problems}])
    with pytest.raises(AssertionError, match="ann"):
        checks.others(checks.Patient(client=client, slot_type="cuda", ends=0))
    with pytest.raises(NotPossibleHere):
        checks.others(checks.Patient(client=client, slot_type="cpu", ends=0))
    del problems[1]
    assert checks.others(checks.Patient(client=client, slot_type="cuda", ends=0))[1] == {}


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import no_such_torch", "No module named 'no_such_torch'"),
        ("import time; time.sleep(60)", "it was not imported within 0.5 s"),
    ],
)
def test_a_torch_that_does_not_work_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    monkeypatch.setattr(examination, "_DESCRIBES", program)
    if "sleep" in program:
        monkeypatch.setattr(examination, "DESCRIBE_TIMEOUT_S", 0.5)
    done = CliRunner().invoke(app, ["doctor", "--gpu"])
    assert isinstance(done.exception, CommandFailure)
    assert said in str(done.exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gpu", "--check", "strategy"], "There is no check 'strategy'."),
        ([], "There is one examination so far."),
    ],
)
def test_options_that_cannot_work_are_answered(options: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["doctor", *options])
    assert done.exit_code == 1
    assert said in str(done.exception) or said in done.output
