"""The benchmarks by name: `python -m bench --list`, `python -m bench NAME [OPTIONS]`."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def questions() -> dict[str, str]:
    """Return what each benchmark answers, by the name of its script: the table of README.md."""
    rows = re.findall(
        r"^\| `([\w/]+)\.py` \| (.*?) \|", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    return dict(rows)


def main(arguments: list[str]) -> int:
    known = questions()
    if arguments and arguments[0] in known:
        script = str(FOLDER / f"{arguments[0]}.py")
        sys.argv = [script, *arguments[1:]]
        sys.path.insert(0, str(FOLDER))
        runpy.run_path(script, run_name="__main__")
        return 0
    if arguments and arguments != ["--list"]:
        sys.stderr.write(f"error: there is no benchmark {arguments[0]!r}; --list names them\n")
        return 2
    width = max(map(len, known))
    print("\n".join(f"{name:{width}}  {question}" for name, question in sorted(known.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
