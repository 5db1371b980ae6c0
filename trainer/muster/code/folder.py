"""The folder of code that a document is sent with."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.launch.commands import entry_file


@dataclass(frozen=True, kw_only=True)
class CodeFolder:
    """The folder of an experiment's code, and patterns of ignored files to send all the same."""

    path: Path
    include: Sequence[str] = ()


def _script_of(entrypoint: Any) -> str:
    """Return the file that an entry point runs, as far as it can be read; "" if there is none."""
    try:
        words = shlex.split(entrypoint) if isinstance(entrypoint, str) else list(entrypoint or ())
    except (TypeError, ValueError):
        return ""  # The server says what is wrong with it.
    return entry_file([str(word) for word in words])


def code_folder(base: Path, document: str, overrides: Sequence[str]) -> CodeFolder | None:
    """Return the folder to send: `code.path` relative to `base`, "." for an entry point without
    `code`. None if nothing is to be sent. The server explains what cannot be read here."""
    import yaml

    try:
        parsed = yaml.safe_load(document)
        written = {
            key.strip(): yaml.safe_load(value)
            for key, _, value in (o.partition("=") for o in overrides)
        }
    except (yaml.YAMLError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    code: Any = written.get("code", parsed.get("code"))
    code = dict(code) if isinstance(code, dict) else {}
    code |= {k.removeprefix("code."): v for k, v in written.items() if k.startswith("code.")}
    entrypoint = written.get("entrypoint", parsed.get("entrypoint"))
    script = _script_of(entrypoint)
    is_given = entrypoint or written.get("roles", parsed.get("roles"))
    path = code.get("path")
    if path is None and is_given and "installed" not in code and not script.startswith("/"):
        path = "."
    if not isinstance(path, str) or not path:
        return None
    include = code.get("include")
    written_patterns = include if isinstance(include, list) else [include]
    patterns = tuple(p for p in written_patterns if isinstance(p, str))
    return CodeFolder(path=(base / Path(path).expanduser()).resolve(), include=patterns)
