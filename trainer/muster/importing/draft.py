"""A document while it is made of another tool's configuration, with what became of each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from muster.nearest import nearest

Outcome = Literal["became", "dropped", "error"]


@dataclass(frozen=True, kw_only=True)
class KeyTranslation:
    """What became of a key."""

    key: str
    """Dotted path in the other tool's file; "" for what concerns the whole."""
    outcome: Outcome
    became: str = ""
    """Keys and values of the document."""
    why: str = ""

    def text(self) -> str:
        """Return the line for people."""
        if self.outcome == "error":
            return f"error: {self.key}: {self.why}" if self.key else f"error: {self.why}"
        what = f"→ {self.became}" if self.outcome == "became" else "dropped"
        return f"{self.key} {what}" + (f" ({self.why})" if self.why else "")


@dataclass
class ImportDraft:
    """The document while it is made."""

    document: dict[str, Any] = field(default_factory=dict)
    translations: list[KeyTranslation] = field(default_factory=list)

    @property
    def errors(self) -> list[KeyTranslation]:
        return [t for t in self.translations if t.outcome == "error"]

    def section(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.document.setdefault(name, {})
        return found

    def became(self, key: str, became: str, why: str = "") -> None:
        self.translations.append(KeyTranslation(key=key, outcome="became", became=became, why=why))

    def dropped(self, key: str, why: str) -> None:
        self.translations.append(KeyTranslation(key=key, outcome="dropped", why=why))

    def error(self, key: str, why: str) -> None:
        self.translations.append(KeyTranslation(key=key, outcome="error", why=why))

    def mapping(self, value: Any, key: str, known: Iterable[str]) -> Mapping[str, Any]:
        """Return a section of the other file; note what is no mapping, and keys it cannot have."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.error(key, f"{value!r} is not a mapping of keys")
            return {}
        names = sorted(known)
        for name in value:
            if name not in names:
                near = nearest(str(name), names)
                hint = f"did you mean {near}?" if near else f"known are {', '.join(names)}"
                self.error(f"{key}.{name}" if key else str(name), f"there is no such key; {hint}")
        return {name: value[name] for name in value if name in names and value[name] is not None}

    def number(self, value: Any, key: str) -> float | int | None:
        """Return a number; None, with an error, for anything else."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.error(key, f"{value!r} is not a number")
            return None
        return value

    def choice(self, value: Any, key: str, known: Iterable[str]) -> str | None:
        """Return one of the names; None, with an error that names the nearest, for anything else."""
        names = sorted(known)
        if value in names:
            return str(value)
        near = nearest(str(value), names)
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(names)}"
        self.error(key, f"{value!r} is not known; {hint}")
        return None
