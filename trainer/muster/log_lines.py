"""Reads a line that names its values: `Epoch 3/10, train loss: 0.45, val acc = 71.2%`.

A line is cut into pairs of a name and a number. The last word of the name says whether it is a place
(epoch, step), a result (loss, accuracy) or neither. Everything is linear in the length of the line.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.log_numbers import NUMBER, NumberStyle

VALUES_PER_LINE_MAX: Final = 100
LINE_BYTES_MAX: Final = 4_000
"""A longer line is prose or data, not results."""
_TOKENS_PER_LINE_MAX: Final = 400
STEP_MAX: Final = 2**53


@dataclass
class LineFindings:
    """What is found in one line."""

    step: int | None = None
    epoch: float | None = None
    is_whole_epoch: bool = False
    """Whether the epoch is printed as a whole number, which counts epochs."""
    position: tuple[int, int] | None = None
    """Which of how many iterations of the epoch the line is of."""
    step_of: int = 0
    """Number of steps that is printed with the step: of the epoch, or of all; 0: none is."""
    epoch_of: int = 0
    """Number of epochs that is printed with the epoch; 0: none is."""
    is_weak: bool = False
    """Whether the step is a batch's number, which may be the size of the batch as well."""
    is_zero_based: bool = False
    """Whether the format counts epochs from 0."""
    is_eval: bool = False
    """Whether the line is of a pass over other data than the training's."""
    heading: str = ""
    """Part of the data that the following lines are of: `Validation:`."""
    values: list[tuple[str, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SPLITS: Final = (
    "train|training|trn|val|valid|validation|validating|eval|evaluation|evaluating|test|testing|dev"
)
_TRAIN = frozenset({"train", "training", "trn"})
_SPLIT_WORDS = frozenset(SPLITS.split("|"))
_QUALIFIERS = _SPLIT_WORDS | _words(
    "set avg average mean median running smoothed last total final best max min ema overall global current"
)
_STRICT = _words("loss losses accuracy acc perplexity ppl mae mse rmse auc f1 bleu reward rewards")
"""Words that a line may begin with to be one of results."""
_RESULTS = _STRICT | _words(
    "auroc auprc roc ap map ar fbeta rouge meteor cider wer cer return returns score error err r2 iou "
    "miou dice precision recall specificity sensitivity psnr ssim lpips fid kl kld entropy elbo nll bce "
    "ce bpc bpb mrr ndcg hits kappa mcc cost lost nmi ari ade fde minade minfde smape mape mase crps "
    "top pck hinge"
)
_RATES = frozenset({"lr"})
_PHRASES = frozenset({"learning rate", "grad norm", "gradient norm"})
_PARTS_OF_NAMES = frozenset({"learning_rate", "grad_norm", "gradnorm", "gnorm"})
_NOT_RESULTS = _words(
    "weight weights scale scaler scaling fn func function type name coef coeff coefficient ratio "
    "threshold thresh patience interval freq fraction factor target goal time steps step lambda alpha "
    "count num path file dir class term terms temperature margin mode"
)
"""Words that make a name one of a setting: `loss_scale`."""
_FILLERS = _words("the with at of and is new this our a an got with has info")
_WISHES = _words("target goal required expected minimum maximum previous baseline initial desired")
_EPOCH_WORDS = frozenset({"epoch", "ep"})
_STEP_WORDS = _words(
    "step global_step globalstep iteration iter iters episode timestep timesteps total_timesteps update "
    "num_updates round generation it train_step training_step n_iter"
)
_WEAK_WORDS = frozenset({"batch"})

_WORD = r"[A-Za-z][\w@/.+-]*+(?:\(\w*\))?"
_TOKEN = re.compile(
    # [ 64/60000 (1%)]
    r"\[\s*+(?P<at>\d{1,15})\s*+/\s*+(?P<of>\d{1,15})\s*+(?:\(\s*+[\d.]{1,9}\s*+%\s*+\))?\s*+\]"
    # ep03      step_100
    r"|\b(?P<glued>(?i:epoch|ep|step|iteration|iter|it))[_-]?(?P<number>\d{1,15})\b"
    # train loss: 0.5      Step [100/600]      loss = tensor(2.3, grad_fn=…)      Accuracy: 98/100 (98%)
    rf"|(?<![\w@/.+-])(?P<name>{_WORD}(?: {_WORD}){{0,4}})[\"'\]]?"
    r"(?P<sep>\s*+[:=#]++\s*+|\s++|[\[(]\s*+)"
    r"(?P<open>(?:(?:tensor|array|Array|DeviceArray|Variable|(?:np\.|torch\.|jnp\.)?float\d{0,3})\()?"
    r"[\[(]?[\"']?\s*+)"
    rf"(?P<value>{NUMBER})"
    r"(?:\s*+/\s*+(?P<whole>\d{1,15})\b(?:\s*+\(\s*+(?P<percent>\d{1,9}(?:\.\d{1,9})?)\s*+%\s*+\))?)?"
    # 100/800
    r"|\b(?P<bare_at>\d{1,15})/(?P<bare_of>\d{1,15})\b"
    # Test: …      [Val] …      Test set: …
    rf"|\b(?P<mark>(?i:{SPLITS}))(?i: set| split| metrics| results| error)?\s*+(?:[:|\])]|->|=>)",
    re.ASCII,
)
_AVERAGE = re.compile(rf"\s*+\(\s*+(?:avg:?\s*+)?(?P<value>{NUMBER})\s*+\)", re.ASCII)
_UNIT = re.compile(
    r"\s++(?:[*+/@] |if |else )"
    r"|\s(?:m?s|secs?|seconds|mins?|minutes|h|hours|its?|img|images|samples|examples|batches|rows)\b"
)
"""What makes a number one of time or of things, or part of a program's text."""
_DURATION = re.compile(r"(?<=\d)(?:[mun]?s|sec|min|h)(?![\w/])")
"""What makes a number one of time: `1.2ms`."""
_LONE_TIME = re.compile(r"\d[\d.]*+\s?(?:[mun]?s|sec)\b[ \t.)]*$")
_SPACES = re.compile(r"\s*+")
_LEAD = re.compile(
    r"(?:[\s\-:|>*=#.~+\u2022\u2500-\u257f]++"
    r"|\[[^\]]{0,100}+\]"
    r"|\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?|\d\d/\d\d"
    r"|(?i:debug|info|warning|warn|notice)\b(?::[\w.]{1,100}:)?"
    r"|[\w./]{1,100}+:\d{1,6}\b:?|[\w.]{1,100}+ - "
    r"|\d{1,9}(?:\.\d{1,9})?+[mun]?s(?![\w/]))*+",
    re.ASCII,
)
"""What stands in front of a message: time, level, logger, ornaments, durations."""
_CONTEXT_FIRST = re.compile(
    # [0/25][0/782]      [1,  2000] loss: 2.1
    r"\s*+\[(?P<epoch>\d{1,9})"
    r"(?:/\d{1,9}\]\s*+\[(?P<at>\d{1,15})/(?P<of>\d{1,15})|, ++(?P<step>\d{1,15}))\]",
    re.ASCII,
)
_SUMMARY = re.compile(r"\s*+\*++\s++Acc@1 ")
"""What torch's and torchvision's examples print after the test."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")


RESULT_LINE: Final = (
    r"(?i)(?:loss|lost|acc|perplexity|ppl|ma[ep]|mse|auc|auroc|f1|bleu|reward|return|score|err|"
    r"iou|dice|precision|recall|psnr|ssim|cost|\blr\b|(?:epoch|\bep|step|iter(?:ation)?|episode|batch|"
    r"train|val|test)\W{0,6}\d)[^\n]*(?:\d|nan|inf)"
    r"|(?:epoch|\bep|step|iter(?:ation)?|episode)(?:\(\w+\))?\W{0,6}\d"
    rf"|^\W*(?:{SPLITS})(?: set| results| error)?\W*$"
)
"""Lines that may name a result, or where the following lines are."""


@dataclass(frozen=True)
class _Kind:
    """What a name stands for."""

    kind: str
    """`epoch`, `step`, `weak`, `result`, `strict`, `rate`, `split` or ""."""
    name: str = ""
    """Name with its qualifiers."""
    full: str = ""
    """The whole phrase."""
    split: str = ""
    """Part of the data that it names."""
    is_pure: bool = False
    """Whether the phrase is nothing but qualifiers and the result."""
    is_best: bool = False


@functools.lru_cache(maxsize=4_096)
def _parts(word: str) -> tuple[str, ...]:
    """Return the parts of a word, with those that it has in mixed case as well: `mIoU` is miou."""
    parts = [part.lower() for part in _CAMEL.split(word) if part]
    whole = [part.lower() for part in re.split(r"[^A-Za-z0-9]+|(?<=[A-Za-z])(?=\d)", word) if part]
    said = [part.lower() for part in re.split(r"[^A-Za-z0-9]+", word) if part]
    return tuple(dict.fromkeys([*said, *whole, *parts]))


@functools.lru_cache(maxsize=4_096)
def _is_result(word: str) -> str:
    """Return "strict", "result" or "rate" for the word of a result, else ""."""
    lower = word.lower()
    if lower in _RATES or lower in _PARTS_OF_NAMES:
        return "rate"
    parts = _parts(word)
    if not parts or _NOT_RESULTS & set(parts) or "copypaste" in parts:
        return ""
    if parts[-1] in _RATES or lower.endswith(tuple(_PARTS_OF_NAMES)):
        return "rate"
    for part in parts:
        if part in _STRICT or (part.endswith("loss") and len(part) > 4):
            return "strict"
    if any(part in _RESULTS for part in parts):
        return "result"
    return "result" if parts[0] in _SPLIT_WORDS and "".join(parts[-2:]) in ("l1", "l2") else ""


@functools.lru_cache(maxsize=4_096)
def _classify(phrase: str, is_delimited: bool) -> _Kind:
    """Return what a phrase before a number stands for.

    is_delimited: the phrase begins where a field of the line does."""
    words = phrase.split(" ")
    bare = re.sub(r"\(\w*\)$", "", words[-1]).lower().rstrip(".-_")
    inner = words[-1][len(bare) :].strip("()").lower()
    before = [word.lower() for word in words[:-1]]
    split = next((w for w in [inner, *before] if w in _SPLIT_WORDS), "")
    pair = "_".join([*before[-1:], bare])
    if bare in _EPOCH_WORDS:
        return _Kind("epoch", split=split)
    if bare in _STEP_WORDS or pair in _STEP_WORDS:
        return _Kind("step", split="" if pair in _STEP_WORDS else split)
    if bare in _WEAK_WORDS:
        return _Kind("weak", split=split)
    if len(words) == 1 and bare in _SPLIT_WORDS:
        return _Kind("split", name=words[0], full=words[0], split=bare)
    kind, num = _is_result(words[-1]), 1
    if not kind and len(words) > 1:
        if " ".join([before[-1], bare]) in _PHRASES:
            kind, num = "rate", 2
        elif _is_result(words[-2]) and (bare in _QUALIFIERS or re.fullmatch(r"\w\d?", bare)):
            kind, num = _is_result(words[-2]), 2
    if not kind:
        return _Kind("")
    start = len(words) - num
    while start and before[start - 1] in _QUALIFIERS:
        start -= 1
    named = words[start:]
    rest = before[:start]
    # Training completed. Accuracy: 0.9
    ends = [at for at, w in enumerate(rest, 1) if w[-1] == "." and w.strip(".") not in _QUALIFIERS]
    rest = rest[ends[-1] :] if ends else rest
    while rest and rest[0] in _FILLERS:
        rest = rest[1:]
    full = words[start - len(rest) :] if len(words) - start + len(rest) <= 4 else named
    if is_delimited and rest and not set(rest) & _FILLERS and len(rest) <= 2:
        named = full
    said = {part for word in named for part in _parts(word)}
    found = next((part for part in said if part in _SPLIT_WORDS), "")
    return _Kind(
        kind,
        name=" ".join(named),
        full=" ".join(full),
        split=found,
        is_pure=start == 0,
        is_best=bool(said & {"best", "final"}),
    )


def is_metric(name: str) -> bool:
    """Return whether a name is that of a result, or of a rate."""
    return _classify(name, True).kind in ("strict", "result", "rate")


def read_line(line: bytes, numbers: NumberStyle, split: str = "") -> LineFindings | None:
    """Return the values that a line names and where they are; None if it is no line of results.

    split: part of the data that a heading before has named, for a line that names none."""
    if len(line) > LINE_BYTES_MAX:
        return None
    return _LineReader(line.decode("utf-8", "replace"), numbers, split).read()


class _LineReader:
    """Reads one line."""

    def __init__(self, line: str, numbers: NumberStyle, split: str) -> None:
        self._line = line
        self._numbers = numbers
        self._found = LineFindings()
        self._has_place = False
        self._split = split
        """Part of the data that the fields are of from here on."""
        self._is_inherited = bool(split)
        """Whether a heading has named it."""
        self._said_split = ""
        """Part of the data of the last result, up to the next bar: `Val loss: 0.4, acc: 0.6 | lr: 1`."""
        self._last_split = ""
        """Part of the data of the last result beyond bars, for names that would fall together."""
        self._is_loose = False
        """Whether the place is the number of a part of the data: `Test 3, loss: 0.5`."""
        self._at = 0
        self._is_eval = False
        """Whether the line is of a pass over other data than the training's."""
        self._named: dict[str, float] = {}
        self._opens = False
        """Whether the line begins with its first result."""
        self._opens_field = False
        """Whether the line begins with another field."""
        self._result_of_split = ""

    def read(self) -> LineFindings | None:
        line = self._line
        tokens = list(itertools.islice(_TOKEN.finditer(line), _TOKENS_PER_LINE_MAX))
        for match in tokens:
            if match["value"]:
                self._numbers.note(match["value"])
                if average := _AVERAGE.match(line, match.end()):
                    self._numbers.note(average["value"])
        self._take_first_context()
        at = _LEAD.match(line).end()  # type: ignore[union-attr]  # It may match nothing.
        for match in tokens:
            is_first = match.start() <= at
            self._take(match, is_first=is_first)
            if is_first:
                unit = _DURATION.match(line, match.end()) if match["sep"] else None
                end = unit.end() if unit else match.end()  # Time 1.2ms, Acc@1 69.7
                at = _LEAD.match(line, end).end()  # type: ignore[union-attr]
        return self._answer(tokens)

    def _take(self, match: re.Match[str], *, is_first: bool) -> None:
        if match["name"]:
            self._take_field(match, is_first=is_first)
        elif match["at"]:
            self._take_position(int(match["at"]), int(match["of"]))
        elif match["bare_at"]:
            if self._has_place and not self._named:
                self._take_position(int(match["bare_at"]), int(match["bare_of"]))
        elif match["mark"]:
            self._take_mark(match["mark"].lower())
        elif self._is_number(match.end(), is_place=True):
            self._take_place(_classify(match["glued"], True), match["number"], match)

    def _answer(self, tokens: Sequence[re.Match[str]]) -> LineFindings | None:
        found = self._found
        if self._is_eval and found.step_of and found.position is None:
            found.position, found.step = (found.step or 0, found.step_of), None
        if found.position and self._is_eval:
            at, of = found.position
            if at < of - 1 or not self._named:
                return None  # Only the last line of a pass says the result of all of it.
            found.position, self._has_place = None, True
        if not self._named:
            found.heading = self._split
            is_place = (self._has_place and not self._is_loose) or bool(self._split)
            return found if is_place and self._is_heading(tokens) else None
        if not self._has_place and not self._opens:
            return None
        found.values, found.is_eval = list(self._named.items()), self._is_eval
        return found

    def _is_heading(self, tokens: Sequence[re.Match[str]]) -> bool:
        """Return whether the line says nothing but where the following ones are: `Epoch 3/10`."""
        line, end = self._line, _LEAD.match(self._line).end()  # type: ignore[union-attr]
        if not tokens:
            return False
        left, at = "", min(end, tokens[0].start())
        for match in tokens:
            left += line[at : match.start()]
            at = match.end()
        words = re.findall(r"[^\W\d_]+", left + line[at:])
        return all(word.lower() in _SPLIT_WORDS for word in words)

    # ------------------------------------------------------------ where

    def _take_first_context(self) -> None:
        if _SUMMARY.match(self._line):
            self._split, self._is_eval = "test", True
        match = _CONTEXT_FIRST.match(self._line)
        if match is None:
            return
        self._has_place = True
        self._found.epoch, self._found.is_whole_epoch = float(match["epoch"]), True
        if match["step"]:
            self._found.step = int(match["step"])
        else:
            self._found.position = (int(match["at"]), int(match["of"]))

    def _take_mark(self, split: str) -> None:
        """Take the part of the data that the fields are of from here on."""
        self._split, self._is_inherited = split, False
        self._is_eval = self._is_eval or (not self._named and bool(split) and split not in _TRAIN)

    def _take_position(self, at: int, of: int) -> None:
        if self._found.position is None and self._found.step is None and of:
            self._found.position = (at, of)

    def _take_place(self, kind: _Kind, text: str, match: re.Match[str]) -> None:
        number = self._numbers.read(text, is_whole=kind.kind != "epoch" or "." not in text)
        if number is None or not 0 <= number < STEP_MAX or self._says_best():
            return
        self._has_place = True
        if not self._named and (kind.split or self._is_inherited):
            self._take_mark(kind.split)  # A heading is not of a line that names its place.
        found, of = self._found, int(match["whole"] or 0)
        if kind.kind == "epoch":
            if found.epoch is None:
                found.epoch, found.epoch_of = number, of
                found.is_whole_epoch = text.replace(",", "").replace("_", "").isdigit()
                # torch's and torchvision's examples count from 0: `Epoch: [0][ 10/100]`.
                found.is_zero_based = (
                    "[" in (match["open"] or "") and ":" in match["sep"] and not of
                )
        elif found.step is None or (found.is_weak and kind.kind == "step"):
            found.step, found.step_of, found.is_weak = int(number), of, kind.kind == "weak"

    def _says_best(self) -> bool:
        """Return whether a result is the best so far, whose epoch is not the one of now."""
        return any(part in ("best", "final") for name in self._named for part in _parts(name))

    # ------------------------------------------------------------ what

    def _take_field(self, match: re.Match[str], *, is_first: bool) -> None:
        line, start, end = self._line, match.start(), match.end()
        is_delimited = (
            is_first
            or line[start - 1 : start] in (",", ";", "|", "(", "[", "{", "\t")
            or line[max(0, start - 2) : start] in ("  ", ", ", "; ", "| ", "- ", ") ", "> ")
        )
        kind = _classify(match["name"], is_delimited)
        if kind.kind in ("epoch", "step", "weak"):
            if self._is_number(end, is_place=True):
                self._take_place(kind, match["value"], match)
        elif not kind.kind:
            is_field = is_first and match["sep"].strip() in (":", "=")
            self._opens_field = self._opens_field or is_field
        elif kind.kind == "split" and match["whole"]:
            self._take_mark(kind.split)  # Test: [ 78/78]
            if "[" in (match["open"] or match["sep"]) and match["value"].isdigit():
                self._take_position(int(match["value"]), int(match["whole"]))
        elif kind.kind == "split" and match["value"].isdigit():
            # Train: 0 [ 3/4 (100%)]      Test 3, loss: 0.5
            is_bar = line[end:].lstrip()[:1] == "[" and line[end : end + 1] == " "
            is_number = not match["sep"].strip() and line[end : end + 1] in (",", ":")
            if is_first and not self._named and (is_bar or is_number):
                self._is_loose = True
                self._take_place(_Kind("epoch", split=kind.split), match["value"], match)
                self._found.is_zero_based = is_bar
        elif (
            self._is_number(end, is_place=False)
            and match["sep"][0] not in "(["  # A call: `acc.update(5)`.
            and not _UNIT.match(line, end)
        ):
            value = self._value(match)
            if value is not None and kind.kind == "split":
                self._take_split(kind, match["value"], value)
            elif value is not None:
                self._take_result(kind, value, match, is_first=is_first)

    def _take_split(self, kind: _Kind, text: str, value: float) -> None:
        """Take `Train: 0.53, Val: 0.41` in a line that has results, and `LOSS train 0.5 valid 0.4`."""
        if self._result_of_split:
            self._add(f"{self._result_of_split} {kind.name}", "", value)
        elif (self._named or self._has_place) and not text.isdigit():
            self._add(kind.name, "", value)

    def _take_result(
        self, kind: _Kind, value: float, match: re.Match[str], *, is_first: bool
    ) -> None:
        if (is_first or self._opens_field) and not self._named:
            opens = kind.kind == "strict" and (kind.is_pure or self._is_whole(match, is_first))
            if not match["sep"].strip():
                opens = opens and is_first and self._stands_alone(match.end())
            self._opens = self._opens or opens
        if kind.kind == "result" and not (self._has_place or self._opens):
            return
        name, words = kind.name, kind.name.split(" ")
        is_split = len(words) == 2 and words[1].lower() in _SPLIT_WORDS
        self._result_of_split = words[0] if is_split else ""
        if "|" in self._line[self._at : match.start()]:
            self._said_split = ""
        self._at = match.end()
        if kind.split:
            # `val_acc=0.5 loss=1.2` spells out what each is of, `Val acc: 0.5, loss: 1.2` does not.
            is_word = any(word.lower() in _SPLIT_WORDS for word in words)
            self._said_split, self._last_split = kind.split if is_word else "", kind.split
        elif kind.kind != "rate" and not kind.is_best:
            split = self._said_split or self._split
            if not split and name in self._named:
                split = self._last_split
            name = f"{split} {name}" if split and split not in _TRAIN else name
        self._add(name, kind.full, value)

    def _add(self, name: str, full: str, value: float) -> None:
        name = name.strip(" .-")
        if name in self._named and full:
            name = full
        if len(self._named) < VALUES_PER_LINE_MAX:
            self._named.setdefault(name, value)

    def _is_number(self, end: int, *, is_place: bool) -> bool:
        """Return whether what follows a number leaves it one: no unit, time or further name."""
        after, then = self._line[end : end + 1], self._line[end + 1 : end + 2]
        if not after or after in " \t,;|)]}'\"*><!(" or not after.isascii():
            return True
        if after in ".-":
            return not then.isalnum()
        return after in "=[?" or (after == ":" and not then.isdigit()) if is_place else after == "%"

    def _is_whole(self, match: re.Match[str], is_first: bool) -> bool:
        """Return whether a line is nothing but one result: `Model accuracy: 93.1%`."""
        words = match["name"].lower().split(" ")
        rest = self._line[match.end() :].strip(" \t%.")
        return (
            is_first
            and not rest
            and len(words) <= 3
            and match["sep"].strip() in (":", "=")
            and not (_FILLERS | _WISHES) & set(words)
        )

    def _stands_alone(self, end: int) -> bool:
        """Return whether a result ends with its number, or another field follows."""
        at = _SPACES.match(self._line, end).end()  # type: ignore[union-attr]
        if self._line[at : at + 1] in ("", *",;|(/%") or _LONE_TIME.match(self._line, at):
            return True
        following = _TOKEN.match(self._line, at)
        return following is not None and bool(following["name"])

    def _value(self, match: re.Match[str]) -> float | None:
        text, end, opened = match["value"], match.end(), (match["open"] or "").strip("\"' \t")
        if match["whole"]:
            return self._share(match)
        if opened == "(" and self._line[end : end + 1] != ")":
            return None
        is_list = opened.endswith("[")
        if is_list and self._line[end : end + 1] == "," and "lr" not in match["name"].lower():
            return None  # The first of several; of learning rates it is the usual one.
        value = self._numbers.read(text)
        if value is None:
            self._found.problems.append(f"{match['name']!r}: {text[:60]!r} is not one number")
        elif self._is_eval and (self._found.position is not None or self._found.step_of):
            # Of a pass over other data the average counts, not the last batch.
            average = _AVERAGE.match(self._line, end)
            if average is not None:
                return self._numbers.read(average["value"])
            return None if self._found.step_of else value
        return value

    def _share(self, match: re.Match[str]) -> float | None:
        """Return the percentage of `9837/10000 (98%)`; None where the two disagree or one is missing."""
        part, whole = self._numbers.read(match["value"], is_whole=True), float(match["whole"])
        if part is None or not match["percent"] or not whole:
            return None
        percent = 100 * part / whole
        return percent if abs(percent - float(match["percent"])) <= 1 else None
