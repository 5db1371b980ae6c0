"""Call functions with modules once somebody has imported them. Needs the standard library alone."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import types
    from importlib.machinery import ModuleSpec


def call_after_import(hooks: Mapping[str, Callable[[types.ModuleType], None]]) -> None:
    """Call a function with each of these modules, now or when it has been imported."""
    later = dict(hooks)
    for name in [name for name in later if name in sys.modules]:  # in their order
        later.pop(name)(sys.modules[name])
    if later:
        sys.meta_path.insert(0, AfterImport(later))


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module that has been imported, once for each of these names."""

    def __init__(self, hooks: Mapping[str, Callable[[types.ModuleType], None]]) -> None:
        self._hooks = dict(hooks)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._hooks:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            # Only now: who asks for a spec may want to know no more than whether there is one.
            hook = self._hooks.pop(name, None)
            if hook is not None:
                hook(module)

        loader.exec_module = exec_module  # type: ignore[method-assign] # of this one import
        return spec
