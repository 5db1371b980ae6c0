"""Values in the lines of a log, found by patterns of RE2 in linear time.

The shim of a job applies the patterns of its document while the job writes (`metrics.from_log`), and
the server applies a pattern to a log that it holds to show what it would find. Both feed the bytes of
one stream, in order, to a `LogScanner`.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import re2

from muster.log_text import visible
from muster.sdk.metrics import MEASURED
from muster.series_rules import clean_name

PATTERN_MAX_BYTES: Final = 1 << 20
"""Memory that one compiled pattern may take."""
LINE_MAX_BYTES: Final = 16_384
"""A longer line is searched in pieces of this length."""
NAMES_MAX: Final = 500
"""Names of one log; a pattern that finds more finds no metrics, and further names are counted only."""
VALUES_PER_LINE_MAX: Final = 100
STEP_MAX: Final = 2**53
_BLOCK_BYTES: Final = 4_096
"""Text that is searched at once: the time of one search may grow with what follows."""

GROUPS: Final = ("value", "name", "group", "step", "epoch")
"""Named groups that a pattern may have."""
_PRESET_GROUPS = (*GROUPS, "done", "total", "context", "at")
"""Groups that a preset may have: a line counts when as much is done as there is in total; `context` is the
word "epoch" or a word for the step, and `at` its number."""
_EPOCH_WORDS = frozenset({"epoch"})
_STEP_WORDS = frozenset({"step", "global_step", "iteration", "iter", "episode"})
_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))"
_NEEDS_LINE = re.compile(r"\\[AzZC]|\(\?[a-zA-Z]*[-^]")
"""Parts of a pattern whose meaning depends on where the text begins and ends."""


class BadLogPattern(ValueError):
    """A pattern cannot find values; the message is a clause that says why.

    field: the key that has to change, `pattern` or `line`. hint: what would work."""

    def __init__(self, message: str, *, field: str = "pattern", hint: str) -> None:
        super().__init__(message)
        self.field = field
        self.hint = hint


@dataclass(frozen=True)
class LogRule:
    """How values are found in a line."""

    pattern: str
    """Pattern that is searched for again and again along a line: each match is a value, or, without a
    group for the value, says at which step or epoch the following values are."""
    line: str = ""
    """Pattern that a line must match for `pattern` to be applied; it may name step and epoch."""
    name: str = ""
    """Name of the metric, where no group gives it."""


_SPLITS = "train|training|val|valid|validation|eval|evaluation|test|dev"
_PREFIXES = (
    rf"(?:(?:{_SPLITS}|avg|average|mean|running|last|total|final|best)(?: set)?[ _/.-]){{0,2}}"
    r"(?:[a-z]\w*[_/.])*"
)
_SUFFIX = r"(?:@\d+|_\d+|\d|_[a-z]{1,5})?"
"""Number of a loss or accuracy, or its part: `loss_train`, `Loss_D`, `loss_cls`."""
_RESULT_WORDS = "loss|accuracy|acc|perplexity|ppl|mae|mse|rmse|auc|f1|bleu|reward"
_METRIC_WORDS = rf"{_PREFIXES}(?:{_RESULT_WORDS}|lr|learning[ _]rate|grad[ _]norm|episod(?:e|ic)_return){_SUFFIX}"
_CONTEXT_WORDS = "epoch|global_step|step|iteration|iter|episode"
_CONTEXT_GAP = r"(?:\(\w+\))?\W{0,3}\s*"
"""What may be between the word and its number: `Epoch(train)  [1]`, `iteration       10`."""
_KEY_VALUE = (
    rf"(?i)(?:\b(?P<context>{_CONTEXT_WORDS}){_CONTEXT_GAP}(?P<at>\d+(?:\.\d+)?)"
    rf"""|\b(?P<name>{_METRIC_WORDS})["']?(?:\s*[:=]\s*\[?|\s+)(?P<value>{_NUMBER})\.?(?:[^\w./]|$))"""
)

