"""Values in the lines of a log, found by patterns of RE2 in linear time.

The shim of a job applies the patterns of its document while the job writes (`metrics.from_log`), and
the server applies a pattern to a log that it holds to show what it would find. Both feed the bytes of
one stream, in order, to a `LogScanner`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

from muster.log_lines import RESULT_LINE, STEP_MAX, VALUES_PER_LINE_MAX, LineFindings, read_line
from muster.log_numbers import NUMBER, NumberStyle
from muster.log_tables import TABLE_LINE, TableReader
from muster.log_text import visible
from muster.sdk.metrics import MEASURED
from muster.series_rules import clean_name

PATTERN_MAX_BYTES: Final = 1 << 20
"""Memory that one compiled pattern may take."""
LINE_MAX_BYTES: Final = 16_384
"""A longer line is searched in pieces of this length."""
NAMES_MAX: Final = 500
"""Names of one log; a pattern that finds more finds no metrics, and further names are counted only."""
_BLOCK_BYTES: Final = 4_096
"""Text that is searched at once: the time of one search may grow with what follows."""

GROUPS: Final = ("value", "name", "group", "step", "epoch")
"""Named groups that a pattern may have."""
_PRESET_GROUPS = (*GROUPS, "done", "total")
"""Groups that a preset may have: a line counts when as much is done as there is in total."""
_EPOCH_WORDS = frozenset({"epoch"})
_STEP_WORDS = frozenset({"step", "global_step", "iteration", "iter", "episode"})
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


@dataclass(frozen=True)
class LogReader:
    """Values that are found by reading a line, not by a pattern."""

    scan: str
    """Pattern of the lines that are read."""
    is_table: bool = False
    """Whether lines are read as those of tables, each with what came before it; else each by itself."""


_OPTUNA = r"\bTrial (?P<step>\d+) finished with values?: "

PRESETS: Final[dict[str, tuple[LogRule | LogReader, ...]]] = {
    # {'loss': 0.34, 'learning_rate': 5e-05, 'epoch': 0.1}, also as JSON
    "huggingface": (
        LogRule(
            rf"""["'](?P<name>[\w/.@-]+)["']\s*:\s*["']?(?P<value>{NUMBER})["']?\s*[,}}]""",
            line=r"""^\s*\{.*["'][\w/.-]*loss["']\s*:.*\}\s*$""",
        ),
    ),
    # iter 20: loss 3.6010, time 12.34ms      step 250: train loss 2.0, val loss 2.1
    # 20 | loss 3.6010 | lr 1.0e-04 | 12.34ms
    "nanogpt": (
        LogRule(
            rf"(?P<name>(?:train |val )?loss) (?P<value>{NUMBER})",
            line=r"^(?:iter|step) (?P<step>\d+): ",
        ),
        LogRule(
            rf"\| (?P<name>loss|lr) (?P<value>{NUMBER})", line=r"^(?P<step>\d+) \| loss [\d.]+ \| "
        ),
    ),
    # Epoch 3/10
    # 32/32 ━━━━━ 0s 5ms/step - loss: 0.3 - val_loss: 0.4
    "keras": (
        LogRule(r"^Epoch (?P<epoch>\d+)/\d+\s*$"),
        LogRule(
            rf" - (?P<name>[A-Za-z][\w ]*): (?P<value>{NUMBER})",
            line=r"^[\s\x08]*(?P<done>\d+)/(?P<total>\d+)\s.*/(?:step|epoch|sample)\b",
        ),
    ),
    # [12]  validation-rmse:0.3  train-rmse:0.2
    "xgboost": (
        LogRule(
            rf"\s(?P<group>[\w.-]+)-(?P<name>[\w@.]+):(?P<value>{NUMBER})",
            line=r"^\[(?P<step>\d+)\]\s",
        ),
    ),
    # [12]  valid_0's l2: 0.34  valid_0's auc: 0.8
    "lightgbm": (
        LogRule(
            rf"\s(?P<group>\w[\w ]*)'s (?P<name>[\w@.-]+): (?P<value>{NUMBER})",
            line=r"^\[(?P<step>\d+)\]\s",
        ),
    ),
    # 12:	learn: 0.69	test: 0.7	best: 0.7 (12)	total: 47ms
    "catboost": (
        LogRule(
            rf"\s(?P<name>learn|test\d*): (?P<value>{NUMBER})",
            line=r"^(?P<step>\d+):\s+(?:learn|test\d*): ",
        ),
    ),
    # Trial 4 finished with value: 0.52 and parameters: {…}. Best is trial 2 with value: 0.48.
    "optuna": (
        LogRule(rf"finished with value: (?P<value>{NUMBER})", line=_OPTUNA, name="value"),
        LogRule(rf"finished with values: \[(?P<value>{NUMBER}),", line=_OPTUNA, name="value_0"),
        LogRule(
            rf"finished with values: \[{NUMBER}, (?P<value>{NUMBER})", line=_OPTUNA, name="value_1"
        ),
        LogRule(
            rf"Best is trial \d+ with value: (?P<value>{NUMBER})", line=_OPTUNA, name="best_value"
        ),
    ),
    # |    ep_rew_mean     | 123 |      epoch  train_loss  valid_loss
    "tables": (LogReader(TABLE_LINE, is_table=True),),
    # Epoch [1/5], Step [100/600], Loss: 0.52      val acc = 71.2%      Test: Acc@1 69.7
    "key_value": (LogReader(RESULT_LINE),),
}
"""Patterns for what libraries and tutorials print, by name."""
AUTO: Final = "auto"
"""Pattern that stands for all presets."""


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
        rules: tuple[LogRule | LogReader, ...] | None = None
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
        self.is_preset = allowed is _PRESET_GROUPS
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


