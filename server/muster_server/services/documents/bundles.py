"""Whether an uploaded code bundle holds the files that a document names."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import PurePosixPath

from muster.document.experiment import ExperimentConfig
from muster.document.running import is_requirements_file
from muster.launch.commands import entry_file
from muster_server.errors import FieldProblem


def check_entry_file(config: ExperimentConfig, names: Collection[str]) -> FieldProblem | None:
    """Return a problem when `names` (the bundle's files, normalised) lack the entry point's script
    or a file of requirements.

    None when they are there, when the entry point names no file (a module may be installed), and
    when the file is an absolute path.
    """
    files = [("entrypoint", entry_file(config.entrypoint or ()))]
    files += [
        ("environment.requirements", item)
        for item in config.environment.requirements
        if is_requirements_file(item)
    ]
    for path, file in files:
        wanted = str(PurePosixPath(file))
        if file and not file.startswith("/") and wanted not in names:
            return FieldProblem(
                path, f"the code bundle has no file {wanted!r}", _hint(wanted, names)
            )
    return None


def _hint(wanted: str, names: Collection[str]) -> str:
    kind = PurePosixPath(wanted).suffix or ".py"
    scripts = [n for n in names if n.endswith(kind)]
    same_name = [n for n in scripts if PurePosixPath(n).name == PurePosixPath(wanted).name]
    near = difflib.get_close_matches(wanted, scripts[:5000], n=3, cutoff=0.5)
    shown = list(dict.fromkeys([*same_name[:3], *near])) or scripts[:5]
    if not shown:
        return f"the bundle holds no {kind} file at all; is code.path the right folder?"
    return f"it holds {', '.join(shown)}"
