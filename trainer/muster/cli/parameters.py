"""Values of parameters without pydantic, whose import takes longer than most commands run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args, get_origin

from typer.core import TyperArgument, TyperOption

DIGITS_MAX = 9
"""Longer numbers are left to typer."""


def spare_pydantic() -> None:
    """Let parameters take plain values as they are; typer converts the others, and says what is wrong with
    them. To be called once, before any command runs."""
    for kind in (TyperOption, TyperArgument):
        converter_of = getattr(kind, "get_runtime_param", None)
        if converter_of is not None:  # older ones do without pydantic
            setattr(kind, "get_runtime_param", _plain_values(converter_of))  # noqa: B010


def _plain_values(converter_of: Callable[[Any], Any]) -> Callable[[Any], PlainValues]:
    return lambda parameter: PlainValues(partial(converter_of, parameter))


@dataclass(frozen=True)
class PlainValues:
    """Stands for the converter that typer has for a parameter, and loads it when it is needed."""

    load: Callable[[], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return what the command gets for a value. Raises what typer's converter raises."""
        described, is_list = param.type_descriptor, param.multiple or param.nargs == -1
        annotation, information = described.annotation, described.parameter_info
        try:
            if described.file_annotation is None and param.nargs in (1, -1):
                if not is_list:
                    return _plain(value, annotation, information)
                if value is None:
                    return ()
                if get_origin(annotation) is list and isinstance(value, list | tuple):
                    (inner,) = get_args(annotation)
                    return [_plain(item, inner, information) for item in value]
        except ValueError:
            pass
        return self.load().coerce(value, param=param, ctx=ctx)


def _plain(value: Any, annotation: Any, information: Any) -> Any:
    """Return a value as its annotation says. Raises ValueError for one that typer has to convert or refuse,
    and what the parameter's parser raises."""
    if value is None:
        return None
    if information.parser is not None:
        return information.parser(value)
    if annotation is int:
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            value = int(value[: DIGITS_MAX + 1])
        least, most = information.min, information.max
        is_plain = type(value) is int and abs(value) < 10**DIGITS_MAX
        if is_plain and (least is None or value >= least) and (most is None or value <= most):
            return value
    elif annotation is str:
        if type(value) is str:
            return value
    elif get_origin(annotation) is Literal and value in get_args(annotation):
        return value
    raise ValueError
