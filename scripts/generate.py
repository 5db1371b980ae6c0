"""Make what comes from the code and is not in git: five pages of docs/reference, and the types of the API for
the client and the dashboard.

    scripts/generate [--check]

Each module in scripts/reference makes the page of its name. `scripts/bootstrap.py`, npm's scripts, the tests
and the build of a wheel run this; it does nothing where the code is as it was at the last run. The pages and
the client's types need the packages of the extras `server` and `cli`, the dashboard's types those of the
dashboard: without these, the others are made.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import python_types
from bootstrap import ROOT, Stamps, digest

BUILD = ROOT / "build"
API = BUILD / "openapi.json"
SCHEMA = ROOT / "trainer" / "muster" / "client" / "schema.py"
TYPES = ROOT / "frontend" / "src" / "api" / "schema.gen.ts"
PACKAGES = ROOT / "frontend" / "package-lock.json"
COMPILER = ROOT / "frontend" / "node_modules" / "openapi-typescript" / "bin" / "cli.js"
PARTS = sorted(ROOT.glob("parts/*/pyproject.toml"))
CODE = [*(ROOT / name for name in ("server", "agent", "trainer")), *(part.parent for part in PARTS)]
MAKERS = sorted((ROOT / "scripts" / "reference").glob("*.py"))
PAGES = {
    ROOT / "docs" / "reference" / f"{maker.stem.replace('_', '-')}.md": f"reference.{maker.stem}"
    for maker in MAKERS
}
"""Page → the module that makes it."""


class Step(NamedTuple):
    """Files that are made together."""

    name: str
    files: list[Path]
    inputs: list[Path]
    """What the files are made from."""
    make: Callable[[], None]


def steps() -> Iterator[Step]:
    """Yield the steps, each when those before it are done."""
    code = sorted({path for folder in CODE for path in folder.rglob("*.py")} - {SCHEMA})
    makers = [Path(__file__), Path(python_types.__file__), *MAKERS]
    inputs = [*makers, ROOT / "requirements.lock", *PARTS, *code]
    yield Step("reference", [*PAGES, API, SCHEMA], inputs, make_pages)
    if COMPILER.exists():
        yield Step("types", [TYPES], [API, PACKAGES], make_types)


def write(file: Path, text: str) -> None:
    """Replace the file at once: another process may be reading it."""
    part = file.with_name(f"{file.name}.part")
    part.write_text(text)
    part.replace(file)


def find_code() -> None:
    """Let this process, and those it starts, import the code where it is not installed: in the build of a
    wheel or of an image. Parts are found by their entry points."""
    found = BUILD / "parts"
    version = re.search(r'__version__ = "(.+)"', (ROOT / "trainer/muster/__init__.py").read_text())
    assert version is not None
    shutil.rmtree(found, ignore_errors=True)  # what the version before has left
    for part in PARTS:
        project = tomllib.loads(part.read_text())["project"]
        information = found / f"{project['name'].replace('-', '_')}-{version[1]}.dist-info"
        information.mkdir(parents=True, exist_ok=True)
        write(
            information / "METADATA",
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version[1]}\n",
        )
        lines = [
            line
            for group, entries in project.get("entry-points", {}).items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
        ]
        write(information / "entry_points.txt", "\n".join(lines) + "\n")
    folders = [str(folder) for folder in (*CODE, found)]
    sys.path[1:1] = folders
    # An isolated build finds its packages by this variable.
    given = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *given])


def make_pages() -> None:
    find_code()
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:
        del os.environ[name]  # the pages have the defaults
    try:
        for page, module in PAGES.items():
            text = importlib.import_module(module).render()
            write(page, f"<!-- Made by scripts/generate: edit the code. -->\n\n{text}")
    except ModuleNotFoundError as error:
        sys.exit(
            "error: the pages of the reference are made from Muster's code, which needs the package "
            f"{error.name}.\nhint: run scripts/bootstrap.py, or install the extras server and cli"
        )
    document = importlib.import_module("reference.rest_api").read_api()[1]
    write(API, json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    write(SCHEMA, python_types.render(document))


def make_types() -> None:
    part = TYPES.with_name(f"{TYPES.name}.part")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = ["node", str(COMPILER), str(API), "-o", str(part)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path})
    part.replace(TYPES)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="only say by the exit status whether all is current"
    )
    check = parser.parse_args().check
    stamps = Stamps(BUILD / "stamps")
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "generate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for step in steps():
            made_from = digest(step.inputs)
            if all(file.exists() for file in step.files) and stamps.is_current(
                step.name, made_from
            ):
                continue
            if check:
                sys.exit(1)
            step.make()
            stamps.write(step.name, made_from)


if __name__ == "__main__":
    main()
