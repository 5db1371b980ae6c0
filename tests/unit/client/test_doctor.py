"""What `muster doctor` reports, and what it answers to options that cannot work."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from muster.cli.all_commands import app
from muster.cli.doctor.report import CheckFinding, DoctorReport, as_json, as_markdown


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
