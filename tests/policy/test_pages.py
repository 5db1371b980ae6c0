"""Every page of the dashboard is tried with axe, and without an answer of the server."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROUTER = (ROOT / "frontend/src/app/router.tsx").read_text()
ROUTES = re.findall(r'path: "(/[^"]*)"', ROUTER)
LEFT_OUT = {
    "test_accessibility": {
        "/sign-in",
        "/setup",
        "/invitation",
        "/shared-report",
    },  # test_first_run, test_signing_in, test_reports
    # The documentation is in the dashboard; the others ask for nothing until somebody types.
    "test_obstacles": {
        "/sign-in",
        "/setup",
        "/invitation",
        "/shared-report",
        "/docs/$",
        "/submit",
        "/device",
    },
}


def pages_of(name: str) -> list[str]:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tests" / "e2e" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [page.partition("?")[0] for page in module.PAGES]


@pytest.mark.parametrize("name", LEFT_OUT)
def test_no_page_is_left_out(name: str) -> None:
    assert len(ROUTES) > 20
    pages = pages_of(name)
    missing = {
        route
        for route in ROUTES
        if not any(re.fullmatch(re.sub(r"\\\$\w*", "[^/]+", re.escape(route)), p) for p in pages)
    }
    assert missing <= LEFT_OUT[name]
