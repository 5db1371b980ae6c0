"""What `muster doctor` found, as JSON and as a page of Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["passed", "failed", "not done"]


@dataclass(frozen=True, kw_only=True)
class CheckFinding:
    """The answer of one check."""

    name: str
    question: str
    outcome: Outcome
    sentence: str
    figures: dict[str, Any] = field(default_factory=dict)
    took_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class DoctorReport:
    machine: dict[str, Any]
    """Versions, devices and what stands for what, by name."""
    backend: str
    """Communication of the trainings: nccl, or gloo where there is no GPU."""
    findings: tuple[CheckFinding, ...]

    @property
    def num_failed(self) -> int:
        return sum(finding.outcome == "failed" for finding in self.findings)

    @property
    def summary(self) -> str:
        num = {
            o: sum(f.outcome == o for f in self.findings) for o in ("passed", "failed", "not done")
        }
        text = f"{num['passed']} passed, {num['failed']} failed, {num['not done']} not done"
        return text if self.backend == "nccl" else f"{text}; over gloo on processors, not on a GPU"


def as_json(report: DoctorReport) -> dict[str, Any]:
    return {
        "machine": report.machine,
        "backend": report.backend,
        "summary": report.summary,
        "findings": [asdict(finding) for finding in report.findings],
    }


def as_markdown(report: DoctorReport) -> str:
    lines = ["# muster doctor", "", f"{report.summary}.", ""]
    lines += [f"- {name}: {value}" for name, value in report.machine.items()]
    lines += ["", "| check | outcome | | s |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {_cell(f.question)} | {f.outcome} | {_cell(f.sentence)} | {f.took_s:.0f} |"
        for f in report.findings
    ]
    for finding in report.findings:
        if finding.figures:
            lines += ["", f"## {finding.name}", "", *_figures(finding.figures)]
    return "\n".join(lines) + "\n"


def _figures(figures: dict[str, Any]) -> Sequence[str]:
    return [f"- {name}: {_cell(str(value))}" for name, value in figures.items()]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
