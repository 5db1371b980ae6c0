"""Helm itself: the program, or the library of its makers inside the package helm-python-sdk."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy/helm/muster"
RELEASE, NAMESPACE = "demo", "prod"
_LIBRARY = """
import json, sys
import helm_python as helm
path, release, namespace, values = sys.argv[1:]
values = json.loads(values)
try:
    with helm.Chart.load(path) as chart:
        rendered = chart.render(values, name=release, namespace=namespace)
        report = helm.lint(path, values, strict=True)
except helm.HelmError as error:
    sys.exit(str(error))
for message in report["messages"]:
    print(message, file=sys.stderr)
if any(message["severity"] >= 2 for message in report["messages"]) or report["errors"]:
    sys.exit(str(report["errors"]))
print("---\\n".join(text for name, text in rendered.items() if not name.endswith("NOTES.txt")))
"""


class ChartRefused(Exception):
    """What Helm says of a chart or its values."""


def has_program() -> bool:
    """Return whether the program `helm` is on the path."""
    return shutil.which("helm") is not None


def why_missing() -> str:
    """Return why nothing can be rendered here; "" if it can."""
    if _has_library() or has_program():
        return ""
    return "no helm: install it, or `pip install helm-python-sdk`"


def _has_library() -> bool:
    return importlib.util.find_spec("helm_python") is not None


def render(values: dict[str, Any], *, with_program: bool | None = None) -> list[dict[str, Any]]:
    """Lint the chart strictly with these values, and return the objects that it makes. Raises
    ChartRefused.

    with_program: whether the program renders them, from a file as a person writes it; None: only where
    the library is missing.
    """
    if with_program if with_program is not None else not _has_library():
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(values, file)
            file.flush()
            options = [str(CHART), "--namespace", NAMESPACE, "--values", file.name]
            _run(["helm", "lint", "--strict", *options])
            text = _run(["helm", "template", RELEASE, *options])
    else:
        # In a process of its own: Go's runtime stays for the rest of a process.
        arguments = [str(CHART), RELEASE, NAMESPACE, json.dumps(values)]
        text = _run([sys.executable, "-c", _LIBRARY, *arguments])
    things = [thing for thing in yaml.safe_load_all(text) if thing]
    return sorted(things, key=_place)  # the program sorts by kinds, the library by files


def _place(thing: dict[str, Any]) -> tuple[str, str, str]:
    return thing["kind"], thing["metadata"]["namespace"], thing["metadata"]["name"]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise ChartRefused(done.stdout + done.stderr)
    return done.stdout
