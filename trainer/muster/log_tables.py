"""Reads tables that a log prints: a header of columns and rows under it, and boxes of names and values."""

from __future__ import annotations

import re
from typing import Final

import re2

from muster.log_lines import LINE_BYTES_MAX, STEP_MAX, LineFindings, is_metric
from muster.log_numbers import NumberStyle

COLUMNS_MAX: Final = 60
ROWS_MAX: Final = 200
TABLE_LINE: Final = (
    r"(?i)^[ \t]*(?:\||-{9,}\s*$|(?:epochs?|steps?|iter|iteration|round|class|classes)[\s|,]+\S"
    r"|all\s+\d|\d+(?:/\d+)?(?:[\s|,]+\S)|-{3,}[\s|+])"
)
"""Lines that may be of a table."""

_PLACES: Final = {
    "epoch": "epoch", "epochs": "epoch", "step": "step", "steps": "step", "iter": "step",
    "iteration": "step", "round": "step",
}  # fmt: skip
_BOX_STEPS: Final = (
    "total_timesteps", "timesteps_total", "totalenvinteracts", "total timesteps", "num_timesteps",
    "step", "steps", "iteration", "epoch",
)  # fmt: skip
"""Rows of a box that say where it is, best first."""
_BOX_ROW = re2.compile(r"^\s*\|\s?(?P<name>[^|]{1,100})\|(?P<value>[^|]{0,60})\|\s*$")
_BORDER = re2.compile(r"^\s*-{9,}\s*$")
_RULE = re2.compile(r"^[\s\-=+|:]+$")
_ROW_START = re2.compile(r"^(\d{1,15})(?:/\d{1,15})?$")


class TableReader:
    """Reads the lines of one log that may be of tables, in order."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._place = ""
        """What the first column says: `epoch`, `step`, or "all" for a row of all classes."""
        self._box: list[tuple[str, str]] | None = None
        self._group = ""

    def read(self, line: bytes, numbers: NumberStyle) -> LineFindings | None:
        """Return what a line, with what came before it, gives."""
        if len(line) > LINE_BYTES_MAX:
            return None
        if _BORDER.search(line):
            return self._border(numbers)
        text = line.decode("utf-8", "replace")
        if self._box is not None:
            row = _BOX_ROW.search(line)
            if row is not None:
                self._box_row(text.split("|")[1], text.split("|")[2].strip())
                return None
            self._box = None
        if _RULE.search(line):
            return None
        if text.lstrip(" |")[:1].isdigit() or text.split(None, 1)[0] == "all":
            return self._row(text, numbers) if self._columns else None
        self._take_header(_cells(text))
        return None

    # ------------------------------------------------------------ boxes

    def _border(self, numbers: NumberStyle) -> LineFindings | None:
        rows, self._box, self._group = self._box, [], ""
        if not rows:
            return None
        found = LineFindings()
        values = dict(rows)
        last_words = {name.rsplit("/", 1)[-1].lower(): value for name, value in rows}
        for word in _BOX_STEPS:
            step = numbers.read(last_words.get(word, ""), is_whole=True)
            if step is not None and 0 <= step < STEP_MAX:
                found.step = int(step)
                break
        else:
            return None  # Settings are printed in boxes as well.
        for name, value in values.items():
            last = name.rsplit("/", 1)[-1].lower()
            if last in _BOX_STEPS or name.lower().startswith("time/") or "..." in name:
                continue
            numbers.note(value)
            number = numbers.read(value)
            if number is not None:
                found.values.append((name, number))
        return found

    def _box_row(self, name: str, value: str) -> None:
        assert self._box is not None
        is_inner = name.startswith("   ")
        name = name.strip()
        if not value and name.endswith("/"):
            self._group = name
        elif value and len(self._box) < ROWS_MAX:
            self._box.append(((self._group if is_inner else "") + name, value))

    # ------------------------------------------------------------ columns

    def _take_header(self, cells: list[str]) -> None:
        if not 2 <= len(cells) <= COLUMNS_MAX or any(c[:1].isdigit() for c in cells):
            return
        first, names = cells[0].lower(), _grouped(cells)
        place = _PLACES.get(first, "all" if first in ("class", "classes") else "")
        if place and any(_is_column(name) for name in names[1:]):
            self._columns, self._place = names, place

    def _row(self, text: str, numbers: NumberStyle) -> LineFindings | None:
        cells = _cells(text)
        if len(cells) != len(self._columns):
            cells = text.replace("|", " ").split()
        if len(cells) != len(self._columns):
            return None
        if "%" in text and "100%" not in text:
            return None  # A bar on its way.
        found, rows = LineFindings(), list(zip(self._columns[1:], cells[1:], strict=True))
        if self._place != "all":
            start = _ROW_START.match(cells[0].encode())
            if start is None:
                return None
            number = int(start.group(1))
            if self._place == "epoch":
                found.epoch, found.is_whole_epoch = float(number), True
            else:
                found.step = number
        elif cells[0].lower() != "all":
            return None
        taken = [(name, cell.rstrip(":")) for name, cell in rows if _is_column(name)]
        for _, cell in taken:
            numbers.note(cell)
        for name, cell in taken:
            value = numbers.read(cell)
            if value is not None:
                found.values.append((name, value))
        return found if found.values else None


def _is_column(name: str) -> bool:
    return is_metric(name) or "/" in name or name in ("P", "R")


def _cells(text: str) -> list[str]:
    """Return the cells of a line: between bars, commas or wide gaps, else its words."""
    text = text.strip().strip("|").strip()
    bar = text.find(": ")
    if bar > 0 and "%" in text[bar:]:
        text = text[:bar]  # 640: 100%|███| 298/298
    for mark in ("|", ","):
        if mark in text:
            return [cell.strip() for cell in text.split(mark)]
    cells = re.split(r"\s{2,}|\t", text)
    return cells if len(cells) > 1 else text.split()


def _grouped(cells: list[str]) -> list[str]:
    """Return names of columns, where `Box(P  R  mAP50  mAP50-95)` is a group of four."""
    names, group = [], ""
    for cell in cells:
        name = cell.strip().rstrip(":")
        opened = re.fullmatch(r"(\w+)\((.*)", name)
        if opened and not name.endswith(")"):
            group, name = opened[1], opened[2]
        closes = group and name.endswith(")")
        name = name.rstrip(")") if group else name
        names.append(f"{group}/{name}" if group else name)
        group = "" if closes else group
    return names
