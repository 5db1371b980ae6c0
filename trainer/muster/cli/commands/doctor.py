"""The command that examines this machine by training on it."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..output import CommandFailure, printed_json, say, wants_json

LONGEST_MIN = 60


def _leave(number: int, _frame: object) -> None:
    """The nodes and the folder are this process's to take away, by whatever it is ended."""
    raise SystemExit(128 + number)


def doctor(
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu", help="Examine GPUs; without one, gloo on processors stands for them."
        ),
    ] = False,
    minutes: Annotated[
        float,
        typer.Option(min=1, max=LONGEST_MIN, help="It ends by itself after so many minutes."),
    ] = 9.0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for doctor.json and doctor.md, written after each check.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option(help="Only this check; repeatable.", show_default=False)
    ] = None,
) -> None:
    """Examine this machine: two nodes and real trainings on it, in a temporary folder."""
    from ..doctor.checks import CHECKS
    from ..doctor.examination import examine
    from ..doctor.report import as_json as report_json
    from ..doctor.report import as_markdown

    if not gpu:
        raise CommandFailure("There is one examination so far.", "muster doctor --gpu")
    if find_spec("torch") is None or find_spec("muster_server") is None:
        raise CommandFailure(
            "The examination needs PyTorch and the server on this machine.",
            "pip install 'muster[server]' torch",
        )
    names = [name for name, _ in CHECKS]
    for name in check or ():
        if name not in names:
            raise CommandFailure(f"There is no check {name!r}.", f"one of {', '.join(names)}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    chosen = [pair for pair in CHECKS if not check or pair[0] in check]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    with tempfile.TemporaryDirectory(prefix="mdoc-", ignore_cleanup_errors=True) as folder:
        report = None
        try:
            for report in examine(Path(folder), chosen, ends=time.monotonic() + 60 * minutes):
                if report.findings and not wants_json():
                    last = report.findings[-1]
                    say(f"{last.outcome:8} {last.name:12} {last.sentence} ({last.took_s:.0f} s)")
                if out is not None:
                    (out / "doctor.json").write_text(
                        json.dumps(report_json(report), indent=1) + "\n"
                    )
                    (out / "doctor.md").write_text(as_markdown(report))
        except (RuntimeError, TimeoutError) as error:
            raise CommandFailure(f"The examination cannot be made: {error}") from error
    assert report is not None
    if not printed_json(report_json(report)):
        say(report.summary)
    if report.num_failed:
        raise typer.Exit(1)
