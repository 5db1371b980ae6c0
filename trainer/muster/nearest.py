"""Which known name a mistyped one is meant to be. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` is most likely meant to be; None: nothing is like it."""
    names = sorted(known)
    found = difflib.get_close_matches(name, names, n=3)
    if found:
        # adam is adamw rather than radam.
        return next((other for other in found if other.startswith(name)), found[0])
    parts = re.split(r"[/._-]", name.lower())
    inside = [other for other in names if parts[-1] and parts[-1] in other.lower()]
    # learning_rate: the letters with which its words begin.
    initials = "".join(part[0] for part in parts if part)
    return inside[0] if inside else next((o for o in names if o == initials and len(o) > 1), None)