class _Reading:
    """A reader with its pattern compiled."""

    value = 1
    """Number of the group with the value, as of a rule that finds values; readers have none."""

    def __init__(self, reader: LogReader) -> None:
        self.scan = re2.compile(f"(?m:{reader.scan})", _options(False))
        self.is_table = reader.is_table


def _compiled(
    rules: Sequence[LogRule | LogReader], allowed: Sequence[str]
) -> tuple[_Compiled | _Reading, ...]:
    return tuple(
        _Reading(rule) if isinstance(rule, LogReader) else _Compiled(rule, allowed)
        for rule in rules
    )


class LogScanner:
    """Finds values in one log, which is fed to it in pieces of any length.

    Steps go on from piece to piece. A value whose step is not in its line belongs to the last step
    that the log named; without one, to its epoch if the log counts epochs, else values are numbered in
    the order in which they come, all names together. Steps that begin again in each epoch go on
    counting. Of several values of a name at one named step the first is taken.
    """

    def __init__(self, patterns: Sequence[LogPattern]) -> None:
        self._rules = [rule for pattern in patterns for rule in pattern.rules]
        self._rest = b""
        self._numbers = NumberStyle()
        self._tables = TableReader()
        self._places = _Places()
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
        lines: dict[int, list[_Compiled | _Reading]] = {}
        for rule in self._rules:
            for start in _line_starts(text, rule.scan):
                lines.setdefault(start, []).append(rule)
        for start in sorted(lines):
            end = text.find(b"\n", start)
            line = text[start : end if end >= 0 else len(text)]
            for at in range(0, len(line), LINE_MAX_BYTES):
                rules = lines[start] if len(line) <= LINE_MAX_BYTES else _patterns_of(lines[start])
                found = list(self._values(line[at : at + LINE_MAX_BYTES], rules))
                self.num_lines += bool(found)
                yield from found

    def _values(self, line: bytes, rules: Sequence[_Compiled | _Reading]) -> Iterator[LogValue]:
        taken: set[str] = set()
        for rule in rules:
            if isinstance(rule, _Compiled):
                found = _read_line(line, rule, self._numbers)
            elif taken:
                continue  # A preset knows the line.
            elif rule.is_table:
                found = self._tables.read(line, self._numbers)
            else:
                found = read_line(line, self._numbers, self._places.heading_now)
            if found is None:
                continue
            place = self._places.of(found)
            if not found.values and not found.problems:
                self._places.heading(place, found.heading)
            for problem in found.problems:
                self._refuse(problem)
            for name, value in found.values:
                if isinstance(rule, _Reading) or rule.is_preset:
                    name = name.replace(" ", "_")  # train loss 2.3
                name = clean_name(name)
                name = f"log/{name}" if name.startswith(MEASURED) else name
                if name not in taken:
                    taken.add(name)
                    emitted = self._take(name, value, place, line)
                    if emitted is not None:
                        yield emitted

    def _take(self, name: str, value: float, place: _Place, line: bytes) -> LogValue | None:
        series = self._series.get(name)
        if series is not None and series.step is not None and place.is_of_epoch:
            # An epoch's loss, maybe a sum, is another curve than that of its steps.
            name = f"epoch_{name}"
            series = self._series.get(name)
        if series is None:
            if len(self._series) >= NAMES_MAX:
                self._refuse(f"{name!r}: more than {NAMES_MAX} names")
                return None
            series = self._series[name] = _Series()
        is_again = series.value == value and series.place == place
        series.value, series.place = value, place
        if is_again:
            return None  # The same line, for a file and the terminal, say.
        step = self._places.step(series, place)
        if step is None:
            return None
        if not 0 <= step < STEP_MAX:
            self._refuse(f"{name!r}: step {step} is too large")
            return None
        text = line[:300].decode("utf-8", "replace").strip()
        return LogValue(name, value, step, place.epoch, text)

    def _refuse(self, problem: str) -> None:
        self.num_refused += 1
        self.refused = self.refused or problem


