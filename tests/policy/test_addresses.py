"""The dashboard may be below a path, so an address that the router does not make goes through `url()`."""

from __future__ import annotations

import re
from pathlib import Path

FRONTEND = Path(__file__).resolve().parents[2] / "frontend"
FROM_THE_ROOT = re.compile(
    r"""\b(?:href|src|action)=\{?["'`]/"""  # <a href="/licenses.txt">
    r"""|(?<!url\()(?<!POST\()(?<!const path = )["'`]/(?:api|mlflow|viewer)/[^"'`]*\$\{"""  # `/api/v1/exports/${id}/file`
    r"""|\b(?:fetch|open|URL|WebSocket)\(["'`]/"""
    r"""|\blocation\.origin\b"""
)
BY_HAND = {"address.ts", "Prose.tsx"}
"""Files that put the path in front themselves."""


def test_no_address_of_the_dashboard_begins_at_the_root_of_the_host() -> None:
    files = [
        f
        for f in (FRONTEND / "src").rglob("*.ts*")
        if ".test." not in f.name and f.name not in BY_HAND
    ]
    assert len(files) > 300
    found = [
        f"{file.relative_to(FRONTEND)}: {match[0]}"
        for file in files
        for match in FROM_THE_ROOT.finditer(file.read_text())
    ]
    assert found == []
