"""The command that lists what a server knows by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from ..absent import client_of_environment
from ..output import JsonOption, console, escape, print_json, table


def catalog(
    what: Annotated[
        Literal["methods", "events", "providers"],
        typer.Argument(metavar="WHAT", help="methods, events or providers."),
    ],
    as_json: JsonOption = False,
) -> None:
    """List the methods of search, the events that notify, or the providers of nodes with their
    options."""
    with client_of_environment() as client:
        found = client.get("/catalog")
    section = {
        "methods": "search_methods",
        "events": "notified_events",
        "providers": "providers",
    }[what]
    if as_json:
        print_json(found[section])
        return
    heads, rows = {"methods": _methods, "events": _events, "providers": _providers}[what](
        found[section]
    )
    shown = table(*heads)
    for row in rows:
        shown.add_row(*(escape(text) for text in row))
    console().print(shown)


Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]


def _methods(items: list[dict[str, Any]]) -> Rows:
    return ("method", "what it does", "needs"), [
        (item["name"], item["summary"]["en"], ", ".join(item["needs"])) for item in items
    ]


def _events(items: list[dict[str, Any]]) -> Rows:
    return ("event", "when"), [(item["kind"], item["when"].replace("`", "")) for item in items]


def _providers(items: list[dict[str, Any]]) -> Rows:
    return ("provider", "option", "required", "what to write"), [
        (
            item["kind"],
            option["name"],
            "yes" if option["is_required"] else "",
            (option["expected"] or {"en": ""})["en"],
        )
        for item in items
        for option in item["options"]
    ]
