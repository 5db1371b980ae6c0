"""A text in every language of the dashboard, beside the thing that it names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LocalizedText:
    """A title or a sentence in both languages; neither is empty."""

    en: str
    zh: str
