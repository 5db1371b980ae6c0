"""Numbers as people and locales print them: `1,234.5`, `0,4512`, `1.5k`, `tensor(2.30, grad_fn=…)`."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Final

NUMBER: Final = (
    r"[-+]?(?:(?:\d(?:[\d.,_]*\d)?\.?|\.\d+)(?:[eE][-+]?\d+)?[kKM]?|(?i:nan|inf(?:inity)?))"
)
"""Pattern, also of RE2, of the text of one number; what is no number in it `NumberStyle` refuses."""

_MULTIPLES: Final = {"k": 1e3, "K": 1e3, "M": 1e6}
_PARTS = re.compile(r"([-+]?)([\d.,_]+)((?:[eE][-+]?\d{1,9})?)([kKM]?)")
_GROUPS = re.compile(r"\d{1,3}(?:[.,_]\d{3})+")
_NON_FINITE = re.compile(r"[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_TEXT_MAX = 100


@dataclass
class NumberStyle:
    """Which decimal mark one log uses, as far as its numbers have shown it.

    A number that is whole only with one of the marks (`0.5`, `0,4512`, `1,234.5`) shows it. One that
    can be read in two ways (`1,234`) counts only once the log has shown one mark and not the other.
    """

    has_point: bool = False
    """Whether a number with a decimal point was seen."""
    has_comma: bool = False
    """Whether a number with a decimal comma was seen."""

    def note(self, text: str) -> None:
        """Take in which decimal mark a number shows."""
        if "," not in text and (self.has_point or "." not in text):
            return
        parsed = _split(text)
        if parsed is None:
            return
        mark = _decimal_mark(parsed[1], has_exponent=bool(parsed[2]))
        self.has_point = self.has_point or mark == "."
        self.has_comma = self.has_comma or mark == ","

    def read(self, text: str, *, is_whole: bool = False) -> float | None:
        """Return the number in a text; None if it is none, or could be two.

        is_whole: the number counts something, so that `1,000` is a thousand."""
        text = text.strip().rstrip(".,;")
        if len(text) <= _TEXT_MAX and not self.has_comma and not set(text) & {",", "_"}:
            with contextlib.suppress(ValueError):
                return float(text)
        if _NON_FINITE.fullmatch(text):
            return float(text)
        parsed = _split(text)
        if parsed is None:
            return None
        sign, digits, exponent, multiple = parsed
        plain = self._plain(digits, has_exponent=bool(exponent), is_whole=is_whole)
        if plain is None:
            return None
        try:
            return float(f"{sign}{plain}{exponent}") * _MULTIPLES.get(multiple, 1)
        except ValueError:  # `1__0`, say.
            return None

    def _plain(self, digits: str, *, has_exponent: bool, is_whole: bool) -> str | None:
        """Return digits with a decimal point at most; None for what is not one number."""
        if digits.isdigit():
            return digits
        mark = _decimal_mark(digits, has_exponent=has_exponent)
        if mark == ",":
            if self.has_point or not digits[0].isdigit():
                return None
            return digits.replace(".", "").replace(",", ".")
        if mark == ".":
            return digits.replace(",", "")
        if mark is None or not _GROUPS.fullmatch(digits):
            return None
        # Groups of three: a thousand, or three decimals.
        kinds = set(digits) - set("0123456789")
        if kinds == {"_"} or (kinds == {","} and digits.count(",") > 1):
            return None if self.has_comma and "," in kinds else re.sub("[_,]", "", digits)
        if kinds == {"."} and digits.count(".") > 1:
            return digits.replace(".", "") if self.has_comma and not self.has_point else None
        if kinds == {","}:
            if self.has_comma:
                return None if is_whole or self.has_point else digits.replace(",", ".")
            return digits.replace(",", "") if is_whole or self.has_point else None
        if kinds == {"."}:
            if not self.has_comma:
                return digits
            return None if self.has_point else digits.replace(".", "")
        return None


def _split(text: str) -> tuple[str, str, str, str] | None:
    """Return sign, digits with their marks, exponent and multiple of a text."""
    text = text.strip().rstrip(".,;")
    match = _PARTS.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if match is None or not any(c.isdigit() for c in match[2]):
        return None
    sign, digits, exponent, multiple = match.groups()
    return sign, digits, exponent, multiple


def _decimal_mark(digits: str, *, has_exponent: bool) -> str | None:
    """Return the mark that must be the decimal one; "" where both readings or none are possible, None
    for what is no number."""
    points, commas = digits.count("."), digits.count(",")
    if "_" in digits and (points > 1 or commas):
        return None
    whole, mark, _ = _last_mark(digits)
    if not mark:
        return ""
    other = "," if mark == "." else "."
    if digits.count(mark) > 1:
        return "" if not digits.count(other) and _GROUPS.fullmatch(digits) else None
    if other in whole:
        return mark if _GROUPS.fullmatch(whole) and whole[0] != "0" else None
    if has_exponent or not _GROUPS.fullmatch(digits) or digits[0] == "0":
        return mark
    return ""


def _last_mark(digits: str) -> tuple[str, str, str]:
    at = max(digits.rfind("."), digits.rfind(","))
    return (digits, "", "") if at < 0 else (digits[:at], digits[at], digits[at + 1 :])
