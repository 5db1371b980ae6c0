"""Which browser draws the dashboard in tests and pictures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PACKAGES = ["chromium-headless-shell", "chromium"]
"""These are Debian's packages, the better one first: the headless shell lacks what only a window needs,
and browser tests with it take a quarter less of the processors."""
NAMES = [*PACKAGES, "chromium-browser", "google-chrome", "google-chrome-stable"]
ON_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")


def find_browser() -> str | None:
    """The path of a Chromium: $CHROME, or the first on the PATH; None where there is none, or where
    $CHROME is no program."""
    given = os.environ.get("CHROME")
    if given:
        return shutil.which(given)
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or (str(ON_MAC) if ON_MAC.exists() else None)
