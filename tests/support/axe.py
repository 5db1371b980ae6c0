"""What axe-core holds against a page."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).resolve().parents[2] / "frontend/node_modules/axe-core/axe.min.js"


def violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """What axe holds against the page, WCAG 2.2 A and AA and its best practices; of some rules."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    result = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{found['id']} ({found['impact']}): {found['help']}: "
        + json.dumps([node["html"][:160] for node in found["nodes"][:3]])
        for found in result["violations"]
    ]
