"""A document while it is made of a batch script, with what became of each option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .options import SbatchOption


@dataclass(frozen=True, kw_only=True)
class Translation:
    """What became of an option."""

    option: SbatchOption
    became: str
    """Keys and values of the document; "" if it was ignored."""
    why: str = ""

    def text(self) -> str:
        """Return the line for people."""
        what = f"→ {self.became}" if self.became else "ignored"
        return f"{self.option.place}: {self.option.written} {what}" + (
            f" ({self.why})" if self.why else ""
        )


@dataclass(frozen=True, kw_only=True)
class SbatchJob:
    """A batch script as an experiment."""

    document: dict[str, Any]
    translations: Sequence[Translation]
    notes: Sequence[str] = ()


@dataclass
class BatchDraft:
    """The document while it is made."""

    options: Mapping[str, SbatchOption]
    document: dict[str, Any] = field(default_factory=dict)
    translations: list[Translation] = field(default_factory=list)

    def section(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.document.setdefault(name, {})
        return found

    def set_variable(self, name: str, value: str) -> None:
        """Set a variable of the job."""
        self.section("environment").setdefault("variables", {})[name] = value

    def note(self, option: SbatchOption, became: str, why: str = "") -> None:
        self.translations.append(Translation(option=option, became=became, why=why))
