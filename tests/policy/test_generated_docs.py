"""Pages made from the code are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_command_reference_is_up_to_date() -> None:
    path = ROOT / "scripts" / "generate_cli_reference.py"
    spec = importlib.util.spec_from_file_location("generate_cli_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    current = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert current == module.generate(), f"run: .venv/bin/python {path.relative_to(ROOT)}"
