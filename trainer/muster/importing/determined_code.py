"""Entry points and code folders of Determined. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from .draft import ImportDraft

RUNNER = "muster.det_compat"
"""Module that runs scripts which import `determined`."""
LAUNCHERS = ("deepspeed", "horovod", "tensorflow", "torch_distributed")
SHELL_SYNTAX = re.compile(r"[|&;<>`]|\$\(|\$\{?\w")
TRIAL_API = re.compile(
    r"^\s*(?:from\s+determined(?:\.(?!core\b|launch\b|common\b)\w+)+\s+import"
    r"|from\s+determined\s+import\s+(?:\(\s*)?(?:\w+\s*,\s*)*(?:pytorch|keras|transformers|experimental)\b"
    r"|import\s+determined\.(?!core\b|launch\b))",
    re.MULTILINE,
)
"""Imports of parts of Determined that `muster.det_compat` does not have."""
USES_DETERMINED = re.compile(r"^\s*(?:from|import)\s+determined\b", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """What is known of the folder with the code."""

    path: str
    """Name that the document has for it."""
    scripts: Mapping[str, str]
    """Text of its Python files by relative path."""
    others: Sequence[str] = ()
    """Relative paths of other files at its top."""

    @property
    def uses_determined(self) -> bool:
        return any(USES_DETERMINED.search(text) for text in self.scripts.values())

    @property
    def trial_api(self) -> list[str]:
        """Files that use the Trial API or other parts that det_compat does not have."""
        return [path for path, text in self.scripts.items() if TRIAL_API.search(text)]


def add_entrypoint(draft: ImportDraft, value: Any, slots: int, model: ModelFolder | None) -> None:
    """Add what to run, and the folder it is in."""
    if model is not None:
        draft.section("code")["path"] = model.path
        draft.became("--model-dir", f"code.path: {model.path}")
        for path in model.trial_api:
            draft.dropped(
                path,
                "it imports parts of Determined that muster.det_compat does not have: only the Core "
                "API runs unchanged",
            )
        if "startup-hook.sh" in model.others:
            draft.dropped(
                "startup-hook.sh",
                "there are no containers to prepare; list packages in `environment.requirements`",
            )
    if value is None:
        draft.error("entrypoint", "it is needed")
        return
    is_text = isinstance(value, str)
    if not is_text and not (isinstance(value, list) and all(isinstance(w, str) for w in value)):
        draft.error("entrypoint", f"{value!r} is not text or a list of texts")
        return
    wraps = model is None or model.uses_determined
    if is_text and SHELL_SYNTAX.search(value):
        _command(draft, ["bash", "-c", value.strip()], wraps, "it is for a shell")
        return
    try:
        words = shlex.split(value) if is_text else list(value)
    except ValueError as error:
        draft.error("entrypoint", f"{value!r} cannot be split into words: {error}")
        return
    if not words:
        draft.error("entrypoint", "it is empty")
    elif len(words) == 1 and re.fullmatch(r"[\w.]+:\w+", words[0]):
        _refuse_trial(draft, words[0])
    else:
        _program(draft, words, wraps, slots)


def _refuse_trial(draft: ImportDraft, trial: str) -> None:
    draft.error(
        "entrypoint",
        f"{trial} is a class of the Trial API, which needs Determined's Trainer: write its loop as "
        "a script, with muster.det_compat or the SDK",
    )


def _program(draft: ImportDraft, words: list[str], wraps: bool, slots: int) -> None:
    launcher, rest = _launcher_of(words)
    if launcher is None:
        _plain(draft, words, wraps)
        return
    program, trial = _without_options(rest)
    if trial:
        _refuse_trial(draft, trial)
        return
    if not program:
        draft.error("entrypoint", f"determined.launch.{launcher} is given no program")
        return
    if launcher == "tensorflow":
        _plain(draft, program, wraps, "one process on each node; TF_CONFIG is not set")
        return
    script = _script_of(program)
    if script is None:
        draft.error(
            "entrypoint",
            f"determined.launch.{launcher} starts {program[0]!r}; torchrun starts Python scripts and "
            "modules",
        )
        return
    why = {
        "torch_distributed": "torchrun starts a worker on each slot",
        "deepspeed": "torchrun starts a worker on each slot; deepspeed.init_distributed() finds them",
        "horovod": "torchrun starts a worker on each slot; import muster.hvd as hvd",
    }[launcher]
    draft.document["entrypoint"] = ["-m", RUNNER, *script] if wraps else script
    draft.document["launcher"] = "torchrun"
    draft.became("entrypoint", f"entrypoint: {shlex.join(draft.document['entrypoint'])}", why)


def _launcher_of(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the launcher of Determined that a command begins with, and what follows."""
    if len(words) > 2 and _is_python(words[0]) and words[1] == "-m":
        for launcher in LAUNCHERS:
            if words[2] == f"determined.launch.{launcher}":
                return launcher, list(words[3:])
    return None, list(words)


def _without_options(words: list[str]) -> tuple[list[str], str]:
    """Return the program behind a launcher's options, and the class that `--trial` names."""
    for i, word in enumerate(words):
        if word == "--trial" and i + 1 < len(words):
            return [], words[i + 1]
        if word == "--":
            return words[i + 1 :], ""
        if _is_python(word) or word.endswith(".py"):
            return words[i:], ""
    first = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    if first < len(words) and re.fullmatch(r"[\w.]+:\w+", words[first]):
        return [], words[first]
    return words[first:], ""


def _script_of(words: Sequence[str]) -> list[str] | None:
    """Return a Python script, or `-m` and a module, with its arguments; None for other programs."""
    left = list(words[1:]) if words and _is_python(words[0]) else list(words)
    if words and _is_python(words[0]):
        while left and left[0].startswith("-") and left[0] != "-m":
            left.pop(0)  # -u and the like
    if left and (left[0].endswith(".py") or (left[0] == "-m" and len(left) > 1)):
        return left
    return None


def _plain(draft: ImportDraft, words: list[str], wraps: bool, why: str = "") -> None:
    script = _script_of(words)
    why = why or "once on each node, as Determined does"
    if script is None:
        _command(draft, words, wraps, why)
        return
    start = ["python", "-m", RUNNER] if wraps else ["python"]
    draft.document["entrypoint"] = [*start, *script]
    draft.document["launcher"] = "shell"
    draft.became("entrypoint", f"entrypoint: {shlex.join(draft.document['entrypoint'])}", why)


def _command(draft: ImportDraft, words: list[str], wraps: bool, why: str) -> None:
    draft.document["entrypoint"] = ["python", "-m", RUNNER, "--", *words] if wraps else words
    draft.document["launcher"] = "shell"
    draft.became("entrypoint", f"entrypoint: {shlex.join(draft.document['entrypoint'])}", why)


def _is_python(word: str) -> bool:
    return re.fullmatch(r"python[0-9.]*", PurePosixPath(word).name) is not None
