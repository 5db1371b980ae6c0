"""Messages: sentences for people that can be read in more than one language.

A message is a code with parameters. Its English is in `catalogue`, its Chinese in
frontend/src/i18n/zh-CN/reasons.ts; tests/policy compares both catalogues and every use of a code.
Messages are rendered where text leaves the server: in events, answers of the API, stored columns and
logs. Beside the English text the API and the database have the message's parts, from which the
dashboard renders it in the language of the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from string import Formatter
from typing import Any, NoReturn, TypedDict

from .catalogue import ARRANGEMENTS, SENTENCES

Scalar = int | float | str


class Part(TypedDict):
    """A message without the messages among its parameters."""

    code: str
    """Stable: "pending.held"."""
    params: dict[str, Scalar]


class _Unformattable:
    """Refuses `str` and f-strings, which would lose the parts without anybody noticing."""

    def __str__(self) -> NoReturn:
        raise TypeError(f"use .english for the text of {self!r}")


@dataclass(frozen=True, init=False)
class Message(_Unformattable):
    """A sentence, or several that are composed: parameters may be messages."""

    code: str
    parameters: Mapping[str, Parameter]

    def __init__(self, code: str, /, **parameters: Parameter) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "parameters", parameters)

    @cached_property
    def english(self) -> str:
        template = ARRANGEMENTS.get(self.code) or SENTENCES[self.code]
        return _fill(template, self.parameters)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The message and those within it, in the order in which its template names them. An
        arrangement has no part of its own."""
        inner = tuple(part for message in self._inner() for part in message.parts)
        if self.code in ARRANGEMENTS:
            return inner
        params = {k: v for k, v in self.parameters.items() if isinstance(v, int | float | str)}
        return (Part(code=self.code, params=params), *inner)

    def _inner(self) -> Iterator[AnyMessage]:
        template = ARRANGEMENTS.get(self.code) or SENTENCES[self.code]
        for name in template_parameters(template):
            value = self.parameters[name]
            if isinstance(value, Message | Rendered):
                yield value
            elif not isinstance(value, int | float | str):
                yield from value


@dataclass(frozen=True)
class Rendered(_Unformattable):
    """What is left of a message that was stored: its English text and its parts."""

    english: str
    parts: tuple[Part, ...] = ()


AnyMessage = Message | Rendered
Parameter = Scalar | AnyMessage | Sequence[AnyMessage]


def sentences(*messages: AnyMessage | None) -> AnyMessage:
    """Return one sentence after another; None are left out. Raises ValueError when all are None."""
    present = [message for message in messages if message is not None]
    if not present:
        raise ValueError("no sentence was given")
    return present[0] if len(present) == 1 else Message("all.sentences", sentences=present)


def english(text: AnyMessage | str) -> str:
    return text if isinstance(text, str) else text.english


def parts(text: AnyMessage | str) -> tuple[Part, ...]:
    """Return the parts of a message; () of plain text."""
    return () if isinstance(text, str) else text.parts


def to_columns(message: AnyMessage | None) -> tuple[str, list[Any] | None]:
    """Return the text and the parts as columns keep them; ("", None) for no message."""
    if message is None:
        return "", None
    return message.english, list(message.parts) or None


def from_columns(text: str, parts: Sequence[Mapping[str, Any]] | None) -> Rendered | None:
    """Return what `to_columns` made; None where there is no text, whatever parts are left."""
    if not text:
        return None
    found = (Part(code=p["code"], params=dict(p["params"])) for p in parts or ())
    return Rendered(text, tuple(found))


def shortened(names: Sequence[str], most: int = 3) -> str:
    """Return "n1, n2, n3 (+4)": a parameter that reads the same in every language."""
    more = f" (+{len(names) - most:,})" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# ---------------------------------------------------------------- templates


def _fill(template: str, parameters: Mapping[str, Parameter]) -> str:
    """Fill the fields of a template. What follows a colon in a field depends on the value:

    * of a number, a noun to count with it ("slot", or "entry|entries" where the plural is irregular),
      or "#" for a number that names something and is written without separators;
    * of several messages, what stands between them (", " unless given), or "and" for "a, b and c".
    """
    text = ""
    for literal, name, spec in _fields(template):
        text += literal
        if name is not None:
            text += _shown(parameters[name], _fill(spec, parameters) if "{" in spec else spec)
    return text


def _shown(value: Parameter, spec: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        if spec == "#":
            return str(value)
        number = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        return f"{number} {_noun(spec, value)}" if spec else number
    if isinstance(value, Message | Rendered):
        return value.english
    return _joined([message.english for message in value], spec)


@cache
def _fields(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """(text before it, name, what follows its colon) of each field."""
    return tuple((text, name, spec or "") for text, name, spec, _ in Formatter().parse(template))


@cache
def template_parameters(template: str) -> tuple[str, ...]:
    """Return the names of the parameters in a template, in order, each once."""
    names: dict[str, None] = {}
    for _, name, spec in _fields(template):
        if name is not None:
            names[name] = None
            names.update(dict.fromkeys(template_parameters(spec)))
    return tuple(names)


def count(number: int | None, noun: str) -> str:
    """Return "1 slot", "2 slots" or "10,000 slots"."""
    return f"{number or 0:,} {_noun(noun, number)}"


def _noun(noun: str, number: float | None) -> str:
    singular, _, plural = noun.partition("|")
    return singular if number == 1 else plural or f"{singular}s"


def _joined(texts: Sequence[str], separator: str) -> str:
    if separator == "and":
        return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
    return (separator or ", ").join(texts)
