"""Files of requirements in the code of a job: their text as uv reads it, and the files they include.

The server judges by it what is submitted, and the agent names an environment by it. Nothing but the
standard library is imported.
"""

from __future__ import annotations

import codecs
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

EDITABLE_REFUSED = (
    "environment.requirements has an editable package (-e), whose folder belongs to one trial; leave "
    "-e out, or use code.installed"
)
_INCLUDED = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)[\s=]+(\S+)", re.MULTILINE)
_EDITABLE = re.compile(r"^\s*(?:-e|--editable)\b", re.MULTILINE)
_MARKED = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class UnreadableRequirements(Exception):
    """A file of requirements cannot be used; the message names it and says why."""


def read_requirements(
    files: Iterable[str], read: Callable[[Sequence[str]], Mapping[str, bytes]]
) -> dict[str, str]:
    """Return the texts of the files, of those they include, and of the project of a uv.lock, by path.

    files: paths relative to the code folder.
    read: returns the content of files by path, without those that do not exist.
    Raises UnreadableRequirements, and whatever `read` raises.
    """
    texts: dict[str, str] = {}
    wanted = [posixpath.normpath(file) for file in files]
    while wanted := [name for name in dict.fromkeys(wanted) if name not in texts]:
        found = read(wanted)
        following = []
        for name in wanted:
            if name not in found:
                raise UnreadableRequirements(f"{name} does not exist in the code folder")
            try:
                text = texts[name] = decode_requirements(found[name])
            except ValueError as error:
                raise UnreadableRequirements(f"{name} cannot be read: {error}") from None
            folder = posixpath.dirname(name)
            if posixpath.basename(name) == "uv.lock":
                following.append(posixpath.join(folder, "pyproject.toml"))
            if name.endswith(".txt"):
                included = [path for path in _INCLUDED.findall(text) if "://" not in path]
                following += [posixpath.normpath(posixpath.join(folder, at)) for at in included]
        wanted = following
    return texts


def decode_requirements(data: bytes) -> str:
    """Return the text of a file: UTF-8, or UTF-16 with its mark, as PowerShell writes it. Raises
    ValueError."""
    if data.startswith(_MARKED):
        return data.decode("utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-16")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise ValueError("it is not text in UTF-8; save the file as UTF-8")
    return text


def has_editable(texts: Iterable[str]) -> bool:
    """Return whether a file of requirements has an editable package."""
    return any(_EDITABLE.search(text) for text in texts)
