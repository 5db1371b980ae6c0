"""The parts of `bench/capacity`, which are scripts and not a package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "bench" / "capacity"
NAMES = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "measure")


@pytest.fixture(scope="package")
def capacity() -> Iterator[SimpleNamespace]:
    sys.path.insert(0, str(FOLDER))
    modules: dict[str, ModuleType] = {}
    try:
        modules = {name: importlib.import_module(name) for name in NAMES}
        yield SimpleNamespace(**modules)
    finally:
        sys.path.remove(str(FOLDER))
        for name in modules:
            del sys.modules[name]
