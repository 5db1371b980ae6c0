"""The command that finds what limits a trial's speed, and applies its advice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from ...absent import server
from ...output import CommandFailure, console, escape, printed_json, say, table
from ...trials import TrialArgument, address, find_trial

if TYPE_CHECKING:
    from muster.client import Client, schema

POLL_S = 1.0
PROBES = {
    "as_is": "as it is",
    "no_sync": "no synchronisation",
    "synthetic": "one batch out of memory",
    "alone": "one worker",
}


def diagnose(
    trial: TrialArgument,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=2, max=10, help="Runs of each kind of probe. Default: the server's setting."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=15, max=1000, help="Most steps of one probe. Default: the server's setting."
        ),
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="Show the newest diagnosis instead of starting one.")
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the running diagnosis.")] = False,
    apply: Annotated[
        str | None,
        typer.Option(metavar="ADVICE", help="Apply this advice of the newest diagnosis."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the verdict.")] = True,
) -> None:
    """Find out what limits a trial's speed: computing, communication, data, or one slow rank.

    Runs short probes one after another, on as many slots as the trial has, and compares them. The
    trial itself is not affected.
    """
    client = server()
    chosen = find_trial(trial)
    if cancel:
        found = client.post(f"/diagnoses/{_newest(client, chosen)['id']}:cancel")
    elif apply is not None:
        number = _newest(client, chosen)["id"]
        found = client.post(f"/diagnoses/{number}:apply", {"advice": apply})
    elif last:
        found = _newest(client, chosen)
    else:
        body = {"repeats": repeats, "steps": steps}
        found = client.post(
            f"/trials/{chosen['id']}/diagnoses",
            {k: v for k, v in body.items() if v is not None},
        )
        if wait:
            found = _follow(client, found)
    if not printed_json(found):
        _show(found, address(chosen))


def _newest(client: Client, trial: schema.TrialOut) -> schema.DiagnosisOut:
    found = client.get(f"/trials/{trial['id']}/diagnoses", limit=1)["items"]
    if not found:
        name = address(trial)
        raise CommandFailure(f"Trial {name} has not been diagnosed.", f"muster diagnose {name}")
    return found[0]


def _follow(client: Client, found: schema.DiagnosisOut) -> schema.DiagnosisOut:
    """Follow a diagnosis until it has ended, with a line for each probe that has."""
    said: set[str] = set()
    if found["state"] == "running":
        say(
            f"Diagnosis {found['id']}: {len(found['probes'])} probes of {found['steps']} steps, "
            f"experiment {found['probes_id']}."
        )
    while True:
        for probe in found["probes"]:
            name = f"{_probe(probe['probe'])}, {probe['repeat']}"
            if probe["state"] in ("COMPLETED", "FAILED", "CANCELED") and name not in said:
                said.add(name)
                reason = f": {probe['reason']}" if probe["state"] != "COMPLETED" else ""
                say(f"  {len(said)}/{len(found['probes'])} {name}: {probe['state']}{reason}")
        if found["state"] != "running":
            return found
        time.sleep(POLL_S)
        found = client.get(f"/diagnoses/{found['id']}")


def _show(found: schema.DiagnosisOut, trial: str) -> None:
    if found["state"] != "complete":
        say(f"Diagnosis {found['id']} of trial {trial} is {found['state']}.")
    else:
        print(f"{found['verdict']}: {found['reason']}")
    out = console()
    if found["shares"]:
        shares = table("SHARE OF THE STEP", "", "95 %", "N", right=("", "95 %", "N"))
        for name, share in found["shares"].items():
            shares.add_row(name, *_estimate(share, 100, " %"))
        out.print(shares)
    if found["measured"]:
        probes = table("PROBE", "STEP MS", "95 %", "N", right=("STEP MS", "95 %", "N"))
        for measured in found["measured"]:
            probes.add_row(_probe(measured["probe"]), *_estimate(measured["step_ms"], 1, ""))
        out.print(probes)
    if found["efficiency"] is not None:
        value, interval, num = _estimate(found["efficiency"], 100, " %")
        print(f"One worker alone needs {value} of the step ({interval}, n={num}).")
    for advice in found["advice"]:
        _show_advice(trial, advice)
    for note in found["notes"]:
        say(escape(note))


def _show_advice(trial: str, advice: schema.AdviceOut) -> None:
    gain = ""
    if advice["gain"] is not None:
        gain = f" {_gain(advice['gain'], is_bound=advice['is_bound'])}"
    print(f"Advice {advice['kind']}: {advice['text']}{gain}")
    if advice["overrides"] and not advice["applied"]:
        print(f"  muster diagnose {trial} --apply {advice['kind']}")
    for applied in advice["applied"]:
        achieved = "not enough steps yet"
        if applied["achieved"] is not None:
            achieved = f"{applied['achieved'] * 100:+.0f} % over {applied['num_steps']} rows"
        print(f"  experiment {applied['experiment_id']} ({applied['state']}): {achieved}")


def _gain(gain: schema.IntervalEstimate, *, is_bound: bool) -> str:
    """Return the gain as text, for example "predicted 12.5 % more samples/s"; from a factor of 2
    on, as a factor."""
    most = "at most" if is_bound else "predicted"
    if gain["value"] < 1:
        value, interval, num = _estimate(gain, 100, " %")
        return f"{most} {value} more samples/s ({interval}, n={num})"
    low, high = 1 + gain["low"], 1 + gain["high"]
    times: schema.IntervalEstimate = {**gain, "value": 1 + gain["value"], "low": low, "high": high}
    value, interval, num = _estimate(times, 1, " times")
    return f"{most} {value} the samples/s ({interval}, n={num})"


def _estimate(
    found: schema.IntervalEstimate | None, times: float, unit: str
) -> tuple[str, str, str]:
    if found is None:
        return "-", "-", "-"
    low, high = found["low"] * times, found["high"] * times
    return f"{found['value'] * times:.1f}{unit}", f"{low:.1f} to {high:.1f}", str(found["num"])


def _probe(name: str) -> str:
    if name.startswith("bucket:"):
        return f"buckets of {name.partition(':')[2]} MB"
    return PROBES.get(name, name)
