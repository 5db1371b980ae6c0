"""The command that measures how an experiment scales."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...absent import server
from ...output import CommandFailure, console, escape, number, printed_json, say, table
from ...trials import ExperimentArgument

if TYPE_CHECKING:
    from muster.client import Client, schema

POLL_S = 1.0
PARTS = ("compute", "optimizer", "data", "transfer", "wait", "other")


def scaling(
    experiment: ExperimentArgument,
    slots: Annotated[
        str | None,
        typer.Option(help="World sizes to run at: 1,2,4. Without it the newest report is shown."),
    ] = None,
    mode: Annotated[
        Literal["weak", "strong"],
        typer.Option(help="weak: the same samples per slot. strong: the same samples in total."),
    ] = "weak",
    repeats: Annotated[int, typer.Option(min=1, max=10, help="Runs of each size.")] = 3,
    steps: Annotated[int, typer.Option(min=10, help="Steps measured in each run.")] = 60,
    slot_hours: Annotated[
        float | None, typer.Option(help="Budget of all runs together. Default: the project's.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for the end.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the newest report.")] = False,
    predict: Annotated[
        str | None, typer.Option(help="World sizes to predict: 8,64. Default: up to 8 × measured.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Other networks to predict, in Mbit/s: 1000,25000.")
    ] = None,
    latency: Annotated[
        float | None,
        typer.Option(
            help="Latency of those networks in µs per message. Default: the measured one."
        ),
    ] = None,
    measured_bandwidth: Annotated[
        float | None,
        typer.Option(
            help="Rate of the links that were measured, in Mbit/s. Default: the network interface's."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the report to a file: .md or .csv.")
    ] = None,
) -> None:
    """Measure how an experiment scales over a few world sizes, and predict larger ones."""
    wished: dict[str, Any] = {}
    if predict is not None:
        wished["slots"] = _numbers("--predict", predict, int)
    if bandwidth is not None:
        wished["bandwidth_mbit_per_s"] = _numbers("--bandwidth", bandwidth, float)
    if latency is not None:
        wished["latency_us"] = latency
    if measured_bandwidth is not None:
        wished["measured_bandwidth_mbit_per_s"] = measured_bandwidth
    if output is not None and output.suffix not in (".md", ".csv"):
        raise CommandFailure(f"{output} must end in .md or .csv.")
    client = server()
    if slots is not None:
        asked = {
            "slots": _numbers("--slots", slots, int), "mode": mode, "repeats": repeats,
            "steps": steps, "slot_hours": slot_hours,
        }  # fmt: skip
        report: schema.ScalingReportDetail | schema.ScalingReportOut
        report = client.post(f"/experiments/{experiment}/scaling-reports", asked)
    else:
        report = _newest(client, experiment)
    no = report["id"]
    if cancel:
        client.post(f"/scaling-reports/{no}:cancel")
    elif not detach:
        _follow(client, no)
    report = client.get(f"/scaling-reports/{no}", **wished)
    if output is not None:
        form = "csv" if output.suffix == ".csv" else "markdown"
        params = {"format": form, **wished}
        written = client.call("GET", f"/scaling-reports/{no}/export", params=params)
        output.write_text(written.text)
    if printed_json(report):
        return
    _print(report)
    if output is not None:
        say(f"Wrote {output}.")


def _newest(client: Client, experiment: int) -> schema.ScalingReportOut:
    found = client.get(f"/experiments/{experiment}/scaling-reports", limit=1)["items"]
    if not found:
        raise CommandFailure(
            f"Experiment {experiment} has no scaling report.",
            f"create one: muster scaling {experiment} --slots 1,2,4",
        )
    return found[0]


def _follow(client: Client, no: int) -> None:
    """Follow until it has ended, with a line for each run that is over."""
    num_shown = 0
    while True:
        report = client.get(f"/scaling-reports/{no}")
        for point in report["points"][num_shown:]:
            if point["step_ms"] is None and not point["problem"]:
                break
            num_shown += 1
            what = (
                f"{point['step_ms']:.1f} ms per step, {number(point['samples_per_s'])} samples/s"
                if point["step_ms"] is not None
                else point["problem"]
            )
            say(f"run {num_shown} of {report['num_runs']}: {point['slots']} slots: {what}")
        if report["state"] != "running":
            return
        time.sleep(POLL_S)


def _print(report: schema.ScalingReportDetail) -> None:
    say(
        f"Scaling report {report['id']} of experiment {report['experiment_id']}: {report['mode']}, "
        f"{report['state']}, {report['num_over']} of {report['num_runs']} runs done. "
        f"{report['reason']}".rstrip()
    )
    if not report["sizes"]:
        return
    out = console()
    out.print(_measured(report["sizes"]))
    out.print(_parts(report["sizes"]))
    if report["model"] is not None:
        _print_model(report["model"])
    if report["predictions"]:
        out.print(_predictions(report["predictions"]))
        for doubt in sorted({p["doubt"] for p in report["predictions"]} - {""}):
            say(doubt)


def _measured(sizes: list[schema.ScalingSizeOut]) -> Any:
    names = ("SLOTS", "RUNS", "STEPS", "STEP MS", "SAMPLES/S", "SPEED-UP", "EFFICIENCY")
    shown = table(*names, right=names)
    for size in sizes:
        shown.add_row(
            str(size["slots"]),
            str(size["num_runs"]),
            str(size["num_steps"]),
            *(_figure(size[k]) for k in ("step_ms", "samples_per_s", "speedup", "efficiency")),
        )
    return shown


def _parts(sizes: list[schema.ScalingSizeOut]) -> Any:
    names = ("SLOTS", *(f"{p.upper()} MS" for p in PARTS), "HIDDEN MS")
    shown = table(*names, right=names)
    for size in sizes:
        parts = [f"{size['parts_ms'][p]:.2f}" for p in PARTS]
        shown.add_row(str(size["slots"]), *parts, f"{size['hidden_ms']:.2f}")
    return shown


def _print_model(model: schema.CostModelOut) -> None:
    bandwidth, latency = model["bandwidth_bytes_per_s"], model["latency_us"]
    if bandwidth is not None:
        say(
            f"Network: {_figure(bandwidth, 1e6)} MB/s (n={bandwidth['n']})"
            + (
                "."
                if latency is None
                else f", {_figure(latency)} µs per message (n={latency['n']})."
            )
        )
    if model["step_error"] is not None:
        say(f"The model is {model['step_error']:.1%} off the measured steps on average.")
    for reason in model["reasons"]:
        say(reason)


def _predictions(predictions: list[schema.PredictionOut]) -> Any:
    names = ("SLOTS", "STEP MS", "COMMUNICATION MS", "IN THE OPEN MS", "SAMPLES/S", "EFFICIENCY")
    shown = table("NETWORK", *names, right=names)
    for p in predictions:
        if p["doubt"]:
            shown.add_row(escape(p["network"]), str(p["slots"]), "not determined", *["-"] * 4)
            continue
        shown.add_row(
            escape(p["network"]),
            str(p["slots"]),
            _figure(p["step_ms"]),
            f"{p['communication_ms']:.2f}",
            f"{p['exposed_ms']:.2f}",
            _figure(p["samples_per_s"]),
            "-" if p["efficiency"] is None else f"{p['efficiency']:.2f}",
        )
    return shown


def _figure(figure: schema.ScalingEstimateOut, unit: float = 1.0) -> str:
    """Return a figure in a unit with its 95% interval, for example "12.3 [11.9, 12.7]"; alone if there is
    none. An interval wider than the figure means that the figure is unknown."""
    value = number(figure["value"] / unit)
    low, high = figure["low"], figure["high"]
    if low is None or high is None or low == high:
        return value
    if not figure["is_determined"]:
        return "inconclusive; add repeats"
    return f"{value} [{number(low / unit)}, {number(high / unit)}]"


def _numbers(option: str, text: str, kind: Any) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise CommandFailure(
            f"{option}: {text!r} is not a list of numbers", "for example 1,2,4"
        ) from None
