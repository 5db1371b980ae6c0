"""Ask the server what a document needs, and wait while a node lists the layers of its model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from muster.client import Client, schema

Estimate = TypeVar("Estimate", "schema.PlanOut", "schema.TrialPlanOut")
PATIENCE_S = 120.0
"""Seconds that the command waits while a node lists the layers of the model."""
SHORT_PATIENCE_S = 5.0
"""Seconds that other commands wait for it."""
POLL_S = 0.5


def needs_of(client: Client, document: str, overrides: list[str], digest: str | None) -> str:
    """Return the needs of a valid document of the built-in trainer, in a sentence. Waits for a
    moment only."""
    asked = {"document": document, "overrides": overrides, "blob_sha256": digest}
    found = settled(
        lambda: client.post("/plans", asked, repeatable=True), patience_s=SHORT_PATIENCE_S
    )
    if not found["known"]:
        return str(found["reason"])
    chosen = next(s for s in found["strategies"] if s["is_chosen"])
    if chosen["memory"] is None:
        return f"{chosen['kind']} cannot be used: {chosen['problem']}."
    fits = {True: ", which fits", False: ", which does not fit", None: ""}[chosen["fits"]]
    return (
        f"{found['num_params']:,} parameters; needs {chosen['memory']['total'] / 1e6:,.1f} MB of a "
        f"slot{fits}. `muster plan` shows more."
    )


def settled(ask: Callable[[], Estimate], *, patience_s: float = PATIENCE_S) -> Estimate:
    """Return the answer once no node is listing the layers of the model any more, or what is known
    after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while True:
        found = ask()
        if not found["is_pending"] or time.monotonic() > deadline:
            return found
        time.sleep(POLL_S)