PRESETS: Final[dict[str, tuple[LogRule, ...]]] = {
    # {'loss': 0.34, 'learning_rate': 5e-05, 'epoch': 0.1}, also as JSON
    "huggingface": (
        LogRule(
            rf"""["'](?P<name>[\w/.@-]+)["']\s*:\s*["']?(?P<value>{_NUMBER})["']?\s*[,}}]""",
            line=r"""^\s*\{.*["'][\w/.-]*loss["']\s*:.*\}\s*$""",
        ),
    ),
    # iter 20: loss 3.6010, time 12.34ms      step 250: train loss 2.0, val loss 2.1
    "nanogpt": (
        LogRule(
            rf"(?P<name>(?:train |val )?loss) (?P<value>{_NUMBER})",
            line=r"^(?:iter|step) (?P<step>\d+): ",
        ),
    ),
    # Epoch 3/10
    # 32/32 ━━━━━ 0s 5ms/step - loss: 0.3 - val_loss: 0.4
    "keras": (
        LogRule(r"^Epoch (?P<step>\d+)/\d+\s*$"),
        LogRule(
            rf" - (?P<name>[A-Za-z]\w*): (?P<value>{_NUMBER})",
            line=r"^[\s\x08]*(?P<done>\d+)/(?P<total>\d+)\s.*/(?:step|epoch|sample)\b",
        ),
    ),
    # [12]  validation-rmse:0.3  train-rmse:0.2
    "xgboost": (
        LogRule(
            rf"\s(?P<group>[\w.-]+)-(?P<name>[\w@.]+):(?P<value>{_NUMBER})",
            line=r"^\[(?P<step>\d+)\]\s",
        ),
    ),
    # [12]  valid_0's l2: 0.34  valid_0's auc: 0.8
    "lightgbm": (
        LogRule(
            rf"\s(?P<group>\w[\w ]*)'s (?P<name>[\w@.-]+): (?P<value>{_NUMBER})",
            line=r"^\[(?P<step>\d+)\]\s",
        ),
    ),
    # 12:	learn: 0.69	test: 0.7	best: 0.7 (12)	total: 47ms
    "catboost": (
        LogRule(
            rf"\s(?P<name>learn|test\d*): (?P<value>{_NUMBER})",
            line=r"^(?P<step>\d+):\s+(?:learn|test\d*): ",
        ),
    ),
    "key_value": (
        # Epoch 3      ----- EPOCH 3: -----
        LogRule(rf"(?i)^\W*epoch{_CONTEXT_GAP}(?P<epoch>\d+)\W*$"),
        # epoch 3 loss=0.1      Epoch [1/5], Step [100/600], Loss: 0.52      Train Epoch: 1 … Loss: 2.30
        LogRule(_KEY_VALUE, line=rf"(?i)(?:^|[^\w/])(?:{_CONTEXT_WORDS}|batch){_CONTEXT_GAP}\d"),
        # [1,  2000] loss: 2.173
        LogRule(_KEY_VALUE, line=r"^\[(?P<epoch>\d+), +(?P<step>\d+)\] "),
        # [0/25][100/782] Loss_D: 1.8 Loss_G: 5.2
        LogRule(_KEY_VALUE, line=r"^\[(?P<epoch>\d+)/\d+\]\s*\[(?P<step>\d+)/\d+\]\s"),
        # train Loss: 0.52 Acc: 0.7      Test set: Average loss: 0.05      loss: 2.3  [   64/60000]
        LogRule(
            _KEY_VALUE,
            line=rf"(?i)^\W*(?:(?:{_SPLITS}) set: )?{_PREFIXES}(?:{_RESULT_WORDS}){_SUFFIX}"
            rf"\s*[:=]\s*{_NUMBER}%?(?:[\s,;|]|$)",
        ),
    ),
}
"""Patterns for what libraries and tutorials print, by name."""
AUTO: Final = "auto"
"""Pattern that stands for all presets, as long as nothing else reports metrics of the script."""


@dataclass(frozen=True)
class LogValue:
    """A value that a line gives."""

    name: str
    value: float
    step: int
    epoch: float | None
    line: str
    """Line that gives it, cut to its first 300 characters."""


class LogPattern:
    """A pattern of a document, compiled."""

    def __init__(self, pattern: str, *, name: str = "", line: str = "") -> None:
        """Compile the pattern, which may be the name of a preset. Raises BadLogPattern."""
        rules: tuple[LogRule, ...] | None = None
        if pattern == AUTO:
            rules = tuple(rule for preset in PRESETS.values() for rule in preset)
        elif pattern in PRESETS:
            rules = PRESETS[pattern]
        if rules is None:
            self.rules = _compiled((LogRule(pattern, line=line, name=name),), GROUPS)
        elif name or line:
            raise BadLogPattern(
                f"has no effect beside the preset {pattern!r}",
                field="name" if name else "line",
                hint="leave it out, or write a pattern of your own",
            )
        else:
            self.rules = _compiled(rules, _PRESET_GROUPS)
        self.is_auto = pattern == AUTO


