"""Pages made from the code are up to date, and CONTRIBUTING names all of them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATORS = sorted((ROOT / "scripts").glob("generate_*.py"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", GENERATORS, ids=[path.stem for path in GENERATORS])
def test_the_page_is_up_to_date(path: Path) -> None:
    module = load(path)
    pages = {module.TARGET: module.generate, **getattr(module, "TRANSLATED", {})}
    for page, generate in pages.items():
        assert page.read_text() == generate(), f"run: .venv/bin/python {path.relative_to(ROOT)}"


def test_contributing_names_every_generated_file() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("## Generated files")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))
    modules = [load(path) for path in GENERATORS]
    pages = [page for m in modules for page in (m.TARGET, *getattr(m, "TRANSLATED", ()))]
    generated = {str(page.relative_to(ROOT)) for page in pages}
    assert generated <= named
    for name in named:
        assert list(ROOT.glob(name)), f"{name} does not exist"
    for script in re.findall(r"(?:scripts|migrations)/[\w./]+", table):
        assert (ROOT / script).exists(), script
