"""Functions of the user's own code, named `module:function` in the document.

The module is imported from the folder that the worker was started in: the experiment's code.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from muster.document.train_config import ConfigError
from muster.document.trainer_settings import OWN_FUNCTION


def is_own(name: str) -> bool:
    """Return whether a setting names a function of the user rather than something built in."""
    return OWN_FUNCTION.fullmatch(name) is not None


def function(name: str) -> Callable[..., Any]:
    """Return the function that `module:function` names.

    Raises ConfigError when there is no such module or function. What goes wrong within the module
    is the user's, and is raised as it is.
    """
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"{name}: there is no module {error.name!r} in {here}; put it into the folder of "
            "code.path, and name it without .py"
        ) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise ConfigError(f"{name}: {module.__name__} has no function {attribute!r}")
    return found  # type: ignore[no-any-return]


def model(name: str, *, inputs: tuple[int, ...], classes: int) -> nn.Module:
    """Return the model that the user's function builds for the shape of one sample and the number
    of classes. Raises ConfigError if it is not a module."""
    made = function(name)(inputs=inputs, classes=classes)
    if not isinstance(made, nn.Module):
        raise ConfigError(f"{name}: expected a torch.nn.Module, got {type(made).__name__}")
    return made
