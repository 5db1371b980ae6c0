"""What a script's own libraries log, captured in the worker without a changed line.

`hooks` names the modules to wait for. When the script imports one of them, the adapter of its library
is loaded and wraps the one place through which that library's values pass; nothing is imported for the
sake of capturing. Values keep the names and steps that the library gives them.

Each value is reported once: a name that the script passes to `muster.log` is its own, and while a
library hands its values to loggers of others, those are not captured again. What goes wrong here is
said once, ends the capturing of that library, and never reaches the script.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from types import ModuleType

from muster.capture.libraries import MODULES


def hooks(routes: Collection[str]) -> dict[str, Callable[[ModuleType], None]]:
    """Return what to call with each module once it has been imported."""
    return {name: _adapter(route) for name, route in MODULES.items() if route in routes}


def _adapter(route: str) -> Callable[[ModuleType], None]:
    def hook(module: ModuleType) -> None:
        from muster.capture import reporting

        try:
            importlib.import_module(f"muster.capture.{route}").hook(module)
        except Exception as error:  # a version of the library that is built in another way
            reporting.give_up(route, error)

    return hook
