"""What this server knows by name: methods of search, events of notifications and providers."""

from __future__ import annotations

from typing import Literal

from muster.document.searching import Method
from muster_server.domain.localized_text import LocalizedText
from muster_server.domain.notifications.kinds import RuleKind
from muster_server.domain.providers.options import ProviderKind

from .base import Output


class SearchMethodOut(Output):
    name: Method
    title: LocalizedText
    summary: LocalizedText
    """What it does, in one sentence."""
    is_search: bool
    """Whether it is a search, and not a single trial."""
    needs: list[str]
    """Settings of the section `search` that it needs, such as "metric"."""
    settings: list[str]
    """Settings of the section `search` that only some methods have, such as "divisor"."""
    compares: bool
    """Whether it stops trials before their end. When such a search is continued, only the trials
    that it had not judged go on."""
    may_grow: bool
    """Whether an ended search can be continued with more trials."""


class NotifiedEventOut(Output):
    kind: RuleKind
    title: LocalizedText
    when: str
    """When it is sent."""
    is_cluster: bool
    """Whether only rules of administrators can name it."""


class ProviderOptionOut(Output):
    name: str
    kind: Literal["text", "flag"]
    """A flag is "yes" or left out."""
    is_required: bool
    default: str
    """Value if it is left out; "" if that is for the batch system to say."""
    expected: LocalizedText | None
    """What to write; null for an option that is passed on as it is."""


class ProviderKindOut(Output):
    kind: ProviderKind
    title: str
    """Name of the batch system, the same in every language."""
    options: list[ProviderOptionOut]
    """Required options first."""


class CatalogOut(Output):
    search_methods: list[SearchMethodOut]
    notified_events: list[NotifiedEventOut]
    providers: list[ProviderKindOut]
