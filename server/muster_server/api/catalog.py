"""The route by which pages and commands learn what this server knows by name."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter

from muster_server.domain.notifications.kinds import EVENTS
from muster_server.domain.providers.options import KINDS, ProviderOptions
from muster_server.domain.search.methods import METHODS
from muster_server.schemas.catalog import (
    CatalogOut,
    NotifiedEventOut,
    ProviderKindOut,
    ProviderOptionOut,
    SearchMethodOut,
)

router = APIRouter(tags=["catalog"])


@router.get("/catalog")
def get_catalog() -> CatalogOut:
    """Return the methods of search, the events that rules of notifications can name, and the kinds of
    providers with their options. It changes only with the version of the server."""
    return CatalogOut(
        search_methods=[
            SearchMethodOut.from_row(
                method, name=name, needs=list(method.needs), settings=list(method.settings)
            )
            for name, method in METHODS.items()
        ],
        notified_events=[
            NotifiedEventOut.from_row(event, kind=kind) for kind, event in EVENTS.items()
        ],
        providers=[
            ProviderKindOut(kind=kind, title=options.title, options=_options(options))
            for kind, options in KINDS.items()
        ],
    )


def _options(options: type[ProviderOptions]) -> list[ProviderOptionOut]:
    found = []
    for field in dataclasses.fields(options):
        rule = options.rules.get(field.name)
        found.append(
            ProviderOptionOut(
                name=field.name,
                kind="flag" if rule is not None and rule.is_flag else "text",
                is_required=field.name in options.required,
                default="" if field.default is dataclasses.MISSING else field.default,
                expected=None if rule is None else rule.expected,
            )
        )
    return sorted(found, key=lambda option: not option.is_required)
