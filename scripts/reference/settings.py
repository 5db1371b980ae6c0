"""docs/reference/settings.md, from the fields of the settings and their docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from muster_agent.settings import AgentSettings
from muster_server.settings import Settings

HEAD = """\
# Settings

Everything is an environment variable, read once when a process starts. A wrong value or a misspelt name
keeps the process from starting: all of them are listed at once, each with the form or the name that works.
`muster-server check` prints what a server would use, with secrets masked, and tests the database, Redis,
and the keys of secrets. It also lists the variables `MUSTER_…` that nothing reads, and ends with 1 if
something does not work.

Times end in `_S` (seconds), sizes in `_BYTES`. Lists are JSON: `["a", "b"]`.
"""
SERVER = """
## Server, controller and Celery worker

The same for all three, so give them the same environment.

"""
AGENT = """
## Agent

"""


def render() -> str:
    return (
        HEAD + SERVER + _table(Settings, "MUSTER_") + AGENT + _table(AgentSettings, "MUSTER_AGENT_")
    )


def _table(settings: Any, prefix: str) -> str:
    lines = ["| variable | default | meaning |", "| --- | --- | --- |"]
    documents = _docstrings(settings)
    for name, field in settings.model_fields.items():
        meaning = " ".join(documents.get(name, "").split()).replace("|", "\\|")
        lines.append(f"| `{prefix}{name.upper()}` | {_default(field)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _docstrings(settings: Any) -> dict[str, str]:
    """Field → the string literal below it."""
    (class_,) = ast.parse(textwrap.dedent(inspect.getsource(settings))).body
    assert isinstance(class_, ast.ClassDef)
    found = {}
    for node, below in itertools.pairwise(class_.body):
        if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr):
            found[ast.unparse(node.target)] = ast.literal_eval(below.value)
    return found


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    if field.default is PydanticUndefined:
        return "of the machine"  # a factory: host name, home folder
    if field.default is None:
        return "unset"
    value = field.default
    if isinstance(value, list | dict):
        return f"`{value!r}`".replace("'", '"') if value else "none"
    text = str(value)
    return "of the machine" if text.startswith("/") else f"`{text}`"