@dataclass
class _Place:
    """Where the values of a line are."""

    step: int | None
    """Step that the line names, counted on over epochs where that is known."""
    epoch: float | None
    is_of_epoch: bool = False
    """Whether the line names its epoch, but no step."""


@dataclass
class _Series:
    """How far the values of one name have come."""

    step: int | None = None
    """Last step that the log named."""
    last: int = -1
    """Step of the last value."""
    value: float | None = None
    place: _Place | None = None
    """Last value, and the place that its line named."""


@dataclass
class _Places:
    """Where in its training a log is."""

    step_now: int | None = None
    """Last step of a value."""
    base: int = 0
    """Steps of the epochs before, where they begin again in each."""
    first: int | None = None
    said: int = 0
    """First and last step as the log named them."""
    said_epoch: float | None = None
    """Epoch of the last step."""
    epoch: float | None = None
    heading_now: str = ""
    """Part of the data that the lines are of, as a heading said."""
    heading_epoch: float | None = None
    """Epoch of that heading."""
    first_epoch: int = 1
    """Number of the first epoch: 0 once the log has named an epoch 0."""
    counts_epochs: bool = True
    """Whether epochs are whole numbers."""
    count: int = -1
    """Number of the last value that has neither step nor epoch."""
    rounds: int = 0
    """Epochs that positions without an epoch have begun."""
    last_position: tuple[int, int] = (0, 0)
    last_weak: tuple[int, float | None] | None = None
    steps_are_of_epoch: bool = False
    """Whether steps of a number of steps are those of the epoch."""
    last_step: tuple[float, int] = (-1.0, -1)
    """Epoch and step of the last line that named a step of a number of steps."""

    def of(self, found: LineFindings) -> _Place:
        """Return the place that a line names; an epoch holds for the lines that follow."""
        if found.epoch is not None:
            self.epoch = found.epoch
            self.counts_epochs = self.counts_epochs and found.is_whole_epoch
            if found.epoch == 0 or found.is_zero_based:
                self.first_epoch = 0
        epoch = None if self.epoch is None or not self.counts_epochs else int(self.epoch)
        step = found.step
        if found.position is not None and step is None:
            step = self._running(found.position, epoch)
        elif step is not None and found.is_weak:
            weak = (step, self.epoch)
            step = None if weak == self.last_weak else step  # Its size, not its number.
            self.last_weak = weak
        if step is not None and found.values and found.position is None:
            if found.step_of and epoch is not None:
                step = self._of_epoch(step, epoch, found)
            else:
                step = self._counted(step, found.is_eval)
        return _Place(step, self.epoch, step is None and found.epoch is not None)

    def heading(self, place: _Place, split: str) -> None:
        """Take a line that says nothing but where the following ones are, or of which data."""
        if place.step is not None:
            self.step_now = place.step
        if split or self.epoch != self.heading_epoch:
            self.heading_now, self.heading_epoch = split, self.epoch

    def step(self, series: _Series, place: _Place) -> int | None:
        """Return the step of the next value of a series; None if there was one at this step."""
        if place.step is not None:
            step = self._named(series, place.step)
            if step is not None:
                self.step_now = step
        elif self.step_now is not None:
            step = max(self.step_now, series.last + 1)
        elif place.epoch is not None and self.counts_epochs:
            step = max(int(place.epoch), series.last + 1)
        else:
            self.count += self.count < 0 or series.last >= self.count
            step = self.count
        if step is not None:
            series.last = step
        return step

    def _running(self, position: tuple[int, int], epoch: int | None) -> int:
        at, of = position
        if epoch is not None:
            return max(0, epoch - self.first_epoch) * of + at
        if at < self.last_position[0] and of == self.last_position[1]:
            self.rounds += 1
        self.last_position = position
        return self.rounds * of + at

    def _of_epoch(self, step: int, epoch: int, found: LineFindings) -> int:
        """Return the step counted over all epochs, where a number of steps is that of one epoch: when
        steps begin again, or when there are too few for the epochs before."""
        before = epoch - self.first_epoch
        last_epoch, last = self.last_step
        self.last_step = (epoch, step)
        self.steps_are_of_epoch = (
            self.steps_are_of_epoch
            or (last_epoch >= 0 and epoch > last_epoch and step <= last)
            or (before > 0 and 0 < step * found.epoch_of < before * found.step_of)
        )
        return before * found.step_of + step if self.steps_are_of_epoch and before > 0 else step

    def _counted(self, step: int, is_eval: bool) -> int:
        """Return a step counted on over epochs, when it begins again in each: with a new epoch, or at
        the step at which the log began. Passes over other data have steps of their own."""
        if not is_eval:
            epochs = (self.said_epoch, self.epoch)
            has_new_epoch = None not in epochs and self.epoch > self.said_epoch  # type: ignore[operator]
            begins_again = step == self.first and step < self.said
            if self.first is None:
                self.first = step
            elif (has_new_epoch and step <= self.said) or begins_again:
                self.base += self.said + (step == 0)  # where the first step of an epoch is 0
            self.said, self.said_epoch = step, self.epoch
        return self.base + step

    @staticmethod
    def _named(series: _Series, step: int) -> int | None:
        """Return a step that the log names; None if the series has a value there."""
        is_forward = series.step is None or step > series.step
        is_taken = step == series.step or (is_forward and step <= series.last)
        series.step = step
        return None if is_taken else step