class _Compiled:
    """A rule with its patterns compiled."""

    def __init__(self, rule: LogRule, allowed: Sequence[str]) -> None:
        self.pattern = _compile(rule.pattern, "pattern", allowed)
        self.line = _compile(rule.line, "line", allowed) if rule.line else None
        self.name = clean_name(rule.name) if rule.name else ""
        first = rule.line or rule.pattern
        self.scan = (
            None if _NEEDS_LINE.search(first) else re2.compile(f"(?m:{first})", _options(False))
        )
        """Finds every line that may match, among many at once; None where it would not."""
        groups: dict[str, int] = self.pattern.groupindex
        unnamed = sorted(set(range(1, self.pattern.groups + 1)) - set(groups.values()))
        self.value = groups.get("value") or (unnamed[0] if unnamed else 0)
        """Number of the group with the value; 0: there is none."""
        self.groups = frozenset(groups)
        if not self.value and not self.groups & {"step", "epoch"}:
            raise BadLogPattern(
                "has no group for the value",
                hint=r"put what matches the number in one: loss (?P<value>\S+)",
            )
        if self.value and not self.name and "name" not in self.groups:
            raise BadLogPattern(
                "finds values without a name",
                hint="name the metric with `name: train/loss`, or by a group: (?P<name>\\w+)=(?P<value>\\S+)",
            )


def _compiled(rules: Sequence[LogRule], allowed: Sequence[str]) -> tuple[_Compiled, ...]:
    return tuple(_Compiled(rule, allowed) for rule in rules)


class LogScanner:
    """Finds values in one log, which is fed to it in pieces of any length.

    Steps and counts go on from piece to piece. A value whose step is not in its line has the step of
    the last line that named one without a value, else the number of values of its name before it.
    Steps that begin again while the epoch has grown go on counting from where they were. Of several
    values of a name at one step the first is taken.
    """

    def __init__(self, patterns: Sequence[LogPattern]) -> None:
        self._rules = [rule for pattern in patterns for rule in pattern.rules]
        self._rest = b""
        self._step: int | None = None
        self._epoch: float | None = None
        self._series: dict[str, _Series] = {}
        self.num_lines = 0
        """Number of lines that gave a value."""
        self.num_refused = 0
        """Number of matches that are no value: no number, or a name beyond NAMES_MAX."""
        self.refused = ""
        """The first of them, with the reason."""

    def feed(self, data: bytes, *, is_last: bool = False) -> list[LogValue]:
        """Return the values of the lines that `data` completes; with `is_last` also those of a last
        line without an end."""
        data = self._rest + data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = len(data) if is_last else data.rfind(b"\n") + 1
        if not is_last and len(data) - end > LINE_MAX_BYTES:
            end = len(data)
        self._rest = data[end:]
        return list(self._search(visible(data[:end])))

    def _search(self, text: bytes) -> Iterator[LogValue]:
        at = 0
        while at < len(text):
            end = text.find(b"\n", at + _BLOCK_BYTES) + 1 or len(text)
            yield from self._search_block(text[at:end])
            at = end

    def _search_block(self, text: bytes) -> Iterator[LogValue]:
        lines: dict[int, list[_Compiled]] = {}
        for rule in self._rules:
            for start in _line_starts(text, rule.scan):
                lines.setdefault(start, []).append(rule)
        for start in sorted(lines):
            end = text.find(b"\n", start)
            line = text[start : end if end >= 0 else len(text)]
            for at in range(0, len(line), LINE_MAX_BYTES):
                found = list(self._values(line[at : at + LINE_MAX_BYTES], lines[start]))
                self.num_lines += bool(found)
                yield from found

    def _values(self, line: bytes, rules: Sequence[_Compiled]) -> Iterator[LogValue]:
        taken: set[str] = set()
        for rule in rules:
            found = _read_line(line, rule)
            if found is None:
                continue
            if not rule.value:
                self._step = self._step if found.step is None else found.step
                self._epoch = self._epoch if found.epoch is None else found.epoch
                continue
            for problem in found.problems:
                self._refuse(problem)
            names = dict.fromkeys(name for name, _ in found.values if name not in taken)
            for name in names:
                value = next(value for other, value in found.values if other == name)
                emitted = self._take(name, value, found, line)
                if emitted is not None:
                    yield emitted
            taken.update(names)

    def _take(self, name: str, value: float, found: _LineFindings, line: bytes) -> LogValue | None:
        series = self._series.get(name)
        if series is None:
            if len(self._series) >= NAMES_MAX:
                self._refuse(f"{name!r}: more than {NAMES_MAX} names")
                return None
            series = self._series[name] = _Series()
        step = self._step if found.step is None else found.step
        epoch = self._epoch if found.epoch is None else found.epoch
        place = series.place(step, epoch)
        if place is None:
            return None
        return LogValue(name, value, place, epoch, line[:300].decode("utf-8", "replace").strip())

    def _refuse(self, problem: str) -> None:
        self.num_refused += 1
        self.refused = self.refused or problem


