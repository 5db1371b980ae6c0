"""The command that lists what a server knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..absent import server
from ..output import Cell, print_rows, wants_json

if TYPE_CHECKING:
    from muster.client import schema


def catalog(
    what: Annotated[
        Literal["methods", "events", "providers"],
        typer.Argument(metavar="WHAT", help="methods, events or providers."),
    ],
) -> None:
    """List the methods of search, the events that notify, or the providers of nodes with their
    options."""
    found: Mapping[str, Any] = server().get("/catalog")
    section = {
        "methods": "search_methods",
        "events": "notified_events",
        "providers": "providers",
    }[what]
    rows = {"providers": _options}.get(what, list)(found[section])
    print_rows(rows if not wants_json() else found[section], COLUMNS[what])


def _options(providers: list[schema.ProviderKindOut]) -> list[dict[str, Any]]:
    """Return a row for each option of each provider."""
    return [{"provider": one["kind"], **option} for one in providers for option in one["options"]]


COLUMNS: dict[str, dict[str, Cell[Any]]] = {
    "methods": {
        "method": "name",
        "what it does": ("summary", lambda summary: summary["en"]),
        "needs": ("needs", ", ".join),
    },
    "events": {"event": "kind", "sent when": ("when", lambda when: when.replace("`", ""))},
    "providers": {
        "provider": "provider",
        "option": "name",
        "required": ("is_required", lambda is_required: "yes" if is_required else ""),
        "what to write": ("expected", lambda expected: expected["en"] if expected else ""),
    },
}
