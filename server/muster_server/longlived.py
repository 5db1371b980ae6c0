"""Less garbage collection in processes that live long."""

from __future__ import annotations

import gc

NEW_OBJECTS = 10_000
"""So many more than were freed are made before the youngest are looked through. Python's own 700 are
made by a few requests, and nearly all that they leave behind is freed without being looked for."""


def settle() -> None:
    """Call once, when a process has loaded its code: what is there now is there to stay.

    Modules, routes, models and statements are most of all objects, so looking through them again
    and again would be most of what the collector does.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