@dataclass
class _Series:
    """How far the values of one name have come."""

    count: int = 0
    base: int = 0
    """Steps of the epochs before, where they begin again in each."""
    step: int | None = None
    epoch: float | None = None

    def place(self, step: int | None, epoch: float | None) -> int | None:
        """Return the step of the next value; None if there was one at this step."""
        if step is None:
            self.count += 1
            return self.count - 1
        if self.step is not None:
            has_new_epoch = epoch is not None and self.epoch is not None and epoch > self.epoch
            if step == self.step and not has_new_epoch:
                return None
            if step <= self.step and has_new_epoch:
                self.base += self.step + (step == 0)  # where the first step of an epoch is 0
        self.step, self.epoch = step, epoch
        return self.base + step


@dataclass
class _LineFindings:
    """What one rule has found in a line."""

    step: int | None = None
    epoch: float | None = None
    values: list[tuple[str, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _read_line(line: bytes, rule: _Compiled) -> _LineFindings | None:
    """Return what a rule finds in a line; None if the line is not one of its."""
    found = _LineFindings()
    if rule.line is not None:
        of_line = rule.line.search(line)
        if of_line is None:
            return None
        groups = _texts(of_line)
        if "total" in groups and groups["total"] != groups["done"]:
            return None
        _set_context(found, groups)
    for match in rule.pattern.finditer(line):
        groups = _texts(match)
        _set_context(found, groups)
        if word := groups.get("context"):
            _set_word(found, word, groups.get("at", ""))
        if not rule.value or len(found.values) >= VALUES_PER_LINE_MAX:
            continue
        text = match.group(rule.value)
        if text is None:
            continue
        said = text.decode("utf-8", "replace")
        if not rule.name and _set_word(found, groups.get("name", ""), said):
            continue
        name = rule.name or clean_name(
            "/".join(part for part in (groups.get("group"), groups.get("name")) if part)
        )
        name = f"log/{name}" if name.startswith(MEASURED) else name
        try:
            found.values.append((name, float(said.strip().rstrip(",;"))))
        except ValueError:
            found.problems.append(f"{name!r}: {said[:60]!r} is not a number")
    return found


def _texts(match: Any) -> dict[str, str]:
    return {
        name: text.decode("utf-8", "replace")
        for name, text in match.groupdict().items()
        if text is not None
    }


def _set_context(found: _LineFindings, groups: dict[str, str]) -> None:
    for name in ("step", "epoch"):
        if name in groups:
            _set_word(found, name, groups[name])


def _set_word(found: _LineFindings, word: str, text: str) -> bool:
    """Take a number for the line's step or epoch if the word says so; the first of each counts.
    Return whether it does."""
    word = word.lower()
    if word not in _EPOCH_WORDS | _STEP_WORDS:
        return False
    with contextlib.suppress(ValueError):
        number = float(text.strip().replace(",", ""))
        if word in _EPOCH_WORDS and found.epoch is None and 0 <= number < STEP_MAX:
            found.epoch = number
        elif word in _STEP_WORDS and found.step is None and 0 <= number < STEP_MAX:
            found.step = int(number)
    return True


def _line_starts(text: bytes, scan: Any) -> Iterator[int]:
    """Yield where the lines begin in which a scan finds something; all of them without one."""
    at = 0
    while at < len(text):
        start = at
        if scan is not None:
            match = scan.search(text, at)
            if match is None:
                return
            start = text.rfind(b"\n", 0, match.start()) + 1
        yield start
        end = text.find(b"\n", start if scan is None else max(start, match.start()))
        if end < 0:
            return
        at = end + 1


@functools.cache
def _options(captures: bool) -> Any:
    options = re2.Options()
    options.never_capture = not captures
    options.log_errors = False
    options.max_mem = PATTERN_MAX_BYTES
    return options


def _compile(pattern: str, key: str, allowed: Sequence[str]) -> Any:
    try:
        compiled = re2.compile(pattern, _options(True))
    except re2.error as error:
        (reason,) = error.args
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise BadLogPattern(
            f"is not a pattern of RE2: {said}",
            field=key,
            hint="RE2 has no look-around and no back-references; write \\( for a parenthesis",
        ) from None
    groups = set(compiled.groupindex)
    if unknown := sorted(groups - set(allowed)):
        raise BadLogPattern(
            f"names a group {unknown[0]!r}, which means nothing here",
            field=key,
            hint=f"groups are {', '.join(GROUPS)}; for another metric add a pattern with its `name`",
        )
    if key == "line" and "value" in groups:
        raise BadLogPattern(
            "names the group 'value', which belongs into `pattern`",
            field=key,
            hint="`line` may name step and epoch; values are found by `pattern`",
        )
    return compiled
