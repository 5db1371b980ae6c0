"""Print how large the code is and what it takes to start, as Markdown; only files in git count.

    .venv/bin/python scripts/sizes.py [CHECKOUT] [--no-runs]

For another commit: `git worktree add ../then COMMIT`, then `.venv/bin/python scripts/sizes.py ../then`.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FILE_LIMIT = 700
"""Lines of a file of product code."""
FOLDER_LIMIT = 25
"""Modules of a folder, without `__init__.py`."""
CODE = (".py", ".ts", ".tsx", ".mjs", ".css", ".sh", ".md", ".yaml", ".yml")
MODULES = (".py", ".ts", ".tsx")
GENERATED = re.compile(
    r"schema\.gen\.ts|docs/reference/(cli|experiment-document|metrics|rest-api|settings)\.md"
)
FOLDERS = ("server", "agent", "trainer", "migrations", "tests", "bench", "scripts", "docs")
PARTS = {
    "tests of the dashboard": r"frontend/src/(.*\.test\.tsx?|testing/)",
    "texts of the dashboard": r"frontend/src/i18n/",
    "dashboard": r"frontend/",
    "optional parts": r"parts/",
    **{name: f"{name}/" for name in FOLDERS},
    "others": "",
}
"""Part → how the paths of its files begin; the first one counts."""
PRODUCT = {"server", "agent", "trainer", "optional parts", "dashboard"}
COMMAND = "import sys; from muster.cli import main; sys.argv = {}; main()"
STARTS = {
    "`muster --help`": COMMAND.format(["muster", "--help"]),
    "`muster list --help`": COMMAND.format(["muster", "list", "--help"]),
    "server": "from muster_server import app, settings; app.create_app(settings.Settings())",
    "agent": "import muster_agent.loop",
}


def part_of(name: str) -> str:
    return next(part for part, pattern in PARTS.items() if re.match(pattern, name))


def read(root: Path) -> dict[str, str]:
    """Return the texts of all code and documentation in git, by path."""
    command = ["git", "-C", str(root), "ls-files"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    names = [name for name in names if name.endswith(CODE) and (root / name).is_file()]
    return {name: (root / name).read_text() for name in names}


def table(*rows: tuple[object, ...]) -> str:
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    cells.insert(1, ["---", *["--:"] * (len(rows[0]) - 1)])
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def lines_by_part(texts: dict[str, str]) -> str:
    """Return a table of lines, without and with blank and generated ones, and of public names."""
    written, whole, names = Counter[str](), Counter[str](), Counter[str]()
    for name, text in texts.items():
        part, lines = part_of(name), text.splitlines()
        whole[part] += len(lines)
        written[part] += 0 if GENERATED.search(name) else sum(bool(line.strip()) for line in lines)
        names[part] += public_names(name, text)
    head = ("part", "lines", "with blank and generated ones", "public names")
    rows = [(part, written[part], whole[part], names[part]) for part in PARTS]
    return table(head, *rows, ("all", written.total(), whole.total(), names.total()))


def public_names(name: str, text: str) -> int:
    """Return how many functions, classes and methods are public; what is exported, in TypeScript."""
    if not name.endswith(".py"):
        return len(re.findall(r"^export \w+ \w", text, re.MULTILINE)) if name[-3:] != ".md" else 0
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.parse(text).body if isinstance(node, kinds)]
    owners = [node for node in found if isinstance(node, ast.ClassDef)]
    found += [node for owner in owners for node in owner.body if isinstance(node, kinds)]
    return sum(not node.name.startswith("_") for node in found)


def long_files(texts: dict[str, str]) -> dict[str, int]:
    """Return the files of product code over FILE_LIMIT, with their lines."""
    lines = {
        name: len(text.splitlines())
        for name, text in texts.items()
        if part_of(name) in PRODUCT and name.endswith(MODULES) and not GENERATED.search(name)
    }
    return {name: number for name, number in lines.items() if number > FILE_LIMIT}


def full_folders(texts: dict[str, str]) -> dict[str, int]:
    """Return the folders over FOLDER_LIMIT, with their number of modules."""
    paths = [Path(name) for name in texts if name.endswith(MODULES)]
    modules = Counter(str(path.parent) for path in paths if path.name != "__init__.py")
    return {folder: number for folder, number in modules.items() if number > FOLDER_LIMIT}


def starts(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield for each program the best time of five and the peak memory."""
    code = [root / "server", root / "agent", root / "trainer", *root.glob("parts/*")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, code))}
    for name, program in STARTS.items():
        times_s, peak_kib = [], 0
        for _ in range(5):
            command, started = [sys.executable, "-c", program], time.monotonic()
            process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                sys.exit(f"error: {name} ended with {process.returncode}")
            times_s.append(time.monotonic() - started)
            peak_kib = max(peak_kib, usage.ru_maxrss)
        yield name, f"{min(times_s):.2f} s", f"{peak_kib / 1024:.0f} MiB"


def wheel_mb(root: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=root, check=True, capture_output=True)
        return sum(wheel.stat().st_size for wheel in Path(folder).glob("*.whl")) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, nargs="?", default=Path(__file__).resolve().parents[1])
    parser.add_argument("--no-runs", action="store_true", help="start and build nothing")
    options = parser.parse_args()
    root, texts = options.root.resolve(), read(options.root)
    print(lines_by_part(texts))
    print(table((f"over {FOLDER_LIMIT} modules", "modules"), *full_folders(texts).items()))
    print(table((f"over {FILE_LIMIT} lines", "lines"), *long_files(texts).items()))
    if not options.no_runs:
        print(table(("start of", "time", "peak memory"), *starts(root)))
        print(f"The wheel has {wheel_mb(root):.1f} MB.")


if __name__ == "__main__":
    main()
