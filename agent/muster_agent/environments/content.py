"""What an environment or a data set is made of, as the name that it is kept under."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.code.requirements import (
    EDITABLE_REFUSED,
    UnreadableRequirements,
    has_editable,
    read_requirements,
)
from muster.document.running import EnvironmentSection, is_requirements_file
from muster_agent.environments.base import BaseInterpreter
from muster_agent.environments.failures import BuildFailed

_LOCAL = re.compile(r"^\s*(?:\.{0,2}/|file:)|@\s*(?:\.{0,2}/|file:)", re.MULTILINE)


def key_of(
    wanted: EnvironmentSection,
    base: BaseInterpreter,
    *,
    code: Path,
    code_id: str,
    environment: Mapping[str, str],
    image_id: str = "",
) -> str:
    """Return a name that differs whenever the environment could. Raises BuildFailed.

    image_id: image that the interpreter is in; "" for one of the node.
    """
    files = [item for item in wanted.requirements if is_requirements_file(item)]
    packages = [item for item in wanted.requirements if item not in files]
    texts = {**dict.fromkeys(packages, ""), **_texts(files, code)}
    if code_id and has_editable(texts.values()):
        raise BuildFailed(EDITABLE_REFUSED, fault="document")
    is_of_code = bool(wanted.setup) or any(
        _LOCAL.search(f"{name}\n{text}") for name, text in texts.items()
    )
    content = {
        "requirements": texts,
        "torch": wanted.torch,
        "setup": wanted.setup,
        "code": (code_id or str(code)) if is_of_code else "",
        "base": [os.path.realpath(base.python), base.version, base.platform, base.sites],
        **({"image": image_id} if image_id else {}),
        "packages": [folder.name for folder in base.metadata()],
        "indexes": {
            name: value
            for name, value in sorted(environment.items())
            if name.startswith("UV_") and name not in ("UV_CACHE_DIR", "UV_OFFLINE")
        },
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def key_of_data(command: str, version: str, inputs: Sequence[str] = (), *, code: Path) -> str:
    """Return a name that differs for another command, version, content of other data sets, or content of the
    files of the code that the command names, as a path or after `-m`. What those files read is not looked
    at."""
    content: list[object] = [command, version, *inputs]
    with contextlib.suppress(ValueError):  # A quote is missing: the shell will say so.
        for word in shlex.split(command):
            for name in (word, f"{word.replace('.', '/')}.py"):
                file = (code / name).resolve()
                if file.is_file() and file.is_relative_to(code.resolve()):
                    with file.open("rb") as opened:
                        content.append([name, hashlib.file_digest(opened, "sha256").hexdigest()])
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]


def _texts(files: Sequence[str], code: Path) -> dict[str, str]:
    """Return the files of requirements and what they include, by path. Raises BuildFailed."""

    def read(names: Sequence[str]) -> dict[str, bytes]:
        return {name: (code / name).read_bytes() for name in names if (code / name).exists()}

    try:
        return read_requirements(files, read)
    except UnreadableRequirements as error:
        reason = str(error)
    except OSError as error:
        reason = f"{os.path.relpath(str(error.filename), code)} cannot be read: {error.strerror}"
    raise BuildFailed(f"environment.requirements: {reason}", fault="document")
