"""Less garbage collection in processes that live long."""

from __future__ import annotations

import gc

NEW_OBJECTS = 10_000
"""Number of new objects (allocations minus deallocations) that triggers a collection of the
youngest. Python's own 700 are made by a few requests, and nearly all that they leave behind is
freed without being looked for."""


def hold_off() -> None:
    """Call before a process loads its code. Nearly all that loading makes is there to stay, and
    looking through it again and again takes a sixth of the time of the imports."""
    gc.disable()


def settle() -> None:
    """Call when a process has loaded its code, or as much again as it has held so far: what is there now
    is there to stay.

    Modules, routes, models and statements are most of all objects, so looking through them again
    and again would be most of what the collector does.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
