"""The command that tells what a training will take before it is launched."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .experiments import read_document
from .operations import client_of_environment
from .output import JsonOption, console, escape, print_json, say, table

PARTS = ("parameters", "gradients", "optimizer", "activations", "buffers", "total")


def plan(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The experiment document, - for stdin.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Override a value of the document."),
    ] = None,
    slot_memory_gb: Annotated[
        float | None,
        typer.Option(min=0.001, help="Memory of a slot. Default: what the pool's nodes say."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a document's training takes: memory of a slot, bytes on the network, time of a step."""
    asked = {
        "document": read_document(file),
        "overrides": overrides or [],
        "slot_memory_bytes": None if slot_memory_gb is None else round(slot_memory_gb * 1e9),
    }
    with client_of_environment() as client:
        found = client.post("/plans", asked, repeatable=True)
    if as_json:
        print_json(found)
        return
    if not found["known"]:
        say(found["reason"])
        return
    slot = found["slot_memory_bytes"]
    say(
        f"{found['num_params']:,} parameters on {found['slots']} slot(s), global batch "
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


def _memory(strategies: list[dict[str, Any]]) -> Any:
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


def _traffic(strategies: list[dict[str, Any]]) -> Any:
    numbers = ("MEMBERS", "COUNT", "MB")
    shown = table("STRATEGY", "GROUP", "KIND", *numbers, right=numbers)
    for strategy in strategies:
        for t in strategy["traffic"]:
            shown.add_row(
                escape(strategy["kind"]), escape(t["group"]), escape(t["kind"]), str(t["size"]),
                f"{t['count']:.1f}", f"{t['num_bytes'] / 1e6:,.2f}",
            )  # fmt: skip
    return shown
