"""The command that estimates what a training needs before it is launched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from muster.counting import counted

from ...absent import server
from ...estimate import settled
from ...output import console, escape, print_json, say, table, wants_json
from ...sending import CodeOption, read_document, send_code
from ...trials import TrialReference, find_trial, parse_trial

if TYPE_CHECKING:
    from muster.client import Client, schema

ABOUT = {"memory": "Tensors in a slot", "bytes": "Bytes per step", "step": "Time of a step"}
PARTS: Final = ("parameters", "gradients", "optimizer", "activations", "buffers", "total")


def plan(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The experiment document, - for stdin.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Override a value of the document."),
    ] = None,
    slot_memory_gb: Annotated[
        float | None,
        typer.Option(min=0.001, help="Memory of a slot. Default: that of the pool's nodes."),
    ] = None,
    code: CodeOption = None,
    trial: Annotated[
        TrialReference | None,
        typer.Option(
            metavar="TRIAL",
            parser=parse_trial,
            help="Compare the estimate for this trial (36.2) with its measurements.",
        ),
    ] = None,
) -> None:
    """Estimate what a training needs: memory per slot, network traffic and step time."""
    if (file is None) == (trial is None):
        raise typer.BadParameter("give a document or --trial, not both")
    if trial is not None:
        trial_id = find_trial(trial)["id"]
        compared = settled(lambda: server().get(f"/trials/{trial_id}/plan"))
        print_json(compared) if wants_json() else _print_trial(compared)
        return
    assert file is not None
    found = _plan(server(), file, list(overrides or []), slot_memory_gb, code)
    if wants_json():
        print_json(found)
    elif not found["known"]:
        say(found["reason"])
    else:
        _print_plan(found)


def _plan(
    client: Client,
    file: str,
    overrides: list[str],
    slot_memory_gb: float | None,
    code: Path | None,
) -> schema.PlanOut:
    document = read_document(file)
    asked = {
        "document": document,
        "overrides": overrides,
        "slot_memory_bytes": None if slot_memory_gb is None else round(slot_memory_gb * 1e9),
    }
    found = client.post("/plans", asked, repeatable=True)
    needs_code = any(part["code"] == "plan.no_code" for part in found["reason_parts"])
    if needs_code or code is not None:  # `send_code` adds to the overrides
        asked["blob_sha256"] = send_code(client, file, document, overrides, code, quiet=True).sha256
    return settled(lambda: client.post("/plans", asked, repeatable=True))


def _print_plan(found: schema.PlanOut) -> None:
    slot = found["slot_memory_bytes"]
    say(
        f"{found['num_params']:,} parameters on {counted(found['slots'], 'slot')}, global batch "
        f"{found['global_batch']}. A slot has "
        + (f"{slot / 1e9:.2f} GB" if slot else "unknown memory")
        + f" ({found['slot_memory_source']})."
    )
    out = console()
    out.print(_memory(found["strategies"]))
    sent = [s for s in found["strategies"] if s["traffic"]]
    if sent:
        out.print(_traffic(sent))
    for strategy in found["strategies"]:
        if strategy["problem"]:
            say(f"{strategy['kind']} cannot be used: {strategy['problem']}.")
    batch = found["recommended_batch_size"]
    say(
        f"Recommended: {found['recommended'] or 'nothing'}"
        + (f", batch_size up to {batch}" if batch else "")
        + f". {found['recommendation']}"
    )
    say(found["time_source"])


def _print_trial(found: schema.TrialPlanOut) -> None:
    memory, step = found["memory"], found["step_ms"]
    rows = (
        ("tensors in a slot MB", memory and memory["total"], found["measured_memory_bytes"], 1e6),
        ("sent per step MB", found["bytes_per_step"], found["measured_bytes_per_step"], 1e6),
        ("step ms", step and step["value"], found["measured_step_ms"], 1.0),
    )
    numbers = ("EXPECTED", "MEASURED", "RATIO")
    shown = table("FIGURE", *numbers, right=numbers)
    for name, expected, measured, unit in rows:
        shown.add_row(
            name,
            "-" if expected is None else f"{expected / unit:,.3f}",
            "-" if measured is None else f"{measured / unit:,.3f}",
            f"{expected / measured:.2f}" if expected is not None and measured else "-",
        )
    if found["reason"]:
        say(found["reason"])
    say(f"Measured over {found['num_rows']} steps.")
    console().print(shown)
    for remark in found["remarks"]:
        say(f"{ABOUT[remark['about']]}, {remark['ratio']:.2f} of the measured: {remark['text']}")


def _memory(strategies: list[schema.PlannedStrategyOut]) -> Any:
    names = (*(f"{p.upper()} MB" for p in PARTS), "LINK MB", "STEP MS")
    shown = table("STRATEGY", *names, "FITS", right=names)
    for strategy in strategies:
        memory, step = strategy["memory"], strategy["step_ms"]
        if memory is None:
            continue
        shown.add_row(
            escape(strategy["kind"] + (" (chosen)" if strategy["is_chosen"] else "")),
            *(f"{memory[p] / 1e6:,.1f}" for p in PARTS),
            f"{strategy['link_bytes'] / 1e6:,.2f}",
            "-" if step is None else f"{step['value']:,.1f}",
            {True: "yes", False: "no", None: "?"}[strategy["fits"]],
        )
    return shown


def _traffic(strategies: list[schema.PlannedStrategyOut]) -> Any:
    numbers = ("MEMBERS", "COUNT", "MB")
    shown = table("STRATEGY", "GROUP", "KIND", *numbers, right=numbers)
    for strategy in strategies:
        for t in strategy["traffic"]:
            shown.add_row(
                escape(strategy["kind"]), escape(t["group"]), escape(t["kind"]), str(t["size"]),
                f"{t['count']:.1f}", f"{t['num_bytes'] / 1e6:,.2f}",
            )  # fmt: skip
    return shown