def _read_line(line: bytes, rule: _Compiled, numbers: NumberStyle) -> LineFindings | None:
    """Return what a rule finds in a line; None if the line is not one of its."""
    found = LineFindings()
    if rule.line is not None:
        of_line = rule.line.search(line)
        if of_line is None:
            return None
        groups = _texts(of_line)
        if "total" in groups and groups["total"] != groups["done"]:
            return None
        _set_context(found, groups, numbers)
    matches = [(match, _texts(match)) for match in rule.pattern.finditer(line)]
    texts = [match.group(rule.value) if rule.value else None for match, _ in matches]
    for text in texts:
        numbers.note("" if text is None else text.decode("utf-8", "replace"))
    for (_, groups), text in zip(matches, texts, strict=True):
        _set_context(found, groups, numbers)
        if text is None or len(found.values) >= VALUES_PER_LINE_MAX:
            continue
        said = text.decode("utf-8", "replace")
        if not rule.name and _set_word(found, groups.get("name", ""), said, numbers):
            continue
        name = rule.name or "/".join(
            part for part in (groups.get("group"), groups.get("name")) if part
        )
        value = numbers.read(said)
        if value is None:
            found.problems.append(f"{clean_name(name)!r}: {said[:60]!r} is not a number")
        else:
            found.values.append((name, value))
    return found


def _texts(match: Any) -> dict[str, str]:
    return {
        name: text.decode("utf-8", "replace")
        for name, text in match.groupdict().items()
        if text is not None
    }


def _set_context(found: LineFindings, groups: dict[str, str], numbers: NumberStyle) -> None:
    for name in ("step", "epoch"):
        if name in groups:
            _set_word(found, name, groups[name], numbers)


def _set_word(found: LineFindings, word: str, text: str, numbers: NumberStyle) -> bool:
    """Take a number for the line's step or epoch if the word says so; the first of each counts.
    Return whether it does."""
    word = word.lower()
    if word not in _EPOCH_WORDS | _STEP_WORDS:
        return False
    number = numbers.read(text, is_whole="." not in text)
    if number is None or not 0 <= number < STEP_MAX:
        return True
    if word in _EPOCH_WORDS and found.epoch is None:
        found.epoch, found.is_whole_epoch = number, "." not in text
    elif word in _STEP_WORDS and found.step is None:
        found.step = int(number)
    return True


def _patterns_of(rules: Sequence[_Compiled | _Reading]) -> list[_Compiled | _Reading]:
    return [rule for rule in rules if isinstance(rule, _Compiled)]


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
