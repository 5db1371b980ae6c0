"""Runs a script, a module or a command for which `import determined` is muster.det_compat."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

SITE = Path(__file__).with_name("site")
USAGE = "python -m muster.det_compat SCRIPT | -m MODULE | -- COMMAND, each with its arguments"


def main(words: list[str]) -> None:
    if not words or (words[0] in ("-m", "--") and len(words) < 2):
        sys.exit(f"usage: {USAGE}")
    # The environment for processes that the script starts, the path for itself.
    others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(SITE), *others]))
    if words[0] == "--":
        os.execvpe(words[1], words[1:], dict(os.environ))  # noqa: S606  # the job's own command
    sys.path.insert(1, str(SITE))
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
