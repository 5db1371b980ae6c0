"""What an environment is made of, as the name that it is kept under."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from muster.document.running import EnvironmentSection, is_requirements_file
from muster_agent.environments.base import BaseInterpreter
from muster_agent.environments.failures import BuildFailed

_INCLUDED = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)[\s=]+(\S+)", re.MULTILINE)
_EDITABLE = re.compile(r"^\s*(?:-e|--editable)\b", re.MULTILINE)
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
    texts: dict[str, str] = {}
    for item in wanted.requirements:
        if is_requirements_file(item):
            _read(code / item, code, texts)
            if Path(item).name == "uv.lock":
                _read((code / item).with_name("pyproject.toml"), code, texts)
        else:
            texts[item] = ""
    if code_id and any(_EDITABLE.search(text) for text in texts.values()):
        raise BuildFailed(
            "environment.requirements has an editable package (-e), whose folder belongs to one "
            "trial; leave -e out, or use code.installed",
            fault="document",
        )
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


def _read(path: Path, code: Path, texts: dict[str, str]) -> None:
    """Read a requirements file and what it includes into `texts`. Raises BuildFailed."""
    name = os.path.relpath(path, code)
    if name in texts:
        return
    try:
        text = texts[name] = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BuildFailed(
            f"environment.requirements: {name} cannot be read in the code folder: {reason}",
            fault="document",
        ) from error
    if path.suffix == ".txt":
        for included in _INCLUDED.findall(text):
            if "://" not in included:
                _read(path.parent / included, code, texts)
