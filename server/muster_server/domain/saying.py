"""Sentences that can be said again in another language.

A `Said` is its English text, and beside that the codes and parameters of its parts. REST and the
command line show the text; the dashboard says the parts in the language of the page
(frontend/src/i18n/zh-CN/reasons.ts), and tests/policy compares the codes of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

Parameter = int | float | str


class Part(TypedDict):
    code: str
    """Stable: "pending.held"."""
    params: dict[str, Parameter]


class Said(str):
    """English words that know of which parts they consist; without parts they are just words."""

    parts: tuple[Part, ...]

    def __new__(cls, text: str = "", parts: Iterable[Part] = ()) -> Said:
        made = super().__new__(cls, text)
        made.parts = tuple(parts)
        return made

    def __add__(self, other: str) -> Said:
        return Said(str(self) + str(other), (*self.parts, *parts_of(other)))


NOTHING = Said()


def say(code: str, text: str, **params: Parameter) -> Said:
    """One part: `text` in English, `code` with `params` in any other language."""
    return Said(text, [Part(code=code, params=params)])


def listed(words: Sequence[str], separator: str = ", ") -> Said:
    """Parts one after another; "" of none."""
    return Said(separator.join(words), (part for word in words for part in parts_of(word)))


def parts_of(text: str) -> tuple[Part, ...]:
    """Those of a `Said`; () of other text."""
    return text.parts if isinstance(text, Said) else ()


def stored(text: str) -> list[Any] | None:
    """The parts as a column keeps them; None where there are none."""
    return list(parts_of(text)) or None


def loaded(text: str, parts: Sequence[Mapping[str, Any]] | None) -> Said:
    """What was written with `stored`. Without text there are no parts either."""
    if not text:
        return NOTHING
    return Said(text, (Part(code=p["code"], params=dict(p["params"])) for p in parts or ()))
